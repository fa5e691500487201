//! Shared by the tests of the PostgreSQL store: the server, and a separate schema per test.

use pleach_graph::store::PostgresStore;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::Poll;
use tokio_postgres::{Client, NoTls};

/// The address of the server for tests.
pub fn server() -> String {
    std::env::var("PLEACH_POSTGRES_URL").expect(
        "PLEACH_POSTGRES_URL is not set; these tests need a PostgreSQL server. \
         `cargo xtask postgres cargo test -p pleach-graph --all-features --test postgres` starts one",
    )
}

/// A connection besides those of the store.
pub async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The address of a new schema.
pub async fn fresh_schema() -> String {
    let name = fresh_name("schema");
    let statement = format!("DROP SCHEMA IF EXISTS {name} CASCADE; CREATE SCHEMA {name}");
    connect(&server()).await.batch_execute(&statement).await.unwrap();
    format!("{}?options=-csearch_path%3D{name}&application_name={name}", server())
}

/// A name that no other test uses.
pub fn fresh_name(what: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("test_{what}_{}_{}", std::process::id(), COUNT.fetch_add(1, Relaxed))
}

/// The application name in an address of [`fresh_schema`].
pub fn application(url: &str) -> &str {
    url.rsplit_once('=').unwrap().1
}

pub async fn store(url: &str) -> PostgresStore {
    PostgresStore::connect(url).await.unwrap()
}

/// Runs several futures at once, in one task.
pub async fn futures_of<F: Future>(count: usize, make: impl Fn() -> F) -> Vec<F::Output> {
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
