//! The locks of a file that is open, as other processes see them.
//!
//! Each test starts itself again as another process, with the path of the file in a variable.

use super::SqliteStore;
use super::clock::Clock;
use super::file::DbFile;
use super::wal::lock_exclusively;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The path of the file, in the other process.
const PATH: &str = "PLEACH_TEST_LOCKED_FILE";

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("pleach-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs `test` of this module in another process. Returns whether it passed there.
fn passes_elsewhere(test: &str, path: &Path) -> bool {
    let test = format!("{}::{test}", module_path!().split_once("::").unwrap().1);
    let mut command = Command::new(std::env::current_exe().unwrap());
    let ended = command.args([test.as_str(), "--exact", "--nocapture"]).env(PATH, path).output().unwrap();
    assert!(String::from_utf8_lossy(&ended.stdout).contains("1 passed") || !ended.status.success(), "{test} was not run");
    ended.status.success()
}

/// Whatever a process does with a file that it has open, no other process can have the file for
/// itself, and so none replaces its log.
#[test]
fn c2_other_openings_of_a_process_keep_the_locks_of_the_file() {
    if let Some(path) = std::env::var_os(PATH) {
        let file = DbFile::found(path.into()).unwrap();
        assert!(lock_exclusively(&file).is_none(), "another process has the file open");
        return;
    }
    let folder = folder("locks");
    let path = folder.join("store.db");
    let is_locked = || passes_elsewhere("c2_other_openings_of_a_process_keep_the_locks_of_the_file", &path);
    let store = SqliteStore::open_with(&path, Clock::system()).unwrap();
    assert!(is_locked(), "after it was opened");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    drop(runtime.block_on(SqliteStore::open_existing(&path)).unwrap());
    assert!(is_locked(), "after it was opened as an existing file");
    drop(runtime.block_on(SqliteStore::open_read_only(&path)).unwrap());
    assert!(is_locked(), "after it was opened for reading");
    runtime.block_on(store.diagnose(Some(Duration::from_secs(5)))).unwrap();
    assert!(is_locked(), "after it was examined");
    drop(SqliteStore::open_with(&path, Clock::system()).unwrap());
    assert!(is_locked(), "after it was opened again");
    drop(store);
    assert!(!is_locked(), "after it was closed");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The locks of SQLite are lost when the process opens and closes the file in another way.
#[cfg(unix)]
#[test]
fn c2_log_is_not_replaced_under_a_process_that_lost_its_locks() {
    use std::os::unix::fs::MetadataExt as _;
    if let Some(path) = std::env::var_os(PATH) {
        let store = SqliteStore::open_with(&PathBuf::from(path), Clock::system()).unwrap();
        // It ends as if it was killed: a store that closes the file may end the log.
        std::mem::forget(store);
        return;
    }
    let folder = folder("lost-locks");
    let path = folder.join("store.db");
    let store = SqliteStore::open_with(&path, Clock::system()).unwrap();
    let log = || std::fs::metadata(folder.join("store.db-wal")).unwrap().ino();
    let before = log();
    drop(std::fs::File::open(&path).unwrap());
    assert!(passes_elsewhere("c2_log_is_not_replaced_under_a_process_that_lost_its_locks", &path));
    assert_eq!(log(), before, "another log would hide what this process commits");
    drop(store);
    std::fs::remove_dir_all(&folder).unwrap();
}
