//! C6, C15: on SQLite a lease ends with its process, and never early while that process lives.
#![cfg(all(feature = "sqlite", target_os = "linux"))]

use crate::common::{Folder, create_held, lease, next, queued, ready, row};
use pleach_core::block_on;
use pleach_graph::store::{Claim, Commit, Held, Lease, NewRun, Prune, RunStatus, SqliteStore, Store, StoreError, Wanted};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The file of a test. If this variable is set, the test is the process that holds the runs.
const FILE: &str = "PLEACH_HOLDER_FILE";
/// The duration of its leases, in milliseconds.
const LEASE: &str = "PLEACH_HOLDER_LEASE";

/// Upper limit of a wait in a test.
const SOON: Duration = Duration::from_secs(20);

fn one(run: &str) -> Wanted {
    Wanted::One { run: run.into(), force: false }
}

async fn claim(store: &SqliteStore, run: &str) -> Result<Claim, StoreError> {
    store.claim(one(run), lease("bob")).await.map(|mut claims| claims.remove(0))
}

/// Holds runs in every possible way, prints `held`, and waits for its end.
async fn hold(path: String) {
    let store = SqliteStore::open(path).await.unwrap();
    let length = Duration::from_millis(std::env::var(LEASE).unwrap().parse().unwrap());
    let lease = || Lease { owner: "child".into(), length };
    for run in ["one", "deleted", "ended"] {
        let new = NewRun { lease: Some(lease()), ..queued(run) };
        let claimed = store.create(new, vec![row(run, 1, 1, b"{}")]).await.unwrap();
        if run == "ended" {
            store.commit(Commit { status: Some(RunStatus::Finished), ..next(&claimed, b"{}") }).await.unwrap();
        }
    }
    store.create(queued("ready"), vec![row("ready", 1, 1, b"{}")]).await.unwrap();
    assert_eq!(store.claim(ready(9), lease()).await.unwrap().len(), 1);
    let held = Held::of(&store.head("one").await.unwrap());
    store.renew(vec![held], length).await.unwrap();
    println!("held");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Starts the holding process and waits until it holds its runs.
fn holder(test: &str, path: &Path, lease: Duration) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", &format!("sqlite_holders::{test}"), "--nocapture"])
        .env(FILE, path)
        .env(LEASE, lease.as_millis().to_string());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("held")), "the process ended too early");
    child
}

fn send(signal: &str, child: &Child) {
    let status = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn holder_files(path: &Path) -> usize {
    let folder = format!("{}-holders", path.display());
    std::fs::read_dir(folder).map_or(0, |files| files.count())
}

#[test]
fn c6_runs_of_a_killed_process_are_free_at_once() {
    if let Ok(path) = std::env::var(FILE) {
        return block_on(hold(path));
    }
    let folder = Folder::new();
    let path = folder.file("runs.db");
    block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        let child = holder("c6_runs_of_a_killed_process_are_free_at_once", &path, crate::common::LONG);
        // While the process lives, it holds all of them.
        for run in ["one", "ready", "ended"] {
            let rejected = claim(&store, run).await.unwrap_err();
            assert!(matches!(&rejected, StoreError::Held { owner, .. } if owner == "child"), "{rejected}");
        }
        assert!(matches!(store.delete("deleted").await, Err(StoreError::Held { .. })));
        assert_eq!(store.prune(Prune::Ended { unchanged_for: Duration::ZERO, count: 9 }).await.unwrap(), 0);
        kill(child);
        let claimed = claim(&store, "one").await.unwrap();
        assert_eq!((claimed.run.epoch, claimed.run.takeovers), (2, 1), "it counts as a takeover");
        store.delete("deleted").await.unwrap();
        assert_eq!(store.prune(Prune::Ended { unchanged_for: Duration::ZERO, count: 9 }).await.unwrap(), 1);
        let begun = Instant::now();
        let claims = store.claim(ready(9), lease("bob")).await.unwrap();
        assert_eq!(claims.iter().map(|claim| claim.run.id.as_str()).collect::<Vec<_>>(), ["ready"]);
        assert_eq!(claims[0].run.takeovers, 1);
        assert!(begun.elapsed() < SOON);
        assert_eq!(holder_files(&path), 1, "the files of the dead process are removed");
    });
}

#[test]
fn c15_ready_runs_of_a_killed_process_are_found_by_polling() {
    if let Ok(path) = std::env::var(FILE) {
        return block_on(hold(path));
    }
    let folder = Folder::new();
    let path = folder.file("runs.db");
    block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        let child = holder("c15_ready_runs_of_a_killed_process_are_found_by_polling", &path, crate::common::LONG);
        assert!(store.claim(ready(9), lease("bob")).await.unwrap().is_empty());
        kill(child);
        let begun = Instant::now();
        let mut claimed = Vec::new();
        // Holders are checked a few times per second.
        while claimed.len() < 3 {
            claimed.extend(store.claim(ready(9), lease("bob")).await.unwrap().into_iter().map(|claim| claim.run.id));
            assert!(begun.elapsed() < SOON, "{claimed:?}");
        }
        claimed.sort_unstable();
        assert_eq!(claimed, ["deleted", "one", "ready"]);
    });
}

#[test]
fn c6_stopped_process_keeps_its_leases_until_they_expire() {
    if let Ok(path) = std::env::var(FILE) {
        return block_on(hold(path));
    }
    let folder = Folder::new();
    let path = folder.file("runs.db");
    block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        let length = Duration::from_secs(1);
        let child = holder("c6_stopped_process_keeps_its_leases_until_they_expire", &path, length);
        send("-STOP", &child);
        let until = store.head("one").await.unwrap().lease_until.unwrap();
        let begun = Instant::now();
        let claimed = loop {
            match claim(&store, "one").await {
                Ok(claimed) => break claimed,
                Err(StoreError::Held { .. }) => assert!(begun.elapsed() < SOON),
                Err(other) => panic!("{other}"),
            }
        };
        // The two clocks are read at slightly different times.
        assert!(claimed.now.after(Duration::from_millis(20)) >= until, "{claimed:?} {until:?}");
        assert_eq!(claimed.run.takeovers, 1);
        send("-CONT", &child);
        kill(child);
    });
}

#[test]
fn c6_run_is_free_when_its_store_is_closed() {
    let folder = Folder::new();
    let path = folder.file("runs.db");
    block_on(async {
        let (store, other) = (SqliteStore::open(&path).await.unwrap(), SqliteStore::open(&path).await.unwrap());
        create_held(&store, "r").await;
        let clone = store.clone();
        drop(store);
        assert!(matches!(claim(&other, "r").await, Err(StoreError::Held { .. })), "a clone is still open");
        drop(clone);
        claim(&other, "r").await.unwrap();
        drop(other);
        let store = SqliteStore::open(&path).await.unwrap();
        let claimed = store.claim(one("r"), lease("eve")).await.unwrap().remove(0);
        assert_eq!((claimed.run.epoch, claimed.run.takeovers), (3, 2));
        drop(store);
        assert_eq!(holder_files(&path), 0);
        assert!(!folder.file("runs.db-holders").exists(), "a closed store leaves only the file");
    });
}

#[test]
fn c6_holder_files_of_killed_processes_do_not_pile_up() {
    if let Ok(path) = std::env::var(FILE) {
        return block_on(async {
            let _store = SqliteStore::open(path).await.unwrap();
            println!("held");
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        });
    }
    let folder = Folder::new();
    let path = folder.file("runs.db");
    let test = "c6_holder_files_of_killed_processes_do_not_pile_up";
    let children: Vec<Child> = (0..3).map(|_| holder(test, &path, crate::common::LONG)).collect();
    assert_eq!(holder_files(&path), 3);
    children.into_iter().for_each(kill);
    assert_eq!(holder_files(&path), 3, "no live process removed them");
    let child = holder(test, &path, crate::common::LONG);
    assert_eq!(holder_files(&path), 1, "opening the file removes those of dead processes");
    kill(child);
    drop(block_on(SqliteStore::open(&path)).unwrap());
    assert!(!folder.file("runs.db-holders").exists());
}

#[test]
fn o10_holder_that_has_ended_is_known_before_its_lease_ends() {
    if let Ok(path) = std::env::var(FILE) {
        return block_on(hold(path));
    }
    let folder = Folder::new();
    let path = folder.file("runs.db");
    let child = holder("o10_holder_that_has_ended_is_known_before_its_lease_ends", &path, crate::common::LONG);
    block_on(async {
        let store = SqliteStore::open_read_only(&path).await.unwrap();
        assert_eq!(store.is_holder_alive("one").await.unwrap(), Some(true));
        let alive = |found: pleach_graph::store::SqliteDiagnosis| found.holders.iter().filter(|holder| holder.is_alive).count();
        assert_eq!(alive(store.diagnose(None).await.unwrap()), 1);
        kill(child);
        assert_eq!(store.is_holder_alive("one").await.unwrap(), Some(false));
        assert_eq!(alive(store.diagnose(None).await.unwrap()), 0);
        assert!(matches!(store.is_holder_alive("missing").await, Err(StoreError::RunNotFound { .. })));
    });
}
