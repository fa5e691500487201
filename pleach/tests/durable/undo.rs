//! F12: the progress of an undo is recorded like that of a node, so an interrupted undo resumes
//! where it stopped.
use crate::common::flaky_store::{FlakyStore, WriteFailure};
use crate::common::stored::{Names, NodeControl, NodeFuture, StoredRunFixture, merge, named};
use pleach::durable::{EffectError, Migrations, Resume};
use pleach::graph::{Compensation, Hooks, RunEvent};
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::store::{Kind, RunStatus};
use std::collections::HashSet;
use std::sync::Arc;

/// Calls the outside once, under a key.
async fn call(cx: &NodeContext, what: &str) -> Result<(), String> {
    let outside = cx.extension::<NodeControl>().unwrap().outside.clone();
    let text = format!("{} {what}", cx.node());
    let done = cx.effect(what, move |key| async move {
        outside.push(format!("{text} {key}"));
        Ok::<_, String>(())
    });
    done.await
}

/// A node that records an undo payload.
fn booking(name: &'static str) -> impl Fn(NodeContext, Names) -> NodeFuture<Names> {
    move |cx, names| {
        cx.record_undo(name.to_string());
        named(name)(cx, names)
    }
}

/// Makes two calls, one minute apart. Can be made to fail at the end.
async fn undo(cx: NodeContext, name: String) -> Result<(), String> {
    call(&cx, "cancel").await?;
    cx.sleep("wait", Duration::from_secs(60)).await;
    call(&cx, "confirm").await?;
    let stage = cx.extension::<NodeControl>().unwrap().clone();
    stage.enter(&cx).await.map_err(|why| format!("{name}: {why}"))
}

/// Takes longer than the other branch.
fn long(cx: NodeContext, names: Names) -> NodeFuture<Names> {
    Box::pin(async move {
        let clock = cx.extension::<Arc<dyn Runtime>>().unwrap();
        clock.sleep_until(clock.now() + Duration::from_secs(1)).await;
        named("long")(cx, names).await
    })
}

/// The failing node is in a branch, so the fan-out after `first` is open during all undos. The undo
/// of `first` comes last.
fn trip(first: &str, hotel: &str) -> CompiledGraph<Names> {
    Graph::new("trip")
        .add_node(first, booking("first"))
        .compensate(first, undo)
        .add_node(hotel, booking("hotel"))
        .compensate(hotel, undo)
        .add_node("long", long)
        .add_node("flight", named("flight"))
        .add_parallel_edge(first, [hotel, "long"], END, merge)
        .add_edge(hotel, END)
        .add_edge("long", "flight")
        .add_edge("flight", END)
        .set_entry(first)
        .compile()
        .unwrap()
}

/// The calls of the undos, in order.
const CALLS: [&str; 4] = ["hotel cancel", "hotel confirm", "first cancel", "first confirm"];

/// The calls in order, without keys, and the number of distinct keys.
fn calls(fixture: &StoredRunFixture) -> (Vec<String>, usize) {
    let calls = fixture.nodes.outside.take();
    let keys: HashSet<&str> = calls.iter().filter_map(|call| call.rsplit(' ').next()).collect();
    (calls.iter().map(|call| call.rsplit_once(' ').unwrap().0.to_string()).collect(), keys.len())
}

/// Runs the graph with one failing write.
fn run_with_failing_write(at: u64, fate: WriteFailure, seed: u64) -> StoredRunFixture {
    let fixture = StoredRunFixture::new(seed);
    fixture.nodes.fail(&["flight"]);
    let store = FlakyStore::new(fixture.store.clone());
    store.fail_at(at, fate);
    fixture.end(fixture.here(trip("first", "hotel").run(vec![]).id("r").checkpoint(&store))).unwrap_err();
    fixture
}

/// A run whose undos are not interrupted.
fn undone() -> StoredRunFixture {
    let fixture = run_with_failing_write(u64::MAX, WriteFailure::Lost, 1);
    assert_eq!(fixture.info("r").status, RunStatus::Compensated);
    fixture
}

#[test]
fn f12_interrupted_undo_resumes_without_repeating_recorded_effects() {
    let graph = trip("first", "hotel");
    let fixture = undone();
    assert_eq!(calls(&fixture), (CALLS.map(String::from).to_vec(), 4));
    let head = fixture.info("r").head;
    let (mut crashes, mut repeated) = (0, 0);
    for (at, fate, seed) in (2..=head).flat_map(|at| [(at, WriteFailure::Lost, at), (at, WriteFailure::Unanswered, at)]) {
        let fixture = run_with_failing_write(at, fate, seed);
        while fixture.info("r").status != RunStatus::Compensated {
            crashes += 1;
            fixture.end(fixture.resume(&graph, |run| run)).unwrap_err();
        }
        let (mut calls, keys) = calls(&fixture);
        let all = calls.len();
        calls.dedup();
        assert_eq!((calls, keys), (CALLS.map(String::from).to_vec(), 4), "{at} {fate:?}");
        // Recorded effects are not repeated. A lost one is repeated once.
        assert!(all - 4 <= usize::from(fate == WriteFailure::Lost), "{at} {fate:?}");
        repeated += all - 4;
    }
    assert!(crashes > 20 && repeated == 4, "{crashes} {repeated}");
}

#[test]
fn f12_retried_undo_does_not_repeat_recorded_effects() {
    let graph = trip("first", "hotel");
    let fixture = StoredRunFixture::new(1);
    // The undo of the hotel fails as well, after its last call.
    fixture.nodes.fail(&["flight"]);
    let stage = fixture.nodes.clone();
    let failing = fixture.run(&graph, vec![]).hooks(Hooks::new(move |event: &RunEvent<&Names>| {
        if let RunEvent::NodeFinished { outcome: Err(_), .. } = event {
            stage.fail(&["hotel"]);
        }
    }));
    let error = fixture.end(failing).unwrap_err();
    assert!(
        matches!(error.compensation(), Some(Compensation::CompensationFailed { node, left, .. }) if node == "hotel" && *left == ["first"])
    );
    fixture.nodes.fail(&[]);
    let error = fixture.end(fixture.resume(&graph, |run| run)).unwrap_err();
    assert!(
        matches!(error.compensation(), Some(Compensation::Compensated { undone }) if *undone == ["hotel", "first"]),
        "{error}"
    );
    assert_eq!(calls(&fixture), (CALLS.map(String::from).to_vec(), 4));
}

#[test]
fn c12_sleep_in_an_undo_keeps_its_first_deadline_with_any_driver() {
    let fixture = undone();
    let (wait, confirm) = {
        let rows: Vec<_> = fixture.rows("r").iter().map(|row| (row.sequence, row.open_header("r").unwrap())).collect();
        let of = |kind| rows.iter().find(|(_, header)| header.kind == kind && header.node == "hotel").unwrap().0;
        let wait = of(Kind::Wait);
        (wait, rows.iter().find(|(at, header)| *at > wait && header.kind == Kind::Effect).unwrap().0)
    };
    assert_eq!(confirm, wait + 1);
    let fixture = run_with_failing_write(wait, WriteFailure::Unanswered, 1);
    fixture.sim.run(fixture.sim.sleep(Duration::from_secs(40)));
    let began = fixture.sim.now();
    fixture.end(fixture.resume(&trip("first", "hotel"), |run| run)).unwrap_err();
    // 20 s remain of the first sleep, and the second takes a minute.
    let took = fixture.sim.now().since(began).as_secs();
    assert!((79..82).contains(&took), "{took}");
}

#[test]
fn c7_interrupted_undo_resumes_in_a_graph_with_a_renamed_node() {
    let head = undone().info("r").head;
    let renames = Migrations::new().rename_node("hotel", "inn");
    let expected: Vec<String> = CALLS.map(String::from).to_vec();
    let mut moved = 0;
    for at in 5..head {
        let fixture = run_with_failing_write(at, WriteFailure::Unanswered, 1);
        let is_undoing = fixture.rows("r").iter().any(|row| row.open_header("r").unwrap().kind == Kind::End);
        if !is_undoing {
            continue;
        }
        let error = fixture.end(fixture.resume(&trip("first", "inn"), |run| run).migrations(&renames)).unwrap_err();
        assert!(matches!(error.compensation(), Some(Compensation::Compensated { .. })), "{at} {error}");
        assert_eq!(fixture.info("r").status, RunStatus::Compensated);
        let (mut called, keys) = calls(&fixture);
        moved += called.iter().filter(|call| call.starts_with("inn")).count();
        called.iter_mut().for_each(|call| *call = call.replace("inn", "hotel"));
        assert_eq!((&called, keys), (&expected, 4), "{at}");
    }
    assert!(moved > 2, "{moved}");
}

#[test]
fn c5_run_can_be_rewound_or_forked_from_within_its_undos() {
    let graph = trip("first", "hotel");
    let fixture = undone();
    let head = fixture.info("r").head;
    let end = fixture.record("r", Kind::End, "flight");
    for at in end..head {
        let fixture = undone();
        fixture.nodes.fail(&[]);
        for fork in [true, false] {
            let how = |run: Resume<Names>| {
                let run = run.rewind_to(at);
                if fork { run.fork_as("f") } else { run }
            };
            let done = fixture.end(fixture.resume(&graph, how)).unwrap();
            assert_eq!(done, ["first", "hotel", "long", "flight"], "{at} {fork}");
        }
    }
}

#[test]
fn f12_interrupted_once_effect_of_an_undo_is_unknown_after_a_crash() {
    let undo = |cx: NodeContext, _: String| async move {
        let outside = cx.extension::<NodeControl>().unwrap().outside.clone();
        let refund = cx.effect("refund", move |key| async move {
            outside.push(key);
            Ok::<_, String>(())
        });
        refund.once().await
    };
    let graph = Graph::new("once")
        .add_node("pay", booking("pay"))
        .compensate("pay", undo)
        .add_node("ship", named("ship"))
        .add_edge("pay", "ship")
        .add_edge("ship", END)
        .set_entry("pay")
        .compile()
        .unwrap();
    let fixture = StoredRunFixture::new(1);
    fixture.nodes.fail(&["ship"]);
    let store = FlakyStore::new(fixture.store.clone());
    // Writes: the start, a step, the end, the begin record of the refund; then its result, which is
    // lost.
    store.fail_at(5, WriteFailure::Lost);
    fixture.end(fixture.here(graph.run(vec![]).id("r").checkpoint(&store))).unwrap_err();
    assert_eq!(fixture.nodes.outside.len(), 1);
    let unknown = EffectError::EffectUnknown { key: "refund".into(), idempotency_key: fixture.nodes.outside.take().remove(0) };
    let error = fixture.end(fixture.resume(&graph, |run| run)).unwrap_err();
    let Some(Compensation::CompensationFailed { node, reason, .. }) = error.compensation() else { panic!("{error}") };
    assert_eq!((node.as_str(), reason), ("pay", &unknown.to_string()));
    assert_eq!((fixture.nodes.outside.len(), fixture.info("r").status), (0, RunStatus::CompensationFailed));
}

#[test]
fn f12_run_that_lost_its_store_undoes_earlier_and_later_nodes() {
    let booked = ["a", "b", "c", "d"];
    let graph = {
        let mut graph = Graph::new("booked").set_entry("a").add_node("pay", named("pay")).add_edge("pay", END);
        for (at, name) in booked.into_iter().enumerate() {
            let next = booked.get(at + 1).copied().unwrap_or("pay");
            graph = graph.add_node(name, booking(name)).compensate(name, undo).add_edge(name, next);
        }
        graph.compile().unwrap()
    };
    let mut lost = 0;
    for (at, fate) in (2..25).flat_map(|at| [(at, WriteFailure::Lost), (at, WriteFailure::Unanswered)]) {
        let fixture = StoredRunFixture::new(at);
        fixture.nodes.fail(&["pay"]);
        let store = FlakyStore::new(fixture.store.clone());
        store.fail_at(at, fate);
        let run = graph.run(vec![]).id("r").checkpoint(&store).best_effort();
        let error = fixture.end(fixture.here(run)).unwrap_err();
        let undone = booked.iter().rev().map(ToString::to_string).collect();
        assert_eq!(error.compensation(), Some(&Compensation::Compensated { undone }), "{at} {fate:?}: {error}");
        let (calls, keys) = calls(&fixture);
        let expected: Vec<String> =
            booked.iter().rev().flat_map(|name| ["cancel", "confirm"].map(|call| format!("{name} {call}"))).collect();
        assert_eq!((calls, keys), (expected, 8), "{at} {fate:?}");
        lost += usize::from(fixture.info("r").status == RunStatus::Running);
    }
    assert!(lost > 20, "{lost}");
}

#[test]
fn f12_run_that_cannot_read_its_store_reports_what_it_undid() {
    let graph = Graph::new("two")
        .add_node("a", booking("a"))
        .compensate("a", undo)
        .add_node("b", booking("b"))
        .compensate("b", undo)
        .add_node("pay", named("pay"))
        .add_edge("a", "b")
        .add_edge("b", "pay")
        .add_edge("pay", END)
        .set_entry("a")
        .compile()
        .unwrap();
    let fixture = StoredRunFixture::new(1);
    fixture.nodes.fail(&["pay"]);
    let store = FlakyStore::new(fixture.store.clone());
    // The record of `a` is damaged, and the record of `b` is lost.
    store.fail_at(3, WriteFailure::Lost);
    store.damage(2);
    let error = fixture.end(fixture.here(graph.run(vec![]).id("r").checkpoint(&store).best_effort())).unwrap_err();
    let Some(Compensation::CompensationFailed { undone, reason, .. }) = error.compensation() else { panic!("{error}") };
    assert_eq!(undone, &["b"]);
    assert!(reason.contains("row 2"), "{reason}");
}

/// The outcome of the run as read from the store.
fn outcome(fixture: &StoredRunFixture, graph: &CompiledGraph<Names>) -> RunError<Names> {
    fixture.sim.run(graph.outcome_of("r", &fixture.store).runtime(fixture.sim.runtime()).into_future()).unwrap_err()
}

#[test]
fn f12_outcome_of_returns_the_compensation_of_the_driver() {
    let graph = trip("first", "hotel");
    let head = undone().info("r").head;
    let undone = ["hotel", "first"].map(String::from).to_vec();
    for (at, fate) in (2..=head + 1).flat_map(|at| [(at, WriteFailure::Lost), (at, WriteFailure::Unanswered)]) {
        let fixture = run_with_failing_write(at, fate, at);
        while fixture.info("r").status != RunStatus::Compensated {
            let error = fixture.end(fixture.resume(&graph, |run| run)).unwrap_err();
            let compensation = Some(&Compensation::Compensated { undone: undone.clone() });
            assert_eq!(error.compensation(), compensation, "all undos of all drivers: {at} {fate:?}");
        }
        let stored = outcome(&fixture, &graph);
        assert_eq!(stored.compensation(), Some(&Compensation::Compensated { undone: undone.clone() }), "{at} {fate:?}");
        assert!(stored.to_string().contains("flight"), "{stored}");
    }
}

#[test]
fn f12_outcome_of_names_the_failed_undo_and_the_remaining_ones() {
    let graph = trip("first", "hotel");
    for failing in ["hotel", "first"] {
        let fixture = StoredRunFixture::new(1);
        fixture.nodes.fail(&["flight"]);
        let stage = fixture.nodes.clone();
        let error = fixture
            .end(fixture.run(&graph, vec![]).hooks(Hooks::new(move |event: &RunEvent<&Names>| {
                if let RunEvent::NodeFinished { outcome: Err(_), .. } = event {
                    stage.fail(&[failing]);
                }
            })))
            .unwrap_err();
        let Some(Compensation::CompensationFailed { undone, node, reason, left }) = error.compensation() else {
            panic!("{error}")
        };
        assert_eq!(node, failing);
        assert!(reason.contains("fails on request"), "{reason}");
        let expected: (&[&str], &[&str]) = if failing == "hotel" { (&[], &["first"]) } else { (&["hotel"], &[]) };
        assert_eq!(
            (undone.iter().map(|node| &**node).collect::<Vec<_>>(), left.as_slice()),
            (expected.0.to_vec(), &expected.1.iter().map(ToString::to_string).collect::<Vec<_>>()[..])
        );
        assert_eq!(outcome(&fixture, &graph).compensation(), error.compensation());
        // A second try succeeds and includes the earlier undos.
        fixture.nodes.fail(&[]);
        let error = fixture.end(fixture.resume(&graph, |run| run)).unwrap_err();
        let all = ["hotel", "first"].map(String::from).to_vec();
        assert_eq!(error.compensation(), Some(&Compensation::Compensated { undone: all }));
        assert_eq!(outcome(&fixture, &graph).compensation(), error.compensation());
    }
}

#[test]
fn f12_failed_run_with_nothing_to_undo_has_no_compensation() {
    let graph = Graph::new("plain").add_node("a", named("a")).add_edge("a", END).set_entry("a").compile().unwrap();
    let fixture = StoredRunFixture::new(1);
    fixture.nodes.fail(&["a"]);
    assert_eq!(fixture.end(fixture.run(&graph, vec![])).unwrap_err().compensation(), None);
    assert_eq!(outcome(&fixture, &graph).compensation(), None);
}

#[test]
fn c7_migration_during_the_undos_keeps_what_was_undone() {
    let head = undone().info("r").head;
    let renames = Migrations::new().rename_node("hotel", "inn");
    let mut moved = 0;
    for at in 5..head {
        let fixture = run_with_failing_write(at, WriteFailure::Unanswered, 1);
        if !fixture.rows("r").iter().any(|row| row.open_header("r").unwrap().kind == Kind::End) {
            continue;
        }
        let graph = trip("first", "inn");
        let error = fixture.end(fixture.resume(&graph, |run| run).migrations(&renames)).unwrap_err();
        let undone = ["inn", "first"].map(String::from).to_vec();
        assert_eq!(error.compensation(), Some(&Compensation::Compensated { undone }), "{at}");
        assert_eq!(outcome(&fixture, &graph).compensation(), error.compensation(), "{at}");
        moved += 1;
    }
    assert!(moved > 5);
}
