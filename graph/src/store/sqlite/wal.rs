//! SQLite's write-ahead log when a file is opened: what is in it is made durable, and room for more is laid out.
//!
//! A process may have failed to sync the log, and died. Then a part of what is read from the log is not on the disk, nor will a later sync put it
//! there: the system takes those pages for written. Whatever is built on it would go with it when the power fails. So whoever is alone with a file
//! copies the log, syncs the copy and puts it in the place of the log ([`renew`]). Frames are never written over where they are: a power cut in the
//! middle of that could tear what was acknowledged long ago.
//!
//! It is enough that whoever is alone does it. As long as one connection is open, SQLite keeps the number of good frames in memory, and frames that
//! were not synced are not among them; only the first connection reads the log anew.

use super::file::DbFile;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

/// How large the log is from the start: what SQLite fills before it begins anew (1,000 frames of 4 KiB), and the batch that goes beyond.
const WAL_BYTES: u64 = 4_500_000;

/// A log without frames has at most a header.
const HEADER_BYTES: u64 = 32;

const CHUNK_BYTES: usize = 1 << 18;

/// Replaces the log by a synced copy, if there is one and nobody else uses the file.
pub(super) fn renew(file: &DbFile) -> io::Result<()> {
    let wal = file.beside("-wal");
    if fs::metadata(&wal).map_or(true, |log| log.len() <= HEADER_BYTES) {
        return Ok(());
    }
    // Whatever is wrong with the file is reported when it is opened to be used.
    let Some(alone) = alone(file) else { return Ok(()) };
    let copy = file.beside("-wal-copy");
    let replaced = replace(&wal, &copy);
    drop(alone);
    match replaced {
        Ok(()) => Ok(()),
        Err(error) => {
            drop(fs::remove_file(&copy));
            // Without room for a copy the file can still be read, pruned and written to. A log of another user stays that user's.
            let is_tolerable = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::PermissionDenied);
            if is_tolerable { Ok(()) } else { Err(error) }
        }
    }
}

/// A connection that keeps everybody else out, if nobody else is in and the file is a store. It leaves the log as it is when it is closed.
fn alone(file: &DbFile) -> Option<Connection> {
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
    // Byte by byte: a copy made by the file system could share the blocks that were never written.
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

/// Fills the log up with zeros, which are no frames, behind all that is there. The caller has a transaction for writing, so nobody else writes to
/// the log meanwhile, and its COMMIT syncs what is written here.
///
/// A commit then overwrites zeros, and its sync need not write down that the file has grown, which would be a second write to the disk. If there is
/// no room, commits are slower, and that is all.
pub(super) fn fill(file: &DbFile) -> io::Result<()> {
    let mut wal = OpenOptions::new().write(true).open(file.beside("-wal"))?;
    let end = wal.seek(SeekFrom::End(0))?;
    let zeros = vec![0; CHUNK_BYTES];
    let mut filled = end;
    while filled < WAL_BYTES {
        if wal.write_all(&zeros).is_err() {
            // The room that is left is better used otherwise.
            return wal.set_len(end);
        }
        filled += zeros.len() as u64;
    }
    Ok(())
}
