//! `WorkerEvent`: what a worker does, reported as it happens.

use crate::error::{RunError, RunFault};
use crate::store::StoreError;
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
    /// A run could not be driven. It was given up, and is left alone for a while; it takes no place meanwhile.
    Rests {
        /// The run.
        run: String,
        /// Why it could not be driven.
        reason: String,
        /// How long it is left alone, unless something is posted to it.
        rest: Duration,
    },
    /// A run could not be driven [`TAKEOVERS_MAX`](crate::store::TAKEOVERS_MAX) times in a row, and is stuck: nobody claims it until it is resumed with
    /// [`take_over`](crate::Resume::take_over).
    Stuck {
        /// The run.
        run: String,
        /// Why it could not be driven the last time.
        reason: String,
    },
    /// A run was written by a later version of this library, or by one with the feature `zstd`, and this worker cannot read it. It was given up and is left
    /// alone for a while. That does not count against the run: a newer worker drives it.
    LeftToNewer {
        /// The run.
        run: String,
        /// What this worker cannot read.
        reason: String,
        /// How long it is left alone, unless something is posted to it.
        rest: Duration,
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
    /// It could not be driven: it could not be read, not be written, or does not fit its graph; or the store failed. If the run is the reason,
    /// [`WorkerEvent::Rests`] or [`WorkerEvent::Stuck`] follows; if this worker is too old for it, [`WorkerEvent::LeftToNewer`]. If the store is, that does not count against the run, and it rests
    /// for a second. A store that reads other runs, but not this one, is no reason: then the run is.
    Trouble {
        /// Why, in words.
        error: String,
        /// How long it is left alone; zero if it is stuck.
        wait: Duration,
    },
}

/// What the end of a run means to the worker.
pub(super) enum DriveResult {
    Over(RunEnd),
    /// It was cancelled: with the worker, or for good.
    CutOff,
    /// It could not be driven, because of itself.
    Trouble(String),
    /// It could not be driven, because of the store or of this worker.
    Prevented(Unserved),
    /// It could not be read, because this worker is too old for it.
    TooNew(String),
}

/// Why a run could not be driven although nothing is known against it.
pub(super) struct Unserved {
    pub(super) error: String,
    /// The store failed while records or messages of the run were read. That may be the fault of the run: see `prevented`.
    pub(super) while_reading: bool,
}

impl DriveResult {
    pub(super) fn of<S>(error: &RunError<S>) -> Self {
        let over = |end| Self::Over(end);
        match error.fault() {
            RunFault::Paused { keys, .. } => over(RunEnd::Waits { keys: keys.clone() }),
            RunFault::Fenced { .. } => over(RunEnd::Lost),
            RunFault::Cancelled { .. } => Self::CutOff,
            RunFault::Ended { .. } => over(RunEnd::Finished),
            fault if is_too_new(fault) => Self::TooNew(error.to_string()),
            fault if is_prevented(fault) => {
                Self::Prevented(Unserved { error: error.to_string(), while_reading: is_of_reading(fault) })
            }
            fault if fault.leaves_run_open() => Self::Trouble(error.to_string()),
            _ => over(RunEnd::Failed { error: error.to_string() }),
        }
    }
}

/// What became of a run that could not be driven.
pub(super) enum ReleaseResult {
    Rests(Duration),
    Stuck,
    Lost,
}

impl ReleaseResult {
    /// How long it rests.
    pub(super) fn rest(&self) -> Duration {
        match self {
            Self::Rests(rest) => *rest,
            Self::Stuck | Self::Lost => Duration::ZERO,
        }
    }

    /// What is told of it. Nothing if another driver has it.
    pub(super) fn event(&self, run: &str, reason: &str) -> Option<WorkerEvent> {
        let (run, reason) = (run.to_string(), reason.to_string());
        match self {
            Self::Rests(rest) => Some(WorkerEvent::Rests { run, reason, rest: *rest }),
            Self::Stuck => Some(WorkerEvent::Stuck { run, reason }),
            Self::Lost => None,
        }
    }
}

/// Whether a run could not be read by this version of the library, or without one of its features.
fn is_too_new(fault: &RunFault) -> bool {
    let RunFault::Checkpoint(error) = fault else { return false };
    matches!(error.store_error(), Some(StoreError::Future { .. } | StoreError::Compressed { .. }))
}

/// Whether a run could not be driven for a reason that has nothing to do with the run.
fn is_prevented(fault: &RunFault) -> bool {
    match fault {
        RunFault::Checkpoint(error) => {
            error.store_error().is_some_and(|error| error.is_temporary() || matches!(error, StoreError::Unusable { .. }))
        }
        RunFault::Refused(_) | RunFault::NoRuntime => true,
        _ => false,
    }
}

/// Whether it was reading the run that failed.
fn is_of_reading(fault: &RunFault) -> bool {
    matches!(fault, RunFault::Checkpoint(error) if ["open", "inbox"].contains(&error.op))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::fault_of;

    #[test]
    fn c13_only_trouble_of_the_run_itself_counts_against_it() {
        let counts = |error: StoreError| {
            let error = RunError::<()>::new(fault_of("r", "node", "commit", error), None);
            matches!(DriveResult::of(&error), DriveResult::Trouble(_))
        };
        let (store, why) = ("postgres".to_string(), "it is of another version".to_string());
        assert!(!counts(StoreError::unavailable("no answer")));
        assert!(!counts(StoreError::unreachable("no answer")));
        assert!(!counts(StoreError::Unusable { store, why }));
        assert!(!counts(StoreError::Future { what: "row 1".to_string(), format: 9, known: 2 }));
        assert!(!counts(StoreError::Compressed { run: "r".to_string(), sequence: 1 }));
        assert!(counts(StoreError::Damaged { run: "r".to_string(), sequence: 1, why: "its checksum differs" }));
        assert!(counts(StoreError::TooLarge { what: "the body of a record", size: 2, limit: 1 }));
    }
}
