//! C13: a run that stalls its own worker counts like one that is taken over by another worker.
use crate::common::Log;
use crate::common::process::Process;
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::store::{MemoryStore, RunStatus, Store};
use pleach::worker::{Worker, WorkerEvent};
use std::sync::Arc;

const LEASE: Duration = Duration::from_secs(8);

/// Stops the process of a worker.
type Stall = Arc<dyn Fn() + Send + Sync>;

/// A node that stops its process for longer than a lease whenever it starts, and never ends.
fn stalling() -> CompiledGraph<u32> {
    let node = |cx: NodeContext, n: u32| async move {
        cx.extension::<Stall>().unwrap()();
        std::future::pending::<()>().await;
        Ok::<_, String>(n)
    };
    Graph::new("stalling").add_node("node", node).add_edge("node", END).set_entry("node").compile().unwrap()
}

#[test]
fn c13_run_that_stalls_its_worker_counts_as_taken_over() {
    let (graph, mut claimed_again) = (stalling(), 0);
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let (store, process, claims) = (MemoryStore::on(sim.runtime()), Process::new(sim.runtime()), Log::new());
        let (stalled, outside) = (process.clone(), sim.runtime());
        let stall: Stall = Arc::new(move || {
            stalled.stop();
            let (stalled, until) = (stalled.clone(), outside.sleep_until(outside.now() + LEASE * 2));
            outside.spawn(Box::pin(async move {
                until.await;
                stalled.continue_now();
            }));
        });
        let seen = claims.clone();
        let worker = Worker::new(&store)
            .graph_with(&graph, move |run| run.extension(Arc::clone(&stall)))
            .lease(LEASE)
            .runtime(process.runtime())
            .on_event(move |event| {
                if let WorkerEvent::Claimed { epoch, .. } = event {
                    seen.push(*epoch);
                }
            })
            .start()
            .unwrap();
        sim.run(async {
            graph.run(0).id("r").runtime(sim.runtime()).checkpoint(&store).enqueue().await.unwrap();
            sim.sleep(LEASE * 100).await;
            let info = store.head("r").await.unwrap();
            // After a stall the worker has renewed the lease and continues, or has claimed the run
            // again.
            if claims.len() > 1 {
                claimed_again += 1;
                assert!(
                    info.takeovers > 0 || info.status == RunStatus::Stuck,
                    "seed {seed}: {} claims, {info:?}",
                    claims.len()
                );
            }
        });
        drop(worker);
    }
    assert!(claimed_again > 0);
}
