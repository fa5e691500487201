//! `CheckpointError` and `MismatchError`: why a durable run cannot be stored or resumed.

use crate::error::RunFault;
use crate::store::{BODY, StoreError, TEXT_BYTES_MAX};
use pleach_core::BoxError;
use std::error::Error;
use std::fmt;

/// A checkpoint could not be written or read. Those before it are intact.
#[derive(Debug)]
pub struct CheckpointError {
    /// The run.
    pub run: String,
    /// The node whose checkpoint it is; empty if it is of the run as a whole.
    pub node: String,
    /// What was tried: `create`, `claim`, `open`, `encode`, `decode`, `commit`, `renew`, `inbox`.
    pub op: &'static str,
    /// Why not: a [`StoreError`], or what the state's own code said. It is the `source()` of this error.
    pub reason: BoxError,
}

impl CheckpointError {
    pub(crate) fn new(run: impl Into<String>, node: impl Into<String>, op: &'static str, reason: impl Into<BoxError>) -> Self {
        Self { run: cut(run.into()), node: node.into(), op, reason: reason.into() }
    }

    /// What to do about it, unless the reason says so itself.
    fn advice(&self) -> &'static str {
        match (self.store_error(), self.op) {
            (Some(StoreError::Unavailable(_)), "create") => {
                "it may be there all the same: run it again with this id and `attach` once the store answers"
            }
            (Some(StoreError::Unreachable(_)), "create") => "the run was not made: run it again once the store answers",
            (Some(StoreError::Unavailable(_) | StoreError::Unreachable(_)), _) => {
                "what was committed is intact: resume the run once the store answers"
            }
            (Some(StoreError::TooLarge { what: BODY, .. }), _) => "keep less in the state, or raise `max_state_bytes`",
            (Some(StoreError::TooLarge { .. }), _) => "choose a shorter one",
            (None, "encode") => "the state must have a form as JSON that reads as itself",
            (None, "decode") => "resume it with the state that it was made with, or register a migration",
            _ => "",
        }
    }

    /// The store's error, if it was the store.
    pub fn store_error(&self) -> Option<&StoreError> {
        self.reason.downcast_ref()
    }
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, node, op, reason } = self;
        match node.as_str() {
            "" => write!(f, "checkpointing run {run:?} failed ({op}): {reason}")?,
            node => write!(f, "the checkpoint of run {run:?} at node {node:?} failed ({op}): {reason}")?,
        }
        match self.advice() {
            "" => Ok(()),
            advice => write!(f, "; {advice}"),
        }
    }
}

impl Error for CheckpointError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.reason.as_ref())
    }
}

/// An id, key or name as it stands in errors: its beginning, if it is longer than any that is accepted.
pub(crate) fn cut(text: String) -> String {
    if text.len() <= TEXT_BYTES_MAX {
        return text;
    }
    let beginning: String = text.chars().take(80).collect();
    format!("{beginning}… ({} bytes)", text.len())
}

/// A stored run was made for another graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MismatchError {
    /// The run.
    pub run: String,
    /// What differs: `graph`, `fingerprint`, `schema`, or `node` for a node that is no longer there.
    pub what: &'static str,
    /// What the run has.
    pub stored: String,
    /// What this graph has.
    pub given: String,
}

impl fmt::Display for MismatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, what, stored, given } = self;
        let advice = match *what {
            "graph" => "resume it with the graph it was made for",
            "fingerprint" => "register a migration, or `accept_compatible` if the nodes it stands at are still there",
            "schema" => "register a migration of its state",
            _ => "resume it with a graph that has this node",
        };
        write!(f, "run {run:?} has the {what} {stored:?} and this graph {given:?}: {advice}")
    }
}

impl Error for MismatchError {}

/// A fault with the store's error in its right place.
pub(crate) fn fault_of(run: impl Into<String>, node: impl Into<String>, op: &'static str, error: StoreError) -> RunFault {
    match error {
        StoreError::Fenced { run, epoch } => RunFault::Fenced { run, epoch },
        StoreError::Held { run, owner, left, .. } => RunFault::Held { run, owner, left },
        StoreError::Exists { run } => RunFault::Exists { run },
        error => RunFault::Checkpoint(CheckpointError::new(run, node, op, error)),
    }
}
