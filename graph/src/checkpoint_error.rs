//! What can go wrong with a run that is kept in a store, and how the failure of a run is written down.

use crate::error::{During, MergeError, NodeError, PanicError, RouterError, RunFault};
use crate::store::StoreError;
use pleach_core::{BoxError, Reason};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// A checkpoint could not be written or read. Those before it are intact.
#[derive(Debug)]
pub struct CheckpointError {
    /// The node whose checkpoint it is; empty if it is of the run as a whole.
    pub node: String,
    /// What was tried: `create`, `claim`, `open`, `encode`, `decode`, `commit`, `renew`, `inbox`.
    pub op: &'static str,
    /// Why not: a [`StoreError`], or what the state's own code said. It is the `source()` of this error.
    pub reason: BoxError,
}

impl CheckpointError {
    pub(crate) fn new(node: impl Into<String>, op: &'static str, reason: impl Into<BoxError>) -> Self {
        Self { node: node.into(), op, reason: reason.into() }
    }

    /// The store's error, if it was the store.
    pub fn store_error(&self) -> Option<&StoreError> {
        self.reason.downcast_ref()
    }
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, op, reason } = self;
        match node.as_str() {
            "" => write!(f, "checkpointing failed ({op}): {reason}"),
            node => write!(f, "the checkpoint at node {node:?} failed ({op}): {reason}"),
        }
    }
}

impl Error for CheckpointError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.reason.as_ref())
    }
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
pub(crate) fn fault_of(node: impl Into<String>, op: &'static str, error: StoreError) -> RunFault {
    match error {
        StoreError::Fenced { run, epoch } => RunFault::Fenced { run, epoch },
        StoreError::Held { run, owner, left, .. } => RunFault::Held { run, owner, left },
        StoreError::Exists { run } => RunFault::Exists { run },
        error => RunFault::Checkpoint(CheckpointError::new(node, op, error)),
    }
}

/// Why a branch or a run failed, as it is written down.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredFault {
    kind: StoredKind,
    node: String,
    #[serde(default)]
    attempt: u32,
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    location: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredKind {
    Node,
    Panic,
    Router,
    Merge,
    Limit,
    Other,
}

impl StoredFault {
    pub(crate) fn of(fault: &RunFault) -> Self {
        let new = |kind, node: &str, attempt, text: String| Self { kind, node: node.into(), attempt, text, location: None };
        match fault {
            RunFault::Node(error) => new(StoredKind::Node, &error.node, error.attempt, error.reason.to_string()),
            RunFault::Panic(error) => {
                Self { location: error.location.clone(), ..new(StoredKind::Panic, &error.node, 0, error.payload.clone()) }
            }
            RunFault::Router(error) => new(StoredKind::Router, &error.node, 0, error.answer.clone()),
            RunFault::Merge(error) => new(StoredKind::Merge, &error.node, 0, error.reason.to_string()),
            RunFault::MaxIterations { next, .. } => new(StoredKind::Limit, next, 0, fault.to_string()),
            other => new(StoredKind::Other, "", 0, other.to_string()),
        }
    }

    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers have a form as JSON")
    }

    /// The fault again, its reasons as text.
    pub(crate) fn into_fault(self) -> RunFault {
        let Self { kind, node, attempt, text, location } = self;
        match kind {
            StoredKind::Panic => RunFault::Panic(PanicError { node, during: During::Node, payload: text, location }),
            StoredKind::Router => RunFault::Router(RouterError { node, answer: text, declared: Vec::new() }),
            StoredKind::Merge => RunFault::Merge(MergeError { node, reason: Reason::Error(text.into()) }),
            StoredKind::Node | StoredKind::Limit | StoredKind::Other => {
                RunFault::Node(NodeError { node, attempt, reason: Arc::new(Reason::Error(text.into())) })
            }
        }
    }
}
