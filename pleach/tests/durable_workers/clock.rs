//! C12, C16: a driver follows the clock of the store, also after its machine was suspended and its
//! own clock stood still.
use crate::common::Log;
use crate::common::process::Process;
use crate::common::slow_store::SlowStore;
use pleach::graph::{Policy, Retry, RunOptions};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::store::{MemoryStore, RunStatus, Store};
use pleach::worker::Worker;
use std::future::Future;
use std::sync::Arc;

const HOUR: Duration = Duration::from_secs(60 * 60);
const LEASE: Duration = Duration::from_secs(8);

/// A graph with one node, which is retried after two hours.
fn one<F>(node: impl Fn(NodeContext) -> F + Send + Sync + 'static) -> CompiledGraph<u32>
where
    F: Future<Output = Result<(), String>> + Send + 'static,
{
    let node = move |cx: NodeContext, n: u32| {
        let done = node(cx);
        async move { done.await.map(|()| n + 1) }
    };
    let retried = Policy::new().retry(Retry::times(2).backoff(HOUR * 2, HOUR * 2));
    let graph = Graph::new("one").add_node("node", node).policy("node", retried);
    graph.add_edge("node", END).set_entry("node").compile().unwrap()
}

/// A node that sleeps for two hours.
fn sleeper() -> CompiledGraph<u32> {
    one(|cx| async move {
        cx.sleep("rest", HOUR * 2).await;
        Ok(())
    })
}

struct Suspended {
    sim: Sim,
    store: MemoryStore,
    process: Process,
}

impl Suspended {
    fn new() -> Self {
        let sim = Sim::new(1);
        let store = MemoryStore::on(sim.runtime());
        let process = Process::new(sim.runtime());
        Self { sim, store, process }
    }

    /// The outcome of a run whose machine is suspended after ten seconds, for an hour.
    fn end(
        &self,
        graph: &CompiledGraph<u32>,
        how: impl FnOnce(RunOptions<'static, u32>) -> RunOptions<'static, u32>,
    ) -> Result<u32, RunError<u32>> {
        let run = how(graph.run(0).id("r").checkpoint(&self.store).lease(LEASE)).runtime(self.process.runtime());
        let suspend = async {
            self.sim.sleep(Duration::from_secs(10)).await;
            self.process.suspend(HOUR).await;
        };
        self.sim.run(futures::future::join(self.process.task(run.into_future()), suspend)).0
    }

    /// Whether it took two hours. The driver notices at its next renewal that its clock stood
    /// still.
    fn took_two_hours(&self) -> bool {
        let took = self.sim.now().since_start();
        (HOUR * 2..HOUR * 2 + LEASE).contains(&took)
    }
}

#[test]
fn c12_sleep_counts_the_time_of_a_suspended_machine() {
    let world = Suspended::new();
    assert_eq!(world.end(&sleeper(), |run| run).unwrap(), 1);
    assert!(world.took_two_hours(), "{:?}", world.sim.now());
}

#[test]
fn c12_backoff_counts_the_time_of_a_suspended_machine() {
    let world = Suspended::new();
    let graph = one(|cx| {
        let attempt = cx.attempt();
        async move { if attempt == 1 { Err("once".to_string()) } else { Ok(()) } }
    });
    assert_eq!(world.end(&graph, |run| run).unwrap(), 1);
    assert!(world.took_two_hours(), "{:?}", world.sim.now());
}

#[test]
fn c12_worker_run_sleeps_by_the_clock_of_the_store() {
    let world = Suspended::new();
    let graph = sleeper();
    let worker =
        Worker::new(&world.store).graph(&graph).lease(LEASE).hold_waiting_for(HOUR * 24).runtime(world.process.runtime());
    let worker = worker.start().unwrap();
    world.sim.run(async {
        graph.run(0).id("r").runtime(world.sim.runtime()).checkpoint(&world.store).enqueue().await.unwrap();
        world.sim.sleep(Duration::from_secs(10)).await;
        world.process.suspend(HOUR).await;
        assert_eq!(graph.outcome_of("r", &world.store).runtime(world.sim.runtime()).await.unwrap(), 1);
    });
    let took = world.sim.now().since_start();
    assert!(took < HOUR * 2 + LEASE * 2, "{took:?}");
    world.sim.run(worker.close(Duration::ZERO));
}

#[test]
fn c16_deadline_counts_the_time_of_a_suspended_machine() {
    let world = Suspended::new();
    let graph = one(|_| std::future::pending());
    let error = world.end(&graph, |run| run.timeout(HOUR * 2)).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Cancelled { cause: Cause::DeadlineExceeded, .. }), "{error}");
    assert!(world.took_two_hours(), "{:?}", world.sim.now());
    // The run is cancelled permanently, not only for this driver.
    assert_eq!(world.sim.run(async { world.store.head("r").await }).unwrap().status, RunStatus::Cancelled);
}

#[test]
fn c12_driver_is_never_ahead_of_the_clock_of_a_slow_store() {
    explore(0..100, |sim| {
        let store = SlowStore::new(MemoryStore::on(sim.runtime()), sim.runtime(), Duration::from_millis(500));
        let (clock, early_reads) = (sim.runtime(), Log::new());
        let seen = early_reads.clone();
        let graph = one(move |cx| {
            let (clock, seen) = (Arc::clone(&clock), seen.clone());
            async move {
                for step in 0..5 {
                    let now = cx.now().duration_since(std::time::UNIX_EPOCH).unwrap();
                    // The store rounds up to milliseconds.
                    if now >= clock.now().since_start() + Duration::from_millis(2) {
                        seen.push((now, clock.now()));
                    }
                    cx.sleep(format!("rest {step}"), Duration::from_secs(3)).await;
                }
                Ok(())
            }
        });
        let run = graph.run(0).id("r").checkpoint(&store).lease(LEASE).runtime(sim.runtime());
        assert_eq!(sim.run(run.into_future()).unwrap(), 1);
        assert_eq!(early_reads.take(), []);
    });
}
