//! `PostgresStore` is a store, and what only a server can go through. `cargo xtask test` starts one.
#![cfg(all(feature = "conformance", feature = "postgres"))]

mod common;

use common::{create_held, forced, lease, next, queued, ready, row};
use pleach_graph::store::{Commit, Held, Parts, Post, PostgresStore, Prune, Rows, RunStatus, Store, StoreError, conformance};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::Poll;
use tokio_postgres::{Client, NoTls};

/// The address of the server that tests may use.
fn server() -> String {
    std::env::var("PLEACH_POSTGRES_URL").expect(
        "PLEACH_POSTGRES_URL is not set: it is where these tests find a PostgreSQL. \
         `cargo xtask postgres cargo test -p pleach-graph --all-features --test store_postgres` starts one for them",
    )
}

/// A connection beside the store's own.
async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The address of a schema that nobody else uses.
async fn fresh_schema() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("test_{}_{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
    let statement = format!("DROP SCHEMA IF EXISTS {name} CASCADE; CREATE SCHEMA {name}");
    connect(&server()).await.batch_execute(&statement).await.unwrap();
    format!("{}?options=-csearch_path%3D{name}&application_name={name}", server())
}

#[tokio::test]
async fn c11_the_postgres_store_conforms() {
    conformance::check_all(async || {
        let store = PostgresStore::connect(&fresh_schema().await).await.unwrap();
        Arc::new(store) as Arc<dyn Store>
    })
    .await;
}

#[tokio::test]
async fn c2_damage_to_the_tables_is_found_and_named() {
    let url = fresh_schema().await;
    let store = PostgresStore::connect(&url).await.unwrap();
    let claimed = create_held(&store, "r").await;
    store.commit(next(&claimed, b"{\"a\":1}")).await.unwrap();
    let meddler = connect(&url).await;
    let opened = async || store.read("r", Rows::Each(vec![2]), Parts::Whole).await?.remove(0).open("r");
    for column in ["header", "body"] {
        for byte in 0..7 {
            let flip = format!(
                "UPDATE pleach_log SET {column} = set_byte({column}, {byte}, get_byte({column}, {byte}) # 4) WHERE seq = 2"
            );
            meddler.execute(&flip, &[]).await.unwrap();
            let damaged = opened().await;
            assert!(matches!(&damaged, Err(StoreError::Damaged { run, sequence: 2, .. }) if run == "r"), "{damaged:?}");
            meddler.execute(&flip, &[]).await.unwrap();
        }
    }
    opened().await.unwrap();
    meddler.execute("DELETE FROM pleach_log WHERE seq = 2", &[]).await.unwrap();
    assert!(matches!(opened().await, Err(StoreError::Damaged { sequence: 2, .. })));
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
async fn c10_lost_connections_are_replaced() {
    let url = fresh_schema().await;
    let store = PostgresStore::connect(&url).await.unwrap();
    let mut claimed = create_held(&store, "r").await;
    let others = connect(&server()).await;
    let name = url.rsplit_once('=').unwrap().1;
    for _ in 0..5 {
        let cut = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = $1";
        assert!(!others.query(cut, &[&name]).await.unwrap().is_empty());
        store.commit(next(&claimed, b"{}")).await.unwrap();
        claimed.run.head += 1;
        store.head("r").await.unwrap();
    }
    assert_eq!(store.head("r").await.unwrap().head, 6);
}

#[tokio::test]
async fn c10_a_server_that_is_down_is_told_at_once() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let down = PostgresStore::connect(&format!("postgres://nobody:secret@127.0.0.1:{port}/none")).await.unwrap_err();
    assert!(matches!(down, StoreError::Unavailable(_)) && !format!("{down} {down:?}").contains("secret"), "{down:?}");
    let wrong = PostgresStore::connect("postgres://nobody:secret@host:port/none").await.unwrap_err();
    assert!(matches!(wrong, StoreError::Unusable { .. }) && !format!("{wrong} {wrong:?}").contains("secret"), "{wrong:?}");
}

#[tokio::test]
async fn c7_tables_of_a_later_version_are_refused() {
    let url = fresh_schema().await;
    drop(PostgresStore::connect(&url).await.unwrap());
    connect(&url).await.execute("UPDATE pleach_format SET format = 99", &[]).await.unwrap();
    let refused = PostgresStore::connect(&url).await.unwrap_err();
    assert!(matches!(refused, StoreError::Future { format: 99, known: 2, .. }), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn c15_many_may_connect_first() {
    let url = fresh_schema().await;
    let connecting: Vec<_> = (0..8)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { PostgresStore::connect(&url).await.map(drop) })
        })
        .collect();
    for connected in connecting {
        connected.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn c15_other_machines_are_nudged() {
    let url = fresh_schema().await;
    let (here, there) = (PostgresStore::connect(&url).await.unwrap(), PostgresStore::connect(&url).await.unwrap());
    // The first nudge says that it listens from now on.
    there.nudged().await;
    let nudged = there.nudged();
    here.create(queued("r"), vec![row("r", 1, 1, b"{}")]).await.unwrap();
    nudged.await;
    assert_eq!(there.claim(ready(1), lease("bob")).await.unwrap().len(), 1);
}

#[tokio::test]
async fn c2_a_run_whose_row_is_damaged_is_named_and_left_alone_whatever_is_written_to_it() {
    let url = fresh_schema().await;
    let store = PostgresStore::connect(&url).await.unwrap();
    let meddler = connect(&url).await;
    let columns = ["epoch", "head", "oldest", "posted", "created", "wake_at", "lease_until", "schema", "sum"];
    for (column, bit) in columns.into_iter().flat_map(|column| [12, 40].map(|bit| (column, bit))) {
        let bit = if column == "schema" { 12 } else { bit };
        let claim = create_held(&store, "r").await;
        store.create(queued("well"), vec![row("well", 1, 1, b"{}")]).await.unwrap();
        let flip = format!("UPDATE pleach_run SET {column} = {column} # (1::bigint << {bit}) WHERE id = 'r'");
        meddler.execute(&flip, &[]).await.unwrap();
        // What knows nothing of that column does not vouch for it.
        let held = Held::of(&claim.run);
        store.renew(vec![held.clone()], common::LONG).await.unwrap();
        let last = Commit { status: Some(RunStatus::Finished), release: true, ..next(&claim, b"{}") };
        drop(store.commit(last).await);
        let named = |error: StoreError| {
            assert!(matches!(&error, StoreError::Damaged { run, sequence: 0, .. } if run == "r"), "{column}: {error}");
        };
        named(store.head("r").await.unwrap_err());
        named(store.list(Vec::new(), None, 9).await.unwrap_err());
        named(store.claim(forced("r"), lease("bob")).await.unwrap_err());
        named(store.post("r", Post::seal("r", "signal/go", None, b"1".to_vec())).await.unwrap_err());
        named(store.prune(Prune::Rows { held, before: 1, keep: vec![] }).await.unwrap_err());
        // Others are claimed all the same, and it can be deleted once nobody holds it.
        let ready_again = "UPDATE pleach_run SET owner = NULL, lease_until = NULL, wake_at = 1 WHERE id = 'r'";
        meddler.execute(ready_again, &[]).await.unwrap();
        let claims = store.claim(ready(9), lease("bob")).await.unwrap();
        assert_eq!(claims.iter().map(|claim| claim.run.id.as_str()).collect::<Vec<_>>(), ["well"], "{column}");
        meddler.execute("UPDATE pleach_run SET owner = NULL, lease_until = NULL", &[]).await.unwrap();
        store.delete("r").await.unwrap();
        store.delete("well").await.unwrap();
    }
}

#[tokio::test]
async fn c7_the_tables_of_the_first_format_get_their_checksums() {
    let url = fresh_schema().await;
    let first = PostgresStore::connect(&url).await.unwrap();
    let mut claim = create_held(&first, "r").await;
    first.create(queued("queued"), vec![row("queued", 1, 1, b"{}")]).await.unwrap();
    drop(first);
    let meddler = connect(&url).await;
    meddler.batch_execute("ALTER TABLE pleach_run DROP COLUMN sum; UPDATE pleach_format SET format = 1").await.unwrap();
    // Several at once, of which one does it.
    let stores = futures_of(4, || PostgresStore::connect(&url)).await;
    for store in stores {
        let store = store.unwrap();
        store.commit(next(&claim, b"{}")).await.unwrap();
        claim.run.head += 1;
        assert_eq!(store.list(Vec::new(), None, 9).await.unwrap().runs.len(), 2);
    }
}

async fn futures_of<F: Future>(count: usize, make: impl Fn() -> F) -> Vec<F::Output> {
    let mut running: Vec<_> = (0..count).map(|_| Box::pin(make())).collect();
    let mut done: Vec<Option<F::Output>> = (0..count).map(|_| None).collect();
    std::future::poll_fn(|cx| {
        for (future, done) in running.iter_mut().zip(&mut done).filter(|(_, done)| done.is_none()) {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                *done = Some(output);
            }
        }
        if done.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}
