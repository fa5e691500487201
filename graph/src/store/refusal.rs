//! Refused messages: [`Refusal`] in a commit, [`RefusedMessage`] in a list, and [`RefusalCause`],
//! which says what was wrong as a value.
//!
//! The reason is text and can quote the message. The cause never does, so that logs and health
//! reports can contain it.

use super::Timestamp;
use super::limits::cut_text;
use super::message_kind::ANSWER;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Why a run refused a message, without any content of the message.
///
/// ```
/// use pleach::store::RefusalCause;
///
/// let cause = RefusalCause::WrongType { expected: "bool".into(), line: 1, column: 8 };
/// assert_eq!(cause.to_string(), "expected bool; the value has another type (line 1, column 8)");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RefusalCause {
    /// The value is JSON, but does not decode as the type that the node expects.
    WrongType {
        /// The name of the Rust type that the node expects.
        expected: String,
        /// The line of the value at which decoding stopped, from 1; 0 if it is not known.
        line: u64,
        /// The column at which decoding stopped.
        column: u64,
    },
    /// The value of the message is not JSON.
    NotJson {
        /// The line of the value at which decoding stopped, from 1.
        line: u64,
        /// The column at which decoding stopped.
        column: u64,
    },
    /// The value does not fit into one record.
    TooLarge {
        /// The size of the value in bytes.
        bytes: u64,
        /// The largest size that can be recorded.
        bytes_max: u64,
    },
    /// The message is damaged: its checksum is wrong.
    Damaged,
    /// A command came when the run was already ending.
    TooLate,
    /// The run ended before it took the message.
    RunEnded,
    /// A cause that this version does not know, or that was not stored.
    #[default]
    #[serde(other)]
    Unknown,
}

impl RefusalCause {
    /// Returns the cause of a value that does not decode as `T`.
    pub(crate) fn of_decoding<T>(error: &serde_json::Error) -> Self {
        let (line, column) = (error.line() as u64, error.column() as u64);
        if error.is_data() {
            let expected = cut_text(std::any::type_name::<T>().to_string());
            return Self::WrongType { expected, line, column };
        }
        Self::NotJson { line, column }
    }

    /// Returns what to do about a refused message with this name.
    pub fn advice(&self, name: &str) -> String {
        let sent = if name.starts_with(ANSWER) { "answer" } else { "send it" };
        match self {
            Self::WrongType { expected, .. } => format!("{sent} again with a value of the type {expected}"),
            Self::NotJson { .. } => format!("{sent} again with a value that is JSON"),
            Self::TooLarge { bytes_max, .. } => {
                format!("{sent} again with at most {bytes_max} bytes; store large data elsewhere and send its place")
            }
            Self::Damaged => format!("{sent} again; if it repeats, check the disk of the store"),
            Self::TooLate => "wait for the end of the run; a finished undo cannot be stopped".to_string(),
            Self::RunEnded => "start another run, or rewind this one and send it again".to_string(),
            Self::Unknown => "read the reason in the view of the run, then send a corrected message".to_string(),
        }
    }
}

impl fmt::Display for RefusalCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongType { expected, line: 0, .. } => write!(f, "expected {expected}; the value has another type"),
            Self::WrongType { expected, line, column } => {
                write!(f, "expected {expected}; the value has another type (line {line}, column {column})")
            }
            Self::NotJson { line, column } => write!(f, "the value is not JSON (line {line}, column {column})"),
            Self::TooLarge { bytes, bytes_max } => {
                write!(f, "the value has {bytes} bytes; at most {bytes_max} can be recorded")
            }
            Self::Damaged => f.write_str("the message is damaged"),
            Self::TooLate => f.write_str("the run is already ending, so the command has no effect"),
            Self::RunEnded => f.write_str("the run ended before it took the message"),
            Self::Unknown => f.write_str("the cause is not known to this version"),
        }
    }
}

/// An inbox message that its run refuses with a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The number of the message in the inbox.
    pub number: u64,
    /// Why the run refuses it, shortened to [`REASON_BYTES_MAX`](super::REASON_BYTES_MAX) bytes.
    pub reason: String,
    /// The same as a value, without content of the message.
    pub cause: RefusalCause,
    /// The record of the wait that refused it; `None` if no wait did.
    pub wait: Option<u64>,
}

/// An inbox message that its run refused, as [`Store::refused`](super::Store::refused) lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusedMessage {
    /// The number of the message in the inbox; 0 for an in-memory run.
    pub number: u64,
    /// The name of the message: `answer/KEY`, `signal/NAME` or `command/VERB`.
    pub name: String,
    /// Why the run refused it, as text. It can quote the message.
    pub reason: String,
    /// When the message was sent, by the store's clock.
    pub at: Timestamp,
    /// Why the run refused it, as a value without content of the message.
    /// [`Unknown`](RefusalCause::Unknown) for messages refused before format 5 of the tables.
    pub cause: RefusalCause,
    /// The record of the wait that refused it. `None` if no wait did, and for an in-memory run.
    pub wait: Option<u64>,
}

impl RefusedMessage {
    /// Creates an entry of the list, with an unknown cause.
    pub fn new(number: u64, name: String, reason: String, at: Timestamp) -> Self {
        Self { number, name, reason, at, cause: RefusalCause::Unknown, wait: None }
    }

    /// Sets the cause, and the record of the wait that refused the message.
    pub fn because(mut self, cause: RefusalCause, wait: Option<u64>) -> Self {
        (self.cause, self.wait) = (cause, wait);
        self
    }

    /// Returns what to do about it: what to send instead.
    pub fn advice(&self) -> String {
        self.cause.advice(&self.name)
    }
}

/// The stored form of the cause: JSON.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
#[derive(Default, Serialize, Deserialize)]
struct StoredCause {
    #[serde(default)]
    cause: RefusalCause,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wait: Option<u64>,
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
impl Refusal {
    /// Returns the stored form of cause and wait.
    pub(super) fn stored_cause(&self) -> String {
        let stored = StoredCause { cause: self.cause.clone(), wait: self.wait };
        serde_json::to_string(&stored).expect("texts and numbers can be serialised")
    }
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
impl RefusedMessage {
    /// Sets cause and wait from their stored form. No execution depends on them, so an unreadable
    /// form counts as unknown.
    pub(super) fn with_stored_cause(self, stored: Option<String>) -> Self {
        let StoredCause { cause, wait } = stored.and_then(|stored| serde_json::from_str(&stored).ok()).unwrap_or_default();
        self.because(cause, wait)
    }
}
