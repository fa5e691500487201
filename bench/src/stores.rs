//! The workloads of stores: durable commits of 1 KB, by one run or by many at once.
//!
//! The floor is a bare insert of the same bytes into a SQLite table, with the pragmas of our store
//! and one transaction each, whatever the number of runs. A program without a store does the same.
//!
//! The files are in the folder for temporary files. Its device decides what a sync costs, and so
//! every figure here.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pleach::store::{
    BODY_BYTES_MAX, Claim, Commit, GraphVersion, Header, Held, Kind, Lease, NewRun, Place as At, Row, SqliteStore, Store,
    Timestamp, Wake,
};

use crate::ground::{Place, timed};

/// The size of a state in bytes.
pub const STATE_BYTES: usize = 1024;

/// The inserts or steps after which every log has reached its final size.
pub const WARM_UP: u64 = 3_000;

/// A folder that is removed after the sample.
pub struct Folder(PathBuf);

impl Folder {
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("pleach-bench-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a folder for the store");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Inserts rows, one per transaction.
pub fn bare_inserts(_runs: u64, ops: u64) -> Duration {
    inserts(0, ops)
}

/// Does the same after [`WARM_UP`] inserts that are not timed.
pub fn steady_inserts(_runs: u64, ops: u64) -> Duration {
    inserts(WARM_UP, ops)
}

fn inserts(warm_up: u64, ops: u64) -> Duration {
    let folder = Folder::new();
    let db = rusqlite::Connection::open(folder.0.join("floor.db")).expect("a database");
    let tables = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
        CREATE TABLE log (run INTEGER NOT NULL, seq INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (run, seq)) STRICT;";
    db.execute_batch(tables).expect("a table");
    let state = vec![b'x'; STATE_BYTES];
    let insert = move |sequence: u64| {
        let mut statement = db.prepare_cached("INSERT INTO log VALUES (1, ?1, ?2)").expect("a statement");
        statement.execute((sequence as i64, &state)).expect("an insert");
    };
    (0..warm_up).for_each(&insert);
    Place::Current.run(timed(async move { (warm_up..warm_up + ops).for_each(insert) }))
}

/// Makes `ops` commits by `runs` runs at once. Each run waits for its commit before the next.
pub fn commits(runs: u64, ops: u64) -> Duration {
    let folder = Folder::new();
    let path = folder.0.join("store.db");
    Place::Workers.run(async move {
        let store = SqliteStore::open(path).await.expect("a store");
        let mut claims = Vec::new();
        for run in 0..runs {
            claims.push(create(&store, format!("run {run}")).await);
        }
        timed(async move {
            let drivers = claims.into_iter().map(|claim| tokio::spawn(drive(store.clone(), claim, ops / runs)));
            for driver in drivers.collect::<Vec<_>>() {
                driver.await.expect("a driver does not fail");
            }
        })
        .await
    })
}

async fn create(store: &SqliteStore, id: String) -> Claim {
    let version = GraphVersion { fingerprint: "0123456789abcdef".into(), schema: 0 };
    let lease = Some(Lease { owner: "bench".into(), length: Duration::from_secs(600) });
    let first = vec![row(&id, 1)];
    let graph = "bench".into();
    let (wake, tags) = (Wake::Now, Default::default());
    let new = NewRun { id, graph, version, instance: 1, from: None, lease, wake, deadline: None, tags };
    store.create(new, first).await.expect("a run")
}

async fn drive(store: SqliteStore, claim: Claim, steps: u64) {
    let run = claim.run;
    for sequence in run.head + 1..=run.head + steps {
        store.commit(Commit::new(Held::of(&run), vec![row(&run.id, sequence)])).await.expect("a commit");
    }
}

fn row(run: &str, sequence: u64) -> Row {
    let header = Header {
        graph: "bench".into(),
        fingerprint: "0123456789abcdef".into(),
        schema: 0,
        epoch: 1,
        kind: Kind::Step,
        parent: sequence - 1,
        path: Vec::new(),
        node: "write".into(),
        next: Some(At::Node("judge".into())),
        attempt: 1,
        visits: sequence,
        iteration: 0,
        at: Timestamp::from_millis(1_700_000_000_000),
        frontier: None,
        base: None,
        undo: 0,
        undo_before: 0,
        keys_of: 0,
    };
    Row::seal(run, sequence, &header, vec![b'x'; STATE_BYTES], BODY_BYTES_MAX).expect("a row")
}
