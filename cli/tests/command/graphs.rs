//! Graphs with undos, retries and branches.

use crate::fixture::Order;
use pleach::prelude::*;

async fn reserve(cx: NodeContext, order: Order) -> Result<Order, pleach::BoxError> {
    cx.record_undo(order.note.clone());
    Ok(order)
}

async fn refund(_: NodeContext, note: String) -> Result<(), String> {
    if note == "refund fails" { Err("the bank is closed".into()) } else { Ok(()) }
}

async fn charge(order: Order) -> Result<Order, String> {
    if order.note == "retry" { Ok(order) } else { Err("the card was refused".into()) }
}

async fn notify(_: Order) -> Result<Order, String> {
    Err("503 from the mail server".into())
}

/// Reserves with an undo, charges, and notifies with a retry after a long wait.
pub fn checkout() -> CompiledGraph<Order> {
    let wait = Duration::from_secs(600);
    Graph::new("checkout")
        .add_node("reserve", reserve)
        .add_node("charge", charge)
        .add_node("notify", notify)
        .add_edge("reserve", "charge")
        .add_edge("charge", "notify")
        .add_edge("notify", END)
        .set_entry("reserve")
        .compensate("reserve", refund)
        .policy("notify", Policy::new().retry(Retry::times(3).backoff(wait, wait)))
        .compile()
        .unwrap()
}

async fn same(order: Order) -> Result<Order, String> {
    Ok(order)
}

async fn ask(cx: NodeContext, order: Order) -> Result<Order, pleach::BoxError> {
    let _: bool = cx.interrupt("weigh", "how heavy?").await;
    Ok(order)
}

/// Splits into three branches; two of them ask.
pub fn shards() -> CompiledGraph<Order> {
    Graph::new("shards")
        .add_node("split", same)
        .add_node("quick", same)
        .add_node("left", ask)
        .add_node("right", ask)
        .add_node("pack", same)
        .add_parallel_edge("split", ["quick", "left", "right"], "pack", FanOut::merge(|before: Order, _: Vec<Order>| before))
        .add_edge("quick", "pack")
        .add_edge("left", "pack")
        .add_edge("right", "pack")
        .add_edge("pack", END)
        .set_entry("split")
        .compile()
        .unwrap()
}
