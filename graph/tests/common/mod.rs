//! What the tests of stores share: runs and rows that mean nothing, and folders to put them into.
#![allow(dead_code)]

use pleach_graph::store::{
    BODY_BYTES_MAX, Claim, Commit, GraphVersion, Header, Held, Kind, Lease, NewRun, Place, Row, Store, Timestamp, Wake, Wanted,
};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

pub const LONG: Duration = Duration::from_secs(600);

/// The instance of every run.
pub const INSTANCE: u64 = 7_040_201;

pub fn header(sequence: u64, epoch: u64) -> Header {
    Header {
        graph: "essay".into(),
        fingerprint: "0123456789abcdef".into(),
        schema: 1,
        epoch,
        kind: Kind::Step,
        parent: sequence - 1,
        path: vec![],
        node: "write".into(),
        next: Some(Place::Node("judge".into())),
        attempt: 1,
        visits: sequence,
        iteration: 0,
        at: Timestamp::from_millis(1_700_000_000_000),
        frontier: None,
        base: None,
        undo: 0,
        undo_before: 0,
        keys_of: 0,
    }
}

pub fn row(run: &str, sequence: u64, epoch: u64, body: &[u8]) -> Row {
    Row::seal(run, sequence, &header(sequence, epoch), body.to_vec(), BODY_BYTES_MAX).unwrap()
}

pub fn lease(owner: &str) -> Lease {
    Lease { owner: owner.into(), length: LONG }
}

fn version() -> GraphVersion {
    GraphVersion { fingerprint: "0123456789abcdef".into(), schema: 1 }
}

/// A run of the usual instance, as held with this epoch.
pub fn holding(run: &str, epoch: u64) -> Held {
    Held { run: run.into(), instance: INSTANCE, epoch }
}

pub fn queued(id: &str) -> NewRun {
    let (id, graph) = (id.into(), "essay".into());
    NewRun { id, graph, version: version(), instance: INSTANCE, from: None, lease: None, wake: Wake::Now, deadline: None }
}

pub async fn create_held(store: &dyn Store, id: &str) -> Claim {
    store.create(NewRun { lease: Some(lease("ann")), ..queued(id) }, vec![row(id, 1, 1, b"{}")]).await.unwrap()
}

pub fn next(claim: &Claim, body: &[u8]) -> Commit {
    let (run, epoch, sequence) = (claim.run.id.as_str(), claim.run.epoch, claim.run.head + 1);
    Commit::new(Held::of(&claim.run), vec![row(run, sequence, epoch, body)])
}

pub fn ready(count: usize) -> Wanted {
    Wanted::Ready { graphs: vec![("essay".into(), version())], count }
}

pub fn forced(run: &str) -> Wanted {
    Wanted::One { run: run.into(), force: true }
}

/// Bytes that do not compress.
pub fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut random = pleach_core::Random::seeded(seed);
    std::iter::repeat_with(|| random.next_u64() as u8).take(count).collect()
}

/// A folder that goes with the test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        Self::below(std::env::temp_dir())
    }

    /// In memory where the system has a place for that: for files whose syncs prove nothing.
    pub fn in_memory() -> Self {
        let memory = PathBuf::from("/dev/shm");
        Self::below(if memory.is_dir() { memory } else { std::env::temp_dir() })
    }

    fn below(place: PathBuf) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let path = place.join(format!("pleach-store-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed)));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Checks that `there` is told of runs that `here` makes. What was said before it listened is not heard, so a few are made.
pub async fn hears_of_new_runs(here: &dyn Store, there: &dyn Store) {
    let mut heard = 0;
    for number in 0..100 {
        let nudged = there.nudged();
        let id = format!("new {number}");
        here.create(queued(&id), vec![row(&id, 1, 1, b"{}")]).await.unwrap();
        heard += u32::from(tokio::time::timeout(Duration::from_millis(500), nudged).await.is_ok());
        // The first time it may have been told that it listens from now on.
        if heard == 2 {
            return;
        }
    }
    panic!("it was not told of any new run");
}
