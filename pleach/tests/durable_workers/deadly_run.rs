//! C13: a run that kills its process each time, among runs that do not.
use crate::common::Log;
use crate::common::failing_connection::FailingConnection;
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::sim::{Sim, explore};
use pleach::store::{Filter, Lease, MemoryStore, RunStatus, Store, Wanted};
use pleach::worker::Worker;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

const LEASE: Duration = Duration::from_secs(8);
const RUNS: usize = 8;

/// The store connection of the live process, and whether that process has died since.
#[derive(Clone, Default)]
struct Process {
    connection: Arc<Mutex<Option<FailingConnection>>>,
    is_dead: Arc<AtomicBool>,
}

impl Process {
    fn start(&self, store: &MemoryStore) -> FailingConnection {
        let connection = FailingConnection::new(store.clone());
        *self.connection.lock().unwrap() = Some(connection.clone());
        self.is_dead.store(false, SeqCst);
        connection
    }

    fn die(&self) {
        self.connection.lock().unwrap().iter().for_each(FailingConnection::kill);
        self.is_dead.store(true, SeqCst);
    }
}

/// One node of five seconds. Run `run 0` kills its process at once.
fn graph(process: &Process, clock: Arc<dyn Runtime>) -> CompiledGraph<u32> {
    let process = process.clone();
    let node = move |cx: NodeContext, state: u32| {
        let (process, clock) = (process.clone(), Arc::clone(&clock));
        async move {
            if cx.run_id() == "run 0" {
                process.die();
                std::future::pending::<()>().await;
            }
            clock.sleep_until(clock.now() + Duration::from_secs(5)).await;
            Ok::<_, String>(state + 1)
        }
    };
    Graph::new("deadly").add_node("node", node).add_edge("node", END).set_entry("node").compile().unwrap()
}

#[test]
fn c13_run_that_kills_its_process_makes_no_other_run_stuck() {
    explore(0..10, |sim| {
        let (store, process) = (MemoryStore::on(sim.runtime()), Process::default());
        let graph = graph(&process, sim.runtime());
        sim.run(async {
            for run in 0..RUNS {
                graph.run(1).id(format!("run {run}")).runtime(sim.runtime()).checkpoint(&store).enqueue().await.unwrap();
            }
            for _ in 0..20 {
                let connection = process.start(&store);
                let worker = Worker::new(&connection).graph(&graph).lease(LEASE).runtime(sim.runtime()).start().unwrap();
                for _ in 0..100 {
                    sim.sleep(Duration::from_secs(1)).await;
                    if process.is_dead.load(SeqCst) {
                        break;
                    }
                }
                drop(worker);
            }
            let of = async |status| store.list(vec![Filter::Status(status)], None, 100).await.unwrap().runs;
            let stuck = of(RunStatus::Stuck).await;
            assert_eq!(stuck.iter().map(|run| run.id.as_str()).collect::<Vec<_>>(), ["run 0"]);
            assert_eq!(of(RunStatus::Finished).await.len(), RUNS - 1);
        });
    });
}

/// Lets the first runs be taken over twice each, so that they become suspects.
async fn make_suspects(sim: &Sim, store: &MemoryStore, count: usize) {
    for time in 0..3 {
        for run in 0..count {
            let wanted = Wanted::One { run: format!("run {run}"), force: false };
            let lease = Lease { owner: format!("owner {time}"), length: Duration::from_millis(10) };
            store.claim(wanted, lease).await.unwrap();
        }
        sim.sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn c13_other_runs_do_not_wait_for_suspects_and_all_are_released() {
    explore(0..10, |sim| {
        let store = MemoryStore::on(sim.runtime());
        let connection = FailingConnection::new(store.clone()).slow_releases(sim.runtime(), Duration::from_secs(1));
        let started = Log::new();
        let seen = started.clone();
        let node = move |cx: NodeContext, _: u32| {
            seen.note(cx.run_id());
            std::future::pending::<Result<u32, String>>()
        };
        let graph = Graph::new("still").add_node("node", node).add_edge("node", END).set_entry("node").compile().unwrap();
        sim.run(async {
            for run in 0..RUNS {
                graph.run(1).id(format!("run {run}")).runtime(sim.runtime()).checkpoint(&store).enqueue().await.unwrap();
            }
            make_suspects(sim, &store, 4).await;
            let worker = Worker::new(&connection).graph(&graph).lease(LEASE).runtime(sim.runtime()).start().unwrap();
            // Meanwhile the suspects are being released.
            sim.sleep(Duration::from_millis(500)).await;
            let mut others = started.take();
            others.sort_unstable();
            assert_eq!(others, ["run 4", "run 5", "run 6", "run 7"]);
            drop(worker);
            sim.sleep(Duration::from_secs(2)).await;
            for run in store.list(Vec::new(), None, 100).await.unwrap().runs {
                assert_eq!(run.owner, None, "{run:?}");
            }
        });
    });
}
