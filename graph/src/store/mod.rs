//! Where durable runs live: the [`Store`] trait and its implementations.
//!
//! | store | durability | use it for |
//! |---|---|---|
//! | [`MemoryStore`] | none | tests, and programs that may lose their runs |
//! | `SqliteStore` (feature `sqlite`) | one file | one machine, any number of processes |
//! | `PostgresStore` (feature `postgres`) | a database server | many machines |
//!
//! A store keeps bytes and counts sequences and epochs. It knows nothing about graphs. A **run** in
//! a store is three things: its own row ([`RunInfo`]), a log of [`Row`]s numbered from 1 without
//! gaps, and an inbox.
//!
//! A driver must **claim** a run before it executes the run. Each claim gets a new epoch (the
//! fencing token) and a lease, which the driver renews.
//!
//! Invariants of every store:
//! 1. A commit succeeds only if the run is held, and its epoch and head are the ones that the
//!    driver names. Otherwise the commit is [`Fenced`](StoreError::Fenced) and changes nothing.
//!    Claims and commits both change the epoch and the head in the run's own row, so a stale commit
//!    and a claim cannot both succeed.
//! 2. A commit is atomic. The store confirms it only after it is durable. After an error the commit
//!    may still have succeeded; repeating it returns the first answer.
//! 3. Epochs and heads never decrease. Sequences have no gaps, except below `oldest`, where
//!    [`prune`](Store::prune) removed rows.
//! 4. Leases, timers and ages use one clock, the store's, and never the clock of a caller.
//! 5. A rejected call changes nothing.
//!
//! Any task may call any method. Every method is cancel safe in this sense: if its future is
//! dropped, the operation happens completely or not at all.
//!
//! The module `conformance` (feature `conformance`) tests these invariants for your own store.
//!
//! Reading order: this file, `record` (the meaning of the bytes), `memory` (the contract in plain
//! data), `sqlite`, `postgres`.

#[cfg(feature = "conformance")]
pub mod conformance;
mod decide;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod diagnosis;
mod error;
mod hint;
mod limits;
mod memory;
pub(crate) mod message_kind;
mod overdue;
#[cfg(feature = "postgres")]
mod postgres;
mod query;
mod record;
mod refusal;
mod request;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod retention;
mod row;
mod run_failure;
mod run_info;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod run_sum;
#[cfg(feature = "sqlite")]
mod sqlite;
mod tags;
mod time;

pub use error::StoreError;
pub(crate) use limits::BODY;
pub use limits::{
    BODY_BYTES_MAX, INBOX_MAX, LIST_EXAMINED_MAX, LIST_MAX, READ_BYTES_MAX, READ_ROWS_MAX, REASON_BYTES_MAX, REFUSED_MAX,
    ROW_BYTES_MAX, ROWS_PER_COMMIT_MAX, TAKEOVERS_MAX, TEXT_BYTES_MAX,
};
pub use memory::MemoryStore;
pub use message_kind::{CommandAction, InboxMessageKind};
pub use overdue::{OVERDUE_VERSIONS_MAX, OverdueRun, OverdueRuns};
#[cfg(feature = "postgres-tls")]
pub use postgres::PostgresTls;
#[cfg(feature = "postgres")]
pub use postgres::{PostgresBuilder, PostgresDiagnosis, PostgresStore, PostgresTable, PostgresTransaction};
pub use record::{FORMAT, Fork, Header, Kind, LiveToken, Place, PlacedBy, Record};
pub use refusal::{Refusal, RefusalCause, RefusedMessage};
pub use request::{
    Claim, Commit, Committed, Deadline, Held, Lease, NewRun, Parts, Prune, Release, Renewed, Rows, Wake, Wanted,
};
pub(crate) use row::PackedBody;
pub use row::{InboxMessage, NewMessage, Row};
pub use run_failure::{FailureKind, RunFailure};
pub use run_info::{DamagedRun, Filter, GraphVersion, Origin, RunCursor, RunInfo, RunList, RunStatus};
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteDiagnosis, SqliteHolder, SqliteIntegrity, SqliteStore};
pub use tags::{TAG_KEY_BYTES_MAX, TAG_VALUE_BYTES_MAX, TAGS_MAX, TagError, Tags};
pub use time::Timestamp;

use pleach_core::BoxFuture;
use std::sync::Arc;
use std::time::Duration;

/// The future that the methods of a [`Store`] return.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// A place where durable runs live.
///
/// Applications use [`MemoryStore`], `SqliteStore` or `PostgresStore` and rarely call these
/// methods. Implement the trait for another database; the [module](self) lists the invariants.
///
/// # Examples
/// Lists the finished runs of one graph:
/// ```
/// use pleach::prelude::*;
/// use pleach::store::{Filter, RunStatus};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = Graph::<u32>::new("double")
///     .add_node("double", |n: u32| async move { Ok::<_, String>(n * 2) })
///     .add_edge("double", END)
///     .set_entry("double")
///     .compile()?;
/// let store = MemoryStore::new();
/// assert_eq!(graph.run(21).id("job-1").checkpoint(&store).await?, 42);
///
/// let filters = vec![Filter::Graph("double".into()), Filter::Status(RunStatus::Finished)];
/// let page = store.list(filters, None, 10).await?;
/// assert_eq!(page.runs[0].id, "job-1");
/// # Ok(())
/// # }
/// ```
pub trait Store: Send + Sync + 'static {
    /// Creates a run with its first rows, which are numbered from 1 and have epoch 1.
    ///
    /// - With a [`lease`](NewRun::lease), that owner holds the run from the start, with epoch 1.
    /// - Without a lease, the run waits for a claim as [`wake`](NewRun::wake) says, and the first
    ///   claim gets epoch 2.
    ///
    /// A repeated call is answered like the first if the stored run is the same one: it still has
    /// epoch 1, the same instance and owner, and the same last row.
    ///
    /// # Errors
    /// [`Exists`](StoreError::Exists) if the store has another run with this id.
    fn create(&self, run: NewRun, rows: Vec<Row>) -> StoreFuture<'_, Claim>;

    /// Claims one run, or several runs that are ready.
    ///
    /// The owner holds each claimed run until the lease expires, and the epoch of the run grows by
    /// one. Two concurrent calls never claim the same run.
    ///
    /// [`Wanted::One`] claims a run by its id, in any status. The owner's own lease is no obstacle:
    /// an owner claims again when an answer was lost.
    ///
    /// [`Wanted::Ready`] claims runs of the named graph versions. A run is ready if its status is
    /// live ([`RunStatus::is_live`]), its wake time has come, and it has no unexpired lease. The
    /// run that has been due longest comes first. The answer is empty if no run is ready.
    ///
    /// A claim of a run that still has an owner counts as a takeover: its lease has expired, or
    /// `force` broke it. A commit or a forced claim resets the count. After [`TAKEOVERS_MAX`]
    /// takeovers, the next one makes the run [`RunStatus::Stuck`] instead of claiming it.
    ///
    /// # Errors
    /// For [`Wanted::One`]:
    /// - [`RunNotFound`](StoreError::RunNotFound) if the store has no run with this id.
    /// - [`Held`](StoreError::Held) if another owner has an unexpired lease. `force` breaks the
    ///   lease.
    /// - [`Stuck`](StoreError::Stuck) if the run is stuck. `force` sets it to
    ///   [`RunStatus::Running`].
    fn claim(&self, wanted: Wanted, lease: Lease) -> StoreFuture<'_, Vec<Claim>>;

    /// Extends the leases so that they expire `lease` from now.
    ///
    /// One run never delays the renewal of another. A run whose row is locked is listed as
    /// [`busy`](Renewed::busy), and a run that the caller does not hold as [`lost`](Renewed::lost).
    /// All other runs are renewed. An expired lease can be renewed until another owner claims the
    /// run.
    ///
    /// # Errors
    /// [`Invalid`](StoreError::Invalid) for a zero lease; call [`release`](Self::release) instead.
    fn renew(&self, held: Vec<Held>, lease: Duration) -> StoreFuture<'_, Renewed>;

    /// Releases runs, so that other drivers can claim them. Returns the runs that the caller did
    /// not hold.
    ///
    /// - [`Release::AsIs`] keeps the wake time of each run.
    /// - [`Release::ForOthers`] is for a run that this caller cannot execute but others can. A
    ///   live run becomes due after the delay, or when it gets a message. This counts as no
    ///   takeover.
    /// - [`Release::Failed`] is for a run that could not be executed. It stores the reason,
    ///   counts as a takeover, and the run becomes due after the delay or when it gets a
    ///   message. After [`TAKEOVERS_MAX`] such releases in a row without a commit, the run becomes
    ///   [`RunStatus::Stuck`].
    fn release(&self, held: Vec<Held>, how: Release) -> StoreFuture<'_, Vec<Held>>;

    /// Appends rows to the log of a run and updates its own row; see [`Commit`].
    ///
    /// The commit succeeds if the run is the named instance, is held with the named epoch, and its
    /// head is the sequence before the first row. The lease may have expired.
    ///
    /// A repeated commit is confirmed again and changes nothing. It counts as repeated if the epoch
    /// is the same and the last row of the log equals the last row of the commit. The header
    /// contains the checksum of the body, so comparing headers is enough.
    ///
    /// # Errors
    /// [`Fenced`](StoreError::Fenced) if one of these conditions does not hold.
    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed>;

    /// Returns the run's own row.
    ///
    /// # Errors
    /// [`RunNotFound`](StoreError::RunNotFound) if the store has no run with this id.
    fn head<'a>(&'a self, run: &'a str) -> StoreFuture<'a, RunInfo>;

    /// Reads rows from the log of a run, in the order of their sequences.
    ///
    /// One call returns at least one row, and stops before it exceeds [`READ_ROWS_MAX`] rows or
    /// [`READ_BYTES_MAX`] bytes. Call it again for the remaining rows. The store does not check the
    /// content of the rows; [`Row::open`] does.
    ///
    /// # Errors
    /// - [`NoSuchRow`](StoreError::NoSuchRow) for a sequence above the head. A range may end above
    ///   the head.
    /// - [`Pruned`](StoreError::Pruned) for a pruned row, and for a range that starts below the
    ///   oldest row.
    /// - [`Damaged`](StoreError::Damaged) if a row is missing that was never pruned.
    fn read<'a>(&'a self, run: &'a str, which: Rows, parts: Parts) -> StoreFuture<'a, Vec<Row>>;

    /// Lists the runs that match all filters, the newest first: by the time of creation, then by
    /// the order of creation.
    ///
    /// Returns at most `count` runs and never more than [`LIST_MAX`]. Pass [`RunList::next`] of the
    /// previous page as `after`. Across pages no run appears twice, and no run that existed all the
    /// time is missing. A run whose own row is damaged appears in [`RunList::damaged`] and does not
    /// hide the others.
    ///
    /// One call examines at most [`LIST_EXAMINED_MAX`] runs. So a page can be short, or empty, and
    /// still have a [`next`](RunList::next): the list ends with the page that has none. An index
    /// finds the runs by status, graph, time of creation, one tag, and a rare id prefix; other
    /// conditions are checked for each examined run.
    fn list(&self, filters: Vec<Filter>, after: Option<RunCursor>, count: usize) -> StoreFuture<'_, RunList>;

    /// Returns the runs that are due and that no driver has claimed for `due_for`, by version.
    ///
    /// Workers use it to report runs that none of them serves. Each version has at most `count`
    /// runs, the longest due first. At most [`OVERDUE_VERSIONS_MAX`] versions are returned. The
    /// cost must depend on the number of versions and on `count`, not on the number of runs.
    ///
    /// The default implementation reads the lists of live runs by pages, at most 10,000 runs of
    /// each status, and uses the clock of this machine.
    fn overdue(&self, due_for: Duration, count: usize) -> StoreFuture<'_, Vec<OverdueRuns>> {
        Box::pin(overdue::by_list(self, due_for, count))
    }

    /// Adds a message to the inbox of a run and returns its number, which counts from 1.
    ///
    /// The run may be held or not. A live run becomes due at once.
    ///
    /// If the inbox already had a message with the same [`dedup`](NewMessage::dedup) text, nothing
    /// is added and the number of the first message is returned. That holds even after the first
    /// message was taken or pruned.
    ///
    /// A command always fits; [`NewMessage::against_queued`] decides which earlier commands it
    /// replaces.
    ///
    /// # Errors
    /// - [`Ended`](StoreError::Ended) if the run has ended.
    /// - [`InboxFull`](StoreError::InboxFull) if [`INBOX_MAX`] messages of the same
    ///   [kind](NewMessage::kind), signals or answers, wait to be taken.
    fn send_message<'a>(&'a self, run: &'a str, message: NewMessage) -> StoreFuture<'a, u64>;

    /// Reads the messages of an inbox that no commit has taken, numbered above `after`, in order.
    ///
    /// One call is limited as [`read`](Self::read) is; call it again for the remaining messages.
    fn inbox<'a>(&'a self, run: &'a str, after: u64) -> StoreFuture<'a, Vec<InboxMessage>>;

    /// Returns whether the message with this number waits in the inbox: no commit has taken it, and
    /// no later command has replaced it.
    ///
    /// A sender that waits for a confirmation calls it repeatedly, so its cost should not depend on
    /// the number of messages. The default implementation reads the inbox from that message on.
    fn is_untaken<'a>(&'a self, run: &'a str, number: u64) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let untaken = self.inbox(run, number.saturating_sub(1)).await?;
            Ok(untaken.first().is_some_and(|first| first.number == number))
        })
    }

    /// Lists the messages that the run refused ([`Commit::refuses`]), the oldest first.
    ///
    /// The last [`REFUSED_MAX`] are kept, as long as the run.
    fn refused<'a>(&'a self, run: &'a str) -> StoreFuture<'a, Vec<RefusedMessage>>;

    /// Removes old rows of a log, or old runs, and returns how many it removed; see [`Prune`].
    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64>;

    /// Removes a run with its log, its inbox and its tags.
    ///
    /// # Errors
    /// [`RunNotFound`](StoreError::RunNotFound) if the store has no run with this id,
    /// [`Held`](StoreError::Held) if the run has an unexpired lease.
    fn delete<'a>(&'a self, run: &'a str) -> StoreFuture<'a, ()>;

    /// Waits for a hint that runs may have become ready or have received messages.
    ///
    /// A hint saves waiting for the next poll. It can come without a reason, and it can be lost.
    /// The default implementation never completes.
    fn hint(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

impl<S: Store + ?Sized> Store for Arc<S> {
    fn create(&self, run: NewRun, rows: Vec<Row>) -> StoreFuture<'_, Claim> {
        (**self).create(run, rows)
    }

    fn claim(&self, wanted: Wanted, lease: Lease) -> StoreFuture<'_, Vec<Claim>> {
        (**self).claim(wanted, lease)
    }

    fn renew(&self, held: Vec<Held>, lease: Duration) -> StoreFuture<'_, Renewed> {
        (**self).renew(held, lease)
    }

    fn release(&self, held: Vec<Held>, how: Release) -> StoreFuture<'_, Vec<Held>> {
        (**self).release(held, how)
    }

    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        (**self).commit(commit)
    }

    fn head<'a>(&'a self, run: &'a str) -> StoreFuture<'a, RunInfo> {
        (**self).head(run)
    }

    fn read<'a>(&'a self, run: &'a str, which: Rows, parts: Parts) -> StoreFuture<'a, Vec<Row>> {
        (**self).read(run, which, parts)
    }

    fn list(&self, filters: Vec<Filter>, after: Option<RunCursor>, count: usize) -> StoreFuture<'_, RunList> {
        (**self).list(filters, after, count)
    }

    fn overdue(&self, due_for: Duration, count: usize) -> StoreFuture<'_, Vec<OverdueRuns>> {
        (**self).overdue(due_for, count)
    }

    fn send_message<'a>(&'a self, run: &'a str, message: NewMessage) -> StoreFuture<'a, u64> {
        (**self).send_message(run, message)
    }

    fn inbox<'a>(&'a self, run: &'a str, after: u64) -> StoreFuture<'a, Vec<InboxMessage>> {
        (**self).inbox(run, after)
    }

    fn is_untaken<'a>(&'a self, run: &'a str, number: u64) -> StoreFuture<'a, bool> {
        (**self).is_untaken(run, number)
    }

    fn refused<'a>(&'a self, run: &'a str) -> StoreFuture<'a, Vec<RefusedMessage>> {
        (**self).refused(run)
    }

    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64> {
        (**self).prune(prune)
    }

    fn delete<'a>(&'a self, run: &'a str) -> StoreFuture<'a, ()> {
        (**self).delete(run)
    }

    fn hint(&self) -> BoxFuture<'_, ()> {
        (**self).hint()
    }
}
