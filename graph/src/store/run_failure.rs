//! [`RunFailure`]: why a run or an attempt failed, as a plain value.
//!
//! It is read without the graph and its state type. The log has the full failure; a run's own row
//! has the last one, shortened.

use super::limits::cut_reason;
use super::{Fork, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A failure of a run, or of one attempt or branch after which the run continued.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunFailure {
    /// The kind of the failure: a node, a panic, a router and so on.
    pub kind: FailureKind,
    /// The node that failed, or would have been next; empty if the failure belongs to no node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// The number of the failed attempt, from 1; 0 if the failure belongs to no attempt.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// The branches of the fan-outs in which the node ran, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub branch: Vec<Fork>,
    /// The error as text. In a run's own row it has at most
    /// [`REASON_BYTES_MAX`](super::REASON_BYTES_MAX) bytes.
    pub reason: String,
    /// When the failure was recorded, by the driver's estimate of the store's clock.
    pub at: Timestamp,
    /// The record of the failure in the log of the run.
    pub sequence: u64,
    /// Whether the failure ended the run, or started its compensation. False for an attempt that is
    /// retried and for a branch without which the run continues.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_final: bool,
    /// When the next attempt starts, if the node is retried after a wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
}

/// The kind of a [`RunFailure`]: which part of the run failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureKind {
    /// A node returned an error or exceeded its timeout.
    Node,
    /// Code of the graph panicked: a node, a router, a merge.
    Panic,
    /// A router returned an answer that its edge does not declare.
    Router,
    /// The merge of a fan-out failed.
    Merge,
    /// The branches of a fan-out did not finish in time.
    FanOutTimeout,
    /// The run exceeded its limit of visits.
    Limit,
    /// The run was cancelled at its deadline.
    Deadline,
    /// A command cancelled the run permanently.
    Cancelled,
    /// The undo of a node failed, so the compensation stopped.
    Undo,
    /// Any other failure, also one of a later version.
    #[serde(other)]
    Other,
}

impl RunFailure {
    pub(crate) fn new(kind: FailureKind, node: String, attempt: u32, reason: String) -> Self {
        let (branch, at, sequence, is_final, retry_at) = (Vec::new(), Timestamp::default(), 0, false, None);
        Self { kind, node, attempt, branch, reason, at, sequence, is_final, retry_at }
    }

    /// Returns the failure with a reason that fits into a run's own row.
    pub fn shortened(mut self) -> Self {
        self.reason = cut_reason(self.reason);
        self
    }

    /// Returns the stored form: JSON.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(super) fn stored(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers can be serialised")
    }

    /// Decodes the stored form. No execution depends on a failure, so an unreadable one is reported
    /// as such and does not make the run unreadable.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(super) fn of_stored(stored: Option<String>) -> Option<Self> {
        let stored = stored?;
        Some(serde_json::from_str(&stored).unwrap_or_else(|_| {
            Self::new(FailureKind::Other, String::new(), 0, format!("the stored failure is unreadable: {stored}")).shortened()
        }))
    }
}

impl fmt::Display for RunFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.node.as_str(), self.attempt) {
            ("", _) => {}
            (node, 0) => write!(f, "at node {node:?}: ")?,
            (node, attempt) => write!(f, "at node {node:?}, attempt {attempt}: ")?,
        }
        f.write_str(&self.reason)
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}
