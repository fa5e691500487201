//! Faults in a store: operations that fail, take long or lose their answer.

use pleach::prelude::*;
use pleach::sim::{Exploration, FaultKind, Sim};
use pleach::store::StoreError;
use pleach::worker::Worker;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

fn doubling() -> CompiledGraph<u32> {
    let graph = Graph::<u32>::new("double").add_node("double", |n: u32| async move { Ok::<_, String>(n * 2) });
    graph.add_edge("double", END).set_entry("double").compile().unwrap()
}

/// Enqueues one run, and deletes it through a store with this fault. Returns the answer, whether
/// the run is gone, and how long the call took.
fn delete_with(kind: FaultKind) -> (Result<(), StoreError>, bool, Duration) {
    let sim = Sim::new(5);
    sim.inject(kind.nth(1).on("delete").up_to(Duration::from_secs(8)));
    let kept = Arc::new(MemoryStore::on(sim.runtime()));
    let store = sim.store(Arc::clone(&kept));
    sim.run(async {
        doubling().run(1).id("a").runtime(sim.runtime()).checkpoint(&store).enqueue().await.unwrap();
        let answer = store.delete("a").await;
        let is_gone = kept.head("a").await.is_err();
        (answer, is_gone, sim.now().since_start())
    })
}

#[test]
fn d5_store_operation_fails_is_slow_or_loses_its_answer() {
    let (answer, is_gone, time) = delete_with(FaultKind::StoreFails);
    assert!(matches!(&answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    let text = answer.unwrap_err().to_string();
    assert!(text.contains("injected fault store-fails at delete, operation 1"), "{text}");
    assert_eq!((is_gone, time), (false, Duration::ZERO));

    let (answer, is_gone, _) = delete_with(FaultKind::AnswerLost);
    assert!(matches!(answer, Err(StoreError::Unavailable(_))) && is_gone);

    let (answer, is_gone, time) = delete_with(FaultKind::StoreSlow);
    assert!(answer.is_ok() && is_gone);
    assert!(time > Duration::ZERO && time <= Duration::from_secs(8), "{time:?}");
}

#[test]
fn d5_error_of_the_store_itself_is_passed_on() {
    let sim = Sim::new(1);
    sim.inject(FaultKind::AnswerLost.rate(1.0));
    let store = sim.store(MemoryStore::on(sim.runtime()));
    let answer = sim.run(store.delete("none"));
    assert!(matches!(answer, Err(StoreError::RunNotFound { .. })), "{answer:?}");
}

#[test]
fn d5_durable_run_survives_all_faults_of_its_store() {
    let faults = [FaultKind::StoreFails, FaultKind::StoreSlow, FaultKind::AnswerLost].map(|kind| kind.rate(0.1));
    let injected = Cell::new(0);
    Exploration::new(0..300).faults(faults).run(|sim| {
        let (keys, graph) = charging();
        let kept = Arc::new(MemoryStore::on(sim.runtime()));
        let store = sim.store(Arc::clone(&kept));
        let outcome = sim.run(async {
            let run = graph.run(5).id("a").runtime(sim.runtime()).checkpoint(&*kept);
            run.enqueue().await.unwrap();
            let _worker = Worker::new(&store).graph(&graph).runtime(sim.runtime()).start().unwrap();
            graph.outcome_of("a", &*kept).runtime(sim.runtime()).await.unwrap()
        });
        assert_eq!(outcome, 6);
        assert_eq!(keys.lock().unwrap().len(), 1, "a repeated charge has the same key");
        injected.set(injected.get() + sim.injected().len());
    });
    assert!(injected.get() > 300, "{} faults were injected", injected.get());
}

#[test]
fn d5_actors_of_runs_and_workers_get_no_faults() {
    let graph = Graph::<u32>::new("nap").add_node("sleep", |cx: NodeContext, n: u32| async move {
        cx.sleep("a minute", Duration::from_secs(60)).await;
        Ok::<_, String>(n)
    });
    let graph = graph.add_edge("sleep", END).set_entry("sleep").compile().unwrap();
    Exploration::new(0..50).faults(FaultKind::CrashBefore.rate(1.0)).run(|sim| {
        let system = sim.system("shop");
        let store = MemoryStore::on(sim.runtime());
        sim.run(async {
            let run = graph.run(5).id("a").runtime(sim.runtime()).checkpoint(&store);
            run.enqueue().await.unwrap();
            let scope = system.scope("workers").unwrap();
            let worker = Worker::new(&store).graph(&graph).hold_waiting_for(Duration::from_secs(120)).start_in(&scope).unwrap();
            sim.sleep(Duration::from_secs(5)).await;
            let view = worker.run("a").unwrap().view().await.unwrap();
            assert_eq!(view.run, "a");
            assert_eq!(graph.outcome_of("a", &store).runtime(sim.runtime()).await.unwrap(), 5);
            worker.close(Duration::from_secs(60)).await;
        });
        assert_eq!(sim.injected(), []);
    });
}

/// A graph with one effect, and the idempotency keys with which it ran.
fn charging() -> (Arc<Mutex<BTreeSet<String>>>, CompiledGraph<u32>) {
    let keys = Arc::new(Mutex::new(BTreeSet::new()));
    let charged = Arc::clone(&keys);
    let charge = move |cx: NodeContext, cents: u32| {
        let charged = Arc::clone(&charged);
        async move {
            let charge = move |key: String| async move {
                charged.lock().unwrap().insert(key);
                Ok::<_, String>(cents)
            };
            cx.effect("charge", charge).await?;
            Ok::<_, pleach::BoxError>(cents + 1)
        }
    };
    let graph = Graph::<u32>::new("order").add_node("charge", charge).add_edge("charge", END).set_entry("charge");
    (keys, graph.compile().unwrap())
}
