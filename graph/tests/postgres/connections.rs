//! C1, C10, C13, C15: connections that break, hang, are read-only, or have unusual settings. `cargo
//! xtask test` starts a server.
#![cfg(all(feature = "conformance", feature = "postgres"))]

use crate::common::postgres::{application, connect, fresh_name, fresh_schema, futures_of, server, store};
use crate::common::proxy::Proxy;
use crate::common::{check_hints_of_new_runs, create_held, forced, lease, next, queued, ready, row};
use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use pleach_graph::store::{Held, NewMessage, PostgresStore, Store, StoreError};
use std::time::Duration;
use tokio_postgres::NoTls;

fn pool(url: &str, recycling_method: RecyclingMethod, size: usize) -> Pool {
    let manager = Manager::from_config(url.parse().unwrap(), NoTls, ManagerConfig { recycling_method });
    Pool::builder(manager).max_size(size).build().unwrap()
}

/// Creates a role with a setting. Returns its name and an address to log in with it.
async fn role_with(url: &str, setting: &str) -> (String, String) {
    let role = fresh_name("role");
    let statement = format!("CREATE ROLE {role} LOGIN SUPERUSER; ALTER ROLE {role} SET {setting}");
    connect(&server()).await.batch_execute(&statement).await.unwrap();
    let url = url.replacen("//pleach@", &format!("//{role}@"), 1);
    (role, url)
}

#[tokio::test]
async fn c10_lost_connections_are_replaced() {
    let url = fresh_schema().await;
    let store = PostgresStore::connect(&url).await.unwrap();
    let mut claimed = create_held(&store, "r").await;
    let others = connect(&server()).await;
    let name = application(&url);
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
async fn c10_unreachable_server_is_reported_at_once() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let down = PostgresStore::connect(&format!("postgres://stranger:secret@127.0.0.1:{port}/none")).await.unwrap_err();
    assert!(matches!(down, StoreError::Unreachable(_)) && !format!("{down} {down:?}").contains("secret"), "{down:?}");
    let wrong = PostgresStore::connect("postgres://stranger:secret@host:port/none").await.unwrap_err();
    assert!(matches!(wrong, StoreError::Unusable { .. }) && !format!("{wrong} {wrong:?}").contains("secret"), "{wrong:?}");
}

#[tokio::test]
async fn c10_black_holed_connections_cost_one_timeout() {
    let url = fresh_schema().await;
    let proxy = Proxy::start(&url).await;
    let patience = Duration::from_millis(500);
    let store = PostgresStore::builder(&proxy.url(&url)).answer_timeout(patience).pool_size(6).connect().await.unwrap();
    create_held(&store, "r").await;
    for turn in 0..3 {
        // As many connections as parallel calls.
        let warm = futures_of(6, || store.head("r")).await;
        assert!(warm.iter().all(Result::is_ok), "{warm:?}");
        proxy.swallow_old_connections();
        let lost = if turn == 2 { futures_of(6, || store.head("r")).await } else { vec![store.head("r").await] };
        for answer in lost {
            let error = answer.unwrap_err();
            assert!(matches!(error, StoreError::Unavailable(_)) && error.to_string().contains("no answer within"), "{error}");
        }
        for _ in 0..6 {
            store.head("r").await.expect("a new connection works");
        }
    }
}

#[tokio::test]
async fn c10_dropped_call_drops_its_connection() {
    let url = fresh_schema().await;
    let proxy = Proxy::start(&url).await;
    let store = PostgresStore::builder(&proxy.url(&url)).pool_size(1).connect().await.unwrap();
    create_held(&store, "r").await;
    proxy.swallow_old_connections();
    // The caller waits less long than the store.
    assert!(tokio::time::timeout(Duration::from_millis(50), store.head("r")).await.is_err());
    store.head("r").await.unwrap();
    let made = proxy.accepted();
    store.head("r").await.unwrap();
    assert_eq!(proxy.accepted(), made, "an answered call keeps its connection");
}

/// Old connections are read-only and new ones are not, as after a failover to another server.
#[tokio::test]
async fn c10_connections_to_a_demoted_server_are_dropped() {
    let url = fresh_schema().await;
    let claim = create_held(&store(&url).await, "r").await;
    let (role, url) = role_with(&url, "default_transaction_read_only = on").await;
    let store = PostgresStore::builder(&url).pool_size(3).connect().await.unwrap();
    assert!(futures_of(3, || store.head("r")).await.iter().all(Result::is_ok));
    let rejected = store.commit(next(&claim, b"{}")).await.unwrap_err();
    assert!(matches!(rejected, StoreError::Unreachable(_)), "{rejected:?}");
    assert!(rejected.to_string().contains("25006") && rejected.to_string().contains("target_session_attrs"), "{rejected}");
    assert!(futures_of(3, || store.head("r")).await.iter().all(Result::is_ok));
    connect(&server()).await.batch_execute(&format!("ALTER ROLE {role} RESET default_transaction_read_only")).await.unwrap();
    store.commit(next(&claim, b"{}")).await.unwrap();
    // A post that must not be repeated blindly is repeated, too: the server rejected it before it
    // did anything.
    assert_eq!(store.send_message("r", NewMessage::seal("r", "signal/go", None, vec![])).await.unwrap(), 1);
}

/// Records `synchronous_commit` at each commit to `pleach_run`.
const WATCH: &str = "
    CREATE TABLE seen (setting text NOT NULL);
    CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER see AFTER INSERT OR UPDATE ON pleach_run DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION see();
";

#[tokio::test]
async fn c1_no_change_is_committed_asynchronously() {
    for (setting, expected) in [("off", "on"), ("on", "on"), ("local", "local"), ("remote_apply", "remote_apply")] {
        for source in ["connect", "pool", "resetting pool"] {
            let url = fresh_schema().await;
            drop(store(&url).await);
            let (_, url) = role_with(&url, &format!("synchronous_commit = {setting}")).await;
            let store = match source {
                "connect" => PostgresStore::connect(&url).await.unwrap(),
                "pool" => PostgresStore::with_pool(pool(&url, RecyclingMethod::Fast, 4)).await.unwrap(),
                _ => PostgresStore::with_pool(pool(&url, RecyclingMethod::Clean, 4)).await.unwrap(),
            };
            let watcher = connect(&url).await;
            watcher.batch_execute(WATCH).await.unwrap();
            create_held(&store, "r").await;
            store.create(queued("queued"), vec![row("queued", 1, 1, b"{}")]).await.unwrap();
            store.send_message("r", NewMessage::seal("r", "signal/go", None, vec![])).await.unwrap();
            assert_eq!(store.claim(ready(9), lease("bob")).await.unwrap().len(), 1);
            let claim = store.claim(forced("r"), lease("bob")).await.unwrap().remove(0);
            store.commit(next(&claim, b"{}")).await.unwrap();
            let seen: Vec<String> =
                watcher.query("SELECT setting FROM seen", &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
            assert_eq!(seen, vec![expected; 6], "{source}, {setting}");
        }
    }
}

#[tokio::test]
async fn c13_sessions_have_timeouts_and_keep_stricter_ones() {
    let cases = [
        ("synchronous_commit = off", "10s", "30s"),
        ("lock_timeout = '250ms'", "250ms", "30s"),
        ("lock_timeout = '1h'", "10s", "30s"),
    ];
    for (setting, lock, idle) in cases {
        let url = fresh_schema().await;
        drop(store(&url).await);
        let (_, url) = role_with(&url, setting).await;
        let pool = pool(&url, RecyclingMethod::Fast, 1);
        let store = PostgresStore::with_pool(pool.clone()).await.unwrap();
        create_held(&store, "r").await;
        let client = pool.get().await.unwrap();
        let shown = async |name: &str| client.query_one(&format!("SHOW {name}"), &[]).await.unwrap().get::<_, String>(0);
        assert_eq!((shown("lock_timeout").await.as_str(), shown("synchronous_commit").await.as_str()), (lock, "on"));
        assert_eq!(shown("idle_in_transaction_session_timeout").await, idle);
        assert_eq!(shown("tcp_keepalives_idle").await, "30");
        assert_eq!(shown("plan_cache_mode").await, "auto", "the store does not change the plan mode of a caller's pool");
    }
}

#[tokio::test]
async fn c15_store_on_a_callers_pool_gets_hints_of_other_machines() {
    let url = fresh_schema().await;
    let here = store(&url).await;
    let pool = pool(&url, RecyclingMethod::Fast, 2);
    let there = PostgresStore::with_pool_and_listener(pool, url.parse().unwrap(), NoTls).await.unwrap();
    check_hints_of_new_runs(&here, &there).await;
    assert_eq!(there.claim(ready(1), lease("bob")).await.unwrap().len(), 1);
}

#[tokio::test]
async fn c10_exhausted_pool_is_reported() {
    let url = fresh_schema().await;
    let proxy = Proxy::start(&url).await;
    let builder = PostgresStore::builder(&proxy.url(&url)).pool_size(1);
    let store = builder.connect_timeout(Duration::from_millis(200)).connect().await.unwrap();
    create_held(&store, "r").await;
    proxy.swallow_old_connections();
    let mut waits = store.head("r");
    assert!(tokio::time::timeout(Duration::from_millis(20), &mut waits).await.is_err());
    let rejected = store.head("r").await.unwrap_err();
    assert!(matches!(rejected, StoreError::Unreachable(_)), "{rejected:?}");
    assert!(rejected.to_string().contains("all 1 connections") && rejected.to_string().contains("pool size"), "{rejected}");
}

/// A lease must not expire while a renewal waits for a hanging connection.
#[tokio::test]
async fn c10_hanging_renewal_leaves_time_for_another() {
    let url = fresh_schema().await;
    let proxy = Proxy::start(&url).await;
    let store = PostgresStore::builder(&proxy.url(&url)).pool_size(4).connect().await.unwrap();
    let held = vec![Held::of(&create_held(&store, "r").await.run)];
    assert!(futures_of(4, || store.head("r")).await.iter().all(Result::is_ok));
    proxy.swallow_old_connections();
    let length = Duration::from_secs(8);
    let swallowed = tokio::time::timeout(length / 2, store.renew(held.clone(), length)).await;
    assert!(matches!(swallowed, Ok(Err(StoreError::Unavailable(_)))), "{swallowed:?}");
    let renewed = tokio::time::timeout(length / 4, store.renew(held, length)).await;
    assert_eq!(renewed.unwrap().unwrap().lost, []);
}

#[tokio::test]
async fn c10_longest_timeouts_are_accepted() {
    let builder = PostgresStore::builder(&fresh_schema().await).connect_timeout(Duration::MAX).answer_timeout(Duration::MAX);
    create_held(&builder.connect().await.unwrap(), "r").await;
}
