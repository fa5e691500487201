//! What an observer costs, and what ended runs cost: `pleach-bench observed [RUNS]`.
//!
//! These are ratios of one program with and without something, not of two programs, so they are no
//! workloads of the peers.
//!
//! - The messages per second of 100,000 busy actors, while a plain thread reads a page of a
//!   snapshot every 10 ms, against those without it.
//! - The time of a list, a list by tag, a claim and a start in a SQLite store with RUNS ended runs
//!   (default: a million), against those in an empty store.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use pleach::inspect::SnapshotQuery;
use pleach::prelude::*;
use pleach::store::{Filter, RunStatus, SqliteStore, Store};
use pleach::worker::{Worker, WorkerEvent};
use tokio::sync::mpsc;

use crate::ground::Place;
use crate::stores::Folder;

const ACTORS: usize = 100_000;
/// How often a page is read.
const EVERY: Duration = Duration::from_millis(10);
/// The duration of one measurement of throughput.
const SPAN: Duration = Duration::from_secs(3);
/// Measurements with and without an observer, alternating.
const ROUNDS: usize = 5;
/// The members of one page.
const PAGE: usize = 100;

/// Runs of each operation on a store.
const OPERATIONS: usize = 200;
/// Runs that are filled in at a time.
const AT_ONCE: u64 = 256;

pub fn run(arguments: &[String]) -> Result<(), String> {
    let ended = match arguments {
        [] => 1_000_000,
        [runs] => runs.parse().map_err(|_| format!("{runs} is not a number of runs"))?,
        _ => return Err("observed takes one number of runs".into()),
    };
    snapshots();
    Place::Workers.run(ended_runs(ended));
    Ok(())
}

fn snapshots() {
    let (without, with): (Vec<f64>, Vec<f64>) = (0..ROUNDS).map(|_| (throughput(false), throughput(true))).unzip();
    let (without, with) = (median(without), median(with));
    println!("messages per second of {ACTORS} busy actors: {without:.0} without an observer");
    println!("with a page of {PAGE} members every {EVERY:?}: {with:.0}; ratio {:.3}", with / without);
}

/// Messages per second, while two tasks send to all actors in turn.
fn throughput(observed: bool) -> f64 {
    Place::Workers.run(async move {
        let system = Arc::new(ActorSystem::new("busy").expect("the current thread has a runtime"));
        let handled = Arc::new(AtomicU64::new(0));
        let actors: Arc<Vec<ActorRef<u64>>> = Arc::new((0..ACTORS).map(|_| spawn(&system, &handled)).collect());
        let is_over = Arc::new(AtomicBool::new(false));
        let senders: Vec<_> = (0..2).map(|n| tokio::spawn(send(Arc::clone(&actors), n, Arc::clone(&is_over)))).collect();
        let observer = observed.then(|| observe(Arc::clone(&system), Arc::clone(&is_over)));
        // The first second is not counted: mailboxes and tables reach their size.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (begun, before) = (Instant::now(), handled.load(Relaxed));
        tokio::time::sleep(SPAN).await;
        let rate = (handled.load(Relaxed) - before) as f64 / begun.elapsed().as_secs_f64();
        is_over.store(true, Relaxed);
        for sender in senders {
            sender.await.expect("a sender ends");
        }
        if let Some(observer) = observer {
            let pages = observer.join().expect("the observer ends");
            assert!(pages > 100, "it read only {pages} pages");
        }
        rate
    })
}

fn spawn(system: &ActorSystem, handled: &Arc<AtomicU64>) -> ActorRef<u64> {
    let handled = Arc::clone(handled);
    let handle = move |(): &mut (), n: u64| {
        handled.fetch_add(black_box(n), Relaxed);
        Ok::<(), pleach::BoxError>(())
    };
    system.spawn_unnamed(Props::from_fn(|| (), handle)).expect("the system takes actors")
}

async fn send(actors: Arc<Vec<ActorRef<u64>>>, half: usize, is_over: Arc<AtomicBool>) {
    while !is_over.load(Relaxed) {
        for chunk in actors.chunks(64).skip(half).step_by(2) {
            for actor in chunk {
                actor.send(1).await.expect("the actor lives");
            }
            tokio::task::yield_now().await;
        }
    }
}

/// Reads pages, one after the other through the whole tree. Returns how many.
fn observe(system: Arc<ActorSystem>, is_over: Arc<AtomicBool>) -> thread::JoinHandle<u64> {
    thread::spawn(move || {
        let (mut next, mut pages) = (None, 0);
        while !is_over.load(Relaxed) {
            let mut query = SnapshotQuery::new().limit(PAGE);
            if let Some(cursor) = next.take() {
                query = query.after(cursor);
            }
            next = black_box(system.snapshot(&query)).expect("the root is there").next;
            pages += 1;
            thread::sleep(EVERY);
        }
        pages
    })
}

async fn ended_runs(ended: u64) {
    let folder = Folder::new();
    let empty = SqliteStore::open(folder.path("empty.db")).await.expect("a store");
    let full = SqliteStore::open(folder.path("full.db")).await.expect("a store");
    let graph = graph();
    let begun = Instant::now();
    fill(&full, &graph, ended).await;
    println!("{ended} runs ended in {:.0} s", begun.elapsed().as_secs_f64());
    let (few, many) = (operations(&empty, &graph).await, operations(&full, &graph).await);
    for (name, few) in few {
        let many = many[name];
        println!("{name}: {few:.1?} in an empty store, {many:.1?} with ended runs; ratio {:.2}", ratio(many, few));
    }
}

fn graph() -> CompiledGraph<u64> {
    let add = |n: u64| async move { Ok::<_, String>(n + 1) };
    Graph::new("one").add_node("add", add).add_edge("add", END).set_entry("add").compile().expect("a graph")
}

async fn fill(store: &SqliteStore, graph: &CompiledGraph<u64>, runs: u64) {
    let mut drivers = tokio::task::JoinSet::new();
    for run in 0..runs {
        if run >= AT_ONCE {
            drivers.join_next().await.expect("a driver").expect("the run finishes");
        }
        let run = graph.run(run).id(format!("ended-{run}")).tag("kind", "ended").checkpoint(store).into_future();
        drivers.spawn(async {
            run.await.expect("the run finishes");
        });
    }
    while let Some(ended) = drivers.join_next().await {
        ended.expect("the run finishes");
    }
}

/// The median time of each operation.
async fn operations(store: &SqliteStore, graph: &CompiledGraph<u64>) -> HashMap<&'static str, Duration> {
    let (mut list, mut by_tag, mut starts) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..OPERATIONS {
        let id = format!("late-{n}");
        let start = async {
            graph.run(0).id(id).tag("kind", "late").checkpoint(store).await.expect("a run");
        };
        starts.push(time(start).await);
        list.push(time(async { drop(store.list(vec![], None, 20).await.expect("a list")) }).await);
        let late = vec![Filter::tag("kind", "late"), Filter::Status(RunStatus::Finished)];
        by_tag.push(time(async { drop(store.list(late, None, 20).await.expect("a list")) }).await);
    }
    HashMap::from([
        ("list", median(list)),
        ("list by tag", median(by_tag)),
        ("start", median(starts)),
        ("claim", claims(store, graph).await),
    ])
}

/// The time from an idle worker's start to the end of all ready runs, for each run.
async fn claims(store: &SqliteStore, graph: &CompiledGraph<u64>) -> Duration {
    for n in 0..OPERATIONS {
        graph.run(0).id(format!("ready-{n}")).checkpoint(store).enqueue().await.expect("a run");
    }
    let (ended, mut ends) = mpsc::unbounded_channel();
    let listen = move |event: &WorkerEvent| {
        if let WorkerEvent::Ended { .. } = event {
            ended.send(()).expect("the counter is open");
        }
    };
    let worker = Worker::new(store).graph(graph).on_event(listen);
    let all = time(async move {
        let worker = worker.start().expect("a worker");
        for _ in 0..OPERATIONS {
            ends.recv().await.expect("the worker lives");
        }
        drop(worker);
    });
    all.await / OPERATIONS as u32
}

async fn time(work: impl Future<Output = ()>) -> Duration {
    let begun = Instant::now();
    work.await;
    begun.elapsed()
}

fn ratio(many: Duration, few: Duration) -> f64 {
    many.as_secs_f64() / few.as_secs_f64()
}

fn median<T: PartialOrd + Copy>(mut samples: Vec<T>) -> T {
    samples.sort_by(|one, other| one.partial_cmp(other).expect("no sample is NaN"));
    samples[samples.len() / 2]
}
