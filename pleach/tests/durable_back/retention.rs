//! C11: the log of a live run is bounded and keeps all that resume and undo need. Runs that ended
//! long ago are removed automatically.
use crate::common::flaky_store::{FlakyStore, WriteFailure};
use crate::common::stored::{Names, NodeControl, NodeFuture, StoredRunFixture, merge, named};
use crate::common::{Log, poll_once};
use pleach::graph::{Compensation, RunEvent};
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::store::{RunStatus, Store, StoreError};
use std::sync::Arc;
use std::task::Poll;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Counts up to this number.
fn counting(to: u32) -> CompiledGraph<u32> {
    Graph::new("counting")
        .add_node("count", |n: u32| async move { Ok::<_, String>(n + 1) })
        .add_conditional_edge("count", ["count", END], move |n: &u32| if *n < to { "count" } else { END })
        .set_entry("count")
        .compile()
        .unwrap()
}

#[test]
fn c11_log_of_a_long_loop_stays_bounded_and_can_be_resumed() {
    let (fixture, graph) = (StoredRunFixture::new(1), counting(10_000));
    let store = FlakyStore::new(fixture.store.clone());
    store.fail_at(7_000, WriteFailure::Lost);
    let widths = Log::new();
    let watched = || {
        let (inside, widths) = (fixture.store.clone(), widths.clone());
        Hooks::new(move |event: &RunEvent<&u32>| {
            if let RunEvent::Checkpointed { .. } = event
                && let Poll::Ready(Ok(info)) = poll_once(&mut inside.head("r"))
            {
                widths.push(info.head - info.oldest + 1);
            }
        })
    };
    let run = graph.run(0).id("r").checkpoint(&store).max_iterations(20_000).hooks(watched());
    assert!(matches!(fixture.end(fixture.here(run)).unwrap_err().fault(), RunFault::Checkpoint(_)));
    let resumed = graph.resume("r").checkpoint(&store).max_iterations(20_000).hooks(watched());
    assert_eq!(fixture.end(fixture.here(resumed)).unwrap(), 10_000);
    let widths = widths.take();
    let widest = widths.iter().max().copied().unwrap_or(0);
    assert!(widths.len() > 9_000 && (100..=202).contains(&widest), "{} times, at most {widest}", widths.len());
    let info = fixture.info("r");
    assert!(info.head > 10_000 && info.head - info.oldest >= 99, "at least the last 100: {info:?}");
    assert_eq!(fixture.rows("r").len() as u64, info.head - info.oldest + 1);
}

#[test]
fn c11_waiting_branches_survive_the_pruning_of_busy_ones() {
    // Item 0 loops, item 1 waits after a recorded effect, and all others arrived long ago.
    let item = |cx: NodeContext, mut names: Names| -> NodeFuture<Names> {
        Box::pin(async move {
            let stage = cx.extension::<NodeControl>().unwrap().clone();
            stage.starts.push((names[0].clone(), cx.idempotency_key()));
            if names[0] == "1" {
                let outside = stage.outside.clone();
                let effect = cx.effect("once", move |key| async move {
                    outside.push(key);
                    Ok::<_, String>("kept".to_string())
                });
                names.push(effect.await?);
                let clock = cx.extension::<Arc<dyn Runtime>>().unwrap();
                clock.sleep_until(clock.now() + Duration::from_secs(30)).await;
            }
            names.push("done".into());
            Ok(names)
        })
    };
    let around = |names: &Names| if names[0] == "0" && names.len() < 1_000 { "item" } else { "join" };
    let items = |_: &Names| (0..200).map(|n| vec![n.to_string()]).collect();
    let all =
        |_: Names, branches: Vec<Names>| branches.into_iter().map(|names| format!("{} {}", names[0], names.len())).collect();
    let graph = Graph::new("wide")
        .add_node("start", named("start"))
        .map("start", items, "item", "join", all)
        .add_node("item", item)
        .add_conditional_edge("item", ["item", "join"], around)
        .add_node("join", named("join"))
        .add_edge("join", END)
        .set_entry("start")
        .compile()
        .unwrap();
    let fixture = StoredRunFixture::new(1);
    let run = fixture.run(&graph, vec![]).keep_records(10).max_iterations(10_000);
    let cut_off = fixture.cut_off_after(run, Duration::from_secs(10));
    assert!(matches!(fixture.end(cut_off).unwrap_err().fault(), RunFault::Cancelled { .. }));
    let info = fixture.info("r");
    assert!(info.head > 1_000 && info.oldest > 500, "{info:?}");
    fixture.nodes.starts.take();
    let end = fixture.end(fixture.resume(&graph, |run| run).keep_records(10).max_iterations(10_000)).unwrap();
    let started: Vec<String> = fixture.nodes.started();
    assert_eq!(started, ["1", "join"]);
    assert_eq!(fixture.nodes.outside.len(), 1, "the effect was not repeated");
    assert_eq!(
        (end.len(), &end[0], &end[1], &end[199]),
        (201, &"0 1000".to_string(), &"1 3".to_string(), &"199 2".to_string())
    );
}

#[test]
fn c11_pruning_keeps_what_a_failed_commit_would_have_replaced() {
    // Item 0 loops every millisecond. Item 1 takes a step now and then, from a record older than
    // those kept.
    let item = |cx: NodeContext, mut names: Names| -> NodeFuture<Names> {
        Box::pin(async move {
            let clock = cx.extension::<Arc<dyn Runtime>>().unwrap();
            let millis = if names[0] == "0" { 1 } else { names[1].parse().unwrap() };
            clock.sleep_until(clock.now() + Duration::from_millis(millis)).await;
            names.push("done".into());
            Ok(names)
        })
    };
    let around = |names: &Names| match names[0].as_str() {
        "0" if names.len() < 202 => "item",
        "1" if names.len() < 5 => "item",
        _ => END,
    };
    let graph = Graph::new("two speeds")
        .add_node("start", |names: Names| async move { Ok::<_, String>(names) })
        .map(
            "start",
            |names: &Names| vec![vec!["0".into(), names[0].clone()], vec!["1".into(), names[0].clone()]],
            "item",
            END,
            merge,
        )
        .add_node("item", item)
        .add_conditional_edge("item", ["item", END], around)
        .set_entry("start")
        .compile()
        .unwrap();
    let mut cut_off = 0;
    for millis in 60..70 {
        for write in 55..80 {
            let fixture = StoredRunFixture::new(write);
            let store = FlakyStore::new(fixture.store.clone());
            store.fail_at(write, WriteFailure::Lost);
            let begun = graph.run(vec![millis.to_string()]).id("r").checkpoint(&store).keep_records(1);
            cut_off += usize::from(fixture.end(fixture.here(begun)).is_err());
            let resumed = graph.resume("r").checkpoint(&store).keep_records(1);
            let end = fixture.end(fixture.here(resumed)).unwrap_or_else(|error| panic!("{millis} ms, write {write}: {error}"));
            assert_eq!(end.len(), 1 + 201 + 4, "{millis} ms, write {write}");
        }
    }
    assert_eq!(cut_off, 250);
}

#[test]
fn c11_undo_payloads_survive_pruning() {
    let book = |cx: NodeContext, n: u32| async move {
        cx.record_undo(format!("booking {n}"));
        Ok::<_, String>(n + 1)
    };
    let undo = |cx: NodeContext, what: String| async move {
        cx.extension::<NodeControl>().unwrap().outside.push(what);
        Ok::<_, String>(())
    };
    let count = |cx: NodeContext, n: u32| async move {
        let stage = cx.extension::<NodeControl>().unwrap();
        if n == 1_500 {
            stage.enter(&cx).await?;
        }
        Ok::<_, String>(n + 1)
    };
    let graph = Graph::new("undo")
        .add_node("book", book)
        .add_node("again", book)
        .compensate("book", undo)
        .compensate("again", undo)
        .add_node("count", count)
        .add_edge("book", "again")
        .add_edge("again", "count")
        .add_conditional_edge("count", ["count", END], |n: &u32| if *n < 3_000 { "count" } else { END })
        .set_entry("book")
        .compile()
        .unwrap();
    let fixture = StoredRunFixture::new(1);
    fixture.nodes.hang(&["count"]);
    fixture.leave(fixture.run(&graph, 0).max_iterations(10_000).keep_records(10));
    assert!(fixture.info("r").oldest > 1_000);
    // Another driver must find the undoable visits before it prunes.
    fixture.nodes.hang(&[]);
    fixture.nodes.fail(&[]);
    let store = FlakyStore::new(fixture.store.clone());
    store.fail_at(1_000, WriteFailure::Lost);
    let resumed = graph.resume("r").checkpoint(&store).max_iterations(10_000).keep_records(10);
    assert!(matches!(fixture.end(fixture.here(resumed)).unwrap_err().fault(), RunFault::Checkpoint(_)));
    assert!(fixture.info("r").oldest > 2_000);
    let error = fixture.end(fixture.resume(&graph, |run| run).max_iterations(2_600).keep_records(10)).unwrap_err();
    assert!(matches!(error.fault(), RunFault::MaxIterations { .. }), "{error}");
    let rewound = fixture.info("r").head - 5;
    fixture.nodes.fail(&["count"]);
    let error = fixture.end(fixture.resume(&graph, |run| run.rewind_to(rewound).with_state(|_| 1_500)).max_iterations(10_000));
    let undone = vec!["again".to_string(), "book".to_string()];
    assert_eq!(error.unwrap_err().compensation(), Some(&Compensation::Compensated { undone }));
    assert_eq!(fixture.nodes.outside.take(), ["booking 1", "booking 0"]);
}

#[test]
fn c11_runs_that_ended_a_month_ago_are_removed() {
    let (fixture, graph) = (StoredRunFixture::new(1), counting(1));
    let run = |id: String| fixture.here(graph.run(0).id(id).checkpoint(&fixture.store));
    let is_there = |id: &str| match fixture.sim.run(async { fixture.store.head(id).await }) {
        Ok(_) => true,
        Err(StoreError::RunNotFound { .. }) => false,
        Err(error) => panic!("{error}"),
    };
    // One run finished, one failed, and one is still open.
    fixture.end(run("finished".into())).unwrap();
    let hanging = Graph::new("hanging").add_node("a", named("a")).add_edge("a", END).set_entry("a").compile().unwrap();
    fixture.nodes.fail(&["a"]);
    fixture.end(fixture.here(hanging.run(vec![]).id("failed").checkpoint(&fixture.store))).unwrap_err();
    fixture.nodes.fail(&[]);
    fixture.nodes.hang(&["a"]);
    fixture.leave(fixture.here(hanging.run(vec![]).id("open").checkpoint(&fixture.store)));
    fixture.sim.run(fixture.sim.sleep(DAY * 29));
    fixture.end(run("later".into())).unwrap();
    for n in 0..1_000 {
        fixture.end(run(format!("early {n}"))).unwrap();
    }
    assert!(is_there("finished") && is_there("failed"), "a month has not passed");
    fixture.sim.run(fixture.sim.sleep(DAY * 2));
    let mut begun = 0;
    while is_there("finished") || is_there("failed") {
        fixture.end(run(format!("late {begun}"))).unwrap();
        begun += 1;
        assert!(begun < 1_000, "they are never removed");
    }
    assert!(begun > 1, "not every run prunes");
    assert!(is_there("open") && is_there("later"), "open runs and runs that ended later stay");
    assert_eq!(fixture.info("open").status, RunStatus::Running);
}

#[test]
fn c11_retention_of_ended_runs_is_configurable() {
    let (fixture, graph) = (StoredRunFixture::new(1), counting(1));
    let run = |id: String, kept| fixture.here(graph.run(0).id(id).checkpoint(&fixture.store).keep_ended(kept));
    fixture.end(run("first".into(), DAY)).unwrap();
    fixture.sim.run(fixture.sim.sleep(DAY + Duration::from_secs(1)));
    for n in 0..500 {
        fixture.end(run(format!("{n}"), DAY * 2)).unwrap();
    }
    assert!(fixture.sim.run(async { fixture.store.head("first").await }).is_ok());
    for n in 500..1_000 {
        fixture.end(run(format!("{n}"), DAY)).unwrap();
    }
    assert!(fixture.sim.run(async { fixture.store.head("first").await }).is_err());
}
