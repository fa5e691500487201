//! `StoreError`: why a store did not do what it was asked.

use super::{RunStatus, Timestamp};
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Why a store did not do what it was asked. Unless it says otherwise, nothing was changed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// Another driver has claimed the run, or it was given up: whoever gets this must stop.
    Fenced {
        /// The run.
        run: String,
        /// The epoch that the caller named.
        epoch: u64,
    },
    /// There is a run with this id.
    Exists {
        /// The run.
        run: String,
    },
    /// There is no run with this id.
    Unknown {
        /// The id.
        run: String,
    },
    /// Another driver holds the run.
    Held {
        /// The run.
        run: String,
        /// Who.
        owner: String,
        /// Until when, by the store's clock.
        until: Timestamp,
        /// How long that is.
        left: Duration,
    },
    /// The run was taken over again and again without a commit: see what is wrong, then claim it by force.
    Stuck {
        /// The run.
        run: String,
        /// How often.
        takeovers: u32,
        /// Why it could not be driven, if a driver said so.
        reason: Option<String>,
    },
    /// The run has ended, and takes no more messages.
    Ended {
        /// The run.
        run: String,
        /// How.
        status: RunStatus,
    },
    /// The row was removed.
    Pruned {
        /// The run.
        run: String,
        /// The sequence from which on all rows are there.
        oldest: u64,
    },
    /// The run has no such row yet.
    NoSuchRow {
        /// The run.
        run: String,
        /// The sequence.
        sequence: u64,
        /// The sequence of the last row.
        head: u64,
    },
    /// What is stored is not what was written. Restore the store from a backup, or rewind the run to an earlier row.
    Damaged {
        /// The run.
        run: String,
        /// The sequence of the row; 0 if it is the run's own row or a message.
        sequence: u64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Something is larger than it may be.
    TooLarge {
        /// What.
        what: &'static str,
        /// Its size, in bytes unless `what` is a number.
        size: usize,
        /// How large it may be.
        limit: usize,
    },
    /// The inbox is full of messages that the run did not take.
    InboxFull {
        /// The run.
        run: String,
        /// How many there may be.
        limit: usize,
    },
    /// It was written by a later version of this library.
    Future {
        /// What.
        what: String,
        /// The format it has.
        format: u32,
        /// The latest format that is known here.
        known: u32,
    },
    /// A row is compressed, and this program is built without the feature `zstd`.
    Compressed {
        /// The run.
        run: String,
        /// The sequence.
        sequence: u64,
    },
    /// What was asked for makes no sense.
    Invalid {
        /// What is wrong.
        what: &'static str,
        /// The text or id that it is about, cut if it is long.
        given: String,
        /// Why.
        why: &'static str,
    },
    /// The store cannot be used as it is.
    Unusable {
        /// Which, without secrets.
        store: String,
        /// Why, and what to do.
        why: String,
    },
    /// The store could not be reached, or refused the call before it did anything: the connection was refused, all connections are in use, the
    /// server is starting or is read-only, a row stayed locked. **Nothing was changed**; repeat it later.
    Unreachable(Arc<dyn Error + Send + Sync>),
    /// The store did not answer, or could not do it: it is down, its disk is full, a sync failed. **It may have done it all the same**; repeat it, or
    /// look.
    Unavailable(Arc<dyn Error + Send + Sync>),
}

impl StoreError {
    pub(crate) fn invalid(what: &'static str, given: &str, why: &'static str) -> Self {
        Self::Invalid { what, given: given.chars().take(80).collect(), why }
    }

    /// A failure outside before anything was changed.
    pub fn unreachable(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unreachable(source.into().into())
    }

    /// Whether the same call may succeed later, with nothing mended: [`Unreachable`](Self::Unreachable) or [`Unavailable`](Self::Unavailable).
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Unavailable(_))
    }

    /// A failure outside, about which nothing more is known.
    pub fn unavailable(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unavailable(source.into().into())
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fenced { run, epoch } => {
                write!(f, "run {run:?} is no longer driven with epoch {epoch}: another driver has claimed it")
            }
            Self::Exists { run } => write!(f, "there is a run {run:?}: resume it, or choose another id"),
            Self::Unknown { run } => write!(
                f,
                "there is no run {run:?} in this store: look for its id with `list`; it may have been deleted, or pruned after its end"
            ),
            Self::Held { run, owner, left, .. } => {
                write!(f, "run {run:?} is held by {owner:?} for another {left:?}: wait for the lease to end, or take it over")
            }
            Self::Stuck { run, takeovers, reason: Some(reason) } => write!(
                f,
                "run {run:?} is stuck: it could not be driven {takeovers} times in a row, the last time because: {reason}; mend that, then resume it with `take_over`"
            ),
            Self::Stuck { run, takeovers, reason: None } => write!(
                f,
                "run {run:?} is stuck: it was taken over {takeovers} times without a commit; see what its next node does, then resume it with `take_over`"
            ),
            Self::Ended { run, status } => write!(f, "run {run:?} has ended ({status}), and takes no messages"),
            Self::Pruned { run, oldest } => {
                write!(f, "that row of run {run:?} was pruned: the oldest that is kept is {oldest}")
            }
            Self::NoSuchRow { run, sequence, head } => write!(f, "run {run:?} has no row {sequence}: its last is {head}"),
            Self::Damaged { run, sequence: 0, why } => {
                write!(f, "run {run:?} is damaged: {why}; restore the store from a backup")
            }
            Self::Damaged { run, sequence, why } => {
                write!(
                    f,
                    "row {sequence} of run {run:?} is damaged: {why}; rewind to an earlier row, or restore the store from a backup"
                )
            }
            Self::TooLarge { what, size, limit } => write!(f, "{what} is too large: {size}, and {limit} at most is allowed"),
            Self::InboxFull { run, limit } => {
                write!(f, "the inbox of run {run:?} is full: {limit} messages wait to be taken; post again later")
            }
            Self::Future { what, format, known } => {
                write!(f, "{what} has format {format}, and this version knows {known} at most: use a later version")
            }
            Self::Compressed { run, sequence } => {
                write!(f, "row {sequence} of run {run:?} is compressed: build with the feature `zstd` to read it")
            }
            Self::Invalid { what, given, why } => write!(f, "{what} {given:?} is refused: {why}"),
            Self::Unusable { store, why } => write!(f, "the store {store} cannot be used: {why}"),
            Self::Unreachable(source) => write!(f, "the store cannot be reached, and nothing was changed: {source}"),
            Self::Unavailable(source) => write!(f, "the store did not do it: {source}"),
        }
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unreachable(source) | Self::Unavailable(source) => Some(&**source),
            _ => None,
        }
    }
}
