//! C5: a run continues from any of its records, and its last node can be replayed. Nothing is
//! deleted, and later visits have new keys.
use crate::common::stored::{Names, NodeControl, NodeFuture, StoredRunFixture, merge, named};
use pleach::durable::{Checkpoint, ResumeError};
use pleach::graph::Compensation;
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::store::{Kind, Place, RunStatus, StoreError};
use std::sync::Arc;

fn chain() -> CompiledGraph<Names> {
    Graph::new("chain")
        .add_node("a", named("a"))
        .add_node("b", named("b"))
        .add_node("c", named("c"))
        .add_edge("a", "b")
        .add_edge("b", "c")
        .add_edge("c", END)
        .set_entry("a")
        .compile()
        .unwrap()
}

/// before → (left, deep → (d1, d2) → d3, sub) → after.
fn wide() -> CompiledGraph<Names> {
    let inner = Graph::new("inner")
        .add_node("in1", named("in1"))
        .add_node("in2", named("in2"))
        .add_edge("in1", "in2")
        .add_edge("in2", END)
        .set_entry("in1")
        .compile()
        .unwrap();
    Graph::new("wide")
        .add_node("before", named("before"))
        .add_node("left", named("left"))
        .add_node("deep", named("deep"))
        .add_node("d1", named("d1"))
        .add_node("d2", named("d2"))
        .add_node("d3", named("d3"))
        .add_subgraph("sub", inner, Names::clone, |_, inner| inner)
        .add_node("after", named("after"))
        .add_parallel_edge("before", ["left", "deep", "sub"], "after", merge)
        .add_edge("left", "after")
        .add_parallel_edge("deep", ["d1", "d2"], "d3", merge)
        .add_edge("d1", "d3")
        .add_edge("d2", "d3")
        .add_edge("d3", "after")
        .add_edge("sub", "after")
        .add_edge("after", END)
        .set_entry("before")
        .compile()
        .unwrap()
}

const WIDE: [&str; 9] = ["before", "left", "deep", "d1", "d2", "d3", "in1", "in2", "after"];

fn store_error<S>(error: &RunError<S>) -> &StoreError {
    match error.fault() {
        RunFault::Checkpoint(error) => error.store_error().expect("a store error"),
        other => panic!("{other}"),
    }
}

#[test]
fn c5_rewound_run_continues_from_there_and_nothing_is_deleted() {
    let (fixture, graph) = (StoredRunFixture::new(1), chain());
    assert_eq!(fixture.end(fixture.run(&graph, vec![])).unwrap(), ["a", "b", "c"]);
    let (first, before) = (fixture.nodes.starts.take(), fixture.rows("r"));
    // After "a", as if "b" had not run.
    assert_eq!(fixture.end(fixture.resume(&graph, |run| run.rewind_to(2))).unwrap(), ["a", "b", "c"]);
    let again = fixture.nodes.starts.take();
    assert_eq!(again.iter().map(|(node, _)| node.as_str()).collect::<Vec<_>>(), ["b", "c"]);
    assert!(again.iter().all(|(_, key)| first.iter().all(|(_, old)| old != key)), "{first:?} {again:?}");
    let rows = fixture.rows("r");
    assert_eq!((&rows[..4], rows.len()), (&before[..], 7));
    let info = fixture.info("r");
    assert_eq!((info.status, info.lease_until), (RunStatus::Finished, None));
    let history = fixture.history(&graph, "r");
    let Checkpoint { kind, parent, next, visits, .. } = &history[4];
    assert_eq!((*kind, *parent, next, *visits), (Kind::Rewind, 2, &Some(Place::Node("b".into())), 1));
    // Once more, from the record of the rewind.
    assert_eq!(fixture.end(fixture.resume(&graph, |run| run.rewind_to(5))).unwrap(), ["a", "b", "c"]);
    assert_eq!(fixture.nodes.started(), ["b", "c"]);
}

#[test]
fn c5_rewind_to_any_record_leads_to_the_same_result() {
    for seed in 0..10 {
        let (fixture, graph) = (StoredRunFixture::new(seed), wide());
        assert_eq!(fixture.end(fixture.run(&graph, vec![])).unwrap(), WIDE);
        let last = fixture.info("r").head;
        let firsts = fixture.nodes.starts.take();
        let mut keys: Vec<String> = firsts.into_iter().map(|(_, key)| key).collect();
        for to in 1..=last {
            let history = fixture.history(&graph, "r");
            let done = history[..to as usize].iter().filter(|one| matches!(one.kind, Kind::Step | Kind::Arrive)).count();
            // The nodes inside the subgraph are followed by the step of the subgraph, which is not
            // a start.
            let subs = history[..to as usize].iter().filter(|one| one.node == "sub").count();
            assert_eq!(fixture.end(fixture.resume(&graph, |run| run.rewind_to(to))).unwrap(), WIDE, "{to}, seed {seed}");
            let starts = fixture.nodes.starts.take();
            assert_eq!(starts.len(), WIDE.len() - (done - subs), "{to}, seed {seed}: {starts:?}");
            for (node, key) in starts {
                assert!(!keys.contains(&key), "{node} had this key before; rewound to {to}, seed {seed}");
                keys.push(key);
            }
        }
    }
}

#[test]
fn c5_rewind_keeps_earlier_effects_and_gives_later_ones_new_keys() {
    let node = |cx: NodeContext, mut names: Names| -> NodeFuture<Names> {
        Box::pin(async move {
            for name in ["one", "two"] {
                let stage = cx.extension::<NodeControl>().unwrap().clone();
                let got = cx
                    .effect(name, move |key| async move {
                        stage.outside.push(format!("{name} {key}"));
                        Ok::<_, String>(format!("{name} #{}", stage.outside.len()))
                    })
                    .await?;
                names.push(got);
            }
            Ok(names)
        })
    };
    let graph = Graph::new("effects").add_node("node", node).add_edge("node", END).set_entry("node").compile().unwrap();
    let fixture = StoredRunFixture::new(1);
    assert_eq!(fixture.end(fixture.run(&graph, vec![])).unwrap(), ["one #1", "two #2"]);
    let first = fixture.nodes.outside.take();
    // Record 1 is the start, 2 and 3 are the effects, 4 is the step.
    let state = fixture.end(fixture.resume(&graph, |run| run.rewind_to(2))).unwrap();
    let second = fixture.nodes.outside.take();
    assert_eq!(state, ["one #1", "two #1"], "the first result is reused, the second effect runs again");
    assert!(second.len() == 1 && second[0].starts_with("two") && second[0] != first[1], "{first:?} {second:?}");
    fixture.end(fixture.resume(&graph, |run| run.replay_last())).unwrap();
    let third = fixture.nodes.outside.take();
    assert_eq!(third.len(), 2, "a replayed node repeats all effects");
    assert!(third.iter().all(|effect| !first.contains(effect) && !second.contains(effect)));
}

#[test]
fn c5_rewound_failed_run_undoes_what_was_undoable_at_that_record() {
    let booking = |name: &'static str| {
        move |cx: NodeContext, names: Names| -> NodeFuture<Names> {
            Box::pin(async move {
                cx.record_undo(name.to_string());
                named(name)(cx, names).await
            })
        }
    };
    let undo = |cx: NodeContext, name: String| async move {
        let stage = cx.extension::<NodeControl>().unwrap();
        stage.outside.push(format!("undo {name} {}", cx.idempotency_key()));
        if name == "hotel" && stage.outside.len() == 100 { Err("full") } else { Ok(()) }
    };
    let graph = Graph::new("trip")
        .add_node("flight", booking("flight"))
        .add_node("hotel", booking("hotel"))
        .add_node("pay", named("pay"))
        .compensate("flight", undo)
        .compensate("hotel", undo)
        .add_edge("flight", "hotel")
        .add_edge("hotel", "pay")
        .add_edge("pay", END)
        .set_entry("flight")
        .compile()
        .unwrap();
    let fixture = StoredRunFixture::new(1);
    let undone = |error: RunError<Names>| match error.compensation() {
        Some(Compensation::Compensated { undone }) => undone.clone(),
        other => panic!("{other:?}: {error}"),
    };
    fixture.nodes.fail(&["pay"]);
    assert_eq!(undone(fixture.end(fixture.run(&graph, vec![])).unwrap_err()), ["hotel", "flight"]);
    assert_eq!(fixture.info("r").status, RunStatus::Compensated);
    let error = fixture.end(fixture.resume(&graph, |run| run)).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Ended { status: RunStatus::Compensated, .. }), "{error}");
    // After "flight": the hotel is booked again under another key, and so is its undo.
    let first = fixture.nodes.outside.take();
    assert_eq!(undone(fixture.end(fixture.resume(&graph, |run| run.rewind_to(2))).unwrap_err()), ["hotel", "flight"]);
    let second = fixture.nodes.outside.take();
    assert_eq!((first[0] == second[0], first[1] == second[1]), (false, true), "{first:?} {second:?}");
    // Before "flight": nothing can be undone.
    fixture.nodes.fail(&["hotel"]);
    assert_eq!(undone(fixture.end(fixture.resume(&graph, |run| run.rewind_to(2))).unwrap_err()), ["flight"]);
    fixture.nodes.fail(&["flight"]);
    let error = fixture.end(fixture.resume(&graph, |run| run.rewind_to(1))).unwrap_err();
    assert_eq!((error.compensation(), fixture.info("r").status), (None, RunStatus::Failed));
    fixture.nodes.fail(&[]);
    fixture.nodes.starts.take();
    assert_eq!(fixture.end(fixture.resume(&graph, |run| run.rewind_to(3))).unwrap(), ["flight", "hotel", "pay"]);
    assert_eq!(fixture.nodes.started(), ["pay"]);
    assert_eq!(fixture.info("r").status, RunStatus::Finished);
}

#[test]
fn c5_rewind_to_a_pruned_or_unknown_record_changes_nothing() {
    let graph = Graph::new("loop")
        .add_node("turn", named("turn"))
        .add_conditional_edge("turn", ["turn", END], |names: &Names| if names.len() < 300 { "turn" } else { END })
        .set_entry("turn")
        .compile()
        .unwrap();
    let fixture = StoredRunFixture::new(1);
    fixture.end(fixture.run(&graph, vec![]).keep_records(10)).unwrap();
    let before = fixture.info("r");
    assert!(before.oldest > 200 && before.head == 301, "{before:?}");
    let error = fixture.end(fixture.resume(&graph, |run| run.rewind_to(50))).unwrap_err();
    let StoreError::Pruned { run, oldest } = store_error(&error) else { panic!("{error}") };
    assert_eq!((run.as_str(), *oldest), ("r", before.oldest));
    assert!(error.to_string().contains(&before.oldest.to_string()), "{error}");
    for unknown in [0, 302, u64::MAX] {
        let error = fixture.end(fixture.resume(&graph, |run| run.rewind_to(unknown))).unwrap_err();
        let error = store_error(&error);
        assert!(matches!(error, StoreError::NoSuchRow { head: 301, .. }), "{unknown}: {error}");
    }
    let error = fixture.end(fixture.here(graph.resume("missing").rewind_to(1).checkpoint(&fixture.store))).unwrap_err();
    assert!(matches!(store_error(&error), StoreError::RunNotFound { .. }), "{error}");
    let after = fixture.info("r");
    assert_eq!((after.head, after.status, after.owner), (before.head, before.status, None));
    let to = before.oldest;
    assert_eq!(fixture.end(fixture.resume(&graph, |run| run.rewind_to(to))).unwrap().len(), 300);
}

#[test]
fn c5_last_node_is_replayed_with_a_new_key() {
    let (fixture, graph) = (StoredRunFixture::new(1), chain());
    fixture.nodes.hang(&["a"]);
    fixture.leave(fixture.run(&graph, vec![]));
    let error = fixture.end(fixture.resume(&graph, |run| run.replay_last())).unwrap_err();
    assert!(matches!(error.fault(), RunFault::Resume(ResumeError::NothingToReplay { .. })), "{error}");
    fixture.nodes.hang(&["c"]);
    fixture.leave(fixture.resume(&graph, |run| run));
    let first = fixture.nodes.starts.take();
    fixture.nodes.hang(&[]);
    assert_eq!(fixture.end(fixture.resume(&graph, |run| run.replay_last())).unwrap(), ["a", "b", "c"]);
    let again = fixture.nodes.starts.take();
    assert_eq!(again.iter().map(|(node, _)| node.as_str()).collect::<Vec<_>>(), ["b", "c"]);
    assert!(!first.contains(&again[0]));
    // For an ended run, and right after a replay: records of a rewind are not steps.
    fixture.nodes.fail(&["c"]);
    fixture.end(fixture.resume(&graph, |run| run.replay_last())).unwrap_err();
    assert_eq!(fixture.nodes.started(), ["c"]);
    fixture.nodes.fail(&[]);
    assert_eq!(fixture.end(fixture.resume(&graph, |run| run.replay_last())).unwrap(), ["a", "b", "c"]);
    assert_eq!(fixture.nodes.started(), ["b", "c"]);
}

#[test]
fn c5_replay_in_a_fan_out_leaves_other_branches_unchanged() {
    for seed in 0..20 {
        // The last branch to arrive: the join has followed, and "after" hangs.
        let (fixture, graph) = (StoredRunFixture::new(seed), wide());
        fixture.nodes.hang(&["after"]);
        fixture.leave(fixture.run(&graph, vec![]));
        let arrived: Vec<Checkpoint> = fixture.history(&graph, "r");
        let last = arrived.iter().rev().find(|one| matches!(one.kind, Kind::Arrive | Kind::Step)).unwrap();
        fixture.nodes.hang(&[]);
        fixture.nodes.starts.take();
        assert_eq!(fixture.end(fixture.resume(&graph, |run| run.replay_last())).unwrap(), WIDE);
        let started = fixture.nodes.started();
        let expected: &[&str] = match last.node.as_str() {
            // A replay of a subgraph runs all of its nodes.
            "sub" => &["sub/in1", "sub/in2", "after"],
            "left" => &["left", "after"],
            "d3" => &["d3", "after"],
            other => panic!("{other}"),
        };
        assert_eq!(started, expected, "seed {seed}");
    }
    // In the middle: "d1" is the last node; all else stays, including effects.
    let (fixture, graph) = (StoredRunFixture::new(3), wide());
    fixture.nodes.hang(&["d1", "d2"]);
    fixture.leave(fixture.run(&graph, vec![]));
    fixture.nodes.hang(&["d2"]);
    fixture.leave(fixture.resume(&graph, |run| run));
    fixture.nodes.hang(&[]);
    fixture.nodes.starts.take();
    assert_eq!(fixture.end(fixture.resume(&graph, |run| run.replay_last())).unwrap(), WIDE);
    let mut started = fixture.nodes.started();
    started.sort();
    assert_eq!(started, ["after", "d1", "d2", "d3"]);
}

#[test]
fn c5_replay_keeps_effects_recorded_later_by_other_branches() {
    let slow = |cx: NodeContext, names: Names| -> NodeFuture<Names> {
        Box::pin(async move {
            let (stage, clock) = (cx.extension::<NodeControl>().unwrap().clone(), cx.extension::<Arc<dyn Runtime>>().unwrap());
            clock.sleep_until(clock.now() + Duration::from_secs(1)).await;
            let outside = stage.outside.clone();
            cx.effect("noted", move |key| async move {
                outside.push(key);
                Ok::<_, String>(())
            })
            .await?;
            named("slow")(cx, names).await
        })
    };
    let graph = Graph::new("two")
        .add_node("before", named("before"))
        .add_node("quick", named("quick"))
        .add_node("quick2", named("quick2"))
        .add_node("slow", slow)
        .add_node("after", named("after"))
        .add_parallel_edge("before", ["quick", "slow"], "after", merge)
        .add_edge("quick", "quick2")
        .add_edge("quick2", "after")
        .add_edge("slow", "after")
        .add_edge("after", END)
        .set_entry("before")
        .compile()
        .unwrap();
    let fixture = StoredRunFixture::new(1);
    fixture.nodes.hang(&["slow", "quick2"]);
    fixture.leave(fixture.run(&graph, vec![]));
    assert_eq!((fixture.nodes.outside.len(), fixture.info("r").head), (1, 4), "the effect is the last record");
    fixture.nodes.hang(&[]);
    fixture.nodes.starts.take();
    let end = fixture.end(fixture.resume(&graph, |run| run.replay_last())).unwrap();
    assert_eq!(end, ["before", "quick", "quick2", "slow", "after"]);
    assert_eq!((fixture.nodes.outside.len(), fixture.nodes.started()[0].as_str()), (1, "quick"));
}

#[test]
fn c5_any_record_of_a_rewind_selects_the_whole_rewind() {
    let (fixture, graph) = (StoredRunFixture::new(1), wide());
    fixture.nodes.hang(&["d2"]);
    fixture.leave(fixture.run(&graph, vec![]));
    let head = fixture.info("r").head;
    fixture.leave(fixture.resume(&graph, |run| run.rewind_to(head)));
    let parts: Vec<Checkpoint> = fixture.history(&graph, "r").into_iter().filter(|one| one.kind == Kind::Rewind).collect();
    assert!(parts.len() > 3, "{parts:?}");
    fixture.nodes.hang(&[]);
    for part in parts {
        fixture.nodes.starts.take();
        assert_eq!(fixture.end(fixture.resume(&graph, |run| run.rewind_to(part.sequence))).unwrap(), WIDE);
        assert_eq!(fixture.nodes.started(), ["d2", "d3", "after"], "{part:?}");
    }
}

/// Charges after this many seconds, then acts like `named`.
fn charging_after(name: &'static str, seconds: u64) -> impl Fn(NodeContext, Names) -> NodeFuture<Names> {
    move |cx, names| {
        Box::pin(async move {
            let (clock, stage) = (cx.extension::<Arc<dyn Runtime>>().unwrap(), cx.extension::<NodeControl>().unwrap().clone());
            clock.sleep_until(clock.now() + Duration::from_secs(seconds)).await;
            let charge = cx.effect("charge", move |_| async move {
                stage.outside.push(name.to_string());
                Ok::<_, String>(())
            });
            charge.await?;
            named(name)(cx, names).await
        })
    }
}

#[test]
fn c5_replay_after_a_rewind_repeats_no_effect_of_another_branch() {
    let fixture = StoredRunFixture::new(1);
    let graph = Graph::new("two")
        .add_node("first", named("first"))
        .add_node("a1", charging_after("a1", 0))
        .add_node("a2", named("a2"))
        .add_node("b", charging_after("b", 1))
        .add_parallel_edge("first", ["a1", "b"], END, merge)
        .add_edge("a1", "a2")
        .add_edge("a2", END)
        .add_edge("b", END)
        .set_entry("first")
        .compile()
        .unwrap();
    fixture.nodes.hang(&["a2", "b"]);
    fixture.leave(fixture.run(&graph, vec![]));
    assert_eq!(fixture.nodes.outside.take(), ["a1", "b"]);
    let head = fixture.info("r").head;
    fixture.leave(fixture.resume(&graph, |run| run.rewind_to(head)));
    fixture.leave(fixture.resume(&graph, |run| run.replay_last()));
    assert_eq!(fixture.nodes.outside.take(), ["a1"]);
}
