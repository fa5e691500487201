//! C4: no effect begins after its driver has released the run, although the old lease would have
//! lasted longer.
use crate::common::side_effects::{SideEffects, dropped_after, side_effects, with};
use pleach::graph::RunOptions;
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::sim::Sim;
use pleach::store::MemoryStore;
use std::sync::Arc;

/// With the first driver, the effect starts 20 ms later in a task that outlives the node, and the
/// node never ends. Later drivers pay at once.
async fn pay(cx: NodeContext, n: u32) -> Result<u32, String> {
    let outside = side_effects(&cx);
    let is_first = outside.count("entered") == 0;
    outside.happen("entered");
    let paid = outside.clone();
    let pay = cx.effect("pay", move |_| async move {
        paid.happen("pay");
        Ok::<_, String>(1)
    });
    if !is_first {
        return Ok(n + pay.await?);
    }
    let clock = cx.extension::<Arc<dyn Runtime>>().unwrap().clone();
    let late = clock.sleep_until(clock.now() + Duration::from_millis(20));
    let task = Box::pin(async move {
        late.await;
        outside.happen("late");
        drop(pay.await);
    });
    clock.spawn(task);
    std::future::pending().await
}

fn paying() -> CompiledGraph<u32> {
    Graph::new("paying").add_node("pay", pay).add_edge("pay", END).set_entry("pay").compile().unwrap()
}

/// The same graph inside a subgraph.
fn around(inner: CompiledGraph<u32>) -> CompiledGraph<u32> {
    let graph = Graph::new("around").add_subgraph("sub", inner, |n| *n, |_, n| n);
    graph.add_edge("sub", END).set_entry("sub").compile().unwrap()
}

/// The first driver ends after 10 ms by `leave`. Then a second driver finishes the run.
fn check_only_second_driver_pays(leave: impl Fn(&Sim, RunOptions<'static, u32>)) {
    for graph in [paying(), around(paying())] {
        let (sim, outside) = (Sim::new(1), SideEffects::default());
        let store = MemoryStore::on(sim.runtime());
        leave(&sim, with(&sim, &outside, graph.run(0).id("r").checkpoint(&store)));
        assert_eq!(sim.run(with(&sim, &outside, graph.resume("r").checkpoint(&store)).into_future()).unwrap(), 1);
        sim.run(sim.sleep(Duration::from_secs(1)));
        assert_eq!(outside.count("late"), 1);
        assert_eq!(outside.count("pay"), 1, "{:?}", outside.all());
    }
}

#[test]
fn c4_dropped_run_begins_no_effect_after_its_release() {
    check_only_second_driver_pays(|sim, run| assert!(dropped_after(sim, run, 10).is_none()));
}

#[test]
fn c4_cancelled_run_begins_no_effect_after_its_release() {
    check_only_second_driver_pays(|sim, run| {
        let error = sim.run(run.token(&sim.token().child_for(Duration::from_millis(10))).into_future()).unwrap_err();
        assert!(matches!(error.fault(), RunFault::Cancelled { .. }), "{error}");
    });
}
