//! Leases with clocks that a test sets: steps of the time of day, and the order of due runs.

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

/// A store in its own folder, and its clocks.
struct Fixture {
    folder: PathBuf,
    clocks: Arc<Manual>,
}

impl Fixture {
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

    /// Advances both clocks.
    fn pass(&self, millis: i64) {
        self.clocks.wall.fetch_add(millis, Relaxed);
        self.clocks.lease.fetch_add(millis, Relaxed);
    }

    /// Steps the time of day only.
    fn step(&self, millis: i64) {
        self.clocks.wall.fetch_add(millis, Relaxed);
    }
}

impl Drop for Fixture {
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
    let (wake, tags) = (Wake::Now, Default::default());
    NewRun { id, graph, version, instance: 7, from: None, lease, wake, deadline: None, tags }
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
        let fixture = Fixture::new();
        let store = fixture.open();
        block_on(async {
            create(&store, "r", Some(lease("ann"))).await;
            fixture.pass(10_000);
            fixture.step(step);
            let rejected = claim(&store, "r").await.unwrap_err();
            let StoreError::Held { left, until, .. } = rejected else { panic!("{rejected}") };
            let now = Timestamp::from_millis(fixture.clocks.wall.load(Relaxed));
            assert_eq!((left, until), (Duration::from_secs(20), now.after(left)), "after a step of {step} ms");
            assert_eq!(store.head("r").await.unwrap().lease_until, Some(until));
            assert!(claim_ready(&store, "graph", 9).await.is_empty());
            assert!(matches!(store.delete("r").await, Err(StoreError::Held { .. })));
            fixture.pass(19_999);
            assert!(claim(&store, "r").await.is_err());
            fixture.pass(1);
            let claimed = claim(&store, "r").await.unwrap();
            assert_eq!((claimed.run.epoch, claimed.run.takeovers), (2, 1), "after a step of {step} ms");
        });
    }
}

#[test]
fn c6_renewals_do_not_move_with_the_time_of_day() {
    let fixture = Fixture::new();
    let store = fixture.open();
    block_on(async {
        let held = Held::of(&create(&store, "r", Some(lease("ann"))).await.run);
        for step in [-HOUR, HOUR, HOUR] {
            fixture.step(step);
            fixture.pass(20_000);
            assert_eq!(store.renew(vec![held.clone()], LENGTH).await.unwrap().lost, []);
            let rejected = claim(&store, "r").await.unwrap_err();
            assert!(matches!(rejected, StoreError::Held { left: LENGTH, .. }), "{rejected}");
        }
        fixture.pass(30_000);
        assert_eq!(claim_ready(&store, "graph", 1).await, ["r"]);
    });
}

#[test]
fn c15_runs_with_expired_leases_are_due_from_the_expiry_on() {
    let fixture = Fixture::new();
    let (store, other) = (fixture.open(), fixture.open());
    block_on(async {
        create(&store, "held", Some(lease("ann"))).await;
        fixture.pass(10_000);
        create(&store, "early", None).await;
        fixture.pass(30_000);
        create(&store, "late", None).await;
        fixture.pass(1);
        // The lease expired 20 seconds after "early" was created and 10 seconds before "late" was.
        let order = [
            claim_ready(&other, "graph", 1).await,
            claim_ready(&other, "graph", 1).await,
            claim_ready(&other, "graph", 9).await,
        ];
        assert_eq!(order, [["early"], ["held"], ["late"]]);
    });
}

#[test]
fn c6_lease_marked_as_expired_can_be_renewed() {
    let fixture = Fixture::new();
    let (store, other) = (fixture.open(), fixture.open());
    block_on(async {
        let held = Held::of(&create(&store, "r", Some(lease("ann"))).await.run);
        fixture.pass(31_000);
        assert!(claim_ready(&other, "another graph", 1).await.is_empty(), "the claim marks the lease as expired");
        assert_eq!(store.head("r").await.unwrap().owner.as_deref(), Some("ann"));
        assert_eq!(store.renew(vec![held.clone()], LENGTH).await.unwrap().lost, []);
        assert!(claim_ready(&other, "graph", 1).await.is_empty(), "it is held again");
        store.release(vec![held], Release::AsIs).await.unwrap();
        assert_eq!(claim_ready(&other, "graph", 1).await, ["r"]);
    });
}

#[test]
fn c6_closed_store_holds_nothing() {
    let fixture = Fixture::new();
    let other = fixture.open();
    let store = fixture.open();
    block_on(async {
        for run in ["one", "ready", "deleted"] {
            create(&store, run, Some(lease("ann"))).await;
        }
        assert!(claim(&other, "one").await.is_err() && other.delete("deleted").await.is_err());
        drop(store);
        assert_eq!(claim(&other, "one").await.unwrap().run.takeovers, 1);
        other.delete("deleted").await.unwrap();
        drop(other);
        let other = fixture.open();
        assert_eq!(claim_ready(&other, "graph", 9).await.len(), 2, "all other runs are free");
    });
}

/// The lease clock restarts with a reboot, or when the file moves to another machine.
#[test]
fn c6_lease_marked_as_expired_stays_expired_after_a_reboot() {
    for way in ["one", "ready", "delete"] {
        let fixture = Fixture::new();
        fixture.clocks.lease.store(720 * HOUR, Relaxed);
        let (store, other) = (fixture.open(), fixture.open());
        block_on(async {
            create(&store, "r", Some(lease("ann"))).await;
            drop(store);
            fixture.pass(31_000);
            assert!(claim_ready(&other, "another graph", 1).await.is_empty(), "the claim marks the lease as expired");
            drop(other);
            fixture.step(60_000);
            fixture.clocks.lease.store(5_000, Relaxed);
            let store = fixture.open();
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
    let fixture = Fixture::new();
    // A file is in the place of the folder of the holders.
    std::fs::write(fixture.folder.join("runs.db-holders"), "").unwrap();
    let store = fixture.open();
    block_on(async {
        create(&store, "r", Some(lease("ann"))).await;
        drop(store);
        let store = fixture.open();
        assert!(matches!(claim(&store, "r").await, Err(StoreError::Held { left: LENGTH, .. })));
        assert!(claim_ready(&store, "graph", 1).await.is_empty());
        fixture.pass(30_000);
        assert_eq!(claim_ready(&store, "graph", 1).await, ["r"]);
    });
}

#[test]
fn c6_without_locks_and_boot_id_leases_end_with_the_machine() {
    for way in ["one", "ready", "delete", "renewed"] {
        let fixture = Fixture::new();
        std::fs::write(fixture.folder.join("runs.db-holders"), "").unwrap();
        fixture.clocks.lease.store(720 * HOUR, Relaxed);
        let store = fixture.open_in_boot(None);
        block_on(async {
            let held = Held::of(&create(&store, "r", Some(lease("ann"))).await.run);
            if way == "renewed" {
                fixture.pass(20_000);
                store.renew(vec![held], LENGTH).await.unwrap();
            }
            drop(store);
            let store = fixture.open_in_boot(None);
            assert!(matches!(claim(&store, "r").await, Err(StoreError::Held { left: LENGTH, .. })));
            assert!(claim_ready(&store, "graph", 1).await.is_empty());
            drop(store);
            // A reboot.
            fixture.step(60_000);
            fixture.clocks.lease.store(5_000, Relaxed);
            let store = fixture.open_in_boot(None);
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
    let fixture = Fixture::new();
    let store = fixture.open();
    block_on(async {
        create(&store, "queued", None).await;
        fixture.pass(10);
        create(&store, "held", Some(lease("ann"))).await;
        fixture.pass(10);
        let new = |id: &str, wake| NewRun { wake, ..new_run(id, None) };
        let in_an_hour = Timestamp::from_millis(fixture.clocks.wall.load(Relaxed) + HOUR);
        store.create(new("posted", Wake::OnMessage), first_row()).await.unwrap();
        store.create(new("timer", Wake::At(in_an_hour)), first_row()).await.unwrap();
        store.send_message("posted", NewMessage::seal("posted", "signal/go", None, vec![])).await.unwrap();
        fixture.step(-HOUR);
        fixture.pass(30_000);
        assert_eq!(claim_ready(&store, "graph", 1).await, ["queued"]);
        let rest: BTreeSet<String> = claim_ready(&store, "graph", 9).await.into_iter().collect();
        assert_eq!(rest, ["held".to_string(), "posted".to_string()].into());
        // A run that was due when it was claimed is due after its release.
        let queued = Held::of(&store.head("queued").await.unwrap());
        store.release(vec![queued], Release::AsIs).await.unwrap();
        assert_eq!(claim_ready(&store, "graph", 9).await, ["queued"]);
        // A timer is set to a time of day.
        fixture.step(2 * HOUR);
        assert_eq!(claim_ready(&store, "graph", 9).await, ["timer"]);
    });
}

/// Converts the tables back to format 2, with leases by the time of day.
const BACK_TO_2: &str = "
    DROP INDEX inbox_refused; DROP INDEX run_created; DROP INDEX run_status; DROP INDEX run_graph; DROP INDEX run_graph_status;
    DROP TABLE tag; ALTER TABLE inbox DROP COLUMN refused; ALTER TABLE inbox DROP COLUMN cause;
    ALTER TABLE run DROP COLUMN tags; ALTER TABLE run DROP COLUMN failure;
    CREATE INDEX run_status ON run (status);
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
fn c7_leases_of_format_2_keep_their_remaining_time() {
    let fixture = Fixture::new();
    let store = fixture.open();
    block_on(async {
        let run = NewRun { instance: 0, ..new_run("r", Some(lease("ann"))) };
        let before = store.create(run, first_row()).await.unwrap().run;
        drop(store);
        rusqlite::Connection::open(fixture.folder.join("runs.db")).unwrap().execute_batch(BACK_TO_2).unwrap();
        fixture.pass(10_000);
        let store = fixture.open();
        assert_eq!(store.head("r").await.unwrap(), before, "the row and its checksum are unchanged");
        assert!(matches!(claim(&store, "r").await, Err(StoreError::Held { left, .. }) if left == Duration::from_secs(20)));
        fixture.pass(20_000);
        assert_eq!(claim_ready(&store, "graph", 1).await, ["r"]);
    });
}
