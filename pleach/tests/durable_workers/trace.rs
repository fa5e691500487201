//! D4: one seed gives one trace, also with workers, stored runs, waits for outcomes and sleeping
//! nodes.
use crate::common::shared_runs::{LEASE, SharedRuns, State, all_finish, enqueue, five};
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::store::{Lease, Store, Wanted};
use pleach::worker::Worker;
use std::sync::Arc;
use std::time::SystemTime;

/// Runs a program ten times per seed and compares the traces.
fn check_one_trace(program: impl Fn(&Sim)) {
    let trace = |seed| {
        let sim = Sim::recording(seed);
        program(&sim);
        (sim.trace(), sim.trace_hash())
    };
    for seed in 0..5 {
        let first = trace(seed);
        assert!(first.0.lines().count() > 10, "the trace is not empty");
        for _ in 0..9 {
            assert!(trace(seed) == first, "seed {seed} gave two traces");
        }
    }
}

#[test]
fn d4_waiting_for_many_outcomes_is_deterministic() {
    check_one_trace(|sim| {
        let shared = SharedRuns::new(sim);
        let graph = five(&shared);
        let scope = sim.scope();
        sim.run(enqueue(&shared, &graph, 8));
        for run in 0..8 {
            let outcome = graph.outcome_of(format!("run {run}"), &shared.store).runtime(sim.runtime());
            scope.launch(async move { assert_eq!(outcome.await.unwrap().len(), 5) }).unwrap();
        }
        let worker = Worker::new(&shared.store).graph(&graph).limit(4).runtime(sim.runtime()).start().unwrap();
        sim.run(scope.wait_all()).unwrap();
        drop(worker);
    });
}

#[test]
fn d4_losing_many_runs_at_once_is_deterministic() {
    check_one_trace(|sim| {
        let shared = SharedRuns::new(sim);
        let clock = Arc::clone(&shared.clock);
        let slow = move |_: NodeContext, mut state: State| {
            let clock = Arc::clone(&clock);
            async move {
                clock.sleep_until(clock.now() + Duration::from_secs(60)).await;
                state.push("done".to_string());
                Ok::<_, String>(state)
            }
        };
        let graph = Graph::new("slow").add_node("slow", slow).add_edge("slow", END).set_entry("slow").compile().unwrap();
        let worker = Worker::new(&shared.store).graph(&graph).lease(LEASE).runtime(sim.runtime()).start().unwrap();
        sim.run(async {
            enqueue(&shared, &graph, 8).await;
            sim.sleep(Duration::from_secs(3)).await;
            for run in 0..8 {
                let lease = Lease { owner: "other owner".to_string(), length: LEASE };
                shared.store.claim(Wanted::One { run: format!("run {run}"), force: true }, lease).await.unwrap();
            }
            all_finish(&shared, 8).await;
        });
        drop(worker);
    });
}

/// A node that sleeps twice until the next quarter of a second.
fn sleeping() -> CompiledGraph<Vec<u64>> {
    let node = async |cx: NodeContext, mut seen: Vec<u64>| {
        for key in ["one", "two"] {
            let now = cx.now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
            seen.push(now.as_millis() as u64);
            cx.sleep_until(key, cx.now() + Duration::from_millis(250 - u64::from(now.subsec_millis()) % 250)).await;
            cx.sleep(format!("after {key}"), Duration::from_micros(1_234)).await;
        }
        Ok::<_, String>(seen)
    };
    Graph::new("sleeping").add_node("sleep", node).add_edge("sleep", END).set_entry("sleep").compile().unwrap()
}

#[test]
fn d4_sleeping_nodes_are_deterministic() {
    let graph = sleeping();
    check_one_trace(|sim| {
        let shared = SharedRuns::new(sim);
        let runs = (0..20).map(|run| {
            let run = graph.run(Vec::new()).id(format!("run {run}")).runtime(sim.runtime());
            async { run.await.unwrap() }
        });
        let stored = graph.run(Vec::new()).id("stored").runtime(sim.runtime()).checkpoint(&shared.store);
        let (seen, stored) = sim.run(async {
            sim.sleep(Duration::from_micros(1_700)).await;
            (futures::future::join_all(runs).await, stored.await.unwrap())
        });
        seen.into_iter().chain([stored]).flatten().for_each(|at| sim.mix_into_trace(at));
    });
}
