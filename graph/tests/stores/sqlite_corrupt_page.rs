//! C10: a page of a SQLite file that holds a part of one record is damaged. Other runs can be read,
//! written and removed.
#![cfg(feature = "sqlite")]

use crate::common::{Folder, create_held, next, noise, queued, row};
use pleach_core::block_on;
use pleach_graph::store::{Commit, Lease, NewMessage, Parts, Prune, Rows, RunStatus, SqliteStore, Store, StoreError, Wanted};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A file with ended runs. Run `bad` has a damaged page under its second record.
async fn damaged_file(folder: &Folder, ended: &[&str]) -> PathBuf {
    let path = folder.file("runs.db");
    // It does not compress, so its bytes can be found in the file.
    let body = noise(7, 60_000);
    let store = SqliteStore::open(&path).await.unwrap();
    for id in ended {
        let claim = create_held(&store, id).await;
        let body = if *id == "bad" { &body[..] } else { b"{}" };
        let last = Commit { status: Some(RunStatus::Finished), release: true, ..next(&claim, body) };
        store.commit(last).await.unwrap();
    }
    drop(store);
    break_page(&path, &body[30_000..30_064]);
    path
}

/// Gives the page with these bytes a link to a page that does not exist.
fn break_page(path: &Path, part: &[u8]) {
    let mut file = std::fs::read(path).unwrap();
    let at = file.windows(part.len()).position(|bytes| bytes == part).expect("the record is in the file");
    let size = usize::from(u16::from_be_bytes([file[16], file[17]]));
    let page = at / size * size;
    file[page..page + 4].copy_from_slice(&[0x7f; 4]);
    std::fs::write(path, file).unwrap();
}

fn is_damaged(error: &StoreError) -> bool {
    matches!(error, StoreError::Damaged { run, .. } if run == "bad")
}

#[test]
fn c10_damaged_page_of_one_record_is_damage_to_its_run() {
    let folder = Folder::in_memory();
    block_on(async {
        let store = SqliteStore::open(damaged_file(&folder, &["bad", "good"]).await).await.unwrap();
        let read = async |id| store.read(id, Rows::Each(vec![2]), Parts::Whole).await.map(drop);
        let failed = read("bad").await.unwrap_err();
        assert!(is_damaged(&failed), "{failed:?}");
        read("good").await.unwrap();
        store.read("bad", Rows::Each(vec![1]), Parts::Whole).await.unwrap();
    });
}

#[test]
fn c10_damaged_page_fails_no_other_job_of_its_batch() {
    let folder = Folder::in_memory();
    block_on(async {
        let path = damaged_file(&folder, &["bad"]).await;
        let store = SqliteStore::open(&path).await.unwrap();
        let (a, b) = (create_held(&store, "a").await, create_held(&store, "b").await);
        // While the file is locked, jobs queue up: the first may run alone, the others form one
        // batch.
        let lock = Connection::open(&path).unwrap();
        lock.execute_batch("BEGIN IMMEDIATE").unwrap();
        let unlock = async { lock.execute_batch("ROLLBACK").unwrap() };
        let (first, before, deleted, after, ()) = tokio::join!(
            store.create(queued("first"), vec![row("first", 1, 1, b"{}")]),
            store.commit(next(&a, b"1")),
            store.delete("bad"),
            store.commit(next(&b, b"1")),
            unlock,
        );
        first.unwrap();
        before.unwrap();
        after.unwrap();
        assert!(deleted.as_ref().is_err_and(is_damaged), "{deleted:?}");
        for id in ["a", "b"] {
            assert_eq!(store.head(id).await.unwrap().head, 2, "{id}");
        }
        assert_eq!(store.head("bad").await.unwrap().head, 2, "the failed call changed nothing");
    });
}

#[test]
fn c10_pruning_passes_over_a_run_with_a_damaged_page() {
    let folder = Folder::in_memory();
    block_on(async {
        let ids = ["a", "bad", "b", "c", "d", "e", "f", "g", "h", "i"];
        let store = SqliteStore::open(damaged_file(&folder, &ids).await).await.unwrap();
        let removed = store.prune(Prune::Ended { unchanged_for: Duration::ZERO, count: 99 }).await.unwrap();
        assert_eq!(removed, 9);
        let left = store.list(vec![], None, 99).await.unwrap().runs;
        assert_eq!(left.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), ["bad"]);
        assert_eq!(store.prune(Prune::Ended { unchanged_for: Duration::ZERO, count: 99 }).await.unwrap(), 0);
    });
}

/// Damages the list of free pages, from which all runs get new pages.
fn break_free_pages(path: &Path) {
    let mut file = std::fs::read(path).unwrap();
    let number = |file: &[u8], at: usize| u32::from_be_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let size = usize::from(u16::from_be_bytes([file[16], file[17]]));
    let first = number(&file, 32);
    assert!(first > 0, "there are free pages");
    let page = (first - 1) * size;
    file[page + 4..page + 8].copy_from_slice(&[0x7f; 4]);
    std::fs::write(path, file).unwrap();
}

#[test]
fn c10_damaged_shared_page_is_damage_to_no_run() {
    let folder = Folder::in_memory();
    block_on(async {
        let path = folder.file("runs.db");
        let store = SqliteStore::open(&path).await.unwrap();
        let large = create_held(&store, "large").await;
        let last = Commit { status: Some(RunStatus::Finished), release: true, ..next(&large, &noise(7, 60_000)) };
        store.commit(last).await.unwrap();
        store.create(queued("good"), vec![row("good", 1, 1, b"{}")]).await.unwrap();
        store.delete("large").await.unwrap();
        drop(store);
        break_free_pages(&path);
        let store = SqliteStore::open(&path).await.unwrap();
        let lease = Lease { owner: "worker".into(), length: Duration::from_secs(60) };
        let claim = store.claim(Wanted::One { run: "good".into(), force: false }, lease).await.unwrap().remove(0);
        let body = noise(8, 60_000);
        let committed = store.commit(next(&claim, &body)).await.map(drop);
        let posted = store.send_message("good", NewMessage::seal("good", "signal/go", None, body)).await.map(drop);
        for failed in [committed, posted] {
            let text = failed.as_ref().map_err(ToString::to_string);
            assert!(matches!(failed, Err(StoreError::Unusable { .. })), "{failed:?}");
            assert!(text.is_err_and(|text| text.contains("restore it from a backup")), "{failed:?}");
        }
    });
}
