//! [`SqliteStore`]: durable runs in one SQLite file, shared by any number of processes.
//!
//! One thread per store writes (`writer`). It puts many jobs into one transaction, so that one sync
//! serves many runs. A commit of a run that is alone is made on the thread of its caller. Reads use
//! separate connections beside it.
//!
//! | module | owns |
//! |---|---|
//! | `writer` | the queue of jobs, and the thread that works through it |
//! | `blocking` | which threads may make a commit themselves |
//! | `database` | the connection that writes, and its transactions |
//! | `write`, `inbox`, `lease`, `prune` | the jobs of the writer |
//! | `read`, `list`, `overdue` | all queries |
//! | `schema` | the tables and their formats |
//! | `file` | opening, creating and checking the file |
//! | `existing` | opening for reading only, and without a migration |
//! | `diagnosis` | the condition of a file, for operators |
//! | `wal` | SQLite's write-ahead log |
//! | `holders` | which stores with leases are alive |
//! | `clock` | the time of day and the lease clock |

/// The XOR of two SQL expressions. SQLite has no operator for it.
macro_rules! xor {
    ($one:expr, $other:expr) => {
        concat!("((", $one, " & ~", $other, ") | (~", $one, " & ", $other, "))")
    };
}

#[cfg(test)]
mod answers_tests;
mod blocking;
mod clock;
mod database;
mod diagnosis;
mod existing;
mod file;
#[cfg(test)]
mod here_tests;
mod holders;
mod inbox;
mod lease;
#[cfg(test)]
mod lease_tests;
mod list;
#[cfg(test)]
mod list_tests;
#[cfg(test)]
mod lock_tests;
mod overdue;
mod prune;
mod read;
mod schema;
mod wal;
#[cfg(test)]
mod work_tests;
mod write;
mod writer;

pub use diagnosis::{SqliteDiagnosis, SqliteHolder, SqliteIntegrity};

use super::hint::Hints;
use super::limits::check_lease;
use super::{
    Claim, Commit, Committed, Filter, Held, InboxMessage, Lease, NewMessage, NewRun, OverdueRuns, Parts, Prune, RefusedMessage,
    Release, Renewed, Row, Rows, RunCursor, RunInfo, RunList, Store, StoreError, StoreFuture, Wanted,
};
use clock::{Clock, Now};
use database::{Done, Failed, WriteTransaction};
use existing::Reader;
use file::DbFile;
use pleach_core::BoxFuture;
use rusqlite::Connection;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use writer::{Weight, Writer};

/// A job of few bytes that makes no run ready.
const LIGHT: Weight = Weight { bytes: 0, sends_hint: false, may_run_here: false };

/// The number of ended runs that one transaction removes. Commits and renewals wait for it, and a
/// run can be large.
const REMOVED_AT_ONCE_MAX: usize = 8;

/// The number of damaged runs after which one call of `prune` stops.
const SKIPPED_MAX: usize = 64;

/// The number of idle connections for reading that stay open.
const READERS_MAX: usize = 4;

/// A store in one SQLite file.
///
/// Clones are cheap and share one writer thread. Dropping the last clone closes the file.
///
/// - **Durability.** The file is in WAL mode and each transaction is synced. A confirmed commit is
///   durable.
/// - **Access.** Only the owner can read a new file. Other processes on the same machine can open
///   the same file.
/// - **Leases.** A lease does not depend on the time of day. It expires after its duration,
///   measured by a clock that counts suspended time, or as soon as the store that claimed it is
///   closed or its process has died.
/// - **Files.** While the store is open, SQLite's write-ahead log of at least 4.5 MB is beside the
///   file, and a folder `<file>-holders` with one empty file per open store. The last store removes
///   both when it closes. Do not delete or replace the file while it is open; reads and commits
///   then fail.
/// - **Linking.** A program has one copy of the native SQLite library, so all crates that use it
///   must agree on `libsqlite3-sys`. Versions 0.30.1 to 0.39 work, and with them sqlx 0.8.1 to 0.9.
///
/// # Examples
/// ```
/// use pleach::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = std::env::temp_dir().join(format!("pleach-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let path = folder.join("runs.db");
/// let graph = Graph::<u32>::new("double")
///     .add_node("double", |n: u32| async move { Ok::<_, String>(n * 2) })
///     .add_edge("double", END)
///     .set_entry("double")
///     .compile()?;
///
/// let store = SqliteStore::open(&path).await?;
/// assert_eq!(graph.run(21).id("job-1").checkpoint(&store).await?, 42);
/// assert!(store.head("job-1").await?.status.has_ended());
/// # drop(store);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SqliteStore(Arc<SqliteParts>);

struct SqliteParts {
    file: DbFile,
    clock: Arc<Clock>,
    /// `None` if the store was opened for reading only.
    writer: Option<Writer>,
    readers: Mutex<Vec<Connection>>,
    hints: Arc<Hints>,
}

impl SqliteStore {
    /// Opens the file, and creates it if it does not exist.
    ///
    /// An empty file counts as missing. A relative path is made absolute. Inside a Tokio runtime
    /// the file is opened on a blocking thread. A rejected file is not changed.
    ///
    /// # Errors
    /// - [`Unusable`](StoreError::Unusable): the file is not a store, is damaged or cannot be
    ///   written; or the path is a URI (`file:..`) or `:memory:`.
    /// - [`NewerFormat`](StoreError::NewerFormat): a later version of this library has written the
    ///   file.
    /// - [`Unavailable`](StoreError::Unavailable): another process kept the file locked for 10
    ///   seconds, or the disk failed.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref().to_path_buf();
        off_thread(move || Self::open_with(&path, Clock::system())).await
    }

    fn open_with(path: &Path, clock: Clock) -> Result<Self, StoreError> {
        Self::open_file(DbFile::find_or_create(path)?, clock)
    }

    fn open_file(file: DbFile, clock: Clock) -> Result<Self, StoreError> {
        let (clock, hints) = (Arc::new(clock), Arc::new(Hints::default()));
        let writer = Some(Writer::start(file.clone(), Arc::clone(&clock), Arc::clone(&hints))?);
        Ok(Self(Arc::new(SqliteParts { file, clock, writer, readers: Mutex::default(), hints })))
    }

    /// Returns the absolute path of the file, without links.
    pub fn path(&self) -> &Path {
        self.0.file.path()
    }

    /// Sends a job to the writer and waits for its result.
    async fn write<T: Send + 'static>(
        &self,
        weight: Weight,
        act: impl FnMut(&WriteTransaction<'_>) -> Done<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.try_write(weight, act).await.map_err(|failed| failed.error)
    }

    /// Sends a job for one run to the writer.
    ///
    /// A damaged page can belong to several runs. It is reported as damage to this run only if the
    /// rows of the run cannot be read.
    async fn write_run<T: Send + 'static>(
        &self,
        run: String,
        weight: Weight,
        act: impl FnMut(&WriteTransaction<'_>) -> Done<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        match self.try_write(weight, act).await {
            Err(failed) if failed.is_corrupt => Err(self.damage_to(&run).await.unwrap_or(failed.error)),
            done => done.map_err(|failed| failed.error),
        }
    }

    /// Reads all records and messages of a run, and returns the first damage.
    async fn damage_to(&self, run: &str) -> Option<StoreError> {
        let read = async {
            let mut after = Some(0);
            while let Some(last) = after {
                let run = run.to_string();
                after = self.read_with(move |db, now| read::scan(db, now, &run, last)).await?;
            }
            let mut after = Some(0);
            while let Some(last) = after {
                after = self.inbox(run, last).await?.last().map(|message| message.number);
            }
            Ok(())
        };
        read.await.err().filter(|error| matches!(error, StoreError::Damaged { .. }))
    }

    async fn try_write<T: Send + 'static>(
        &self,
        weight: Weight,
        mut act: impl FnMut(&WriteTransaction<'_>) -> Done<T> + Send + 'static,
    ) -> Result<T, Failed> {
        let Some(writer) = &self.0.writer else { return Err(existing::read_only(self.path()).into()) };
        if let Some(done) = writer.do_here(weight, &mut act) {
            return done;
        }
        writer
            .send(weight, act)?
            .await
            .unwrap_or_else(|_| Err(StoreError::unavailable("the store was closed during the call").into()))
    }

    /// Removes ended runs one by one, and skips runs with a damaged page.
    async fn prune_one_by_one(&self, unchanged_for: Duration, count: usize) -> Result<usize, StoreError> {
        let (mut removed, mut skipped) = (0, Vec::new());
        while removed < count && skipped.len() < SKIPPED_MAX {
            let except = skipped.clone();
            let next = self.write(LIGHT, move |batch| prune::oldest_ended(batch, unchanged_for, &except)).await?;
            let Some((key, run)) = next else { break };
            match self.try_write(LIGHT, move |batch| prune::prune_one(batch, unchanged_for, key)).await {
                Ok(true) => removed += 1,
                Ok(false) => skipped.push(key),
                Err(failed) if failed.is_corrupt => {
                    tracing::error!(
                        store = %self.path().display(),
                        run,
                        key,
                        "an ended run was not removed: one of its pages is damaged; restore the store from a backup"
                    );
                    skipped.push(key);
                }
                Err(failed) => return Err(failed.error),
            }
        }
        Ok(removed)
    }

    /// Reads in one snapshot, with a connection that no other call uses meanwhile.
    async fn read_with<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Connection, Now) -> Done<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let parts = Arc::clone(&self.0);
        off_thread(move || {
            let Reader { db: mut reader, is_immutable } = parts.take_reader()?;
            let failed = |error: rusqlite::Error| parts.failure(error);
            let snapshot = reader.transaction().map_err(failed)?;
            parts.file.check_format(&snapshot)?;
            let answer = act(&snapshot, parts.clock.now()).map_err(failed)?;
            snapshot.finish().map_err(failed)?;
            parts.file.check_in_place()?;
            parts.check_undisturbed(is_immutable)?;
            // A connection that failed is dropped, and the next read opens a new one.
            let mut readers = parts.lock_readers();
            if readers.len() < READERS_MAX && !is_immutable {
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
            let weight = Weight { bytes: size_of_rows(&rows), sends_hint: run.lease.is_none(), ..LIGHT };
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
        Box::pin(self.write(Weight { sends_hint: true, ..LIGHT }, move |batch| lease::release(batch, held.clone(), &how)))
    }

    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        Box::pin(async move {
            let head = commit.check()?;
            let sends_hint = commit.may_make_ready();
            let weight = Weight { bytes: size_of_rows(&commit.rows), sends_hint, may_run_here: true };
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

    fn list(&self, filters: Vec<Filter>, after: Option<RunCursor>, count: usize) -> StoreFuture<'_, RunList> {
        Box::pin(self.read_with(move |db, now| list::list(db, now, filters, after, count)))
    }

    fn overdue(&self, due_for: Duration, count: usize) -> StoreFuture<'_, Vec<OverdueRuns>> {
        Box::pin(self.read_with(move |db, now| overdue::overdue(db, now, due_for, count)))
    }

    fn send_message<'a>(&'a self, run: &'a str, message: NewMessage) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            message.check()?;
            let run = run.to_string();
            let weight = Weight { bytes: message.payload.len(), sends_hint: true, ..LIGHT };
            self.write_run(run.clone(), weight, move |batch| inbox::add_message(batch, &run, &message)).await
        })
    }

    fn inbox<'a>(&'a self, run: &'a str, after: u64) -> StoreFuture<'a, Vec<InboxMessage>> {
        let run = run.to_string();
        Box::pin(self.read_with(move |db, now| read::inbox(db, now, &run, after)))
    }

    fn is_untaken<'a>(&'a self, run: &'a str, number: u64) -> StoreFuture<'a, bool> {
        let run = run.to_string();
        Box::pin(self.read_with(move |db, now| read::is_untaken(db, now, &run, number)))
    }

    fn refused<'a>(&'a self, run: &'a str) -> StoreFuture<'a, Vec<RefusedMessage>> {
        let run = run.to_string();
        Box::pin(self.read_with(move |db, now| read::refused(db, now, &run)))
    }

    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            let (unchanged_for, count) = match prune {
                Prune::Ended { unchanged_for, count } => (unchanged_for, count),
                Prune::Rows { held, before, keep } => {
                    let run = held.run.clone();
                    let act = move |batch: &WriteTransaction<'_>| prune::prune_rows(batch, &held, before, &keep);
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
                        removed += self.prune_one_by_one(unchanged_for, count - removed).await?;
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

    fn hint(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.hints.wait())
    }
}

fn size_of_rows(rows: &[Row]) -> usize {
    rows.iter().map(Row::size).sum()
}

/// Runs `act` on a blocking thread of the current Tokio runtime, or here if the caller has none.
async fn off_thread<T: Send + 'static>(act: impl FnOnce() -> Result<T, StoreError> + Send + 'static) -> Result<T, StoreError> {
    #[cfg(feature = "tokio")]
    if let Ok(handle) = tokio::runtime::Handle::try_current() {
        return handle.spawn_blocking(act).await.unwrap_or_else(|error| Err(StoreError::unavailable(error)));
    }
    act()
}
