//! How a file is opened: what it must be, what it becomes, and what is refused with its reason.
//!
//! A file that is deleted or replaced while it is open is found by its identity: device and inode of what lies at the path are compared with those
//! of the file that was opened, after each batch of writes and each read.

use super::clock::Clock;
use super::holders::Holders;
use super::schema::{FORMAT, TABLES, migrate};
use super::wal;
use crate::store::error::StoreError;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Marks a file as ours: "plch".
const APPLICATION_ID: i32 = 0x706c_6368;

/// How long a transaction of another process is waited for.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Opening a file changes its mode, and for that SQLite does not wait for others: it is tried again after this long.
const BUSY_RETRY: Duration = Duration::from_millis(5);

/// The statements of a writer are few, and all are kept.
const STATEMENTS_MAX: usize = 64;

/// The file of a store: where it is, and which file it was when the store was opened.
#[derive(Clone, Debug)]
pub(super) struct DbFile {
    /// Absolute and without links, so that neither `chdir` nor a changed link leads elsewhere.
    path: PathBuf,
    identity: Option<Identity>,
}

/// The device and the number of a file; `None` where the system has no such thing.
type Identity = (u64, u64);

/// Why a file was not opened.
enum Refused {
    /// SQLite says so.
    Sqlite(rusqlite::Error),
    /// We do.
    Store(StoreError),
}

impl From<rusqlite::Error> for Refused {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl DbFile {
    /// The file at this path. If there is none, an empty one is made.
    pub(super) fn find_or_make(path: &Path) -> Result<Self, StoreError> {
        let text = path.to_string_lossy();
        if text.starts_with("file:") || text == ":memory:" || text.is_empty() {
            let why = "the name of a file is needed, not a URI or a database in memory; use MemoryStore for runs in memory";
            return Err(unusable(path, why));
        }
        let cannot = |error: std::io::Error| unusable(path, &format!("it cannot be made: {error}"));
        let path = std::path::absolute(path).map_err(cannot)?;
        make_private(&path)?;
        let path = path.canonicalize().unwrap_or(path);
        let identity = identity(&path).map_err(|error| unusable(&path, &format!("it cannot be opened: {error}")))?;
        Ok(Self { path, identity })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The file that SQLite keeps beside it under its name and this ending.
    pub(super) fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(ending);
        name.into()
    }

    /// Fails if the file was deleted or replaced.
    pub(super) fn check_in_place(&self) -> Result<(), StoreError> {
        match identity(&self.path) {
            Ok(found) if found == self.identity => Ok(()),
            Ok(_) => Err(unusable(
                &self.path,
                "another file was put in its place while it was open; stop all programs that use it, then put the right one there",
            )),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(unusable(
                &self.path,
                "it was deleted or moved away while it was open; stop all programs that use it, then restore it from a backup",
            )),
            Err(error) => Err(unusable(&self.path, &format!("it can no longer be found: {error}"))),
        }
    }

    /// Opens the file for the writer, and makes its tables if they are not there. It never makes a file.
    pub(super) fn open(&self, holders: &Holders, clock: &Clock) -> Result<Connection, StoreError> {
        let alone = holders.keep_others_from_opening(BUSY_TIMEOUT);
        holders.sweep();
        self.check_in_place()?;
        wal::renew(self).map_err(StoreError::unavailable)?;
        let begun = Instant::now();
        let db = loop {
            match self.open_once(clock) {
                Ok(db) => break db,
                Err(Refused::Sqlite(error)) if is_busy(&error) && begun.elapsed() < BUSY_TIMEOUT => {
                    std::thread::sleep(BUSY_RETRY);
                }
                Err(Refused::Sqlite(error)) => return Err(self.failure(error)),
                Err(Refused::Store(error)) => return Err(error),
            }
        };
        drop(alone);
        self.check_in_place()?;
        Ok(db)
    }

    /// Opens a file that the writer has opened before.
    pub(super) fn open_for_reading(&self) -> Result<Connection, StoreError> {
        self.check_in_place()?;
        let open = || {
            let db = self.connect()?;
            db.pragma_update(None, "query_only", true)?;
            Ok(db)
        };
        open().map_err(|error| self.failure(error))
    }

    /// What an error of the database means for the caller.
    pub(super) fn failure(&self, error: rusqlite::Error) -> StoreError {
        if let Err(moved) = self.check_in_place() {
            return moved;
        }
        let why = match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => "it is no SQLite file, or its first page is damaged; restore it from a backup",
            Some(ErrorCode::DatabaseCorrupt) => "it is truncated or damaged; restore it from a backup",
            None if super::read::is_conversion(&error) => "a row in it is damaged; restore it from a backup",
            Some(ErrorCode::ReadOnly) => "it is read-only; allow this user to write the file and its folder",
            Some(ErrorCode::PermissionDenied) => "this user may not open it",
            Some(ErrorCode::CannotOpen) => "it cannot be opened; is there such a folder, and may this user write to it?",
            _ => return StoreError::unavailable(error),
        };
        unusable(&self.path, why)
    }

    pub(super) fn connect(&self) -> rusqlite::Result<Connection> {
        self.connect_with(OpenFlags::SQLITE_OPEN_READ_WRITE)
    }

    fn connect_with(&self, access: OpenFlags) -> rusqlite::Result<Connection> {
        let db = Connection::open_with_flags(&self.path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        db.busy_timeout(BUSY_TIMEOUT)?;
        db.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        Ok(db)
    }

    fn open_once(&self, clock: &Clock) -> Result<Connection, Refused> {
        let mut db = self.connect()?;
        self.prepare(&mut db, clock)?;
        Ok(db)
    }

    /// Refuses what is not ours or is from the future before anything is changed; then sets the pragmas, and makes the tables of a new file.
    fn prepare(&self, db: &mut Connection, clock: &Clock) -> Result<(), Refused> {
        let format = self.check(db)?;
        let mode: String = db.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        if mode != "wal" {
            let why = "its file system does not allow SQLite's WAL mode; put it on a local disk";
            return Err(unusable(&self.path, why).into());
        }
        db.execute_batch("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;")?;
        // Also when there is nothing to make: a file that cannot be written is refused now, not at the first commit.
        let transaction = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        if format < FORMAT {
            // Another process may have done it meanwhile.
            match self.check(&transaction)? {
                0 => {
                    transaction.execute_batch(TABLES)?;
                    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
                }
                FORMAT => {}
                earlier => migrate(&transaction, earlier, clock)?,
            }
        }
        transaction.pragma_update(None, "user_version", FORMAT)?;
        wal::fill(self).map_err(StoreError::unavailable)?;
        Ok(transaction.commit()?)
    }

    /// The format of the tables; 0 if there is none yet, or the file is not ours.
    pub(super) fn format(&self, db: &Connection) -> rusqlite::Result<u32> {
        match self.check(db) {
            Ok(format) => Ok(format),
            Err(Refused::Sqlite(error)) => Err(error),
            Err(Refused::Store(_)) => Ok(0),
        }
    }

    /// Fails if a later version has upgraded the tables since the file was opened.
    pub(super) fn check_format(&self, db: &Connection) -> Result<(), StoreError> {
        let format = db.prepare_cached("PRAGMA user_version").and_then(|mut pragma| pragma.query_row([], |row| row.get(0)));
        match format.map_err(|error| self.failure(error))? {
            format if format > FORMAT => Err(self.later(format)),
            _ => Ok(()),
        }
    }

    fn later(&self, format: u32) -> StoreError {
        StoreError::Future { what: self.path.display().to_string(), format, known: FORMAT }
    }

    /// The format of the tables; 0 if there is none yet.
    fn check(&self, db: &Connection) -> Result<u32, Refused> {
        let number = |pragma: &str| db.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
        let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        let (application, format) = (number("application_id")?, number("user_version")?);
        if tables == 0 && application == 0 && format == 0 {
            return Ok(0);
        }
        if application != i64::from(APPLICATION_ID) {
            return Err(unusable(&self.path, "it is the database of another program; choose another file").into());
        }
        match u32::try_from(format) {
            Ok(format) if (1..=FORMAT).contains(&format) => Ok(format),
            Ok(format) if format > FORMAT => Err(self.later(format).into()),
            _ => Err(unusable(&self.path, "its version number is damaged; restore it from a backup").into()),
        }
    }
}

/// A new file is for its owner alone, and so are the files that SQLite puts beside it.
fn make_private(path: &Path) -> Result<(), StoreError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(unusable(path, &format!("it cannot be made: {error}"))),
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> std::io::Result<Option<Identity>> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).map(|file| Some((file.dev(), file.ino())))
}

#[cfg(not(unix))]
fn identity(path: &Path) -> std::io::Result<Option<Identity>> {
    std::fs::metadata(path).map(|_| None)
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn unusable(path: &Path, why: &str) -> StoreError {
    StoreError::Unusable { store: path.display().to_string(), why: why.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(name: &str) -> (PathBuf, DbFile) {
        let folder = std::env::temp_dir().join(format!("pleach-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = DbFile::find_or_make(&folder.join("store.db")).unwrap();
        (folder, file)
    }

    #[test]
    fn c2_each_transaction_is_synced_and_the_log_is_written_ahead() {
        let (folder, file) = made("pragmas");
        let db = file.open(&Holders::join(file.path(), None), &Clock::system()).unwrap();
        let synchronous: i64 = db.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
        let journal: String = db.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
        assert_eq!((synchronous, journal.as_str()), (2, "wal"), "2 is FULL");
        drop(db);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn c10_a_file_that_cannot_be_written_is_refused_when_it_is_opened() {
        let (folder, file) = made("read-only");
        drop(file.open(&Holders::join(file.path(), None), &Clock::system()).unwrap());
        // A flag instead of the file's mode: the mode does not keep out a superuser.
        let mut db = file.connect_with(OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let Err(Refused::Sqlite(refused)) = file.prepare(&mut db, &Clock::system()) else { panic!("it was not refused") };
        let refused = file.failure(refused);
        assert!(refused.to_string().contains("read-only"), "{refused}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
