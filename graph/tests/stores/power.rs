//! C2: acknowledged commits survive a power cut at any moment, whatever the disk had in its cache.
//!
//! Two processes commit one after the other while their disk is watched; the first ends without
//! closing its file. Then a power cut is simulated after each write, truncation, rename, removal
//! and sync. What may be on the disk at that moment, including torn sectors, is written as files
//! and opened by the store. Only the syncs make a difference, so the same log without some syncs
//! proves that the test can fail.
#![cfg(all(feature = "sqlite", target_os = "linux"))]

use crate::common::{Folder, create_held, forced, lease, next, noise};
use crate::disk::replay::{Disk, Event, Kept, events};
use crate::disk::{Acknowledged, Faults};
use pleach_core::{Random, block_on};
use pleach_graph::store::{Claim, Commit, NewMessage, Parts, Rows, RunStatus, SqliteStore, Store, StoreError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

const RUNS: [&str; 2] = ["r", "s"];

/// With at most this many unsynced changes, all their subsets are tried.
const ALL_SUBSETS_MAX: usize = 4;

/// The number of random choices of sectors in addition, and of those with torn sectors.
const CHOICES: u64 = 2;

/// The body of a row. Each size fills pages in a different way.
fn body(run: &str, sequence: u64) -> Vec<u8> {
    let sizes = [7, 900, 2_500, 9_000, 1_100, 40, 20_000, 300];
    noise(sequence * 100 + run.len() as u64, sizes[(sequence % 8) as usize])
}

/// Drives runs and logs what was acknowledged.
struct Driver {
    path: PathBuf,
    acknowledged: Acknowledged,
    claims: Vec<Claim>,
}

impl Driver {
    /// Starts two runs.
    async fn begin(folder: &Path, store: &SqliteStore) -> Self {
        let (path, mut acknowledged) = (folder.join("runs.db"), Acknowledged::below(folder));
        let mut claims = Vec::new();
        for run in RUNS {
            claims.push(create_held(store, run).await);
            acknowledged.note(run, 1);
        }
        Self { path, acknowledged, claims }
    }

    /// Continues them after another process.
    async fn resume(folder: &Path, store: &SqliteStore) -> Self {
        let (path, mut acknowledged) = (folder.join("runs.db"), Acknowledged::below(folder));
        let mut claims = Vec::new();
        for run in RUNS {
            let claim = store.claim(forced(run), lease("bob")).await.unwrap().remove(0);
            // What is found counts as acknowledged, since later commits build on it.
            acknowledged.note(run, claim.run.head);
            claims.push(claim);
        }
        Self { path, acknowledged, claims }
    }

    async fn commit(&mut self, store: &SqliteStore, change: impl Fn(Commit) -> Commit) {
        for claimed in &mut self.claims {
            let run = claimed.run.id.clone();
            let commit = next(claimed, &body(&run, claimed.run.head + 1));
            store.commit(change(commit)).await.unwrap();
            claimed.run.head += 1;
            self.acknowledged.note(&run, claimed.run.head);
        }
    }
}

/// Two runs that commit in turn, with messages, a checkpoint of SQLite's log, a restarted log, a
/// second store on the file, and an end without closing.
async fn work(folder: &Path) {
    let path = folder.join("runs.db");
    if path.exists() {
        return work_on(folder).await;
    }
    let store = SqliteStore::open(&path).await.unwrap();
    let mut driver = Driver::begin(folder, &store).await;
    for round in 0..7 {
        if round == 4 {
            for run in RUNS {
                assert_eq!(store.send_message(run, NewMessage::seal(run, "answer", None, b"yes".to_vec())).await.unwrap(), 1);
            }
        }
        driver.commit(&store, |commit| if round == 4 { Commit { takes: vec![1], ..commit } } else { commit }).await;
        match round {
            2 => drop(SqliteStore::open(&path).await.unwrap()),
            // The following commits overwrite the log from its beginning.
            5 => checkpoint(&driver.path),
            _ => {}
        }
    }
    std::mem::forget(store);
}

/// Continues after that, with a file that is closed and opened again.
async fn work_on(folder: &Path) {
    let path = folder.join("runs.db");
    let mut store = SqliteStore::open(&path).await.unwrap();
    let mut driver = Driver::resume(folder, &store).await;
    for round in 0..5 {
        let last = |commit| Commit { status: Some(RunStatus::Finished), release: true, ..commit };
        driver.commit(&store, |commit| if round == 4 { last(commit) } else { commit }).await;
        if round == 2 {
            drop(store);
            store = SqliteStore::open(&path).await.unwrap();
        }
    }
}

fn checkpoint(path: &Path) {
    let db = rusqlite::Connection::open(path).unwrap();
    let left: i64 =
        db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| Ok(row.get::<_, i64>(1)? - row.get::<_, i64>(2)?)).unwrap();
    assert_eq!(left, 0);
}

/// Checks what the power cut has left.
async fn judge(folder: &Path, disk: &Disk) -> Result<(), String> {
    let path = folder.join("runs.db");
    let store = SqliteStore::open(&path).await.map_err(|error| format!("it does not open: {error}"))?;
    for run in RUNS {
        let acknowledged = disk.acknowledged.get(run).copied().unwrap_or(0);
        let head = match store.head(run).await {
            Ok(info) => info.head,
            Err(StoreError::RunNotFound { .. }) => 0,
            Err(error) => return Err(format!("{run} has no head: {error}")),
        };
        if head < acknowledged || head > acknowledged + 1 {
            return Err(format!("{acknowledged} rows of {run} were acknowledged, {head} are stored"));
        }
        if head == 0 {
            continue;
        }
        let rows = store.read(run, Rows::Range(1..=head), Parts::Whole).await.map_err(|error| error.to_string())?;
        let sequences: Vec<u64> = rows.iter().map(|row| row.sequence).collect();
        if sequences != (1..=head).collect::<Vec<_>>() {
            return Err(format!("{run} has the rows {sequences:?}"));
        }
        for row in rows.into_iter().skip(1) {
            let record = row.open(run).map_err(|error| error.to_string())?;
            if record.body != body(run, record.sequence) {
                return Err(format!("row {} of {run} has another body", record.sequence));
            }
        }
        let claimed = store.claim(forced(run), lease("bob")).await.map_err(|error| error.to_string())?.remove(0);
        store.commit(next(&claimed, b"{}")).await.map_err(|error| format!("{run} does not continue: {error}"))?;
    }
    drop(store);
    let found: Result<String, _> =
        rusqlite::Connection::open(&path).unwrap().query_row("PRAGMA integrity_check", [], |row| row.get(0));
    if found.as_deref() == Ok("ok") { Ok(()) } else { Err(format!("its pages are damaged: {found:?}")) }
}

/// Checks everything that a cut at this moment may leave, until the first error.
fn judge_cut(disk: &Disk, choices: u64, seed: u64, images: &AtomicUsize) -> Result<(), String> {
    let judge_one = |what: &str, kept: Kept<'_>| {
        let folder = Folder::in_memory();
        // The shared memory of connections is never synced, so it may hold anything.
        let garbage = matches!(kept, Kept::Sectors(_) | Kept::Torn(_));
        disk.write_image(&folder.0, kept);
        if garbage && folder.file("runs.db-shm").exists() {
            std::fs::write(folder.file("runs.db-shm"), noise(seed, 32_768)).unwrap();
        }
        images.fetch_add(1, Relaxed);
        block_on(judge(&folder.0, disk)).map_err(|reason| format!("with {what} of the unsynced changes: {reason}"))
    };
    judge_one("none", Kept::None)?;
    let unsynced = disk.unsynced_count();
    if unsynced == 0 {
        return Ok(());
    }
    judge_one("all", Kept::All)?;
    if unsynced <= ALL_SUBSETS_MAX {
        for bits in 1..(1 << unsynced) - 1 {
            judge_one(&format!("subset {bits:b}"), Kept::Each(bits))?;
        }
    }
    for choice in 0..choices {
        let mut random = Random::seeded(seed * CHOICES + choice);
        judge_one(&format!("choice {choice}"), Kept::Sectors(&mut random))?;
        judge_one(&format!("choice {choice}, torn,"), Kept::Torn(&mut random))?;
    }
    Ok(())
}

/// Cuts the power after each event, in two threads, until the first error. Returns the number of
/// images.
fn judge_all(events: &[Event], choices: u64) -> Result<usize, String> {
    let (images, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let part = |which: usize| {
        let mut disk = Disk::default();
        for (number, event) in events.iter().enumerate() {
            disk.apply(event);
            // An acknowledgement does not change the disk, but raises the expectation: the same cut
            // is checked after it.
            let is_checked_next = matches!(events.get(number + 1), Some(Event::Acknowledged { .. }));
            if is_checked_next || number % 2 != which || is_over.load(Relaxed) {
                continue;
            }
            if let Err(reason) = judge_cut(&disk, choices, number as u64, &images) {
                is_over.store(true, Relaxed);
                let event: String = format!("{event:?}").chars().take(80).collect();
                return Err(format!("after event {number}, {event}: {reason}"));
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| part(1));
        part(0).and(other.join().unwrap())
    })?;
    Ok(images.into_inner())
}

/// The events of this work, done by two processes one after the other.
fn watch(test: &str, work: impl AsyncFn(&Path)) -> Option<Vec<Event>> {
    if let Some(folder) = crate::disk::watched() {
        block_on(work(&folder));
        return None;
    }
    let (folder, logs) = (Folder::new(), Folder::new());
    for _ in 0..2 {
        crate::disk::run(&format!("power::{test}"), &folder.0, &logs.file("log"));
    }
    let mut all = events(&std::fs::read(logs.file("log")).unwrap());
    Some(all.remove("").unwrap())
}

#[test]
fn c2_acknowledged_commits_survive_a_power_cut_at_any_moment() {
    let Some(events) = watch("c2_acknowledged_commits_survive_a_power_cut_at_any_moment", work) else { return };
    let count = |which: fn(&Event) -> bool| events.iter().filter(|event| which(event)).count();
    assert!(count(|event| matches!(event, Event::Acknowledged { .. })) == 28);
    assert!(count(|event| matches!(event, Event::Write { name, .. } if name == "runs.db")) > 20, "the log was checkpointed");
    assert_eq!(count(|event| matches!(event, Event::Rename { .. })), 1, "the log of the first process was copied");
    let images = judge_all(&events, CHOICES).unwrap_or_else(|reason| panic!("{reason}"));
    println!("{} events, {images} images", events.len());
}

#[test]
fn c2_power_cut_detects_a_missing_sync() {
    let Some(events) = watch("c2_power_cut_detects_a_missing_sync", work) else { return };
    // The file itself is created with all syncs: only acknowledged commits are lost, not the file.
    let first = events.iter().position(|event| matches!(event, Event::Acknowledged { .. })).unwrap();
    let without = |left_out: fn(&str) -> bool| -> Vec<Event> {
        let (before, after) = events.split_at(first);
        let is_kept = |event: &&Event| !matches!(event, Event::Sync { name } if left_out(name));
        before.iter().chain(after.iter().filter(is_kept)).cloned().collect()
    };
    let must_fail = |what: &str, events: &[Event]| {
        let verdict = judge_all(events, 1);
        println!("{what}: {verdict:?}");
        assert!(verdict.is_err(), "{what} must be detected");
    };
    must_fail("synchronous = OFF", &without(|_| true));
    must_fail("synchronous = NORMAL", &without(|name| name.ends_with("-wal")));
    must_fail("a checkpoint that is not synced", &without(|name| name == "runs.db"));
    must_fail("a folder that is not synced", &without(str::is_empty));
    let mut early = events.clone();
    for at in 1..early.len() {
        if matches!(&early[at], Event::Acknowledged { .. }) {
            early.swap(at - 1, at);
        }
    }
    must_fail("an answer before COMMIT", &early);
}

/// A process whose sync fails and that dies of it, and another one that continues.
async fn work_after_a_lost_sync(folder: &Path) {
    let path = folder.join("runs.db");
    let is_first = !path.exists();
    let store = SqliteStore::open(&path).await.unwrap();
    if is_first {
        let mut driver = Driver::begin(folder, &store).await;
        driver.commit(&store, |commit| commit).await;
        // Then the log has only unsynced content. The first sync is that of its header.
        checkpoint(&path);
        Faults::of(folder).die(2);
        return driver.commit(&store, |commit| commit).await;
    }
    let mut driver = Driver::resume(folder, &store).await;
    driver.commit(&store, |commit| commit).await;
    checkpoint(&path);
    driver.commit(&store, |commit| commit).await;
}

#[test]
fn c2_unsynced_commit_of_a_dead_process_is_not_built_upon() {
    let test = "c2_unsynced_commit_of_a_dead_process_is_not_built_upon";
    let Some(events) = watch(test, work_after_a_lost_sync) else { return };
    let lost = events.iter().position(|event| matches!(event, Event::Lost { .. })).unwrap();
    assert!(matches!(&events[lost], Event::Lost { name } if name == "runs.db-wal"));
    assert!(events[lost..].iter().any(|event| matches!(event, Event::Acknowledged { head, .. } if *head == 4)));
    judge_all(&events, CHOICES).unwrap_or_else(|reason| panic!("{reason}"));
}
