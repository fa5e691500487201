//! C6, C11, C15: `PostgresStore` conforms to the store contract, also with several clients. `cargo
//! xtask test` starts a server.
#![cfg(all(feature = "conformance", feature = "postgres"))]

use crate::common::postgres::fresh_schema;
use crate::common::{check_hints_of_new_runs, create_held, forced, lease, next, queued, ready, row};
use pleach_graph::store::{Commit, Parts, PostgresStore, Rows, RunStatus, Store, conformance};
use std::collections::BTreeSet;
use std::sync::Arc;

#[tokio::test]
async fn c11_postgres_store_conforms() {
    conformance::check_all(async || {
        let store = PostgresStore::connect(&fresh_schema().await).await.unwrap();
        Arc::new(store) as Arc<dyn Store>
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn c6_stale_drivers_on_other_connections_never_write() {
    let url = fresh_schema().await;
    let (one, other) = (PostgresStore::connect(&url).await.unwrap(), PostgresStore::connect(&url).await.unwrap());
    let mut stale = create_held(&one, "r").await;
    for turn in 0..60_u8 {
        let (driver, commit) = (one.clone(), next(&stale, &[turn]));
        let committing = tokio::spawn(async move { driver.commit(commit).await });
        let fresh = other.claim(forced("r"), lease(&format!("driver {turn}"))).await.unwrap().remove(0);
        let landed = committing.await.unwrap();
        assert_eq!(fresh.run.head, stale.run.head + u64::from(landed.is_ok()), "{landed:?}");
        stale = fresh;
    }
    let info = one.head("r").await.unwrap();
    let rows = one.read("r", Rows::Range(1..=info.head), Parts::Whole).await.unwrap();
    assert_eq!((rows.len() as u64, info.epoch), (info.head, 61));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn c15_workers_share_the_runs_of_one_database() {
    let url = fresh_schema().await;
    let store = PostgresStore::connect(&url).await.unwrap();
    for number in 0..100 {
        let id = format!("run {number}");
        store.create(queued(&id), vec![row(&id, 1, 1, b"{}")]).await.unwrap();
    }
    let work = async |store: PostgresStore, me: String| {
        let mut finished = Vec::new();
        loop {
            let claims = store.claim(ready(3), lease(&me)).await.unwrap();
            if claims.is_empty() {
                return finished;
            }
            for claimed in claims {
                let done = Commit { status: Some(RunStatus::Finished), release: true, ..next(&claimed, me.as_bytes()) };
                store.commit(done).await.unwrap();
                finished.push(claimed.run.id);
            }
        }
    };
    let mut workers = Vec::new();
    for worker in 0..4 {
        let store = PostgresStore::connect(&url).await.unwrap();
        workers.push(tokio::spawn(work(store, format!("worker {worker}"))));
    }
    let mut finished = Vec::new();
    for worker in workers {
        finished.extend(worker.await.unwrap());
    }
    assert_eq!((finished.len(), finished.iter().collect::<BTreeSet<_>>().len()), (100, 100));
}

#[tokio::test]
async fn c15_other_machines_get_hints() {
    let url = fresh_schema().await;
    let (here, there) = (PostgresStore::connect(&url).await.unwrap(), PostgresStore::connect(&url).await.unwrap());
    check_hints_of_new_runs(&here, &there).await;
    assert_eq!(there.claim(ready(1), lease("bob")).await.unwrap().len(), 1);
}
