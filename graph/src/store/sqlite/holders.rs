//! Which of those that hold leases are still alive.
//!
//! Every open store is a *holder*: it keeps a file of its own locked, in the folder `<file>-holders` beside the database, as long as it is open.
//! The system releases the lock when the process ends, however it ends. Claims write the holder's name beside the lease. A holder whose file is
//! gone, or can be locked by others, is dead, and its leases end at once.
//!
//! 1. A name is never used twice: a holder that has lost its file before it was locked takes another name.
//! 2. Once its file is locked, nobody but the holder removes it.
//! 3. If a file cannot be made or locked (a file system without locks, a full disk), the holder's name is `@` and the id of this boot. Then its
//!    leases end by time alone, or with the machine.
//! 4. Where there is no boot id (macOS, BSD), the name is `@~` and what the lease clock showed when the lease was written. That clock begins
//!    anew with the machine and never goes back otherwise: if it shows less now, the machine was started again, and the holder is dead. If it
//!    shows more, what remains of the lease is less than the lease's length.
//!
//! The folder itself is locked while a store is being opened, so that of several that open one file at once each finds it prepared.

use super::clock::Now;
use std::borrow::Cow;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often a claim of ready runs looks at other holders, at most.
const CHECK_EVERY: Duration = Duration::from_millis(250);

/// How often a new name is tried. One fails only if another process removes the file between two calls.
const NAMES_MAX: u32 = 100;

/// How often a lock that another has is tried again.
const LOCK_RETRY: Duration = Duration::from_millis(2);

/// This store as a holder, and its view of the others.
pub(super) struct Holders {
    folder: PathBuf,
    /// `None` if there are no locks.
    own: Option<Own>,
    boot_id: Option<String>,
    checked: std::cell::Cell<Option<Instant>>,
}

/// The file of this holder. It is locked as long as it is open.
struct Own {
    name: String,
    path: PathBuf,
    _file: File,
}

impl Holders {
    /// Makes this store a holder.
    pub(super) fn join(database: &Path, boot_id: Option<&str>) -> Self {
        let mut folder = database.as_os_str().to_os_string();
        folder.push("-holders");
        let folder = PathBuf::from(folder);
        let checked = std::cell::Cell::new(None);
        let own = own(&folder).ok();
        Self { folder, own, boot_id: boot_id.map(String::from), checked }
    }

    /// The name that claims of this store write.
    pub(super) fn name(&self, now: Now) -> Cow<'_, str> {
        match &self.own {
            Some(own) => Cow::Borrowed(&own.name),
            None => Cow::Owned(time_alone(self.boot_id.as_deref(), now)),
        }
    }

    fn is_own(&self, name: &str) -> bool {
        self.own.as_ref().is_some_and(|own| own.name == name)
    }

    /// Whether a holder of this name is dead. If it is, its file goes.
    pub(super) fn is_dead(&self, name: &[u8], now: Now) -> bool {
        // No holder ever wrote what is no text.
        let Ok(name) = std::str::from_utf8(name) else { return true };
        if let Some(boot) = name.strip_prefix('@') {
            return self.is_of_another_boot(boot, now);
        }
        match Some(name).filter(|name| is_name(name)) {
            Some(name) => !self.is_own(name) && is_dead_file(&self.folder.join(name)),
            // No holder ever wrote that.
            None => true,
        }
    }

    /// Whether the machine was started again since a holder that is known by its boot alone wrote this.
    fn is_of_another_boot(&self, boot: &str, now: Now) -> bool {
        match boot.strip_prefix('~') {
            Some(reading) => reading.parse().is_ok_and(|reading: i64| reading > now.lease),
            None => self.boot_id.as_ref().is_some_and(|this| !boot.is_empty() && boot != this),
        }
    }

    /// Whether it is time to look at other holders again.
    pub(super) fn is_check_due(&self) -> bool {
        let is_due = self.checked.get().is_none_or(|at| at.elapsed() >= CHECK_EVERY);
        if is_due {
            self.checked.set(Some(Instant::now()));
        }
        is_due
    }

    /// Removes the files of dead holders.
    pub(super) fn sweep(&self) {
        let Ok(files) = fs::read_dir(&self.folder) else { return };
        for name in files.flatten().filter_map(|file| file.file_name().into_string().ok()) {
            if !self.is_own(&name) && is_name(&name) {
                is_dead_file(&self.folder.join(name));
            }
        }
    }

    /// Waits until nobody else opens the file, and keeps others from it until the answer is dropped. A process that is stopped while it opens does
    /// not keep others waiting longer than `patience`. `None` if there are no locks.
    pub(super) fn keep_others_from_opening(&self, patience: Duration) -> Option<File> {
        let (begun, folder) = (Instant::now(), File::open(&self.folder).ok()?);
        loop {
            match folder.try_lock() {
                Ok(()) => return Some(folder),
                Err(TryLockError::WouldBlock) if begun.elapsed() < patience => std::thread::sleep(LOCK_RETRY),
                Err(_) => return None,
            }
        }
    }
}

impl Drop for Holders {
    fn drop(&mut self) {
        // First the file, then the lock: nobody finds a file that belongs to no holder.
        if let Some(own) = self.own.take() {
            drop(fs::remove_file(&own.path));
        }
        // It stays if others have files in it.
        drop(fs::remove_dir(&self.folder));
    }
}

/// Makes a file and locks it.
fn own(folder: &Path) -> io::Result<Own> {
    for _ in 0..NAMES_MAX {
        make_folder(folder)?;
        let name = format!("{:016x}", RandomState::new().hash_one(std::process::id()));
        let path = folder.join(&name);
        let file = match new_file(&path) {
            Ok(file) => file,
            // Another store has removed the empty folder meanwhile.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) => continue,
            Err(error) => return Err(error),
        };
        match file.try_lock() {
            // A sweep of another store may have removed the file before it was locked.
            Ok(()) if path.try_exists()? => return Ok(Own { name, path, _file: file }),
            Ok(()) | Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => {
                drop(fs::remove_file(&path));
                return Err(error);
            }
        }
    }
    Err(io::Error::other("no name for a holder"))
}

/// Both are for the owner of the database alone.
fn make_folder(folder: &Path) -> io::Result<()> {
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

fn is_name(name: &str) -> bool {
    name.len() == 16 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The name of a holder whose leases end by time alone, or when the machine is started again: its lease clock begins anew then.
pub(super) fn time_alone(boot_id: Option<&str>, now: Now) -> String {
    match boot_id {
        Some(id) => format!("@{id}"),
        None if cfg!(unix) => format!("@~{}", now.lease),
        // The lease clock is the time of day, which a new start of the machine does not move.
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
    fn c6_a_holder_is_alive_until_it_is_dropped() {
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
    fn c6_files_that_nobody_locks_are_dead_and_removed() {
        let folder = folder("stale-holders");
        let holders = Holders::join(&folder.join("runs.db"), None);
        let stale = |name: &str| File::create(folder.join("runs.db-holders").join(name)).unwrap();
        stale("0123456789abcdef");
        assert!(holders.is_dead(b"0123456789abcdef", NOW));
        stale("0123456789abcdef");
        stale("a file of somebody else");
        holders.sweep();
        let left: std::collections::BTreeSet<String> = fs::read_dir(folder.join("runs.db-holders"))
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(left, [holders.name(NOW).to_string(), "a file of somebody else".to_string()].into());
        assert!(holders.is_dead(b"../../etc/passwd", NOW) && holders.is_dead(b"\xff", NOW), "no holder has such a name");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn c6_a_holder_without_locks_is_dead_after_a_reboot() {
        let holders = Holders::join(Path::new("/no such folder/runs.db"), Some("this boot"));
        assert_eq!(holders.name(NOW), "@this boot");
        assert!(!holders.is_dead(b"@this boot", NOW) && !holders.is_dead(b"@", NOW) && holders.is_dead(b"@another boot", NOW));
    }

    #[test]
    fn c6_without_a_boot_id_a_clock_that_shows_less_tells_of_a_reboot() {
        let holders = Holders::join(Path::new("/no such folder/runs.db"), None);
        let name = holders.name(NOW).into_owned();
        let at = |lease| Now { lease, ..NOW };
        assert!(!holders.is_dead(name.as_bytes(), NOW) && !holders.is_dead(name.as_bytes(), at(78)));
        assert_eq!(holders.is_dead(name.as_bytes(), at(76)), cfg!(unix));
        assert!(!holders.is_dead(b"@a boot of which nothing is known", NOW) && !holders.is_dead(b"@~no number", NOW));
    }
}
