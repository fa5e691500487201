//! C10, C11: a SQLite store with more to write than it takes, and one whose clock was wrong.
#![cfg(feature = "sqlite")]

use crate::common::{Folder, LONG, wrong_clock_removes_nothing};
use pleach_graph::store::{SqliteStore, Store, StoreError, Timestamp};
use std::task::{Context, Poll, Waker};

#[tokio::test]
async fn c10_write_that_was_not_queued_is_certainly_not_done() {
    let folder = Folder::in_memory();
    let path = folder.file("runs.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let locker = rusqlite::Connection::open(&path).unwrap();
    locker.execute_batch("BEGIN IMMEDIATE").unwrap();
    // Each is handed in by its first poll.
    let mut waiting = Vec::new();
    let refused = loop {
        let mut call = store.renew(vec![], LONG);
        match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => waiting.push(call),
            Poll::Ready(answer) => break answer.unwrap_err(),
        }
        assert!(waiting.len() < 100_000, "the queue is bounded");
    };
    assert!(matches!(refused, StoreError::Unreachable(_)), "{refused}");
    locker.execute_batch("ROLLBACK").unwrap();
}

#[tokio::test]
async fn c11_wrong_clock_removes_no_runs() {
    let folder = Folder::in_memory();
    let path = folder.file("runs.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let meddler = rusqlite::Connection::open(&path).unwrap();
    wrong_clock_removes_nothing(&store, async |run, created: Option<Timestamp>, ended: Timestamp| {
        let set = "UPDATE run SET created = ifnull(?2, created), ended = ?3 WHERE id = ?1";
        meddler.execute(set, rusqlite::params![run, created.map(Timestamp::as_millis), ended.as_millis()]).unwrap();
    })
    .await;
}
