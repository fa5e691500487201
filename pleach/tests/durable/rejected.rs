//! C10, F5, F6, F12: lost stores, rejected results, and undos that ask for too much.
use crate::common::flaky_store::{FlakyStore, WriteFailure};
use crate::common::side_effects::{SideEffects, rest, side_effects, with};
use crate::{one, pass, sum};
use pleach::graph::{Compensation, FanOut, Hooks, Policy, Retry, RunEvent};
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::store::{MemoryStore, RunStatus, Store};

#[test]
fn c10_best_effort_run_survives_failed_renewals_and_reports_once() {
    let graph = one(
        |cx: NodeContext, n: u32| async move {
            rest(&cx, 100_000).await;
            Ok::<_, String>(n + 1)
        },
        Policy::new(),
    );
    let sim = Sim::new(1);
    let store = FlakyStore::new(MemoryStore::on(sim.runtime()));
    store.fail_renewals();
    let reports = SideEffects::default();
    let seen = reports.clone();
    let hooks = Hooks::new(move |event: &RunEvent<&u32>| {
        if let RunEvent::CheckpointsLost { .. } = event {
            seen.happen("lost");
            assert!(seen.count("lost") < 100);
        }
    });
    let run = with(&sim, &SideEffects::default(), graph.run(1).id("r").checkpoint(&store).best_effort().hooks(hooks));
    assert_eq!(sim.run(run.into_future()).unwrap(), 2);
    assert_eq!(reports.count("lost"), 1);
}

#[test]
fn c10_best_effort_run_without_its_store_pauses_when_it_waits() {
    let node = |cx: NodeContext, n: u32| async move { Ok::<_, String>(n + cx.interrupt::<u32>("k", "?").await) };
    let graph = Graph::new("g")
        .add_node("a", pass)
        .add_node("b", node)
        .add_edge("a", "b")
        .add_edge("b", END)
        .set_entry("a")
        .compile()
        .unwrap();
    for at in 2..5 {
        let sim = Sim::new(1);
        let store = FlakyStore::new(MemoryStore::on(sim.runtime()));
        store.fail_at(at, WriteFailure::Lost);
        let run = with(&sim, &SideEffects::default(), graph.run(1).id("r").checkpoint(&store).best_effort());
        let error = sim.run(run.into_future()).unwrap_err();
        assert!(matches!(error.fault(), RunFault::Paused { .. }), "{error}");
    }
}

#[test]
fn c10_oversized_result_fails_the_node_and_the_run_can_be_resumed() {
    let node = |cx: NodeContext, n: u32| async move {
        let attempt = cx.attempt();
        let text = cx
            .effect("big", move |_| async move { Ok::<_, String>(if attempt < 3 { "x".repeat(5000) } else { "y".into() }) })
            .await?;
        Ok::<_, String>(n + text.len() as u32)
    };
    for times in [1, 5] {
        for at in 2..6 {
            for fate in [WriteFailure::Lost, WriteFailure::Unanswered] {
                let graph = one(node, Policy::new().retry(Retry::times(times)));
                let sim = Sim::new(1);
                let store = FlakyStore::new(MemoryStore::on(sim.runtime()));
                store.fail_at(at, fate);
                let mut outcome = sim.run(
                    with(&sim, &SideEffects::default(), graph.run(1).id("r").checkpoint(&store).max_state_bytes(1000))
                        .into_future(),
                );
                for _ in 0..4 {
                    if let Err(error) = &outcome {
                        assert!(
                            !error.to_string().contains("damaged") && !error.to_string().contains("decode"),
                            "{times} {at}: {error}"
                        );
                        outcome = sim.run(
                            with(&sim, &SideEffects::default(), graph.resume("r").checkpoint(&store).max_state_bytes(1000))
                                .into_future(),
                        );
                    }
                }
                if times == 5 {
                    assert_eq!(outcome.unwrap(), 2);
                } else {
                    let e = outcome.unwrap_err();
                    assert!(matches!(e.fault(), RunFault::Node(_)), "{at} {e}");
                }
            }
        }
    }
}

#[test]
fn c10_rejected_visit_record_leaves_no_trace_in_the_frontier() {
    let big = |cx: NodeContext, n: u32| async move {
        let attempt = cx.attempt();
        let text = cx
            .effect("big", move |_| async move { Ok::<_, String>(if attempt < 3 { "x".repeat(5000) } else { "y".into() }) })
            .await?;
        rest(&cx, 100).await;
        Ok::<_, String>(n + text.len() as u32)
    };
    let turn = |cx: NodeContext, n: u32| async move {
        rest(&cx, 1).await;
        Ok::<_, String>(n + 1)
    };
    let graph = Graph::new("g")
        .add_node("s", pass)
        .add_node("a", big)
        .policy("a", Policy::new().retry(Retry::times(5)))
        .add_node("b", turn)
        .add_conditional_edge("b", ["b", END], |n: &u32| if *n < 20 { "b" } else { END })
        .add_parallel_edge("s", ["a", "b"], END, FanOut::merge(sum))
        .add_edge("a", END)
        .set_entry("s")
        .compile()
        .unwrap();
    for at in 2..24 {
        let sim = Sim::new(at);
        let (store, outside) = (FlakyStore::new(MemoryStore::on(sim.runtime())), SideEffects::default());
        store.fail_at(at, WriteFailure::Unanswered);
        let mut outcome =
            sim.run(with(&sim, &outside, graph.run(1).id("r").checkpoint(&store).max_state_bytes(1000)).into_future());
        if outcome.is_err() {
            outcome = sim.run(with(&sim, &outside, graph.resume("r").checkpoint(&store).max_state_bytes(1000)).into_future());
        }
        assert_eq!(outcome.unwrap(), 22, "{at}");
    }
}

#[test]
fn f12_undo_effects_resume_after_crash_with_separate_keys() {
    let graph = {
        let node = |cx: NodeContext, n: u32| async move {
            cx.record_undo(7u32);
            let outside = side_effects(&cx);
            cx.effect("money", move |key| async move {
                outside.happen(format!("did {key}"));
                Ok::<_, String>(())
            })
            .await?;
            Ok::<_, String>(n)
        };
        let undo = |cx: NodeContext, _: u32| async move {
            let outside = side_effects(&cx);
            cx.effect("money", move |key| async move {
                outside.happen(format!("undid {key}"));
                Ok::<_, String>(())
            })
            .await
        };
        Graph::new("g")
            .add_node("a", node)
            .compensate("a", undo)
            .add_edge("a", "b")
            .add_node("b", |cx: NodeContext, _: u32| async move {
                side_effects(&cx).happen("b ran");
                Err::<u32, _>("no")
            })
            .add_edge("b", END)
            .set_entry("a")
            .compile()
            .unwrap()
    };
    for at in 2..10 {
        for fate in [WriteFailure::Lost, WriteFailure::Unanswered] {
            let sim = Sim::new(at);
            let (store, outside) = (FlakyStore::new(MemoryStore::on(sim.runtime())), SideEffects::default());
            store.fail_at(at, fate);
            let mut error = sim.run(with(&sim, &outside, graph.run(1).id("r").checkpoint(&store)).into_future()).unwrap_err();
            let before = outside.count("b ran");
            let undoing = outside.count("undid") > 0;
            for _ in 0..3 {
                if sim.run(async { store.head("r").await }).unwrap().status == RunStatus::Compensated {
                    break;
                }
                error = sim.run(with(&sim, &outside, graph.resume("r").checkpoint(&store)).into_future()).unwrap_err();
            }
            assert_eq!(
                sim.run(async { store.head("r").await }).unwrap().status,
                RunStatus::Compensated,
                "{at} {fate:?} {error}"
            );
            if undoing {
                assert_eq!(outside.count("b ran"), before, "{at} {fate:?}: a node ran again: {:?}", outside.all());
            }
            let did = outside.all().iter().find(|w| w.starts_with("did")).unwrap()[4..].to_string();
            let undid = outside.all().iter().find(|w| w.starts_with("undid")).unwrap()[6..].to_string();
            assert_ne!(did, undid, "node and undo have different keys");
        }
    }
}

#[test]
fn f12_undo_that_waits_for_an_answer_fails() {
    for stored in [false, true] {
        let node = |cx: NodeContext, n: u32| async move {
            cx.record_undo(7u32);
            Ok::<_, String>(n)
        };
        let undo = |cx: NodeContext, _: u32| async move {
            cx.sleep("s", Duration::from_secs(5)).await;
            cx.interrupt::<bool>("sure", "?").await;
            Ok::<_, String>(())
        };
        let graph = Graph::new("g")
            .add_node("a", node)
            .compensate("a", undo)
            .add_edge("a", "b")
            .add_node("b", |_: u32| async { Err::<u32, _>("no") })
            .add_edge("b", END)
            .set_entry("a")
            .compile()
            .unwrap();
        let sim = Sim::new(1);
        let (store, outside) = (MemoryStore::on(sim.runtime()), SideEffects::default());
        let run = graph.run(1).id("r");
        let run = if stored { run.checkpoint(&store) } else { run };
        let error = sim.run(with(&sim, &outside, run).into_future()).unwrap_err();
        assert!(matches!(error.compensation(), Some(Compensation::CompensationFailed { node, .. }) if node == "a"), "{error}");
    }
}

#[test]
fn f5_run_cancelled_before_its_start_returns_its_state() {
    let graph = one(pass, Policy::new());
    let sim = Sim::new(1);
    let store = MemoryStore::on(sim.runtime());
    let token = sim.token();
    token.cancel(Cause::Because("enough".into()));
    let error =
        sim.run(graph.run(1).id("r").checkpoint(&store).token(&token).runtime(sim.runtime()).into_future()).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Cancelled { .. }));
    assert_eq!(error.into_state(), Some(1));
}

#[test]
fn f6_branch_whose_router_failed_counts_once() {
    // A router fails in a branch of a collecting fan-out. Then the run is resumed.
    let graph = Graph::new("g")
        .add_node("s", pass)
        .add_node("a", pass)
        .add_conditional_edge("a", ["j"], |_: &u32| "nowhere")
        .add_node("j", |cx: NodeContext, _: u32| async move { Ok::<_, String>(cx.iteration() as u32) })
        .add_parallel_edge("s", ["a"], "j", FanOut::collect(|n: u32, _| Ok::<_, String>(n)))
        .add_edge("j", END)
        .set_entry("s")
        .compile()
        .unwrap();
    let mut all = Vec::new();
    for at in 2..8 {
        let sim = Sim::new(1);
        let store = FlakyStore::new(MemoryStore::on(sim.runtime()));
        store.fail_at(at, WriteFailure::Unanswered);
        let outside = SideEffects::default();
        let mut outcome = sim.run(with(&sim, &outside, graph.run(1).id("r").checkpoint(&store)).into_future());
        while outcome.is_err() {
            outcome = sim.run(with(&sim, &outside, graph.resume("r").checkpoint(&store)).into_future());
        }
        all.push(outcome.unwrap());
    }
    assert!(all.iter().all(|n| *n == 3), "{all:?}");
}
