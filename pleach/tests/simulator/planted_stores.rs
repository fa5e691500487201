//! A planted bug of each class of faults in stores is found within 1,000 seeds, made small, and
//! replayed. The program without the bug passes with the same faults.

use pleach::prelude::*;
use pleach::sim::{Exploration, FaultKind, Faults, Sim};
use pleach::store::{RunStatus, StoreError};
use std::sync::Arc;

/// Checks that the bug is found with these faults, that few of this kind are enough, that the
/// failure replays, and that the repaired program passes.
fn is_found(kind: FaultKind, faults: impl Into<Faults>, test: impl Fn(&Sim, bool)) {
    let exploration = Exploration::new(0..1_000).faults(faults);
    let found = exploration.clone().first_failure(|sim| test(sim, true));
    let found = found.unwrap_or_else(|| panic!("the bug that {kind} shows is found within 1,000 seeds"));
    assert!(found.needed.len() == 1 && found.needed[0].kind == kind, "{found}");
    assert!(found.replay(|sim| test(sim, true)));
    exploration.run(|sim| test(sim, false));
}

fn graph() -> CompiledGraph<u32> {
    let graph = Graph::<u32>::new("order").add_node("pay", |n: u32| async move { Ok::<_, String>(n) });
    graph.add_edge("pay", END).set_entry("pay").compile().unwrap()
}

/// Enqueues an order. A program with the bug repeats it under a new id after an error.
fn order_is_repeated(sim: &Sim, has_bug: bool) {
    let kept = Arc::new(MemoryStore::on(sim.runtime()));
    let store = sim.store(Arc::clone(&kept));
    let graph = graph();
    let orders = sim.run(async {
        for order in 0..5 {
            for attempt in 0..30 {
                let id = if has_bug { format!("order-{order}-{attempt}") } else { format!("order-{order}") };
                let enqueued = graph.run(5).id(id).runtime(sim.runtime()).checkpoint(&store).enqueue().await;
                let is_stored = enqueued.is_ok();
                // Another run with the id is this order: it was created before its answer was lost.
                if is_stored || (!has_bug && kept.head(&format!("order-{order}")).await.is_ok()) {
                    break;
                }
            }
        }
        kept.list(Vec::new(), None, 1_000).await.unwrap().runs.len()
    });
    assert_eq!(orders, 5);
}

/// Deletes five old runs, and counts them as deleted. With the bug it ignores errors.
fn old_runs_are_deleted(sim: &Sim, has_bug: bool) {
    let kept = Arc::new(MemoryStore::on(sim.runtime()));
    let store = sim.store(Arc::clone(&kept));
    let left = sim.run(async {
        for id in ["a", "b", "c", "d", "e"] {
            graph().run(5).id(id).runtime(sim.runtime()).checkpoint(&*kept).enqueue().await.unwrap();
            loop {
                match store.delete(id).await {
                    Ok(()) | Err(StoreError::RunNotFound { .. }) => break,
                    Err(_) if has_bug => break,
                    Err(_) => sim.sleep(Duration::from_secs(1)).await,
                }
            }
        }
        kept.list(Vec::new(), None, 10).await.unwrap().runs.len()
    });
    assert_eq!(left, 0);
}

/// A page of runs must be shown within two seconds. Without the bug, a slow store gives a page that
/// says so.
fn page_is_shown(sim: &Sim, has_bug: bool) {
    let store = sim.store(MemoryStore::on(sim.runtime()));
    let running = vec![pleach::store::Filter::Status(RunStatus::Running)];
    sim.run(async {
        for _ in 0..10 {
            let before = sim.now();
            let limit = if has_bug { Duration::from_secs(3_600) } else { Duration::from_secs(1) };
            let page = sim.timeout(limit, store.list(running.clone(), None, 10)).await;
            drop(page);
            assert!(sim.now().since(before) < Duration::from_secs(2), "the page is late");
        }
    });
}

#[test]
fn d5_planted_bug_shown_by_lost_answers_is_found() {
    is_found(FaultKind::AnswerLost, [FaultKind::AnswerLost.rate(0.05), FaultKind::StoreFails.rate(0.1)], order_is_repeated);
}

#[test]
fn d5_planted_bug_shown_by_failing_stores_is_found() {
    is_found(FaultKind::StoreFails, [FaultKind::StoreFails.rate(0.02), FaultKind::AnswerLost.rate(0.2)], old_runs_are_deleted);
}

#[test]
fn d5_planted_bug_shown_by_slow_stores_is_found() {
    is_found(FaultKind::StoreSlow, FaultKind::StoreSlow.rate(0.02).up_to(Duration::from_secs(9)), page_is_shown);
}
