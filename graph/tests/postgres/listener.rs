//! C15: a listener whose connection is silent reconnects. `cargo xtask test` starts a server.
#![cfg(feature = "postgres")]

use crate::common::check_hints_of_new_runs;
use crate::common::postgres::{fresh_schema, store};
use crate::common::proxy::Proxy;
use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use pleach_graph::store::{PostgresStore, Store as _};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_postgres::{Config, NoTls};

/// Far longer than any step of these tests.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn c15_listener_reconnects_if_its_login_is_not_answered() {
    let url = fresh_schema().await;
    let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let pool = Pool::builder(Manager::from_config(url.parse().unwrap(), NoTls, manager)).max_size(2).build().unwrap();
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let mut config = Config::new();
    config.host("127.0.0.1").port(silent.local_addr().unwrap().port()).user("app").connect_timeout(Duration::from_millis(50));
    let _store = PostgresStore::with_pool_and_listener(pool, config, NoTls).await.unwrap();
    let _first = tokio::time::timeout(PATIENCE, silent.accept()).await.expect("it connects");
    let _second = tokio::time::timeout(PATIENCE, silent.accept()).await.expect("it connects again");
}

#[tokio::test]
async fn c15_listener_on_a_hanging_connection_reconnects() {
    let url = fresh_schema().await;
    let here = store(&url).await;
    let proxy = Proxy::start(&url).await;
    let there = store(&format!("{}&keepalives_idle=1&connect_timeout=1", proxy.url(&url))).await;
    check_hints_of_new_runs(&here, &there).await;
    proxy.swallow_old_connections();
    tokio::time::timeout(PATIENCE, there.hint()).await.expect("it listens again and sends a hint");
    for run in here.list(vec![], None, 100).await.unwrap().runs {
        here.delete(&run.id).await.unwrap();
    }
    check_hints_of_new_runs(&here, &there).await;
}
