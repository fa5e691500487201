//! [`EffectError`]: why an effect or a wait fails its node. [`UnknownEffect`]: an effect with an
//! unknown outcome.

use serde::{Deserialize, Serialize};
use std::fmt;

/// An effect or a wait was not possible. It fails the node that asked for it, as its
/// [`source`](std::error::Error::source).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EffectError {
    /// One attempt used the same key twice, so its two uses cannot be distinguished.
    UsedTwice {
        /// The key that was used twice.
        key: String,
    },
    /// An at-most-once effect was interrupted, and its outcome is unknown. Check the external
    /// system, then record the outcome by hand.
    EffectUnknown {
        /// The key of the effect.
        key: String,
        /// The idempotency key with which the effect started.
        idempotency_key: String,
    },
    /// The key contains a NUL or is too long, so no answer or signal can name it.
    InvalidKey {
        /// The key, shortened if it is long.
        key: String,
        /// Why the key is not valid.
        reason: String,
    },
    /// A result, question, answer or undo payload does not survive a round trip through JSON.
    Unstorable {
        /// The key of the value; `record_undo` for an undo payload.
        key: String,
        /// Why the value cannot be stored.
        reason: String,
    },
    /// The node recorded an undo payload of a type that its undo does not take.
    UndoType {
        /// The type that was recorded.
        given: String,
        /// The type that the undo takes.
        takes: String,
    },
    /// The wait can never be answered: the run is neither stored nor in a scope, or it is being
    /// undone.
    Unanswerable {
        /// The key of the wait.
        key: String,
    },
}

impl fmt::Display for EffectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UsedTwice { key } => {
                write!(f, "the key {key:?} is used twice in one attempt: give each effect and each wait its own key")
            }
            Self::EffectUnknown { key, idempotency_key } => write!(
                f,
                "the effect {key:?} was interrupted and may or may not have happened: search for the idempotency key \
                 {idempotency_key:?} in the external system"
            ),
            Self::InvalidKey { key, reason } => write!(f, "invalid key {key:?}: {reason}"),
            Self::Unstorable { key, reason } => write!(f, "the value of {key:?} cannot be stored: {reason}"),
            Self::UndoType { given, takes } => {
                write!(f, "the node recorded a {given} for its undo, but its undo takes a {takes}")
            }
            Self::Unanswerable { key } => write!(
                f,
                "the wait for {key:?} can never be answered: run the graph with `checkpoint` or `in_scope`; an undo cannot wait"
            ),
        }
    }
}

impl std::error::Error for EffectError {}

/// An effect that started and whose outcome is unknown: it may have happened.
///
/// An undo reads it with [`NodeContext::unknown_effects`](crate::NodeContext::unknown_effects).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UnknownEffect {
    /// The key that the node gave the effect.
    pub key: String,
    /// The idempotency key with which the effect started. Search for it in the external system.
    pub idempotency_key: String,
}
