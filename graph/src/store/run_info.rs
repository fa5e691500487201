//! `RunInfo`: a run's own row, and how runs are listed.

use super::time::Timestamp;
use std::fmt;

/// A run's own row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunInfo {
    /// Its id.
    pub id: String,
    /// The name of its graph.
    pub graph: String,
    /// The graph's shape and state version.
    pub version: GraphVersion,
    /// Which of the runs that ever had this id: see [`NewRun::instance`](super::NewRun::instance).
    pub instance: u64,
    /// How it stands.
    pub status: RunStatus,
    /// The number of its last claim.
    pub epoch: u64,
    /// The sequence of its last row.
    pub head: u64,
    /// The sequence from which on no row is missing.
    pub oldest: u64,
    /// Who holds it, or held it and died.
    pub owner: Option<String>,
    /// Until when, by the store's clock.
    pub lease_until: Option<Timestamp>,
    /// When it is due; `None` if it waits for a post, or will never be.
    pub wake_at: Option<Timestamp>,
    /// How often it was taken over, or given up because it could not be driven, since its last commit.
    pub takeovers: u32,
    /// Why it could not be driven the last time, if nothing was committed since.
    pub trouble: Option<String>,
    /// When it is to end at the latest.
    pub deadline: Option<Timestamp>,
    /// The highest number in its inbox, 0 if it was never posted to.
    pub posted: u64,
    /// Where it was forked from.
    pub from: Option<Origin>,
    /// When it was made.
    pub created: Timestamp,
    /// When it was made, or was last committed to.
    pub changed: Timestamp,
}

/// Which graph a run was made for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GraphVersion {
    /// The fingerprint of the graph's shape.
    pub fingerprint: String,
    /// The version of the type of its state.
    pub schema: u32,
}

/// A row of another run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Its id.
    pub run: String,
    /// Its sequence.
    pub sequence: u64,
}

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunStatus {
    /// It has something to do.
    Running,
    /// It waits for an answer, a signal or a time.
    Waiting,
    /// It was taken over again and again without a commit, and is left alone until told to go on.
    Stuck,
    /// It came to its end.
    Finished,
    /// It failed, and there was nothing to undo.
    Failed,
    /// It was cancelled for good.
    Cancelled,
    /// It failed, and what it had done was undone.
    Compensated,
    /// It failed, and so did an undo.
    CompensationFailed,
}

impl RunStatus {
    /// All there are.
    pub const ALL: [Self; 8] = [
        Self::Running,
        Self::Waiting,
        Self::Stuck,
        Self::Finished,
        Self::Failed,
        Self::Cancelled,
        Self::Compensated,
        Self::CompensationFailed,
    ];

    /// Whether such a run can become due.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Running | Self::Waiting)
    }

    /// Whether nothing more will happen to such a run, unless it is rewound.
    pub fn has_ended(self) -> bool {
        !self.is_live() && self != Self::Stuck
    }

    /// The word that stores keep.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Stuck => "stuck",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Compensated => "compensated",
            Self::CompensationFailed => "compensation failed",
        }
    }

    /// The status that a word stands for.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is asked of a run that is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Filter {
    /// It stands so.
    Status(RunStatus),
    /// It is of the graph of this name.
    Graph(String),
    /// It was made at this time or later.
    CreatedSince(Timestamp),
    /// It was made before this time.
    CreatedBefore(Timestamp),
    /// It was changed at this time or later.
    ChangedSince(Timestamp),
    /// It was changed before this time.
    ChangedBefore(Timestamp),
}

/// A run whose own row is not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedRun {
    /// Its id, as far as it can be read.
    pub run: String,
    /// What is wrong with the row.
    pub why: &'static str,
}

/// A page of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunList {
    /// The youngest first.
    pub runs: Vec<RunInfo>,
    /// Runs of this page whose own rows are damaged. Whether they match the filters cannot be known.
    pub damaged: Vec<DamagedRun>,
    /// Where the next page begins; `None` if this was the last.
    pub next: Option<u64>,
}
