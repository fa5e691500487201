//! `EffectError`: how an effect or a wait fails its node. `UnknownEffect`: one whose outcome nobody knows.

use serde::{Deserialize, Serialize};
use std::fmt;

/// An effect or a wait could not be done as asked. It fails the node that asked, as its [`source`](std::error::Error::source).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EffectError {
    /// The same key twice in one attempt: nothing could tell the two apart.
    UsedTwice {
        /// The key.
        key: String,
    },
    /// An effect that may happen once at most was cut off, and nobody knows whether it happened: see, and then record it by hand.
    EffectUnknown {
        /// Its key.
        key: String,
        /// The idempotency key that it was begun with.
        idempotency_key: String,
    },
    /// A key that no answer or signal could name: it contains a NUL, or is too long.
    InvalidKey {
        /// The key, cut if it is long.
        key: String,
        /// What is wrong with it.
        why: String,
    },
    /// A result, question, answer or undo payload cannot be written as JSON and read again.
    Unstorable {
        /// The key; `record_undo` for an undo payload.
        key: String,
        /// Why.
        why: String,
    },
    /// The node recorded a payload of a type that its undo does not take.
    UndoType {
        /// The type that was recorded.
        given: String,
        /// The type that the undo takes.
        takes: String,
    },
    /// Nobody could answer: the run is neither stored nor within a scope, or it is being undone.
    Unanswerable {
        /// The key.
        key: String,
    },
}

impl fmt::Display for EffectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UsedTwice { key } => {
                write!(f, "the key {key:?} is used twice in one attempt: give each effect and wait its own")
            }
            Self::EffectUnknown { key, idempotency_key } => write!(
                f,
                "the effect {key:?} was cut off, and may or may not have happened: look for {idempotency_key:?} where it happens"
            ),
            Self::InvalidKey { key, why } => write!(f, "the key {key:?} cannot be used: {why}"),
            Self::Unstorable { key, why } => write!(f, "what belongs to {key:?} cannot be stored: {why}"),
            Self::UndoType { given, takes } => {
                write!(f, "it recorded a {given} to be undone by, and its undo takes a {takes}")
            }
            Self::Unanswerable { key } => {
                write!(f, "nobody can answer {key:?}: run it with `checkpoint`, or `within` a scope; an undo asks nobody")
            }
        }
    }
}

impl std::error::Error for EffectError {}

/// An effect that began and whose outcome is not known: it may have happened. An undo is told of it by
/// [`NodeContext::unknown_effects`](crate::NodeContext::unknown_effects).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UnknownEffect {
    /// The key that the node gave it.
    pub key: String,
    /// The idempotency key that it began with. Look for it where the effect happens.
    pub idempotency_key: String,
}
