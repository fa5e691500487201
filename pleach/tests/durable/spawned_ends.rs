//! F9, F11: a failing run waits only for tasks that still work, whatever error a spawned node
//! returned.
use crate::common::stored::StoredRunFixture;
use crate::{pass, sum};
use pleach::BoxError;
use pleach::graph::{FanOut, Policy, Retry};
use pleach::prelude::*;
use pleach::scope::Elapsed;

/// The first attempt of the first branch returns `Elapsed` as its own error; it did not time out.
async fn elapse(cx: NodeContext, n: u32) -> Result<u32, BoxError> {
    if n == 1 && cx.attempt() == 1 { Err(Elapsed(Duration::from_secs(1)).into()) } else { Ok(n) }
}

/// Two spawned branches, followed by a node that fails.
fn branches(policy: Policy<u32>) -> CompiledGraph<u32> {
    Graph::new("elapses")
        .add_node("split", pass)
        .map("split", |_| vec![1, 2], "item", "last", FanOut::merge(sum).spawned())
        .add_node("item", elapse)
        .policy("item", policy)
        .add_edge("item", "last")
        .add_node("last", |_: u32| async move { Err::<u32, _>("the last node fails") })
        .add_edge("last", END)
        .set_entry("split")
        .compile()
        .unwrap()
}

#[test]
fn f9_run_ends_after_a_spawned_node_returned_elapsed() {
    let retried = || Policy::new().retry(Retry::times(2));
    for stored in [false, true] {
        for (policy, failed) in [(Policy::new(), "item"), (retried(), "last")] {
            let fixture = StoredRunFixture::new(1);
            let graph = branches(policy);
            let run = if stored { fixture.run(&graph, 0) } else { fixture.here(graph.run(0)) };
            let error = fixture.end(run).unwrap_err();
            assert!(
                matches!(error.fault(), RunFault::Node(error) if error.node == failed),
                "stored: {stored}, {failed}: {error}"
            );
        }
    }
}
