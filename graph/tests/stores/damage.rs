//! C2: a flipped bit on the disk is found, wherever it is in a row: in its key, checksum, header or
//! body, in the row of the run, or in SQLite's own bytes.
#![cfg(feature = "sqlite")]

use crate::common::{Folder, create_held, forced, lease, next, queued, ready, row};
use pleach_core::block_on;
use pleach_graph::store::{
    Commit, DamagedRun, Held, NewMessage, NewRun, Origin, Parts, Prune, Record, Release, Rows, RunInfo, RunStatus, SqliteStore,
    Store, StoreError, Timestamp,
};
use std::ops::Range;
use std::path::Path;

const ROWS: u64 = 4;

/// The bytes before the header of a row: the size and number of the cell, the column types, run,
/// sequence and checksum.
const BEFORE_HEADER: usize = 20;

/// The records of the log, or the error of the store.
async fn read(path: &Path) -> Result<Vec<Record>, StoreError> {
    let store = SqliteStore::open(path).await?;
    let rows = store.read("r", Rows::Range(1..=ROWS), Parts::Whole).await?;
    rows.into_iter().map(|row| row.open("r")).collect()
}

/// The file of a store with a small log, and the position of the header of its second row.
fn file() -> (Vec<u8>, Range<usize>) {
    let folder = Folder::in_memory();
    let path = folder.file("runs.db");
    let header = block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        let mut claimed = create_held(&store, "r").await;
        for _ in 1..ROWS {
            store.commit(next(&claimed, br#"{"words":3}"#)).await.unwrap();
            claimed.run.head += 1;
        }
        store.read("r", Rows::Each(vec![2]), Parts::Whole).await.unwrap().remove(0).header
    });
    let bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(header.len()).position(|window| window == header).unwrap();
    (bytes, at..at + header.len())
}

/// The used bytes of the root page of the index over the log.
fn index_page(bytes: &[u8]) -> Vec<usize> {
    let folder = Folder::in_memory();
    let path = folder.file("copy.db");
    std::fs::write(&path, bytes).unwrap();
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_autoindex_log_1'";
    let page: u32 = rusqlite::Connection::open(&path).unwrap().query_row(root, [], |row| row.get(0)).unwrap();
    let start = (page as usize - 1) * 4_096;
    let cells = usize::from(u16::from_be_bytes([bytes[start + 5], bytes[start + 6]]));
    (start..start + 8 + 2 * ROWS as usize).chain(start + cells..start + 4_096).collect()
}

/// Flips each bit of these bytes, one at a time. Returns how often all rows could still be read
/// unchanged.
fn unharmed(bytes: &[u8], places: &[usize]) -> usize {
    let folder = Folder::in_memory();
    let path = folder.file("runs.db");
    std::fs::write(&path, bytes).unwrap();
    let before = block_on(read(&path)).unwrap();
    let mut unharmed = 0;
    for place in places {
        for bit in 0..8 {
            let mut flipped = bytes.to_vec();
            flipped[*place] ^= 1 << bit;
            std::fs::write(&path, flipped).unwrap();
            match block_on(read(&path)) {
                Ok(after) => {
                    assert_eq!(after, before, "bit {bit} of byte {place} went unnoticed");
                    unharmed += 1;
                }
                Err(StoreError::Damaged { .. } | StoreError::Unusable { .. }) => {}
                Err(other) => panic!("bit {bit} of byte {place}: {other:?}"),
            }
            std::fs::remove_file(folder.file("runs.db-wal")).ok();
        }
    }
    unharmed
}

#[test]
fn c2_every_flipped_bit_of_a_row_is_found() {
    let (bytes, header) = file();
    let body = header.end..header.end + br#"{"words":3}"#.len();
    assert!(bytes[body.clone()].starts_with(b"{\"words\""));
    let payload: Vec<usize> = (header.start..body.end).collect();
    assert_eq!(unharmed(&bytes, &payload), 0);
    // Some bits have no effect, such as those of SQLite's cell number. Then everything reads as
    // before.
    let before: Vec<usize> = (header.start - BEFORE_HEADER..header.start).collect();
    let harmless = unharmed(&bytes, &before);
    assert!(harmless < before.len() * 8 / 2, "{harmless} of {} flips change nothing", before.len() * 8);
}

#[test]
fn c2_every_flipped_bit_of_the_row_index_is_found() {
    let (bytes, _) = file();
    let places = index_page(&bytes);
    let harmless = unharmed(&bytes, &places);
    assert!(harmless < places.len() * 8 / 2, "{harmless} of {} flips change nothing", places.len() * 8);
}

const LONG_ID: &str = "a run with a name that is found in the file";

/// The part of a run's row that its checksum covers: all but the holder, the takeovers and their
/// reason, and the time of the last commit.
fn covered(info: RunInfo) -> RunInfo {
    RunInfo { owner: None, takeovers: 0, trouble: None, failure: None, changed: info.created, lease_until: None, ..info }
}

/// Whether two leases are equal. Each store measures the offset of the lease clock anew.
fn is_same_lease(one: &RunInfo, other: &RunInfo) -> bool {
    let millis = |info: &RunInfo| info.lease_until.map(Timestamp::as_millis);
    matches!((millis(one), millis(other)), (Some(one), Some(other)) if (one - other).abs() < 50)
}

#[test]
fn c2_every_flipped_bit_of_the_row_of_a_run_is_found() {
    let folder = Folder::in_memory();
    let path = folder.file("runs.db");
    // For a lookup by id, SQLite takes the id from the index. A list reads it from the row.
    let look = async || {
        let store = SqliteStore::open(&path).await?;
        let listed = store.list(Vec::new(), None, 9).await?;
        if let Some(DamagedRun { run, reason }) = listed.damaged.first() {
            return Err(StoreError::Damaged { run: run.clone(), sequence: 0, reason });
        }
        let info = store.head(LONG_ID).await?;
        assert_eq!(listed.runs, std::slice::from_ref(&info));
        Ok::<_, StoreError>(info)
    };
    let before = block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        let from = Some(Origin { run: "another run".into(), sequence: 77 });
        let new = NewRun { lease: Some(lease("ann")), from, ..queued(LONG_ID) };
        let claim = store.create(new, vec![row(LONG_ID, 1, 1, b"{}")]).await.unwrap();
        store.commit(next(&claim, b"{}")).await.unwrap();
        store.send_message(LONG_ID, NewMessage::seal(LONG_ID, "signal/go", None, b"1".to_vec())).await.unwrap();
        drop(store);
        look().await.unwrap()
    });
    let bytes = std::fs::read(&path).unwrap();
    // The row and not the index over ids: in the row the graph name follows.
    let needle = format!("{LONG_ID}essay");
    let id = bytes.windows(needle.len()).position(|window| window == needle.as_bytes()).unwrap();
    let origin = bytes.windows(11).position(|window| window == b"another run").unwrap();
    // Before the id are the column sizes. After the origin are a number, two times, the checksum,
    // the instance and the holder.
    let places: Vec<usize> = (id - 28..origin + 11 + 1 + 6 + 6 + 8 + 3 + 16).collect();
    let (mut found, mut harmless) = (0, 0);
    for (place, bit) in places.iter().flat_map(|place| (0..8).map(move |bit| (*place, bit))) {
        let mut flipped = bytes.clone();
        flipped[place] ^= 1 << bit;
        std::fs::write(&path, flipped).unwrap();
        match block_on(look()) {
            Ok(after) => {
                assert!(is_same_lease(&after, &before), "bit {bit} of byte {place} went unnoticed");
                assert_eq!(covered(after), covered(before.clone()), "bit {bit} of byte {place} went unnoticed");
                harmless += 1;
            }
            Err(StoreError::Damaged { sequence: 0, .. } | StoreError::Unusable { .. } | StoreError::RunNotFound { .. }) => {
                found += 1;
            }
            Err(other) => panic!("bit {bit} of byte {place}: {other:?}"),
        }
        std::fs::remove_file(folder.file("runs.db-wal")).ok();
    }
    assert!(harmless < found / 5 && found > 900, "{found} found, {harmless} harmless");
}

#[test]
fn c2_damaged_row_of_a_run_stays_detected_after_later_writes() {
    let folder = Folder::in_memory();
    let path = folder.file("runs.db");
    block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        for column in ["epoch", "head", "oldest", "posted", "created", "wake_at", "lease_end", "schema", "instance"] {
            let claim = create_held(&store, "r").await;
            store.create(queued("well"), vec![row("well", 1, 1, b"{}")]).await.unwrap();
            let direct = rusqlite::Connection::open(&path).unwrap();
            direct.execute(&format!("UPDATE run SET {column} = {column} + 4096 WHERE id = 'r'"), []).unwrap();
            // A write that does not read that column must not repair its checksum.
            let held = Held::of(&claim.run);
            store.renew(vec![held.clone()], crate::common::LONG).await.unwrap();
            drop(store.commit(next(&claim, b"{}")).await);
            let named = |error: StoreError| {
                assert!(matches!(&error, StoreError::Damaged { run, sequence: 0, .. } if run == "r"), "{error}");
            };
            named(store.head("r").await.unwrap_err());
            let listed = store.list(Vec::new(), None, 9).await.unwrap();
            assert_eq!(listed.damaged.iter().map(|run| run.run.as_str()).collect::<Vec<_>>(), ["r"], "{column}");
            assert_eq!(listed.runs.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), ["well"], "{column}");
            named(store.claim(forced("r"), lease("bob")).await.unwrap_err());
            named(store.send_message("r", NewMessage::seal("r", "signal/go", None, b"1".to_vec())).await.unwrap_err());
            named(store.prune(Prune::Rows { held: held.clone(), before: 1, keep: vec![] }).await.unwrap_err());
            let last = Commit { status: Some(RunStatus::Finished), ..next(&claim, b"{}") };
            named(store.commit(last).await.unwrap_err());
            // Other runs are still claimed, and the run can be deleted once it is not held.
            direct
                .execute("UPDATE run SET owner = NULL, lease_end = NULL, holder = NULL, wake_at = 1 WHERE id = 'r'", [])
                .unwrap();
            let claims = store.claim(ready(9), lease("bob")).await.unwrap();
            assert_eq!(claims.iter().map(|claim| claim.run.id.as_str()).collect::<Vec<_>>(), ["well"], "{column}");
            store.delete("r").await.unwrap();
            store.release(vec![Held::of(&claims[0].run)], Release::AsIs).await.unwrap();
            store.delete("well").await.unwrap();
        }
    });
}
