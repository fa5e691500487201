//! C10: how a SQLite file is opened and found: many processes at once, relative paths, URIs, files that are deleted or replaced.
#![cfg(all(feature = "sqlite", unix))]

use crate::common::{Folder, create_held, next, queued, row};
use pleach_core::block_on;
use pleach_graph::store::{Parts, Rows, SqliteStore, Store, StoreError};
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A test that finds this variable is a process of its own.
const CHILD: &str = "PLEACH_OPEN_CHILD";

fn child(test: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("sqlite_open::{test}"), "--nocapture"]).env(CHILD, "yes").current_dir(folder);
    command
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// What is in a folder, without what SQLite and holders keep beside an open file.
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

/// Opens each file it is told of, makes a run in it, and says how that went.
fn open_what_is_named() {
    for path in std::io::stdin().lines() {
        let path = path.unwrap();
        let run = format!("run of {}", std::process::id());
        let opened = block_on(async {
            let store = SqliteStore::open(&path).await?;
            store.create(queued(&run), vec![row(&run, 1, 1, b"{}")]).await
        });
        match opened {
            Ok(_) => println!("opened"),
            Err(error) => println!("refused {error}"),
        }
    }
}

struct Opener {
    process: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

#[test]
fn c10_many_processes_open_one_new_file_at_once() {
    if is_child() {
        return open_what_is_named();
    }
    let folder = Folder::in_memory();
    let mut openers: Vec<Opener> = (0..8)
        .map(|_| {
            let mut command = child("c10_many_processes_open_one_new_file_at_once", &folder.0);
            let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let (orders, answers) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
            Opener { process, orders, answers: BufReader::new(answers).lines() }
        })
        .collect();
    for round in 0..30 {
        let path = folder.file(&format!("{round}.db"));
        for opener in &mut openers {
            writeln!(opener.orders, "{}", path.display()).unwrap();
        }
        for opener in &mut openers {
            let answer =
                opener.answers.find_map(|line| line.ok().filter(|line| line.contains("opened") || line.contains("refused")));
            assert!(answer.as_ref().unwrap().contains("opened"), "round {round}: {answer:?}");
        }
        let store = block_on(SqliteStore::open(&path)).unwrap();
        assert_eq!(block_on(store.list(vec![], None, 99)).unwrap().runs.len(), openers.len(), "round {round}");
    }
    for mut opener in openers {
        drop(opener.orders);
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
fn c10_a_relative_path_survives_chdir() {
    if is_child() {
        return block_on(work_after_chdir());
    }
    let folder = Folder::new();
    std::fs::create_dir(folder.file("elsewhere")).unwrap();
    assert!(child("c10_a_relative_path_survives_chdir", &folder.0).status().unwrap().success());
    assert_eq!(names(&folder.0), ["elsewhere", "runs.db"]);
    assert!(names(&folder.file("elsewhere")).is_empty());
    let store = block_on(SqliteStore::open(folder.file("runs.db"))).unwrap();
    assert_eq!(block_on(store.head("r")).unwrap().head, 4);
}

#[test]
fn c10_uris_and_memory_are_refused_and_leave_no_file() {
    if is_child() {
        for path in ["file:x.db", "file:x.db?mode=memory", "file:///tmp/x.db", ":memory:", ""] {
            let refused = block_on(SqliteStore::open(path)).unwrap_err();
            assert!(is_unusable(&refused, "MemoryStore"), "{refused}");
        }
        // Written as a path, such a name is one like any other.
        return drop(block_on(SqliteStore::open("./file:x.db")).unwrap());
    }
    let folder = Folder::new();
    assert!(child("c10_uris_and_memory_are_refused_and_leave_no_file", &folder.0).status().unwrap().success());
    assert_eq!(names(&folder.0), ["file:x.db"]);
}

/// A store with a run of two rows, one of them read before.
async fn in_use(path: &PathBuf) -> (SqliteStore, pleach_graph::store::Claim) {
    let store = SqliteStore::open(path).await.unwrap();
    let mut claimed = create_held(&store, "r").await;
    store.commit(next(&claimed, b"{}")).await.unwrap();
    claimed.run.head += 1;
    assert_eq!(store.head("r").await.unwrap().head, 2);
    (store, claimed)
}

#[test]
fn c10_a_deleted_file_fails_commits_and_reads_and_is_not_made_again() {
    let folder = Folder::new();
    let path = folder.file("runs.db");
    block_on(async {
        let (store, claimed) = in_use(&path).await;
        std::fs::remove_file(&path).unwrap();
        for _ in 0..3 {
            let refused = store.commit(next(&claimed, b"{}")).await.unwrap_err();
            assert!(is_unusable(&refused, "deleted or moved"), "{refused}");
            let refused = store.head("r").await.unwrap_err();
            assert!(is_unusable(&refused, "deleted or moved"), "{refused}");
        }
        assert!(!path.exists(), "nobody made a new file");
    });
}

#[test]
fn c10_a_replaced_file_fails_commits_and_reads_and_is_left_alone() {
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
            let refused = store.commit(next(&claimed, b"{}")).await.unwrap_err();
            assert!(is_unusable(&refused, "another file"), "{refused}");
            let refused = store.list(vec![], None, 9).await.unwrap_err();
            assert!(is_unusable(&refused, "another file"), "{refused}");
        }
        assert!(std::fs::read(&path).unwrap() == before);
    });
}

#[test]
fn c10_a_file_that_was_moved_away_and_back_goes_on() {
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
        assert_eq!(store.head("r").await.unwrap().head, claimed.run.head, "it has landed once");
        store.commit(next(&claimed, b"{}")).await.unwrap();
    });
}

#[test]
fn c10_a_link_to_the_file_may_change_while_it_is_open() {
    let folder = Folder::new();
    let (link, first) = (folder.file("current.db"), folder.file("first.db"));
    block_on(async {
        drop(SqliteStore::open(&first).await.unwrap());
        std::os::unix::fs::symlink(&first, &link).unwrap();
        let (store, claimed) = in_use(&link).await;
        std::fs::remove_file(&link).unwrap();
        store.commit(next(&claimed, b"{}")).await.unwrap();
        // Both names are one file, and so have one folder of holders.
        let other = SqliteStore::open(&first).await.unwrap();
        assert_eq!(other.head("r").await.unwrap().head, 3);
        let wanted = pleach_graph::store::Wanted::One { run: "r".into(), force: false };
        assert!(matches!(other.claim(wanted, crate::common::lease("bob")).await, Err(StoreError::Held { .. })));
    });
}
