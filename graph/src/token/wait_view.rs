//! What a token waits for, as callers see it.

use crate::store::Timestamp;

/// Something that a node waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitView {
    /// The key of the interrupt or the sleep, or the name of the signal.
    pub key: String,
    /// What the node asks, as JSON.
    pub question: Option<String>,
    /// Until when it waits at most, by the store's clock.
    pub due: Option<Timestamp>,
    /// Whether it waits for a signal, and not for an answer or a time.
    pub is_signal: bool,
}
