//! `WorkerEvent`: what a worker does, told as it does it.

use crate::error::{RunError, RunFault};
use std::time::Duration;

/// Something that a worker did, or that happened to it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerEvent {
    /// It holds a run from now on, and drives it.
    Claimed {
        /// The run.
        run: String,
        /// Its graph.
        graph: String,
        /// The epoch of the claim.
        epoch: u64,
        /// The last record of the run: it goes on after it.
        head: u64,
    },
    /// It does not drive a run any more.
    Ended {
        /// The run.
        run: String,
        /// Why.
        end: RunEnd,
    },
    /// The store failed, and is asked again after a while.
    StoreFailed {
        /// What was tried: `claim`, `renew`, `release`, `prune`.
        op: &'static str,
        /// Why not.
        error: String,
        /// How long until it is tried again.
        wait: Duration,
    },
    /// The store answers again.
    StoreAnswers,
    /// Runs that ended long ago were removed.
    Pruned {
        /// How many.
        runs: u64,
    },
}

/// Why a worker does not drive a run any more.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunEnd {
    /// It came to its end.
    Finished,
    /// It failed, for good.
    Failed {
        /// Why, in words.
        error: String,
    },
    /// It was told to end.
    Cancelled,
    /// It waits for a time, or for an answer or signal of one of these names; or it was told to pause.
    Waits {
        /// The keys and names.
        keys: Vec<String>,
    },
    /// It was given up as it is, because the worker shuts down.
    GivenUp,
    /// Another driver has it.
    Lost,
    /// It could not be read, or not be written. It is held for a while, and then left to whoever claims it.
    Trouble {
        /// Why, in words.
        error: String,
        /// How long it is held.
        wait: Duration,
    },
}

/// What the end of a run means to the worker.
pub(super) enum Verdict {
    Over(RunEnd),
    /// It was cancelled: with the worker, or for good.
    CutOff,
    /// It is to be tried again later.
    Trouble(String),
}

impl Verdict {
    pub(super) fn of<S>(error: &RunError<S>) -> Self {
        let over = |end| Self::Over(end);
        match error.fault() {
            RunFault::Paused { keys, .. } => over(RunEnd::Waits { keys: keys.clone() }),
            RunFault::Fenced { .. } => over(RunEnd::Lost),
            RunFault::Cancelled { .. } => Self::CutOff,
            RunFault::Ended { .. } => over(RunEnd::Finished),
            fault if fault.leaves_run_open() => Self::Trouble(error.to_string()),
            _ => over(RunEnd::Failed { error: error.to_string() }),
        }
    }
}
