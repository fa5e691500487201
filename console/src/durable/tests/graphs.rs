//! The graphs of the runs. Each effect and undo is written down when it really happens.

use pleach::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::{Arc, Mutex};

type BoxError = pleach::BoxError;

/// What effects and undos did, in their order: `charge of pay`, `undo of pay`.
#[derive(Clone, Debug, Default)]
pub struct Done(Arc<Mutex<Vec<String>>>);

impl Done {
    pub fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    /// Returns what was done since the last call.
    pub fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A state with numbers that only their text keeps exact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    pub number: i64,
    pub rate: f64,
    pub address: String,
    pub steps: Vec<String>,
}

impl Order {
    pub fn to(address: &str) -> Self {
        Self { number: i64::MAX, rate: 0.1, address: address.into(), steps: Vec::new() }
    }

    fn after(mut self, step: &str) -> Self {
        self.steps.push(step.into());
        self
    }
}

/// Pays with an effect and an undo, asks whether to ship, and ships. No truck drives to `nowhere`.
pub fn order(done: &Done) -> CompiledGraph<Order> {
    let (paid, undone, shipped) = (done.clone(), done.clone(), done.clone());
    let pay = move |cx: NodeContext, order: Order| {
        let paid = paid.clone();
        async move {
            cx.record_undo(500_u64);
            cx.effect("charge", |_key| async move {
                paid.note("charge of pay");
                Ok::<_, String>(500)
            })
            .await?;
            Ok::<_, BoxError>(order.after("pay"))
        }
    };
    let approve = |cx: NodeContext, order: Order| async move {
        let schema = json!({ "type": "boolean", "title": "Approved" });
        let question = json!({ "text": format!("Ship to {}?", order.address), "schema": schema });
        let is_approved: bool = cx.interrupt("approve", &question).await;
        if is_approved { Ok::<_, BoxError>(order.after("approve")) } else { Err("the order was not approved".into()) }
    };
    let ship = move |cx: NodeContext, order: Order| {
        let shipped = shipped.clone();
        async move {
            cx.effect("label", |_key| async move {
                shipped.note("label of ship");
                Ok::<_, String>(7)
            })
            .await?;
            match order.address.as_str() {
                "nowhere" => Err::<_, BoxError>("no truck drives to nowhere\nsecond line".into()),
                _ => Ok(order.after("ship")),
            }
        }
    };
    Graph::new("order")
        .add_node("pay", pay)
        .add_node("approve", approve)
        .add_node("ship", ship)
        .add_edge("pay", "approve")
        .add_edge("approve", "ship")
        .add_edge("ship", END)
        .compensate("pay", move |_cx: NodeContext, cents: u64| {
            let undone = undone.clone();
            async move {
                undone.note(format!("undo of pay: {cents}"));
                Ok::<_, BoxError>(())
            }
        })
        .set_entry("pay")
        .compile()
        .unwrap()
}

/// As [`order`], but without an undo: a failed run can be retried. It fails while `broken` says so.
pub fn shipment(done: &Done, broken: &Arc<Mutex<Option<String>>>) -> CompiledGraph<Order> {
    let (done, broken) = (done.clone(), Arc::clone(broken));
    let ship = move |cx: NodeContext, order: Order| {
        let (done, broken) = (done.clone(), broken.lock().unwrap().clone());
        async move {
            cx.effect("label", |_key| async move {
                done.note("label of ship");
                Ok::<_, String>(7)
            })
            .await?;
            match broken {
                Some(reason) => Err::<_, BoxError>(reason.into()),
                None => Ok(order.after("ship")),
            }
        }
    };
    Graph::new("shipment")
        .add_node("ship", ship)
        .add_node("file", |order: Order| async { Ok::<_, BoxError>(order.after("file")) })
        .add_edge("ship", "file")
        .add_edge("file", END)
        .set_entry("ship")
        .compile()
        .unwrap()
}

/// Waits for the signal `more`, which is a text.
pub fn signal() -> CompiledGraph<Order> {
    let wait = |cx: NodeContext, order: Order| async move {
        let more: String = cx.signal("more").await;
        Ok::<_, BoxError>(order.after(&more))
    };
    Graph::new("signal").add_node("wait", wait).add_edge("wait", END).set_entry("wait").compile().unwrap()
}

/// Sleeps for a day.
pub fn timer() -> CompiledGraph<Order> {
    let wait = |cx: NodeContext, order: Order| async move {
        cx.sleep("day", Duration::from_secs(86_400)).await;
        Ok::<_, BoxError>(order)
    };
    Graph::new("timer").add_node("sleep", wait).add_edge("sleep", END).set_entry("sleep").compile().unwrap()
}

/// Counts down, with one record for each step.
pub fn count() -> CompiledGraph<u64> {
    Graph::new("count")
        .add_node("step", |left: u64| async move { Ok::<_, BoxError>(left.saturating_sub(1)) })
        .add_conditional_edge("step", ["step", END], |left: &u64| if *left > 0 { "step" } else { END })
        .set_entry("step")
        .compile()
        .unwrap()
}

/// One branch for each parcel. Each waits for the signal `packed`, then the branches join at
/// `send`.
pub fn parcels() -> CompiledGraph<Vec<u64>> {
    let pack = |cx: NodeContext, parcel: Vec<u64>| async move {
        let _: String = cx.signal("packed").await;
        Ok::<_, BoxError>(parcel)
    };
    let fan_out = FanOut::merge(|before: Vec<u64>, _: Vec<Vec<u64>>| before);
    Graph::new("parcels")
        .add_node("begin", |parcels: Vec<u64>| async { Ok::<_, BoxError>(parcels) })
        .add_node("pack", pack)
        .add_node("send", |parcels: Vec<u64>| async { Ok::<_, BoxError>(parcels) })
        .map("begin", |parcels: &Vec<u64>| parcels.iter().map(|parcel| vec![*parcel]).collect(), "pack", "send", fan_out)
        .add_edge("pack", "send")
        .add_edge("send", END)
        .set_entry("begin")
        .compile()
        .unwrap()
}

/// Blocks in its only node until it is cancelled.
pub fn endless() -> CompiledGraph<u64> {
    let block = |_: u64| async { std::future::pending::<Result<u64, BoxError>>().await };
    Graph::new("endless").add_node("block", block).add_edge("block", END).set_entry("block").compile().unwrap()
}
