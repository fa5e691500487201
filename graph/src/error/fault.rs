//! [`RunFault`] and its parts: what went wrong in a run.

use crate::error::{CheckpointError, MismatchError, ResumeError};
use crate::store::{RunStatus, TagError};
use crate::token::WaitView;
use pleach_core::{Cause, Elapsed, Reason, Refusal};
use std::sync::Arc;
use std::time::Duration;

/// How a node used its [cancel grace](crate::Policy::cancel_grace).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum GraceEnd {
    /// The node returned in time and counts as completed. A stored run has recorded its result.
    Finished,
    /// The node failed or panicked during its grace, and was not retried.
    Failed,
    /// The node was dropped at the end of its grace.
    Dropped,
}

/// The reason why a run did not reach its end.
///
/// # Examples
/// ```
/// use pleach::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = Graph::<u32>::new("loop")
///     .add_node("count", |n: u32| async move { Ok::<_, String>(n + 1) })
///     .add_conditional_edge("count", ["count", END], |_: &u32| "count")
///     .set_entry("count")
///     .compile()?;
///
/// let error = graph.run(0).max_iterations(100).await.unwrap_err();
/// assert!(matches!(error.fault(), RunFault::MaxIterations { limit: 100, .. }));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum RunFault {
    /// A node failed, and its retries are used up.
    Node(NodeError),
    /// A node, a router, a merge or other code of the graph panicked.
    Panic(PanicError),
    /// A router returned an answer that its edge does not declare.
    Router(RouterError),
    /// The merge of a fan-out failed.
    Merge(MergeError),
    /// The branches of a fan-out did not finish in time.
    FanOutTimeout(FanOutTimeout),
    /// The run was cancelled, or its deadline passed.
    Cancelled {
        /// The node that was running, or would have been next.
        node: String,
        /// Why the run was cancelled.
        cause: Cause,
        /// Whether the node was running at the cancel.
        was_executing: bool,
        /// How the node used its [cancel grace](crate::Policy::cancel_grace). Without a grace, a
        /// running node was dropped at its await.
        grace: Option<GraceEnd>,
    },
    /// A token made the largest number of consecutive visits. The graph probably has an endless
    /// loop.
    MaxIterations {
        /// The largest number of consecutive visits.
        limit: u64,
        /// The node that would have been next.
        next: String,
    },
    /// The run visited the largest number of nodes in total.
    MaxVisits {
        /// The largest number of visits of a run.
        limit: u64,
        /// The node that would have been next.
        next: String,
    },
    /// The run cannot start at the given node.
    Start(StartError),
    /// A tag that was given with the run is not valid. Nothing was stored.
    Tag(TagError),
    /// The scope of the run did not accept it.
    Refused(Refusal),
    /// A checkpoint could not be written or read. Earlier checkpoints are intact.
    Checkpoint(CheckpointError),
    /// All branches wait for answers, signals or times. The run is stored; resume it with an answer
    /// to continue.
    Paused {
        /// The id of the run.
        run: String,
        /// The keys of the interrupts and sleeps, and the names of the signals, that the run waits
        /// for.
        keys: Vec<String>,
        /// The same waits, with the questions of the interrupts and the ends of the sleeps.
        waits: Vec<WaitView>,
    },
    /// The run was resumed with an answer that it could not use. It keeps waiting.
    AnswerRejected {
        /// The id of the run.
        run: String,
        /// The key of the interrupt.
        key: String,
        /// Why the answer was rejected.
        reason: String,
    },
    /// Another driver has claimed the run, so this driver stopped.
    Fenced {
        /// The id of the run.
        run: String,
        /// The epoch that is no longer valid.
        epoch: u64,
    },
    /// Another driver holds the run and has renewed its lease.
    Held {
        /// The id of the run.
        run: String,
        /// The owner of the lease.
        owner: String,
        /// The remaining time of the lease.
        left: Duration,
    },
    /// The store already has a run with this id.
    Exists {
        /// The id of the run.
        run: String,
    },
    /// The run has ended. It can only be rewound or forked.
    Ended {
        /// The id of the run.
        run: String,
        /// The final status of the run.
        status: RunStatus,
    },
    /// The run was created for another graph.
    Mismatch(MismatchError),
    /// The run could not be resumed as requested. It is unchanged.
    Resume(ResumeError),
    /// The run needs a clock or tasks, and no runtime was found. Run it inside Tokio, or pass a
    /// token, a scope or a runtime.
    NoRuntime,
}

/// The failure of one node of a run.
#[derive(Clone, Debug)]
pub struct NodeError {
    /// The id of the node; nodes of a subgraph are `subgraph/node`.
    pub node: String,
    /// The number of its last attempt, from 1.
    pub attempt: u32,
    /// The error of the node, or [`Elapsed`](pleach_core::Elapsed). It is the `source()` of this
    /// error.
    pub reason: Arc<Reason>,
}

/// A panic in code of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PanicError {
    /// The node that the code belongs to.
    pub node: String,
    /// The kind of code that panicked.
    pub during: During,
    /// The message of the panic, if it was text.
    pub payload: String,
    /// The place of the panic, as `file:line:column`.
    pub location: Option<String>,
}

/// The kinds of user code in a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum During {
    /// The node itself, or the drop of its future.
    Node,
    /// The router that follows the node.
    Router,
    /// The function that returns the items of a `map`.
    Split,
    /// `Clone` of the state, for branches, retries, fallbacks and
    /// [`keep_state`](crate::RunOptions::keep_state).
    CloneState,
    /// The merge of the node's fan-out.
    Merge,
    /// The classifier or the decision of the node's policy.
    Policy,
    /// A hook that observes the run.
    Hook,
}

/// A router returned an answer that its edge does not declare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterError {
    /// The node that the router follows.
    pub node: String,
    /// The answer that the router returned.
    pub answer: String,
    /// The answers that the edge declares.
    pub declared: Vec<String>,
}

/// The merge of a fan-out returned an error.
#[derive(Clone, Debug)]
pub struct MergeError {
    /// The node where the fan-out starts.
    pub node: String,
    /// The error that the merge returned.
    pub reason: Arc<Reason>,
}

/// The branches of a fan-out exceeded its [timeout](crate::FanOut::timeout) and were cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FanOutTimeout {
    /// The node where the fan-out starts.
    pub node: String,
    /// The time limit of the branches. It is the `source()` of this error.
    pub elapsed: Elapsed,
}

/// A run cannot start at the given node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartError {
    /// The graph has no such node.
    Unknown {
        /// The node that was given.
        node: String,
        /// A node with a similar id.
        did_you_mean: Option<String>,
    },
    /// No path leads from the entry to the node, so the nodes after it were not checked.
    Unreachable {
        /// The node that was given.
        node: String,
    },
    /// The node is part of a branch, which cannot be joined alone.
    InBranch {
        /// The node that was given.
        node: String,
        /// The node whose fan-out contains it.
        fan_out: String,
    },
}

impl RunFault {
    /// Returns whether the fault ends the whole run, even inside a fan-out that tolerates failed
    /// branches.
    pub(crate) fn ends_run(&self) -> bool {
        !matches!(self, Self::Node(_) | Self::Panic(_) | Self::Router(_) | Self::Merge(_) | Self::FanOutTimeout(_))
    }

    /// Returns whether this driver or another can resume the run.
    pub(crate) fn leaves_run_open(&self) -> bool {
        self.ends_run() && !matches!(self, Self::MaxIterations { .. } | Self::MaxVisits { .. } | Self::Start(_) | Self::Tag(_))
    }

    /// Returns a copy of the fault, if it is one that a failing subgraph reports.
    pub(crate) fn of_subgraph(reason: &Reason) -> Option<Self> {
        let Reason::Error(error) = reason else { return None };
        Some(match error.downcast_ref::<Self>()? {
            Self::Node(error) => Self::Node(error.clone()),
            Self::Panic(error) => Self::Panic(error.clone()),
            Self::Router(error) => Self::Router(error.clone()),
            Self::Merge(error) => Self::Merge(error.clone()),
            Self::FanOutTimeout(error) => Self::FanOutTimeout(error.clone()),
            _ => return None,
        })
    }

    pub(crate) fn of_attempt(node: String, attempt: u32, reason: &Arc<Reason>) -> Self {
        match &**reason {
            Reason::Panic { .. } => Self::panic(node, During::Node, reason),
            _ => Self::Node(NodeError { node, attempt, reason: Arc::clone(reason) }),
        }
    }

    pub(crate) fn panic(node: String, during: During, reason: &Reason) -> Self {
        Self::Panic(PanicError::new(node, during, reason))
    }
}

impl PanicError {
    pub(crate) fn new(node: String, during: During, reason: &Reason) -> Self {
        match reason {
            Reason::Panic { message, location } => Self { node, during, payload: message.clone(), location: location.clone() },
            other => Self { node, during, payload: other.to_string(), location: None },
        }
    }
}
