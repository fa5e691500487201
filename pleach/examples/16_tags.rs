//! Tags and search: runs are found by customer and stage, and a failed run says why.
//!
//! Run it with `cargo run --package pleach --features sqlite --example 16_tags`.

use pleach::durable::{RunControlError, RunRemote};
use pleach::prelude::*;
use pleach::store::{Filter, RunStatus, StoreError};
use pleach::worker::Worker;

async fn charge(cx: NodeContext, cents: u32) -> Result<u32, pleach::BoxError> {
    if cents > 5_000 {
        return Err(format!("card declined for {cents} cents").into());
    }
    // Stored together with the record of this node.
    cx.set_tag("stage", "paid")?;
    Ok(cents)
}

async fn ship(cx: NodeContext, cents: u32) -> Result<u32, pleach::BoxError> {
    let parcels: u32 = cx.interrupt("parcels", "how many parcels?").await;
    cx.set_tag("stage", "shipped")?;
    cx.set_tag("parcels", parcels.to_string())?;
    Ok(cents)
}

/// Lists the ids of all matching runs, the newest first, in pages of two.
async fn find(store: &SqliteStore, filters: &[Filter]) -> Result<Vec<String>, StoreError> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = store.list(filters.to_vec(), after, 2).await?;
        found.extend(page.runs.into_iter().map(|run| run.id));
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(found),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = Graph::<u32>::new("orders")
        .add_node("charge", charge)
        .add_node("ship", ship)
        .add_edge("charge", "ship")
        .add_edge("ship", END)
        .set_entry("charge")
        .compile()?;
    let folder = std::env::temp_dir().join(format!("pleach-tags-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let store = SqliteStore::open(folder.join("orders.db")).await?;
    let worker = Worker::new(&store).graph(&graph).start()?;

    for (order, customer, cents) in [(1, "ann", 500), (2, "bob", 900), (3, "ann", 9_000), (4, "ann", 700)] {
        let run = graph.run(cents).id(format!("order-{order}")).tag("customer", customer).tag("stage", "new");
        run.checkpoint(&store).enqueue().await?;
    }
    // A confirmed answer reports a mistake to its sender. The run keeps waiting.
    let (first, soon) = (RunRemote::new(&store, "order-1"), Duration::from_secs(20));
    let mistake = first.resume_with("parcels", "two").confirmed(soon).await;
    let Err(RunControlError::Refused { reason, .. }) = &mistake else { panic!("{mistake:?}") };
    println!("refused: {reason}");
    first.resume_with("parcels", &2).confirmed(soon).await?;
    assert_eq!(graph.outcome_of("order-1", &store).await?, 500);
    assert!(graph.outcome_of("order-3", &store).await.is_err());
    // The other two wait for an answer.
    while find(&store, &[Filter::tag("stage", "paid"), Filter::Status(RunStatus::Waiting)]).await?.len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    let ann = Filter::tag("customer", "ann");
    assert_eq!(find(&store, std::slice::from_ref(&ann)).await?, ["order-4", "order-3", "order-1"]);
    assert_eq!(find(&store, &[ann.clone(), Filter::tag("stage", "shipped")]).await?, ["order-1"]);
    assert_eq!(find(&store, &[Filter::tag("stage", "paid")]).await?, ["order-4", "order-2"]);
    assert_eq!(find(&store, &[Filter::IdPrefix("order-".into()), Filter::Status(RunStatus::Failed)]).await?, ["order-3"]);

    // Why a run failed is read without its graph.
    let failed = store.list(vec![ann, Filter::Status(RunStatus::Failed)], None, 1).await?.runs.remove(0);
    let failure = failed.failure.expect("a failed run has a failure");
    println!("{} [{}] failed {failure}", failed.id, failed.tags);
    assert_eq!((failure.node.as_str(), failure.attempt), ("charge", 1));
    assert_eq!(failure.reason, "card declined for 9000 cents");
    let view = first.view().await?;
    assert_eq!((view.tags.get("parcels"), view.refused.len()), (Some("2"), 1));

    worker.close(Duration::from_secs(1)).await;
    drop(store);
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
