//! How states become the bodies of records, and come back.
//!
//! [`Codec`] is captured where the type of the state is known to be serialisable, as plain functions, so that nothing else needs the bound.
//!
//! A state is refused when it is to be committed unless it comes back from JSON as it was. That is checked by its structure
//! ([`structure`](crate::log::structure)), and by `PartialEq` where the graph was told to (`Graph::compare_states`).

use crate::error::{CheckpointError, During, RunFault, UnknownEffect};
use crate::log::structure;
use crate::log::undo_payload::UndoPayload;
use crate::store::Record;
use pleach_core::catch_panic;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::fmt;

/// How a state is written and read.
pub(crate) struct Codec<S> {
    encode: fn(&S) -> Result<Vec<u8>, serde_json::Error>,
    read: fn(&[u8]) -> Result<StoredStates<S>, serde_json::Error>,
    structure: fn(&S) -> Option<u64>,
    equal: Option<fn(&S, &S) -> bool>,
}

/// What the body of a record that moves a token holds of states.
#[derive(Deserialize)]
pub(crate) struct StoredStates<S> {
    pub(crate) state: S,
    /// The states that the branches of a `map` begin with.
    pub(crate) items: Option<Vec<S>>,
}

/// Why a state cannot be stored.
#[derive(Debug)]
pub(crate) enum Unstorable {
    /// It has no form as JSON, or that form cannot be read.
    Json(serde_json::Error),
    /// What is read is not what was written.
    Changed(Difference),
}

/// How a value differs from what comes back from JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    /// Its `Serialize` says something else about it.
    Structure,
    /// Its `PartialEq` says that they differ.
    Unequal,
}

impl<S> Clone for Codec<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Codec<S> {}

impl<S: Serialize + DeserializeOwned> Codec<S> {
    pub(crate) fn new() -> Self {
        Self {
            encode: |state| serde_json::to_vec(state),
            read: |body| serde_json::from_slice(body),
            structure: |state| structure::hash_of(state),
            equal: None,
        }
    }
}

impl<S> Codec<S> {
    /// Compares states by this, besides their structures.
    pub(crate) fn comparing(mut self, equal: Option<fn(&S, &S) -> bool>) -> Self {
        self.equal = equal;
        self
    }

    /// The body of a record with this state, and with the states that branches begin with. It is read back as a resume reads it: a state that does
    /// not come back as itself is refused here, rather than found after a crash.
    pub(crate) fn body(&self, state: &S, items: Option<&[S]>) -> Result<Vec<u8>, Unstorable> {
        let mut body = br#"{"state":"#.to_vec();
        body.append(&mut (self.encode)(state).map_err(Unstorable::Json)?);
        if let Some(items) = items {
            body.extend_from_slice(br#","items":["#);
            for (number, item) in items.iter().enumerate() {
                body.extend_from_slice(if number > 0 { b"," } else { b"" });
                body.append(&mut (self.encode)(item).map_err(Unstorable::Json)?);
            }
            body.push(b']');
        }
        body.push(b'}');
        let back = self.read(&body).map_err(Unstorable::Json)?;
        self.check_back(state, &back.state)?;
        for (item, back) in items.unwrap_or_default().iter().zip(back.items.iter().flatten()) {
            self.check_back(item, back)?;
        }
        Ok(body)
    }

    /// Fails if a state differs from what was read back.
    fn check_back(&self, state: &S, back: &S) -> Result<(), Unstorable> {
        // Different values may have the same JSON: `null`, floats of 32 and 64 bits, a text and the name of a variant.
        if (self.structure)(state) != (self.structure)(back) {
            return Err(Unstorable::Changed(Difference::Structure));
        }
        if self.equal.is_some_and(|equal| !equal(state, back)) {
            return Err(Unstorable::Changed(Difference::Unequal));
        }
        Ok(())
    }

    /// The states in the body of a record.
    pub(crate) fn read(&self, body: &[u8]) -> Result<StoredStates<S>, serde_json::Error> {
        (self.read)(body)
    }
}

/// How a value differs from what was read back from its JSON, if it does.
fn difference<T: Serialize>(value: &T, back: &T, equal: Option<fn(&T, &T) -> bool>) -> Option<Difference> {
    if structure::hash_of(value) != structure::hash_of(back) {
        return Some(Difference::Structure);
    }
    equal.filter(|equal| !equal(value, back)).map(|_| Difference::Unequal)
}

/// The JSON of a value that comes back from it as it was, or why there is none.
pub(crate) fn stored_json<T: Serialize>(
    value: &T,
    equal: Option<fn(&T, &T) -> bool>,
    read: impl FnOnce(&RawValue) -> Result<T, serde_json::Error>,
) -> Result<Box<RawValue>, String> {
    let json = to_raw_value(value).map_err(|error| error.to_string())?;
    let back = read(&json).map_err(|error| error.to_string())?;
    match difference(value, &back, equal) {
        None => Ok(json),
        Some(difference) => Err(format!("it does not come back from JSON as it was: {difference}")),
    }
}

/// What a body holds besides states: what the undo of the node is given.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredUndo {
    pub(crate) payload: Box<RawValue>,
    /// The effects of the visit whose outcome is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) unknown: Vec<UnknownEffect>,
    /// The record that can be undone before this one. Only records of the first format have it in the body; later ones have it in the header.
    #[serde(default, skip_serializing)]
    pub(crate) before: u64,
}

#[derive(Deserialize)]
struct WithUndo {
    undo: Option<StoredUndo>,
}

/// Adds the payload of an undo to a body, which is an object.
pub(crate) fn add_undo(body: &mut Vec<u8>, payload: &UndoPayload) {
    body.pop();
    if body.len() > 1 {
        body.push(b',');
    }
    body.extend_from_slice(br#""undo":{"payload":"#);
    body.extend_from_slice(payload.json.get().as_bytes());
    if !payload.unknown.is_empty() {
        body.extend_from_slice(br#","unknown":"#);
        body.append(&mut serde_json::to_vec(&payload.unknown).expect("texts have a form as JSON"));
    }
    body.extend_from_slice(b"}}");
}

pub(crate) fn undo_in(body: &[u8]) -> Result<Option<StoredUndo>, serde_json::Error> {
    serde_json::from_slice::<WithUndo>(body).map(|body| body.undo)
}

impl fmt::Display for Unstorable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "the state cannot be written as JSON and read again: {error}"),
            Self::Changed(difference) => write!(f, "the state does not come back from JSON as it was: {difference}"),
        }
    }
}

impl std::error::Error for Unstorable {}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Structure => {
                "a part of it has no form of its own as JSON (`Some(None)`, `Some(())`, a float that is not a number), or is read as another value; change its type, or its Serialize and Deserialize"
            }
            Self::Unequal => "it is not equal to what is read back; a field may be skipped by serde, or set anew when it is read",
        })
    }
}

/// The states in a record, as those of this graph.
pub(crate) fn decode<S>(codec: Codec<S>, record: &Record) -> Result<StoredStates<S>, RunFault> {
    match catch_panic(|| codec.read(&record.body)) {
        Ok(Ok(stored)) => Ok(stored),
        Ok(Err(error)) => {
            let Record { run, sequence, .. } = record;
            let why = format!("record {sequence} of run {run:?} does not decode as the state of this graph: {error}");
            Err(RunFault::Checkpoint(CheckpointError::new(&**run, record.header.node.clone(), "decode", why)))
        }
        Err(reason) => Err(RunFault::panic(record.header.node.clone(), During::Node, &reason)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn deep(depth: usize) -> Value {
        (0..depth).fold(Value::Null, |value, _| Value::Array(vec![value]))
    }

    #[test]
    fn c3_body_that_is_written_can_be_read() {
        let codec = Codec::<Value>::new();
        let (mut states, mut items) = (Vec::new(), Vec::new());
        for depth in 100..140 {
            if let Ok(body) = codec.body(&deep(depth), None) {
                assert_eq!(codec.read(&body).unwrap().state, deep(depth));
                states.push(depth);
            }
            if let Ok(body) = codec.body(&Value::Null, Some(&[Value::Null, deep(depth)])) {
                assert_eq!(codec.read(&body).unwrap().items.unwrap()[1], deep(depth));
                items.push(depth);
            }
        }
        assert_eq!((states.last(), items.last()), (Some(&126), Some(&125)));
    }
}
