//! C13: renewals wait a short time for rows that others lock again and again. `cargo xtask test`
//! starts a server.
#![cfg(all(feature = "conformance", feature = "postgres"))]

use crate::common::postgres::{connect, fresh_schema, store};
use crate::common::{LONG, create_held};
use pleach_graph::store::{Held, Renewed, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use tokio::task::JoinHandle;

/// Clients that lock the row of one run in short transactions. One of them always waits for the
/// row.
struct Clients {
    tasks: Vec<JoinHandle<()>>,
    locked: Arc<AtomicU32>,
    is_over: Arc<AtomicBool>,
}

impl Clients {
    async fn start(url: &str, run: &'static str) -> Self {
        let (locked, is_over) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        let mut tasks = Vec::new();
        for _ in 0..3 {
            let (client, locked, is_over) = (connect(url).await, Arc::clone(&locked), Arc::clone(&is_over));
            tasks.push(tokio::spawn(async move {
                while !is_over.load(SeqCst) {
                    client.batch_execute("BEGIN").await.unwrap();
                    client.query_one("SELECT id FROM pleach_run WHERE id = $1 FOR UPDATE", &[&run]).await.unwrap();
                    locked.fetch_add(1, SeqCst);
                    client.batch_execute("SELECT pg_sleep(0.02); COMMIT").await.unwrap();
                }
            }));
        }
        while locked.load(SeqCst) < 3 {
            tokio::task::yield_now().await;
        }
        Self { tasks, locked, is_over }
    }

    /// Stops the clients and returns how often the row was locked.
    async fn stop(self) -> u32 {
        self.is_over.store(true, SeqCst);
        for task in self.tasks {
            task.await.unwrap();
        }
        self.locked.load(SeqCst)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c13_row_locked_back_to_back_is_renewed() {
    let url = fresh_schema().await;
    let store = store(&url).await;
    let mut held = Vec::new();
    for id in ["a", "b", "c"] {
        held.push(Held::of(&create_held(&store, id).await.run));
    }
    let before = store.head("b").await.unwrap().lease_until;
    let clients = Clients::start(&url, "b").await;
    for _ in 0..10 {
        let Renewed { lost, busy, .. } = store.renew(held.clone(), LONG * 2).await.unwrap();
        assert_eq!((lost, busy), (vec![], vec![]));
    }
    assert!(clients.stop().await > 3, "the row was locked all the time");
    let info = store.head("b").await.unwrap();
    assert!(info.lease_until > before && info.owner.is_some(), "{info:?}");
}

#[tokio::test]
async fn c13_frozen_row_does_not_use_up_the_wait_of_busy_rows() {
    let url = fresh_schema().await;
    let store = store(&url).await;
    let mut held = Vec::new();
    for id in ["frozen", "busy"] {
        held.push(Held::of(&create_held(&store, id).await.run));
    }
    let frozen = connect(&url).await;
    frozen.batch_execute("BEGIN; SELECT id FROM pleach_run WHERE id = 'frozen' FOR UPDATE").await.unwrap();
    let clients = Clients::start(&url, "busy").await;
    for _ in 0..3 {
        let Renewed { lost, busy, .. } = store.renew(held.clone(), LONG).await.unwrap();
        assert_eq!((lost, busy), (vec![], vec![held[0].clone()]));
    }
    clients.stop().await;
    // The wait for one row does not change the lock timeout of the session.
    frozen.batch_execute("ROLLBACK").await.unwrap();
    let Renewed { lost, busy, .. } = store.renew(held, LONG).await.unwrap();
    assert_eq!((lost, busy), (vec![], vec![]));
}

#[tokio::test]
async fn c13_run_claimed_while_its_renewal_waits_is_lost() {
    let url = fresh_schema().await;
    let store = store(&url).await;
    let held = Held::of(&create_held(&store, "r").await.run);
    let other = connect(&url).await;
    other.batch_execute("BEGIN; UPDATE pleach_run SET epoch = epoch + 1 WHERE id = 'r'").await.unwrap();
    let renewing = tokio::spawn({
        let (store, held) = (store.clone(), held.clone());
        async move { store.renew(vec![held], LONG).await }
    });
    let watcher = connect(&url).await;
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE application_name = current_setting('application_name')
                 AND wait_event_type = 'Lock' AND query LIKE '%pleach_run%'";
    while watcher.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        assert!(!renewing.is_finished(), "the renewal waits for the row");
        tokio::task::yield_now().await;
    }
    other.batch_execute("COMMIT").await.unwrap();
    let Renewed { lost, busy, .. } = renewing.await.unwrap().unwrap();
    assert_eq!((lost, busy), (vec![held], vec![]));
}
