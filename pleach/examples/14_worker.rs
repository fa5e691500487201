//! Workers that share the runs of a store. One closes early, and the other continues its runs.
//!
//! Run it with `cargo run --package pleach --features graph --example 14_worker`.

use pleach::durable::RunRemote;
use pleach::prelude::*;
use pleach::store::RunStatus;
use pleach::worker::{RunEnd, RunningWorker, Worker, WorkerEvent};
use serde::{Deserialize, Serialize};

#[derive(Debug, Default, Serialize, Deserialize)]
struct Order {
    cups: u32,
    address: String,
}

async fn brew(mut order: Order) -> Result<Order, pleach::BoxError> {
    order.cups += 1;
    Ok(order)
}

async fn deliver(cx: NodeContext, mut order: Order) -> Result<Order, pleach::BoxError> {
    // No worker holds a waiting run.
    order.address = cx.signal("address").await;
    Ok(order)
}

fn start_worker(name: &'static str, store: &MemoryStore, graph: &CompiledGraph<Order>) -> Result<RunningWorker, RunFault> {
    let listen = move |event: &WorkerEvent| match event {
        WorkerEvent::Claimed { run, head, .. } => println!("{name} claims {run} after record {head}"),
        WorkerEvent::Ended { run, end: RunEnd::Waits { keys } } => println!("{name} releases {run}, which waits for {keys:?}"),
        WorkerEvent::Ended { run, end } => println!("{name} ends {run}: {end:?}"),
        _ => {}
    };
    Worker::new(store).graph(graph).name(name).limit(2).on_event(listen).start()
}

#[tokio::main]
async fn main() -> Result<(), pleach::Error> {
    let graph = Graph::<Order>::new("coffee")
        .add_node("brew", brew)
        .add_node("deliver", deliver)
        .add_edge("brew", "deliver")
        .add_edge("deliver", END)
        .set_entry("brew")
        .compile()?;
    // With a `PostgresStore` or a `SqliteStore` the workers can be other processes.
    let store = MemoryStore::new();
    let (ann, bob) = (start_worker("ann", &store, &graph)?, start_worker("bob", &store, &graph)?);

    for table in 1..=4 {
        graph.run(Order::default()).id(format!("table-{table}")).checkpoint(&store).enqueue().await?;
    }
    // All runs have passed `brew` and wait for their addresses. No worker holds them.
    for table in 1..=4 {
        while RunRemote::new(&store, format!("table-{table}")).view().await?.status != RunStatus::Waiting {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    // Ann finishes its current runs, within at most one second.
    ann.close(Duration::from_secs(1)).await;

    for table in 1..=3 {
        RunRemote::new(&store, format!("table-{table}")).signal("address", &format!("window {table}")).await?;
    }
    let fourth = RunRemote::new(&store, "table-4");
    fourth.cancel("they left").await?;
    for table in 1..=3 {
        let order = graph.outcome_of(format!("table-{table}"), &store).await?;
        assert_eq!((order.cups, order.address), (1, format!("window {table}")));
    }
    let error = graph.outcome_of("table-4", &store).await.expect_err("it was cancelled");
    println!("{error}: {:?}", fourth.view().await?.status);
    bob.close(Duration::from_secs(1)).await;
    Ok(())
}
