//! `Store`: one fenced log per run, and an inbox beside it. A store keeps bytes, counts sequences and epochs, and knows nothing of graphs.
//!
//! A **run** is a row ([`RunInfo`]), a log of [`Row`]s numbered from 1 without gaps, and an inbox. Whoever drives a run has **claimed** it: the
//! claim gave it an epoch that no other claim has, and a lease that it renews. What a store must keep true, whatever happens to it:
//!
//! 1. A commit lands only where the run's epoch and head are those the driver names and the run is held; else it is
//!    [`Fenced`](StoreError::Fenced) and nothing changes. The epoch and the head are changed in the run's own row, by claims and commits
//!    alike, so that a stale commit and a claim cannot both win.
//! 2. A commit is all or nothing. It is answered after it is durable, and never before. An error may mean that it landed after all:
//!    repeating it is answered as the first time.
//! 3. Epochs and heads never fall. Sequences have no gaps, except below `oldest`, where [`prune`](Store::prune) was told to make them.
//! 4. Times are the store's: leases, timers and ages are judged by one clock, the database's, never that of a caller.
//! 5. What is refused changes nothing.
//!
//! Every method may be called from any task and may be dropped at any await: what was asked for then happens wholly or not at all.
//! [`conformance`] (feature `conformance`) is this text as a suite to run on a store of your own.
//!
//! Read in this order: this file, `record` (what the bytes are), `memory` (the whole contract in one file), `sqlite`, `postgres`.

#[cfg(feature = "conformance")]
pub mod conformance;
mod decide;
mod error;
mod hint;
mod limits;
mod memory;
pub(crate) mod message_kind;
#[cfg(feature = "postgres")]
mod postgres;
mod query;
mod record;
mod request;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod retention;
mod row;
mod run_info;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod run_sum;
#[cfg(feature = "sqlite")]
mod sqlite;
mod time;

pub use error::StoreError;
pub(crate) use limits::BODY;
pub use limits::{
    BODY_BYTES_MAX, INBOX_MAX, LIST_MAX, READ_BYTES_MAX, READ_ROWS_MAX, REASON_BYTES_MAX, ROW_BYTES_MAX, ROWS_PER_COMMIT_MAX,
    TAKEOVERS_MAX, TEXT_BYTES_MAX,
};
pub use memory::MemoryStore;
pub use message_kind::{CommandAction, InboxMessageKind};
#[cfg(feature = "postgres-tls")]
pub use postgres::PostgresTls;
#[cfg(feature = "postgres")]
pub use postgres::{PostgresBuilder, PostgresStore};
pub use record::{FORMAT, Fork, Header, Kind, LiveToken, Place, PlacedBy, Record};
pub use request::{
    Claim, Commit, Committed, Deadline, Held, Lease, NewRun, Parts, Prune, Release, Renewed, Rows, Wake, Wanted,
};
pub(crate) use row::PackedBody;
pub use row::{InboxMessage, NewMessage, Row};
pub use run_info::{DamagedRun, Filter, GraphVersion, Origin, RunInfo, RunList, RunStatus};
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;
pub use time::Timestamp;

use pleach_core::BoxFuture;
use std::sync::Arc;
use std::time::Duration;

/// What the methods of a [`Store`] return.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Where runs are kept. See the [module](self) for what must hold whatever happens.
pub trait Store: Send + Sync + 'static {
    /// Makes a run with its first rows, numbered from 1, all of epoch 1; its head is the last of them.
    ///
    /// - With a [`lease`](NewRun::lease) it is held by that owner from the start, with epoch 1. Without one it waits to be claimed, as
    ///   [`wake`](NewRun::wake) says, and the first claim gets epoch 2.
    /// - A run that has this id is [`Exists`](StoreError::Exists) and stays as it is; unless it is this very run: still of epoch 1, held by
    ///   the same owner, with the same last row. Then the answer had been lost, and is given again.
    fn create(&self, run: NewRun, rows: Vec<Row>) -> StoreFuture<'_, Claim>;

    /// Claims one run, or up to so many that are ready. Each claimed run is held by the owner until the lease ends, and its epoch is raised by
    /// one. What is claimed is given back whole; of two that claim at once, each gets other runs.
    ///
    /// [`One`](Wanted::One), whatever its status:
    /// - no such run is [`Unknown`](StoreError::Unknown);
    /// - one with a lease that has not ended, of another owner, is [`Held`](StoreError::Held), unless forced. An owner's own lease is no
    ///   obstacle: it claims again because an answer was lost.
    /// - a stuck one is [`Stuck`](StoreError::Stuck), unless forced: forcing tells it to go on, as [`RunStatus::Running`].
    ///
    /// [`Ready`](Wanted::Ready) gives runs of the graphs named, each with its version (fingerprint and schema): those whose status is live
    /// ([`RunStatus::is_live`]), whose time to wake has come and whose lease has ended or that have none, those due longest first. None is an
    /// empty list.
    ///
    /// Claiming a run that still has an owner, whose lease has ended or is broken by force, counts as a takeover; a commit sets the count back to 0, and
    /// so does forcing. A run with [`TAKEOVERS_MAX`] takeovers that would be taken over once more becomes [`RunStatus::Stuck`] instead, and is
    /// not claimed.
    fn claim(&self, wanted: Wanted, lease: Lease) -> StoreFuture<'_, Vec<Claim>>;

    /// Makes the leases end `lease` from now. One run never delays the renewal of another: a run whose row cannot be changed soon is listed as
    /// [`busy`](Renewed::busy), and runs that the caller does not hold as [`lost`](Renewed::lost). All others are renewed.
    ///
    /// A lease that has ended is renewed as long as nobody else has claimed the run. A lease of zero is [`Invalid`](StoreError::Invalid): call
    /// [`release`](Self::release).
    fn renew(&self, held: Vec<Held>, lease: Duration) -> StoreFuture<'_, Renewed>;

    /// Gives runs up, so that others can claim them. The answer lists those that the caller did not hold.
    ///
    /// [`Release::AsIs`] does not change when a run wakes. [`Release::LeftToOthers`] is for a run that this caller cannot drive and others can: a live run is
    /// not due before the rest is over, unless something is posted to it, and nothing is counted. [`Release::Troubled`] is for a run that could not be driven: it counts as a takeover and
    /// keeps the reason. Such a run is not due before the rest is over, unless something is posted to it. The one that makes it
    /// [`TAKEOVERS_MAX`] in a row, with no commit in between, makes the run [`RunStatus::Stuck`].
    fn release(&self, held: Vec<Held>, how: Release) -> StoreFuture<'_, Vec<Held>>;

    /// Adds rows to a run's log and says how it stands from now on; see [`Commit`]. It lands only if the run is the instance named, is held with
    /// the epoch named, and its head is the sequence before the first row, whether or not the lease has ended; else it is [`Fenced`](StoreError::Fenced).
    ///
    /// If it has landed before (the epoch is the same and the head is the last row, equal in its header, which has the checksum of the body), it is acknowledged again and changes
    /// nothing.
    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed>;

    /// The run's row, or [`Unknown`](StoreError::Unknown).
    fn head<'a>(&'a self, run: &'a str) -> StoreFuture<'a, RunInfo>;

    /// Rows of a run's log, in the order of their sequences. Of many it gives the first ones only, at least one, and stops before
    /// [`READ_ROWS_MAX`] rows or [`READ_BYTES_MAX`] bytes are passed: ask again for the rest.
    ///
    /// - A sequence above the head is [`NoSuchRow`](StoreError::NoSuchRow); a range may end above it, and gives what there is.
    /// - A row that was pruned is [`Pruned`](StoreError::Pruned), and so is a range that begins below the oldest row.
    /// - A row that should be there and is not is [`Damaged`](StoreError::Damaged).
    ///
    /// A store does not look into rows: [`Row::open`] finds other damage.
    fn read<'a>(&'a self, run: &'a str, which: Rows, parts: Parts) -> StoreFuture<'a, Vec<Row>>;

    /// Runs of which all filters are true, the youngest first, at most `count` of them and never more than [`LIST_MAX`]. A run whose own row is
    /// damaged is in [`RunList::damaged`], and does not keep the others from being listed. `after` is
    /// [`RunList::next`] of the page before: no run comes twice, and none that was there all the time is left out.
    fn list(&self, filters: Vec<Filter>, after: Option<u64>, count: usize) -> StoreFuture<'_, RunList>;

    /// Puts a message into a run's inbox, held or not, and gives its number: from 1, without gaps. A live run is due at once.
    ///
    /// With a [`dedup`](NewMessage::dedup) text that the inbox has seen, taken or not, pruned or not, nothing is added, and the number is that of the first. A run that has
    /// ended is [`Ended`](StoreError::Ended), one with [`INBOX_MAX`] signals, or so many answers, that nobody took is
    /// [`InboxFull`](StoreError::InboxFull) for another. A command always has room, and [`NewMessage::among`] says what becomes of those before it; see
    /// [`NewMessage::kind`].
    fn post<'a>(&'a self, run: &'a str, post: NewMessage) -> StoreFuture<'a, u64>;

    /// The messages of a run's inbox that were not taken, numbered above `after`, in order; of many the first ones, as for [`read`](Self::read).
    fn inbox<'a>(&'a self, run: &'a str, after: u64) -> StoreFuture<'a, Vec<InboxMessage>>;

    /// Removes what need not be kept, and says how many rows of a log, or how many runs, were removed; see [`Prune`].
    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64>;

    /// Removes a run with all that belongs to it. No such run is [`Unknown`](StoreError::Unknown), one with a lease that has not ended is
    /// [`Held`](StoreError::Held).
    fn delete<'a>(&'a self, run: &'a str) -> StoreFuture<'a, ()>;

    /// Resolves when runs may have become ready or got mail: a hint that spares waiting for the next poll. It may come for nothing, and may not
    /// come at all; the default never does.
    fn nudged(&self) -> BoxFuture<'_, ()> {
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

    fn list(&self, filters: Vec<Filter>, after: Option<u64>, count: usize) -> StoreFuture<'_, RunList> {
        (**self).list(filters, after, count)
    }

    fn post<'a>(&'a self, run: &'a str, post: NewMessage) -> StoreFuture<'a, u64> {
        (**self).post(run, post)
    }

    fn inbox<'a>(&'a self, run: &'a str, after: u64) -> StoreFuture<'a, Vec<InboxMessage>> {
        (**self).inbox(run, after)
    }

    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64> {
        (**self).prune(prune)
    }

    fn delete<'a>(&'a self, run: &'a str) -> StoreFuture<'a, ()> {
        (**self).delete(run)
    }

    fn nudged(&self) -> BoxFuture<'_, ()> {
        (**self).nudged()
    }
}
