//! C10, C11: a SQLite store with more to write than it takes, and one whose clock was wrong.
#![cfg(feature = "sqlite")]

use crate::common::{Folder, LONG, wrong_clock_removes_nothing};
use pleach_graph::store::{SqliteStore, Store, StoreError};
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
    wrong_clock_removes_nothing(&store, async |run, days: Option<u64>| {
        let end = days.map_or("0".into(), |days| format!("unixepoch() * 1000 - {days} * 86400000"));
        meddler.execute_batch(&format!("UPDATE run SET ended = {end} WHERE id = '{run}'")).unwrap();
    })
    .await;
}
