//! Opens the file of a store: finds or creates it, checks it, and migrates its tables.
//!
//! A file that is deleted or replaced while it is open is detected by its identity: after each
//! batch of writes and each read, the device and inode at the path are compared with those of the
//! opened file.

use super::clock::Clock;
use super::holders::Holders;
use super::schema::{FORMAT, TABLES, migrate};
use super::wal;
use crate::store::error::StoreError;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The application id that marks a file as a store: "plch".
const APPLICATION_ID: i32 = 0x706c_6368;

/// How long to wait for a transaction of another process.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The delay before opening is tried again. SQLite does not wait for others when the journal mode
/// changes.
const BUSY_RETRY: Duration = Duration::from_millis(5);

/// The size of the statement cache. The writer has fewer statements, so all of them stay prepared.
const STATEMENTS_MAX: usize = 64;

/// The file of a store: its path, and its identity when the store was opened.
#[derive(Clone, Debug)]
pub(super) struct DbFile {
    /// Absolute and without links, so that neither `chdir` nor a changed link leads to another
    /// file.
    path: PathBuf,
    identity: Option<Identity>,
}

/// The device and the inode of a file. Systems without them have no identity.
type Identity = (u64, u64);

/// The reason why a file was not opened.
pub(super) enum OpenError {
    /// An error of SQLite.
    Sqlite(rusqlite::Error),
    /// A rejection by this module.
    Store(StoreError),
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<StoreError> for OpenError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl DbFile {
    /// Finds the file at this path, or creates an empty one.
    pub(super) fn find_or_create(path: &Path) -> Result<Self, StoreError> {
        let path = absolute(path)?;
        create_private(&path)?;
        Self::found(path)
    }

    /// Returns the file at this absolute path.
    pub(super) fn found(path: PathBuf) -> Result<Self, StoreError> {
        let path = path.canonicalize().unwrap_or(path);
        let identity = identity(&path).map_err(|error| unusable(&path, &format!("it cannot be opened: {error}")))?;
        Ok(Self { path, identity })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the file that SQLite keeps beside this one, with this suffix.
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
                "another file replaced it while it was open; stop all programs that use it, then put the right file there",
            )),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(unusable(
                &self.path,
                "it was deleted or moved away while it was open; stop all programs that use it, then restore it from a backup",
            )),
            Err(error) => Err(unusable(&self.path, &format!("it was not found again: {error}"))),
        }
    }

    /// Opens the file for the writer, and creates its tables if needed. It never creates a file.
    pub(super) fn open(&self, holders: &Holders, clock: &Clock) -> Result<Connection, StoreError> {
        let opening = holders.lock_opening(BUSY_TIMEOUT);
        let is_open = holders.sweep();
        self.check_in_place()?;
        if !is_open {
            wal::renew(self).map_err(StoreError::unavailable)?;
        }
        let begun = Instant::now();
        let db = loop {
            match self.open_once(clock) {
                Ok(db) => break db,
                Err(OpenError::Sqlite(error)) if is_busy(&error) && begun.elapsed() < BUSY_TIMEOUT => {
                    std::thread::sleep(BUSY_RETRY);
                }
                Err(OpenError::Sqlite(error)) => return Err(self.failure(error)),
                Err(OpenError::Store(error)) => return Err(error),
            }
        };
        holders.has_opened();
        drop(opening);
        self.check_in_place()?;
        Ok(db)
    }

    /// Opens a connection for reading. The writer has opened the file before.
    pub(super) fn open_for_reading(&self) -> Result<Connection, StoreError> {
        self.check_in_place()?;
        let open = || {
            let db = self.connect()?;
            db.pragma_update(None, "query_only", true)?;
            Ok(db)
        };
        open().map_err(|error| self.failure(error))
    }

    /// Converts an error of the database into the error for the caller.
    pub(super) fn failure(&self, error: rusqlite::Error) -> StoreError {
        if let Err(moved) = self.check_in_place() {
            return moved;
        }
        let reason = match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => "it is not a SQLite file, or its first page is damaged; restore it from a backup",
            Some(ErrorCode::DatabaseCorrupt) => "it is truncated or damaged; restore it from a backup",
            None if super::read::is_conversion(&error) => "one of its rows is damaged; restore it from a backup",
            Some(ErrorCode::ReadOnly) => "it is read-only; allow this user to write the file and its folder",
            Some(ErrorCode::PermissionDenied) => "this user has no permission to open it; change the permissions of the file",
            Some(ErrorCode::CannotOpen) => {
                "it cannot be opened; check that the folder exists and that this user can write to it"
            }
            _ => return StoreError::unavailable(error),
        };
        unusable(&self.path, reason)
    }

    pub(super) fn connect(&self) -> rusqlite::Result<Connection> {
        self.connect_with(OpenFlags::SQLITE_OPEN_READ_WRITE)
    }

    pub(super) fn connect_with(&self, access: OpenFlags) -> rusqlite::Result<Connection> {
        let db = Connection::open_with_flags(&self.path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        db.busy_timeout(BUSY_TIMEOUT)?;
        db.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        Ok(db)
    }

    fn open_once(&self, clock: &Clock) -> Result<Connection, OpenError> {
        let mut db = self.connect()?;
        self.prepare(&mut db, clock)?;
        Ok(db)
    }

    /// Checks the file before anything is changed, sets the pragmas, and creates or migrates the
    /// tables.
    fn prepare(&self, db: &mut Connection, clock: &Clock) -> Result<(), OpenError> {
        let format = self.check(db)?;
        let mode: String = db.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        if mode != "wal" {
            let reason = "its file system does not support SQLite's WAL mode; use a local disk";
            return Err(unusable(&self.path, reason).into());
        }
        db.execute_batch("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;")?;
        // Needed in every case: a file that cannot be written is rejected now, not at the first
        // commit.
        let transaction = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        if format < FORMAT {
            // Another process may have created or migrated the tables meanwhile.
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

    /// Returns the format of the tables; 0 if the file has none, or is not a store.
    pub(super) fn format(&self, db: &Connection) -> rusqlite::Result<u32> {
        match self.check(db) {
            Ok(format) => Ok(format),
            Err(OpenError::Sqlite(error)) => Err(error),
            Err(OpenError::Store(_)) => Ok(0),
        }
    }

    /// Fails if a later version has migrated the tables since the file was opened.
    pub(super) fn check_format(&self, db: &Connection) -> Result<(), StoreError> {
        let format = db.prepare_cached("PRAGMA user_version").and_then(|mut pragma| pragma.query_row([], |row| row.get(0)));
        match format.map_err(|error| self.failure(error))? {
            format if format > FORMAT => Err(self.later(format)),
            _ => Ok(()),
        }
    }

    fn later(&self, format: u32) -> StoreError {
        StoreError::NewerFormat { what: self.path.display().to_string(), format, known: FORMAT }
    }

    /// Returns the format of the tables; 0 if the file is empty. Rejects files of other programs
    /// and later formats.
    pub(super) fn check(&self, db: &Connection) -> Result<u32, OpenError> {
        let number = |pragma: &str| db.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
        let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        let (application, format) = (number("application_id")?, number("user_version")?);
        if tables == 0 && application == 0 && format == 0 {
            return Ok(0);
        }
        if application != i64::from(APPLICATION_ID) {
            return Err(unusable(&self.path, "it is the database of another program; use another file").into());
        }
        match u32::try_from(format) {
            Ok(format) if (1..=FORMAT).contains(&format) => Ok(format),
            Ok(format) if format > FORMAT => Err(self.later(format).into()),
            _ => Err(unusable(&self.path, "its version number is damaged; restore it from a backup").into()),
        }
    }
}

/// Returns the absolute path. Rejects URIs, which SQLite would interpret.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, StoreError> {
    let text = path.to_string_lossy();
    if text.starts_with("file:") || text == ":memory:" || text.is_empty() {
        let reason = "the path of a file is needed, not a URI or `:memory:`; use `MemoryStore` for runs in memory";
        return Err(unusable(path, reason));
    }
    std::path::absolute(path).map_err(|error| unusable(path, &format!("it cannot be created: {error}")))
}

/// Creates a file that only its owner can access. SQLite gives the files beside it the same
/// permissions.
fn create_private(path: &Path) -> Result<(), StoreError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(unusable(path, &format!("it cannot be created: {error}; check that its folder exists"))),
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

pub(super) fn unusable(path: &Path, reason: &str) -> StoreError {
    StoreError::Unusable { store: path.display().to_string(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(name: &str) -> (PathBuf, DbFile) {
        let folder = std::env::temp_dir().join(format!("pleach-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = DbFile::find_or_create(&folder.join("store.db")).unwrap();
        (folder, file)
    }

    #[test]
    fn c2_transactions_are_synced_in_wal_mode() {
        let (folder, file) = created("pragmas");
        let db = file.open(&Holders::join(file.path(), None), &Clock::system()).unwrap();
        let synchronous: i64 = db.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
        let journal: String = db.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
        assert_eq!((synchronous, journal.as_str()), (2, "wal"), "2 is FULL");
        drop(db);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn c10_read_only_file_is_rejected_at_open() {
        let (folder, file) = created("read-only");
        drop(file.open(&Holders::join(file.path(), None), &Clock::system()).unwrap());
        // A flag instead of a file mode, because a superuser ignores the mode.
        let mut db = file.connect_with(OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let Err(OpenError::Sqlite(rejected)) = file.prepare(&mut db, &Clock::system()) else { panic!("it was accepted") };
        let rejected = file.failure(rejected);
        assert!(rejected.to_string().contains("read-only"), "{rejected}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
