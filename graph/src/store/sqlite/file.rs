//! How a file is opened: what it must be, what it becomes, and what is refused with its reason.

use crate::store::StoreError;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::fs::OpenOptions;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The format of the tables that this version writes, in the file's `user_version`.
///
/// 1: as it began. 2: `run.sum`.
const FORMAT: u32 = 2;

/// Marks a file as ours: "plch".
const APPLICATION_ID: i32 = 0x706c_6368;

/// How long a transaction of another process is waited for.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// How large the write-ahead log is from the start: what SQLite fills before it begins anew (1,000 frames of 4 KiB), and the batch that goes beyond.
const WAL_BYTES: u64 = 4_500_000;

/// The statements of a writer are few, and all are kept.
const STATEMENTS_MAX: usize = 64;

/// `run.ended` is `changed` of a run that has ended, and NULL for any other: so the commit of a run that goes on touches no index. An index over
/// `status NOT IN (..)` would have each commit make two temporary tables, only to find that nothing is to be done.
pub(super) const TABLES: &str = "
    CREATE TABLE run (
        no INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, graph TEXT NOT NULL, fingerprint TEXT NOT NULL, schema INTEGER NOT NULL,
        status TEXT NOT NULL, epoch INTEGER NOT NULL, head INTEGER NOT NULL, oldest INTEGER NOT NULL, owner TEXT, lease_until INTEGER,
        wake_at INTEGER, takeovers INTEGER NOT NULL, posted INTEGER NOT NULL, from_run TEXT, from_seq INTEGER, created INTEGER NOT NULL,
        changed INTEGER NOT NULL, ended INTEGER, sum INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE TABLE log (
        run INTEGER NOT NULL REFERENCES run(no) ON DELETE CASCADE, seq INTEGER NOT NULL, sum INTEGER NOT NULL, header BLOB NOT NULL,
        body BLOB NOT NULL, PRIMARY KEY (run, seq)
    ) STRICT;
    CREATE TABLE inbox (
        run INTEGER NOT NULL REFERENCES run(no) ON DELETE CASCADE, n INTEGER NOT NULL, at INTEGER NOT NULL, name TEXT NOT NULL, dedup TEXT,
        sum INTEGER NOT NULL, taken_seq INTEGER, payload BLOB NOT NULL, PRIMARY KEY (run, n), UNIQUE (run, dedup)
    ) STRICT;
    CREATE INDEX inbox_untaken ON inbox (run, n) WHERE taken_seq IS NULL;
    CREATE INDEX run_due ON run (graph, fingerprint, max(wake_at, ifnull(lease_until, wake_at))) WHERE wake_at IS NOT NULL;
    CREATE INDEX run_status ON run (status);
    CREATE INDEX run_ended ON run (ended) WHERE ended IS NOT NULL;
";

/// Opens the file for the writer, and makes what is not there.
pub(super) fn open(path: &Path) -> Result<Connection, StoreError> {
    make_private(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = connect(path, flags)?;
    prepare(&mut db, path)?;
    Ok(db)
}

/// Opens a file that the writer has opened before.
pub(super) fn open_for_reading(path: &Path) -> Result<Connection, StoreError> {
    let db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    db.pragma_update(None, "query_only", true).map_err(|error| failure(path, error))?;
    Ok(db)
}

/// What an error of the database means for whoever asked.
pub(super) fn failure(path: &Path, error: rusqlite::Error) -> StoreError {
    let why = match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => "it is no SQLite file, or its first page is damaged; restore it from a backup",
        Some(ErrorCode::DatabaseCorrupt) => "it is truncated or damaged; restore it from a backup",
        None if super::read::is_conversion(&error) => "a row in it is damaged; restore it from a backup",
        Some(ErrorCode::ReadOnly) => "it is read-only; allow this user to write the file and its folder",
        Some(ErrorCode::PermissionDenied) => "this user may not open it",
        Some(ErrorCode::CannotOpen) => "it cannot be opened; is there such a folder, and may this user write to it?",
        _ => return StoreError::unavailable(error),
    };
    unusable(path, why)
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

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let open = || {
        let db = Connection::open_with_flags(path, flags)?;
        db.busy_timeout(BUSY_TIMEOUT)?;
        db.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        Ok(db)
    };
    open().map_err(|error| failure(path, error))
}

/// Refuses what is not ours or is from the future before anything is changed; then sets the pragmas, and makes the tables of a new file.
fn prepare(db: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let failed = |error| failure(path, error);
    let format = check(db, path)?;
    let mode: String = db.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(failed)?;
    if mode != "wal" {
        return Err(unusable(path, "its file system does not allow SQLite's WAL mode; put it on a local disk"));
    }
    db.execute_batch("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;").map_err(failed)?;
    // Also when there is nothing to make: a file that cannot be written is refused now, not at the first commit.
    let transaction = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(failed)?;
    if format < FORMAT {
        // Another process may have done it meanwhile.
        match check(&transaction, path)? {
            0 => {
                transaction.execute_batch(TABLES).map_err(failed)?;
                transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
            }
            1 => {
                transaction.execute_batch("ALTER TABLE run ADD COLUMN sum INTEGER NOT NULL DEFAULT 0").map_err(failed)?;
                super::write::seal_runs(&transaction).map_err(failed)?;
            }
            _ => {}
        }
    }
    transaction.pragma_update(None, "user_version", FORMAT).map_err(failed)?;
    renew_wal(&transaction, path).map_err(StoreError::unavailable)?;
    transaction.commit().map_err(failed)
}

/// Writes the write-ahead log down once more, and fills it up with zeros, which are no frames. The caller has a transaction for writing, so
/// nobody else writes to it meanwhile, and its COMMIT syncs what is written here.
///
/// - Once more: somebody may have failed to sync it and ended. Then what is read from it is not on the disk, nor will a later sync put it there,
///   and whatever is committed behind it would go with it when the power fails.
/// - Zeros: a commit overwrites what is there, and its sync need not write down that the file has grown, which would be a second write to the
///   disk. If there is no room, commits are slower, and that is all.
fn renew_wal(db: &Connection, path: &Path) -> std::io::Result<()> {
    // SQLite knows where it has put it, also behind a link, but says so in UTF-8 only.
    let file = db.path().map_or_else(|| path.canonicalize(), |path| Ok(PathBuf::from(path)))?;
    let mut name = file.into_os_string();
    name.push("-wal");
    let mut wal = OpenOptions::new().read(true).write(true).open(name)?;
    let (mut chunk, mut end) = (vec![0; 1 << 18], 0);
    loop {
        let count = wal.read(&mut chunk)?;
        if count == 0 {
            break;
        }
        wal.seek(SeekFrom::Start(end))?;
        wal.write_all(&chunk[..count])?;
        end += count as u64;
    }
    chunk.fill(0);
    let mut filled = end;
    while filled < WAL_BYTES {
        if wal.write_all(&chunk).is_err() {
            // The room that is left is better used otherwise.
            return wal.set_len(end);
        }
        filled += chunk.len() as u64;
    }
    Ok(())
}

/// The format of the tables; 0 if there is none yet.
fn check(db: &Connection, path: &Path) -> Result<u32, StoreError> {
    let failed = |error| failure(path, error);
    let number = |pragma: &str| db.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0)).map_err(failed);
    let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    let (application, format) = (number("application_id")?, number("user_version")?);
    if tables == 0 && application == 0 && format == 0 {
        return Ok(0);
    }
    if application != i64::from(APPLICATION_ID) {
        return Err(unusable(path, "it is the database of another program; choose another file"));
    }
    match u32::try_from(format) {
        Ok(format) if (1..=FORMAT).contains(&format) => Ok(format),
        Ok(format) if format > FORMAT => Err(StoreError::Future { what: path.display().to_string(), format, known: FORMAT }),
        _ => Err(unusable(path, "its version number is damaged; restore it from a backup")),
    }
}

fn unusable(path: &Path, why: &str) -> StoreError {
    StoreError::Unusable { store: path.display().to_string(), why: why.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c2_each_transaction_is_synced_and_the_log_is_written_ahead() {
        let folder = std::env::temp_dir().join(format!("pleach-pragmas-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let db = open(&folder.join("store.db")).unwrap();
        let synchronous: i64 = db.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
        let journal: String = db.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
        assert_eq!((synchronous, journal.as_str()), (2, "wal"), "2 is FULL");
        drop(db);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn c10_a_file_that_cannot_be_written_is_refused_when_it_is_opened() {
        let folder = std::env::temp_dir().join(format!("pleach-read-only-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("store.db");
        drop(open(&path).unwrap());
        // A flag instead of the file's mode: the mode does not keep out a superuser.
        let mut db = connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let refused = prepare(&mut db, &path).unwrap_err();
        assert!(refused.to_string().contains("read-only"), "{refused}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
