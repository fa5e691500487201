//! C10: a disk error fails its commit and nothing before it, and is never reported as success.
//!
//! A separate process works on a disk that fails at the first call, then at the second, and so on
//! until it succeeds.
#![cfg(all(feature = "sqlite", target_os = "linux"))]

use crate::common::{Folder, create_held, forced, lease, next, noise};
use crate::disk::replay::{Disk, Kept, events};
use crate::disk::{Acknowledged, Faults};
use pleach_core::block_on;
use pleach_graph::store::{Claim, Parts, Rows, SqliteStore, Store, StoreError};
use std::path::Path;

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// Drives a run on a failing disk and logs what was acknowledged.
struct Driver {
    acknowledged: Acknowledged,
    claimed: Claim,
    failures: u32,
}

impl Driver {
    async fn start(folder: &Path, store: &SqliteStore) -> Self {
        let mut acknowledged = Acknowledged::below(folder);
        let claimed = create_held(store, "r").await;
        acknowledged.note("r", 1);
        Self { acknowledged, claimed, failures: 0 }
    }

    fn body(sequence: u64) -> Vec<u8> {
        noise(sequence, if sequence.is_multiple_of(3) { 9_000 } else { 700 })
    }

    /// Commits the next row. A failed commit is stored completely or not at all.
    async fn commit(&mut self, store: &SqliteStore) {
        let sequence = self.claimed.run.head + 1;
        match store.commit(next(&self.claimed, &Self::body(sequence))).await {
            Ok(_) => {
                self.claimed.run.head = sequence;
                self.acknowledged.note("r", sequence);
            }
            Err(failed) => {
                assert!(matches!(failed, StoreError::Unavailable(_) | StoreError::Unusable { .. }), "{failed:?}");
                self.failures += 1;
                // Reading may fail as well while the disk fails.
                if let Ok(info) = store.head("r").await {
                    assert!((sequence - 1..=sequence).contains(&info.head), "{} rows of {sequence}", info.head);
                    self.claimed.run.head = info.head;
                }
            }
        }
    }

    /// Checks that all acknowledged rows are stored completely.
    async fn check(&self, store: &SqliteStore) {
        let head = store.head("r").await.unwrap().head;
        assert!(head >= self.claimed.run.head, "{} rows were acknowledged, {head} are stored", self.claimed.run.head);
        check_rows(store, head).await;
    }
}

async fn check_rows(store: &SqliteStore, head: u64) {
    let rows = store.read("r", Rows::Range(1..=head), Parts::Whole).await.unwrap();
    assert_eq!(rows.len() as u64, head);
    for row in rows.into_iter().skip(1) {
        let record = row.open("r").unwrap();
        assert!(record.body == Driver::body(record.sequence), "row {} has another body", record.sequence);
    }
}

/// Fails one call and the following ones. Returns whether the work reached that call.
async fn fail_at(call: u32, error: i32, count: Option<u32>, root: &Path, faults: &mut Faults) -> bool {
    let folder = root.join(format!("call-{call}-error-{error}-count-{}", count.unwrap_or(0)));
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("runs.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let mut driver = Driver::start(&folder, &store).await;
    driver.commit(&store).await;
    assert_eq!(driver.failures, 0);

    faults.fail(call, error, count);
    for _ in 0..3 {
        driver.commit(&store).await;
    }
    drop(store);
    if let Ok(store) = SqliteStore::open(&path).await {
        driver.commit(&store).await;
        faults.heal();
        // The store that has seen the failure recovers.
        let failures = driver.failures;
        driver.claimed.run.head = store.head("r").await.unwrap().head;
        driver.commit(&store).await;
        assert_eq!(driver.failures, failures);
        driver.check(&store).await;
    }
    faults.heal();
    let store = SqliteStore::open(&path).await.unwrap();
    driver.check(&store).await;
    driver.claimed = store.claim(forced("r"), lease("bob")).await.unwrap().remove(0);
    let failures = driver.failures;
    driver.commit(&store).await;
    assert_eq!(driver.failures, failures, "with a healthy disk the run continues");
    drop(store);
    faults.were_hit()
}

async fn fail_everywhere(root: &Path) {
    let mut faults = Faults::of(root);
    for error in [EIO, ENOSPC] {
        for count in [Some(1), Some(3), None] {
            let mut call = 1;
            while fail_at(call, error, count, root, &mut faults).await {
                call += 1;
            }
            assert!(call > 30, "{call} calls are too few");
        }
    }
}

#[test]
fn c10_error_at_any_write_or_sync_fails_only_its_commit() {
    if let Some(folder) = crate::disk::watched() {
        return block_on(fail_everywhere(&folder));
    }
    let (folder, logs) = (Folder::in_memory(), Folder::new());
    crate::disk::run("faults::c10_error_at_any_write_or_sync_fails_only_its_commit", &folder.0, &logs.file("log"));
    // Data of a failed sync is lost permanently, as it may be on Linux, and then the power fails.
    // Acknowledged rows must survive.
    let log = std::fs::read(logs.file("log")).unwrap();
    for (case, events) in events(&log) {
        let mut disk = Disk::default();
        events.iter().for_each(|event| disk.apply(event));
        let Some(acknowledged) = disk.acknowledged.get("r") else { continue };
        let image = Folder::in_memory();
        disk.write_image(&image.0, Kept::None);
        block_on(async {
            let store = SqliteStore::open(image.file("runs.db")).await.unwrap_or_else(|error| panic!("{case}: {error}"));
            let head = store.head("r").await.unwrap_or_else(|error| panic!("{case}: {error}")).head;
            assert!(head >= *acknowledged, "{case}: {acknowledged} rows were acknowledged, {head} are stored");
            check_rows(&store, head).await;
        });
    }
}

/// Commits until the disk is full and beyond. Then there is room again.
async fn fill(root: &Path) {
    let mut faults = Faults::of(root);
    faults.bound(1 << 20);
    let store = SqliteStore::open(root.join("runs.db")).await.unwrap();
    let mut driver = Driver::start(root, &store).await;
    while driver.failures < 5 {
        let (failures, head) = (driver.failures, driver.claimed.run.head);
        driver.commit(&store).await;
        if driver.failures > failures {
            assert_eq!(driver.claimed.run.head, head, "a failed commit is not stored");
            driver.check(&store).await;
        }
    }
    assert!(driver.claimed.run.head > 40, "{} rows are too few", driver.claimed.run.head);
    faults.heal();
    driver.commit(&store).await;
    assert_eq!(driver.failures, 5, "with room again it continues");
    driver.check(&store).await;
}

#[test]
fn c10_full_disk_loses_nothing() {
    if let Some(folder) = crate::disk::watched() {
        return block_on(fill(&folder));
    }
    let (folder, logs) = (Folder::new(), Folder::new());
    crate::disk::run("faults::c10_full_disk_loses_nothing", &folder.0, &logs.file("log"));
}
