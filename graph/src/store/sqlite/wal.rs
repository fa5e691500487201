//! SQLite's write-ahead log when a file is opened: makes its content durable and reserves space.
//!
//! **Why a copy.** A process may have failed to sync the log and died. Then a part of the log is in
//! the page cache but not on the disk, and no later sync writes it, because the system regards
//! those pages as written. Later commits would depend on it and would be lost with it in a power
//! failure. So a process that has the file for itself copies the log, syncs the copy and renames it
//! over the log ([`renew`]). It never overwrites frames in place: a power failure could then
//! destroy confirmed commits.
//!
//! **Why only then.** While a connection is open, SQLite keeps the number of valid frames in
//! memory, and unsynced frames are not among them. Only the first connection reads the log again.

use super::file::DbFile;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

/// The initial size of the log: the 1,000 frames of 4 KiB that SQLite fills before it restarts the
/// log, plus one batch.
const WAL_BYTES: u64 = 4_500_000;

/// The size of a log without frames, which has at most a header.
const HEADER_BYTES: u64 = 32;

const CHUNK_BYTES: usize = 1 << 18;

/// Replaces the log with a synced copy, if it has frames and no other process uses the file.
pub(super) fn renew(file: &DbFile) -> io::Result<()> {
    let wal = file.beside("-wal");
    if fs::metadata(&wal).map_or(true, |log| log.len() <= HEADER_BYTES) {
        return Ok(());
    }
    // Any other problem with the file is reported when the store opens it.
    let Some(exclusive) = lock_exclusively(file) else { return Ok(()) };
    let copy = file.beside("-wal-copy");
    let replaced = replace(&wal, &copy);
    drop(exclusive);
    match replaced {
        Ok(()) => Ok(()),
        Err(error) => {
            drop(fs::remove_file(&copy));
            // Without space for a copy the file can still be read, pruned and written. The log of
            // another user keeps its owner.
            let is_tolerable = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::PermissionDenied);
            if is_tolerable { Ok(()) } else { Err(error) }
        }
    }
}

/// Opens a connection that excludes all others, if no other exists and the file is a store. Closing
/// it leaves the log unchanged.
pub(super) fn lock_exclusively(file: &DbFile) -> Option<Connection> {
    let db = file.connect().ok()?;
    db.busy_timeout(std::time::Duration::ZERO).ok()?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).ok()?;
    db.query_row("PRAGMA locking_mode = EXCLUSIVE", [], |_| Ok(())).ok()?;
    let format = file.format(&db).ok()?;
    let mode: String = db.query_row("PRAGMA journal_mode", [], |row| row.get(0)).ok()?;
    (format > 0 && mode == "wal").then_some(db)
}

fn replace(wal: &Path, copy: &Path) -> io::Result<()> {
    match fs::remove_file(copy) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let (mut from, mut to) = (File::open(wal)?, OpenOptions::new().write(true).create_new(true).open(copy)?);
    same_access(&from, &to)?;
    // A copy by the file system could share the blocks that were never written.
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match from.read(&mut chunk)? {
            0 => break,
            count => to.write_all(&chunk[..count])?,
        }
    }
    to.sync_all()?;
    fs::rename(copy, wal)?;
    sync_folder(wal)
}

#[cfg(unix)]
fn same_access(from: &File, to: &File) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let (wanted, given) = (from.metadata()?, to.metadata()?);
    if (wanted.uid(), wanted.gid()) != (given.uid(), given.gid()) {
        std::os::unix::fs::fchown(to, Some(wanted.uid()), Some(wanted.gid()))?;
    }
    to.set_permissions(wanted.permissions())
}

#[cfg(not(unix))]
fn same_access(_: &File, _: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn sync_folder(file: &Path) -> io::Result<()> {
    file.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Extends the log with zeros, which are not frames.
///
/// The caller has a write transaction, so no other process writes to the log meanwhile, and its
/// COMMIT syncs the zeros. Later commits overwrite the zeros, and their syncs need not record a new
/// file size, which would be a second write to the disk. Without free space, commits are only
/// slower.
pub(super) fn fill(file: &DbFile) -> io::Result<()> {
    let mut wal = OpenOptions::new().write(true).open(file.beside("-wal"))?;
    let end = wal.seek(SeekFrom::End(0))?;
    let zeros = vec![0; CHUNK_BYTES];
    let mut filled = end;
    while filled < WAL_BYTES {
        if wal.write_all(&zeros).is_err() {
            // Other data needs the remaining space more.
            return wal.set_len(end);
        }
        filled += zeros.len() as u64;
    }
    Ok(())
}
