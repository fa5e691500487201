//! C5, C11: every listed checkpoint can be rewound to, forked from and read, whatever was pruned.
use crate::common::stored::{Names, NodeControl, NodeFuture, StoredRunFixture, merge, named};
use pleach::durable::Checkpoint;
use pleach::graph::{Compensation, FanOut};
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::store::{Kind, Store};
use std::sync::Arc;

/// A node that takes a little time and sometimes has an effect, sleeps durably, records an undo or
/// fails.
fn busy(name: &'static str) -> impl Fn(NodeContext, Names) -> NodeFuture<Names> {
    move |cx, mut names| {
        Box::pin(async move {
            let clock = Arc::clone(cx.extension::<Arc<dyn Runtime>>().unwrap());
            let (chance, outside) = (clock.random(), cx.extension::<NodeControl>().unwrap().outside.clone());
            if (chance >> 32).is_multiple_of(11) || (chance >> 24).is_multiple_of(9) {
                cx.record_undo(cx.idempotency_key());
            }
            if (chance >> 24).is_multiple_of(9) {
                cx.effect("call", move |key| async move {
                    outside.push(key);
                    Ok::<_, String>(())
                })
                .await?;
            }
            if (chance >> 16).is_multiple_of(5) {
                cx.sleep("nap", Duration::from_millis(chance % 7)).await;
            }
            clock.sleep_until(clock.now() + Duration::from_millis(1 + chance % 5)).await;
            if (chance >> 8).is_multiple_of(150) {
                return Err(format!("{name} fails"));
            }
            if name == "turn" {
                names.push(name.to_string());
            }
            Ok(names)
        })
    }
}

async fn undo(cx: NodeContext, key: String) -> Result<(), String> {
    let outside = cx.extension::<NodeControl>().unwrap().outside.clone();
    cx.effect("undo", move |_| async move {
        outside.push(key);
        Ok::<_, String>(())
    })
    .await
}

/// A loop over a node and a fan-out with a nested fan-out, a subgraph and a slow branch.
fn rounds() -> CompiledGraph<Names> {
    let with = |graph: Graph<Names>, name: &'static str| graph.add_node(name, busy(name)).compensate(name, undo);
    let inner = ["in1", "in2"].into_iter().fold(Graph::new("inner"), with);
    let inner = inner.add_edge("in1", "in2").add_edge("in2", END).set_entry("in1").compile().unwrap();
    let graph = ["turn", "one", "many", "item", "slow", "back"].into_iter().fold(Graph::new("rounds"), with);
    graph
        .add_parallel_edge("turn", ["one", "many", "sub", "slow"], "back", FanOut::merge(merge))
        .add_edge("one", "back")
        .map("many", |names: &Names| vec![names.clone(); 4], "item", "join", merge)
        .add_edge("item", "join")
        .add_node("join", named("join"))
        .add_edge("join", "back")
        .add_subgraph("sub", inner, Names::clone, |_, inner| inner)
        .add_edge("sub", "back")
        .add_conditional_edge("slow", ["slow", "back"], |_: &Names| "back")
        .add_conditional_edge("back", ["turn", END], |names: &Names| if names.len() < 1_000 { "turn" } else { END })
        .set_entry("turn")
        .compile()
        .unwrap()
}

/// The listed checkpoints that can be used alone.
fn listed(fixture: &StoredRunFixture, graph: &CompiledGraph<Names>) -> Vec<Checkpoint> {
    fixture.history(graph, "r").into_iter().filter(|point| point.part_of.is_none()).collect()
}

/// Forks from each checkpoint and reads its state.
fn assert_all_can_be_forked(fixture: &StoredRunFixture, graph: &CompiledGraph<Names>, what: &str) -> usize {
    let points = listed(fixture, graph);
    let history = graph.history("r", &fixture.store);
    for point in &points {
        let at = point.sequence;
        let fork = graph.resume("r").rewind_to(at).fork_as("fork").checkpoint(&fixture.store).timeout(Duration::from_micros(1));
        let error = fixture.end(fixture.here(fork)).unwrap_err();
        assert!(matches!(error.fault(), RunFault::Cancelled { .. }), "{what}, fork at {at} ({:?}): {error}", point.kind);
        fixture.sim.run(async { fixture.store.delete("fork").await }).unwrap();
        let state = fixture.sim.run(history.state(at));
        let is_inner = point.node.contains('/') || point.kind == Kind::Wait && point.node.is_empty();
        assert!(state.is_ok() || is_inner, "{what}, state at {at} ({point:?}): {}", state.unwrap_err());
    }
    points.len()
}

#[test]
fn c5_every_listed_checkpoint_can_be_forked_after_pruning() {
    let graph = rounds();
    let (mut checked, mut pruned, mut undone) = (0, 0, 0);
    for seed in 0..8 {
        let fixture = StoredRunFixture::new(seed);
        let random = |below: u64| fixture.sim.runtime().random() % below;
        let kept = [1, 2, 5, 20][(seed % 4) as usize];
        let leg = |fixture: &StoredRunFixture| Duration::from_millis(60 + fixture.sim.runtime().random() % 200);
        let run = fixture.run(&graph, vec![]).keep_records(kept).max_iterations(100_000).timeout(leg(&fixture));
        let mut outcome = fixture.end(run);
        for round in 0..4 {
            let what = format!("seed {seed}, round {round}, {kept} kept");
            if let Err(error) = &outcome {
                undone += usize::from(matches!(error.compensation(), Some(Compensation::Compensated { .. })));
                assert!(matches!(error.fault(), RunFault::Cancelled { .. } | RunFault::Node(_)), "{what}: {error}");
            }
            checked += assert_all_can_be_forked(&fixture, &graph, &what);
            pruned += usize::from(fixture.info("r").oldest > 1);
            let points = listed(&fixture, &graph);
            let to = points[random(points.len() as u64) as usize].sequence;
            let again = fixture.resume(&graph, |run| run.rewind_to(to)).keep_records(kept);
            outcome = fixture.end(again.max_iterations(100_000).timeout(leg(&fixture)));
        }
        // The same at the end.
        checked += assert_all_can_be_forked(&fixture, &graph, &format!("seed {seed}, at the end"));
    }
    assert!(checked > 1_500 && pruned > 20 && undone > 3, "{checked} {pruned} {undone}");
}

#[test]
fn c11_log_stays_bounded_after_many_rewinds() {
    let graph = rounds();
    let fixture = StoredRunFixture::new(3);
    for _ in 0..20 {
        let time = Duration::from_millis(300);
        let run = match fixture.sim.run(async { fixture.store.head("r").await }) {
            Err(_) => fixture.run(&graph, vec![]),
            Ok(_) => {
                let oldest = listed(&fixture, &graph)[0].sequence;
                fixture.resume(&graph, |run| run.rewind_to(oldest))
            }
        };
        drop(fixture.end(run.keep_records(5).max_iterations(100_000).timeout(time)));
        let info = fixture.info("r");
        assert!(info.head - info.oldest < 1_000, "{info:?}");
    }
    assert!(fixture.info("r").head > 3_000);
}

/// Which of two bookings is made, and the number of turns before the run hangs.
type Booking = (u32, u32);

/// `start`, one of two bookings, and then turns.
fn bookings() -> CompiledGraph<Booking> {
    let book = |cx: NodeContext, state: Booking| async move {
        cx.record_undo(format!("{} {}", cx.node(), cx.idempotency_key()));
        Ok::<_, String>(state)
    };
    let undo = |cx: NodeContext, what: String| async move {
        cx.extension::<NodeControl>().unwrap().outside.push(what);
        Ok::<_, String>(())
    };
    let hang = |cx: NodeContext, state: Booking| async move {
        cx.extension::<NodeControl>().unwrap().enter(&cx).await?;
        Ok::<_, String>(state)
    };
    Graph::new("bookings")
        .add_node("start", |state: Booking| async move { Ok::<_, String>(state) })
        .add_conditional_edge("start", ["hotel", "inn"], |state: &Booking| if state.0 == 1 { "hotel" } else { "inn" })
        .add_node("hotel", book)
        .compensate("hotel", undo)
        .add_edge("hotel", "turn")
        .add_node("inn", book)
        .compensate("inn", undo)
        .add_edge("inn", "turn")
        .add_node("turn", |(kind, turns): Booking| async move { Ok::<_, String>((kind, turns - 1)) })
        .add_conditional_edge("turn", ["turn", "hang"], |state: &Booking| if state.1 > 0 { "turn" } else { "hang" })
        .add_node("hang", hang)
        .add_edge("hang", END)
        .set_entry("start")
        .compile()
        .unwrap()
}

#[test]
fn c5_records_of_another_line_of_history_keep_their_undo_payloads() {
    let graph = bookings();
    let fixture = StoredRunFixture::new(1);
    fixture.nodes.hang(&["hang"]);
    let kept = 200;
    let head = || fixture.info("r").head;
    let go_back = |to: u64, state: Booking| {
        let run = fixture.resume(&graph, |run| run.rewind_to(to).with_state(move |_| state)).keep_records(kept);
        fixture.leave(run.max_iterations(10_000));
        head()
    };
    fixture.leave(fixture.run(&graph, (1, 30)).keep_records(kept));
    let hotel = head() - 5;
    let inn = go_back(1, (2, 30)) - 5;
    // Rewind between the two lines until the start of both is pruned.
    go_back(hotel, (1, 150));
    let of_inn = go_back(inn, (2, 50)) - 10;
    let of_hotel = go_back(hotel, (1, 200)) - 10;
    let info = fixture.info("r");
    assert!(info.oldest > inn && info.oldest < of_inn, "{info:?}");
    fixture.nodes.hang(&[]);
    fixture.nodes.fail(&["hang"]);
    for (to, booked) in [(of_inn, "inn"), (of_hotel, "hotel")] {
        let run = fixture.resume(&graph, |run| run.rewind_to(to)).keep_records(kept).max_iterations(10_000);
        let error = fixture.end(run).unwrap_err();
        assert_eq!(error.compensation(), Some(&Compensation::Compensated { undone: vec![booked.to_string()] }), "{error}");
        assert!(fixture.nodes.outside.take()[0].starts_with(booked));
    }
}
