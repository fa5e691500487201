//! A subgraph with its own state type, and undos that run when a later step fails.
//! Run it with `cargo run --package pleach --features graph --example 11_subgraph`.

use pleach::graph::{Compensation, RunEvent, RunUpdate};
use pleach::prelude::*;

/// The state of the inner graph.
#[derive(serde::Serialize, serde::Deserialize)]
struct Booking {
    what: String,
    price: u32,
}

/// The state of the outer graph.
#[derive(Clone, Debug)]
struct Journey {
    wishes: Vec<String>,
    booked: Vec<String>,
    budget: u32,
}

/// Reserves, and records what to undo. An extension passes prices, clients or addresses to nodes.
async fn reserve(cx: NodeContext, booking: Booking) -> Result<Booking, String> {
    let prices = cx.extension::<fn(&str) -> u32>().ok_or("no prices")?;
    cx.record_undo(booking.what.clone());
    cx.emit(format!("reserved {} under {}", booking.what, cx.idempotency_key()));
    Ok(Booking { price: prices(&booking.what), ..booking })
}

async fn release(_cx: NodeContext, what: String) -> Result<(), String> {
    println!("released {what}");
    Ok(())
}

fn or_pay(journey: &Journey) -> &'static str {
    if journey.booked.len() < journey.wishes.len() { "book" } else { "pay" }
}

/// Builds the state of the inner graph.
fn next_wish(journey: &Journey) -> Booking {
    Booking { what: journey.wishes[journey.booked.len()].clone(), price: 0 }
}

/// Merges the result of the inner graph into the outer state.
fn booked(mut journey: Journey, Booking { what, price }: Booking) -> Journey {
    journey.booked.push(what);
    Journey { budget: journey.budget.saturating_sub(price), ..journey }
}

#[tokio::main]
async fn main() -> Result<(), pleach::Error> {
    let booking = Graph::<Booking>::new("booking").add_node("reserve", reserve).add_edge("reserve", END).set_entry("reserve");
    let booking = booking.compensate("reserve", release).compile()?;
    let journey = Graph::<Journey>::new("journey")
        .add_subgraph("book", booking, next_wish, booked)
        .add_node("pay", |journey: Journey| async { if journey.budget > 0 { Ok(journey) } else { Err("no money left") } })
        .add_conditional_edge("book", ["book", "pay"], or_pay)
        .add_edge("pay", END)
        .set_entry("book")
        .compile()?;

    let prices: fn(&str) -> u32 = |what| what.len() as u32;
    let with = |budget| Journey { wishes: ["train", "hotel", "museum"].map(String::from).into(), booked: vec![], budget };

    // As a stream: events, emitted values and the outcome.
    let mut updates = journey.run(with(100)).id("journey-1").extension(prices).stream();
    while let Some(update) = updates.next().await {
        match update {
            RunUpdate::Event(RunEvent::Emitted { visit, value }) => println!("{}: {value:?}", visit.node),
            RunUpdate::Ended(journey) => assert_eq!(journey?.budget, 84),
            _ => {}
        }
    }
    // A failed run is undone, the last step first.
    let error = journey.run(with(10)).extension(prices).await.expect_err("it cannot pay");
    println!("{error}");
    assert!(matches!(error.compensation(), Some(Compensation::Compensated { undone }) if undone.len() == 3));
    Ok(())
}
