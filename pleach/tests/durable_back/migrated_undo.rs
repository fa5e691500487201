//! F12, C5: a run that is migrated during its undos and then rewound to its failure undoes each
//! visit once.
use crate::common::stored::{Names, NodeControl, NodeFuture, StoredRunFixture, merge};
use futures::future::{Either, select};
use pleach::durable::{Migrations, Resume};
use pleach::graph::{Compensation, FanOut, RunOptions};
use pleach::prelude::*;
use pleach::runtime::Runtime;
use pleach::store::Kind;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

/// Charges by an effect, and hangs unless it is `first`.
fn charging(cx: NodeContext, mut names: Names) -> NodeFuture<Names> {
    Box::pin(async move {
        let (outside, node) = (cx.extension::<NodeControl>().unwrap().outside.clone(), cx.node().to_string());
        cx.record_undo(());
        cx.effect("charge", move |_| async move {
            outside.push("charge".into());
            Ok::<_, String>(())
        })
        .await?;
        if node != "first" {
            std::future::pending::<()>().await;
        }
        names.push(node);
        Ok(names)
    })
}

fn failing(cx: NodeContext, _: Names) -> NodeFuture<Names> {
    Box::pin(async move {
        let clock = cx.extension::<Arc<dyn Runtime>>().unwrap();
        clock.sleep_until(clock.now() + Duration::from_secs(1)).await;
        Err("no seats left".into())
    })
}

/// Refunds, unless the stage makes it hang.
async fn refund(cx: NodeContext, (): ()) -> Result<(), String> {
    let stage = cx.extension::<NodeControl>().unwrap();
    stage.enter(&cx).await?;
    stage.outside.push("refund".into());
    Ok(())
}

/// `first`, and then two branches: one charges while the other fails.
fn graph(charges: &'static str) -> CompiledGraph<Names> {
    Graph::new("migrated")
        .add_node("first", charging)
        .compensate("first", refund)
        .add_parallel_edge("first", [charges, "fails"], END, FanOut::merge(merge))
        .add_node(charges, charging)
        .compensate(charges, refund)
        .add_edge(charges, END)
        .add_node("fails", failing)
        .add_edge("fails", END)
        .set_entry("first")
        .compile()
        .unwrap()
}

fn migrate(run: RunOptions<'static, Names>) -> RunOptions<'static, Names> {
    let same = |state: serde_json::Value| Ok::<_, Infallible>(state);
    run.schema(2).migrations(&Migrations::new().state(1, same).rename_node("slow", "late"))
}

/// Drops a run while it hangs in an undo.
fn abandon(fixture: &StoredRunFixture, run: RunOptions<'static, Names>) {
    let minute = Box::pin(fixture.sim.sleep(Duration::from_secs(60)));
    let hangs = fixture.sim.run(async { matches!(select(run.into_future(), minute).await, Either::Right(_)) });
    assert!(hangs, "an undo hangs");
}

/// How often each call happened.
fn counts(fixture: &StoredRunFixture) -> BTreeMap<String, usize> {
    let all = fixture.nodes.outside.take();
    let mut counts = BTreeMap::new();
    all.into_iter().for_each(|one| *counts.entry(one).or_default() += 1);
    counts
}

/// The run fails and hangs in the undo of `hangs`. A later version resumes it and is dropped in the
/// undo of `hangs_later`.
fn migrated(charges: &'static str, hangs: &str, hangs_later: &str) -> (StoredRunFixture, CompiledGraph<Names>, u64) {
    let fixture = StoredRunFixture::new(1);
    fixture.nodes.hang(&[hangs]);
    abandon(&fixture, fixture.run(&graph("slow"), vec![]).schema(1));
    let graph = graph(charges);
    fixture.nodes.hang(&[hangs_later]);
    abandon(&fixture, migrate(fixture.resume(&graph, |run| run)));
    let end = fixture.record("r", Kind::End, "fails");
    assert_eq!(fixture.rows("r").iter().filter(|row| row.open_header("r").unwrap().kind == Kind::End).count(), 2);
    fixture.nodes.hang(&[]);
    (fixture, graph, end)
}

#[test]
fn f12_visit_is_undone_once_after_a_migration_and_a_rewind() {
    for charges in ["slow", "late"] {
        let (fixture, graph, end) = migrated(charges, "slow", charges);
        let error = fixture.end(migrate(fixture.resume(&graph, |run: Resume<Names>| run.rewind_to(end)))).unwrap_err();
        let Some(Compensation::Compensated { undone }) = error.compensation() else { panic!("{charges}: {error}") };
        assert_eq!(undone, &[charges, "first"]);
        // No undo had finished before the rewind, so nothing is charged again.
        assert_eq!(counts(&fixture), BTreeMap::from([("charge".into(), 2), ("refund".into(), 2)]), "{charges}");
    }
}

#[test]
fn f12_visit_undone_before_a_migration_charges_again_after_a_rewind() {
    for charges in ["slow", "late"] {
        let (fixture, graph, end) = migrated(charges, "first", "first");
        let error = fixture.end(migrate(fixture.resume(&graph, |run: Resume<Names>| run.rewind_to(end)))).unwrap_err();
        let Some(Compensation::Compensated { undone }) = error.compensation() else { panic!("{charges}: {error}") };
        assert_eq!(undone, &[charges, "first"]);
        assert_eq!(counts(&fixture), BTreeMap::from([("charge".into(), 3), ("refund".into(), 3)]), "{charges}");
    }
}

#[test]
fn f12_undone_visit_charges_again_after_a_rewind_to_its_undo() {
    let fixture = StoredRunFixture::new(1);
    let graph = graph("slow");
    fixture.nodes.hang(&["first"]);
    abandon(&fixture, fixture.run(&graph, vec![]));
    fixture.nodes.hang(&[]);
    let undone_at = fixture.record("r", Kind::Undo, "slow");
    let error = fixture.end(fixture.resume(&graph, |run: Resume<Names>| run.rewind_to(undone_at))).unwrap_err();
    let Some(Compensation::Compensated { undone }) = error.compensation() else { panic!("{error}") };
    assert_eq!(undone, &["slow", "first"]);
    assert_eq!(counts(&fixture), BTreeMap::from([("charge".into(), 3), ("refund".into(), 3)]));
}

#[test]
fn f12_second_migration_keeps_which_visit_was_undone() {
    let (fixture, graph, _) = migrated("late", "slow", "late");
    let again = || migrate(fixture.resume(&graph, |run| run)).schema(3);
    let same = |state: serde_json::Value| Ok::<_, Infallible>(state);
    let migrations = Migrations::new().state(1, same).state(2, same);
    fixture.nodes.hang(&["late"]);
    abandon(&fixture, again().migrations(&migrations));
    fixture.nodes.hang(&[]);
    let end = fixture.record("r", Kind::End, "fails");
    let rewound = fixture.resume(&graph, |run: Resume<Names>| run.rewind_to(end)).schema(3).migrations(&migrations);
    let error = fixture.end(rewound).unwrap_err();
    let Some(Compensation::Compensated { undone }) = error.compensation() else { panic!("{error}") };
    assert_eq!(undone, &["late", "first"]);
    assert_eq!(counts(&fixture), BTreeMap::from([("charge".into(), 2), ("refund".into(), 2)]));
}

/// The iteration that each undo sees, for three nodes in a row of which the last fails.
fn iterations_of_undos(fixture: &StoredRunFixture, is_migrated: bool) -> Vec<String> {
    let undo = |cx: NodeContext, (): ()| async move {
        let stage = cx.extension::<NodeControl>().unwrap();
        stage.enter(&cx).await?;
        stage.outside.push(cx.iteration().to_string());
        Ok::<_, String>(())
    };
    let chain = |second: &'static str| {
        let done = |cx: NodeContext, names: Names| async move {
            cx.record_undo(());
            Ok::<_, String>(names)
        };
        let graph = Graph::new("chain").add_node("first", done).compensate("first", undo).add_node("fails", failing);
        let graph = graph.add_node(second, done).compensate(second, undo);
        let graph = graph.add_edge("first", second).add_edge(second, "fails").add_edge("fails", END);
        graph.set_entry("first").compile().unwrap()
    };
    fixture.nodes.hang(&["slow"]);
    abandon(fixture, fixture.run(&chain("slow"), vec![]).schema(1));
    fixture.nodes.hang(&[]);
    let resumed = match is_migrated {
        true => migrate(fixture.resume(&chain("late"), |run| run)),
        false => fixture.resume(&chain("slow"), |run| run).schema(1),
    };
    assert!(fixture.end(resumed).is_err());
    fixture.nodes.outside.take()
}

#[test]
fn f12_undo_sees_the_iteration_of_its_visit_after_a_migration() {
    assert_eq!(iterations_of_undos(&StoredRunFixture::new(1), false), ["2", "1"]);
    assert_eq!(iterations_of_undos(&StoredRunFixture::new(1), true), ["2", "1"]);
}
