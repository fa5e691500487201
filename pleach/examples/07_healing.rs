//! Rest-for-one: later children depend on earlier ones, so a failure also restarts the later ones.
//!
//! Run it with `cargo run --package pleach --example 07_healing`. It prints one planned panic.

use pleach::events::EventSubscription;
use pleach::prelude::*;
use pleach::supervise::{ExponentialBackoff, RestForOne, RestartPolicy};

/// One part of a service: a store, a cache filled from it, or a front end that uses both.
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

/// Prints decisions until the last child has restarted. Returns the counted restarts.
async fn heal(events: &mut EventSubscription) -> u32 {
    let mut counted = 0;
    while let Some(event) = events.next().await {
        match event {
            Event::Decided { failure, directive, .. } => {
                counted = failure.restarts();
                println!("{}: {} => {directive:?}, {counted} in {:?}", failure.path(), failure.reason(), failure.window());
            }
            Event::Restarted { path, incarnation } => {
                println!("  {path} restarted as incarnation {incarnation}");
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

    // Each restart waits longer than the one before. A fourth failure within a minute is too many.
    let backoff = ExponentialBackoff::new(Duration::from_millis(5), Duration::from_millis(50));
    let parts = system.supervisor("parts", RestForOne::new().restart_limit(3, Duration::from_secs(60)).backoff(backoff))?;
    let store = parts.spawn("store", Props::new(|| Part).restart(RestartPolicy::Permanent))?;
    let cache = parts.spawn("cache", Props::new(|| Part))?;
    let front = parts.spawn("front", Props::new(|| Part))?;

    cache.tell(Msg::Fail)?; // restarts the front too, but not the store
    assert_eq!(heal(&mut events).await, 1);
    front.tell(Msg::Panic)?; // restarts only the front
    assert_eq!(heal(&mut events).await, 2);
    store.stop(); // a permanent child must not stop: it counts as a failure
    assert_eq!(heal(&mut events).await, 3);

    // The addresses have not changed.
    for (part, incarnation) in [(store, 1), (cache, 2), (front, 3)] {
        assert_eq!(part.ask(Msg::Incarnation).await?, incarnation);
    }
    system.shutdown(Duration::from_secs(5)).await?;
    assert!(system.counts().is_settled() && system.failures() == 3 && system.unhandled() == 0);
    Ok(())
}
