//! A signal or answer to a run, as its nodes see it.

use crate::store::message_kind::ANSWER;

/// The prefix of signal names in the inbox.
pub(crate) const SIGNAL: &str = "signal/";

/// Returns the message name of the answer to an interrupt.
pub(crate) fn answer_name(key: &str) -> String {
    format!("{ANSWER}{key}")
}

/// Returns the message name of a signal.
pub(crate) fn signal_name(name: &str) -> String {
    format!("{SIGNAL}{name}")
}

/// A signal or answer that was sent to a run.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    /// The number in the inbox of the run; 0 for a message that a resume carried.
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) payload: Vec<u8>,
}
