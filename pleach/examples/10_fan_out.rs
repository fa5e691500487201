//! Fan-out and join: each branch works on a clone of the state; the merge sees them in order.
//!
//! Run it with `cargo run --package pleach --features graph --example 10_fan_out`.

use pleach::prelude::*;

#[derive(Clone, Debug, Default)]
struct Trip {
    city: String,
    notes: Vec<String>,
}

/// Returns a node that waits and then adds a note.
fn look_up(
    what: &'static str,
    millis: u64,
) -> impl Fn(Trip) -> pleach::runtime::BoxFuture<'static, Result<Trip, String>> + Send + Sync {
    move |mut trip| {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            trip.notes.push(format!("{what} in {}", trip.city));
            Ok(trip)
        })
    }
}

/// Adds the notes of all branches to the state before the fan-out.
fn merge(mut before: Trip, branches: Vec<Trip>) -> Trip {
    before.notes.extend(branches.into_iter().flat_map(|branch| branch.notes));
    before
}

async fn same(trip: Trip) -> Result<Trip, String> {
    Ok(trip)
}

#[tokio::main]
async fn main() -> Result<(), pleach::Error> {
    let trip = Graph::<Trip>::new("trip")
        .add_node("start", same)
        .add_node("hotel", look_up("a hotel", 30))
        .add_node("train", look_up("a train", 10))
        .add_node("museum", look_up("a museum", 20))
        .add_node("book", same)
        .add_parallel_edge("start", ["hotel", "train", "museum"], "book", FanOut::merge(merge).timeout(Duration::from_secs(5)))
        .add_edge("hotel", "book")
        .add_edge("train", "book")
        .add_edge("museum", "book")
        .add_edge("book", END)
        .set_entry("start")
        .compile()?;

    // A hook is called for each event. The train is found first.
    let hooks =
        Hooks::around_nodes(|_, _| {}, |visit, _: Result<&Trip, _>| println!("{} in branch {:?}", visit.node, visit.branch));
    let planned = trip.run(Trip { city: "Ghent".into(), ..Trip::default() }).hooks(hooks).await?;
    println!("{:?}", planned.notes);
    assert_eq!(planned.notes, ["a hotel in Ghent", "a train in Ghent", "a museum in Ghent"]);

    // `map`: one branch per item, at most two at a time. `collect` passes errors to the merge too.
    let results = FanOut::collect(|before: Trip, branches: Vec<Result<Trip, RunError<Trip>>>| {
        let lines =
            branches.iter().map(|branch| branch.as_ref().map_or_else(|error| error.to_string(), |trip| trip.city.clone()));
        Ok::<_, String>(Trip { notes: lines.collect(), ..before })
    });
    let each_city = |trip: &Trip| trip.notes.iter().map(|city| Trip { city: city.clone(), notes: vec![] }).collect();
    let tour = Graph::<Trip>::new("tour")
        .add_node("cities", same)
        .add_node("visit", |trip: Trip| async move { if trip.city == "Atlantis" { Err("it sank") } else { Ok(trip) } })
        .map("cities", each_city, "visit", END, results.limit(2))
        .add_edge("visit", END)
        .set_entry("cities")
        .compile()?;
    let cities = ["Bruges", "Atlantis", "Leuven"].map(String::from).into();
    let seen = tour.run(Trip { city: "Belgium".into(), notes: cities }).await?;
    println!("{:?}", seen.notes);
    assert_eq!((seen.notes[0].as_str(), seen.notes[2].as_str()), ("Bruges", "Leuven"));
    Ok(())
}
