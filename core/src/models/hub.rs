//! The event hub: events and the end of the tree against a subscriber that is about to sleep, and
//! against one that leaves.
//!
//! Proves: E4 (received and missed events add up, no subscriber sleeps while an event is queued,
//! nothing is left behind). Lints are not covered: their hint is a process-wide static, which loom
//! does not track, and models run in parallel.

use crate::events::event::{Event, EventKinds};
use crate::events::hub::EventHub;
use crate::events::subscription::SubscriptionOptions;
use crate::models::{ManualRuntime, block_on, explore};
use crate::tree::Tree;
use alloc::sync::Arc;
use loom::thread;

fn event() -> Event {
    Event::Missed(0)
}

#[test]
fn loom_e4_events_and_the_end_against_a_sleeping_subscriber() {
    explore(|| {
        let tree = Tree::new(ManualRuntime::new());
        let options = SubscriptionOptions::new().capacity(1).kinds(EventKinds::DEAD_LETTERS);
        let mut subscription = EventHub::of(&tree.events).subscribe_with(options);
        let emitter = Arc::clone(&tree);
        let emitting = thread::spawn(move || {
            (0..2).for_each(|_| emitter.events.emit(EventKinds::DEAD_LETTERS, event));
            emitter.events.end();
        });
        let mut received = 0;
        while let Some(event) = block_on(subscription.next()) {
            received += match event {
                Event::Missed(0) => 1,
                Event::Missed(missed) => missed,
                other => panic!("{other:?}"),
            };
        }
        emitting.join().unwrap();
        assert_eq!(received, 2, "seen and missed");
    });
}

#[test]
fn loom_e4_a_subscriber_leaves_while_events_are_emitted() {
    explore(|| {
        let tree = Tree::new(ManualRuntime::new());
        let hub = EventHub::of(&tree.events);
        let options = SubscriptionOptions::new().kinds(EventKinds::DEAD_LETTERS);
        let (leaves, mut stays) = (hub.subscribe_with(options), hub.subscribe_with(options));
        let emitter = Arc::clone(&tree);
        let emitting = thread::spawn(move || emitter.events.emit(EventKinds::DEAD_LETTERS, event));
        drop(leaves);
        emitting.join().unwrap();
        assert!(stays.try_next().is_some(), "the remaining subscriber gets the event");
        assert_eq!(hub.subscribers(), 1);
        drop(stays);
        assert!(!tree.events.wants(EventKinds::ALL));
    });
}
