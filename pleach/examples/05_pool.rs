//! A pool shares work among equal actors. A topic sends a message to all its subscribers.
//!
//! Run it with `cargo run --package pleach --example 05_pool`.

use pleach::prelude::*;
use std::collections::HashMap;

/// Counts the orders of its customers. Each customer has one clerk, so no count is shared.
#[derive(Default)]
struct Clerk {
    orders: HashMap<String, u32>,
}

enum Msg {
    Order(String),
    Orders(String, Reply<u32>),
    /// Published to all clerks.
    Closing(&'static str),
}

impl Actor for Clerk {
    type Msg = Msg;
    type Error = String;

    async fn handle(&mut self, msg: Msg, cx: &mut Context<Self>) -> Result<(), String> {
        match msg {
            Msg::Order(customer) if customer.is_empty() => return Err("an order without a customer".into()),
            Msg::Order(customer) => *self.orders.entry(customer).or_default() += 1,
            Msg::Orders(customer, reply) => reply.send(self.orders.get(&customer).copied().unwrap_or(0)),
            Msg::Closing(why) => println!("{} received: {why}", cx.path()),
        }
        Ok(())
    }
}

fn customer(msg: &Msg) -> String {
    match msg {
        Msg::Order(customer) | Msg::Orders(customer, _) => customer.clone(),
        Msg::Closing(_) => String::new(),
    }
}

#[tokio::main]
async fn main() -> Result<(), pleach::Error> {
    let system = ActorSystem::new("shop")?;
    let clerks = system.pool("clerks", 3, |_place| Props::new(Clerk::default)).by_key(customer).build()?;
    let news = Topic::new();
    for clerk in clerks.workers() {
        // `Wait`: the publisher waits for a clerk with a full mailbox. Restarts keep subscriptions.
        news.subscribe_with(&clerk, SlowSubscriber::Wait, Msg::Closing);
    }

    for n in 0..300 {
        clerks.send(Msg::Order(format!("customer {}", n % 10))).await?;
    }
    // All messages of one customer go to one clerk, and so does this question.
    let orders = clerks.ask(|reply| Msg::Orders("customer 7".into(), reply)).await?;
    println!("customer 7 has ordered {orders} times");
    assert_eq!(orders, 30);

    // A failed clerk restarts under its old address. The pool continues.
    clerks.send(Msg::Order(String::new())).await?;
    let report = news.publish("the shop closes at six").await;
    assert_eq!((report.delivered, report.dropped), (3, 0));

    // Shrink to one clerk. The others handle their queued messages first.
    clerks.resize(1)?;
    clerks.send(Msg::Order("customer 7".into())).await?;

    system.shutdown(Duration::from_secs(5)).await?;
    println!("{}", system.counts());
    assert!(system.counts().is_settled() && system.counts().failed == 1);
    Ok(())
}
