//! The workload of workers: ready runs in PostgreSQL are claimed, driven through one node, and
//! finished.
//!
//! The floor is a program without workers: a loop that claims rows of a table with `FOR UPDATE SKIP
//! LOCKED`, as many at a time as a worker does, and marks each done with one statement, many at
//! once. It keeps no log and no state.
//!
//! `PLEACH_POSTGRES_URL` names the server; `cargo xtask postgres COMMAND` starts one. Without a
//! server the workload is skipped.

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pleach::prelude::*;
use pleach::store::{Filter, PostgresStore, RunStatus, Store};
use pleach::worker::{Worker, WorkerEvent};
use tokio::sync::{Semaphore, mpsc};
use tokio_postgres::{Client, NoTls};

use crate::ground::timed;

/// The number of runs that are driven at a time.
const AT_ONCE: usize = 64;

/// The connections of the floor: as many as the pool of a store.
const CONNECTIONS: usize = 8;

/// Runs the work in a fresh schema. Returns `None` without a server.
pub fn on_server<F>(work: impl FnOnce(String) -> F) -> Option<Duration>
where
    F: Future<Output = Duration> + Send + 'static,
{
    let server = env::var("PLEACH_POSTGRES_URL").ok()?;
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let schema = format!("bench_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("the runtime starts");
    let work = work(format!("{server}?options=-csearch_path%3D{schema}"));
    let taken = runtime.block_on(async {
        let admin = connect(&server).await;
        admin.batch_execute(&format!("CREATE SCHEMA {schema}")).await.expect("a schema");
        let taken = tokio::spawn(work).await.expect("the workload does not panic");
        admin.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await.expect("the schema is dropped");
        taken
    });
    runtime.shutdown_background();
    Some(taken)
}

pub async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

/// Claims `ops` rows and marks them done.
pub fn bare_loop(ops: u64) -> Option<Duration> {
    on_server(move |url| async move {
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            clients.push(Arc::new(connect(&url).await));
        }
        let table =
            "CREATE TABLE job (id bigint PRIMARY KEY, done boolean NOT NULL DEFAULT false, owner text, until timestamptz);
            CREATE INDEX ready ON job (id) WHERE NOT done AND owner IS NULL;";
        clients[0].batch_execute(table).await.expect("a table");
        let jobs = i64::try_from(ops).expect("a number of jobs");
        clients[0].execute("INSERT INTO job SELECT generate_series(1, $1::bigint)", &[&jobs]).await.expect("jobs");
        timed(async move {
            let claim = "UPDATE job SET owner = 'me', until = now() + interval '30 s' WHERE id IN
                (SELECT id FROM job WHERE NOT done AND owner IS NULL ORDER BY id LIMIT 64 FOR UPDATE SKIP LOCKED) RETURNING id";
            let claim = clients[0].prepare(claim).await.expect("a statement");
            let mut finish = Vec::new();
            for client in &clients {
                finish
                    .push(client.prepare("UPDATE job SET done = true, owner = NULL WHERE id = $1").await.expect("a statement"));
            }
            let room = Arc::new(Semaphore::new(AT_ONCE));
            loop {
                let claimed = clients[0].query(&claim, &[]).await.expect("a claim");
                if claimed.is_empty() {
                    break;
                }
                for row in claimed {
                    let id: i64 = row.get(0);
                    let place = id as usize % CONNECTIONS;
                    let (client, finish) = (Arc::clone(&clients[place]), finish[place].clone());
                    let permit = Arc::clone(&room).acquire_owned().await.expect("the room is never closed");
                    tokio::spawn(async move {
                        client.execute(&finish, &[&id]).await.expect("a job is done");
                        drop(permit);
                    });
                }
            }
            drop(room.acquire_many(AT_ONCE as u32).await.expect("the room is never closed"));
        })
        .await
    })
}

/// Claims, drives and finishes `ops` runs.
pub fn claims(ops: u64) -> Option<Duration> {
    on_server(move |url| async move {
        let store = PostgresStore::connect(&url).await.expect("a store");
        let add = |n: u64| async move { Ok::<_, String>(n + 1) };
        let graph = Graph::new("one").add_node("add", add).add_edge("add", END).set_entry("add").compile().expect("a graph");
        for run in 0..ops {
            graph.run(run).id(format!("run {run}")).checkpoint(&store).enqueue().await.expect("a run");
        }
        let (ended, mut ends) = mpsc::unbounded_channel();
        let listen = move |event: &WorkerEvent| {
            if let WorkerEvent::Ended { .. } = event {
                ended.send(()).expect("the counter is open");
            }
        };
        let worker = Worker::new(&store).graph(&graph).limit(AT_ONCE).on_event(listen);
        let taken = timed(async move {
            let worker = worker.start().expect("a worker");
            for _ in 0..ops {
                ends.recv().await.expect("the worker lives");
            }
            drop(worker);
        })
        .await;
        let finished = store.list(vec![Filter::Status(RunStatus::Finished)], None, 1_000).await.expect("a list");
        assert_eq!(finished.runs.len() as u64, ops, "every run finishes");
        taken
    })
}
