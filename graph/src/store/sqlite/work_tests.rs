//! O7: the work of starts, claims and ends does not grow with the ended runs of a store.

use super::clock::Clock;
use super::database::{Done, WriteTransaction};
use super::list_tests::fill;
use super::{LIGHT, SqliteStore, lease, read, write};
use crate::store::run_info::RunStatus;
use crate::store::{Commit, GraphVersion, Held, Lease, NewRun, Row, Tags, Wake};
use futures_channel::oneshot;
use rusqlite::{Connection, StatementStatus};
use std::time::Duration;

/// The runs of one test that are started, claimed and ended.
const RUNS: usize = 5;

/// The number of instructions of SQLite's machine that the statements took so far.
fn steps(db: &Connection) -> i32 {
    let all = read::COUNTED.into_iter().chain(write::COUNTED).chain(lease::COUNTED);
    all.map(|text| db.prepare_cached(text).unwrap().get_status(StatementStatus::VmStep)).sum()
}

/// Does a job in the writer. Returns its steps and its answer.
fn counted<T: Send + 'static>(
    store: &SqliteStore,
    act: impl Fn(&WriteTransaction<'_>) -> Done<T> + Send + 'static,
) -> (i32, T) {
    let counted = move |batch: &WriteTransaction<'_>| {
        let before = steps(batch.db);
        let answer = act(batch)?;
        Ok(answer.map(|answer| (steps(batch.db) - before, answer)))
    };
    let answer: oneshot::Receiver<_> = store.0.writer.as_ref().unwrap().send(LIGHT, counted).unwrap();
    let Ok(Ok(answer)) = pleach_core::block_on(answer) else { panic!("the job failed") };
    answer
}

fn row(sequence: u64) -> Row {
    Row { sequence, header: b"header".to_vec(), body: Vec::new(), sum: 7 }
}

fn version() -> GraphVersion {
    GraphVersion { fingerprint: "print".into(), schema: 1 }
}

fn new_run(number: usize) -> NewRun {
    let (id, graph, from, lease, deadline) = (format!("late-{number}"), "usual".to_string(), None, None, None);
    NewRun { id, graph, version: version(), instance: 1, from, lease, wake: Wake::Now, deadline, tags: Tags::default() }
}

/// The steps of all starts, of one claim, and of all ends in a store with this many ended runs.
fn work(ended: i64) -> [i32; 3] {
    let folder = std::env::temp_dir().join(format!("pleach-work-{ended}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let store = SqliteStore::open_with(&folder.join("store.db"), Clock::system()).unwrap();
    let db = store.0.file.connect().unwrap();
    db.execute_batch("PRAGMA synchronous = OFF; BEGIN").unwrap();
    fill(&db, ended);
    db.execute_batch("COMMIT").unwrap();
    drop(db);
    let starts = (0..RUNS).map(|run| counted(&store, move |batch| write::create(batch, new_run(run), &[row(1)])).0).sum();
    let lease = Lease { owner: "ann".into(), length: Duration::from_secs(30) };
    let graphs = [("usual".to_string(), version())];
    let (claim, claimed) = counted(&store, move |batch| lease::claim_ready(batch, &graphs, RUNS, &lease));
    assert_eq!(claimed.len(), RUNS);
    let ends = claimed.iter().map(|claim| {
        let commit = Commit::new(Held::of(&claim.run), vec![row(2)]);
        let commit = Commit { status: Some(RunStatus::Finished), release: true, ..commit };
        counted(&store, move |batch| write::commit(batch, &commit, 1)).0
    });
    let ends = ends.sum();
    drop(store);
    std::fs::remove_dir_all(&folder).unwrap();
    [starts, claim, ends]
}

#[test]
fn o7_work_of_starts_claims_and_ends_does_not_grow_with_ended_runs() {
    let (few, many) = (work(200), work(20_000));
    for (name, (few, many)) in ["start", "claim", "end"].into_iter().zip(few.into_iter().zip(many)) {
        assert!(few > 0 && f64::from(many) <= f64::from(few) * 1.1, "{name}: {few} steps, then {many}");
    }
}
