//! C10, C11: a SQLite store with a full write queue, and one with a wrong clock.
#![cfg(feature = "sqlite")]

use crate::common::{Folder, LONG, check_wrong_clock};
use pleach_graph::store::{SqliteStore, Store, StoreError, Timestamp};
use std::task::{Context, Poll, Waker};

#[tokio::test]
async fn c10_write_rejected_by_a_full_queue_is_not_done() {
    let folder = Folder::in_memory();
    let path = folder.file("runs.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let locker = rusqlite::Connection::open(&path).unwrap();
    locker.execute_batch("BEGIN IMMEDIATE").unwrap();
    // The first poll queues the write.
    let mut waiting = Vec::new();
    let rejected = loop {
        let mut call = store.renew(vec![], LONG);
        match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => waiting.push(call),
            Poll::Ready(answer) => break answer.unwrap_err(),
        }
        assert!(waiting.len() < 100_000, "the queue is bounded");
    };
    assert!(matches!(rejected, StoreError::Unreachable(_)), "{rejected}");
    locker.execute_batch("ROLLBACK").unwrap();
}

#[tokio::test]
async fn c11_wrong_clock_removes_no_runs() {
    let folder = Folder::in_memory();
    let path = folder.file("runs.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let direct = rusqlite::Connection::open(&path).unwrap();
    check_wrong_clock(&store, async |run, created: Option<Timestamp>, ended: Timestamp| {
        let set = "UPDATE run SET created = ifnull(?2, created), ended = ?3 WHERE id = ?1";
        direct.execute(set, rusqlite::params![run, created.map(Timestamp::as_millis), ended.as_millis()]).unwrap();
    })
    .await;
}
