//! States of a run, and how two of them differ.

use super::{ProgramValue, Values, Version};
use pleach::durable::{JsonPatch, PatchOperation};
use serde::Serialize;

/// A state of a run: the object *state* of `docs/cli.md`.
#[derive(Debug, Serialize)]
pub struct StateJson<'a> {
    version: Version,
    store: &'a str,
    id: &'a str,
    record: u64,
    state: ProgramValue<'a>,
}

impl<'a> StateJson<'a> {
    /// Builds the object from the JSON text of the state at a record.
    pub fn of(store: &'a str, id: &'a str, record: u64, state: ProgramValue<'a>) -> Self {
        Self { version: Version, store, id, record, state }
    }
}

/// The difference of the states at two records of a run.
#[derive(Clone, Debug)]
pub struct StateDiff {
    /// The argument STORE by which commands name the store.
    pub store: String,
    /// The id of the run.
    pub id: String,
    /// The record with the first state.
    pub from: u64,
    /// The record with the second state.
    pub to: u64,
    /// What turns the first state into the second.
    pub patch: JsonPatch,
}

/// A difference: the object *diff* of `docs/cli.md`.
#[derive(Debug, Serialize)]
pub struct DiffJson<'a> {
    version: Version,
    store: &'a str,
    id: &'a str,
    from: u64,
    to: u64,
    patch: Vec<OperationJson<'a>>,
}

/// One operation of a JSON patch (RFC 6902).
#[derive(Debug, Serialize)]
struct OperationJson<'a> {
    op: &'a str,
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<ProgramValue<'a>>,
}

impl StateDiff {
    /// Returns the object, with at most `operations_max` operations.
    pub fn json(&self, how: Values, operations_max: usize) -> DiffJson<'_> {
        let patch = self.patch.operations.iter().take(operations_max).map(|operation| OperationJson::of(operation, how));
        DiffJson { version: Version, store: &self.store, id: &self.id, from: self.from, to: self.to, patch: patch.collect() }
    }
}

impl<'a> OperationJson<'a> {
    fn of(operation: &'a PatchOperation, how: Values) -> Self {
        let (op, path, value) = match operation {
            PatchOperation::Add { path, value } => ("add", path.as_str(), Some(value.get())),
            PatchOperation::Remove { path } => ("remove", path.as_str(), None),
            PatchOperation::Replace { path, value } => ("replace", path.as_str(), Some(value.get())),
            PatchOperation::Other { name } => (name.as_str(), "", None),
            _ => ("other", "", None),
        };
        Self { op, path, value: value.map(|value| ProgramValue::new(value, how)) }
    }
}
