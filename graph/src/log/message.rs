//! A signal or an answer that was sent to a run, as its nodes see it.

use crate::store::message_kind::ANSWER;

/// What the names of signals to a run begin with.
pub(crate) const SIGNAL: &str = "signal/";

/// What a message with the answer to an interrupt is called.
pub(crate) fn answer_name(key: &str) -> String {
    format!("{ANSWER}{key}")
}

/// What a message with a signal is called.
pub(crate) fn signal_name(name: &str) -> String {
    format!("{SIGNAL}{name}")
}

/// Something that was posted to a run.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    /// Its number in the inbox of the run; 0 for one that a resume brought along.
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) payload: Vec<u8>,
}
