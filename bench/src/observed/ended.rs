//! What ended runs cost the other ones: operations on a store with many of them and on an empty
//! one, in turn.

use std::time::{Duration, Instant};

use pleach::prelude::*;
use pleach::store::{Filter, Parts, PostgresStore, Rows, RunStatus, SqliteStore, Store};
use pleach::worker::{Worker, WorkerEvent};
use tokio::sync::mpsc;
use tokio_postgres::{Client, NoTls};

use super::fill::{self, ORIGINAL, Original};
use super::median;
use super::work::{Meter, Work};
use crate::stores::Folder;

/// Blocks of each operation, and the operations in one block.
const ROUNDS: usize = 8;
const OPERATIONS: usize = 50;

/// One operation on a store.
#[derive(Clone, Copy)]
enum Operation {
    Start,
    List,
    ListByTag,
    Claim,
}

const ALL: [(Operation, &str); 4] = [
    (Operation::Start, "start"),
    (Operation::List, "list"),
    (Operation::ListByTag, "list by tag"),
    (Operation::Claim, "claim, drive and end"),
];

/// A store with its meter.
struct Subject<S> {
    store: S,
    meter: Meter,
    times: Vec<Duration>,
}

fn graph() -> CompiledGraph<u64> {
    let add = |n: u64| async move { Ok::<_, String>(n + 1) };
    Graph::new("one").add_node("add", add).add_edge("add", END).set_entry("add").compile().expect("a graph")
}

/// Writes the run that is copied.
async fn original(store: &(impl Store + Clone)) -> Original {
    graph().run(0).id(ORIGINAL).tag("kind", "ended").checkpoint(store).await.expect("a run");
    Original::read(store).await
}

pub async fn in_sqlite(ended: u64) {
    let folder = Folder::new();
    let full = folder.path("full.db");
    let store = SqliteStore::open(&full).await.expect("a store");
    let original = original(&store).await;
    drop(store);
    let begun = Instant::now();
    let file = full.clone();
    tokio::task::spawn_blocking(move || fill::sqlite(&file, &original, ended)).await.expect("the file is filled");
    println!("SQLite: {ended} ended runs written in {:.0} s", begun.elapsed().as_secs_f64());
    let subject = |store| Subject { store, meter: Meter::of_process(), times: Vec::new() };
    let empty = SqliteStore::open(folder.path("empty.db")).await.expect("a store");
    let full = SqliteStore::open(full).await.expect("a store");
    check(&full, ended).await;
    compare([subject(empty), subject(full)]).await;
}

pub fn in_postgres(server: &str, ended: u64) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("the runtime starts");
    runtime.block_on(async {
        let admin = connect(server).await;
        let mut subjects = Vec::new();
        for (name, ended) in [("pleach_bench_empty", 0), ("pleach_bench_full", ended)] {
            admin.batch_execute(&format!("DROP DATABASE IF EXISTS {name}")).await.expect("no database");
            admin.batch_execute(&format!("CREATE DATABASE {name}")).await.expect("a database");
            let (before, _) = server.rsplit_once('/').expect("the URL names a database");
            let url = format!("{before}/{name}");
            let store = PostgresStore::connect(&url).await.expect("a store");
            if ended > 0 {
                let begun = Instant::now();
                let original = original(&store).await;
                fill::postgres(&connect(&url).await, &original, ended).await;
                println!("PostgreSQL: {ended} ended runs written in {:.0} s", begun.elapsed().as_secs_f64());
                check(&store, ended).await;
            }
            let meter = Meter::of_database(connect(server).await, name.to_string());
            subjects.push(Subject { store, meter, times: Vec::new() });
        }
        let subjects: [Subject<PostgresStore>; 2] = subjects.try_into().ok().expect("two stores");
        compare(subjects).await;
        for name in ["pleach_bench_empty", "pleach_bench_full"] {
            admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.expect("the database is dropped");
        }
    });
    runtime.shutdown_background();
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

/// Checks that the store reads the written runs as real ones.
async fn check(store: &impl Store, ended: u64) {
    for run in [1, ended / 2, ended].map(|number| format!("ended-{number}")) {
        let info = store.head(&run).await.expect("an ended run");
        assert_eq!(info.status, RunStatus::Finished, "{run}");
        let rows = store.read(&run, Rows::Range(1..=info.head), Parts::Whole).await.expect("its records");
        rows.into_iter().for_each(|row| drop(row.open(&run).expect("a sound record")));
    }
    let page = store.list(vec![Filter::tag("kind", "ended")], None, 20).await.expect("a list");
    assert!(page.damaged.is_empty() && !page.runs.is_empty(), "{page:?}");
}

/// Measures all operations in turn on the empty store and on the full one.
async fn compare<S: Store + Clone>(mut subjects: [Subject<S>; 2]) {
    let graph = graph();
    for (operation, name) in ALL {
        for subject in &mut subjects {
            subject.times.clear();
            subject.meter.begin().await;
        }
        for round in 0..ROUNDS {
            let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
            for at in order {
                let subject = &mut subjects[at];
                if matches!(operation, Operation::Claim) {
                    enqueue(&subject.store, &graph, round).await;
                }
                subject.meter.resume();
                let begun = Instant::now();
                operation.run(&subject.store, &graph, round).await;
                subject.times.push(begun.elapsed() / OPERATIONS as u32);
                subject.meter.pause();
            }
        }
        report(name, &subjects).await;
    }
}

async fn report<S>(name: &str, [empty, full]: &[Subject<S>; 2]) {
    let (few, many) = (median(empty.times.clone()), median(full.times.clone()));
    println!(
        "{name}: {few:.1?} in an empty store, {many:.1?} with ended runs; ratio {:.2}",
        ratio(many.as_nanos(), few.as_nanos())
    );
    let (few, many) = tokio::join!(empty.meter.end(), full.meter.end());
    let each = |work: Work| [work.read, work.written].map(|count| count / (ROUNDS * OPERATIONS) as u64);
    for ((unit, few), many) in empty.meter.units().into_iter().zip(each(few)).zip(each(many)) {
        println!("  {unit} for each: {few} and {many}; ratio {:.2}", ratio(many.into(), few.into()));
    }
}

fn ratio(many: u128, few: u128) -> f64 {
    many as f64 / few.max(1) as f64
}

async fn enqueue(store: &(impl Store + Clone), graph: &CompiledGraph<u64>, round: usize) {
    for n in 0..OPERATIONS {
        graph.run(0).id(format!("ready-{round}-{n}")).checkpoint(store).enqueue().await.expect("a run");
    }
}

impl Operation {
    /// Does a block of operations.
    async fn run(self, store: &(impl Store + Clone), graph: &CompiledGraph<u64>, round: usize) {
        match self {
            Self::Claim => claim(store, graph).await,
            Self::Start => {
                for n in 0..OPERATIONS {
                    let run = graph.run(0).id(format!("late-{round}-{n}")).tag("kind", "late");
                    run.checkpoint(store).await.expect("a run");
                }
            }
            Self::List | Self::ListByTag => {
                let late = vec![Filter::tag("kind", "late"), Filter::Status(RunStatus::Finished)];
                let filters = if matches!(self, Self::List) { vec![] } else { late };
                for _ in 0..OPERATIONS {
                    drop(store.list(filters.clone(), None, 20).await.expect("a list"));
                }
            }
        }
    }
}

/// Starts a worker, waits until it has ended all ready runs, and closes it.
async fn claim(store: &(impl Store + Clone), graph: &CompiledGraph<u64>) {
    let (ended, mut ends) = mpsc::unbounded_channel();
    let listen = move |event: &WorkerEvent| {
        if let WorkerEvent::Ended { .. } = event {
            ended.send(()).expect("the counter is open");
        }
    };
    let worker = Worker::new(store).graph(graph).on_event(listen).start().expect("a worker");
    for _ in 0..OPERATIONS {
        ends.recv().await.expect("the worker lives");
    }
    worker.close(Duration::from_secs(10)).await;
}
