//! A13: slow subscribers of a topic.

use crate::common::{Job, Log, busy_actor, poll_once};
use crate::topic::{DELIVERED, NONE, logging_props};
use pleach::prelude::*;
use pleach::routing::{Published, SlowSubscriber, Topic};
use pleach::sim::{Sim, explore};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a13_slow_subscriber_with_drop_delays_no_other() {
    explore(0..50, |sim| {
        let (system, topic) = (sim.system("s"), Topic::new());
        let (slow, slow_log, gate) = busy_actor(sim, &system, Mailbox::bounded(2));
        let (fast_log, log) = (Log::new(), Log::new());
        let fast = system.spawn("fast", logging_props(&fast_log)).unwrap();
        let subscription = topic.subscribe_with(&slow, SlowSubscriber::Drop, Job::Note);
        topic.subscribe(&fast, SlowSubscriber::Drop);
        sim.run(async {
            for n in 0..10 {
                log.push(topic.publish(n).await);
            }
        });
        let (both, one) = (Published { delivered: 2, ..NONE }, Published { delivered: 1, dropped: 1, ..NONE });
        assert_eq!(log.take(), [&[both; 2][..], &[one; 8]].concat());
        assert_eq!(subscription.dropped(), 8);
        gate.open();
        sim.settle();
        assert_eq!(slow_log.take(), ["1000", "0", "1"]);
        assert_eq!(fast_log.take(), (0..10).collect::<Vec<_>>());
        assert_eq!(sim.run(topic.publish(10)), both, "still subscribed");
        sim.settle();
        assert_eq!(slow_log.take(), ["10"]);
        assert!(subscription.is_active() && system.counts().is_settled());
        assert_eq!(system.counts().dead_lettered, 0, "a message that was not accepted is not a dead letter");
    });
}

#[test]
fn a13_mailbox_with_an_overflow_policy_is_never_slow() {
    let sim = Sim::new(0);
    let (system, topic, log) = (sim.system("s"), Topic::new(), Log::new());
    let actor = system.spawn("latest", logging_props(&log).mailbox(Mailbox::conflated())).unwrap();
    topic.subscribe(&actor, SlowSubscriber::Unsubscribe);
    sim.run(async {
        for n in 0..5 {
            // No yield: the actor does not run in between.
            assert_eq!(topic.publish(n).await, DELIVERED);
        }
    });
    sim.settle();
    assert_eq!(log.take(), [4]);
    assert_eq!(system.counts().dead_lettered, 4);
}

#[test]
fn a13_unsubscribed_slow_subscriber_gets_no_more() {
    explore(0..50, |sim| {
        let (system, topic) = (sim.system("s"), Topic::new());
        let (slow, log, gate) = busy_actor(sim, &system, Mailbox::bounded(1));
        let subscription = topic.subscribe_with(&slow, SlowSubscriber::Unsubscribe, Job::Note);
        let seen: Vec<Published> = (0..3).map(|n| sim.run(topic.publish(n))).collect();
        assert_eq!(seen, [DELIVERED, Published { unsubscribed: 1, ..NONE }, NONE]);
        assert!(!subscription.is_active() && topic.subscribers() == 0);
        gate.open();
        sim.settle();
        assert_eq!(sim.run(topic.publish(3)), NONE, "it has room again, but is not subscribed");
        sim.settle();
        assert_eq!(log.take(), ["1000", "0"]);
    });
}

#[test]
fn a13_publish_waits_for_slow_subscribers_after_all_others() {
    explore(0..100, |sim| {
        let (system, topic) = (sim.system("s"), Topic::new());
        let busy: Vec<_> = (0..3).map(|_| busy_actor(sim, &system, Mailbox::bounded(1))).collect();
        for (slow, _, _) in &busy {
            topic.subscribe_with(slow, SlowSubscriber::Wait, Job::Note);
        }
        let fast_log = Log::new();
        topic.subscribe(&system.spawn("fast", logging_props(&fast_log)).unwrap(), SlowSubscriber::Drop);
        assert_eq!(sim.run(topic.publish(0)).delivered, 4, "each mailbox has room for one");
        let done = Arc::new(AtomicBool::new(false));
        let (publisher, scope) = ((topic.clone(), Arc::clone(&done)), sim.scope());
        let publish = async move {
            assert_eq!(publisher.0.publish(1).await, Published { delivered: 4, ..NONE });
            publisher.1.store(true, Ordering::Relaxed);
        };
        scope.launch(publish).unwrap();
        sim.settle();
        assert_eq!(fast_log.take(), [0, 1], "the fast subscriber does not wait for the slow ones");
        for (at, (_, log, gate)) in busy.iter().enumerate() {
            assert!(!done.load(Ordering::Relaxed));
            gate.open();
            sim.settle();
            assert_eq!(log.take(), ["1000", "0", "1"], "slow subscriber {at} does not wait for the others");
        }
        sim.run(scope.wait_all()).unwrap();
        assert!(done.load(Ordering::Relaxed) && system.counts().is_settled());
    });
}

#[test]
fn a13_dropped_publish_withdraws_only_waiting_sends() {
    let sim = Sim::new(0);
    let (system, topic) = (sim.system("s"), Topic::new());
    let (slow, log, gate) = busy_actor(&sim, &system, Mailbox::bounded(1));
    topic.subscribe_with(&slow, SlowSubscriber::Wait, Job::Note);
    let fast_log = Log::new();
    topic.subscribe(&system.spawn("fast", logging_props(&fast_log)).unwrap(), SlowSubscriber::Wait);
    sim.run(topic.publish(0));
    let mut publish = Box::pin(topic.publish(1));
    assert!(poll_once(&mut publish).is_pending());
    drop(publish);
    gate.open();
    sim.settle();
    assert_eq!((log.take(), fast_log.take()), (vec!["1000".to_string(), "0".into()], vec![0, 1]));
    assert_eq!(slow.queued(), 0);
    assert!(system.counts().is_settled());
}
