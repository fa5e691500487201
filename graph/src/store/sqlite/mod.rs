//! `SqliteStore`: runs in one SQLite file, written by one thread and read beside it. Several processes may share the file.
//!
//! Every write of this process is a job for the writer thread (`writer`), which puts many jobs into one transaction: one sync serves many runs.
//! `write`, `lease` and `prune` say what a job does, `read` what is read; `schema` has the tables. `file` opens a file and refuses what is none, `wal` takes
//! care of SQLite's log, `holders` knows which stores with leases are alive, `clock` tells the time.

/// XOR of two SQL expressions: SQLite has no operator for it.
macro_rules! xor {
    ($one:expr, $other:expr) => {
        concat!("((", $one, " & ~", $other, ") | (~", $one, " & ", $other, "))")
    };
}

mod clock;
mod file;
mod holders;
mod lease;
#[cfg(test)]
mod lease_tests;
mod prune;
mod read;
mod schema;
mod wal;
mod write;
mod writer;

use super::hint::Hints;
use super::limits::check_lease;
use super::{
    Claim, Commit, Committed, Filter, Held, InboxMessage, Lease, NewMessage, NewRun, Parts, Prune, Release, Renewed, Row, Rows,
    RunInfo, RunList, Store, StoreError, StoreFuture, Wanted,
};
use clock::{Clock, Now};
use file::DbFile;
use pleach_core::BoxFuture;
use rusqlite::Connection;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use writer::{Batch, Done, Failed, Weight, Writer};

/// A job of few bytes that makes no run ready.
const LIGHT: Weight = Weight { bytes: 0, nudges: false };

/// How many ended runs are removed in one transaction. Commits and renewals wait for it, and a run may be large.
const REMOVED_AT_ONCE_MAX: usize = 8;

/// How many runs that cannot be removed are passed over by one call.
const PASSED_OVER_MAX: usize = 64;

/// How many connections for reading are kept open.
const READERS_MAX: usize = 4;

/// Runs in one SQLite file. Cloning is cheap, and gives the same store; dropping the last clone closes the file.
///
/// Commits are durable when they are acknowledged: the file is in WAL mode, and each transaction is synced. A new file can be read by its owner
/// alone. Other processes may open the same file, on this machine: SQLite's locks keep them apart.
///
/// Leases do not depend on the time of day. A lease ends after its length, measured by a clock that counts suspended time, or as soon as the store
/// that claimed it is closed or its process has died.
///
/// While it is open, SQLite's write-ahead log of 4.5 MB or more lies beside the file, and a folder `<file>-holders` with an empty file for each open
/// store. Both go when the last store is closed. Do not delete or replace the file while it is open: reads and commits fail then.
///
/// A program has one copy of the native SQLite library, so all crates that use it must agree on `libsqlite3-sys`: 0.30.1 to 0.39 work with this one,
/// among them sqlx 0.8.1 to 0.9.
#[derive(Clone)]
pub struct SqliteStore(Arc<SqliteParts>);

struct SqliteParts {
    file: DbFile,
    clock: Arc<Clock>,
    writer: Writer,
    readers: Mutex<Vec<Connection>>,
    hints: Arc<Hints>,
}

impl SqliteStore {
    /// Opens the file, and makes it if there is none. An empty file counts as none. A relative path is made absolute.
    ///
    /// # Errors
    /// - [`Unusable`](StoreError::Unusable): the file is no store, is damaged or cannot be written; or the path is a URI (`file:..`) or `:memory:`.
    /// - [`Future`](StoreError::Future): a later version of this library has written it.
    /// - [`Unavailable`](StoreError::Unavailable): others have kept it locked for 10 seconds, or the disk failed.
    ///
    /// A file that is refused is left as it is.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref().to_path_buf();
        off_thread(move || Self::open_with(&path, Clock::system())).await
    }

    fn open_with(path: &Path, clock: Clock) -> Result<Self, StoreError> {
        let (file, clock, hints) = (DbFile::find_or_make(path)?, Arc::new(clock), Arc::new(Hints::default()));
        let writer = Writer::start(file.clone(), Arc::clone(&clock), Arc::clone(&hints))?;
        Ok(Self(Arc::new(SqliteParts { file, clock, writer, readers: Mutex::default(), hints })))
    }

    /// The file: an absolute path without links.
    pub fn path(&self) -> &Path {
        self.0.file.path()
    }

    /// Has the writer do a job.
    async fn write<T: Send + 'static>(
        &self,
        weight: Weight,
        act: impl FnMut(&Batch<'_>) -> Done<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.try_write(weight, act).await.map_err(|failed| failed.error)
    }

    /// The same for a job that is about one run. If it meets a damaged page, that is damage to the run only if its own rows cannot be read: the page may be
    /// one that all runs share.
    async fn write_run<T: Send + 'static>(
        &self,
        run: String,
        weight: Weight,
        act: impl FnMut(&Batch<'_>) -> Done<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        match self.try_write(weight, act).await {
            Err(failed) if failed.is_corrupt => Err(self.damage_to(&run).await.unwrap_or(failed.error)),
            done => done.map_err(|failed| failed.error),
        }
    }

    /// The first damage that is met when all records and messages of a run are read.
    async fn damage_to(&self, run: &str) -> Option<StoreError> {
        let read = async {
            let mut after = Some(0);
            while let Some(last) = after {
                let run = run.to_string();
                after = self.read_with(move |db, now| read::look_through(db, now, &run, last)).await?;
            }
            let mut after = Some(0);
            while let Some(last) = after {
                after = self.inbox(run, last).await?.last().map(|mail| mail.number);
            }
            Ok(())
        };
        read.await.err().filter(|error| matches!(error, StoreError::Damaged { .. }))
    }

    async fn try_write<T: Send + 'static>(
        &self,
        weight: Weight,
        act: impl FnMut(&Batch<'_>) -> Done<T> + Send + 'static,
    ) -> Result<T, Failed> {
        self.0
            .writer
            .send(weight, act)?
            .await
            .unwrap_or_else(|_| Err(StoreError::unavailable("the store was closed meanwhile").into()))
    }

    /// Removes runs that have ended one by one, and passes over those that cannot be removed: a page of theirs is damaged.
    async fn prune_singly(&self, unchanged_for: Duration, count: usize) -> Result<usize, StoreError> {
        let (mut removed, mut passed_over) = (0, Vec::new());
        while removed < count && passed_over.len() < PASSED_OVER_MAX {
            let except = passed_over.clone();
            let next = self.write(LIGHT, move |batch| prune::oldest_ended(batch, unchanged_for, &except)).await?;
            let Some(key) = next else { break };
            match self.try_write(LIGHT, move |batch| prune::prune_one(batch, unchanged_for, key)).await {
                Ok(true) => removed += 1,
                Ok(false) => passed_over.push(key),
                Err(failed) if failed.is_corrupt => {
                    tracing::error!(store = %self.path().display(), key, "a run that has ended is not removed: a page of it is damaged");
                    passed_over.push(key);
                }
                Err(failed) => return Err(failed.error),
            }
        }
        Ok(removed)
    }

    /// Reads in one snapshot, with a connection of its own.
    async fn read_with<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Connection, Now) -> Done<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let inner = Arc::clone(&self.0);
        off_thread(move || {
            let spare = inner.lock_readers().pop();
            let mut reader = spare.map_or_else(|| inner.file.open_for_reading(), Ok)?;
            let failed = |error: rusqlite::Error| inner.file.failure(error);
            let snapshot = reader.transaction().map_err(failed)?;
            inner.file.check_format(&snapshot)?;
            let answer = act(&snapshot, inner.clock.now()).map_err(failed)?;
            snapshot.finish().map_err(failed)?;
            inner.file.check_in_place()?;
            // One that failed is not kept: the next is opened anew.
            let mut readers = inner.lock_readers();
            if readers.len() < READERS_MAX {
                readers.push(reader);
            }
            answer
        })
        .await
    }
}

impl SqliteParts {
    fn lock_readers(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path()).finish()
    }
}

impl Store for SqliteStore {
    fn create(&self, run: NewRun, rows: Vec<Row>) -> StoreFuture<'_, Claim> {
        Box::pin(async move {
            run.check(&rows)?;
            let weight = Weight { bytes: size_of_rows(&rows), nudges: run.lease.is_none() };
            self.write(weight, move |batch| write::create(batch, run.clone(), &rows)).await
        })
    }

    fn claim(&self, wanted: Wanted, lease: Lease) -> StoreFuture<'_, Vec<Claim>> {
        Box::pin(async move {
            wanted.check(&lease)?;
            match wanted {
                Wanted::One { run, force } => {
                    self.write_run(run.clone(), LIGHT, move |batch| lease::claim_one(batch, &run, force, &lease)).await
                }
                Wanted::Ready { graphs, count } => {
                    self.write(LIGHT, move |batch| lease::claim_ready(batch, &graphs, count, &lease)).await
                }
            }
        })
    }

    fn renew(&self, held: Vec<Held>, lease: Duration) -> StoreFuture<'_, Renewed> {
        Box::pin(async move {
            check_lease(lease)?;
            self.write(LIGHT, move |batch| lease::renew(batch, held.clone(), lease)).await
        })
    }

    fn release(&self, held: Vec<Held>, how: Release) -> StoreFuture<'_, Vec<Held>> {
        Box::pin(self.write(Weight { bytes: 0, nudges: true }, move |batch| lease::release(batch, held.clone(), &how)))
    }

    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        Box::pin(async move {
            let head = commit.check()?;
            let weight = Weight { bytes: size_of_rows(&commit.rows), nudges: commit.may_make_ready() };
            self.write_run(commit.run.clone(), weight, move |batch| write::commit(batch, &commit, head)).await
        })
    }

    fn head<'a>(&'a self, run: &'a str) -> StoreFuture<'a, RunInfo> {
        let run = run.to_string();
        Box::pin(self.read_with(move |db, now| Ok(read::run(db, now, &run)?.map(|run| run.info))))
    }

    fn read<'a>(&'a self, run: &'a str, which: Rows, parts: Parts) -> StoreFuture<'a, Vec<Row>> {
        let run = run.to_string();
        Box::pin(self.read_with(move |db, now| read::rows(db, now, &run, which, parts)))
    }

    fn list(&self, filters: Vec<Filter>, after: Option<u64>, count: usize) -> StoreFuture<'_, RunList> {
        Box::pin(self.read_with(move |db, now| read::list(db, now, filters, after, count)))
    }

    fn post<'a>(&'a self, run: &'a str, post: NewMessage) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            post.check()?;
            let run = run.to_string();
            let weight = Weight { bytes: post.payload.len(), nudges: true };
            self.write_run(run.clone(), weight, move |batch| write::post(batch, &run, &post)).await
        })
    }

    fn inbox<'a>(&'a self, run: &'a str, after: u64) -> StoreFuture<'a, Vec<InboxMessage>> {
        let run = run.to_string();
        Box::pin(self.read_with(move |db, now| read::inbox(db, now, &run, after)))
    }

    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            let (unchanged_for, count) = match prune {
                Prune::Ended { unchanged_for, count } => (unchanged_for, count),
                Prune::Rows { held, before, keep } => {
                    let run = held.run.clone();
                    let act = move |batch: &Batch<'_>| prune::prune_rows(batch, &held, before, &keep);
                    return self.write_run(run, LIGHT, act).await;
                }
            };
            let mut removed = 0;
            while removed < count {
                let some = (count - removed).min(REMOVED_AT_ONCE_MAX);
                match self.try_write(LIGHT, move |batch| prune::prune_ended(batch, unchanged_for, some)).await {
                    Ok(0) => break,
                    Ok(more) => removed += more as usize,
                    Err(failed) if failed.is_corrupt => {
                        removed += self.prune_singly(unchanged_for, count - removed).await?;
                        break;
                    }
                    Err(failed) => return Err(failed.error),
                }
            }
            Ok(removed as u64)
        })
    }

    fn delete<'a>(&'a self, run: &'a str) -> StoreFuture<'a, ()> {
        let run = run.to_string();
        Box::pin(self.write_run(run.clone(), LIGHT, move |batch| prune::delete(batch, &run)))
    }

    fn nudged(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.hints.wait())
    }
}

fn size_of_rows(rows: &[Row]) -> usize {
    rows.iter().map(Row::size).sum()
}

/// On a thread of the Tokio runtime that is meant for blocking, if this runs in one; else here.
async fn off_thread<T: Send + 'static>(act: impl FnOnce() -> Result<T, StoreError> + Send + 'static) -> Result<T, StoreError> {
    #[cfg(feature = "tokio")]
    if let Ok(handle) = tokio::runtime::Handle::try_current() {
        return handle.spawn_blocking(act).await.unwrap_or_else(|error| Err(StoreError::unavailable(error)));
    }
    act()
}
