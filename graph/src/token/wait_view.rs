//! [`WaitView`]: a wait of a run, as callers see it.

use crate::store::{RefusedMessage, Timestamp};

/// One wait of a node: for an answer, a signal or a time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitView {
    /// The key of the interrupt or the sleep, or the name of the signal.
    pub key: String,
    /// The question of an interrupt, as JSON.
    pub question: Option<String>,
    /// Since when the node waits, by the store's clock. `None` for an in-memory run.
    pub since: Option<Timestamp>,
    /// When the wait ends at the latest, by the store's clock.
    pub due: Option<Timestamp>,
    /// Whether the node waits for a signal, and not for an answer or a time.
    pub is_signal: bool,
    /// The last message that this wait refused, with what to send instead. `None` for an in-memory
    /// run.
    pub refused: Option<RefusedMessage>,
}
