//! [`SqliteDiagnosis`]: the condition of a file, for operators. Nothing is written.

use super::existing::Reader;
use super::file::DbFile;
use super::schema::TABLES;
use super::{SqliteStore, holders, off_thread};
use crate::store::StoreError;
use crate::store::diagnosis::index_names;
use rusqlite::{Connection, ErrorCode, OptionalExtension as _};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

/// The most faults that one check lists.
const FAULTS_MAX: usize = 20;

/// The condition of a SQLite file. Returned by [`SqliteStore::diagnose`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SqliteDiagnosis {
    /// The version of the SQLite library of this program.
    pub sqlite_version: String,
    /// The journal mode of the file. A store sets `wal`; another mode was set by another program.
    pub journal_mode: String,
    /// The size of the database in bytes, with its unused pages.
    pub bytes: u64,
    /// The bytes of unused pages. SQLite uses them again; `VACUUM` gives them back.
    pub unused_bytes: u64,
    /// The size of the write-ahead log in bytes. It is at least 4.5 MB while a program has the file
    /// open.
    pub wal_bytes: u64,
    /// The open stores that hold, or held, leases on runs of this file.
    pub holders: Vec<SqliteHolder>,
    /// Indexes that this version creates and the file does not have.
    pub missing_indexes: Vec<String>,
    /// What SQLite's check of the file found.
    pub integrity: SqliteIntegrity,
}

/// An open store that can hold leases.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SqliteHolder {
    /// The name of its file in the folder `<file>-holders`.
    pub name: String,
    /// Whether its process still has the file open. The leases of a dead holder have ended.
    pub is_alive: bool,
}

/// What SQLite's check of a file found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SqliteIntegrity {
    /// The check ended and found no fault.
    Sound,
    /// The check found these faults, at most 20.
    Faults(Vec<String>),
    /// The check did not end within its time limit, and found no fault so far.
    NotFinished,
}

impl SqliteStore {
    /// Examines the file: its journal, sizes, holders, indexes and pages. Writes nothing, and works
    /// for a store that was opened for reading only.
    ///
    /// With a time limit, SQLite's quick check runs, and is cut off at the limit. Without one, the
    /// full check compares every index with its table. It reads the whole file.
    ///
    /// # Errors
    /// [`Unusable`](StoreError::Unusable) if the file was replaced or is no SQLite file,
    /// [`Unreachable`](StoreError::Unreachable) if a program opened a read-only file meanwhile.
    ///
    /// # Examples
    /// ```
    /// use pleach::store::{SqliteIntegrity, SqliteStore};
    /// use std::time::Duration;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = std::env::temp_dir().join(format!("pleach-diagnose-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let store = SqliteStore::open(folder.join("runs.db")).await?;
    /// let found = store.diagnose(Some(Duration::from_secs(5))).await?;
    /// assert_eq!((found.journal_mode.as_str(), found.integrity), ("wal", SqliteIntegrity::Sound));
    /// # drop(store);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn diagnose(&self, check_for: Option<Duration>) -> Result<SqliteDiagnosis, StoreError> {
        let parts = self.0.clone();
        off_thread(move || {
            let Reader { db, is_immutable } = parts.take_reader()?;
            let found = examine(&db, &parts.file, is_immutable, check_for).map_err(|error| parts.failure(error))?;
            parts.file.check_in_place()?;
            parts.check_undisturbed(is_immutable)?;
            Ok(found)
        })
        .await
    }

    /// Returns whether the store that holds the lease of a run is still open. `None` if the run has
    /// no lease, or if that cannot be known.
    ///
    /// The lease of a dead holder has ended, whatever its time: the next claim takes the run over.
    ///
    /// # Errors
    /// As [`Store::head`](crate::store::Store::head).
    pub async fn is_holder_alive(&self, run: &str) -> Result<Option<bool>, StoreError> {
        let run = run.to_string();
        let holder = self.read_with(move |db, now| Ok(super::read::run(db, now, &run)?.map(|run| run.holder))).await?;
        let folder = self.0.file.beside("-holders");
        Ok(holder.filter(|name| holders::is_name(name)).and_then(|name| holders::is_alive(&folder.join(name))))
    }
}

fn examine(
    db: &Connection,
    file: &DbFile,
    is_immutable: bool,
    check_for: Option<Duration>,
) -> rusqlite::Result<SqliteDiagnosis> {
    let number = |pragma: &str| db.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let bytes_of = |pages: i64, size: i64| u64::try_from(pages.saturating_mul(size)).unwrap_or(0);
    let page_size = number("page_size")?;
    Ok(SqliteDiagnosis {
        sqlite_version: rusqlite::version().to_string(),
        journal_mode: journal_mode(db, file, is_immutable)?,
        bytes: bytes_of(number("page_count")?, page_size),
        unused_bytes: bytes_of(number("freelist_count")?, page_size),
        wal_bytes: file.beside("-wal").metadata().map_or(0, |wal| wal.len()),
        holders: holders_in(&file.beside("-holders")),
        missing_indexes: missing_indexes(db)?,
        integrity: check(db, check_for)?,
    })
}

/// Returns the journal mode. A file that is read as it is has none for SQLite; its header tells it.
fn journal_mode(db: &Connection, file: &DbFile, is_immutable: bool) -> rusqlite::Result<String> {
    // The byte with the version of the format that a writer needs; 2 means the write-ahead log.
    const WRITE_VERSION: usize = 18;
    let mut header = [0; WRITE_VERSION + 1];
    let mut is_wal =
        || File::open(file.path()).and_then(|mut file| file.read_exact(&mut header)).is_ok() && header[WRITE_VERSION] == 2;
    if is_immutable && is_wal() {
        return Ok("wal".into());
    }
    db.pragma_query_value(None, "journal_mode", |row| row.get(0))
}

fn missing_indexes(db: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = db.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'index' AND name = ?1")?;
    let mut missing = Vec::new();
    for name in index_names(TABLES) {
        if statement.query_row([name], |_| Ok(())).optional()?.is_none() {
            missing.push(name.to_string());
        }
    }
    Ok(missing)
}

/// Lists the holders without removing the files of dead ones.
fn holders_in(folder: &Path) -> Vec<SqliteHolder> {
    let Ok(files) = std::fs::read_dir(folder) else { return Vec::new() };
    let names = files.flatten().filter_map(|file| file.file_name().into_string().ok()).filter(|name| holders::is_name(name));
    let holder = |name: String| {
        let is_alive = holders::is_alive(&folder.join(&name))?;
        Some(SqliteHolder { name, is_alive })
    };
    names.filter_map(holder).collect()
}

/// Runs SQLite's check. A thread interrupts it at the limit.
fn check(db: &Connection, limit: Option<Duration>) -> rusqlite::Result<SqliteIntegrity> {
    let Some(limit) = limit else { return faults(db, "integrity_check") };
    let (handle, (done, is_done)) = (db.get_interrupt_handle(), mpsc::channel::<()>());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if is_done.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
                handle.interrupt();
            }
        });
        let found = faults(db, "quick_check");
        drop(done);
        match found {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
                Ok(SqliteIntegrity::NotFinished)
            }
            found => found,
        }
    })
}

fn faults(db: &Connection, pragma: &str) -> rusqlite::Result<SqliteIntegrity> {
    let mut statement = db.prepare(&format!("PRAGMA {pragma}({FAULTS_MAX})"))?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
    // A page that cannot be read ends the check with an error.
    let lines = match lines.collect::<rusqlite::Result<Vec<_>>>() {
        Err(error) if super::read::is_corruption(&error) => vec![error.to_string()],
        lines => lines?,
    };
    Ok(if lines == ["ok"] { SqliteIntegrity::Sound } else { SqliteIntegrity::Faults(lines) })
}

#[cfg(test)]
mod tests {
    use super::super::clock::Clock;
    use super::*;

    fn created(name: &str) -> (std::path::PathBuf, SqliteStore) {
        let folder = std::env::temp_dir().join(format!("pleach-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let store = SqliteStore::open_with(&folder.join("store.db"), Clock::system()).unwrap();
        (folder, store)
    }

    #[test]
    fn o10_diagnosis_lists_missing_indexes_and_dead_holders() {
        let (folder, store) = created("diagnosis");
        let look = || {
            let db = store.0.file.open_for_reading().unwrap();
            examine(&db, &store.0.file, false, None).unwrap()
        };
        let sound = look();
        assert_eq!((sound.missing_indexes.len(), sound.integrity), (0, SqliteIntegrity::Sound));
        assert_eq!(sound.holders.iter().map(|holder| holder.is_alive).collect::<Vec<_>>(), [true], "this store");
        let dead = folder.join("store.db-holders/0123456789abcdef");
        std::fs::write(&dead, "").unwrap();
        store.0.file.connect().unwrap().execute_batch("DROP INDEX run_due").unwrap();
        let found = look();
        assert_eq!(found.missing_indexes, ["run_due"]);
        assert_eq!(found.holders.iter().filter(|holder| !holder.is_alive).count(), 1);
        assert!(dead.exists(), "a diagnosis removes nothing");
        drop(store);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn o10_check_of_the_file_ends_at_its_limit() {
        let (folder, store) = created("diagnosis-limit");
        let db = store.0.file.connect().unwrap();
        let many = "INSERT INTO log SELECT 1, value, 0, randomblob(2000), randomblob(2000) FROM generate_series(1, 20000)";
        // Without the extension for series, a recursive query makes the rows.
        let rows = "WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 20000) ";
        let many = rows.to_string() + &many.replace("generate_series(1, 20000)", "n");
        db.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA synchronous = OFF").unwrap();
        db.execute_batch(&many).unwrap();
        assert_eq!(check(&db, Some(Duration::ZERO)).unwrap(), SqliteIntegrity::NotFinished);
        assert_eq!(check(&db, Some(Duration::from_secs(60))).unwrap(), SqliteIntegrity::Sound);
        drop((db, store));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
