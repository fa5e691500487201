//! [`StoredFault`]: the JSON form of a [`RunFault`] in the log.
//!
//! Invariant: later versions read the forms of all earlier versions. Fields can be added, with a
//! default.

use crate::error::{During, FanOutTimeout, GraceEnd, MergeError, NodeError, PanicError, RouterError, RunFault};
use crate::store::{FailureKind, RunFailure};
use pleach_core::{Cause, Elapsed, Reason};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// The largest size in bytes of a stored failure text.
const FAULT_BYTES_MAX: usize = 64 << 10;

/// Shortens the text of a failure to [`FAULT_BYTES_MAX`].
pub(crate) fn cut_fault(mut text: String) -> String {
    if text.len() > FAULT_BYTES_MAX {
        let size = text.len();
        let end = (0..=FAULT_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push_str(&format!("… ({size} bytes)"));
    }
    text
}

/// The stored form of the failure of a branch or a run.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct StoredFault {
    kind: StoredKind,
    node: String,
    #[serde(default)]
    attempt: u32,
    text: String,
    /// For a panic: the place, and the kind of code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    location: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    during: Option<String>,
    /// For a router: the declared answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    declared: Vec<String>,
    /// The limit of visits, or a time limit in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    /// The nodes that were undone before a migration rewrote this record in the middle of the
    /// undos.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) undone: Vec<String>,
}

/// The stored names of the kinds of code that can panic.
const DURING: [(During, &str); 7] = [
    (During::Node, "node"),
    (During::Router, "router"),
    (During::Split, "split"),
    (During::CloneState, "clone_state"),
    (During::Merge, "merge"),
    (During::Policy, "policy"),
    (During::Hook, "hook"),
];

/// The stored names of how a node used its grace after the deadline.
const GRACE: [(GraceEnd, &str); 3] =
    [(GraceEnd::Finished, "grace_finished"), (GraceEnd::Failed, "grace_failed"), (GraceEnd::Dropped, "grace_cut_off")];

/// Stored in `during` if a fan-out exceeded its timeout; `limit` has the nanoseconds.
const FAN_OUT: &str = "fan_out";

/// Stored in `during` if the limit of the whole run was reached, not the limit of one token.
const WHOLE_RUN: &str = "run";

/// Stored in `during` if a command cancelled the run.
const CANCELLED: &str = "cancelled";

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

    /// The failure of an attempt at a node, for this reason.
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
            RunFault::Cancelled { .. } => {
                Self { during: Some(CANCELLED.to_string()), ..new(StoredKind::Other, "", 0, fault.to_string()) }
            }
            other => new(StoredKind::Other, "", 0, other.to_string()),
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the run was cancelled at its deadline.
    pub(crate) fn is_deadline(&self) -> bool {
        self.kind == StoredKind::Deadline
    }

    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers always serialize to JSON")
    }

    /// Returns the failure as a plain value, without its place in the log.
    pub(crate) fn into_failure(self) -> RunFailure {
        let during = self.during.as_deref();
        let kind = match self.kind {
            StoredKind::Node if during == Some(FAN_OUT) => FailureKind::FanOutTimeout,
            StoredKind::Node => FailureKind::Node,
            StoredKind::Panic => FailureKind::Panic,
            StoredKind::Router => FailureKind::Router,
            StoredKind::Merge => FailureKind::Merge,
            StoredKind::Limit => FailureKind::Limit,
            StoredKind::Deadline => FailureKind::Deadline,
            StoredKind::Other if during == Some(CANCELLED) => FailureKind::Cancelled,
            StoredKind::Other => FailureKind::Other,
        };
        let (node, attempt) = (self.node.clone(), self.attempt);
        let reason = match kind {
            FailureKind::Panic | FailureKind::Router | FailureKind::FanOutTimeout => self.into_fault().to_string(),
            _ => self.text,
        };
        RunFailure::new(kind, node, attempt, reason)
    }

    /// Returns the fault, with its reasons as text. Old records without details become a failure of
    /// the node.
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
    fn c7_failures_of_earlier_versions_are_still_read() {
        let read = |json: &str| serde_json::from_str::<StoredFault>(json).unwrap().into_fault().to_string();
        assert!(read(r#"{"kind":"limit","node":"a","text":"3 nodes"}"#).contains("3 nodes"));
        assert!(read(r#"{"kind":"router","node":"a","text":"nowhere"}"#).contains("nowhere"));
        assert!(read(r#"{"kind":"panic","node":"a","text":"no","location":"x:1:2"}"#).contains("x:1:2"));
        // A later version may know other kinds of code.
        assert!(read(r#"{"kind":"panic","node":"a","text":"no","during":"elsewhere"}"#).contains("no"));
    }
}
