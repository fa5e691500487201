//! A13: topics. Delivery, slow subscribers, and subscriptions across restarts.

use crate::common::{Job, Log, TestActor, busy_actor, failures, poll_once, quiet};
use pleach::BoxError;
use pleach::prelude::*;
use pleach::routing::{Published, SlowSubscriber, Topic};
use pleach::sim::{Sim, explore};

pub const DELIVERED: Published = Published { delivered: 1, dropped: 0, unsubscribed: 0, ended: 0, failed: 0 };

pub const NONE: Published = Published { delivered: 0, ..DELIVERED };

/// An actor that logs its messages.
pub fn logging_props(log: &Log<u32>) -> Props<impl Actor<Msg = u32>> {
    let log = log.clone();
    let handle = move |(): &mut (), n: u32| -> Result<(), BoxError> {
        log.push(n);
        Ok(())
    };
    Props::from_fn(|| (), handle)
}

#[test]
fn a13_published_message_reaches_every_subscriber_in_order() {
    explore(0..50, |sim| {
        let (system, topic) = (sim.system("s"), Topic::new());
        let logs: Vec<Log<u32>> = (0..5).map(|_| Log::new()).collect();
        let policies = [SlowSubscriber::Drop, SlowSubscriber::Unsubscribe, SlowSubscriber::Wait];
        for (at, log) in logs.iter().enumerate() {
            let actor = system.spawn_unnamed(logging_props(log)).unwrap();
            topic.subscribe(&actor, policies[at % 3]);
        }
        let (actor, adapter_log) = (TestActor::spawn(&system, "actor"), Log::new());
        let adapted = adapter_log.clone();
        topic.subscribe_with(&actor, SlowSubscriber::Drop, move |n| {
            adapted.push(n);
            Job::Note(n)
        });
        assert_eq!(topic.subscribers(), 6);
        let publishers = sim.scope();
        for publisher in 0..3u32 {
            let topic = topic.clone();
            let publish = async move {
                for n in 0..20 {
                    assert_eq!(topic.publish(publisher * 100 + n).await, Published { delivered: 6, ..NONE });
                }
            };
            publishers.launch(publish).unwrap();
        }
        sim.run(publishers.wait_all()).unwrap();
        sim.settle();
        for log in logs.iter().chain([&adapter_log]) {
            let seen = log.take();
            assert_eq!(seen.len(), 60);
            for publisher in 0..3 {
                let own: Vec<u32> = seen.iter().copied().filter(|n| n / 100 == publisher).collect();
                assert_eq!(own, (0..20).map(|n| publisher * 100 + n).collect::<Vec<_>>(), "in the order of the publisher");
            }
        }
        assert!(system.counts().is_settled());
        assert_eq!(system.counts().handled, 360);
    });
}

#[test]
fn a13_publish_without_subscribers_reaches_none() {
    let sim = Sim::new(0);
    let topic = Topic::default();
    assert_eq!(sim.run(topic.publish(1)), NONE);
    assert_eq!((topic.subscribers(), format!("{topic:?}").as_str()), (0, "[]"));
}

#[test]
fn a13_ended_subscriber_is_removed_even_while_waited_for() {
    explore(0..100, |sim| {
        let (system, topic) = (sim.system("s"), Topic::new());
        let (ended, _, gate) = busy_actor(sim, &system, Mailbox::bounded(1));
        topic.subscribe_with(&ended, SlowSubscriber::Wait, Job::Note);
        let log = Log::new();
        let alive = system.spawn("alive", logging_props(&log)).unwrap();
        topic.subscribe(&alive, SlowSubscriber::Wait);
        sim.run(topic.publish(0));
        let mut publish = Box::pin(topic.publish(1));
        assert!(poll_once(&mut publish).is_pending());
        ended.cancel(());
        gate.open();
        assert_eq!(sim.run(publish), Published { delivered: 1, ended: 1, ..NONE });
        assert_eq!(sim.run(topic.publish(2)), DELIVERED, "counted as ended only once");
        alive.stop();
        assert!(matches!(sim.run(alive.exited()), Exit::Stopped));
        assert_eq!((sim.run(topic.publish(3)), topic.subscribers()), (Published { ended: 1, ..NONE }, 0));
        assert_eq!(sim.run(topic.publish(4)), NONE);
        sim.settle();
        assert!(system.counts().is_settled());
    });
}

#[test]
fn a13_ended_subscribers_do_not_accumulate_without_a_publish() {
    let sim = Sim::new(0);
    let (system, topic, log) = (sim.system("s"), Topic::new(), Log::new());
    for _ in 0..100 {
        let actor = system.spawn_unnamed(logging_props(&log)).unwrap();
        let subscription = topic.subscribe(&actor, SlowSubscriber::Drop);
        assert!(subscription.is_active());
        actor.stop();
        sim.run(actor.exited());
        assert!(!subscription.is_active());
    }
    let listed = format!("{topic:?}").matches("user").count();
    assert!(listed <= 17, "{listed} of 100 are still listed; more than 16 ended ones must be removed");
    assert_eq!(topic.subscribers(), 0);
}

#[test]
fn a13_subscription_survives_a_restart_of_the_subscriber() {
    explore(0..100, |sim| {
        let (system, topic, log) = (sim.system("s"), Topic::new(), Log::new());
        let actor = system.spawn("actor", TestActor::props(&log)).unwrap();
        // Dropping the handle keeps the subscription.
        drop(topic.subscribe_with(&actor, SlowSubscriber::Unsubscribe, Job::Note));
        actor.tell(Job::Fail("no")).unwrap();
        sim.run(async {
            for n in 0..10 {
                // Before, during and after the restart.
                assert_eq!(topic.publish(n).await, DELIVERED);
                sim.yield_now().await;
            }
        });
        sim.settle();
        let seen = log.take();
        assert_eq!(seen[..4], ["started 0", "restarting 0", "stopped 0 failed", "started 1"]);
        assert_eq!(seen[4..], (0..10).map(|n| n.to_string()).collect::<Vec<_>>(), "each message once and in order");
    });
}

#[test]
fn a13_second_subscription_replaces_the_first() {
    let sim = Sim::new(0);
    let (system, topic, log) = (sim.system("s"), Topic::new(), Log::new());
    let actor = system.spawn("actor", TestActor::props(&log)).unwrap();
    let first = topic.subscribe_with(&actor, SlowSubscriber::Drop, Job::Note);
    let second = topic.subscribe_with(&actor, SlowSubscriber::Drop, |n| Job::Note(n + 100));
    assert!(!first.is_active() && second.is_active());
    assert_eq!(sim.run(topic.publish(1)), DELIVERED);
    first.unsubscribe();
    assert_eq!(sim.run(topic.publish(2)), DELIVERED, "the handle of the first subscription has no effect");
    second.unsubscribe();
    assert_eq!(sim.run(topic.publish(3)), NONE);
    sim.settle();
    assert_eq!(log.take()[1..], ["101", "102"]);
    // An equal id number in another system is another actor.
    let elsewhere = sim.system("other").spawn("actor", TestActor::props(&log)).unwrap();
    assert_eq!(elsewhere.id().get(), actor.id().get());
    topic.subscribe_with(&actor, SlowSubscriber::Drop, Job::Note);
    topic.subscribe_with(&elsewhere, SlowSubscriber::Drop, Job::Note);
    assert_eq!(format!("{topic:?}").matches("actor").count(), 2);
}

#[test]
fn a13_actor_that_publishes_to_itself_does_not_wait() {
    let sim = Sim::new(0);
    let (system, topic, log) = (sim.system("s"), Topic::new(), Log::new());
    let actor = system.spawn("actor", TestActor::props(&log).mailbox(Mailbox::bounded(1))).unwrap();
    let subscription = topic.subscribe_with(&actor, SlowSubscriber::Wait, Job::Note);
    let publish = topic.clone();
    let job = Job::work(move |_| async move {
        assert_eq!(publish.publish(1).await, DELIVERED);
        assert_eq!(publish.publish(2).await, Published { dropped: 1, ..NONE });
        Ok(())
    });
    actor.tell(job).unwrap();
    sim.settle();
    assert_eq!((log.take(), subscription.dropped()), (vec!["started 0".to_string(), "1".into()], 1));
}

/// A message whose `clone` panics if the flag is set.
struct PanicOnClone(bool);

impl Clone for PanicOnClone {
    fn clone(&self) -> Self {
        assert!(!self.0, "injected into a clone");
        Self(self.0)
    }
}

#[test]
fn a13_panic_in_an_adapter_or_clone_harms_no_other_subscriber() {
    quiet();
    let sim = Sim::new(0);
    let (system, topic, log) = (sim.system("s"), Topic::new(), Log::new());
    let records = failures(&system);
    let bad = system.spawn("bad", logging_props(&log)).unwrap();
    let good = system.spawn("good", logging_props(&log)).unwrap();
    topic.subscribe_with(&bad, SlowSubscriber::Wait, |_| panic!("injected into an adapter"));
    topic.subscribe_with(&good, SlowSubscriber::Wait, |_| 7);
    assert_eq!(sim.run(topic.publish(PanicOnClone(false))), Published { delivered: 1, failed: 1, ..NONE });
    sim.settle();
    assert_eq!(log.take(), [7]);
    assert_eq!(records.take().iter().map(|one| one.path().to_string()).collect::<Vec<_>>(), ["/user/bad"]);
    assert_eq!(sim.run(topic.publish(PanicOnClone(true))), Published { failed: 2, ..NONE });
    assert_eq!((records.len(), topic.subscribers()), (2, 2));
}

/// Subscribers of every kind join, leave, fail and end while three tasks publish. The reports match
/// the counts.
#[test]
fn a13_publish_reports_match_the_counts() {
    explore(0..200, |sim| {
        let (system, topic, seen) = (sim.system("s"), Topic::new(), Log::new());
        let supervisor =
            system.supervisor("supervisor", OneForOne::new().restart_limit(1_000, Duration::from_secs(1))).unwrap();
        let publishers = sim.scope();
        let reports = Log::new();
        for publisher in 0..3u32 {
            let (topic, reports) = (topic.clone(), reports.clone());
            let publish = async move {
                for n in 0..30 {
                    reports.push(topic.publish(publisher * 1_000 + n).await);
                }
            };
            publishers.launch(publish).unwrap();
        }
        sim.run(async {
            let runtime = sim.runtime();
            for _ in 0..12 {
                let seen = seen.clone();
                let handle = move |(): &mut (), n: u32| -> Result<(), BoxError> {
                    seen.push(n);
                    if n.is_multiple_of(7) { Err("seven".into()) } else { Ok(()) }
                };
                let capacity = 1 + runtime.random() as usize % 4;
                let actor =
                    supervisor.spawn_unnamed(Props::from_fn(|| (), handle).mailbox(Mailbox::bounded(capacity))).unwrap();
                let policies = [SlowSubscriber::Drop, SlowSubscriber::Unsubscribe, SlowSubscriber::Wait];
                let subscription = topic.subscribe(&actor, policies[runtime.random() as usize % 3]);
                for _ in 0..runtime.random() % 4 {
                    sim.yield_now().await;
                }
                match runtime.random() % 4 {
                    0 => subscription.unsubscribe(),
                    1 => actor.close(),
                    2 => actor.stop(),
                    _ => {}
                }
            }
            publishers.wait_all().await.unwrap();
        });
        sim.settle();
        let reports = reports.take();
        let delivered: usize = reports.iter().map(|report| report.delivered).sum();
        let counts = system.counts();
        assert_eq!((reports.len(), counts.accepted), (90, delivered as u64));
        assert!(counts.is_settled() && counts.handled + counts.failed == seen.len() as u64, "{counts}");
    });
}

#[test]
fn a13_no_publish_is_lost_while_subscribers_change_on_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(async {
        let (system, topic) = (ActorSystem::new("s").unwrap(), Topic::new());
        let log = Log::new();
        let permanent = system.spawn("permanent", logging_props(&log).mailbox(Mailbox::bounded(4))).unwrap();
        topic.subscribe(&permanent, SlowSubscriber::Wait);
        let publishers: Vec<_> = (0..2u32)
            .map(|publisher| {
                let topic = topic.clone();
                tokio::spawn(async move {
                    for n in 0..1_000 {
                        assert!(topic.publish(publisher * 10_000 + n).await.delivered >= 1);
                    }
                })
            })
            .collect();
        for _ in 0..200 {
            let temporary = system.spawn_unnamed(logging_props(&Log::new())).unwrap();
            let subscription = topic.subscribe(&temporary, SlowSubscriber::Wait);
            tokio::task::yield_now().await;
            subscription.unsubscribe();
            temporary.close();
        }
        for publisher in publishers {
            publisher.await.unwrap();
        }
        assert_eq!(topic.subscribers(), 1);
        system.shutdown(Duration::from_secs(10)).await.unwrap();
        let seen = log.take();
        assert_eq!(seen.len(), 2_000);
        assert!((0..2).all(|one| seen.iter().filter(|n| *n / 10_000 == one).is_sorted()));
        assert!(system.counts().is_settled());
    });
}
