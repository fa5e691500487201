//! What the tests of stores share: runs and rows that mean nothing.
#![allow(dead_code)]

use pleach_graph::store::{
    BODY_BYTES_MAX, Claim, Commit, GraphVersion, Header, Kind, Lease, NewRun, Place, Row, Store, Timestamp, Wake, Wanted,
};
use std::time::Duration;

pub const LONG: Duration = Duration::from_secs(600);

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
        at: Timestamp::from_millis(1_700_000_000_000),
        frontier: None,
        base: None,
        undo: 0,
    }
}

pub fn row(run: &str, sequence: u64, epoch: u64, body: &[u8]) -> Row {
    Row::seal(run, sequence, &header(sequence, epoch), body.to_vec(), BODY_BYTES_MAX).unwrap()
}

pub fn lease(owner: &str) -> Lease {
    Lease { owner: owner.into(), length: LONG }
}

pub fn queued(id: &str) -> NewRun {
    let version = GraphVersion { fingerprint: "0123456789abcdef".into(), schema: 1 };
    NewRun { id: id.into(), graph: "essay".into(), version, from: None, lease: None, wake: Wake::Now }
}

pub async fn create_held(store: &dyn Store, id: &str) -> Claim {
    store.create(NewRun { lease: Some(lease("ann")), ..queued(id) }, vec![row(id, 1, 1, b"{}")]).await.unwrap()
}

pub fn next(claim: &Claim, body: &[u8]) -> Commit {
    let (run, epoch, sequence) = (claim.run.id.as_str(), claim.run.epoch, claim.run.head + 1);
    Commit::new(run, epoch, vec![row(run, sequence, epoch, body)])
}

pub fn ready(count: usize) -> Wanted {
    Wanted::Ready { graphs: vec![("essay".into(), "0123456789abcdef".into())], count }
}

pub fn forced(run: &str) -> Wanted {
    Wanted::One { run: run.into(), force: true }
}
