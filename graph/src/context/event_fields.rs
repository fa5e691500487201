//! The parts that the events of a run share: the run, the node, and a copy with its own state.

use crate::context::events::RunEvent;
use std::sync::Arc;

impl<S> RunEvent<&S> {
    /// Returns the same event with a clone of the state.
    pub fn cloned(&self) -> RunEvent<S>
    where
        S: Clone,
    {
        match self {
            Self::NodeStarted { visit, state } => RunEvent::NodeStarted { visit: visit.clone(), state: S::clone(state) },
            Self::NodeFinished { visit, outcome } => {
                RunEvent::NodeFinished { visit: visit.clone(), outcome: outcome.clone().cloned() }
            }
            Self::NodeRetried { visit, wait } => RunEvent::NodeRetried { visit: visit.clone(), wait: *wait },
            Self::Forked { run, node, branches, state } => {
                RunEvent::Forked { run: run.clone(), node: Arc::clone(node), branches: *branches, state: S::clone(state) }
            }
            Self::BranchFailed { run, node, branch, error, state } => RunEvent::BranchFailed {
                run: run.clone(),
                node: Arc::clone(node),
                branch: *branch,
                error: Arc::clone(error),
                state: state.map(S::clone),
            },
            Self::Joined { run, node, state } => {
                RunEvent::Joined { run: run.clone(), node: Arc::clone(node), state: S::clone(state) }
            }
            Self::Emitted { visit, value } => RunEvent::Emitted { visit: visit.clone(), value: value.clone() },
            Self::InnerStarted { visit } => RunEvent::InnerStarted { visit: visit.clone() },
            Self::InnerFinished { visit, failed } => RunEvent::InnerFinished { visit: visit.clone(), failed: failed.clone() },
            Self::Checkpointed { run, sequence } => RunEvent::Checkpointed { run: run.clone(), sequence: *sequence },
            Self::MessageRejected { run, name, reason } => {
                RunEvent::MessageRejected { run: run.clone(), name: Arc::clone(name), reason: Arc::clone(reason) }
            }
            Self::LeaseAwaited { run, holder, left } => {
                RunEvent::LeaseAwaited { run: run.clone(), holder: Arc::clone(holder), left: *left }
            }
            Self::StoreUnavailable { run, error } => RunEvent::StoreUnavailable { run: run.clone(), error: Arc::clone(error) },
            Self::StoreRecovered { run } => RunEvent::StoreRecovered { run: run.clone() },
            Self::CheckpointsLost { run, error } => RunEvent::CheckpointsLost { run: run.clone(), error: Arc::clone(error) },
        }
    }
}

impl<T> RunEvent<T> {
    /// Returns the id of the run that the event belongs to.
    ///
    /// Every event of a stored run has it, and every event of a run whose
    /// [`id`](crate::RunOptions::id) was set. `None` for an in-memory run without an id.
    pub fn run(&self) -> Option<&str> {
        let run = match self {
            Self::NodeStarted { visit, .. }
            | Self::NodeFinished { visit, .. }
            | Self::NodeRetried { visit, .. }
            | Self::Emitted { visit, .. }
            | Self::InnerStarted { visit }
            | Self::InnerFinished { visit, .. } => &visit.run,
            Self::Forked { run, .. }
            | Self::BranchFailed { run, .. }
            | Self::Joined { run, .. }
            | Self::Checkpointed { run, .. }
            | Self::MessageRejected { run, .. }
            | Self::LeaseAwaited { run, .. }
            | Self::StoreUnavailable { run, .. }
            | Self::StoreRecovered { run }
            | Self::CheckpointsLost { run, .. } => run,
        };
        run.as_deref()
    }

    pub(super) fn node(&self) -> &str {
        match self {
            Self::NodeStarted { visit, .. }
            | Self::NodeFinished { visit, .. }
            | Self::NodeRetried { visit, .. }
            | Self::Emitted { visit, .. }
            | Self::InnerStarted { visit }
            | Self::InnerFinished { visit, .. } => &visit.node,
            Self::Forked { node, .. } | Self::BranchFailed { node, .. } | Self::Joined { node, .. } => node,
            Self::Checkpointed { .. }
            | Self::LeaseAwaited { .. }
            | Self::StoreUnavailable { .. }
            | Self::StoreRecovered { .. }
            | Self::CheckpointsLost { .. }
            | Self::MessageRejected { .. } => "",
        }
    }
}
