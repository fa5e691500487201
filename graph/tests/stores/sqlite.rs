//! C2, C6, C7, C10, C11, C15: `SqliteStore` conforms to the store contract, and handles everything
//! that can happen to a file.
#![cfg(all(feature = "conformance", feature = "sqlite"))]

use crate::common::{Folder, check_dropped_commits, create_held, forced, lease, next, noise, queued, ready, row};
use pleach_core::block_on;
use pleach_graph::store::{Commit, Held, Parts, Prune, Rows, RunStatus, SqliteStore, Store, StoreError, conformance};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// Changes the file without the store.
fn tamper(path: &Path, statement: &str) {
    rusqlite::Connection::open(path).unwrap().execute_batch(statement).unwrap();
}

/// The file of a test with several processes. If this variable is set, the test is one of the other
/// processes.
const FILE: &str = "PLEACH_TEST_FILE";

/// Another process of this test.
fn child(test: &str, path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("sqlite::{test}"), "--nocapture"]).env(FILE, path).stdout(Stdio::piped());
    command
}

/// Runs the conformance suite on stores in files of their own.
async fn check_conformance() {
    let folder = Folder::new();
    let count = AtomicU32::new(0);
    conformance::check_all(async || {
        let name = format!("{}.db", count.fetch_add(1, Relaxed));
        Arc::new(SqliteStore::open(folder.file(&name)).await.unwrap()) as Arc<dyn Store>
    })
    .await;
}

#[tokio::test]
async fn c11_sqlite_store_conforms() {
    check_conformance().await;
}

/// On such a runtime, commits of a lone run are made on the thread of their caller.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c11_sqlite_store_conforms_on_several_threads() {
    check_conformance().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_commits_here_and_in_the_writer_thread_do_not_mix() {
    const COMMITS: u64 = 60;
    let folder = Folder::new();
    let store = SqliteStore::open(folder.file("runs.db")).await.unwrap();
    // First alone, then several at once, then alone again.
    for (round, runs) in [1, 5, 2, 1].into_iter().enumerate() {
        let drive = async |store: SqliteStore, run: String| {
            let mut claimed = create_held(&store, &run).await;
            for commit in 0..COMMITS {
                store.commit(next(&claimed, commit.to_string().as_bytes())).await.unwrap();
                let stale = store.commit(next(&claimed, b"stale")).await;
                assert!(matches!(stale, Err(StoreError::Fenced { .. })), "a commit at an old head: {stale:?}");
                claimed.run.head += 1;
            }
            let rows = store.read(&run, Rows::Range(2..=COMMITS + 1), Parts::Whole).await.unwrap();
            let bodies: Vec<_> = rows.into_iter().map(|row| row.open(&run).unwrap().body).collect();
            assert_eq!(bodies, (0..COMMITS).map(|commit| commit.to_string().into_bytes()).collect::<Vec<_>>());
        };
        let drivers = (0..runs).map(|run| tokio::spawn(drive(store.clone(), format!("{round}-{run}"))));
        for driver in drivers.collect::<Vec<_>>() {
            driver.await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_dropped_commits_land_completely_or_not_at_all() {
    let folder = Folder::new();
    check_dropped_commits(SqliteStore::open(folder.file("runs.db")).await.unwrap()).await;
}

#[tokio::test]
async fn c2_damage_to_the_file_is_found_and_named() {
    let folder = Folder::new();
    let path = folder.file("runs.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let mut claimed = create_held(&store, "r").await;
    for _ in 0..3 {
        store.commit(next(&claimed, br#"{"a":1}"#)).await.unwrap();
        claimed.run.head += 1;
    }
    let read = async |sequence| {
        let mut rows = store.read("r", Rows::Each(vec![sequence]), Parts::Whole).await?;
        rows.remove(0).open("r")
    };
    let header_bytes = store.read("r", Rows::Each(vec![2]), Parts::Headers).await.unwrap()[0].header.len();
    // One byte of each part is replaced by one that differs in a single bit.
    let flips = (1..=header_bytes).map(|at| ("header", at)).chain((1..=7).map(|at| ("body", at)));
    for (column, at) in flips {
        let parts = format!("substr({column}, 1, {at} - 1), substr({column}, {at}, 1), substr({column}, {at} + 1)");
        let kept: (Vec<u8>, Vec<u8>, Vec<u8>) = rusqlite::Connection::open(&path)
            .unwrap()
            .query_row(&format!("SELECT {parts} FROM log WHERE seq = 2"), [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .unwrap();
        let put = |byte: u8| {
            let bytes = [&kept.0[..], &[byte], &kept.2[..]].concat();
            let statement = format!("UPDATE log SET {column} = ?1 WHERE seq = 2");
            rusqlite::Connection::open(&path).unwrap().execute(&statement, [bytes]).unwrap();
        };
        put(kept.1[0] ^ (1 << (at % 8)));
        let opened = read(2).await;
        assert!(
            matches!(&opened, Err(StoreError::Damaged { run, sequence: 2, .. }) if run == "r"),
            "{column} {at}: {opened:?}"
        );
        put(kept.1[0]);
    }
    read(2).await.unwrap();
    tamper(&path, "UPDATE log SET seq = 9 WHERE seq = 3");
    assert!(matches!(read(3).await, Err(StoreError::Damaged { sequence: 3, .. })), "a missing row is damage");
    assert!(matches!(store.read("r", Rows::Range(1..=4), Parts::Headers).await, Err(StoreError::Damaged { sequence: 3, .. })));
    read(4).await.unwrap();
}

/// Commits without end and prints each acknowledgement, until the test kills it.
async fn commit_forever(path: String) {
    let store = SqliteStore::open(path).await.unwrap();
    let mut claimed = create_held(&store, "r").await;
    loop {
        store.commit(next(&claimed, &[b'x'; 1_000])).await.unwrap();
        claimed.run.head += 1;
        println!("acknowledged {}", claimed.run.head);
    }
}

#[tokio::test]
async fn c2_acknowledged_commits_survive_a_kill() {
    if let Ok(path) = std::env::var(FILE) {
        return commit_forever(path).await;
    }
    for acknowledged_min in [1, 20, 90] {
        let folder = Folder::new();
        let path = folder.file("runs.db");
        let mut process = child("c2_acknowledged_commits_survive_a_kill", &path).spawn().unwrap();
        let mut acknowledged = 0;
        for line in BufReader::new(process.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let Some((_, number)) = line.split_once("acknowledged ") else { continue };
            acknowledged = number.parse().unwrap();
            if acknowledged >= acknowledged_min {
                // Keep reading: the pipe may hold more lines.
                process.kill().unwrap();
            }
        }
        process.wait().unwrap();
        assert!(acknowledged >= acknowledged_min);
        let store = SqliteStore::open(&path).await.unwrap();
        let head = store.head("r").await.unwrap().head;
        assert!(head == acknowledged || head == acknowledged + 1, "{acknowledged} were acknowledged, {head} are stored");
        let rows = store.read("r", Rows::Range(1..=head), Parts::Whole).await.unwrap();
        assert!(rows.into_iter().all(|row| row.open("r").is_ok()));
    }
}

/// Commits until some commits have failed, and checks the stored rows each time. The test limits
/// the file size.
async fn commit_on_a_full_disk(path: String) {
    let store = SqliteStore::open(path).await.unwrap();
    let mut claimed = create_held(&store, "r").await;
    let body = noise(7, 20_000);
    let mut failures = 0;
    while failures < 5 {
        match store.commit(next(&claimed, &body)).await {
            Ok(_) => claimed.run.head += 1,
            Err(failed) => {
                assert!(matches!(failed, StoreError::Unavailable(_)), "{failed:?}");
                failures += 1;
                let head = store.head("r").await.unwrap().head;
                assert_eq!(head, claimed.run.head, "a failed commit is not stored");
                let rows = store.read("r", Rows::Range(1..=head), Parts::Whole).await.unwrap();
                assert!(rows.into_iter().all(|row| row.open("r").is_ok()), "earlier checkpoints are whole");
            }
        }
    }
    println!("acknowledged {}", claimed.run.head);
}

#[cfg(unix)]
#[tokio::test]
async fn c10_full_disk_fails_only_the_commit() {
    if let Ok(path) = std::env::var(FILE) {
        return commit_on_a_full_disk(path).await;
    }
    let folder = Folder::new();
    let path = folder.file("runs.db");
    // Writes beyond the limit fail, as on a full disk, instead of ending the process.
    let mut shell = Command::new("sh");
    let script = "trap '' XFSZ; ulimit -f 600; exec \"$0\" --exact sqlite::c10_full_disk_fails_only_the_commit --nocapture";
    shell.args(["-c", script]).arg(std::env::current_exe().unwrap()).env(FILE, &path);
    let output = shell.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let acknowledged: u64 = printed.lines().find_map(|line| line.split_once("acknowledged ")).unwrap().1.parse().unwrap();
    assert!(acknowledged > 2, "some commits succeeded before");
    // With room again the run continues.
    let store = SqliteStore::open(&path).await.unwrap();
    let claimed = store.claim(forced("r"), lease("bob")).await.unwrap().remove(0);
    assert_eq!(claimed.run.head, acknowledged);
    store.commit(next(&claimed, b"{}")).await.unwrap();
}

#[tokio::test]
async fn c6_two_handles_of_one_file_fence_each_other() {
    let folder = Folder::new();
    let path = folder.file("runs.db");
    let (one, other) = (SqliteStore::open(&path).await.unwrap(), SqliteStore::open(&path).await.unwrap());
    let stale = create_held(&one, "r").await;
    let fresh = other.claim(forced("r"), lease("bob")).await.unwrap().remove(0);
    assert!(matches!(one.commit(next(&stale, b"stale")).await, Err(StoreError::Fenced { .. })));
    other.commit(next(&fresh, b"fresh")).await.unwrap();
    assert_eq!(one.head("r").await.unwrap().head, 2);
}

/// Finishes runs until none is left, in several processes at once.
async fn finish_runs(path: String) {
    let store = SqliteStore::open(path).await.unwrap();
    let me = format!("process {}", std::process::id());
    loop {
        let claims = store.claim(ready(3), lease(&me)).await.unwrap();
        if claims.is_empty() {
            break;
        }
        for claimed in claims {
            let done = Commit { status: Some(RunStatus::Finished), release: true, ..next(&claimed, me.as_bytes()) };
            store.commit(done).await.unwrap();
            println!("done with {}", claimed.run.id);
        }
    }
}

#[tokio::test]
async fn c15_processes_share_the_runs_of_one_file() {
    if let Ok(path) = std::env::var(FILE) {
        return finish_runs(path).await;
    }
    let folder = Folder::new();
    let path = folder.file("runs.db");
    let store = SqliteStore::open(&path).await.unwrap();
    for number in 0..60 {
        let id = format!("run {number}");
        store.create(queued(&id), vec![row(&id, 1, 1, b"{}")]).await.unwrap();
    }
    let processes: Vec<_> = (0..3).map(|_| child("c15_processes_share_the_runs_of_one_file", &path).spawn().unwrap()).collect();
    let mut finished = Vec::new();
    for process in processes {
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success());
        let printed = String::from_utf8(output.stdout).unwrap();
        finished.extend(printed.lines().filter_map(|line| Some(line.split_once("done with ")?.1.to_string())));
    }
    finished.sort_unstable();
    assert_eq!(finished.len(), 60, "each run was finished by one process");
    finished.dedup();
    assert_eq!(finished.len(), 60);
    for id in finished {
        let info = store.head(&id).await.unwrap();
        assert_eq!((info.status, info.epoch, info.head), (RunStatus::Finished, 2, 2));
    }
}

#[tokio::test]
async fn c7_file_of_a_later_version_is_rejected_and_unchanged() {
    let folder = Folder::new();
    let path = folder.file("runs.db");
    drop(SqliteStore::open(&path).await.unwrap());
    tamper(&path, "PRAGMA user_version = 99");
    let before = std::fs::read(&path).unwrap();
    let rejected = SqliteStore::open(&path).await.unwrap_err();
    assert!(
        matches!(&rejected, StoreError::NewerFormat { format: 99, known: 5, what } if what.contains("runs.db")),
        "{rejected}"
    );
    assert!(std::fs::read(&path).unwrap() == before);
}

#[tokio::test]
async fn c7_open_store_is_rejected_once_its_file_is_upgraded() {
    let folder = Folder::new();
    let path = folder.file("runs.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let claim = create_held(&store, "r").await;
    store.commit(next(&claim, b"{}")).await.unwrap();
    tamper(&path, "PRAGMA user_version = 6");
    for (call, error) in crate::common::errors_of_all_calls(&store, &claim).await {
        assert!(matches!(error, StoreError::NewerFormat { format: 6, known: 5, .. }), "{call}: {error}");
    }
    tamper(&path, "PRAGMA user_version = 5");
    assert_eq!(store.head("r").await.unwrap().head, 2);
}

#[tokio::test]
async fn c10_files_that_are_not_a_store_are_rejected_with_the_reason() {
    let folder = Folder::new();
    let rejected = async |path: PathBuf, word: &str| {
        let before = std::fs::read(&path).ok();
        let rejected = SqliteStore::open(&path).await.unwrap_err();
        assert!(matches!(&rejected, StoreError::Unusable { store, .. } if Path::new(store) == path), "{rejected:?}");
        assert!(rejected.to_string().contains(word), "{rejected}");
        assert!(std::fs::read(&path).ok() == before, "the file is unchanged");
    };
    std::fs::write(folder.file("text.db"), "not a database at all, but long enough to be taken for one".repeat(20)).unwrap();
    rejected(folder.file("text.db"), "not a SQLite file").await;
    tamper(&folder.file("other.db"), "CREATE TABLE theirs (a)");
    rejected(folder.file("other.db"), "another program").await;
    rejected(folder.file("missing/runs.db"), "cannot be created").await;
    rejected(folder.0.clone(), "cannot be opened").await;

    let whole = folder.file("whole.db");
    let store = SqliteStore::open(&whole).await.unwrap();
    let mut claimed = create_held(&store, "r").await;
    for _ in 0..40 {
        store.commit(next(&claimed, &[b'x'; 2_000])).await.unwrap();
        claimed.run.head += 1;
    }
    drop(store);
    let bytes = std::fs::read(&whole).unwrap();
    for length in [bytes.len() / 2, 4_096, 100, 17] {
        let path = folder.file(&format!("cut to {length}.db"));
        std::fs::write(&path, &bytes[..length]).unwrap();
        rejected(path, "restore it from a backup").await;
    }
}

#[cfg(unix)]
#[tokio::test]
async fn c10_new_file_is_readable_only_by_its_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    let store = SqliteStore::open(folder.file("runs.db")).await.unwrap();
    create_held(&store, "r").await;
    let modes: Vec<(String, u32)> = std::fs::read_dir(&folder.0)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().permissions().mode() & 0o777))
        .collect();
    let is_private = |(name, mode): &(String, u32)| *mode == if name.ends_with("-holders") { 0o700 } else { 0o600 };
    assert!(modes.len() == 4 && modes.iter().all(is_private), "{modes:?}");
}

#[test]
fn c2_store_needs_no_runtime() {
    let folder = Folder::new();
    block_on(async {
        let store = SqliteStore::open(folder.file("runs.db")).await.unwrap();
        let claimed = create_held(&store, "r").await;
        store.commit(next(&claimed, b"{}")).await.unwrap();
        assert_eq!(store.read("r", Rows::Range(1..=2), Parts::Whole).await.unwrap().len(), 2);
    });
}

/// Removing ended runs may take long. Renewals and commits must not wait for all of it.
#[test]
fn c15_removing_many_ended_runs_lets_others_write_in_between() {
    let folder = Folder::in_memory();
    block_on(async {
        let store = SqliteStore::open(folder.file("many.db")).await.unwrap();
        for number in 0..60 {
            let claim = create_held(&store, &format!("ended {number}")).await;
            let last = Commit { status: Some(RunStatus::Finished), release: true, ..next(&claim, b"{}") };
            store.commit(last).await.unwrap();
        }
        let held = Held::of(&create_held(&store, "live").await.run);
        let order = std::cell::RefCell::new(Vec::new());
        let pruning = async {
            let removed = store.prune(Prune::Ended { unchanged_for: Duration::ZERO, count: 50 }).await.unwrap();
            order.borrow_mut().push(format!("removed {removed}"));
        };
        let renewing = async {
            assert_eq!(store.renew(vec![held], crate::common::LONG).await.unwrap().lost, []);
            order.borrow_mut().push("renewed".to_string());
        };
        tokio::join!(pruning, renewing);
        assert_eq!(order.into_inner(), ["renewed", "removed 50"]);
        assert_eq!(store.prune(Prune::Ended { unchanged_for: Duration::ZERO, count: 50 }).await.unwrap(), 10);
    });
}
