//! Tags, failures and refused messages of real runs in one store, seen through a second handle to
//! it, as another process has it.

use pleach_graph::store::{FailureKind, Filter, RunStatus, Store};
use pleach_graph::{CompiledGraph, END, Graph, NodeContext, Policy, Retry, RunControlError, RunRemote, Worker};
use std::time::Duration;

/// How long the test waits for the worker.
const SOON: Duration = Duration::from_secs(30);

/// Asks for a number of parcels, and fails if it is zero.
fn graph() -> CompiledGraph<u32> {
    let ship = |cx: NodeContext, orders: u32| async move {
        cx.set_tag("stage", "asked").map_err(|error| error.to_string())?;
        let parcels: u32 = cx.interrupt("parcels", "how many?").await;
        cx.set_tag("stage", "shipped").map_err(|error| error.to_string())?;
        cx.remove_tag("new");
        if parcels == 0 { Err(format!("nothing to ship at attempt {}", cx.attempt())) } else { Ok(orders + parcels) }
    };
    let graph = Graph::new("parcels").add_node("ship", ship).policy("ship", Policy::new().retry(Retry::times(2)));
    graph.add_edge("ship", END).set_entry("ship").compile().unwrap()
}

/// Drives runs with one handle, and checks all that the other one shows.
pub async fn check_observed<S: Store + Clone>(driver: S, observer: S) {
    let graph = graph();
    let worker = Worker::new(&driver).graph(&graph).start().unwrap();
    for (id, customer) in [("order-1", "42"), ("order-2", "43")] {
        graph.run(1).id(id).tag("customer", customer).tag("new", "yes").checkpoint(&observer).enqueue().await.unwrap();
    }
    let ids = async |filters: &[Filter]| {
        let page = observer.list(filters.to_vec(), None, 9).await.unwrap();
        assert_eq!((page.next, page.damaged.len()), (None, 0));
        page.runs.into_iter().map(|run| run.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(&[Filter::tag("new", "yes"), Filter::IdPrefix("order-".into())]).await, ["order-2", "order-1"]);
    let (first, second) = (RunRemote::new(&observer, "order-1"), RunRemote::new(&observer, "order-2"));
    let refused = first.resume_with("parcels", "many").confirmed(SOON).await.unwrap_err();
    assert!(matches!(&refused, RunControlError::Refused { reason, .. } if reason.contains("many")), "{refused}");
    assert_eq!(ids(&[Filter::tag("stage", "asked"), Filter::tag("customer", "42")]).await, ["order-1"]);
    first.resume_with("parcels", &2).confirmed(SOON).await.unwrap();
    second.resume_with("parcels", &0).confirmed(SOON).await.unwrap();
    assert_eq!(graph.outcome_of("order-1", &observer).await.unwrap(), 3);
    graph.outcome_of("order-2", &observer).await.unwrap_err();
    assert_eq!(ids(&[Filter::tag("stage", "shipped")]).await, ["order-2", "order-1"]);
    assert!(ids(&[Filter::tag("new", "yes")]).await.is_empty());
    assert_eq!(ids(&[Filter::Status(RunStatus::Failed), Filter::tag("customer", "43")]).await, ["order-2"]);
    let failure = observer.head("order-2").await.unwrap().failure.unwrap();
    assert_eq!((failure.kind, failure.node.as_str(), failure.attempt), (FailureKind::Node, "ship", 2));
    assert_eq!((failure.reason.as_str(), failure.is_final), ("nothing to ship at attempt 2", true));
    let view = first.view().await.unwrap();
    assert_eq!((view.refused.len(), view.failure, view.tags.to_string().as_str()), (1, None, "customer=42 stage=shipped"));
    worker.close(SOON).await;
}
