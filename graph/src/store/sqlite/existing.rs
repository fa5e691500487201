//! Opens an existing file without creating or migrating it, also for reading only.
//!
//! SQLite needs two files beside a file that is read, and creates them. If this user cannot write
//! the file, they would belong to the wrong user and shut out the owner. So such a file is read as
//! it is (`immutable`), as long as no process has it open: then it has no `-wal` beside it.

use super::clock::Clock;
use super::file::{DbFile, OpenError, absolute, unusable};
use super::schema::FORMAT;
use super::{SqliteParts, SqliteStore, off_thread};
use crate::store::error::StoreError;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

impl SqliteStore {
    /// Opens an existing file. Neither creates a file nor migrates its tables.
    ///
    /// For tools beside the programs that own the store: a migration would shut out programs of
    /// earlier versions.
    ///
    /// # Errors
    /// As [`open`](Self::open), and:
    /// - [`Unusable`](StoreError::Unusable): the file does not exist.
    /// - [`OlderFormat`](StoreError::OlderFormat): the file has no tables, or tables of an earlier
    ///   version.
    pub async fn open_existing(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref().to_path_buf();
        off_thread(move || {
            let file = DbFile::find(&path)?;
            if !file.is_writable() {
                return Err(unusable(file.path(), "it is read-only; allow this user to write the file and its folder"));
            }
            Self::open_file(file, Clock::system())
        })
        .await
    }

    /// Opens an existing file for reading only. Every call that writes is
    /// [`Unusable`](StoreError::Unusable).
    ///
    /// Works for a file and a folder that this user cannot write. While a program has the file
    /// open, this user must be able to read the files that SQLite keeps beside it.
    ///
    /// # Errors
    /// As [`open_existing`](Self::open_existing). A read that a program disturbs by opening the
    /// file is [`Unreachable`](StoreError::Unreachable): repeat it.
    pub async fn open_read_only(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref().to_path_buf();
        off_thread(move || {
            let (file, clock, hints) = (DbFile::find(&path)?, Arc::new(Clock::system()), Arc::default());
            Ok(Self(Arc::new(SqliteParts { file, clock, writer: None, readers: Mutex::default(), hints })))
        })
        .await
    }
}

/// A connection for reading.
pub(super) struct Reader {
    pub(super) db: Connection,
    /// Whether the file is read as it is, without the files beside it.
    pub(super) is_immutable: bool,
}

impl SqliteParts {
    /// Takes an idle connection, or opens one.
    pub(super) fn take_reader(&self) -> Result<Reader, StoreError> {
        match self.lock_readers().pop() {
            Some(db) => Ok(Reader { db, is_immutable: false }),
            None if self.writer.is_some() => Ok(Reader { db: self.file.open_for_reading()?, is_immutable: false }),
            None => {
                self.file.check_in_place()?;
                self.file.connect_read_only().map_err(|error| self.file.failure_of_reading(error))
            }
        }
    }

    /// Fails if the file may have changed while it was read as it is.
    pub(super) fn check_undisturbed(&self, is_immutable: bool) -> Result<(), StoreError> {
        if is_immutable && self.file.beside("-wal").exists() {
            return Err(StoreError::unreachable("a program opened the file while it was read; try again"));
        }
        Ok(())
    }

    pub(super) fn failure(&self, error: rusqlite::Error) -> StoreError {
        if self.writer.is_some() { self.file.failure(error) } else { self.file.failure_of_reading(error) }
    }
}

/// The error of a write to a store that was opened for reading only.
pub(super) fn read_only(path: &Path) -> StoreError {
    unusable(path, "it was opened for reading only; open it with `open` or `open_existing` to write")
}

impl DbFile {
    /// Finds the file at this path, whose tables must have the current format. Changes nothing.
    fn find(path: &Path) -> Result<Self, StoreError> {
        let path = absolute(path)?;
        match path.metadata() {
            Ok(found) if !found.is_file() => return Err(unusable(&path, "it is not a file")),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(unusable(&path, "the file does not exist; check its path"));
            }
            _ => {}
        }
        let file = Self::found(path)?;
        let format = file.connect_read_only().map_err(OpenError::Sqlite).and_then(|reader| file.check(&reader.db));
        match format {
            Ok(FORMAT) => Ok(file),
            Ok(format) => {
                let what = file.path().display().to_string();
                Err(StoreError::OlderFormat { what, format, needed: FORMAT })
            }
            Err(OpenError::Sqlite(error)) => Err(file.failure_of_reading(error)),
            Err(OpenError::Store(error)) => Err(error),
        }
    }

    /// Opens a connection that cannot write. It does not end SQLite's write-ahead log when it
    /// closes.
    fn connect_read_only(&self) -> rusqlite::Result<Reader> {
        let is_immutable = !self.beside("-wal").exists() && !self.is_writable();
        let db = if is_immutable { self.connect_immutable() } else { self.connect_with(OpenFlags::SQLITE_OPEN_READ_ONLY) };
        Ok(Reader { db: db?, is_immutable })
    }

    /// Returns whether this user can write the file.
    ///
    /// Asks without opening it: when a process closes a file, the system releases all locks of that
    /// process on it, and SQLite needs them for other connections.
    #[cfg(unix)]
    fn is_writable(&self) -> bool {
        use rustix::fs::{Access, AtFlags, CWD, accessat};
        use std::os::unix::ffi::OsStrExt as _;
        accessat(CWD, self.path().as_os_str().as_bytes(), Access::WRITE_OK, AtFlags::EACCESS).is_ok()
    }

    #[cfg(not(unix))]
    fn is_writable(&self) -> bool {
        self.path().metadata().is_ok_and(|file| !file.permissions().readonly())
    }

    /// Opens a connection that reads the file as it is, without files beside it.
    fn connect_immutable(&self) -> rusqlite::Result<Connection> {
        let access = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Connection::open_with_flags(format!("file:{}?immutable=1", encoded(self.path())), access)
    }

    /// Converts an error of a connection that cannot write into the error for the caller.
    fn failure_of_reading(&self, error: rusqlite::Error) -> StoreError {
        match error.sqlite_error_code() {
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen) if self.check_in_place().is_ok() => unusable(
                self.path(),
                "SQLite cannot read it without the files beside it, and this user can neither read nor create them; \
                 allow this user to read them, or copy the file after all programs have closed it",
            ),
            _ => self.failure(error),
        }
    }
}

/// Encodes a path for a URI.
fn encoded(path: &Path) -> String {
    let mut text = String::new();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => text.push(char::from(*byte)),
            byte => drop(write!(text, "%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c10_immutable_file_is_read_without_files_beside_it() {
        let folder = std::env::temp_dir().join(format!("pleach 50%-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("store.db");
        drop(SqliteStore::open_with(&path, Clock::system()).unwrap());
        let names = || std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
        let parts = |store: &SqliteStore| Arc::clone(&store.0);
        let file = DbFile::find(&path).unwrap();
        // A superuser can write every file, so the way of a user who cannot is called directly.
        let before = names();
        assert!(matches!(file.check(&file.connect_immutable().unwrap()), Ok(FORMAT)));
        assert_eq!(names(), before, "nothing was created");
        let used = parts(&SqliteStore::open_with(&path, Clock::system()).unwrap());
        used.check_undisturbed(false).unwrap();
        assert!(used.check_undisturbed(true).unwrap_err().is_temporary(), "a program has opened the file");
        drop(used);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn c10_paths_are_encoded_for_immutable_files() {
        assert_eq!(encoded(Path::new("/a b/50%?x#y.db")), "/a%20b/50%25%3Fx%23y.db");
    }
}
