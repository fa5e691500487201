//! C13, C15: runs that cannot be driven, among good ones.
use crate::common::failing_connection::FailingConnection;
use crate::common::shared_runs::{SharedRuns, State, all_finish, enqueue, five};
use crate::common::{INJECTED, Log, quiet};
use pleach::durable::RunRemote;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::store::{Filter, MemoryStore, RunStatus, Store};
use pleach::worker::{RunEnd, Worker, WorkerEvent};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

/// A graph of one node.
fn one<S: Send + 'static>(
    name: &str,
    node: impl Fn(S) -> pleach::runtime::BoxFuture<'static, Result<S, String>> + Send + Sync + 'static,
) -> CompiledGraph<S> {
    Graph::new(name).add_node("node", node).add_edge("node", END).set_entry("node").compile().unwrap()
}

fn pass<S: Send + 'static>(state: S) -> pleach::runtime::BoxFuture<'static, Result<S, String>> {
    Box::pin(async { Ok(state) })
}

/// Four kinds of runs that cannot be driven, and a switch that repairs them.
struct Bad {
    nan: CompiledGraph<f64>,
    /// The graph before and after the removal of a node.
    old: CompiledGraph<u32>,
    new: CompiledGraph<u32>,
    panics: CompiledGraph<u32>,
    /// The same graph with a state of another type.
    number: CompiledGraph<u32>,
    text: CompiledGraph<String>,
    is_bad: Arc<AtomicBool>,
}

const BAD: [(&str, &str); 4] = [
    ("nan", "deserialize to an equal value"),
    ("mismatch", "a graph that has this node"),
    ("panics", "the options closure of its graph panicked"),
    ("undecodable", "does not decode as the state of this graph"),
];

impl Bad {
    fn new() -> Self {
        quiet();
        let is_bad = Arc::new(AtomicBool::new(true));
        let bad = Arc::clone(&is_bad);
        let nan = one("nan", move |_: f64| {
            let value = if bad.load(SeqCst) { f64::NAN } else { 1.0 };
            Box::pin(async move { Ok(value) })
        });
        let new = Graph::new("mismatch").add_node("other", pass::<u32>).add_edge("other", END).set_entry("other");
        let new = new.compile().unwrap();
        Self {
            nan,
            old: one("mismatch", pass),
            new,
            panics: one("panics", pass),
            number: one("undecodable", pass),
            text: one("undecodable", pass),
            is_bad,
        }
    }

    async fn enqueue(&self, sim: &Sim, store: &MemoryStore) {
        let on = || sim.runtime();
        self.nan.run(1.0).id("nan").runtime(on()).checkpoint(store).enqueue().await.unwrap();
        self.old.run(1).id("mismatch").runtime(on()).checkpoint(store).enqueue().await.unwrap();
        self.panics.run(1).id("panics").runtime(on()).checkpoint(store).enqueue().await.unwrap();
        self.number.run(1).id("undecodable").runtime(on()).checkpoint(store).enqueue().await.unwrap();
    }

    fn worker(&self, store: &FailingConnection, good: &CompiledGraph<State>) -> Worker {
        let migrations = pleach::durable::Migrations::new().accept_compatible();
        let is_bad = Arc::clone(&self.is_bad);
        Worker::new(store)
            .graph(good)
            .graph(&self.nan)
            .graph_with(&self.panics, move |run| {
                assert!(!is_bad.load(SeqCst), "{INJECTED}");
                run
            })
            .graph(&self.text)
            .graph_with(&self.new, move |run| run.migrations(&migrations))
            .accept_fingerprints([self.old.fingerprint()])
    }
}

/// Logs what happens to a run.
fn listen(events: &Log<String>) -> impl Fn(&WorkerEvent) + Send + Sync + 'static {
    let events = events.clone();
    move |event| match event {
        WorkerEvent::Delayed { run, reason, delay } => {
            assert!(!delay.is_zero());
            events.note(format!("{run} rests: {reason}"));
        }
        WorkerEvent::Stuck { run, reason } => events.note(format!("{run} is stuck: {reason}")),
        WorkerEvent::Ended { run, end: RunEnd::Trouble { error, .. } } => events.note(format!("{run} ended: {error}")),
        _ => {}
    }
}

#[test]
fn c13_undrivable_runs_do_not_starve_good_ones() {
    explore(0..40, |sim| {
        let (shared, bad) = (SharedRuns::new(sim), Bad::new());
        let good = five(&shared);
        let events = Log::new();
        let connection = FailingConnection::new(shared.store.clone());
        sim.run(async {
            bad.enqueue(sim, &shared.store).await;
            sim.sleep(Duration::from_secs(10)).await;
            let worker =
                bad.worker(&connection, &good).limit(4).on_event(listen(&events)).runtime(sim.runtime()).start().unwrap();
            enqueue(&shared, &good, 8).await;
            let began = sim.now();
            all_finish(&shared, 8).await;
            assert!(sim.now().since(began) < Duration::from_secs(30), "good runs waited for bad ones");
            sim.sleep(Duration::from_secs(600)).await;
            let stuck = shared.store.list(vec![Filter::Status(RunStatus::Stuck)], None, 10).await.unwrap();
            assert_eq!(stuck.runs.len(), 4);
            for (run, why) in BAD {
                let info = shared.store.head(run).await.unwrap();
                assert!(info.owner.is_none() && info.trouble.as_ref().is_some_and(|trouble| trouble.contains(why)), "{info:?}");
                let lines: Vec<String> = events.seen().into_iter().filter(|event| event.starts_with(run)).collect();
                let count = |what: &str| lines.iter().filter(|event| event.contains(what) && event.contains(why)).count();
                assert_eq!((count("ended: "), count("rests: "), count("is stuck: ")), (5, 4, 1), "{lines:#?}");
            }
            // Once the cause is repaired, a takeover frees them.
            bad.is_bad.store(false, SeqCst);
            let on = || sim.runtime();
            let error = bad.nan.resume("nan").checkpoint(&shared.store).runtime(on()).await.unwrap_err();
            assert!(error.to_string().contains("deserialize to an equal value"), "{error}");
            assert_eq!(bad.nan.resume("nan").take_over().checkpoint(&shared.store).runtime(on()).await.unwrap(), 1.0);
            assert_eq!(bad.old.resume("mismatch").take_over().checkpoint(&shared.store).runtime(on()).await.unwrap(), 1);
            assert_eq!(bad.panics.resume("panics").take_over().checkpoint(&shared.store).runtime(on()).await.unwrap(), 1);
            assert_eq!(bad.number.resume("undecodable").take_over().checkpoint(&shared.store).runtime(on()).await.unwrap(), 1);
            assert_eq!(worker.close(Duration::from_secs(5)).await, Vec::<String>::new());
        });
    });
}

#[test]
fn c13_run_repaired_while_it_rests_continues() {
    let sim = Sim::new(1);
    let (shared, bad) = (SharedRuns::new(&sim), Bad::new());
    let connection = FailingConnection::new(shared.store.clone());
    let worker = bad.worker(&connection, &five(&shared)).limit(1).runtime(sim.runtime()).start().unwrap();
    sim.run(async {
        bad.enqueue(&sim, &shared.store).await;
        // Within the third rest.
        sim.sleep(Duration::from_secs(12)).await;
        bad.is_bad.store(false, SeqCst);
        sim.sleep(Duration::from_secs(600)).await;
        for (run, status) in [("nan", RunStatus::Finished), ("panics", RunStatus::Finished), ("mismatch", RunStatus::Stuck)] {
            assert_eq!(shared.store.head(run).await.unwrap().status, status, "{run}");
        }
        let info = shared.store.head("nan").await.unwrap();
        assert_eq!((info.takeovers, info.trouble), (0, None), "a commit clears the count");
        drop(worker);
    });
}

#[test]
fn c13_message_wakes_a_resting_run() {
    let sim = Sim::new(1);
    let (shared, bad) = (SharedRuns::new(&sim), Bad::new());
    let connection = FailingConnection::new(shared.store.clone());
    let worker = bad.worker(&connection, &five(&shared)).runtime(sim.runtime()).start().unwrap();
    sim.run(async {
        bad.nan.run(1.0).id("nan").runtime(sim.runtime()).checkpoint(&shared.store).enqueue().await.unwrap();
        sim.sleep(Duration::from_secs(12)).await;
        bad.is_bad.store(false, SeqCst);
        RunRemote::new(&shared.store, "nan").signal("go", &()).await.unwrap();
        sim.sleep(Duration::from_secs(2)).await;
        assert_eq!(shared.store.head("nan").await.unwrap().status, RunStatus::Finished);
        drop(worker);
    });
}

#[test]
fn c13_store_outages_never_count_against_a_run() {
    explore(0..20, |sim| {
        let shared = SharedRuns::new(sim);
        let graph = five(&shared);
        let connection = FailingConnection::new(shared.store.clone());
        let starts = Arc::new(AtomicU32::new(0));
        let (counted, blamed) = (Arc::clone(&starts), Log::new());
        let blame = blamed.clone();
        let listen = move |event: &WorkerEvent| {
            if let WorkerEvent::Ended { end: RunEnd::Trouble { .. }, .. } = event {
                counted.fetch_add(1, SeqCst);
            }
            // A panic in this listener would not be seen, so log it.
            if matches!(event, WorkerEvent::Delayed { .. } | WorkerEvent::Stuck { .. }) {
                blame.note(format!("{event:?}"));
            }
        };
        let worker = Worker::new(&connection).graph(&graph).limit(2).lease(Duration::from_secs(2)).on_event(listen);
        let worker = worker.runtime(sim.runtime()).start().unwrap();
        sim.run(async {
            enqueue(&shared, &graph, 2).await;
            for _ in 0..10 {
                sim.sleep(Duration::from_millis(200 + sim.runtime().random() % 300)).await;
                match sim.runtime().random() % 3 {
                    0 => connection.cut(),
                    1 => connection.disconnect(),
                    _ => connection.refuse_commits(),
                }
                sim.sleep(Duration::from_secs(4)).await;
                connection.mend();
            }
            all_finish(&shared, 2).await;
            drop(worker);
        });
        assert!(starts.load(SeqCst) >= 2, "some runs ended with trouble");
        assert_eq!(blamed.seen(), Vec::<String>::new());
    });
}
