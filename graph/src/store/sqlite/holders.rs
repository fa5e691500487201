//! Which stores that hold leases are still alive.
//!
//! Every open store is a *holder*. While it is open, it keeps a file locked in the folder
//! `<file>-holders` beside the database. The operating system releases the lock when the process
//! ends for any reason. Claims write the name of the holder beside the lease. A holder is dead if
//! its file is missing or another process can lock it. The leases of a dead holder end at once.
//!
//! Invariants:
//! 1. A name is never used twice. A holder that loses its file before it is locked takes another
//!    name.
//! 2. Only the holder removes its locked file.
//! 3. If a file cannot be created or locked (no lock support, a full disk), the name of the holder
//!    is `@` and the id of this boot. Its leases then end by time, or with a reboot.
//! 4. Without a boot id (macOS, BSD), the name is `@~` and the reading of the lease clock when the
//!    lease was written. That clock restarts with each boot and never goes back otherwise. If it
//!    reads less now, the machine was rebooted and the holder is dead. If it reads more, the
//!    remaining time is shorter than the lease duration.
//!
//! A holder that has opened the database writes so into its file: the write-ahead log is not
//! renewed then, even if SQLite's own locks were lost. A process that opens and closes the
//! database in another way, for example to copy it, loses these.
//!
//! The folder is locked while a store is being opened. So if several stores open one file at once,
//! each finds it prepared.

use super::clock::Now;
use std::borrow::Cow;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The minimum time between two checks of the other holders by claims of ready runs.
const CHECK_EVERY: Duration = Duration::from_millis(250);

/// The number of names to try. A try fails only if another process removes the file between two
/// calls.
const NAMES_MAX: u32 = 100;

/// The delay before a lock of another process is tried again.
const LOCK_RETRY: Duration = Duration::from_millis(2);

/// The content of the file of a holder that has opened the database.
const OPEN: &[u8] = b"open\n";

/// This store as a holder, and its checks of other holders.
pub(super) struct Holders {
    folder: PathBuf,
    /// `None` if the file system has no locks.
    own: Option<LockFile>,
    boot_id: Option<String>,
    checked: std::cell::Cell<Option<Instant>>,
}

/// The locked file of this holder. Closing it releases the lock.
struct LockFile {
    name: String,
    path: PathBuf,
    file: File,
}

impl Holders {
    /// Registers this store as a holder.
    pub(super) fn join(database: &Path, boot_id: Option<&str>) -> Self {
        let mut folder = database.as_os_str().to_os_string();
        folder.push("-holders");
        let folder = PathBuf::from(folder);
        let checked = std::cell::Cell::new(None);
        let own = create_lock_file(&folder).ok();
        Self { folder, own, boot_id: boot_id.map(String::from), checked }
    }

    /// Returns the holder name that claims of this store write.
    pub(super) fn name(&self, now: Now) -> Cow<'_, str> {
        match &self.own {
            Some(own) => Cow::Borrowed(&own.name),
            None => Cow::Owned(name_without_lock(self.boot_id.as_deref(), now)),
        }
    }

    fn is_own(&self, name: &str) -> bool {
        self.own.as_ref().is_some_and(|own| own.name == name)
    }

    /// Returns whether the holder with this name is dead. Removes the file of a dead holder.
    pub(super) fn is_dead(&self, name: &[u8], now: Now) -> bool {
        // A holder name is always valid text.
        let Ok(name) = std::str::from_utf8(name) else { return true };
        if let Some(boot) = name.strip_prefix('@') {
            return self.is_of_another_boot(boot, now);
        }
        match Some(name).filter(|name| is_name(name)) {
            Some(name) => !self.is_own(name) && is_dead_file(&self.folder.join(name)),
            // No holder has such a name.
            None => true,
        }
    }

    /// Returns whether the machine was rebooted since a holder without a lock wrote this name.
    fn is_of_another_boot(&self, boot: &str, now: Now) -> bool {
        match boot.strip_prefix('~') {
            Some(reading) => reading.parse().is_ok_and(|reading: i64| reading > now.lease),
            None => self.boot_id.as_ref().is_some_and(|this| !boot.is_empty() && boot != this),
        }
    }

    /// Returns whether the other holders should be checked again, and remembers the check.
    pub(super) fn is_check_due(&self) -> bool {
        let is_due = self.checked.get().is_none_or(|at| at.elapsed() >= CHECK_EVERY);
        if is_due {
            self.checked.set(Some(Instant::now()));
        }
        is_due
    }

    /// Removes the files of dead holders. Returns whether another store has the file open.
    pub(super) fn sweep(&self) -> bool {
        let Ok(files) = fs::read_dir(&self.folder) else { return false };
        let mut is_open = false;
        for name in files.flatten().filter_map(|file| file.file_name().into_string().ok()) {
            let path = self.folder.join(&name);
            if !self.is_own(&name) && is_name(&name) && !is_dead_file(&path) {
                is_open |= fs::metadata(&path).is_ok_and(|file| file.len() > 0);
            }
        }
        is_open
    }

    /// Notes that this store has opened the file, for [`sweep`](Self::sweep) of others.
    pub(super) fn has_opened(&self) {
        if let Some(own) = &self.own {
            // Without it, only the locks of SQLite tell others that the file is open.
            drop((&own.file).write_all(OPEN));
        }
    }

    /// Locks the folder, so that no other store opens the file until the result is dropped.
    ///
    /// Waits at most `timeout`, because a process can be suspended while it opens the file. Returns
    /// `None` after the timeout, or without lock support.
    pub(super) fn lock_opening(&self, timeout: Duration) -> Option<File> {
        let (begun, folder) = (Instant::now(), File::open(&self.folder).ok()?);
        loop {
            match folder.try_lock() {
                Ok(()) => return Some(folder),
                Err(TryLockError::WouldBlock) if begun.elapsed() < timeout => std::thread::sleep(LOCK_RETRY),
                Err(_) => return None,
            }
        }
    }
}

impl Drop for Holders {
    fn drop(&mut self) {
        // Removes the file before the lock is released, so that no file without a holder remains.
        if let Some(own) = self.own.take() {
            drop(fs::remove_file(&own.path));
        }
        // Fails if the folder has files of other holders; then it stays.
        drop(fs::remove_dir(&self.folder));
    }
}

/// Creates a file with a new name and locks it.
fn create_lock_file(folder: &Path) -> io::Result<LockFile> {
    for _ in 0..NAMES_MAX {
        create_folder(folder)?;
        let name = format!("{:016x}", RandomState::new().hash_one(std::process::id()));
        let path = folder.join(&name);
        let file = match new_file(&path) {
            Ok(file) => file,
            // Another store has removed the empty folder.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) => continue,
            Err(error) => return Err(error),
        };
        match file.try_lock() {
            // Another store may have removed the file as dead before it was locked.
            Ok(()) if path.try_exists()? => return Ok(LockFile { name, path, file }),
            Ok(()) | Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => {
                drop(fs::remove_file(&path));
                return Err(error);
            }
        }
    }
    Err(io::Error::other("no unused name for a lock file was found"))
}

/// Creates the folder. Only the owner of the database can access it and its files.
fn create_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn new_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn is_dead_file(path: &Path) -> bool {
    match OpenOptions::new().write(true).open(path) {
        Ok(file) => {
            let is_dead = file.try_lock().is_ok();
            if is_dead {
                drop(fs::remove_file(path));
            }
            is_dead
        }
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Returns whether another process has this lock file locked, without changing it. `None` if that
/// cannot be known, for example because the file belongs to another user.
pub(super) fn is_alive(path: &Path) -> Option<bool> {
    match File::open(path) {
        // A shared lock, so that two observers do not take each other for the holder.
        Ok(file) => match file.try_lock_shared() {
            Ok(()) => Some(false),
            Err(TryLockError::WouldBlock) => Some(true),
            Err(TryLockError::Error(_)) => None,
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(false),
        Err(_) => None,
    }
}

/// Returns whether a text is the name of a holder with a lock file.
pub(super) fn is_name(name: &str) -> bool {
    name.len() == 16 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns the name of a holder without a lock, whose leases end by time or with a reboot.
pub(super) fn name_without_lock(boot_id: Option<&str>, now: Now) -> String {
    match boot_id {
        Some(id) => format!("@{id}"),
        None if cfg!(unix) => format!("@~{}", now.lease),
        // Here the lease clock is the time of day, which does not restart with a reboot.
        None => "@".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Now = Now { wall: crate::store::time::Timestamp::from_millis(1_700_000_000_000), lease: 77 };

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("pleach-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn c6_holder_is_alive_until_it_is_dropped() {
        let folder = folder("holders");
        let database = folder.join("runs.db");
        let (one, other) = (Holders::join(&database, None), Holders::join(&database, None));
        assert!(one.own.is_some() && one.name(NOW) != other.name(NOW));
        assert!(!one.is_dead(one.name(NOW).as_bytes(), NOW) && !one.is_dead(other.name(NOW).as_bytes(), NOW));
        let name = other.name(NOW).to_string();
        drop(other);
        assert!(one.is_dead(name.as_bytes(), NOW));
        assert_eq!(fs::read_dir(folder.join("runs.db-holders")).unwrap().count(), 1);
        drop(one);
        assert!(!folder.join("runs.db-holders").exists(), "the last one removes the folder");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn c6_unlocked_holder_files_are_dead_and_removed() {
        let folder = folder("stale-holders");
        let holders = Holders::join(&folder.join("runs.db"), None);
        let stale = |name: &str| File::create(folder.join("runs.db-holders").join(name)).unwrap();
        stale("0123456789abcdef");
        assert!(holders.is_dead(b"0123456789abcdef", NOW));
        stale("0123456789abcdef");
        stale("a foreign file");
        holders.sweep();
        let left: std::collections::BTreeSet<String> = fs::read_dir(folder.join("runs.db-holders"))
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(left, [holders.name(NOW).to_string(), "a foreign file".to_string()].into());
        assert!(holders.is_dead(b"../../etc/passwd", NOW) && holders.is_dead(b"\xff", NOW), "no holder has such a name");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn c6_holder_without_lock_is_dead_after_a_reboot() {
        let holders = Holders::join(Path::new("/no such folder/runs.db"), Some("this boot"));
        assert_eq!(holders.name(NOW), "@this boot");
        assert!(!holders.is_dead(b"@this boot", NOW) && !holders.is_dead(b"@", NOW) && holders.is_dead(b"@another boot", NOW));
    }

    #[test]
    fn c6_without_boot_id_a_lower_lease_clock_means_a_reboot() {
        let holders = Holders::join(Path::new("/no such folder/runs.db"), None);
        let name = holders.name(NOW).into_owned();
        let at = |lease| Now { lease, ..NOW };
        assert!(!holders.is_dead(name.as_bytes(), NOW) && !holders.is_dead(name.as_bytes(), at(78)));
        assert_eq!(holders.is_dead(name.as_bytes(), at(76)), cfg!(unix));
        assert!(!holders.is_dead(b"@an unknown boot", NOW) && !holders.is_dead(b"@~no number", NOW));
    }
}
