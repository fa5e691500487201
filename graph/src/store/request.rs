//! The arguments and answers of the methods of [`Store`](super::Store).

use super::{GraphVersion, Origin, Row, RunInfo, RunStatus, Timestamp};
use std::ops::RangeInclusive;
use std::time::Duration;

/// A run to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    /// Its id, of 1 to [`TEXT_BYTES_MAX`] bytes.
    pub id: String,
    /// The name of its graph.
    pub graph: String,
    /// Which shape of the graph, and which version of its state.
    pub version: GraphVersion,
    /// A number that tells it from every other run that ever has this id; below 2^63. Idempotency keys are made from it. 0 stands for runs that were
    /// made before there was such a number.
    pub instance: u64,
    /// Where it was forked from.
    pub from: Option<Origin>,
    /// Who holds it from the start.
    pub lease: Option<Lease>,
    /// When it is due, if nobody holds it or its holder dies. One that is due at once begins as [`RunStatus::Running`], any other as
    /// [`RunStatus::Waiting`].
    pub wake: Wake,
    /// How long from now it may take, by the store's clock.
    pub deadline: Option<Duration>,
}

/// Who claims a run, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// One driver, unlike any other there ever is; of 1 to [`TEXT_BYTES_MAX`] bytes.
    pub owner: String,
    /// From now, by the store's clock.
    pub length: Duration,
}

/// Which runs to claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// This one.
    One {
        /// Its id.
        run: String,
        /// Whether a live lease is broken, and a stuck run told to go on.
        force: bool,
    },
    /// Some that are ready.
    Ready {
        /// The names and versions of the graphs that the caller can drive.
        graphs: Vec<(String, GraphVersion)>,
        /// How many at most.
        count: usize,
    },
}

/// A run that was claimed: its row as it is now, and the time, by the store's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The row, with the epoch that this claim was given.
    pub run: RunInfo,
    /// The store's clock when it was claimed. A driver counts on from here until the next commit or renewal tells the time.
    pub now: Timestamp,
}

/// A run that somebody holds, as renewed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Held {
    /// Its id.
    pub run: String,
    /// Which run of this id.
    pub instance: u64,
    /// The epoch of the claim.
    pub epoch: u64,
}

impl Held {
    /// The run of this row, as held by its last claim.
    pub fn of(run: &RunInfo) -> Self {
        Self { run: run.id.clone(), instance: run.instance, epoch: run.epoch }
    }
}

/// What became of leases that were to be renewed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renewed {
    /// The caller does not hold these: the epoch or the instance is another, the run was given up, or is gone.
    pub lost: Vec<Held>,
    /// Their rows are in use at this moment. They are as they were: ask again soon.
    pub busy: Vec<Held>,
    /// The store's clock at this moment. A driver corrects its own by it.
    pub now: Timestamp,
}

/// How a run is given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Release {
    /// As it is: it is due when it was.
    AsIs,
    /// It is to be driven by others.
    LeftToOthers {
        /// How long it is left alone.
        rest: Duration,
    },
    /// It could not be driven.
    Troubled {
        /// Why, in words; cut to [`REASON_BYTES_MAX`] bytes.
        reason: String,
        /// How long it is left alone.
        rest: Duration,
    },
}

/// What a driver writes at one moment: all of it, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The run.
    pub run: String,
    /// Which run of this id.
    pub instance: u64,
    /// The epoch of the claim.
    pub epoch: u64,
    /// At least one row and at most [`ROWS_PER_COMMIT_MAX`], in sequence. The first follows the head.
    pub rows: Vec<Row>,
    /// The status from now on; `None` leaves it as it is.
    pub status: Option<RunStatus>,
    /// When the run is due from now on if nobody holds it; `None` leaves it as it is. A run with a status that is not live is never due.
    pub wake: Option<Wake>,
    /// The messages of the inbox that this commit takes, by their numbers. Their payloads go. One that is not there, or was taken, is passed over.
    pub takes: Vec<u64>,
    /// The highest number of a message that the driver knows of. If there is a higher one and the run is live, the run is due at once whatever
    /// [`wake`](Self::wake) says: nobody sleeps through mail.
    pub seen: u64,
    /// The graph's shape and state version from now on, after a migration.
    pub version: Option<GraphVersion>,
    /// Whether the run is given up with this commit.
    pub release: bool,
    /// The time at which the run is to end from now on; `None` leaves it as it is.
    pub deadline: Option<Deadline>,
}

/// When a run is to end at the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// At no time.
    Never,
    /// At this time, by the store's clock.
    At(Timestamp),
}

impl Commit {
    /// Rows of a run that is held so, and nothing else changed.
    pub fn new(held: Held, rows: Vec<Row>) -> Self {
        let Held { run, instance, epoch } = held;
        let (status, wake, takes, version, deadline) = (None, None, Vec::new(), None, None);
        Self { run, instance, epoch, rows, status, wake, takes, seen: u64::MAX, version, release: false, deadline }
    }

    /// The run, as its driver holds it.
    pub fn held(&self) -> Held {
        Held { run: self.run.clone(), instance: self.instance, epoch: self.epoch }
    }
}

/// What a store says to a commit that is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The highest number in the inbox, 0 if it was never posted to. Above what the driver has seen: there is mail.
    pub posted: u64,
    /// The store's clock at this moment. A driver corrects its own by it.
    pub now: Timestamp,
}

/// When a run is due to be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// At once.
    Now,
    /// At a time, by the store's clock.
    At(Timestamp),
    /// When something is posted to it.
    OnPost,
}

/// Which rows to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rows {
    /// These sequences.
    Each(Vec<u64>),
    /// All of these.
    Range(RangeInclusive<u64>),
}

/// How much of a row to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// Without the body, which is left empty: [`Row::open_header`] is all that can be done with it.
    Headers,
    /// All of it.
    Whole,
}

/// What to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prune {
    /// Rows of a log, by its driver: all below `before` that are not among `keep`. `before` becomes the oldest row, unless the oldest was
    /// above it; messages taken by rows below it go too, unless they have a dedup text: that is kept as long as the run. It is fenced by the epoch, and the head is never removed.
    Rows {
        /// The run, and the epoch of the claim.
        held: Held,
        /// The first sequence of those that stay.
        before: u64,
        /// Sequences below it that stay too.
        keep: Vec<u64>,
    },
    /// Runs that have ended ([`RunStatus::has_ended`]) and were not changed for this long, nor are held; at most so many, the oldest first. A store that
    /// outlives its process removes none if its recorded times show that the clock was wrong: it has jumped by more than a year, or the run ended before
    /// 2024. That is logged.
    Ended {
        /// How long, by the store's clock.
        unchanged_for: Duration,
        /// How many at most.
        count: usize,
    },
}
