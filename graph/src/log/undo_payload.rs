//! What a node recorded for its undo.

use crate::error::UnknownEffect;
use serde_json::value::RawValue;

/// What a node recorded to be undone by: JSON, so that it can be stored with the step.
#[derive(Clone)]
pub(crate) struct UndoPayload {
    pub(crate) json: Box<RawValue>,
    /// The effects of the visit whose outcome is not known.
    pub(crate) unknown: Vec<UnknownEffect>,
}

impl UndoPayload {
    pub(crate) fn of(json: Box<RawValue>) -> Self {
        Self { json, unknown: Vec::new() }
    }

    /// What an undo is given whose node recorded nothing.
    pub(crate) fn nothing() -> Self {
        Self::of(RawValue::NULL.to_owned())
    }
}
