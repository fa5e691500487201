//! C5: the last node can be replayed, however few records are kept.
use crate::common::stored::{Names, NodeFuture, StoredRunFixture, named};
use pleach::prelude::*;

/// `a`, and then `b`, which writes many records before it hangs or ends.
fn busy() -> CompiledGraph<Names> {
    let b = |cx: NodeContext, mut names: Names| -> NodeFuture<Names> {
        Box::pin(async move {
            for number in 0..300 {
                cx.effect(format!("effect {number}"), move |_| async move { Ok::<_, String>(number) }).await?;
            }
            let stage = cx.extension::<crate::common::stored::NodeControl>().unwrap().clone();
            stage.enter(&cx).await?;
            names.push("b".to_string());
            Ok(names)
        })
    };
    let graph = Graph::new("busy").add_node("a", named("a")).add_node("b", b);
    graph.add_edge("a", "b").add_edge("b", END).set_entry("a").compile().unwrap()
}

#[test]
fn c5_last_node_is_replayed_however_few_records_are_kept() {
    for kept in [1, 5] {
        let (fixture, graph) = (StoredRunFixture::new(1), busy());
        fixture.nodes.hang(&["b"]);
        fixture.leave(fixture.run(&graph, vec![]).keep_records(kept));
        assert_eq!(fixture.nodes.started(), ["a", "b"]);
        fixture.nodes.hang(&[]);
        let replayed = fixture.resume(&graph, |run| run.replay_last()).keep_records(kept);
        assert_eq!(fixture.end(replayed).unwrap(), ["a", "b"]);
        assert_eq!(fixture.nodes.started(), ["a", "b"], "the last finished node ran again");
        // The input of `a` is no longer needed.
        assert!(fixture.info("r").oldest > 300, "{:?}", fixture.info("r"));
    }
}
