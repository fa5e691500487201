//! Tests of waits: asks, sends and wakers that wait for each other. None of them waits forever.

#[path = "../common/mod.rs"]
mod common;

mod exit_cycles;
mod hostile_wakers;
mod random_trees;
mod send_cycles;
mod send_cycles_groups;
mod sends;
mod waits;

use pleach::events::{EventSubscription, Lint, SubscriptionOptions};
use pleach::prelude::*;

/// Subscribes to the lints of a system.
fn lints(system: &ActorSystem) -> EventSubscription {
    system.hub().subscribe_with(SubscriptionOptions::new().kinds(EventKinds::LINTS))
}

/// Takes the paths of every cycle of sends reported so far.
fn reported_cycles(lints: &mut EventSubscription) -> Vec<Vec<String>> {
    let events = std::iter::from_fn(|| lints.try_next());
    let cycle = |event| match event {
        Event::Lint(Lint::SendCycle(paths)) => Some(paths.iter().map(ToString::to_string).collect()),
        _ => None,
    };
    events.filter_map(cycle).collect()
}
