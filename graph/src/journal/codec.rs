//! `Codec`: how states become the bodies of records, and come back. It is captured where the type is known to be serialisable, as plain
//! functions, so that nothing else needs the bound.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a state is written and read.
pub(crate) struct Codec<S> {
    encode: fn(&S) -> Result<Vec<u8>, serde_json::Error>,
    decode: fn(&[u8]) -> Result<S, serde_json::Error>,
    read: fn(&[u8]) -> Result<Stored<S>, serde_json::Error>,
}

/// What the body of a record that moves a token holds of states.
#[derive(Deserialize)]
pub(crate) struct Stored<S> {
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
    NotItself,
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
            decode: |bytes| serde_json::from_slice(bytes),
            read: |body| serde_json::from_slice(body),
        }
    }
}

impl<S> Codec<S> {
    /// The state as JSON. One that does not come back as itself is refused here, rather than found after a crash.
    pub(crate) fn encode(&self, state: &S) -> Result<Vec<u8>, Unstorable> {
        let bytes = (self.encode)(state).map_err(Unstorable::Json)?;
        let back = (self.decode)(&bytes).map_err(Unstorable::Json)?;
        let again = (self.encode)(&back).map_err(Unstorable::Json)?;
        if again == bytes || is_reordered(&again, &bytes) { Ok(bytes) } else { Err(Unstorable::NotItself) }
    }

    /// The body of a record with this state, and with the states that branches begin with.
    pub(crate) fn body(&self, state: &S, items: Option<&[S]>) -> Result<Vec<u8>, Unstorable> {
        let mut body = br#"{"state":"#.to_vec();
        body.append(&mut self.encode(state)?);
        if let Some(items) = items {
            body.extend_from_slice(br#","items":["#);
            for (number, item) in items.iter().enumerate() {
                body.extend_from_slice(if number > 0 { b"," } else { b"" });
                body.append(&mut self.encode(item)?);
            }
            body.push(b']');
        }
        body.push(b'}');
        Ok(body)
    }

    /// The states in the body of a record.
    pub(crate) fn read(&self, body: &[u8]) -> Result<Stored<S>, serde_json::Error> {
        (self.read)(body)
    }
}

/// What a body holds besides states: what the undo of the node is given, and the record that can be undone before it.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredUndo {
    pub(crate) payload: Box<serde_json::value::RawValue>,
    pub(crate) before: u64,
}

#[derive(Deserialize)]
struct WithUndo {
    undo: Option<StoredUndo>,
}

/// Adds an undo to a body, which is an object.
pub(crate) fn add_undo(body: &mut Vec<u8>, undo: &StoredUndo) -> Result<(), serde_json::Error> {
    let undo = serde_json::to_vec(undo)?;
    body.pop();
    if body.len() > 1 {
        body.push(b',');
    }
    body.extend_from_slice(br#""undo":"#);
    body.extend_from_slice(&undo);
    body.push(b'}');
    Ok(())
}

pub(crate) fn undo_in(body: &[u8]) -> Result<Option<StoredUndo>, serde_json::Error> {
    serde_json::from_slice::<WithUndo>(body).map(|body| body.undo)
}

/// Maps and sets may come back in another order: then the same bytes are there as often.
fn is_reordered(one: &[u8], other: &[u8]) -> bool {
    let count = |bytes: &[u8]| {
        let mut counts = [0u32; 256];
        bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        counts
    };
    one.len() == other.len() && count(one) == count(other)
}

impl fmt::Display for Unstorable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "the state cannot be written as JSON and read again: {error}"),
            Self::NotItself => {
                f.write_str("the state does not come back from JSON as it was: see to its Serialize and Deserialize")
            }
        }
    }
}

impl std::error::Error for Unstorable {}
