//! Converts states to record bodies and back.
//!
//! [`Codec`] is captured where the state type is known to be serialisable, as plain functions. So
//! no other code needs the trait bounds.
//!
//! Invariant: a state is committed only if it survives a round trip through JSON. Its structure is
//! compared ([`structure`](crate::log::structure)), and `PartialEq` where `Graph::compare_states`
//! was called.

use crate::error::{CheckpointError, During, RunFault, UnknownEffect};
use crate::log::structure;
use crate::log::undo_payload::UndoPayload;
use crate::store::Record;
use pleach_core::catch_panic;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::fmt;

/// Encodes and decodes the states of one graph.
pub(crate) struct Codec<S> {
    encode: fn(&S, &mut Vec<u8>) -> Result<(), serde_json::Error>,
    read: fn(&[u8]) -> Result<StoredStates<S>, serde_json::Error>,
    structure: fn(&S) -> Option<u64>,
    equal: Option<fn(&S, &S) -> bool>,
}

/// The states in the body of a record that moves a token.
#[derive(Deserialize)]
pub(crate) struct StoredStates<S> {
    pub(crate) state: S,
    /// For a `map` fan-out: the first states of its branches.
    pub(crate) items: Option<Vec<S>>,
}

/// The reason why a state cannot be stored.
#[derive(Debug)]
pub(crate) enum Unstorable {
    /// It cannot be written as JSON, or its JSON cannot be read.
    Json(serde_json::Error),
    /// The value read back differs from the original.
    Changed(Difference),
}

/// How a value differs from the value read back from its JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    /// The structures differ, by `Serialize`.
    Structure,
    /// The values differ, by `PartialEq`.
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
            encode: |state, body| serde_json::to_writer(body, state),
            read: |body| serde_json::from_slice(body),
            structure: |state| structure::hash_of(state),
            equal: None,
        }
    }
}

impl<S> Codec<S> {
    /// Also compares states with `equal`.
    pub(crate) fn comparing(mut self, equal: Option<fn(&S, &S) -> bool>) -> Self {
        self.equal = equal;
        self
    }

    /// Encodes the body of a record with a state and the first states of branches. Decodes it
    /// again, so that a state that does not survive the round trip is rejected now and not after a
    /// crash.
    pub(crate) fn body(&self, state: &S, items: Option<&[S]>) -> Result<Vec<u8>, Unstorable> {
        let mut body = br#"{"state":"#.to_vec();
        (self.encode)(state, &mut body).map_err(Unstorable::Json)?;
        if let Some(items) = items {
            body.extend_from_slice(br#","items":["#);
            for (number, item) in items.iter().enumerate() {
                body.extend_from_slice(if number > 0 { b"," } else { b"" });
                (self.encode)(item, &mut body).map_err(Unstorable::Json)?;
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

    /// Fails if a state differs from the value read back.
    fn check_back(&self, state: &S, back: &S) -> Result<(), Unstorable> {
        match difference(state, back, self.structure, self.equal) {
            None => Ok(()),
            Some(difference) => Err(Unstorable::Changed(difference)),
        }
    }

    /// Decodes the states in the body of a record.
    pub(crate) fn read(&self, body: &[u8]) -> Result<StoredStates<S>, serde_json::Error> {
        (self.read)(body)
    }
}

/// Returns how a value differs from the value read back from its JSON. `structure` returns the hash
/// of its structure.
fn difference<T>(
    value: &T,
    back: &T,
    structure: fn(&T) -> Option<u64>,
    equal: Option<fn(&T, &T) -> bool>,
) -> Option<Difference> {
    // Different values can have the same JSON: `null`, `f32` and `f64`, a text and the name of a
    // variant.
    if structure(value) != structure(back) {
        return Some(Difference::Structure);
    }
    equal.filter(|equal| !equal(value, back)).map(|_| Difference::Unequal)
}

/// Returns the JSON of a value, or an error text if it does not survive the round trip.
pub(crate) fn stored_json<T: Serialize>(
    value: &T,
    equal: Option<fn(&T, &T) -> bool>,
    read: impl FnOnce(&RawValue) -> Result<T, serde_json::Error>,
) -> Result<Box<RawValue>, String> {
    let json = to_raw_value(value).map_err(|error| error.to_string())?;
    let back = read(&json).map_err(|error| error.to_string())?;
    match difference(value, &back, structure::hash_of, equal) {
        None => Ok(json),
        Some(difference) => Err(format!("it changes when it is written to JSON and read back: {difference}")),
    }
}

/// The undo payload in a record body.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredUndo {
    pub(crate) payload: Box<RawValue>,
    /// The effects of the visit with an unknown outcome.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) unknown: Vec<UnknownEffect>,
    /// The previous record that can be undone. Records of the first format have it in the body,
    /// later records in the header.
    #[serde(default, skip_serializing)]
    pub(crate) before: u64,
}

/// The part of a record body that holds the undo payload.
#[derive(Deserialize)]
struct WithUndo {
    undo: Option<StoredUndo>,
}

/// Adds an undo payload to a record body, which is a JSON object.
pub(crate) fn add_undo(body: &mut Vec<u8>, payload: &UndoPayload) {
    body.pop();
    if body.len() > 1 {
        body.push(b',');
    }
    body.extend_from_slice(br#""undo":{"payload":"#);
    body.extend_from_slice(payload.json.get().as_bytes());
    if !payload.unknown.is_empty() {
        body.extend_from_slice(br#","unknown":"#);
        body.append(&mut serde_json::to_vec(&payload.unknown).expect("strings can be serialised"));
    }
    body.extend_from_slice(b"}}");
}

/// Decodes the undo payload of a record body, if it has one.
pub(crate) fn undo_in(body: &[u8]) -> Result<Option<StoredUndo>, serde_json::Error> {
    serde_json::from_slice::<WithUndo>(body).map(|body| body.undo)
}

impl fmt::Display for Unstorable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "the state cannot be written to JSON and read back: {error}"),
            Self::Changed(difference) => write!(f, "the state changes when it is written to JSON and read back: {difference}"),
        }
    }
}

impl std::error::Error for Unstorable {}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Structure => {
                "JSON has no distinct form for a part of it (`Some(None)`, `Some(())`, a NaN), or reads it as another value; change the type, or its Serialize and Deserialize"
            }
            Self::Unequal => "it is not equal to the value read back; serde may skip a field, or set it when it is read",
        })
    }
}

/// Encodes the states of a record after this node. A panic of the user's `Serialize`,
/// `Deserialize` or `PartialEq` becomes a fault.
pub(crate) fn encode<S>(codec: &Codec<S>, state: &S, items: Option<&[S]>, run: &str, node: &str) -> Result<Vec<u8>, RunFault> {
    let error = match catch_panic(|| codec.body(state, items)) {
        Ok(Ok(body)) => return Ok(body),
        Ok(Err(error)) => CheckpointError::new(run, node, "encode", error),
        Err(reason) => CheckpointError::new(run, node, "encode", format!("the state cannot be serialized: {reason}")),
    };
    Err(RunFault::Checkpoint(error))
}

/// Decodes the states of a record for a graph. A panic of the user's `Deserialize` becomes a fault.
pub(crate) fn decode<S>(codec: Codec<S>, record: &Record) -> Result<StoredStates<S>, RunFault> {
    match catch_panic(|| codec.read(&record.body)) {
        Ok(Ok(stored)) => Ok(stored),
        Ok(Err(error)) => {
            let Record { run, sequence, .. } = record;
            let reason = format!("record {sequence} of run {run:?} does not decode as the state of this graph: {error}");
            Err(RunFault::Checkpoint(CheckpointError::new(&**run, record.header.node.clone(), "decode", reason)))
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
    fn c3_written_body_can_be_read() {
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
