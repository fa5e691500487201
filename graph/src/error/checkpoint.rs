//! [`CheckpointError`] and [`MismatchError`]: why a durable run cannot be stored or resumed.

use crate::error::RunFault;
use crate::store::{BODY, StoreError, TEXT_BYTES_MAX};
use pleach_core::BoxError;
use std::error::Error;
use std::fmt;

/// A checkpoint could not be written or read. Earlier checkpoints are intact.
#[derive(Debug)]
pub struct CheckpointError {
    /// The id of the stored run.
    pub run: String,
    /// The node of the checkpoint; empty if it belongs to the run as a whole.
    pub node: String,
    /// The operation that failed: `create`, `claim`, `open`, `encode`, `decode`, `commit`, `renew`
    /// or `inbox`.
    pub op: &'static str,
    /// The reason: a [`StoreError`], or the error of the state's serialization. It is the
    /// `source()` of this error.
    pub reason: BoxError,
}

impl CheckpointError {
    pub(crate) fn new(run: impl Into<String>, node: impl Into<String>, op: &'static str, reason: impl Into<BoxError>) -> Self {
        Self { run: cut(run.into()), node: node.into(), op, reason: reason.into() }
    }

    /// Returns advice, unless the reason already contains it.
    fn advice(&self) -> &'static str {
        match (self.store_error(), self.op) {
            (Some(StoreError::Unavailable(_)), "create") => {
                "the run may have been created: start it again with this id and `attach` once the store answers"
            }
            (Some(StoreError::Unreachable(_)), "create") => "the run was not created: start it again once the store answers",
            (Some(StoreError::Unavailable(_) | StoreError::Unreachable(_)), _) => {
                "all earlier commits are intact: resume the run once the store answers"
            }
            (Some(StoreError::TooLarge { what: BODY, .. }), _) => "keep less data in the state, or raise `max_state_bytes`",
            (Some(StoreError::TooLarge { .. }), _) => "choose a shorter one",
            (None, "encode") => "the state must serialize to JSON and deserialize to an equal value",
            (None, "decode") => "resume the run with the state type it was created with, or register a migration",
            _ => "",
        }
    }

    /// Returns the error of the store, if the store failed.
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

/// Shortens an id, key or name for an error if it is longer than any accepted one.
pub(crate) fn cut(text: String) -> String {
    if text.len() <= TEXT_BYTES_MAX {
        return text;
    }
    let beginning: String = text.chars().take(80).collect();
    format!("{beginning}… ({} bytes)", text.len())
}

/// A stored run was created for another graph, or another version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MismatchError {
    /// The id of the stored run.
    pub run: String,
    /// The difference: `graph`, `fingerprint`, `schema`, or `node` for a node that this graph does
    /// not have.
    pub what: &'static str,
    /// The value in the stored run.
    pub stored: String,
    /// The value that this graph has.
    pub given: String,
}

impl fmt::Display for MismatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, what, stored, given } = self;
        let advice = match *what {
            "graph" => "resume it with the graph it was created for",
            "fingerprint" => "register a migration, or use `accept_compatible` if this graph still has the nodes of its tokens",
            "schema" => "register a migration of its state",
            _ => "resume it with a graph that has this node",
        };
        write!(f, "run {run:?} has {what} {stored:?}, but this graph has {given:?}: {advice}")
    }
}

impl Error for MismatchError {}

/// Converts an error of the store to the matching fault.
pub(crate) fn fault_of(run: impl Into<String>, node: impl Into<String>, op: &'static str, error: StoreError) -> RunFault {
    match error {
        StoreError::Fenced { run, epoch } => RunFault::Fenced { run, epoch },
        StoreError::Held { run, owner, left, .. } => RunFault::Held { run, owner, left },
        StoreError::Exists { run } => RunFault::Exists { run },
        error => RunFault::Checkpoint(CheckpointError::new(run, node, op, error)),
    }
}
