//! A durable run: cancelled in the middle, it resumes at the next step and does not pay twice.
//!
//! Run it with `cargo run --package pleach --features sqlite --example 12_durable`.

use pleach::graph::RunEvent;
use pleach::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
struct Order {
    paid: u32,
    packed: bool,
}

/// The bank: a system outside the store.
#[derive(Clone, Default)]
struct Bank(Arc<AtomicU32>);

impl Bank {
    async fn charge(self, key: String, cents: u32) -> Result<u32, std::io::Error> {
        println!("the bank charges {cents} under {key}");
        self.0.fetch_add(1, SeqCst);
        Ok(cents)
    }
}

async fn pay(cx: NodeContext, mut order: Order) -> Result<Order, pleach::BoxError> {
    let bank = cx.extension::<Bank>().ok_or("no bank")?.clone();
    // The result is on disk before the node continues.
    order.paid = cx.effect("charge", |key| bank.charge(key, 500)).await?;
    Ok(order)
}

async fn pack(mut order: Order) -> Result<Order, pleach::BoxError> {
    order.packed = true;
    Ok(order)
}

async fn ship(cx: NodeContext, order: Order) -> Result<Order, pleach::BoxError> {
    // The wake-up time is stored. Another process would wait for the same time.
    cx.sleep("until the van comes", Duration::from_millis(50)).await;
    Ok(order)
}

#[tokio::main]
async fn main() -> Result<(), pleach::Error> {
    let graph = Graph::<Order>::new("order")
        .add_node("pay", pay)
        .add_node("pack", pack)
        .add_node("ship", ship)
        .add_edge("pay", "pack")
        .add_edge("pack", "ship")
        .add_edge("ship", END)
        .set_entry("pay")
        .compile()?;
    let file = std::env::temp_dir().join(format!("pleach-12-{}.db", std::process::id()));
    let store = SqliteStore::open(&file).await?;
    let bank = Bank::default();

    // The first "process" is cancelled as soon as `pack` is durable.
    let token = pleach::token()?;
    let killer = token.clone();
    let hooks = Hooks::new(move |event: &RunEvent<&Order>| match event {
        RunEvent::NodeStarted { visit, .. } => println!("starting {}", visit.node),
        RunEvent::Checkpointed { sequence: 4, .. } => killer.cancel("a power cut"),
        _ => {}
    });
    let run = graph.run(Order::default()).id("order-7").checkpoint(&store).extension(bank.clone()).hooks(hooks).token(&token);
    println!("{}", run.await.expect_err("it is cancelled"));

    // A second one resumes the run: `pay` and `pack` are done.
    let hooks = Hooks::around_nodes(|visit, _| println!("starting {}", visit.node), |_, _| {});
    let order = graph.resume("order-7").checkpoint(&store).extension(bank.clone()).hooks(hooks).await?;
    println!("{order:?}");
    assert_eq!((order.paid, order.packed, bank.0.load(SeqCst)), (500, true, 1));
    drop(std::fs::remove_file(file));
    Ok(())
}
