//! The arguments and results of the methods of [`Store`](super::Store).

use super::{GraphVersion, Origin, Refusal, Row, RunFailure, RunInfo, RunStatus, Tags, Timestamp};
use std::ops::RangeInclusive;
use std::time::Duration;

/// A run to create with [`Store::create`](super::Store::create).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    /// The id of the run, 1 to [`TEXT_BYTES_MAX`](super::TEXT_BYTES_MAX) bytes.
    pub id: String,
    /// The name of the graph of the run.
    pub graph: String,
    /// The fingerprint and schema of that graph.
    pub version: GraphVersion,
    /// A number below 2^63 that distinguishes this run from all other runs with the same id.
    ///
    /// Idempotency keys depend on it. 0 means a run from before this number was introduced.
    pub instance: u64,
    /// The run and row that this run is forked from.
    pub from: Option<Origin>,
    /// The owner that holds the run from the start.
    pub lease: Option<Lease>,
    /// When the run becomes due if it is not held, or its driver dies.
    ///
    /// A run with [`Wake::Now`] starts as [`RunStatus::Running`], any other as
    /// [`RunStatus::Waiting`].
    pub wake: Wake,
    /// The time limit of the run, counted from now by the store's clock.
    pub deadline: Option<Duration>,
    /// The first tags of the run.
    pub tags: Tags,
}

/// The owner of a claim and the duration of its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// A name that is unique for each driver, 1 to [`TEXT_BYTES_MAX`](super::TEXT_BYTES_MAX) bytes.
    pub owner: String,
    /// The duration of the lease, counted from now by the store's clock.
    pub length: Duration,
}

/// The runs to claim with [`Store::claim`](super::Store::claim).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// One run, chosen by its id.
    One {
        /// The id of the run.
        run: String,
        /// Whether to break an unexpired lease and to continue a stuck run.
        force: bool,
    },
    /// Any runs of these graphs that are ready.
    Ready {
        /// The names and versions of the graphs that the caller can execute.
        graphs: Vec<(String, GraphVersion)>,
        /// The largest number of runs to claim.
        count: usize,
    },
}

/// A claimed run, and the time of the claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The run's own row, with the epoch of this claim.
    pub run: RunInfo,
    /// The store's clock at the claim. The driver counts from here until the next commit or renewal
    /// returns the time.
    pub now: Timestamp,
}

/// A run that a driver holds, identified by the epoch of its claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Held {
    /// The id of the held run.
    pub run: String,
    /// The instance of the run; see [`NewRun::instance`].
    pub instance: u64,
    /// The epoch of the claim that holds the run.
    pub epoch: u64,
}

impl Held {
    /// Returns the run as its last claim holds it.
    pub fn of(run: &RunInfo) -> Self {
        Self { run: run.id.clone(), instance: run.instance, epoch: run.epoch }
    }
}

/// The leases that [`Store::renew`](super::Store::renew) could not extend, and the time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renewed {
    /// Runs that the caller does not hold: another epoch or instance, released, or deleted.
    pub lost: Vec<Held>,
    /// Runs whose rows were locked. Nothing changed; renew them again soon.
    pub busy: Vec<Held>,
    /// The store's clock now. The driver corrects its estimate with it.
    pub now: Timestamp,
}

/// How a run is released by [`Store::release`](super::Store::release).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Release {
    /// The run keeps its wake time.
    AsIs,
    /// This caller cannot execute the run; other drivers can.
    ForOthers {
        /// How long the run is not due.
        delay: Duration,
    },
    /// The run could not be executed. Counts as a takeover.
    Failed {
        /// The reason as text, shortened to [`REASON_BYTES_MAX`](super::REASON_BYTES_MAX) bytes.
        reason: String,
        /// How long the run is not due.
        delay: Duration,
    },
}

/// One atomic write of a driver: rows of the log and changes of the run's own row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The id of the run to write to.
    pub run: String,
    /// The instance of the run; see [`NewRun::instance`].
    pub instance: u64,
    /// The epoch of the claim that holds the run.
    pub epoch: u64,
    /// The rows to append, 1 to [`ROWS_PER_COMMIT_MAX`](super::ROWS_PER_COMMIT_MAX), in sequence.
    /// The first follows the head.
    pub rows: Vec<Row>,
    /// The new status; `None` keeps the old one.
    pub status: Option<RunStatus>,
    /// When the run becomes due if it is not held; `None` keeps the old time. A run whose status is
    /// not live is never due.
    pub wake: Option<Wake>,
    /// The numbers of the inbox messages that this commit takes. Their payloads are removed.
    /// Unknown and taken numbers are ignored.
    pub takes: Vec<u64>,
    /// The highest message number that the driver has read. If the inbox has a higher one and the
    /// run is live, the run is due at once, regardless of [`wake`](Self::wake). So no message is
    /// missed.
    pub seen: u64,
    /// The new graph version, after a migration.
    pub version: Option<GraphVersion>,
    /// Whether this commit also releases the run.
    pub release: bool,
    /// The new deadline; `None` keeps the old one.
    pub deadline: Option<Deadline>,
    /// All tags of the run from now on; `None` keeps the old ones.
    pub tags: Option<Tags>,
    /// The last failure of the run. `None` keeps the old one, unless this commit finishes the run
    /// or continues an ended one; both remove it.
    pub failure: Option<RunFailure>,
    /// The inbox messages that this commit refuses. They are taken, and stay listed by
    /// [`Store::refused`](super::Store::refused). Unknown and taken numbers are ignored.
    pub refuses: Vec<Refusal>,
}

/// The latest time at which a run must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// The run has no deadline at all.
    Never,
    /// The run must end at this time, by the store's clock.
    At(Timestamp),
}

impl Commit {
    /// Creates a commit that appends rows and changes nothing else.
    pub fn new(held: Held, rows: Vec<Row>) -> Self {
        let Held { run, instance, epoch } = held;
        let (status, wake, takes, version, deadline) = (None, None, Vec::new(), None, None);
        let (seen, release, tags, failure, refuses) = (u64::MAX, false, None, None, Vec::new());
        Self { run, instance, epoch, rows, status, wake, takes, seen, version, release, deadline, tags, failure, refuses }
    }

    /// Returns the run as the driver of this commit holds it.
    pub fn held(&self) -> Held {
        Held { run: self.run.clone(), instance: self.instance, epoch: self.epoch }
    }
}

/// The confirmation of a durable commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The highest message number in the inbox; 0 if no message was ever sent. The driver has
    /// unread messages if it is above [`Commit::seen`].
    pub last_message: u64,
    /// The store's clock now. The driver corrects its estimate with it.
    pub now: Timestamp,
}

/// When a run becomes due to be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The run is due at once.
    Now,
    /// The run is due at this time, by the store's clock.
    At(Timestamp),
    /// The run is due when it gets a message.
    OnMessage,
}

/// The rows to read with [`Store::read`](super::Store::read).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rows {
    /// The rows with these sequences, in ascending order.
    Each(Vec<u64>),
    /// All rows of an inclusive range.
    Range(RangeInclusive<u64>),
}

/// The parts of each row that [`Store::read`](super::Store::read) returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// Only the headers; the bodies are empty. Use [`Row::open_header`] on such rows.
    Headers,
    /// Headers and bodies of the rows.
    Whole,
}

/// The rows or runs to remove with [`Store::prune`](super::Store::prune).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prune {
    /// Removes rows of a log: all below `before` except the ones in `keep`.
    ///
    /// Only the driver of the run may do this; others are [`Fenced`](super::StoreError::Fenced).
    /// `before` becomes the oldest row, unless the oldest is already above it. The head is never
    /// removed. Messages that were taken by rows below `before` are removed too, except refused
    /// ones; the dedup texts stay as long as the run.
    Rows {
        /// The run, as its driver holds it.
        held: Held,
        /// The lowest sequence that stays.
        before: u64,
        /// Lower sequences that stay too.
        keep: Vec<u64>,
    },
    /// Removes runs that have ended ([`RunStatus::has_ended`]), are not held, and have not changed
    /// for `unchanged_for`. The oldest are removed first.
    ///
    /// SQLite and PostgreSQL remove no run if the recorded times show a wrong clock: a jump of more
    /// than a year, or an end before 2024. They log a warning then.
    Ended {
        /// The minimum time since the last change, by the store's clock.
        unchanged_for: Duration,
        /// The largest number of runs to remove.
        count: usize,
    },
}
