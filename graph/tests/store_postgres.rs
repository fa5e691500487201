//! `PostgresStore` is a store, and what only a server can go through. `cargo xtask test` starts one.
#![cfg(all(feature = "conformance", feature = "postgres"))]

use pleach_graph::store::{PostgresStore, Store, conformance};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The address of the server that tests may use.
fn server() -> String {
    std::env::var("PLEACH_POSTGRES_URL").expect(
        "PLEACH_POSTGRES_URL is not set: it is where these tests find a PostgreSQL. \
         `cargo xtask postgres cargo test -p pleach-graph --all-features --test store_postgres` starts one for them",
    )
}

/// The address of a schema that nobody else uses.
async fn fresh_schema() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("test_{}_{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
    let (client, connection) = tokio_postgres::connect(&server(), tokio_postgres::NoTls).await.unwrap();
    let driver = tokio::spawn(connection);
    client.batch_execute(&format!("DROP SCHEMA IF EXISTS {name} CASCADE; CREATE SCHEMA {name}")).await.unwrap();
    drop(client);
    driver.await.unwrap().unwrap();
    format!("{}?options=-csearch_path%3D{name}", server())
}

async fn fresh() -> PostgresStore {
    PostgresStore::connect(&fresh_schema().await).await.unwrap()
}

#[tokio::test]
async fn c11_the_postgres_store_conforms() {
    conformance::check_all(async || Arc::new(fresh().await) as Arc<dyn Store>).await;
}
