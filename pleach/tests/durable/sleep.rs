//! C12: the first deadline of a sleep counts, whatever later attempts say, for stored and in-memory
//! runs.
use crate::common::stored::{NodeFuture, StoredRunFixture};
use pleach::prelude::*;

/// A node that succeeds in its third attempt.
fn third_attempt(node: fn(NodeContext) -> NodeFuture<()>) -> CompiledGraph<u32> {
    let node = move |cx: NodeContext, n: u32| async move {
        let attempt = cx.attempt();
        node(cx).await?;
        if attempt < 3 { Err(format!("attempt {attempt}")) } else { Ok(n + attempt) }
    };
    let graph = Graph::new("third_attempt").add_node("node", node).policy("node", Policy::new().retry(Retry::times(3)));
    graph.add_edge("node", END).set_entry("node").compile().unwrap()
}

/// The rounded duration in seconds, for a stored and an in-memory run.
fn seconds(node: fn(NodeContext) -> NodeFuture<()>) -> [u64; 2] {
    let graph = third_attempt(node);
    [true, false].map(|is_stored| {
        let fixture = StoredRunFixture::new(1);
        let began = fixture.sim.now();
        let run = if is_stored { fixture.run(&graph, 1) } else { fixture.here(graph.run(1)) };
        assert_eq!(fixture.end(run).unwrap(), 4);
        fixture.sim.now().since(began).as_secs_f64().round() as u64
    })
}

#[test]
fn c12_repeated_sleep_ends_at_its_first_deadline() {
    assert_eq!(
        seconds(|cx| Box::pin(async move {
            cx.sleep("rest", Duration::from_secs(100)).await;
            Ok(())
        })),
        [100, 100]
    );
    assert_eq!(
        seconds(|cx| Box::pin(async move {
            cx.sleep_until("rest", cx.now() + Duration::from_secs(100 * u64::from(cx.attempt()))).await;
            Ok(())
        })),
        [100, 100]
    );
}

#[test]
fn c12_deadline_in_the_past_stays_in_the_past() {
    assert_eq!(
        seconds(|cx| Box::pin(async move {
            let hours = Duration::from_secs(3_600);
            let at = if cx.attempt() == 1 { cx.now() - Duration::from_secs(1) } else { cx.now() + hours };
            cx.sleep_until("rest", at).await;
            Ok(())
        })),
        [0, 0]
    );
}
