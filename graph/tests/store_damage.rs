//! C2: a bit that flips on the disk is found, wherever in a row it lies: in its key, its checksum, its header, its body, or in SQLite's own bytes.
#![cfg(feature = "sqlite")]

mod common;

use common::{Folder, create_held, next};
use pleach_core::block_on;
use pleach_graph::store::{Parts, Record, Rows, SqliteStore, Store, StoreError};
use std::ops::Range;
use std::path::Path;

const ROWS: u64 = 4;

/// What lies before the header of a row: the size and number of the cell, the types of the columns, run, sequence and checksum.
const BEFORE_HEADER: usize = 20;

/// The rows of the log, or what the store says instead.
async fn read(path: &Path) -> Result<Vec<Record>, StoreError> {
    let store = SqliteStore::open(path).await?;
    let rows = store.read("r", Rows::Range(1..=ROWS), Parts::Whole).await?;
    rows.into_iter().map(|row| row.open("r")).collect()
}

/// The file of a store with a small log, and where the header of its second row begins.
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

/// The used bytes of the page that is the root of the index over the log.
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

/// Flips each bit of these bytes, one at a time. How often all rows could be read all the same.
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
fn c2_every_flipped_bit_of_a_row_in_the_file_is_found() {
    let (bytes, header) = file();
    let body = header.end..header.end + br#"{"words":3}"#.len();
    assert!(bytes[body.clone()].starts_with(b"{\"words\""));
    let payload: Vec<usize> = (header.start..body.end).collect();
    assert_eq!(unharmed(&bytes, &payload), 0);
    // Some bits decide nothing, such as those of the number that SQLite gives a cell: then all is read as it was.
    let before: Vec<usize> = (header.start - BEFORE_HEADER..header.start).collect();
    let harmless = unharmed(&bytes, &before);
    assert!(harmless < before.len() * 8 / 2, "{harmless} of {} flips change nothing", before.len() * 8);
}

#[test]
fn c2_every_flipped_bit_of_the_index_over_rows_is_found() {
    let (bytes, _) = file();
    let places = index_page(&bytes);
    let harmless = unharmed(&bytes, &places);
    assert!(harmless < places.len() * 8 / 2, "{harmless} of {} flips change nothing", places.len() * 8);
}
