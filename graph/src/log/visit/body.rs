//! `VisitRecordBody`: the stored form of a visit record.

use crate::error::StoredFault;
use crate::log::visit::Namespace;
use crate::store::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The body of a visit record.
#[derive(Serialize, Deserialize, Default)]
pub(crate) struct VisitRecordBody {
    /// The key of the effect or wait.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) key: String,
    /// For a wait for a signal: its number among the waits for this name, starting at 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<u32>,
    /// The result of an effect, the question of an interrupt, or the message that ended a wait.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub(crate) value: Option<Box<RawValue>>,
    /// For a taken signal: the number of its message, which stays in the inbox until the node got
    /// the signal.
    #[serde(default, rename = "letter", skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<u64>,
    /// The idempotency key with which an effect was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) begun_with: Option<String>,
    /// For the start of an effect: true if the effect may be repeated. Recorded so that its undo
    /// runs if the visit is abandoned.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) repeats: bool,
    /// For a failed attempt: the recorded starts of effects that then returned an error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) not_done: Vec<String>,
    /// The end of a sleep, or of the wait before the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) due: Option<Timestamp>,
    /// The error of a failed attempt, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// For the attempt with which the visit failed permanently: the fault of the run or branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fault: Option<StoredFault>,
    /// For a permanently failed visit in a run that was rewritten while it was undone: the record
    /// that undoes the visit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) undone_by: Option<u64>,
    /// True if this record was copied by a fork: this run did not do the work.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) copied: bool,
    /// The payload for the undo, if no earlier record of the visit has it.
    #[serde(default, rename = "recorded", skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub(crate) undo: Option<Box<RawValue>>,
}

/// Decodes a present `null` as `Some`: many effects return `()`.
fn present<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(value).map(Some)
}

impl VisitRecordBody {
    /// Returns the fields that all records of one wait share.
    pub(crate) fn of_wait(namespace: Namespace, key: &str) -> Self {
        let signal = if let Namespace::Signal(count) = namespace { Some(count) } else { None };
        Self { key: key.to_string(), signal, ..Self::default() }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings, numbers and raw JSON can be serialised")
    }
}
