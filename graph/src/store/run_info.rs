//! [`RunInfo`]: a run's own row, and the filters and pages of run lists.

use super::time::Timestamp;
use super::{RunFailure, StoreError, Tags};
use std::fmt;
use std::str::FromStr;

/// A run's own row: everything that a store knows about the run except its log and inbox.
///
/// # Examples
/// ```
/// use pleach::prelude::*;
/// use pleach::store::RunInfo;
///
/// async fn print_status(store: &impl Store, run: &str) -> Result<(), pleach::store::StoreError> {
///     let RunInfo { status, head, owner, .. } = store.head(run).await?;
///     println!("{run}: {status} at record {head}, driven by {owner:?}");
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunInfo {
    /// The id of the run, unique within its store.
    pub id: String,
    /// The name of the graph of the run.
    pub graph: String,
    /// The fingerprint and schema of that graph.
    pub version: GraphVersion,
    /// Distinguishes this run from earlier runs with the same id; see
    /// [`NewRun::instance`](super::NewRun::instance).
    pub instance: u64,
    /// The current status of the run.
    pub status: RunStatus,
    /// The number of the last claim; the fencing token.
    pub epoch: u64,
    /// The sequence of the last row of the log.
    pub head: u64,
    /// The oldest sequence after which no row was pruned.
    pub oldest: u64,
    /// The owner that holds the run, or whose lease expired.
    pub owner: Option<String>,
    /// When the lease expires, by the store's clock.
    pub lease_until: Option<Timestamp>,
    /// When the run is due; `None` if it waits for a message, or can never become due.
    pub wake_at: Option<Timestamp>,
    /// The takeovers and releases with trouble since the last commit.
    pub takeovers: u32,
    /// Why the run could not be executed the last time, unless a commit followed.
    pub trouble: Option<String>,
    /// When the run must end at the latest.
    pub deadline: Option<Timestamp>,
    /// The highest message number in the inbox; 0 if no message was ever sent.
    pub last_message: u64,
    /// The run and row that this run was forked from.
    pub from: Option<Origin>,
    /// When the run was created, by the store's clock.
    pub created: Timestamp,
    /// When the run was created or last committed to.
    pub changed: Timestamp,
    /// The tags of the run, by which it is found.
    pub tags: Tags,
    /// Why the run failed; or, while it is not over, its last failed attempt or branch. `None` for
    /// a finished run.
    pub failure: Option<RunFailure>,
}

/// The version of a graph: its shape and its state type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GraphVersion {
    /// The fingerprint of the nodes and edges of the graph.
    pub fingerprint: String,
    /// The version of the type of the graph's state.
    pub schema: u32,
}

/// A row of another run, from which a run was forked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The id of the other run.
    pub run: String,
    /// The sequence of the row in its log.
    pub sequence: u64,
}

/// The status of a run in its store.
///
/// | from | to | by |
/// |---|---|---|
/// | `Running` | `Waiting` | a commit of a run whose branches all wait |
/// | `Waiting` | `Running` | a commit after an answer, signal or time has come |
/// | `Running`, `Waiting` | `Stuck` | a claim or release after too many takeovers |
/// | `Stuck` | `Running` | a claim with `force` |
/// | `Running`, `Waiting` | an ended status | the last commit of the run |
/// | an ended status | `Running` | a rewind |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunStatus {
    /// The run can continue without waiting.
    Running,
    /// The run waits for an answer, a signal or a time.
    Waiting,
    /// The run was taken over repeatedly without a commit. It stays unclaimed until a claim with
    /// `force`.
    Stuck,
    /// The run reached its end successfully.
    Finished,
    /// The run failed, and no completed node had an undo.
    Failed,
    /// The run was cancelled permanently, not only interrupted.
    Cancelled,
    /// The run failed, and all its undos succeeded.
    Compensated,
    /// The run failed, and one of its undos failed.
    CompensationFailed,
}

impl RunStatus {
    /// All statuses, in the order of the enum.
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

    /// Returns whether such a run can become due and be claimed as ready.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Running | Self::Waiting)
    }

    /// Returns whether the run is over. Only a rewind can continue it.
    pub fn has_ended(self) -> bool {
        !self.is_live() && self != Self::Stuck
    }

    /// Returns the stored text of the status, for example `"running"`.
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

    /// Parses the text that [`as_str`](Self::as_str) returns.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A condition on the runs of a list. Several filters must all match.
///
/// # Examples
/// ```
/// use pleach::prelude::*;
/// use pleach::store::{Filter, RunStatus, StoreError};
///
/// async fn count_stuck(store: &impl Store) -> Result<usize, StoreError> {
///     let filters = vec![Filter::Graph("orders".into()), Filter::Status(RunStatus::Stuck)];
///     Ok(store.list(filters, None, 100).await?.runs.len())
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Filter {
    /// Matches runs that have this status.
    Status(RunStatus),
    /// Matches runs of the graph with this name.
    Graph(String),
    /// Matches runs that have this tag with this value. Several tags must all match.
    Tag {
        /// The key of the tag.
        key: String,
        /// The value of the tag.
        value: String,
    },
    /// Matches runs whose ids begin with this text.
    IdPrefix(String),
    /// Matches runs created at this time or later.
    CreatedSince(Timestamp),
    /// Matches runs created before this time.
    CreatedBefore(Timestamp),
    /// Matches runs changed at this time or later.
    ChangedSince(Timestamp),
    /// Matches runs changed before this time.
    ChangedBefore(Timestamp),
}

/// A run whose own row is damaged, so that it cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedRun {
    /// The id of the run, as far as it is readable.
    pub run: String,
    /// Describes the damage in a few words.
    pub reason: &'static str,
}

impl Filter {
    /// Matches runs that have the tag `key` with this value.
    pub fn tag(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self::Tag { key: key.into(), value: value.into() }
    }
}

/// A position in a list of runs: after the run that was created at this time with this number.
///
/// It has a text form for URLs and command lines.
///
/// # Examples
/// ```
/// use pleach::store::RunCursor;
///
/// let cursor: RunCursor = "1767225600000-17".parse()?;
/// assert_eq!(cursor.to_string(), "1767225600000-17");
/// # Ok::<_, pleach::store::StoreError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunCursor {
    /// When the last run of the page was created.
    pub created: Timestamp,
    /// The number of that run in its store.
    pub number: i64,
}

impl fmt::Display for RunCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.created.as_millis(), self.number)
    }
}

impl FromStr for RunCursor {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let invalid = || StoreError::invalid("cursor", text, "use the cursor of an earlier page");
        // The first number can be negative, so the separator is not its sign.
        let at = text.get(1..).and_then(|rest| rest.find('-')).ok_or_else(invalid)? + 1;
        let (created, number) = (text[..at].parse().map_err(|_| invalid())?, text[at + 1..].parse().map_err(|_| invalid())?);
        Ok(Self { created: Timestamp::from_millis(created), number })
    }
}

/// One page of a list of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunList {
    /// The runs of this page, the newest first.
    pub runs: Vec<RunInfo>,
    /// The runs of this page whose own rows are damaged. Filters cannot be applied to them.
    pub damaged: Vec<DamagedRun>,
    /// The position to pass as `after` for the next page; `None` after the last page. A page that
    /// is not full can have one; see [`Store::list`](super::Store::list).
    pub next: Option<RunCursor>,
}
