//! `VisitRecordBody`: the stored form of a visit record.

use crate::error::StoredFault;
use crate::log::visit::Namespace;
use crate::store::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The body of a note.
#[derive(Serialize, Deserialize, Default)]
pub(crate) struct VisitRecordBody {
    /// Which effect or wait.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) key: String,
    /// For a wait for a signal: which one of those for signals of this name, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<u32>,
    /// The result of an effect, the question of an interrupt, the answer that woke a wait.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub(crate) value: Option<Box<RawValue>>,
    /// Of a signal that a wait took: the number of its message, which stays in the inbox until the node was given the signal.
    #[serde(default, rename = "letter", skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<u64>,
    /// The idempotency key that an effect was begun with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) begun_with: Option<String>,
    /// Of a note that an effect began: the effect may be repeated. It is noted so that it is undone if its visit is cut off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) repeats: bool,
    /// Of a failed attempt: the effects that were noted as begun, and then said that they did not happen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) not_done: Vec<String>,
    /// Until when a sleep lasts, or the next attempt waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) due: Option<Timestamp>,
    /// Why an attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// Of an attempt with which the visit failed for good: how the run, or the branch, fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fault: Option<StoredFault>,
    /// Of a visit that failed for good, in a run that was written anew while it was undone: the record that undoes the visit, or undid it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) undone_by: Option<u64>,
    /// Of a note that was copied from the run that this one was forked from: this run did not do it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) copied: bool,
    /// What the node has recorded to be undone by, if no earlier note says so.
    #[serde(default, rename = "recorded", skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub(crate) undo: Option<Box<RawValue>>,
}

/// A value that is `null` is there: many effects have no other result.
fn present<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(value).map(Some)
}

impl VisitRecordBody {
    /// What all visit records of one wait say.
    pub(crate) fn of_wait(namespace: Namespace, key: &str) -> Self {
        let signal = if let Namespace::Signal(count) = namespace { Some(count) } else { None };
        Self { key: key.to_string(), signal, ..Self::default() }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts, numbers and JSON have a form as JSON")
    }
}
