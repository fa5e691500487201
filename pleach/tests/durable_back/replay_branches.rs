//! C5: a replay of the last node keeps the records of other branches, also those written after a
//! rewind, a migration or another replay.
use crate::common::stored::{Names, NodeControl, NodeFuture, StoredRunFixture, merge, named};
use pleach::durable::Resume;
use pleach::graph::FanOut;
use pleach::prelude::*;
use pleach::store::Kind;

/// Pays, and then acts like `named`.
fn paying(cx: NodeContext, names: Names) -> NodeFuture<Names> {
    Box::pin(async move {
        let outside = cx.extension::<NodeControl>().unwrap().outside.clone();
        if cx.extension::<Pays>().is_none() {
            std::future::pending::<()>().await;
        }
        let work = move |_key: String| async move {
            outside.push("paid".to_string());
            Ok::<_, String>(())
        };
        cx.effect("pay", work).await?;
        named("pays")(cx, names).await
    })
}

/// Extension of a process in which `pays` may pay.
struct Pays;

/// Three branches: `a1` and `a2`; `b1` and `b2`; one that pays, directly or inside a subgraph.
fn graph(in_subgraph: bool) -> CompiledGraph<Names> {
    let pays = Graph::new("inner").add_node("pays", paying).add_edge("pays", END).set_entry("pays").compile().unwrap();
    let graph = Graph::new("replayed")
        .add_node("start", named("start"))
        .add_parallel_edge("start", ["a1", "b1", "pays"], END, FanOut::merge(merge))
        .add_node("a1", named("a1"))
        .add_edge("a1", "a2")
        .add_node("a2", named("a2"))
        .add_edge("a2", END)
        .add_node("b1", named("b1"))
        .add_edge("b1", "b2")
        .add_node("b2", named("b2"))
        .add_edge("b2", END);
    let graph = match in_subgraph {
        true => graph.add_subgraph("pays", pays, Names::clone, |_, inner| inner),
        false => graph.add_node("pays", paying),
    };
    graph.add_edge("pays", END).set_entry("start").compile().unwrap()
}

/// The name of the paying node, without and with a subgraph.
const PAYS: [&str; 2] = ["pays", "pays/pays"];

/// Replays the last node until the end: `a1` runs again, and nothing is paid again.
fn replay(fixture: &StoredRunFixture, graph: &CompiledGraph<Names>) {
    fixture.nodes.starts.take();
    let ended = fixture.end(fixture.resume(graph, |run: Resume<Names>| run.replay_last()).extension(Pays)).unwrap();
    assert_eq!(ended, ["start", "a1", "a2", "b1", "b2", "pays"]);
    assert_eq!(fixture.nodes.started().iter().filter(|node| *node == "a1").count(), 1);
    assert_eq!(fixture.nodes.outside.take(), ["paid"], "the other branch does not repeat its effect");
}

#[test]
fn c5_replay_keeps_records_of_other_branches_after_a_rewind() {
    for (in_subgraph, hangs) in [false, true].into_iter().zip(PAYS) {
        let (fixture, graph) = (StoredRunFixture::new(1), graph(in_subgraph));
        fixture.nodes.hang(&["a2", "b1", hangs]);
        fixture.leave(fixture.run(&graph, vec![]));
        let a1 = fixture.record("r", Kind::Step, "a1");
        fixture.leave(fixture.resume(&graph, |run: Resume<Names>| run.rewind_to(a1)).extension(Pays));
        fixture.nodes.hang(&[]);
        replay(&fixture, &graph);
    }
}

#[test]
fn c5_replay_after_a_replay_keeps_records_of_other_branches() {
    for (in_subgraph, hangs) in [false, true].into_iter().zip(PAYS) {
        let (fixture, graph) = (StoredRunFixture::new(1), graph(in_subgraph));
        fixture.nodes.hang(&["a2", "b1"]);
        fixture.leave(fixture.run(&graph, vec![]));
        fixture.nodes.hang(&["a2", "b2", hangs]);
        fixture.leave(fixture.resume(&graph, |run| run));
        fixture.leave(fixture.resume(&graph, |run| run).extension(Pays));
        // The last node is `b1`. Its replay does not finish, so then the last one is `a1`.
        fixture.nodes.hang(&["a2", "b1", hangs]);
        fixture.leave(fixture.resume(&graph, |run: Resume<Names>| run.replay_last()));
        fixture.nodes.hang(&[]);
        replay(&fixture, &graph);
    }
}

#[test]
fn c5_replay_after_two_rewinds_finds_the_branch_under_its_new_path() {
    let (fixture, graph) = (StoredRunFixture::new(1), graph(true));
    fixture.nodes.hang(&["a2", "b1", "pays/pays"]);
    fixture.leave(fixture.run(&graph, vec![]));
    for pays in [false, true] {
        let to = fixture.info("r").head;
        let resume = fixture.resume(&graph, |run: Resume<Names>| run.rewind_to(to));
        fixture.leave(if pays { resume.extension(Pays) } else { resume });
    }
    fixture.nodes.hang(&[]);
    replay(&fixture, &graph);
}
