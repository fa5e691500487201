//! C4, C9, C12, F6, F9: what a resumed run knows about its past.
use crate::common::flaky_store::{FlakyStore, WriteFailure};
use crate::common::side_effects::{SideEffects, rest, side_effects, with};
use crate::{one, pass, sum};
use pleach::durable::EffectError;
use pleach::graph::{FanOut, Policy, Retry};
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::store::{MemoryStore, NewMessage, RunStatus, Store};
use std::sync::Arc;

#[test]
fn c9_taken_signal_leaves_the_inbox_and_is_not_taken_again() {
    let node = |cx: NodeContext, n: u32| async move {
        let first = cx.signal::<u32>("go").await;
        Ok::<_, String>(n + first + cx.signal::<u32>("go").await)
    };
    let graph = one(node, Policy::new());
    let sim = Sim::new(1);
    let (store, outside) = (MemoryStore::on(sim.runtime()), SideEffects::default());
    let post = |payload: &'static [u8]| {
        sim.run(async { store.send_message("r", NewMessage::seal("r", "signal/go", None, payload.to_vec())).await }).unwrap();
    };
    let paused = sim.run(with(&sim, &outside, graph.run(0).id("r").checkpoint(&store)).into_future()).unwrap_err();
    assert!(matches!(paused.fault(), RunFault::Paused { .. }), "{paused}");
    post(b"1");
    for _ in 0..2 {
        let paused = sim.run(with(&sim, &outside, graph.resume("r").checkpoint(&store)).into_future()).unwrap_err();
        assert!(matches!(paused.fault(), RunFault::Paused { keys, .. } if *keys == ["go"]), "{paused}");
        assert_eq!(sim.run(async { store.inbox("r", 0).await }).unwrap().len(), 0);
    }
    post(b"20");
    assert_eq!(sim.run(with(&sim, &outside, graph.resume("r").checkpoint(&store)).into_future()).unwrap(), 21);
}

#[test]
fn c4_once_effect_is_not_called_again_by_a_retry() {
    let node = |cx: NodeContext, n: u32| async move {
        let outside = side_effects(&cx);
        let work = move |_| async move {
            outside.happen("called");
            Err::<u32, _>("timed out".to_string())
        };
        Ok::<_, String>(n + cx.effect("charge", work).once().await?)
    };
    let graph = one(node, Policy::new().retry(Retry::times(3)));
    for stored in [false, true] {
        let sim = Sim::new(1);
        let (store, outside) = (MemoryStore::on(sim.runtime()), SideEffects::default());
        let run = graph.run(0).id("r");
        let run = if stored { run.checkpoint(&store) } else { run };
        let error = sim.run(with(&sim, &outside, run).into_future()).unwrap_err();
        let RunFault::Node(node) = error.fault() else { panic!("{error}") };
        let source = std::error::Error::source(node).and_then(|source| source.downcast_ref::<EffectError>());
        assert!(matches!(source, Some(EffectError::EffectUnknown { .. })), "{error}");
        assert_eq!(outside.count("called"), 1, "stored: {stored}");
    }
}

#[test]
fn c12_sleeping_run_is_due_at_its_earliest_deadline() {
    let sleeps = |key: &'static str, seconds: u64| {
        move |cx: NodeContext, n: u32| async move {
            cx.sleep(key, Duration::from_secs(seconds)).await;
            Ok::<_, String>(n)
        }
    };
    let graph = Graph::new("g")
        .add_node("s", pass)
        .add_node("a", sleeps("a", 50))
        .add_node("b", sleeps("b", 500))
        .add_parallel_edge("s", ["a", "b"], END, FanOut::merge(sum))
        .add_edge("a", END)
        .add_edge("b", END)
        .set_entry("s")
        .compile()
        .unwrap();
    let sim = Sim::new(1);
    let (store, outside) = (MemoryStore::on(sim.runtime()), SideEffects::default());
    let run = with(&sim, &outside, graph.run(1).id("r").checkpoint(&store));
    assert!(crate::common::side_effects::dropped_after(&sim, run, 1000).is_none());
    sim.advance(Duration::from_millis(1));
    let info = sim.run(async { store.head("r").await }).unwrap();
    let due = info.wake_at.unwrap().since(info.created);
    assert_eq!((info.status, due), (RunStatus::Waiting, Duration::from_secs(50)));
}

#[test]
fn f6_router_that_runs_again_after_a_resume_is_not_a_visit() {
    let is_broken = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let broken = Arc::clone(&is_broken);
    let graph = Graph::new("g")
        .add_node("a", pass)
        .add_conditional_edge(
            "a",
            ["b"],
            move |_: &u32| if broken.load(std::sync::atomic::Ordering::SeqCst) { "?" } else { "b" },
        )
        .add_node("b", pass)
        .add_edge("b", "c")
        .add_node("c", |cx: NodeContext, _: u32| async move { Ok::<_, String>(cx.iteration() as u32) })
        .add_edge("c", END)
        .set_entry("a")
        .compile()
        .unwrap();
    let sim = Sim::new(1);
    let (store, outside) = (FlakyStore::new(MemoryStore::on(sim.runtime())), SideEffects::default());
    let error = sim.run(with(&sim, &outside, graph.run(1).id("r").checkpoint(&store)).into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Router(_)), "{error}");
    is_broken.store(false, std::sync::atomic::Ordering::SeqCst);
    // Stop it after the step of the router, so that the count is read from the store.
    store.fail_at(store.writes() + 1, WriteFailure::Unanswered);
    let error = sim.run(with(&sim, &outside, graph.resume("r").checkpoint(&store)).into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Checkpoint(_)), "{error}");
    assert_eq!(sim.run(with(&sim, &outside, graph.resume("r").checkpoint(&store)).into_future()).unwrap(), 3);
}

#[test]
fn f9_branch_that_failed_before_a_crash_fails_its_fan_out_after_it() {
    let node = |cx: NodeContext, n: u32| async move {
        side_effects(&cx).happen(format!("ran {n}"));
        rest(&cx, u64::from(n) * 10).await;
        if n == 1 { Err("no".to_string()) } else { Ok(n) }
    };
    let merge = FanOut::merge(sum).fail_fast(false);
    let graph = Graph::new("g")
        .add_node("s", pass)
        .map("s", |_: &u32| vec![1, 2, 3], "m", END, merge)
        .add_node("m", node)
        .add_edge("m", END)
        .set_entry("s")
        .compile()
        .unwrap();
    for (at, fate) in [(4, WriteFailure::Lost), (4, WriteFailure::Unanswered)] {
        let sim = Sim::new(1);
        let (store, outside) = (FlakyStore::new(MemoryStore::on(sim.runtime())), SideEffects::default());
        store.fail_at(at, fate);
        let error = sim.run(with(&sim, &outside, graph.run(0).id("r").checkpoint(&store)).into_future()).unwrap_err();
        assert!(matches!(error.fault(), RunFault::Checkpoint(_)), "{at} {fate:?} {error}");
        let outcome = sim.run(with(&sim, &outside, graph.resume("r").checkpoint(&store)).into_future());
        let error = outcome.expect_err("a branch had failed");
        assert!(matches!(error.fault(), RunFault::Node(node) if node.node == "m"), "{at} {fate:?} {error}");
        assert_eq!(outside.count("ran 1"), 1);
    }
}
