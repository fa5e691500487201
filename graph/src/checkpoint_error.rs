//! What can go wrong with a run that is kept in a store, and how the failure of a run is written down.

use crate::error::{During, FanOutTimeout, GraceEnd, MergeError, NodeError, PanicError, RouterError, RunFault};
use crate::store::{BODY, StoreError, TEXT_BYTES_MAX};
use pleach_core::{BoxError, Cause, Elapsed, Reason};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

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

/// The most bytes that are kept of the text of a failure.
const FAULT_BYTES_MAX: usize = 64 << 10;

/// The text of a failure as it is written down: its beginning, if it is very long.
pub(crate) fn cut_fault(mut text: String) -> String {
    if text.len() > FAULT_BYTES_MAX {
        let size = text.len();
        let end = (0..=FAULT_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push_str(&format!("… ({size} bytes)"));
    }
    text
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

/// Why a branch or a run failed, as it is written down.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct StoredFault {
    kind: StoredKind,
    node: String,
    #[serde(default)]
    attempt: u32,
    text: String,
    /// Of a panic: where, and in which code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    location: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    during: Option<String>,
    /// Of a router: what it may answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    declared: Vec<String>,
    /// How many visits there were, or how many nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    /// The nodes that were undone before this was written anew, by a migration in the middle of the undos.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) undone: Vec<String>,
}

/// What the code that panicked is called in records.
const DURING: [(During, &str); 6] = [
    (During::Node, "node"),
    (During::Router, "router"),
    (During::Split, "split"),
    (During::Merge, "merge"),
    (During::Policy, "policy"),
    (During::Hook, "hook"),
];

/// How a node used its grace after the deadline, as records call it.
const GRACE: [(GraceEnd, &str); 3] =
    [(GraceEnd::Finished, "grace_finished"), (GraceEnd::Failed, "grace_failed"), (GraceEnd::CutOff, "grace_cut_off")];

/// What was cut off at its timeout, if not a node: the branches of its fan-out, after so many nanoseconds.
const FAN_OUT: &str = "fan_out";

/// Whose limit was reached, if not that of a line of control.
const WHOLE_RUN: &str = "run";

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredKind {
    Node,
    Panic,
    Router,
    Merge,
    Limit,
    /// The run was cancelled at its deadline.
    Deadline,
    Other,
}

impl StoredFault {
    fn new(kind: StoredKind, node: &str, attempt: u32, text: String) -> Self {
        let (node, text, declared, undone) = (node.to_string(), cut_fault(text), Vec::new(), Vec::new());
        Self { kind, node, attempt, text, location: None, during: None, declared, limit: None, undone }
    }

    /// An attempt at a node failed, for this reason.
    pub(crate) fn of_node(node: &str, attempt: u32, reason: String) -> Self {
        Self::new(StoredKind::Node, node, attempt, reason)
    }

    pub(crate) fn of(fault: &RunFault) -> Self {
        let new = Self::new;
        match fault {
            RunFault::Node(error) => new(StoredKind::Node, &error.node, error.attempt, error.reason.to_string()),
            RunFault::Panic(error) => {
                let during = DURING.iter().find(|(during, _)| *during == error.during).map(|(_, name)| name.to_string());
                let location = error.location.clone();
                Self { location, during, ..new(StoredKind::Panic, &error.node, 0, error.payload.clone()) }
            }
            RunFault::Router(error) => {
                let declared = error.declared.clone();
                Self { declared, ..new(StoredKind::Router, &error.node, 0, error.answer.clone()) }
            }
            RunFault::Merge(error) => new(StoredKind::Merge, &error.node, 0, error.reason.to_string()),
            RunFault::FanOutTimeout(error) => {
                let (during, nanos) =
                    (Some(FAN_OUT.to_string()), u64::try_from(error.elapsed.0.as_nanos()).unwrap_or(u64::MAX));
                Self { limit: Some(nanos), during, ..new(StoredKind::Node, &error.node, 1, error.elapsed.to_string()) }
            }
            RunFault::MaxIterations { limit, next } => {
                Self { limit: Some(*limit), ..new(StoredKind::Limit, next, 0, fault.to_string()) }
            }
            RunFault::MaxVisits { limit, next } => {
                let during = Some(WHOLE_RUN.to_string());
                Self { limit: Some(*limit), during, ..new(StoredKind::Limit, next, 0, fault.to_string()) }
            }
            RunFault::Cancelled { node, cause: Cause::DeadlineExceeded, was_executing, grace } => {
                let in_grace = GRACE.iter().find(|(end, _)| Some(*end) == *grace).map(|(_, name)| *name);
                let during = was_executing.then(|| in_grace.unwrap_or("node").to_string());
                Self { during, ..new(StoredKind::Deadline, node, 0, fault.to_string()) }
            }
            other => new(StoredKind::Other, "", 0, other.to_string()),
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether the run was cancelled at its deadline.
    pub(crate) fn is_deadline(&self) -> bool {
        self.kind == StoredKind::Deadline
    }

    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers have a form as JSON")
    }

    /// The fault again, its reasons as text. What the first records did not say is taken for a node's.
    pub(crate) fn into_fault(self) -> RunFault {
        let Self { kind, node, attempt, text, location, during, declared, limit, .. } = self;
        match (kind, limit) {
            (StoredKind::Panic, _) => {
                let known = DURING.iter().find(|(_, name)| during.as_deref() == Some(*name));
                let during = known.map_or(During::Node, |(during, _)| *during);
                RunFault::Panic(PanicError { node, during, payload: text, location })
            }
            (StoredKind::Router, _) => RunFault::Router(RouterError { node, answer: text, declared }),
            (StoredKind::Merge, _) => RunFault::Merge(MergeError { node, reason: Arc::new(Reason::Error(text.into())) }),
            (StoredKind::Deadline, _) => {
                let grace = GRACE.iter().find(|(_, name)| during.as_deref() == Some(*name)).map(|(end, _)| *end);
                RunFault::Cancelled { node, cause: Cause::DeadlineExceeded, was_executing: during.is_some(), grace }
            }
            (StoredKind::Node, Some(nanos)) if during.as_deref() == Some(FAN_OUT) => {
                RunFault::FanOutTimeout(FanOutTimeout { node, elapsed: Elapsed(Duration::from_nanos(nanos)) })
            }
            (StoredKind::Limit, Some(limit)) if during.as_deref() == Some(WHOLE_RUN) => {
                RunFault::MaxVisits { limit, next: node }
            }
            (StoredKind::Limit, Some(limit)) => RunFault::MaxIterations { limit, next: node },
            (StoredKind::Node | StoredKind::Limit | StoredKind::Other, _) => {
                RunFault::Node(NodeError { node, attempt, reason: Arc::new(Reason::Error(text.into())) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c7_a_failure_that_was_written_down_with_less_is_still_read() {
        let read = |json: &str| serde_json::from_str::<StoredFault>(json).unwrap().into_fault().to_string();
        assert!(read(r#"{"kind":"limit","node":"a","text":"3 nodes"}"#).contains("3 nodes"));
        assert!(read(r#"{"kind":"router","node":"a","text":"nowhere"}"#).contains("nowhere"));
        assert!(read(r#"{"kind":"panic","node":"a","text":"no","location":"x:1:2"}"#).contains("x:1:2"));
        // A later version may know other code.
        assert!(read(r#"{"kind":"panic","node":"a","text":"no","during":"elsewhere"}"#).contains("no"));
    }
}
