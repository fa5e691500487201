//! C10: how a SQLite file is opened and found: by many processes at once, by relative paths and
//! URIs, after deletion or replacement.
#![cfg(all(feature = "sqlite", unix))]

use crate::common::{Folder, create_held, next, queued, row};
use pleach_core::block_on;
use pleach_graph::store::{Parts, Rows, SqliteStore, Store, StoreError};
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// If this variable is set, the test is a child process.
const CHILD: &str = "PLEACH_OPEN_CHILD";

fn child(test: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("sqlite_open::{test}"), "--nocapture"]).env(CHILD, "yes").current_dir(folder);
    command
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// The files in a folder, without the files that SQLite and holders keep beside it.
fn names(folder: &Path) -> Vec<String> {
    let all = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> =
        all.filter(|name| !["-wal", "-shm", "-holders"].iter().any(|ending| name.ends_with(ending))).collect();
    names.sort_unstable();
    names
}

fn is_unusable(error: &StoreError, word: &str) -> bool {
    matches!(error, StoreError::Unusable { .. }) && error.to_string().contains(word)
}

/// Opens each file that it reads from stdin, creates a run in it, and prints the result.
fn open_files_of_stdin() {
    for path in std::io::stdin().lines() {
        let path = path.unwrap();
        let run = format!("run of {}", std::process::id());
        let opened = block_on(async {
            let store = SqliteStore::open(&path).await?;
            store.create(queued(&run), vec![row(&run, 1, 1, b"{}")]).await
        });
        match opened {
            Ok(_) => println!("opened"),
            Err(error) => println!("rejected {error}"),
        }
    }
}

struct Opener {
    process: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

#[test]
fn c10_many_processes_open_one_new_file_at_once() {
    if is_child() {
        return open_files_of_stdin();
    }
    let folder = Folder::in_memory();
    let mut openers: Vec<Opener> = (0..8)
        .map(|_| {
            let mut command = child("c10_many_processes_open_one_new_file_at_once", &folder.0);
            let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let (commands, answers) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
            Opener { process, commands, answers: BufReader::new(answers).lines() }
        })
        .collect();
    for round in 0..30 {
        let path = folder.file(&format!("{round}.db"));
        for opener in &mut openers {
            writeln!(opener.commands, "{}", path.display()).unwrap();
        }
        for opener in &mut openers {
            let answer =
                opener.answers.find_map(|line| line.ok().filter(|line| line.contains("opened") || line.contains("rejected")));
            assert!(answer.as_ref().unwrap().contains("opened"), "round {round}: {answer:?}");
        }
        let store = block_on(SqliteStore::open(&path)).unwrap();
        assert_eq!(block_on(store.list(vec![], None, 99)).unwrap().runs.len(), openers.len(), "round {round}");
    }
    for mut opener in openers {
        drop(opener.commands);
        assert!(opener.process.wait().unwrap().success());
    }
}

#[test]
fn c10_many_threads_open_and_close_one_file() {
    let folder = Folder::in_memory();
    let path = folder.file("runs.db");
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let path = &path;
            scope.spawn(move || {
                for round in 0..10 {
                    let run = format!("{thread} {round}");
                    let store = block_on(SqliteStore::open(path)).unwrap();
                    block_on(store.create(queued(&run), vec![row(&run, 1, 1, b"{}")])).unwrap();
                }
            });
        }
    });
    let store = block_on(SqliteStore::open(&path)).unwrap();
    assert_eq!(block_on(store.list(vec![], None, 99)).unwrap().runs.len(), 60);
}

async fn work_after_chdir() {
    let store = SqliteStore::open("runs.db").await.unwrap();
    assert!(store.path().is_absolute());
    let mut claimed = create_held(&store, "r").await;
    std::env::set_current_dir("elsewhere").unwrap();
    for _ in 0..3 {
        store.commit(next(&claimed, b"{}")).await.unwrap();
        claimed.run.head += 1;
        let rows = store.read("r", Rows::Range(1..=claimed.run.head), Parts::Whole).await.unwrap();
        assert_eq!(rows.len() as u64, claimed.run.head);
    }
}

#[test]
fn c10_relative_path_survives_chdir() {
    if is_child() {
        return block_on(work_after_chdir());
    }
    let folder = Folder::new();
    std::fs::create_dir(folder.file("elsewhere")).unwrap();
    assert!(child("c10_relative_path_survives_chdir", &folder.0).status().unwrap().success());
    assert_eq!(names(&folder.0), ["elsewhere", "runs.db"]);
    assert!(names(&folder.file("elsewhere")).is_empty());
    let store = block_on(SqliteStore::open(folder.file("runs.db"))).unwrap();
    assert_eq!(block_on(store.head("r")).unwrap().head, 4);
}

#[test]
fn c10_uris_and_memory_are_rejected_and_leave_no_file() {
    if is_child() {
        for path in ["file:x.db", "file:x.db?mode=memory", "file:///tmp/x.db", ":memory:", ""] {
            let rejected = block_on(SqliteStore::open(path)).unwrap_err();
            assert!(is_unusable(&rejected, "MemoryStore"), "{rejected}");
        }
        // Written as a path, such a name is valid.
        return drop(block_on(SqliteStore::open("./file:x.db")).unwrap());
    }
    let folder = Folder::new();
    assert!(child("c10_uris_and_memory_are_rejected_and_leave_no_file", &folder.0).status().unwrap().success());
    assert_eq!(names(&folder.0), ["file:x.db"]);
}

/// A store with a run of two rows, which has been read before.
async fn in_use(path: &PathBuf) -> (SqliteStore, pleach_graph::store::Claim) {
    let store = SqliteStore::open(path).await.unwrap();
    let mut claimed = create_held(&store, "r").await;
    store.commit(next(&claimed, b"{}")).await.unwrap();
    claimed.run.head += 1;
    assert_eq!(store.head("r").await.unwrap().head, 2);
    (store, claimed)
}

#[test]
fn c10_deleted_file_fails_all_calls_and_is_not_recreated() {
    let folder = Folder::new();
    let path = folder.file("runs.db");
    block_on(async {
        let (store, claimed) = in_use(&path).await;
        std::fs::remove_file(&path).unwrap();
        for _ in 0..3 {
            let rejected = store.commit(next(&claimed, b"{}")).await.unwrap_err();
            assert!(is_unusable(&rejected, "deleted or moved"), "{rejected}");
            let rejected = store.head("r").await.unwrap_err();
            assert!(is_unusable(&rejected, "deleted or moved"), "{rejected}");
        }
        assert!(!path.exists(), "no new file was created");
    });
}

#[test]
fn c10_replaced_file_fails_all_calls_and_is_unchanged() {
    let folder = Folder::new();
    let path = folder.file("runs.db");
    block_on(async {
        let (store, claimed) = in_use(&path).await;
        let other = SqliteStore::open(folder.file("other.db")).await.unwrap();
        create_held(&other, "theirs").await;
        drop(other);
        std::fs::rename(folder.file("other.db"), &path).unwrap();
        let before = std::fs::read(&path).unwrap();
        for _ in 0..3 {
            let rejected = store.commit(next(&claimed, b"{}")).await.unwrap_err();
            assert!(is_unusable(&rejected, "another file"), "{rejected}");
            let rejected = store.list(vec![], None, 9).await.unwrap_err();
            assert!(is_unusable(&rejected, "another file"), "{rejected}");
        }
        assert!(std::fs::read(&path).unwrap() == before);
    });
}

#[test]
fn c10_file_moved_away_and_back_works_again() {
    let folder = Folder::new();
    let (path, away) = (folder.file("runs.db"), folder.file("away"));
    block_on(async {
        let (store, mut claimed) = in_use(&path).await;
        std::fs::rename(&path, &away).unwrap();
        let commit = next(&claimed, b"{}");
        assert!(store.commit(commit.clone()).await.is_err());
        std::fs::rename(&away, &path).unwrap();
        store.commit(commit).await.unwrap();
        claimed.run.head += 1;
        assert_eq!(store.head("r").await.unwrap().head, claimed.run.head, "it is stored once");
        store.commit(next(&claimed, b"{}")).await.unwrap();
    });
}

#[test]
fn c10_link_to_an_open_file_can_change() {
    let folder = Folder::new();
    let (link, first) = (folder.file("current.db"), folder.file("first.db"));
    block_on(async {
        drop(SqliteStore::open(&first).await.unwrap());
        std::os::unix::fs::symlink(&first, &link).unwrap();
        let (store, claimed) = in_use(&link).await;
        std::fs::remove_file(&link).unwrap();
        store.commit(next(&claimed, b"{}")).await.unwrap();
        // Both names are the same file, so they share one folder of holders.
        let other = SqliteStore::open(&first).await.unwrap();
        assert_eq!(other.head("r").await.unwrap().head, 3);
        let wanted = pleach_graph::store::Wanted::One { run: "r".into(), force: false };
        assert!(matches!(other.claim(wanted, crate::common::lease("bob")).await, Err(StoreError::Held { .. })));
    });
}
