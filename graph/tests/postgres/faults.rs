//! C10, C11, C15: hanging connections, claims that fail halfway, and stray rows. `cargo xtask test`
//! starts a server.
#![cfg(all(feature = "conformance", feature = "postgres"))]

use crate::common::postgres::{connect, fresh_schema, futures_of, store};
use crate::common::proxy::Proxy;
use crate::common::{check_wrong_clock, create_held, lease, next, queued, ready, row};
use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use pleach_graph::store::{Held, Lease, NewMessage, NewRun, PostgresStore, Store, StoreError, TAKEOVERS_MAX, Timestamp};
use std::time::Duration;
use tokio_postgres::NoTls;

/// A pool of the caller.
fn pool(url: &str, size: usize) -> Pool {
    let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    Pool::builder(Manager::from_config(url.parse().unwrap(), NoTls, manager)).max_size(size).build().unwrap()
}

#[tokio::test]
async fn c10_renewal_has_a_connection_when_all_calls_hang() {
    for is_own_pool in [true, false] {
        let url = fresh_schema().await;
        let proxy = Proxy::start(&url).await;
        let url = proxy.url(&url);
        let store = match is_own_pool {
            true => PostgresStore::builder(&url).pool_size(2).connect().await.unwrap(),
            false => PostgresStore::with_pool(pool(&url, 3)).await.unwrap(),
        };
        let held = vec![Held::of(&create_held(&store, "r").await.run)];
        assert!(futures_of(2, || store.head("r")).await.iter().all(Result::is_ok));
        proxy.swallow_old_connections();
        let mut calls = Vec::new();
        for _ in 0..3 {
            let mut call = store.head("r");
            assert!(tokio::time::timeout(Duration::from_millis(50), &mut call).await.is_err(), "the call hangs");
            calls.push(call);
        }
        let lease = Duration::from_secs(30);
        let renewed = tokio::time::timeout(lease, store.renew(held, lease)).await.unwrap().unwrap();
        assert_eq!((renewed.lost, renewed.busy), (vec![], vec![]));
    }
}

#[tokio::test]
async fn c15_claims_before_a_failure_are_returned() {
    let url = fresh_schema().await;
    let (outside, direct, proxy) = (store(&url).await, connect(&url).await, Proxy::start(&url).await);
    let builder = PostgresStore::builder(&proxy.url(&url)).pool_size(1).answer_timeout(Duration::from_secs(2));
    let store = builder.connect().await.unwrap();
    assert!(store.claim(ready(2), lease("bob")).await.unwrap().is_empty());
    // A run that becomes stuck by its claim makes room for another, in a second round.
    let dead = Lease { owner: "dead".into(), length: Duration::from_millis(1) };
    outside.create(NewRun { lease: Some(dead), ..queued("stuck") }, vec![row("stuck", 1, 1, b"{}")]).await.unwrap();
    let exhaust = format!("UPDATE pleach_run SET takeovers = {TAKEOVERS_MAX}");
    direct.batch_execute(&exhaust).await.unwrap();
    outside.create(queued("good"), vec![row("good", 1, 1, b"{}")]).await.unwrap();
    let is_over = "SELECT lease_until < extract(epoch FROM clock_timestamp()) * 1000 FROM pleach_run WHERE id = 'stuck'";
    while !direct.query_one(is_over, &[]).await.unwrap().get::<_, bool>(0) {}
    proxy.freeze_after(1);
    let claimed = store.claim(ready(2), lease("bob")).await.unwrap();
    assert_eq!(claimed.iter().map(|claim| claim.run.id.as_str()).collect::<Vec<_>>(), ["good"]);
    assert_eq!(outside.head("good").await.unwrap().owner.as_deref(), Some("bob"));
}

#[tokio::test]
async fn c10_stray_message_or_row_is_damage() {
    let url = fresh_schema().await;
    let (store, direct) = (store(&url).await, connect(&url).await);
    let claim = create_held(&store, "r").await;
    let stray = "INSERT INTO pleach_inbox (run, n, at, name, sum, payload) SELECT no, 1, 0, 'stray', 0, '' FROM pleach_run;
        INSERT INTO pleach_log (run, seq, sum, header, body) SELECT no, 2, 0, '', '' FROM pleach_run";
    direct.batch_execute(stray).await.unwrap();
    let rejected = store.send_message("r", NewMessage::seal("r", "signal/go", None, vec![])).await.unwrap_err();
    assert!(matches!(rejected, StoreError::Damaged { sequence: 0, .. }), "{rejected}");
    let rejected = store.commit(next(&claim, b"{}")).await.unwrap_err();
    assert!(matches!(rejected, StoreError::Damaged { sequence: 2, .. }), "{rejected}");
    let info = store.head("r").await.unwrap();
    assert_eq!((info.last_message, info.head), (0, 1), "nothing was changed");
}

#[tokio::test]
async fn c11_wrong_clock_removes_no_runs() {
    let url = fresh_schema().await;
    let (store, direct) = (store(&url).await, connect(&url).await);
    check_wrong_clock(&store, async |run, created: Option<Timestamp>, ended: Timestamp| {
        let set = "UPDATE pleach_run SET created = COALESCE($2, created), ended_at = $3 WHERE id = $1";
        direct.execute(set, &[&run, &created.map(Timestamp::as_millis), &ended.as_millis()]).await.unwrap();
    })
    .await;
}
