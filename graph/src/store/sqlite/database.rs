//! [`Database`]: the one connection that writes, and its transactions.
//!
//! Invariants:
//! 1. An error of the database fails the whole transaction, and everything in it is rolled back.
//! 2. After a failed COMMIT the result is unknown. The connection is closed and reopened, and the
//!    transaction fails.
//! 3. A transaction succeeds only after COMMIT has returned and the file is still in place.

use super::clock::{Clock, Now};
use super::file::{BUSY_TIMEOUT, DbFile};
use super::holders::Holders;
use super::read::is_corruption;
use crate::store::error::StoreError;
use rusqlite::Connection;
use std::sync::Arc;
use std::time::{Duration, Instant};

const BEGIN: &str = "BEGIN IMMEDIATE";

/// The result of a job: an answer or a rejection, or an error of the database.
pub(super) type Done<T> = rusqlite::Result<Result<T, StoreError>>;

/// The error of a transaction, and whether it found a damaged page.
#[derive(Clone)]
pub(super) struct Failed {
    pub(super) error: StoreError,
    /// Whether a job found a damaged page of the file.
    pub(super) is_corrupt: bool,
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self { error, is_corrupt: false }
    }
}

/// The context of a job: the transaction, the time, and this store as a holder of leases.
pub(super) struct WriteTransaction<'a> {
    pub(super) db: &'a Connection,
    pub(super) now: Now,
    pub(super) holders: &'a Holders,
}

/// The fields are dropped in order: the file is closed before the holder ends.
pub(super) struct Database {
    /// `None` after a failed COMMIT, if the file could not be reopened.
    db: Option<Connection>,
    holders: Holders,
    file: DbFile,
    clock: Arc<Clock>,
    /// The time that the last transaction took.
    pub(super) last_took: Duration,
}

impl Database {
    pub(super) fn open(file: DbFile, clock: Arc<Clock>) -> Result<Self, StoreError> {
        let holders = Holders::join(file.path(), clock.boot_id());
        let db = Some(file.open(&holders, &clock)?);
        Ok(Self { db, holders, file, clock, last_took: Duration::MAX })
    }

    /// Runs `act` in one transaction.
    pub(super) fn write(&mut self, act: impl FnMut(&WriteTransaction<'_>) -> rusqlite::Result<()>) -> Result<(), Failed> {
        let db = match self.db.take() {
            Some(db) => db,
            None => self.file.open(&self.holders, &self.clock)?,
        };
        let begun = Instant::now();
        let written = match run(&db, BEGIN) {
            Ok(()) => self.write_begun(db, act),
            Err(error) => {
                self.db = Some(db);
                Err(self.file.failure(error).into())
            }
        };
        self.last_took = begun.elapsed();
        written
    }

    /// Does the same, unless it would have to wait for another process or to reopen the file.
    pub(super) fn write_at_once(
        &mut self,
        act: impl FnMut(&WriteTransaction<'_>) -> rusqlite::Result<()>,
    ) -> Option<Result<(), Failed>> {
        let db = self.db.take()?;
        let begun = Instant::now();
        let is_begun = db.busy_timeout(Duration::ZERO).and_then(|()| run(&db, BEGIN)).is_ok();
        let can_wait_again = db.busy_timeout(BUSY_TIMEOUT).is_ok();
        if !is_begun || !can_wait_again {
            // An open transaction ends with its connection.
            self.db = Some(db).filter(|_| can_wait_again);
            return None;
        }
        let written = self.write_begun(db, act);
        self.last_took = begun.elapsed();
        Some(written)
    }

    fn write_begun(
        &mut self,
        db: Connection,
        mut act: impl FnMut(&WriteTransaction<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), Failed> {
        let done = self.file.check_format(&db).map_err(Failed::from).and_then(|()| {
            act(&WriteTransaction { db: &db, now: self.clock.now(), holders: &self.holders }).map_err(|error| {
                let is_corrupt = is_corruption(&error) && self.file.check_in_place().is_ok();
                Failed { error: self.file.failure(error), is_corrupt }
            })
        });
        if let Err(error) = done {
            // Some errors have already ended the transaction.
            if db.is_autocommit() || run(&db, "ROLLBACK").is_ok() {
                self.db = Some(db);
            }
            return Err(error);
        }
        if let Err(error) = run(&db, "COMMIT") {
            drop(db);
            self.db = self.file.open(&self.holders, &self.clock).ok();
            return Err(self.file.failure(error).into());
        }
        // Writes to a deleted file are lost. The connection is not used again.
        self.file.check_in_place()?;
        self.db = Some(db);
        Ok(())
    }
}

fn run(db: &Connection, statement: &'static str) -> rusqlite::Result<()> {
    db.prepare_cached(statement)?.execute([]).map(drop)
}
