//! `RunFault` and its parts: what went wrong in a run.

use crate::error::{CheckpointError, MismatchError, ResumeError};
use crate::store::RunStatus;
use crate::token::WaitView;
use pleach_core::{Cause, Elapsed, Reason, Refusal};
use std::sync::Arc;
use std::time::Duration;

/// How a node used its [cancel grace](crate::Policy::cancel_grace).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum GraceEnd {
    /// It returned in time, and counts as done. A stored run has its result.
    Finished,
    /// It failed or panicked in its grace, and was not tried again.
    Failed,
    /// It was dropped at the end of its grace.
    CutOff,
}

/// Why a run did not come to its end.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunFault {
    /// A node failed, past its retries.
    Node(NodeError),
    /// A node, a router, a merge or other code of the graph panicked.
    Panic(PanicError),
    /// A router gave an answer that its edge does not declare.
    Router(RouterError),
    /// A merge failed.
    Merge(MergeError),
    /// The branches of a fan-out were not done in time.
    FanOutTimeout(FanOutTimeout),
    /// The run was cancelled, or its deadline passed.
    Cancelled {
        /// The node that was running, or would have been next.
        node: String,
        /// Why.
        cause: Cause,
        /// Whether the node was running when the cancel came.
        was_executing: bool,
        /// How the node used its [cancel grace](crate::Policy::cancel_grace). Without one, a running node was dropped at its await.
        grace: Option<GraceEnd>,
    },
    /// A line of control has visited as many nodes as it may: probably it is in a loop.
    MaxIterations {
        /// How many visits may follow one another.
        limit: u64,
        /// The node that would have been next.
        next: String,
    },
    /// The whole run has visited as many nodes as it may.
    MaxVisits {
        /// How many it may visit.
        limit: u64,
        /// The node that would have been next.
        next: String,
    },
    /// The run was to start at a node that it cannot start at.
    Start(StartError),
    /// The scope that the run was to stand in did not take it.
    Refused(Refusal),
    /// A checkpoint could not be written or read; those before it are intact.
    Checkpoint(CheckpointError),
    /// No branch can go on before one of these is answered. The run is kept, and goes on when it is resumed with an answer.
    Paused {
        /// The run.
        run: String,
        /// The keys of the interrupts and sleeps, and the names of the signals, that it waits for.
        keys: Vec<String>,
        /// The same, with the questions of the interrupts and the times at which sleeps end.
        waits: Vec<WaitView>,
    },
    /// The run was resumed with an answer that it could not use. It waits on, as before.
    AnswerRefused {
        /// The run.
        run: String,
        /// The key of the interrupt.
        key: String,
        /// Why.
        why: String,
    },
    /// Another driver has claimed the run, and this one has stopped.
    Fenced {
        /// The run.
        run: String,
        /// The epoch that is over.
        epoch: u64,
    },
    /// Another driver holds the run and has renewed its lease.
    Held {
        /// The run.
        run: String,
        /// Who holds it.
        owner: String,
        /// How long its lease has left.
        left: Duration,
    },
    /// There is a run with this id.
    Exists {
        /// The run.
        run: String,
    },
    /// The run has ended, and can only be rewound or forked.
    Ended {
        /// The run.
        run: String,
        /// How it ended.
        status: RunStatus,
    },
    /// The run was made for another graph.
    Mismatch(MismatchError),
    /// The run was not gone on with as it was asked; it is as it was.
    Resume(ResumeError),
    /// Something needs a clock, or tasks, and there is no runtime: run it inside Tokio, or give it a token, a scope or a runtime.
    NoRuntime,
}

/// A node failed.
#[derive(Clone, Debug)]
pub struct NodeError {
    /// Which node; the nodes of a subgraph are `subgraph/node`.
    pub node: String,
    /// Its last attempt, from 1 on.
    pub attempt: u32,
    /// What it returned, or [`Elapsed`](pleach::scope::Elapsed). It is the `source()` of this error.
    pub reason: Arc<Reason>,
}

/// Code of the graph panicked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PanicError {
    /// Which node it belongs to.
    pub node: String,
    /// What it was.
    pub during: During,
    /// What the panic said, if it said it as text.
    pub payload: String,
    /// Where, as `file:line:column`.
    pub location: Option<String>,
}

/// Code that a graph is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum During {
    /// The node itself, or the drop of its future.
    Node,
    /// The router behind it.
    Router,
    /// The items of a `map`, or the clones of the state for branches, retries and fallbacks.
    Split,
    /// The merge of its fan-out.
    Merge,
    /// The policy's classifier or decision.
    Policy,
    /// A hook.
    Hook,
}

/// A router gave an answer that its edge does not declare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterError {
    /// The node behind which it stands.
    pub node: String,
    /// What it answered.
    pub answer: String,
    /// What it may answer.
    pub declared: Vec<String>,
}

/// The merge of a fan-out failed.
#[derive(Clone, Debug)]
pub struct MergeError {
    /// The node the fan-out starts from.
    pub node: String,
    /// What the merge returned.
    pub reason: Arc<Reason>,
}

/// The branches of a fan-out were not done within its [timeout](crate::FanOut::timeout), and were cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FanOutTimeout {
    /// The node the fan-out starts from.
    pub node: String,
    /// How long the branches had. It is the `source()` of this error.
    pub elapsed: Elapsed,
}

/// A run cannot start there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartError {
    /// There is no such node.
    Unknown {
        /// What was given.
        node: String,
        /// A node whose id looks like it.
        did_you_mean: Option<String>,
    },
    /// No way leads to the node from the entry, so nothing was proved about it.
    Unreachable {
        /// What was given.
        node: String,
    },
    /// The node is part of a branch, and there would be nobody to join.
    InBranch {
        /// What was given.
        node: String,
        /// The node whose fan-out it is part of.
        fan_out: String,
    },
}

impl RunFault {
    /// Whether it ends the whole run, whatever a fan-out says about its branches.
    pub(crate) fn ends_run(&self) -> bool {
        !matches!(self, Self::Node(_) | Self::Panic(_) | Self::Router(_) | Self::Merge(_) | Self::FanOutTimeout(_))
    }

    /// Whether the run can be gone on with as it is, by this driver or another.
    pub(crate) fn leaves_run_open(&self) -> bool {
        self.ends_run() && !matches!(self, Self::MaxIterations { .. } | Self::MaxVisits { .. } | Self::Start(_))
    }

    /// The same fault again, if it is one with which a subgraph fails.
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
