//! The payload that a node recorded for its undo.

use crate::error::UnknownEffect;
use serde_json::value::RawValue;

/// The payload of an undo, as JSON, so that it can be stored with the record of the visit.
#[derive(Clone)]
pub(crate) struct UndoPayload {
    pub(crate) json: Box<RawValue>,
    /// The effects of the visit with an unknown outcome.
    pub(crate) unknown: Vec<UnknownEffect>,
}

impl UndoPayload {
    pub(crate) fn of(json: Box<RawValue>) -> Self {
        Self { json, unknown: Vec::new() }
    }

    /// Returns the payload of a node that recorded none: `null`.
    pub(crate) fn nothing() -> Self {
        Self::of(RawValue::NULL.to_owned())
    }
}
