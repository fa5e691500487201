//! F12: if the run fails, the effects of every unfinished visit are undone once, whether the visit
//! failed or was cancelled by another branch: in nested fan-outs, subgraphs and tasks, in memory
//! and stored, and across crashes.
use crate::common::flaky_store::{FlakyStore, WriteFailure};
use crate::common::side_effects::rest;
use crate::common::stored::{Names, NodeControl, NodeFuture, StoredRunFixture, merge, named};
use pleach::durable::Resume;
use pleach::graph::{Compensation, FanOut, Policy, Retry};
use pleach::prelude::*;
use pleach::runtime::BoxFuture;
use pleach::store::{Kind, RunStatus};
use std::collections::BTreeSet;

/// Charges once and then takes this long.
fn charging(name: &'static str, millis: u64) -> impl Fn(NodeContext, Names) -> NodeFuture<Names> {
    move |cx, mut names| {
        Box::pin(async move {
            let (outside, key) = (cx.extension::<NodeControl>().unwrap().outside.clone(), cx.idempotency_key());
            cx.record_undo(key.clone());
            let charge = cx.effect("charge", move |_| async move {
                outside.push(format!("charge {key}"));
                Ok::<_, String>(())
            });
            charge.await?;
            rest(&cx, millis).await;
            names.push(name.to_string());
            Ok(names)
        })
    }
}

/// Charges, and fails each time.
fn charging_and_failing(cx: NodeContext, names: Names) -> NodeFuture<Names> {
    Box::pin(async move {
        charging("", 20)(cx, names).await?;
        Err("declined".into())
    })
}

async fn refund(cx: NodeContext, key: String) -> Result<(), String> {
    cx.extension::<NodeControl>().unwrap().outside.push(format!("refund {key}"));
    Ok(())
}

/// Fails after a while, unless its `Behaviour` says otherwise.
fn failing(cx: NodeContext, _: Names) -> NodeFuture<Names> {
    Box::pin(async move {
        let behaviour = cx.extension::<Behaviour>().copied().unwrap_or_default();
        match behaviour {
            Behaviour::Wait => rest(&cx, 60).await,
            Behaviour::Hang => std::future::pending().await,
            Behaviour::FailAtOnce => {}
            Behaviour::Succeed => return Ok(vec![]),
        }
        Err("no seats left".into())
    })
}

#[derive(Clone, Copy, Default)]
enum Behaviour {
    #[default]
    Wait,
    Hang,
    FailAtOnce,
    Succeed,
}

/// The subgraph: one node that finishes, and two branches that are still running when the run
/// fails.
fn inner(spawned: bool) -> CompiledGraph<Names> {
    let fan_out = FanOut::merge(merge);
    Graph::new("inner")
        .add_node("in1", charging("in1", 5))
        .compensate("in1", refund)
        .add_parallel_edge("in1", ["in2", "in3"], END, if spawned { fan_out.spawned() } else { fan_out })
        .add_node("in2", charging("in2", 10_000))
        .compensate("in2", refund)
        .add_edge("in2", END)
        .add_node("in3", charging("in3", 10_000))
        .compensate("in3", refund)
        .add_edge("in3", END)
        .set_entry("in1")
        .compile()
        .unwrap()
}

/// A booking, followed by branches of which one fails while the others are running.
fn trip(spawned: bool) -> CompiledGraph<Names> {
    let fan_out = FanOut::merge(merge);
    let retry = Policy::new().retry(Retry::times(9).backoff(Duration::from_secs(10), Duration::from_secs(10)));
    Graph::new("trip")
        .add_node("first", charging("first", 5))
        .compensate("first", refund)
        .add_parallel_edge(
            "first",
            ["fails", "slow", "items", "sub", "again", "early"],
            END,
            if spawned { fan_out.spawned() } else { fan_out },
        )
        .add_node("fails", failing)
        .add_edge("fails", END)
        .add_node("slow", charging("slow", 10_000))
        .compensate("slow", refund)
        .add_edge("slow", END)
        .add_node("items", named("items"))
        .map("items", |names: &Names| vec![names.clone(); 3], "item", "items2", merge)
        .add_node("item", charging("item", 10_000))
        .compensate("item", refund)
        .add_edge("item", "items2")
        .add_node("items2", named("items2"))
        .add_edge("items2", END)
        .add_subgraph("sub", inner(spawned), Names::clone, |_, inner| inner)
        .add_edge("sub", END)
        .add_node("again", charging_and_failing)
        .compensate("again", refund)
        .policy("again", retry)
        .add_edge("again", END)
        .add_node("early", charging("early", 10))
        .compensate("early", refund)
        .add_edge("early", END)
        .set_entry("first")
        .compile()
        .unwrap()
}

/// Checks that every charge was refunded by exactly one undo.
fn assert_balanced(fixture: &StoredRunFixture, error: &RunError<Names>, charges_min: usize, what: &str) {
    let Some(Compensation::Compensated { undone }) = error.compensation() else { panic!("{what}: {error}") };
    let all = fixture.nodes.outside.take();
    let keys = |kind: &str| all.iter().filter_map(|one| one.strip_prefix(kind).map(str::to_string)).collect::<BTreeSet<_>>();
    let (charged, refunded) = (keys("charge "), keys("refund "));
    assert_eq!(charged, refunded, "{what}");
    assert_eq!(undone.len(), charged.len(), "each visit is undone once: {what}: {undone:?}");
    assert!(charged.len() >= charges_min, "{what}: {undone:?}");
}

const ALL: usize = 10;

#[test]
fn f12_visits_cancelled_by_another_branch_are_undone_in_memory() {
    for (seed, spawned) in (0..30).flat_map(|seed| [(seed, false), (seed, true)]) {
        let fixture = StoredRunFixture::new(seed);
        let error = fixture.end(fixture.here(trip(spawned).run(vec![]))).unwrap_err();
        assert_balanced(&fixture, &error, ALL, &format!("seed {seed}, spawned {spawned}"));
    }
}

#[test]
fn f12_visits_cancelled_by_another_branch_are_undone_in_stored_runs() {
    for (seed, spawned) in (0..10).flat_map(|seed| [(seed, false), (seed, true)]) {
        let fixture = StoredRunFixture::new(seed);
        let error = fixture.end(fixture.run(&trip(spawned), vec![])).unwrap_err();
        assert_balanced(&fixture, &error, ALL, &format!("seed {seed}, spawned {spawned}"));
        assert_eq!(fixture.info("r").status, RunStatus::Compensated);
    }
}

#[test]
fn f12_no_visit_is_undone_twice_after_a_crash_during_a_failure() {
    let (mut resumed, mut failed_before) = (0, 0);
    for (records, spawned) in [(1, false), (2, false), (5, false), (2, true)] {
        let graph = trip(spawned);
        for (at, fate) in (2..60).flat_map(|at| [(at, WriteFailure::Lost), (at, WriteFailure::Unanswered)]) {
            let fixture = StoredRunFixture::new(at);
            let store = FlakyStore::new(fixture.store.clone());
            store.fail_at(at, fate);
            let run = graph.run(vec![]).id("r").checkpoint(&store).max_commit_records(records);
            let mut error = fixture.end(fixture.here(run)).unwrap_err();
            let what = format!("{records} records, {fate:?} {at}, spawned {spawned}");
            let mut is_over = error.compensation().is_some();
            while !is_over {
                assert!(matches!(error.fault(), RunFault::Checkpoint(_)), "{what}: {error}");
                if fixture.info("r").status == RunStatus::Compensated {
                    break;
                }
                resumed += 1;
                // The failed node would not fail again, but the recorded cancels show that the run
                // has failed.
                let resume = fixture.resume(&graph, |run| run).max_commit_records(records);
                error = fixture.end(resume.extension(Behaviour::Succeed)).unwrap_err();
                is_over = error.compensation().is_some();
            }
            if is_over {
                failed_before += usize::from(error.to_string().contains("no seats left"));
                assert_balanced(&fixture, &error, 2, &what);
            }
        }
    }
    assert!(resumed > 200 && failed_before > 100, "{resumed} {failed_before}");
}

#[test]
fn f12_visits_not_entered_again_after_a_resume_are_undone() {
    for (seed, spawned) in (0..20).flat_map(|seed| [(seed, false), (seed, true)]) {
        let fixture = StoredRunFixture::new(seed);
        let graph = trip(spawned);
        let run = fixture.run(&graph, vec![]).extension(Behaviour::Hang);
        fixture.end(fixture.cut_off_after(run, Duration::from_millis(200))).unwrap_err();
        assert_eq!(fixture.info("r").status, RunStatus::Running);
        let error = fixture.end(fixture.resume(&graph, |run| run).extension(Behaviour::FailAtOnce)).unwrap_err();
        assert_balanced(&fixture, &error, ALL, &format!("seed {seed}, spawned {spawned}"));
    }
}

#[test]
fn f12_cancelled_run_undoes_nothing() {
    for spawned in [false, true] {
        let fixture = StoredRunFixture::new(1);
        let graph = trip(spawned);
        let run = fixture.run(&graph, vec![]).extension(Behaviour::Hang);
        let error = fixture.end(fixture.cut_off_after(run, Duration::from_millis(200))).unwrap_err();
        assert!(error.compensation().is_none() && matches!(error.fault(), RunFault::Cancelled { .. }), "{error}");
        let in_memory = fixture.here(graph.run(vec![])).extension(Behaviour::Hang).timeout(Duration::from_millis(200));
        assert!(fixture.end(in_memory).unwrap_err().compensation().is_none());
        assert!(fixture.nodes.outside.take().iter().all(|one| one.starts_with("charge")));
        let kinds = fixture.rows("r").iter().map(|row| row.open_header("r").unwrap()).collect::<Vec<_>>();
        assert!(kinds.iter().all(|header| header.kind != Kind::End && header.attempt <= 1));
        // The run resumes where it stopped.
        let error = fixture.end(fixture.resume(&graph, |run| run)).unwrap_err();
        assert!(error.compensation().is_some());
    }
}

/// A fan-out and a subgraph that time out.
fn timed(collects: bool) -> CompiledGraph<Names> {
    let all = |mut before: Names, branches: Vec<Result<Names, RunError<Names>>>| {
        before.push(format!("{} late", branches.iter().filter(|one| one.is_err()).count()));
        Ok::<_, String>(before)
    };
    let time = Duration::from_millis(50);
    let fan_out = if collects { FanOut::collect(all) } else { FanOut::merge(merge) }.timeout(time);
    Graph::new("timed")
        .add_node("first", charging("first", 5))
        .compensate("first", refund)
        .add_parallel_edge("first", ["slow", "sub", "early"], "after", fan_out)
        .add_node("slow", charging("slow", 10_000))
        .compensate("slow", refund)
        .add_edge("slow", "after")
        .add_subgraph("sub", inner(false), Names::clone, |_, inner| inner)
        .add_edge("sub", "after")
        .add_node("early", charging("early", 10))
        .compensate("early", refund)
        .add_edge("early", "after")
        .add_subgraph("after", inner(true), Names::clone, |_, inner| inner)
        .policy("after", Policy::new().timeout(time).retry(Retry::times(3)))
        .add_edge("after", END)
        .set_entry("first")
        .compile()
        .unwrap()
}

#[test]
fn f12_visits_inside_a_timed_out_fan_out_or_subgraph_are_undone() {
    // Three attempts at `after` with three visits each, plus the visits before.
    for (collects, charges) in [(true, 6 + 9), (false, 6)] {
        for seed in 0..10 {
            let fixture = StoredRunFixture::new(seed);
            let error = fixture.end(fixture.here(timed(collects).run(vec![]))).unwrap_err();
            assert_balanced(&fixture, &error, charges, &format!("in memory, {collects} {seed}"));
            let error = fixture.end(fixture.run(&timed(collects), vec![])).unwrap_err();
            assert_balanced(&fixture, &error, charges, &format!("stored, {collects} {seed}"));
        }
    }
}

#[test]
fn f12_failed_node_runs_again_after_a_rewind_and_is_undone_once() {
    let graph = trip(false);
    let fixture = StoredRunFixture::new(1);
    fixture.end(fixture.run(&graph, vec![]).keep_records(10_000)).unwrap_err();
    fixture.nodes.outside.take();
    let end = fixture.record("r", Kind::End, "fails");
    let cut_off = |to: u64| {
        let rows = fixture.rows("r");
        let mut headers = rows.iter().filter(|row| row.sequence <= to).map(|row| row.open_header("r").unwrap());
        headers.any(|header| header.kind == Kind::Attempt && header.node == "slow")
    };
    for to in end - 8..=end {
        // Charges of live visits in the first run are refunded together with the visit.
        let error =
            fixture.end(fixture.resume(&graph, |run: Resume<Names>| run.rewind_to(to)).keep_records(10_000)).unwrap_err();
        let Some(Compensation::Compensated { undone }) = error.compensation() else { panic!("{error}") };
        let visits: BTreeSet<String> =
            fixture.nodes.outside.take().iter().filter_map(|one| one.strip_prefix("refund ").map(str::to_string)).collect();
        assert_eq!(undone.len(), visits.len(), "{to} (cut off: {}): {undone:?}", cut_off(to));
        assert_eq!(undone.iter().filter(|node| *node == "slow").count(), 1, "{to}: {undone:?}");
        assert_eq!(undone.iter().filter(|node| *node == "item").count(), 3, "{to}: {undone:?}");
    }
}

#[test]
fn f12_unusable_payload_fails_the_node_before_its_next_effect() {
    struct Unwritable;
    impl serde::Serialize for Unwritable {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("cannot be serialized"))
        }
    }
    fn recording(wrong: bool, after: bool) -> impl Fn(NodeContext, Names) -> BoxFuture<'static, Result<Names, String>> {
        move |cx: NodeContext, names: Names| {
            Box::pin(async move {
                let outside = cx.extension::<NodeControl>().unwrap().outside.clone();
                let charge = |key: &'static str| {
                    let outside = outside.clone();
                    cx.effect(key, move |_| async move {
                        outside.push(key.to_string());
                        Ok::<_, String>(())
                    })
                };
                if after {
                    charge("before").await?;
                }
                if wrong {
                    cx.record_undo(7_u64);
                } else {
                    cx.record_undo(Unwritable);
                }
                charge("charge").await?;
                Ok(names)
            })
        }
    }
    let undo = |cx: NodeContext, key: String| async move {
        cx.extension::<NodeControl>().unwrap().outside.push(format!("undo {key}"));
        Ok::<_, String>(())
    };
    for (wrong, after) in [(true, false), (false, false), (true, true), (false, true)] {
        let graph = if wrong {
            Graph::new("g").add_node("pay", recording(true, after)).compensate("pay", undo)
        } else {
            let undo = |_: NodeContext, _: Wrapped| async move { Ok::<_, String>(()) };
            Graph::new("g").add_node("pay", recording(false, after)).compensate("pay", undo)
        };
        let graph = graph.add_edge("pay", END).set_entry("pay").compile().unwrap();
        let fixture = StoredRunFixture::new(1);
        for stored in [false, true] {
            let run = if stored { fixture.run(&graph, vec![]) } else { fixture.here(graph.run(vec![])) };
            let error = fixture.end(run).unwrap_err();
            let RunFault::Node(failed) = error.fault() else { panic!("{error}") };
            let text = failed.reason.to_string();
            assert!(
                text.contains(if wrong { "u64" } else { "a String for its undo" }) || text.contains("its undo takes"),
                "{text}"
            );
            let expected: &[&str] = if after { &["before"] } else { &[] };
            assert_eq!(fixture.nodes.outside.take(), expected, "{wrong} {after} {stored}: no further effect and no undo");
            // An earlier effect cannot be undone without a payload, and the error says so.
            match error.compensation() {
                None => assert!(!after, "{error}"),
                Some(Compensation::CompensationFailed { node, .. }) => assert!(after && node == "pay", "{error}"),
                Some(other) => panic!("{other:?}"),
            }
        }
    }

    #[derive(serde::Deserialize)]
    struct Wrapped(#[allow(dead_code, reason = "only its type counts")] String);
}
