//! C3, C4, F12: what a resume repeats, what it does not, and under which keys.
use crate::common::flaky_store::{FlakyStore, WriteFailure};
use crate::common::stored::{Names, NodeControl, NodeFuture, StoredRunFixture, merge, named};
use pleach::graph::Compensation;
use pleach::prelude::*;
use pleach::store::RunStatus;

#[test]
fn c4_effect_with_an_empty_result_is_not_repeated() {
    let node = |cx: NodeContext, names: Names| -> NodeFuture<Names> {
        Box::pin(async move {
            let outside = cx.extension::<NodeControl>().unwrap().outside.clone();
            let sent = cx.effect("send", move |key| async move {
                outside.push(key);
                Ok::<Option<u32>, String>(None)
            });
            sent.await?;
            named("node")(cx, names).await
        })
    };
    let graph = Graph::new("nothing").add_node("node", node).add_edge("node", END).set_entry("node").compile().unwrap();
    let fixture = StoredRunFixture::new(1);
    fixture.nodes.hang(&["node"]);
    fixture.leave(fixture.run(&graph, vec![]));
    fixture.nodes.hang(&[]);
    fixture.end(fixture.resume(&graph, |run| run)).unwrap();
    assert_eq!(fixture.nodes.outside.len(), 1);
}

#[test]
fn c3_every_visit_of_a_run_has_a_different_key() {
    let inner = |name| {
        let graph = Graph::new(name).add_node("first", named("first")).add_edge("first", END).set_entry("first");
        graph.compile().unwrap()
    };
    let graph = Graph::new("subgraphs first")
        .add_node("before", named("before"))
        .add_node("left", named("left"))
        .add_subgraph("middle", inner("middle"), Names::clone, |_, inner| inner)
        .add_subgraph("right", inner("right"), Names::clone, |_, inner| inner)
        .add_node("after", named("after"))
        .add_parallel_edge("before", ["left", "middle", "right"], "after", merge)
        .add_edge("left", "after")
        .add_edge("middle", "after")
        .add_edge("right", "after")
        .add_edge("after", END)
        .set_entry("before")
        .compile()
        .unwrap();
    let fixture = StoredRunFixture::new(1);
    fixture.end(fixture.run(&graph, vec![])).unwrap();
    let starts = fixture.nodes.starts.take();
    let mut keys: Vec<&String> = starts.iter().map(|(_, key)| key).collect();
    keys.sort();
    keys.dedup();
    assert_eq!((starts.len(), keys.len()), (5, 5), "{starts:?}");
}

#[test]
fn f12_resume_between_two_undos_continues_the_undos() {
    let booking = |cx: NodeContext, names: Names| -> NodeFuture<Names> {
        Box::pin(async move {
            cx.record_undo(cx.node().to_string());
            named("booked")(cx, names).await
        })
    };
    let undo = |cx: NodeContext, name: String| async move {
        let stage = cx.extension::<NodeControl>().unwrap();
        stage.outside.push(name.clone());
        if stage.outside.len() == 2 { Err(format!("{name} cannot be undone")) } else { Ok(()) }
    };
    let graph = Graph::new("trip")
        .add_node("a", booking)
        .add_node("b", booking)
        .add_node("c", booking)
        .add_node("pay", named("pay"))
        .compensate("a", undo)
        .compensate("b", undo)
        .compensate("c", undo)
        .add_edge("a", "b")
        .add_edge("b", "c")
        .add_edge("c", "pay")
        .add_edge("pay", END)
        .set_entry("a")
        .compile()
        .unwrap();
    // The driver crashes at the record of the second undo, or the second undo fails.
    for crashes in [true, false] {
        let fixture = StoredRunFixture::new(1);
        fixture.nodes.fail(&["pay"]);
        let store = FlakyStore::new(fixture.store.clone());
        store.fail_at(if crashes { 7 } else { u64::MAX }, WriteFailure::Lost);
        fixture.end(fixture.here(graph.run(vec![]).id("r").checkpoint(&store))).unwrap_err();
        let status = fixture.info("r").status;
        assert_eq!(status, if crashes { RunStatus::Running } else { RunStatus::CompensationFailed });
        // The failed node would succeed now, but the run is already being undone.
        fixture.nodes.fail(&[]);
        fixture.nodes.starts.take();
        let error = fixture.end(fixture.resume(&graph, |run| run)).unwrap_err();
        // The undos of an earlier process are included.
        let undone = ["c", "b", "a"].map(String::from).to_vec();
        assert_eq!(error.compensation(), Some(&Compensation::Compensated { undone }), "{error}");
        assert_eq!((fixture.nodes.started(), fixture.info("r").status), (vec![], RunStatus::Compensated));
    }
}
