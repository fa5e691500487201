//! F12: a compensation that cannot read a record is interrupted, not failed: the driver ends with
//! `Checkpoint`, and a resume continues.
use crate::common::flaky_store::FlakyStore;
use crate::common::stored::{Names, NodeControl, NodeFuture, StoredRunFixture, named};
use pleach::graph::Compensation;
use pleach::prelude::*;
use pleach::store::RunStatus;

/// The records of the two undoable nodes. Record 1 is the start of the run.
const FIRST: u64 = 2;
const SECOND: u64 = 3;

fn undoable(name: &'static str) -> impl Fn(NodeContext, Names) -> NodeFuture<Names> {
    move |cx, names| {
        cx.record_undo(name.to_string());
        named(name)(cx, names)
    }
}

async fn undo(cx: NodeContext, name: String) -> Result<(), String> {
    cx.extension::<NodeControl>().unwrap().outside.push(name);
    Ok(())
}

async fn failing_undo(_: NodeContext, _: String) -> Result<(), String> {
    Err("the undo fails".to_string())
}

/// Two undoable nodes, and a third that fails.
fn three(second_fails: bool) -> CompiledGraph<Names> {
    let graph = Graph::new("three").add_node("first", undoable("first")).compensate("first", undo);
    let graph = graph.add_node("second", undoable("second"));
    let graph = if second_fails { graph.compensate("second", failing_undo) } else { graph.compensate("second", undo) };
    let graph = graph.add_node("third", named("third")).add_edge("first", "second").add_edge("second", "third");
    graph.add_edge("third", END).set_entry("first").compile().unwrap()
}

/// Runs the graph while this record cannot be read. Returns the errors of that driver and of the
/// next one.
fn interrupted(fixture: &StoredRunFixture, graph: &CompiledGraph<Names>, damaged: u64) -> [RunError<Names>; 2] {
    fixture.nodes.fail(&["third"]);
    let store = FlakyStore::new(fixture.store.clone());
    store.damage(damaged);
    let run = fixture.here(graph.run(vec![]).id("r").checkpoint(&store));
    let first = fixture.end(run).unwrap_err();
    assert!(matches!(first.fault(), RunFault::Checkpoint(_)), "record {damaged}: {first}");
    assert_eq!(first.compensation(), None, "record {damaged}: {first}");
    let second = fixture.end(fixture.resume(graph, |resume| resume)).unwrap_err();
    assert!(matches!(second.fault(), RunFault::Node(error) if error.node == "third"), "record {damaged}: {second}");
    [first, second]
}

#[test]
fn f12_unreadable_record_interrupts_a_compensation_and_resume_ends_it() {
    for damaged in [FIRST, SECOND] {
        let fixture = StoredRunFixture::new(1);
        let [_, ended] = interrupted(&fixture, &three(false), damaged);
        let undone = vec!["second".to_string(), "first".to_string()];
        assert_eq!(ended.compensation(), Some(&Compensation::Compensated { undone: undone.clone() }), "record {damaged}");
        assert_eq!(fixture.nodes.outside.take(), undone, "record {damaged}");
        assert_eq!(fixture.info("r").status, RunStatus::Compensated, "record {damaged}");
    }
}

#[test]
fn f12_resume_after_an_unreadable_record_names_the_remaining_undos() {
    let fixture = StoredRunFixture::new(1);
    let [_, ended] = interrupted(&fixture, &three(true), FIRST);
    let (node, reason, left) = ("second".to_string(), "the undo fails".to_string(), vec!["first".to_string()]);
    assert_eq!(ended.compensation(), Some(&Compensation::CompensationFailed { undone: vec![], node, reason, left }));
    assert_eq!(fixture.info("r").status, RunStatus::CompensationFailed);
}
