//! Tests of runtimes: dispatchers, Tokio, the simulator, events, lints and errors.

#[path = "../common/mod.rs"]
mod common;

mod dispatcher;
mod dispatcher_drivers;
mod dropped_runtime;
mod errors;
mod events;
mod every_runtime;
mod lints;
mod sim;

use pleach::events::{EventSubscription, SubscriptionOptions};
use pleach::prelude::*;
use pleach::runtime::Instant;

/// The instant `ms` milliseconds after the start.
fn at(ms: u64) -> Instant {
    Instant::after_start(Duration::from_millis(ms))
}

/// Options of a subscription to these kinds of events.
fn only(kinds: EventKinds) -> SubscriptionOptions {
    SubscriptionOptions::new().kinds(kinds)
}

/// Takes all queued events.
fn take_all(events: &mut EventSubscription) -> Vec<Event> {
    std::iter::from_fn(|| events.try_next()).collect()
}

/// A strategy that restarts without a limit.
fn always_restart() -> OneForOne {
    OneForOne::new().restart_limit(u32::MAX, Duration::from_secs(1))
}
