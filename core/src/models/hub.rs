//! The hub: events and the end of the tree against a subscriber that is about to sleep, and against one that leaves.
//!
//! Proves for these orders: E4 (what is seen and what is missed add up, nobody sleeps beside an event, nothing stays behind).
//! Not with lints: their hint is a static of the process, which loom does not see, and models run side by side.

use crate::events::event::{Event, EventKinds};
use crate::events::hub::FailureEventHub;
use crate::events::subscription::SubscriptionOptions;
use crate::models::{ByHand, block_on, explore};
use crate::tree::Tree;
use alloc::sync::Arc;
use loom::thread;

fn event() -> Event {
    Event::Missed(0)
}

#[test]
fn loom_e4_events_and_the_end_against_a_sleeping_subscriber() {
    explore(|| {
        let tree = Tree::new(ByHand::new());
        let options = SubscriptionOptions::new().capacity(1).kinds(EventKinds::DEAD_LETTERS);
        let mut subscription = FailureEventHub::of(&tree.events).subscribe_with(options);
        let teller = Arc::clone(&tree);
        let telling = thread::spawn(move || {
            (0..2).for_each(|_| teller.events.emit(EventKinds::DEAD_LETTERS, event));
            teller.events.end();
        });
        let mut told = 0;
        while let Some(event) = block_on(subscription.next()) {
            told += match event {
                Event::Missed(0) => 1,
                Event::Missed(missed) => missed,
                other => panic!("{other:?}"),
            };
        }
        telling.join().unwrap();
        assert_eq!(told, 2, "seen and missed");
    });
}

#[test]
fn loom_e4_a_subscriber_leaves_while_events_are_told() {
    explore(|| {
        let tree = Tree::new(ByHand::new());
        let hub = FailureEventHub::of(&tree.events);
        let options = SubscriptionOptions::new().kinds(EventKinds::DEAD_LETTERS);
        let (leaves, mut stays) = (hub.subscribe_with(options), hub.subscribe_with(options));
        let teller = Arc::clone(&tree);
        let telling = thread::spawn(move || teller.events.emit(EventKinds::DEAD_LETTERS, event));
        drop(leaves);
        telling.join().unwrap();
        assert!(stays.try_next().is_some(), "whoever stays is told");
        assert_eq!(hub.subscribers(), 1);
        drop(stays);
        assert!(!tree.events.wants(EventKinds::ALL));
    });
}
