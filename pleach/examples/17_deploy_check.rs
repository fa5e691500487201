//! A deploy is checked before it is done: which waiting runs would the new program serve?
//!
//! Run it with `cargo run --package pleach --features graph --example 17_deploy_check`.

use pleach::durable::{DeployCheck, DeployError, GraphExport, Migrations, RewindTo, RunFit, RunRemote};
use pleach::prelude::*;
use pleach::worker::Worker;
use serde::{Deserialize, Serialize};

#[derive(Debug, Default, Serialize, Deserialize)]
struct Order {
    receipt: String,
    is_approved: bool,
}

async fn pay(cx: NodeContext, mut order: Order) -> Result<Order, pleach::BoxError> {
    let receipt = cx.effect("charge", |key| async move { Ok::<_, pleach::BoxError>(format!("receipt {key}")) });
    order.receipt = receipt.await?;
    Ok(order)
}

async fn approve(cx: NodeContext, mut order: Order) -> Result<Order, pleach::BoxError> {
    order.is_approved = cx.interrupt("approve", "ship it?").await;
    Ok(order)
}

async fn ship(order: Order) -> Order {
    order
}

/// The graph that runs in production.
fn old_graph() -> Graph<Order> {
    Graph::new("order").add_node("pay", pay).add_node("approve", approve).add_edge("pay", "approve").set_entry("pay")
}

#[tokio::main]
async fn main() -> Result<(), pleach::Error> {
    let old = old_graph().add_edge("approve", END).compile()?;
    // The new version has one node more.
    let new = old_graph().add_node("ship", ship).add_edge("approve", "ship").add_edge("ship", END).compile()?;
    let store = MemoryStore::new();
    for number in 1..=3 {
        let run = old.run(Order::default()).id(format!("order-{number}")).checkpoint(&store);
        assert!(matches!(run.await.expect_err("it waits").fault(), RunFault::Paused { .. }));
    }

    // A program can write its graphs to a file. The check then needs only the file and the store.
    let file = serde_json::to_string(&[new.export()]).map_err(std::io::Error::from)?;
    let exports: Vec<GraphExport> = serde_json::from_str(&file).map_err(std::io::Error::from)?;
    let check = exports.into_iter().fold(DeployCheck::new(), DeployCheck::export);
    let report = check.run(&store).await?;
    println!("{report}");
    assert_eq!(report.count(RunFit::UnknownFingerprint), 3);

    // A worker that must serve all runs refuses to start.
    let refused = Worker::new(&store).graph(&new).refuse_unserved().await.expect_err("it serves no run");
    assert!(matches!(refused, DeployError::Unserved(_)));

    // With a migration it serves them. The old export tells which runs would change course.
    let worker = Worker::new(&store)
        .graph_with(&new, |run| run.migrations(&Migrations::new().accept_compatible()))
        .accept_fingerprints([old.fingerprint()]);
    let check = worker.exports().into_iter().fold(DeployCheck::new(), DeployCheck::export).previous(old.export());
    let report = check.run(&store).await?;
    println!("{report}");
    assert_eq!((report.unserved_runs(), report.count(RunFit::ChangesCourse)), (0, 3));
    let worker = worker.refuse_unserved().await?.start()?;

    let order = RunRemote::new(&store, "order-1");
    order.resume_with("approve", &true).await?;
    assert!(new.outcome_of("order-1", &store).await?.is_approved);
    assert!(worker.unserved().is_empty());

    // Before a rewind: what would happen?
    let preview = order.preview_rewind(RewindTo::Record(1)).await?;
    println!("{preview}");
    let effects: Vec<&str> = preview.effects_again.iter().map(|effect| effect.name.as_str()).collect();
    assert_eq!((effects, preview.waits_again.len()), (vec!["charge"], 1));
    let last = store.head("order-1").await?.head;
    println!("{}", serde_json::to_string(&order.state_patch(1, last).await?).map_err(std::io::Error::from)?);
    worker.close(Duration::from_secs(1)).await;
    Ok(())
}
