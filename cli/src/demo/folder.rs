//! The folder of a demo: its store, its till and its socket.
//!
//! Each demo has its own folder below the temporary one, named after its process. It holds a lock
//! on a file in it, and removes the folder at its end. A folder with a store and without a lock
//! belongs to a demo that was killed: the next demo continues it.
//!
//! Invariants:
//! 1. A folder is used only by the demo that holds its lock, and by one worker process at a time,
//!    which holds the second lock.
//! 2. A folder without a store may be one that another demo is just making. It is left alone.
//! 3. Only a folder of this user that others cannot write is taken over: all users write to `/tmp`.

use crate::failure::{Failure, Status};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// The beginning of the name of every folder.
const PREFIX: &str = "pleach-demo-";

/// The most names that are tried. A folder of another user can have the first one.
const NAMES_MAX: u32 = 100;

/// How often the removal of a folder is tried.
const REMOVALS_MAX: u32 = 10;

/// The files in a folder.
const STORE: &str = "runs.db";
const TILL: &str = "till";
const SOCKET: &str = "inspect.sock";
const LOG: &str = "worker.log";
const SHOW_LOCK: &str = "show.lock";
const WORKER_LOCK: &str = "worker.lock";

/// The paths of a folder, for the show and for its worker.
#[derive(Clone, Debug)]
pub struct Places(PathBuf);

impl Places {
    pub fn of(folder: PathBuf) -> Self {
        Self(folder)
    }

    pub fn folder(&self) -> &Path {
        &self.0
    }

    pub fn store(&self) -> PathBuf {
        self.0.join(STORE)
    }

    pub fn till(&self) -> PathBuf {
        self.0.join(TILL)
    }

    pub fn socket(&self) -> PathBuf {
        self.0.join(SOCKET)
    }

    /// Where a worker process writes what it says on standard error.
    pub fn log(&self) -> PathBuf {
        self.0.join(LOG)
    }

    /// Waits until no other worker process uses the folder. The lock lasts until the process ends.
    pub fn lock_for_worker(&self) -> io::Result<File> {
        let file = open_lock(&self.0.join(WORKER_LOCK))?;
        file.lock()?;
        Ok(file)
    }
}

/// The folder of this demo. Dropping it removes the folder.
#[derive(Debug)]
pub struct Folder {
    places: Places,
    is_continued: bool,
    _lock: File,
}

impl Folder {
    /// Takes over the folder of a killed demo, or makes a new one.
    pub fn open() -> Result<Self, Failure> {
        let temporary = std::env::temp_dir();
        Self::open_in(&temporary).map_err(|error| {
            let text = format!("cannot make a folder for the demo in {}: {error}", temporary.display());
            Failure::new(Status::Failed, text).advice("set TMPDIR to a folder that you can write")
        })
    }

    fn open_in(temporary: &Path) -> io::Result<Self> {
        for path in abandoned(temporary)? {
            if let Some(lock) = taken_over(&path)? {
                return Ok(Self { places: Places(path), is_continued: true, _lock: lock });
            }
        }
        let path = make(temporary)?;
        let lock = open_lock(&path.join(SHOW_LOCK))?;
        lock.try_lock().map_err(io::Error::from)?;
        Ok(Self { places: Places(path), is_continued: false, _lock: lock })
    }

    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Whether a demo that was killed has left this folder.
    pub fn is_continued(&self) -> bool {
        self.is_continued
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A store that is just being closed can still add or remove a file.
        for _ in 0..REMOVALS_MAX {
            if fs::remove_dir_all(&self.places.0).is_ok() || !self.places.0.exists() {
                return;
            }
        }
    }
}

/// Returns the folders that may have been left by a demo, in the order of their names.
fn abandoned(temporary: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = fs::read_dir(temporary)?
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX))
        .map(|entry| entry.path())
        .filter(|path| is_private(path) && path.join(STORE).exists())
        .collect();
    found.sort();
    Ok(found)
}

/// Takes the lock of a folder. `None` if its demo, or the worker of a killed demo, still lives, or
/// if another demo removes it just now.
fn taken_over(path: &Path) -> io::Result<Option<File>> {
    let locks = [SHOW_LOCK, WORKER_LOCK].map(|name| OpenOptions::new().write(true).open(path.join(name)));
    let [Ok(show), Ok(worker)] = locks else { return Ok(None) };
    for lock in [&show, &worker] {
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    // The demo that held the lock may have removed the folder before this one got the lock.
    Ok(path.join(STORE).exists().then_some(show))
}

/// Makes a folder that no other demo has, with a name that has the number of this process.
fn make(temporary: &Path) -> io::Result<PathBuf> {
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for attempt in 1..=NAMES_MAX {
        let suffix = if attempt == 1 { String::new() } else { format!("-{attempt}") };
        let path = temporary.join(format!("{PREFIX}{}{suffix}", std::process::id()));
        match make_private(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).open(path)
}

#[cfg(unix)]
fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().mode(0o700).create(path)
}

#[cfg(not(unix))]
fn make_private(path: &Path) -> io::Result<()> {
    fs::create_dir(path)
}

#[cfg(unix)]
fn is_private(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let user = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == user && found.mode() & 0o022 == 0)
}

#[cfg(not(unix))]
fn is_private(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn temporary(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("pleach_folder_{name}_{}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        fs::create_dir(&path).unwrap();
        path
    }

    /// Leaves a folder as a killed demo does.
    fn leave(folder: Folder) -> PathBuf {
        File::create(folder.places().store()).unwrap();
        drop(folder.places().lock_for_worker().unwrap());
        let path = folder.places().folder().to_path_buf();
        let Folder { _lock, .. } = &folder;
        _lock.unlock().unwrap();
        std::mem::forget(folder);
        path
    }

    #[test]
    fn folder_is_removed_at_the_end_and_not_shared() {
        let temporary = temporary("own");
        let first = Folder::open_in(&temporary).unwrap();
        File::create(first.places().store()).unwrap();
        let second = Folder::open_in(&temporary).unwrap();
        assert_ne!(first.places().folder(), second.places().folder());
        assert!(!first.is_continued() && !second.is_continued());
        let path = first.places().folder().to_path_buf();
        drop(first);
        assert!(!path.exists() && second.places().folder().exists());
        drop(second);
        fs::remove_dir(&temporary).unwrap();
    }

    #[test]
    fn folder_of_a_killed_demo_is_continued_once() {
        let temporary = temporary("killed");
        let path = leave(Folder::open_in(&temporary).unwrap());
        let worker = Places::of(path.clone()).lock_for_worker().unwrap();
        let other = Folder::open_in(&temporary).unwrap();
        assert!(!other.is_continued(), "the worker of the killed demo still lives");
        drop(worker);
        let next = Folder::open_in(&temporary).unwrap();
        assert!(next.is_continued() && next.places().folder() == path);
        assert!(!Folder::open_in(&temporary).unwrap().is_continued());
        drop((next, other));
        fs::remove_dir(&temporary).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn folder_that_others_can_write_is_left_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let temporary = temporary("foreign");
        let path = leave(Folder::open_in(&temporary).unwrap());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(!Folder::open_in(&temporary).unwrap().is_continued());
        let link = temporary.join(format!("{PREFIX}link"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        fs::rename(&path, temporary.join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(temporary.join("elsewhere"), &link).unwrap();
        assert!(!Folder::open_in(&temporary).unwrap().is_continued());
        fs::remove_dir_all(&temporary).unwrap();
    }
}
