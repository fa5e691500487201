//! [`WorkerEvent`]: what a worker reports, and how it classifies the end of a run.
//!
//! | end of the drive | [`DriveResult`] | consequence |
//! |---|---|---|
//! | finished, failed, waits, lost | `Over` | reported and released |
//! | cancelled | `Cancelled` | released, unless the last commit ended the run |
//! | the run itself is broken | `Trouble` | is delayed longer each time, then is stuck |
//! | the store failed | `Undriven` | is delayed for about a second |
//! | written by a newer version | `TooNew` | is delayed; a newer worker claims it |

use crate::durable::deploy::DeployReport;
use crate::error::{RunError, RunFault};
use crate::store::{RunStatus, StoreError};
use crate::worker::unserved::UnservedRuns;
use std::time::Duration;

/// An event of a worker, reported to [`Worker::on_event`](crate::Worker::on_event).
///
/// ```
/// use pleach::worker::{RunEnd, WorkerEvent};
///
/// fn log(event: &WorkerEvent) {
///     match event {
///         WorkerEvent::Ended { run, end: RunEnd::Failed { error } } => {
///             eprintln!("run {run} failed: {error}");
///         }
///         WorkerEvent::Stuck { run, reason } => eprintln!("run {run} is stuck: {reason}"),
///         WorkerEvent::StoreFailed { op, error, .. } => eprintln!("{op} failed: {error}"),
///         _ => {}
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerEvent {
    /// The worker has claimed a run and drives it.
    Claimed {
        /// The id of the claimed run.
        run: String,
        /// The name of the run's graph.
        graph: String,
        /// The epoch of the claim: its fencing token.
        epoch: u64,
        /// The sequence number of the run's last record; the run continues after it.
        head: u64,
    },
    /// The worker no longer drives a run.
    Ended {
        /// The id of the run that ended.
        run: String,
        /// Why the worker stopped driving it.
        end: RunEnd,
    },
    /// A run could not be driven. It was released with a delay, and does not count towards
    /// the limit.
    Delayed {
        /// The id of the run that is delayed.
        run: String,
        /// Why the run could not be driven.
        reason: String,
        /// How long no worker claims it, unless it gets an inbox message.
        delay: Duration,
    },
    /// A run could not be driven [`TAKEOVERS_MAX`](crate::store::TAKEOVERS_MAX) times in a row and
    /// is now stuck.
    ///
    /// No worker claims it until it is resumed with [`take_over`](crate::Resume::take_over).
    Stuck {
        /// The id of the stuck run.
        run: String,
        /// Why the last attempt to drive it failed.
        reason: String,
    },
    /// A newer version of this library, or one with the feature `zstd`, wrote the run, and this
    /// worker cannot read it.
    ///
    /// The run was released with a delay for newer workers. This does not count as a takeover.
    LeftToNewer {
        /// The id of the unreadable run.
        run: String,
        /// Which part this worker cannot read.
        reason: String,
        /// How long no worker claims it, unless it gets an inbox message.
        delay: Duration,
    },
    /// A store call failed. The worker retries it.
    StoreFailed {
        /// The call: `claim`, `renew`, `release` or `prune`.
        op: &'static str,
        /// The error of the store, as text.
        error: String,
        /// How long the worker waits before the retry.
        wait: Duration,
    },
    /// The store answers again after a failure.
    StoreRecovered,
    /// The check of the stored runs at the start found runs that this worker would migrate or not
    /// serve.
    ///
    /// Other workers may serve them, such as workers of the old version during a deploy.
    DeployChecked {
        /// The runs by graph version and fit. At most 10,000 runs are checked, by their rows.
        report: DeployReport,
    },
    /// Runs were found that no worker serves. Reported again when a graph version or a run is
    /// added.
    Unserved {
        /// All runs that are not served now, as lists with a limit.
        runs: UnservedRuns,
    },
    /// All runs of the last [`Unserved`](Self::Unserved) are served or removed.
    AllServed,
    /// Runs that ended long ago were removed.
    Pruned {
        /// The number of runs that were removed.
        runs: u64,
    },
}

/// Why a worker no longer drives a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunEnd {
    /// The run reached the end of its graph.
    Finished,
    /// The run failed permanently, with or without compensation.
    Failed {
        /// The error of the run, as text.
        error: String,
    },
    /// A command or the deadline cancelled the run permanently.
    Cancelled,
    /// The run waits for a time, an answer or a signal, or was paused.
    Waits {
        /// The keys of its interrupts and the names of its signals.
        keys: Vec<String>,
    },
    /// The worker is closing and released the run unfinished.
    Released,
    /// Another driver has claimed the run.
    Lost,
    /// The run could not be driven: it could not be read or written, does not fit its graph, or the
    /// store failed.
    ///
    /// - If the run is the reason, [`WorkerEvent::Delayed`] or [`WorkerEvent::Stuck`] follows. A
    ///   store that can read other runs but not this one counts as such.
    /// - If this worker is too old for it, [`WorkerEvent::LeftToNewer`] follows.
    /// - If the store is the reason, the run is delayed for a second and no takeover is counted.
    Trouble {
        /// Why the run could not be driven.
        error: String,
        /// How long no worker claims it; zero if it is stuck.
        wait: Duration,
    },
}

/// The end of a run, as the worker classifies it.
pub(super) enum DriveResult {
    Over(RunEnd),
    /// The run was cancelled: with the worker, or permanently.
    Cancelled,
    /// The run itself could not be driven.
    Trouble(String),
    /// The store or this worker could not drive the run.
    Undriven(Undriven),
    /// This worker is too old to read the run.
    TooNew(String),
}

/// Why a run could not be driven although the run may be sound.
pub(super) struct Undriven {
    pub(super) error: String,
    /// The store failed while it read the run. The run may still be the cause: see `undriven`.
    pub(super) while_reading: bool,
}

impl DriveResult {
    pub(super) fn of<S>(error: &RunError<S>) -> Self {
        let over = |end| Self::Over(end);
        match error.fault() {
            RunFault::Paused { keys, .. } => over(RunEnd::Waits { keys: keys.clone() }),
            RunFault::Fenced { .. } => over(RunEnd::Lost),
            RunFault::Cancelled { .. } => Self::Cancelled,
            // The driver rejects only cancelled and compensated runs. Ready claims return live
            // runs, so only a store that breaks this contract leads here.
            RunFault::Ended { status: RunStatus::Cancelled, .. } => over(RunEnd::Cancelled),
            RunFault::Ended { .. } => over(RunEnd::Failed { error: error.to_string() }),
            fault if is_too_new(fault) => Self::TooNew(error.to_string()),
            fault if is_undriven(fault) => {
                Self::Undriven(Undriven { error: error.to_string(), while_reading: is_of_reading(fault) })
            }
            fault if fault.leaves_run_open() => Self::Trouble(error.to_string()),
            _ => over(RunEnd::Failed { error: error.to_string() }),
        }
    }
}

/// The result of releasing a run that could not be driven.
pub(super) enum ReleaseResult {
    Delayed(Duration),
    Stuck,
    Lost,
}

impl ReleaseResult {
    /// Returns how long no worker claims the run.
    pub(super) fn delay(&self) -> Duration {
        match self {
            Self::Delayed(delay) => *delay,
            Self::Stuck | Self::Lost => Duration::ZERO,
        }
    }

    /// Returns the event to report. `None` if another driver has the run.
    pub(super) fn event(&self, run: &str, reason: &str) -> Option<WorkerEvent> {
        let (run, reason) = (run.to_string(), reason.to_string());
        match self {
            Self::Delayed(delay) => Some(WorkerEvent::Delayed { run, reason, delay: *delay }),
            Self::Stuck => Some(WorkerEvent::Stuck { run, reason }),
            Self::Lost => None,
        }
    }
}

/// Returns whether this version of the library, or its features, cannot read the run.
fn is_too_new(fault: &RunFault) -> bool {
    let RunFault::Checkpoint(error) = fault else { return false };
    matches!(error.store_error(), Some(StoreError::NewerFormat { .. } | StoreError::Compressed { .. }))
}

/// Returns whether the run could not be driven for a reason outside of the run.
fn is_undriven(fault: &RunFault) -> bool {
    match fault {
        RunFault::Checkpoint(error) => {
            error.store_error().is_some_and(|error| error.is_temporary() || matches!(error, StoreError::Unusable { .. }))
        }
        RunFault::Refused(_) | RunFault::NoRuntime => true,
        _ => false,
    }
}

/// Returns whether reading the run failed.
fn is_of_reading(fault: &RunFault) -> bool {
    matches!(fault, RunFault::Checkpoint(error) if ["open", "inbox"].contains(&error.op))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::fault_of;

    #[test]
    fn c13_run_that_had_ended_is_reported_with_its_status() {
        let end_of = |status| {
            let error = RunError::<()>::new(RunFault::Ended { run: "r".to_string(), status }, None);
            let DriveResult::Over(end) = DriveResult::of(&error) else { panic!("{error} is an end") };
            end
        };
        assert_eq!(end_of(RunStatus::Cancelled), RunEnd::Cancelled);
        assert!(matches!(end_of(RunStatus::Compensated), RunEnd::Failed { error } if error.contains("compensated")));
    }

    #[test]
    fn c13_only_faults_of_the_run_count_against_it() {
        let counts = |error: StoreError| {
            let error = RunError::<()>::new(fault_of("r", "node", "commit", error), None);
            matches!(DriveResult::of(&error), DriveResult::Trouble(_))
        };
        let (store, reason) = ("postgres".to_string(), "it is of another version".to_string());
        assert!(!counts(StoreError::unavailable("no answer")));
        assert!(!counts(StoreError::unreachable("no answer")));
        assert!(!counts(StoreError::Unusable { store, reason }));
        assert!(!counts(StoreError::NewerFormat { what: "row 1".to_string(), format: 9, known: 2 }));
        assert!(!counts(StoreError::Compressed { run: "r".to_string(), sequence: 1 }));
        assert!(counts(StoreError::Damaged { run: "r".to_string(), sequence: 1, reason: "its checksum differs" }));
        assert!(counts(StoreError::TooLarge { what: "the body of a record", size: 2, limit: 1 }));
    }
}
