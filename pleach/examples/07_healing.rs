//! A crew that heals: the younger ones depend on the older, so whoever fails takes those after it down and up again.
//!
//! Run it with `cargo run --package pleach --example 07_healing`. One of the faults is a panic, which says so on the terminal.

use pleach::prelude::*;
use pleach::{EventSubscription, ExponentialBackoff, RestForOne, RestartPolicy};

/// A part of the crew. It stands for a store, the cache filled from it, and the front that asks both.
struct Part;

enum Msg {
    Fail,
    Panic,
    Incarnation(Reply<u32>),
}

impl Actor for Part {
    type Msg = Msg;
    type Error = &'static str;

    async fn handle(&mut self, msg: Msg, cx: &mut Context<Self>) -> Result<(), &'static str> {
        match msg {
            Msg::Fail => return Err("an injected error"),
            Msg::Panic => panic!("an injected panic"),
            Msg::Incarnation(reply) => reply.send(cx.incarnation()),
        }
        Ok(())
    }
}

/// Tells what was decided, until the youngest, which is the last to start, is up again. Gives how many restarts were counted by then.
async fn heal(events: &mut EventSubscription) -> u32 {
    let mut counted = 0;
    while let Some(event) = events.next().await {
        match event {
            Event::Decided { failure, directive } => {
                counted = failure.restarts();
                println!("{}: {} => {directive:?}, {counted} in {:?}", failure.path(), failure.reason(), failure.window());
            }
            Event::Restarted { path, incarnation } => {
                println!("  {path} is up as incarnation {incarnation}");
                if path.to_string().ends_with("front") {
                    break;
                }
            }
            _ => {}
        }
    }
    counted
}

#[tokio::main]
async fn main() -> Result<(), pleach::Error> {
    let system = ActorSystem::new("shop")?;
    let mut events = system.hub().subscribe();

    // Each failure waits a little longer than the one before, and the fourth within a minute would be one too many.
    let backoff = ExponentialBackoff::new(Duration::from_millis(5), Duration::from_millis(50));
    let crew = system.supervisor("crew", RestForOne::new().intensity(3, Duration::from_secs(60)).backoff(backoff))?;
    let store = crew.spawn("store", Props::new(|| Part).restart(RestartPolicy::Permanent))?;
    let cache = crew.spawn("cache", Props::new(|| Part))?;
    let front = crew.spawn("front", Props::new(|| Part))?;

    cache.tell(Msg::Fail)?; // takes the front with it, and leaves the store alone
    assert_eq!(heal(&mut events).await, 1);
    front.tell(Msg::Panic)?; // concerns nobody else
    assert_eq!(heal(&mut events).await, 2);
    store.stop(); // a permanent child that ends unasked has failed, and all depend on it
    assert_eq!(heal(&mut events).await, 3);

    // The addresses are the same as ever.
    for (part, incarnation) in [(store, 1), (cache, 2), (front, 3)] {
        assert_eq!(part.ask(Msg::Incarnation).await?, incarnation);
    }
    system.shutdown(Duration::from_secs(5)).await?;
    assert!(system.counts().is_settled() && system.failures() == 3 && system.unhandled() == 0);
    Ok(())
}
