//! [`StoreError`]: the ways in which a store operation fails.

use super::{RunStatus, Timestamp};
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The error of a store operation. The operation changed nothing, unless the variant says
/// otherwise.
///
/// # Examples
/// ```
/// use pleach::prelude::*;
/// use pleach::store::StoreError;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let error = MemoryStore::new().head("missing").await.unwrap_err();
/// assert!(matches!(&error, StoreError::RunNotFound { run } if run == "missing"));
/// assert!(!error.is_temporary(), "a retry cannot help");
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// Another driver has claimed the run, or the run was released. The caller must stop.
    Fenced {
        /// The id of the run.
        run: String,
        /// The epoch that the caller passed.
        epoch: u64,
    },
    /// The store already has a run with this id.
    Exists {
        /// The id of the existing run.
        run: String,
    },
    /// The store has no run with this id.
    RunNotFound {
        /// The id that was not found.
        run: String,
    },
    /// Another driver has an unexpired lease on the run.
    Held {
        /// The id of the run.
        run: String,
        /// The owner of the lease.
        owner: String,
        /// When the lease expires, by the store's clock.
        until: Timestamp,
        /// The time that remains until then.
        left: Duration,
    },
    /// The run was taken over repeatedly without a commit. Remove the cause, then force a claim.
    Stuck {
        /// The id of the run.
        run: String,
        /// The number of takeovers in a row.
        takeovers: u32,
        /// Why the last driver could not execute the run, if it reported a reason.
        reason: Option<String>,
    },
    /// The run has ended and accepts no messages.
    Ended {
        /// The id of the run.
        run: String,
        /// The final status of the run.
        status: RunStatus,
    },
    /// The requested row was removed by pruning.
    Pruned {
        /// The id of the run.
        run: String,
        /// The oldest sequence from which no row is missing.
        oldest: u64,
    },
    /// The run has not written this row yet.
    NoSuchRow {
        /// The id of the run.
        run: String,
        /// The sequence that was requested.
        sequence: u64,
        /// The sequence of the last row.
        head: u64,
    },
    /// The stored bytes differ from the written ones. Restore the store from a backup, or rewind
    /// the run to an earlier row.
    Damaged {
        /// The id of the run.
        run: String,
        /// The sequence of the damaged row; 0 for the run's own row or an inbox message.
        sequence: u64,
        /// Describes the damage in a few words.
        reason: &'static str,
    },
    /// A value exceeds its size limit.
    TooLarge {
        /// The name of the value.
        what: &'static str,
        /// Its size in bytes, or the number itself if `what` is a number.
        size: usize,
        /// The largest size that is allowed.
        limit: usize,
    },
    /// The inbox is full of messages that the run has not taken.
    InboxFull {
        /// The id of the run.
        run: String,
        /// The largest number of waiting messages.
        limit: usize,
    },
    /// The data was written by a later version of this library.
    NewerFormat {
        /// The name of the data.
        what: String,
        /// The format of the data.
        format: u32,
        /// The latest format that this version reads.
        known: u32,
    },
    /// The tables were written by an earlier version of this library, and the caller asked not to
    /// migrate them.
    OlderFormat {
        /// The name of the store.
        what: String,
        /// The format of the tables; 0 if there are none.
        format: u32,
        /// The format that this version needs.
        needed: u32,
    },
    /// A row is compressed, and this program was built without the feature `zstd`.
    Compressed {
        /// The id of the run.
        run: String,
        /// The sequence of the compressed row.
        sequence: u64,
    },
    /// An argument of the call is not valid.
    Invalid {
        /// The name of the argument.
        what: &'static str,
        /// The rejected value, shortened to 80 characters.
        given: String,
        /// Why the value is not valid.
        reason: &'static str,
    },
    /// The store cannot be opened or used in its present condition.
    Unusable {
        /// The name of the store, without secrets.
        store: String,
        /// The reason, and what to do about it.
        reason: String,
    },
    /// The store could not be reached, or rejected the call before it started.
    ///
    /// Examples: the connection was refused, all connections are in use, the server is starting or
    /// read-only, a row stayed locked. **Nothing was changed**; repeat the call later.
    Unreachable(Arc<dyn Error + Send + Sync>),
    /// The store did not answer, or failed during the call.
    ///
    /// Examples: it is down, its disk is full, a sync failed. **The operation may have succeeded**;
    /// repeat the call, or read the result.
    Unavailable(Arc<dyn Error + Send + Sync>),
}

impl StoreError {
    pub(crate) fn invalid(what: &'static str, given: &str, reason: &'static str) -> Self {
        Self::Invalid { what, given: given.chars().take(80).collect(), reason }
    }

    /// Wraps an external failure that happened before anything was changed, as
    /// [`Unreachable`](Self::Unreachable).
    pub fn unreachable(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unreachable(source.into().into())
    }

    /// Returns whether the same call can succeed later without a repair: for
    /// [`Unreachable`](Self::Unreachable) and [`Unavailable`](Self::Unavailable).
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Unavailable(_))
    }

    /// Wraps an external failure whose effect is unknown, as [`Unavailable`](Self::Unavailable).
    pub fn unavailable(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unavailable(source.into().into())
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fenced { run, epoch } => write!(
                f,
                "run {run:?} is no longer held with epoch {epoch}: another driver claimed it, or it was released; this driver must stop"
            ),
            Self::Exists { run } => {
                write!(f, "run {run:?} already exists in this store: resume it, or choose another id")
            }
            Self::RunNotFound { run } => write!(
                f,
                "run {run:?} does not exist in this store: look for its id with `list`; it may have been deleted, or pruned after it ended"
            ),
            Self::Held { run, owner, left, .. } => write!(
                f,
                "run {run:?} is held by {owner:?} for another {left:?}: wait until the lease expires, or take the run over"
            ),
            Self::Stuck { run, takeovers, reason: Some(reason) } => write!(
                f,
                "run {run:?} is stuck: it could not be executed {takeovers} times in a row, the last time because: {reason}; \
                 remove the cause, then resume the run with `take_over`"
            ),
            Self::Stuck { run, takeovers, reason: None } => write!(
                f,
                "run {run:?} is stuck: it was taken over {takeovers} times without a commit; check its next node, \
                 then resume the run with `take_over`"
            ),
            Self::Ended { run, status } => write!(f, "run {run:?} has ended ({status}) and accepts no messages"),
            Self::Pruned { run, oldest } => {
                write!(f, "the requested row of run {run:?} was pruned: the oldest available row is {oldest}")
            }
            Self::NoSuchRow { run, sequence, head } => {
                write!(f, "run {run:?} has no row {sequence}: its last row is {head}")
            }
            Self::Damaged { run, sequence: 0, reason } => {
                write!(f, "run {run:?} is damaged: {reason}; restore the store from a backup")
            }
            Self::Damaged { run, sequence, reason } => write!(
                f,
                "row {sequence} of run {run:?} is damaged: {reason}; rewind the run to an earlier row, or restore the store from a backup"
            ),
            Self::TooLarge { what, size, limit } => write!(f, "{what} is too large: {size}, the limit is {limit}"),
            Self::InboxFull { run, limit } => write!(
                f,
                "the inbox of run {run:?} is full: {limit} messages wait to be taken; this message was not added, send it again later"
            ),
            Self::NewerFormat { what, format, known } => write!(
                f,
                "{what} has format {format}, but this version reads formats up to {known}: use a later version of pleach"
            ),
            Self::OlderFormat { what, format: 0, .. } => {
                write!(f, "{what} has no tables of pleach: a program that opens the store creates them")
            }
            Self::OlderFormat { what, format, needed } => write!(
                f,
                "{what} has format {format}, but this version needs format {needed}: a program of this version migrates the store when it opens it; \
                 stop programs of earlier versions first"
            ),
            Self::Compressed { run, sequence } => {
                write!(f, "row {sequence} of run {run:?} is compressed: build this program with the feature `zstd` to read it")
            }
            Self::Invalid { what, given, reason } => write!(f, "invalid {what} {given:?}: {reason}"),
            Self::Unusable { store, reason } => write!(f, "the store {store} cannot be used: {reason}"),
            Self::Unreachable(source) => write!(f, "the store could not be reached and nothing was changed: {source}"),
            Self::Unavailable(source) => {
                write!(f, "the store failed, and the operation may or may not have succeeded: {source}")
            }
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
