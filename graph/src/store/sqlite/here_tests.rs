//! C2: which commits are made on the thread of their caller.

use super::SqliteStore;
use super::clock::Clock;
use super::database::{Done, WriteTransaction};
use super::writer::Weight;
use std::path::PathBuf;
use std::thread::{self, ThreadId};
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

const SMALL: Weight = Weight { bytes: 0, sends_hint: false, may_run_here: true };

struct Opened {
    store: SqliteStore,
    folder: PathBuf,
}

impl Opened {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("pleach-here-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let store = SqliteStore::open_with(&folder.join("store.db"), Clock::system()).unwrap();
        store.0.writer.as_ref().unwrap().set_calm(true);
        Self { store, folder }
    }

    fn set_calm(&self, is_calm: bool) {
        self.store.0.writer.as_ref().unwrap().set_calm(is_calm);
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

fn thread_of_job(_: &WriteTransaction<'_>) -> Done<ThreadId> {
    Ok(Ok(thread::current().id()))
}

/// Returns whether a job ran on the thread of its caller.
async fn runs_here(store: &SqliteStore, weight: Weight) -> bool {
    let caller = thread::current().id();
    let Ok(thread) = store.try_write(weight, thread_of_job).await else { panic!("the job failed") };
    thread == caller
}

fn multi_thread() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).build().unwrap()
}

#[test]
fn c2_commits_of_a_lone_run_are_made_where_blocking_is_allowed() {
    let opened = Opened::new("where");
    let runtime = multi_thread();
    let store = opened.store.clone();
    assert!(runtime.block_on(runtime.spawn(async move { runs_here(&store, SMALL).await })).unwrap(), "a task on a worker");
    opened.set_calm(true);
    assert!(runtime.block_on(runs_here(&opened.store, SMALL)), "the main future of a runtime with workers");
    opened.set_calm(true);
    let store = opened.store.clone();
    let set = LocalSet::new();
    let local = set.run_until(async { tokio::task::spawn_local(async move { runs_here(&store, SMALL).await }).await });
    assert!(!runtime.block_on(local).unwrap(), "a task that shares its thread with others");
    opened.set_calm(true);
    let current = Builder::new_current_thread().build().unwrap();
    assert!(!current.block_on(runs_here(&opened.store, SMALL)), "a runtime with one thread");
    opened.set_calm(true);
    assert!(!pleach_core::block_on(runs_here(&opened.store, SMALL)), "an unknown executor");
}

#[test]
fn c2_only_small_jobs_after_a_calm_transaction_run_here() {
    let opened = Opened::new("when");
    let runtime = multi_thread();
    let runs_here = |weight| runtime.block_on(runs_here(&opened.store, weight));
    opened.set_calm(false);
    assert!(!runs_here(SMALL), "after a long transaction, or one of several jobs");
    opened.set_calm(true);
    assert!(!runs_here(super::LIGHT), "a job that is not a commit");
    opened.set_calm(true);
    assert!(!runs_here(Weight { bytes: 1 << 20, ..SMALL }), "a large commit");
    opened.set_calm(true);
    assert!(runs_here(SMALL));
}

#[test]
fn c2_a_commit_does_not_block_its_caller_for_another_process() {
    let opened = Opened::new("busy");
    let runtime = multi_thread();
    let other = opened.store.0.file.connect().unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let writer = opened.store.0.writer.as_ref().unwrap();
    let begun = std::time::Instant::now();
    assert!(runtime.block_on(async { writer.do_here(SMALL, &mut thread_of_job).is_none() }), "the file is locked");
    assert!(begun.elapsed() < super::file::BUSY_TIMEOUT, "it waited");
    // The writer waits for the other process as before.
    let waiting = runtime.spawn({
        let store = opened.store.clone();
        async move { runs_here(&store, SMALL).await }
    });
    other.execute_batch("COMMIT").unwrap();
    runtime.block_on(waiting).unwrap();
}

#[test]
fn c2_a_job_that_fails_here_changes_nothing() {
    let opened = Opened::new("fails");
    let runtime = multi_thread();
    let insert = "INSERT INTO tag (key, value, run_created, run) VALUES ('k', 'v', 0, 0)";
    let count = |batch: &WriteTransaction<'_>| {
        Ok(Ok(batch.db.query_row("SELECT count(*) FROM tag", [], |row| row.get::<_, i64>(0))?))
    };
    let failed = runtime.block_on(opened.store.try_write(SMALL, move |batch| -> Done<()> {
        batch.db.execute_batch("PRAGMA defer_foreign_keys = ON")?;
        batch.db.execute(insert, [])?;
        Err(rusqlite::Error::InvalidQuery)
    }));
    assert!(failed.is_err());
    opened.set_calm(true);
    let Ok(rows) = runtime.block_on(opened.store.try_write(SMALL, count)) else { panic!("the connection is still usable") };
    assert_eq!(rows, 0, "it was rolled back");
}

#[test]
fn c2_entered_handle_of_another_runtime_does_not_allow_blocking() {
    let opened = Opened::new("entered");
    let (workers, current) = (multi_thread(), Builder::new_current_thread().build().unwrap());
    let runs_here = |store: &SqliteStore| {
        let _entered = workers.enter();
        store.0.writer.as_ref().unwrap().do_here(SMALL, &mut thread_of_job).is_some()
    };
    assert!(!current.block_on(async { runs_here(&opened.store) }), "the main future of a runtime with one thread");
    let set = LocalSet::new();
    let (store, handle) = (opened.store.clone(), workers.handle().clone());
    let task = set.run_until(async move {
        let task = async move {
            let _entered = handle.enter();
            store.0.writer.as_ref().unwrap().do_here(SMALL, &mut thread_of_job).is_some()
        };
        tokio::task::spawn_local(task).await
    });
    assert!(!current.block_on(task).unwrap(), "a task of such a runtime");
    assert!(workers.block_on(async { runs_here(&opened.store) }), "the connection is still usable");
}
