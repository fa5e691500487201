//! Leases under clocks that a test moves: steps of the time of day, and the order in which runs become due.

use super::SqliteStore;
use super::clock::{Clock, Manual};
use crate::store::error::StoreError;
use crate::store::row::{NewMessage, Row};
use crate::store::run_info::GraphVersion;
use crate::store::time::Timestamp;
use crate::store::{Claim, Held, Lease, NewRun, Release, Store, Wake, Wanted};
use pleach_core::block_on;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

const HOUR: i64 = 3_600_000;
const LENGTH: Duration = Duration::from_secs(30);

/// A store in a folder of its own, and its clocks.
struct World {
    folder: PathBuf,
    clocks: Arc<Manual>,
}

impl World {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("pleach-leases-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Self { folder, clocks: Arc::new(Manual { wall: 1_700_000_000_000.into(), lease: 5_000.into() }) }
    }

    fn open(&self) -> SqliteStore {
        self.open_in_boot(Some("this boot"))
    }

    fn open_in_boot(&self, boot_id: Option<&str>) -> SqliteStore {
        SqliteStore::open_with(&self.folder.join("runs.db"), Clock::manual(Arc::clone(&self.clocks), boot_id)).unwrap()
    }

    /// Time goes by.
    fn pass(&self, millis: i64) {
        self.clocks.wall.fetch_add(millis, Relaxed);
        self.clocks.lease.fetch_add(millis, Relaxed);
    }

    /// Somebody sets the time of day.
    fn step(&self, millis: i64) {
        self.clocks.wall.fetch_add(millis, Relaxed);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

fn version() -> GraphVersion {
    GraphVersion { fingerprint: "print".into(), schema: 1 }
}

fn lease(owner: &str) -> Lease {
    Lease { owner: owner.into(), length: LENGTH }
}

fn new_run(id: &str, lease: Option<Lease>) -> NewRun {
    let (id, graph, version) = (id.to_string(), "graph".to_string(), version());
    NewRun { id, graph, version, instance: 7, from: None, lease, wake: Wake::Now, deadline: None }
}

fn first_row() -> Vec<Row> {
    vec![Row { sequence: 1, header: vec![], body: vec![], sum: 0 }]
}

async fn create(store: &SqliteStore, id: &str, lease: Option<Lease>) -> Claim {
    store.create(new_run(id, lease), first_row()).await.unwrap()
}

async fn claim(store: &SqliteStore, run: &str) -> Result<Claim, StoreError> {
    let wanted = Wanted::One { run: run.into(), force: false };
    store.claim(wanted, lease("bob")).await.map(|mut claims| claims.remove(0))
}

async fn claim_ready(store: &SqliteStore, graph: &str, count: usize) -> Vec<String> {
    let wanted = Wanted::Ready { graphs: vec![(graph.into(), version())], count };
    store.claim(wanted, lease("bob")).await.unwrap().into_iter().map(|claim| claim.run.id).collect()
}

#[test]
fn c6_leases_do_not_move_with_the_time_of_day() {
    for step in [-HOUR, HOUR, -400 * HOUR, 400 * HOUR] {
        let world = World::new();
        let store = world.open();
        block_on(async {
            create(&store, "r", Some(lease("ann"))).await;
            world.pass(10_000);
            world.step(step);
            let refused = claim(&store, "r").await.unwrap_err();
            let StoreError::Held { left, until, .. } = refused else { panic!("{refused}") };
            let now = Timestamp::from_millis(world.clocks.wall.load(Relaxed));
            assert_eq!((left, until), (Duration::from_secs(20), now.after(left)), "after a step of {step} ms");
            assert_eq!(store.head("r").await.unwrap().lease_until, Some(until));
            assert!(claim_ready(&store, "graph", 9).await.is_empty());
            assert!(matches!(store.delete("r").await, Err(StoreError::Held { .. })));
            world.pass(19_999);
            assert!(claim(&store, "r").await.is_err());
            world.pass(1);
            let claimed = claim(&store, "r").await.unwrap();
            assert_eq!((claimed.run.epoch, claimed.run.takeovers), (2, 1), "after a step of {step} ms");
        });
    }
}

#[test]
fn c6_renewals_do_not_move_with_the_time_of_day() {
    let world = World::new();
    let store = world.open();
    block_on(async {
        let held = Held::of(&create(&store, "r", Some(lease("ann"))).await.run);
        for step in [-HOUR, HOUR, HOUR] {
            world.step(step);
            world.pass(20_000);
            assert_eq!(store.renew(vec![held.clone()], LENGTH).await.unwrap().lost, []);
            let refused = claim(&store, "r").await.unwrap_err();
            assert!(matches!(refused, StoreError::Held { left: LENGTH, .. }), "{refused}");
        }
        world.pass(30_000);
        assert_eq!(claim_ready(&store, "graph", 1).await, ["r"]);
    });
}

#[test]
fn c15_runs_whose_leases_have_ended_are_due_from_that_end_on() {
    let world = World::new();
    let (store, other) = (world.open(), world.open());
    block_on(async {
        create(&store, "held", Some(lease("ann"))).await;
        world.pass(10_000);
        create(&store, "early", None).await;
        world.pass(30_000);
        create(&store, "late", None).await;
        world.pass(1);
        // The lease ended 20 seconds after the one was made and 10 seconds before the other.
        let order = [
            claim_ready(&other, "graph", 1).await,
            claim_ready(&other, "graph", 1).await,
            claim_ready(&other, "graph", 9).await,
        ];
        assert_eq!(order, [["early"], ["held"], ["late"]]);
    });
}

#[test]
fn c6_a_lease_marked_as_ended_can_be_renewed() {
    let world = World::new();
    let (store, other) = (world.open(), world.open());
    block_on(async {
        let held = Held::of(&create(&store, "r", Some(lease("ann"))).await.run);
        world.pass(31_000);
        assert!(claim_ready(&other, "another graph", 1).await.is_empty(), "it marks the lease, and claims nothing");
        assert_eq!(store.head("r").await.unwrap().owner.as_deref(), Some("ann"));
        assert_eq!(store.renew(vec![held.clone()], LENGTH).await.unwrap().lost, []);
        assert!(claim_ready(&other, "graph", 1).await.is_empty(), "it is held again");
        store.release(vec![held], Release::AsIs).await.unwrap();
        assert_eq!(claim_ready(&other, "graph", 1).await, ["r"]);
    });
}

#[test]
fn c6_a_closed_store_holds_nothing() {
    let world = World::new();
    let other = world.open();
    let store = world.open();
    block_on(async {
        for run in ["one", "ready", "deleted"] {
            create(&store, run, Some(lease("ann"))).await;
        }
        assert!(claim(&other, "one").await.is_err() && other.delete("deleted").await.is_err());
        drop(store);
        assert_eq!(claim(&other, "one").await.unwrap().run.takeovers, 1);
        other.delete("deleted").await.unwrap();
        drop(other);
        let other = world.open();
        assert_eq!(claim_ready(&other, "graph", 9).await.len(), 2, "all others are free");
    });
}

/// The lease clock begins anew when the machine does, or when the file is taken to another one.
#[test]
fn c6_a_lease_marked_as_ended_stays_ended_after_a_reboot() {
    for way in ["one", "ready", "delete"] {
        let world = World::new();
        world.clocks.lease.store(720 * HOUR, Relaxed);
        let (store, other) = (world.open(), world.open());
        block_on(async {
            create(&store, "r", Some(lease("ann"))).await;
            drop(store);
            world.pass(31_000);
            assert!(claim_ready(&other, "another graph", 1).await.is_empty(), "it marks the lease, and claims nothing");
            drop(other);
            world.step(60_000);
            world.clocks.lease.store(5_000, Relaxed);
            let store = world.open();
            match way {
                "one" => assert_eq!(claim(&store, "r").await.unwrap().run.takeovers, 1),
                "ready" => assert_eq!(claim_ready(&store, "graph", 1).await, ["r"]),
                _ => store.delete("r").await.unwrap(),
            }
        });
    }
}

#[test]
fn c6_without_locks_leases_end_by_time_alone() {
    let world = World::new();
    // Where the folder of the holders should be is a file.
    std::fs::write(world.folder.join("runs.db-holders"), "").unwrap();
    let store = world.open();
    block_on(async {
        create(&store, "r", Some(lease("ann"))).await;
        drop(store);
        let store = world.open();
        assert!(matches!(claim(&store, "r").await, Err(StoreError::Held { left: LENGTH, .. })));
        assert!(claim_ready(&store, "graph", 1).await.is_empty());
        world.pass(30_000);
        assert_eq!(claim_ready(&store, "graph", 1).await, ["r"]);
    });
}

#[test]
fn c6_without_locks_and_boot_id_leases_end_with_the_machine() {
    for way in ["one", "ready", "delete", "renewed"] {
        let world = World::new();
        std::fs::write(world.folder.join("runs.db-holders"), "").unwrap();
        world.clocks.lease.store(720 * HOUR, Relaxed);
        let store = world.open_in_boot(None);
        block_on(async {
            let held = Held::of(&create(&store, "r", Some(lease("ann"))).await.run);
            if way == "renewed" {
                world.pass(20_000);
                store.renew(vec![held], LENGTH).await.unwrap();
            }
            drop(store);
            let store = world.open_in_boot(None);
            assert!(matches!(claim(&store, "r").await, Err(StoreError::Held { left: LENGTH, .. })));
            assert!(claim_ready(&store, "graph", 1).await.is_empty());
            drop(store);
            // The machine starts again.
            world.step(60_000);
            world.clocks.lease.store(5_000, Relaxed);
            let store = world.open_in_boot(None);
            match way {
                "ready" => assert_eq!(claim_ready(&store, "graph", 1).await, ["r"]),
                "delete" => store.delete("r").await.unwrap(),
                _ => assert_eq!(claim(&store, "r").await.unwrap().run.takeovers, 1),
            }
        });
    }
}

#[test]
fn c12_due_runs_stay_due_when_the_time_of_day_is_set_back() {
    let world = World::new();
    let store = world.open();
    block_on(async {
        create(&store, "queued", None).await;
        world.pass(10);
        create(&store, "held", Some(lease("ann"))).await;
        world.pass(10);
        let new = |id: &str, wake| NewRun { wake, ..new_run(id, None) };
        let in_an_hour = Timestamp::from_millis(world.clocks.wall.load(Relaxed) + HOUR);
        store.create(new("posted", Wake::OnPost), first_row()).await.unwrap();
        store.create(new("timer", Wake::At(in_an_hour)), first_row()).await.unwrap();
        store.post("posted", NewMessage::seal("posted", "signal/go", None, vec![])).await.unwrap();
        world.step(-HOUR);
        world.pass(30_000);
        assert_eq!(claim_ready(&store, "graph", 1).await, ["queued"]);
        let rest: BTreeSet<String> = claim_ready(&store, "graph", 9).await.into_iter().collect();
        assert_eq!(rest, ["held".to_string(), "posted".to_string()].into());
        // What was due when it was claimed is due when it is given up.
        let queued = Held::of(&store.head("queued").await.unwrap());
        store.release(vec![queued], Release::AsIs).await.unwrap();
        assert_eq!(claim_ready(&store, "graph", 9).await, ["queued"]);
        // A timer is for a time of day.
        world.step(2 * HOUR);
        assert_eq!(claim_ready(&store, "graph", 9).await, ["timer"]);
    });
}

/// Makes the tables what they were in format 2, with leases by the time of day.
const BACK_TO_2: &str = "
    DROP INDEX run_due; DROP INDEX run_leased;
    UPDATE run SET sum = (sum | lease_end) - (sum & lease_end), lease_end = lease_end + 1699999995000;
    UPDATE run SET sum = (sum | lease_end) - (sum & lease_end);
    UPDATE run SET sum = (sum | wake_at) - (sum & wake_at), wake_at = wake_at + (1 << 60);
    UPDATE run SET sum = (sum | wake_at) - (sum & wake_at);
    ALTER TABLE run RENAME COLUMN lease_end TO lease_until;
    ALTER TABLE run DROP COLUMN instance; ALTER TABLE run DROP COLUMN trouble;
    ALTER TABLE run DROP COLUMN deadline; ALTER TABLE run DROP COLUMN holder;
    CREATE INDEX run_due ON run (graph, fingerprint, max(wake_at, ifnull(lease_until, wake_at))) WHERE wake_at IS NOT NULL;
    PRAGMA user_version = 2";

#[test]
fn c7_leases_of_format_2_last_no_longer_than_they_did() {
    let world = World::new();
    let store = world.open();
    block_on(async {
        let run = NewRun { instance: 0, ..new_run("r", Some(lease("ann"))) };
        let before = store.create(run, first_row()).await.unwrap().run;
        drop(store);
        rusqlite::Connection::open(world.folder.join("runs.db")).unwrap().execute_batch(BACK_TO_2).unwrap();
        world.pass(10_000);
        let store = world.open();
        assert_eq!(store.head("r").await.unwrap(), before, "the row and its checksum are as they were");
        assert!(matches!(claim(&store, "r").await, Err(StoreError::Held { left, .. }) if left == Duration::from_secs(20)));
        world.pass(20_000);
        assert_eq!(claim_ready(&store, "graph", 1).await, ["r"]);
    });
}
