//! F12: undos of stored runs resume after a crash or a failure.
use crate::common::flaky_store::{FlakyStore, WriteFailure};
use crate::common::side_effects::{SideEffects, side_effects};
use pleach::graph::{Compensation, Hooks, RunEvent};
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::sim::Sim;
use pleach::store::{MemoryStore, RunStatus, Store};
use std::sync::{Arc, Mutex};

fn undoable() -> CompiledGraph<u32> {
    let node = |name: &'static str| {
        move |cx: NodeContext, n: u32| async move {
            let outside = side_effects(&cx);
            cx.record_undo(format!("{name} {n}"));
            let effect = cx.effect("do", move |_| async move {
                outside.happen(format!("did {name}"));
                Ok::<_, String>(())
            });
            effect.await?;
            if name == "c" { Err("no".to_string()) } else { Ok(n + 1) }
        }
    };
    let undo = |cx: NodeContext, what: String| async move {
        side_effects(&cx).happen(format!("undid {what}"));
        Ok::<_, String>(())
    };
    let mut graph = Graph::new("undoable").set_entry("a");
    for name in ["a", "b", "c"] {
        graph = graph.add_node(name, node(name)).compensate(name, undo);
    }
    graph.add_edge("a", "b").add_edge("b", "c").add_edge("c", END).compile().unwrap()
}

#[test]
fn f12_undos_of_a_stored_run_resume_after_a_crash() {
    let graph = undoable();
    let expected = ["undid c 2", "undid b 1", "undid a 0"];
    let mut crashes = 0;
    for at in 2..=14 {
        for fate in [WriteFailure::Lost, WriteFailure::Unanswered] {
            let sim = Sim::new(at);
            let store = FlakyStore::new(MemoryStore::on(sim.runtime()));
            let outside = SideEffects::default();
            store.fail_at(at, fate);
            let run = graph.run(0).id("r").checkpoint(&store).extension(outside.clone()).runtime(sim.runtime());
            let mut error = sim.run(run.into_future()).unwrap_err();
            for _ in 0..3 {
                let info = sim.run(async { store.head("r").await }).unwrap();
                if info.status == RunStatus::Compensated {
                    break;
                }
                crashes += 1;
                let resumed = graph.resume("r").checkpoint(&store).extension(outside.clone()).runtime(sim.runtime());
                error = sim.run(resumed.into_future()).unwrap_err();
            }
            let info = sim.run(async { store.head("r").await }).unwrap();
            assert_eq!(info.status, RunStatus::Compensated, "{at} {fate:?} {error}");
            let undone: Vec<String> = outside.all().into_iter().filter(|one| one.starts_with("undid")).collect();
            // An undo whose record was lost may run twice. The order is right and none is missing.
            let mut each = undone.clone();
            each.dedup();
            assert_eq!(each, expected, "{at} {fate:?}: {:?}", outside.all());
            assert!(undone.len() <= 4);
            assert!(outside.count("did") <= 4, "{:?}", outside.all());
            // A compensated run has ended.
            let resumed = graph.resume("r").checkpoint(&store).extension(outside.clone()).runtime(sim.runtime());
            let error = sim.run(resumed.into_future()).unwrap_err();
            assert!(matches!(error.fault(), RunFault::Ended { status: RunStatus::Compensated, .. }), "{error}");
        }
    }
    assert!(crashes > 15, "{crashes}");
}

#[test]
fn f12_waiting_driver_sees_a_run_that_another_one_compensated() {
    let graph = {
        let undo = |cx: NodeContext, what: String| async move {
            let clock = cx.extension::<Arc<dyn Runtime>>().unwrap().clone();
            clock.sleep_until(clock.now() + Duration::from_secs(3)).await;
            side_effects(&cx).happen(format!("undid {what}"));
            Ok::<_, String>(())
        };
        let done = |cx: NodeContext, n: u32| async move {
            cx.record_undo(format!("it {n}"));
            Ok::<_, String>(n)
        };
        let graph = Graph::new("g").add_node("a", done).compensate("a", undo).set_entry("a").add_edge("a", "b");
        graph.add_node("b", |_: u32| async { Err::<u32, _>("no") }).add_edge("b", END).compile().unwrap()
    };
    let sim = Sim::new(1);
    let (store, outside) = (MemoryStore::on(sim.runtime()), SideEffects::default());
    let with = |run: pleach::graph::RunOptions<'static, u32>| {
        let records = outside.clone();
        let hooks = Hooks::new(move |event: &RunEvent<&u32>| {
            if let RunEvent::Checkpointed { sequence, .. } = event {
                records.happen(format!("record {sequence}"));
            }
        });
        run.hooks(hooks).extension(outside.clone()).extension(sim.runtime()).runtime(sim.runtime())
    };
    let first = with(graph.run(1).id("r").checkpoint(&store)).into_future();
    sim.runtime().spawn(Box::pin(async move { drop(first.await) }));
    sim.advance(Duration::from_secs(1));
    let error = sim.run(with(graph.resume("r").checkpoint(&store)).into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Ended { status: RunStatus::Compensated, .. }), "{error}");
    assert_eq!(
        outside.all(),
        ["record 2", "record 3", "undid it 1", "record 4"],
        "each record is reported, also during the undos"
    );
    let info = sim.run(async { store.head("r").await }).unwrap();
    assert_eq!((info.head, info.status, info.owner), (4, RunStatus::Compensated, None));
}

#[test]
fn f12_resume_continues_after_a_failed_undo() {
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let (outside, broken) = (SideEffects::default(), Arc::new(Mutex::new(true)));
    let fails = Arc::clone(&broken);
    let graph_failing = {
        let undo = move |cx: NodeContext, what: String| {
            let fails = *fails.lock().unwrap();
            async move {
                if what.starts_with('b') && fails {
                    return Err("cannot".to_string());
                }
                side_effects(&cx).happen(format!("undid {what}"));
                Ok(())
            }
        };
        let node = |name: &'static str| {
            move |cx: NodeContext, n: u32| async move {
                cx.record_undo(format!("{name} {n}"));
                if name == "c" { Err("no".to_string()) } else { Ok(n + 1) }
            }
        };
        let mut graph = Graph::new("undoable").set_entry("a");
        for name in ["a", "b", "c"] {
            graph = graph.add_node(name, node(name)).compensate(name, undo.clone());
        }
        graph.add_edge("a", "b").add_edge("b", "c").add_edge("c", END).compile().unwrap()
    };
    let run = graph_failing.run(0).id("r").checkpoint(&store).extension(outside.clone()).runtime(sim.runtime());
    let error = sim.run(run.into_future()).unwrap_err();
    let Some(Compensation::CompensationFailed { node, left, .. }) = error.compensation() else { panic!("{error}") };
    assert_eq!((node.as_str(), left.as_slice()), ("b", ["a".to_string()].as_slice()));
    assert_eq!(sim.run(async { store.head("r").await }).unwrap().status, RunStatus::CompensationFailed);
    *broken.lock().unwrap() = false;
    let resumed = graph_failing.resume("r").checkpoint(&store).extension(outside.clone()).runtime(sim.runtime());
    let error = sim.run(resumed.into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Node(node) if node.node == "c"), "{error}");
    assert!(matches!(error.compensation(), Some(Compensation::Compensated { undone }) if *undone == ["b", "a"]), "{error}");
    assert_eq!(outside.all(), ["undid b 1", "undid a 0"]);
}

#[test]
fn f12_failure_that_cannot_be_stored_is_a_store_error_without_undos() {
    let graph = undoable();
    let sim = Sim::new(1);
    let store = FlakyStore::new(MemoryStore::on(sim.runtime()));
    let outside = SideEffects::default();
    // Writes: the start, three effects, two steps and the undo of the failed node; then the end,
    // which is lost.
    store.fail_at(7, WriteFailure::Lost);
    let run = graph.run(0).id("r").checkpoint(&store).extension(outside.clone()).runtime(sim.runtime());
    let error = sim.run(run.into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Checkpoint(_)), "{error}");
    assert_eq!((outside.count("undid"), error.compensation()), (0, None));
    let resumed = graph.resume("r").checkpoint(&store).extension(outside.clone()).runtime(sim.runtime());
    let error = sim.run(resumed.into_future()).unwrap_err();
    assert!(matches!(error.compensation(), Some(Compensation::Compensated { undone }) if undone.len() == 3), "{error}");
}
