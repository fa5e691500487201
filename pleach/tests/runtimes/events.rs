//! E4 and E5: the hub, its subscribers, and their events. Lints are tested in `lints.rs`.

use crate::common::{INJECTED, Job, Log, TestActor, quiet};
use crate::{always_restart, only, take_all};
use futures::StreamExt;
use pleach::BoxError;
use pleach::events::ListenerHandle;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[test]
fn e4_every_subscriber_gets_every_event() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let mut subscriptions: Vec<_> = (0..3).map(|_| system.hub().subscribe_with(only(EventKinds::FAILURES))).collect();
        let mut all = system.hub().subscribe();
        let listened = Log::new();
        let log = listened.clone();
        system.on_event(move |event| log.push(format!("{event:?}")));
        let supervisor = system.supervisor("supervisor", always_restart()).unwrap();
        let actors = ["a", "b"].map(|name| supervisor.spawn(name, TestActor::props(&Log::new())).unwrap());
        for actor in &actors {
            (0..5).for_each(|_| actor.tell(Job::Fail("no")).unwrap());
        }
        sim.settle();
        for subscription in &mut subscriptions {
            let seen = take_all(subscription);
            assert_eq!(seen.len(), 10);
            assert!(seen.iter().all(|event| matches!(event, Event::Failed(_))), "{seen:?}");
        }
        let all: Vec<_> = take_all(&mut all).iter().map(|event| format!("{event:?}")).collect();
        assert_eq!(all, listened.take(), "listener and subscription get the same events in order");
        assert_eq!(all.len(), 2 + 10 + 10 + 10, "starts, failures, decisions, restarts");
    });
}

#[test]
fn e4_slow_subscriber_gets_the_number_of_missed_events() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let mut slow = system.hub().subscribe_with(only(EventKinds::DEAD_LETTERS).capacity(3));
    let actor = TestActor::spawn(&system, "actor");
    (0..10).for_each(|n| actor.tell(Job::Note(n)).unwrap());
    actor.stop();
    sim.settle();
    let numbers = |event: &Event| match event {
        Event::Missed(missed) => format!("missed {missed}"),
        Event::DeadLetter(letter) => letter.message.to_string(),
        other => format!("{other:?}"),
    };
    assert_eq!(take_all(&mut slow).iter().map(numbers).collect::<Vec<_>>(), ["missed 7", "7", "8", "9"]);
    assert!(slow.try_next().is_none(), "the count is reported once");
}

#[test]
fn e4_seen_and_missed_events_add_up() {
    explore(0..100, |sim| {
        let system = sim.system("s");
        let mut slow = system.hub().subscribe_with(only(EventKinds::LIFECYCLE).capacity(2));
        let mut fast = system.hub().subscribe_with(only(EventKinds::LIFECYCLE).capacity(10_000));
        let outside = sim.scope();
        let counts = Log::new();
        let (seen, hub) = (counts.clone(), system.hub());
        outside
            .launch(async move {
                while let Some(event) = slow.next().await {
                    seen.push(if let Event::Missed(missed) = event { missed } else { 1 });
                }
            })
            .unwrap();
        for n in 0..20 {
            let actor = system.spawn(&format!("a{n}"), TestActor::props(&Log::new())).unwrap();
            actor.stop();
        }
        sim.run(system.shutdown(Duration::from_secs(1))).unwrap();
        sim.run(outside.wait_all()).unwrap();
        let all = sim.run(async { StreamExt::by_ref(&mut fast).collect::<Vec<_>>().await });
        assert!(all.len() >= 23, "20 actors, two guardians and the root have ended");
        assert_eq!(counts.take().iter().sum::<u64>(), all.len() as u64);
        drop(fast);
        assert_eq!(hub.subscribers(), 2, "the log of unhandled failures and the hint of the simulator");
    });
}

#[test]
fn e4_dropped_subscriber_leaves_nothing_behind() {
    struct TestError(Arc<()>);
    impl std::fmt::Debug for TestError {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{}", Arc::strong_count(&self.0))
        }
    }
    impl std::fmt::Display for TestError {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{self:?}")
        }
    }
    impl std::error::Error for TestError {}

    let sim = Sim::new(1);
    let (system, marker) = (sim.system("s"), Arc::new(()));
    let before = system.hub().subscribers();
    let payload = Arc::clone(&marker);
    let props = Props::from_fn(|| (), move |_, (): ()| Err::<(), BoxError>(TestError(Arc::clone(&payload)).into()));
    let actor = system.supervisor("supervisor", always_restart()).unwrap().spawn("a", props).unwrap();
    let at_rest = Arc::strong_count(&marker);
    for _ in 0..1_000 {
        let subscription = system.hub().subscribe();
        actor.tell(()).unwrap();
        sim.settle();
        assert!(Arc::strong_count(&marker) > at_rest, "the queued failure holds its error");
        drop(subscription);
    }
    assert_eq!(system.hub().subscribers(), before);
    // The actor keeps only its latest failure.
    assert!(Arc::strong_count(&marker) <= at_rest + 2, "{}", Arc::strong_count(&marker));
}

#[test]
fn e4_panicking_listener_affects_no_other() {
    quiet();
    let sim = Sim::new(1);
    let system = sim.system("s");
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    system.on_event(move |_| {
        counted.fetch_add(1, Relaxed);
        std::panic::panic_any(INJECTED);
    });
    let mut after = system.hub().subscribe();
    let log = Log::new();
    let actor = system.spawn("actor", TestActor::props(&log)).unwrap();
    actor.tell(Job::Fail("no")).unwrap();
    actor.tell(Job::Note(1)).unwrap();
    sim.settle();
    let seen = take_all(&mut after);
    assert!(
        matches!(seen[..], [Event::Started { .. }, Event::Failed(_), Event::Decided { .. }, Event::Restarted { .. }]),
        "{seen:?}"
    );
    assert_eq!(calls.load(Relaxed), 4, "the listener is called again");
    assert_eq!((log.take().pop(), system.failures()), (Some("1".to_string()), 1));
}

#[test]
fn e4_listener_gets_events_until_it_is_stopped() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let listened = Log::new();
    let log = listened.clone();
    let listening: ListenerHandle = system.hub().listen_to(EventKinds::LIFECYCLE, move |_| log.push(()));
    TestActor::spawn(&system, "a");
    sim.settle();
    assert_eq!(listened.take().len(), 1);
    listening.stop();
    TestActor::spawn(&system, "b");
    sim.settle();
    assert_eq!(listened.len(), 0);
}

#[test]
fn e4_subscription_ends_with_its_system() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let mut early = system.hub().subscribe();
        let (actor, hub) = (TestActor::spawn(&system, "a"), system.hub());
        drop(system);
        let ends = sim.run(async {
            let mut ends = Vec::new();
            while let Some(event) = early.next().await {
                if let Event::Ended { path, .. } = event {
                    ends.push(path.to_string());
                }
            }
            ends
        });
        assert_eq!(ends.last().map(String::as_str), Some("/"), "{ends:?}");
        assert!(sim.run(hub.subscribe().next()).is_none(), "a later subscription ends at once");
        assert!(actor.exit().is_some(), "the actor ended although its address is held");
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn e4_seen_and_missed_events_add_up_on_threads() {
    const MESSAGES: u64 = 20_000;
    let system = ActorSystem::new("s").unwrap();
    let mut slow = system.hub().subscribe_with(only(EventKinds::DEAD_LETTERS).capacity(8));
    let reader = tokio::spawn(async move {
        let (mut seen, mut missed) = (0, 0);
        while let Some(event) = slow.next().await {
            match event {
                Event::Missed(n) => missed += n,
                _ => seen += 1,
            }
        }
        (seen, missed)
    });
    let mut senders = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let props = Props::from_fn(|| (), |_, _: u64| Ok::<(), BoxError>(())).mailbox(Mailbox::bounded(1).drop_newest());
        let actor = system.spawn(name, props).unwrap();
        let sender = tokio::spawn(async move { (0..MESSAGES / 4).for_each(|n| actor.tell(n).unwrap()) });
        senders.push(sender);
    }
    for sender in senders {
        sender.await.unwrap();
    }
    system.shutdown(Duration::from_secs(30)).await.unwrap();
    let (seen, missed) = tokio::time::timeout(Duration::from_secs(30), reader).await.expect("the reader ends").unwrap();
    assert_eq!(seen + missed, system.counts().dead_lettered);
    assert!(seen > 0);
}

#[test]
fn e4_broadcast_bridge_forwards_events_and_missed_counts() {
    use tokio::sync::broadcast::{self, error::TryRecvError};
    let sim = Sim::new(1);
    let system = sim.system("s");
    let narrow = system.hub().subscribe_with(only(EventKinds::DEAD_LETTERS).capacity(2));
    let (sender, mut receiver) = broadcast::channel(16);
    let actor = TestActor::spawn(&system, "actor");
    (0..5).for_each(|n| actor.tell(Job::Note(n)).unwrap());
    actor.stop();
    sim.settle();
    let outside = sim.scope();
    outside.launch(pleach::broadcast::forward(narrow, sender)).unwrap();
    sim.settle();
    assert!(matches!(receiver.try_recv(), Ok(Event::Missed(3))));
    assert!(matches!(receiver.try_recv(), Ok(Event::DeadLetter(letter)) if letter.message == "3"));
    assert!(matches!(receiver.try_recv(), Ok(Event::DeadLetter(letter)) if letter.message == "4"));
    assert!(matches!(receiver.try_recv(), Err(TryRecvError::Empty)));
    sim.run(system.shutdown(Duration::from_secs(1))).unwrap();
    sim.run(outside.wait_all()).unwrap();
    assert!(matches!(receiver.try_recv(), Err(TryRecvError::Closed)), "the bridge ends with the system");
}

#[test]
fn e5_lifecycle_events_come_in_order() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let mut events = system.hub().subscribe_with(only(EventKinds::LIFECYCLE | EventKinds::FAILURES));
        let actor = TestActor::spawn(&system, "actor");
        for message in [SystemMessage::Suspend, SystemMessage::Suspend, SystemMessage::Resume, SystemMessage::Restart] {
            sim.settle();
            actor.try_send_system(message).unwrap();
        }
        sim.settle();
        actor.tell(Job::Fail("no")).unwrap();
        sim.settle();
        actor.stop();
        sim.settle();
        let text = |event: &Event| match event {
            Event::Started { path } => format!("{path} started"),
            Event::Suspended { path } => format!("{path} suspended"),
            Event::Resumed { path } => format!("{path} resumed"),
            Event::Restarted { path, incarnation } => format!("{path} restarted {incarnation}"),
            Event::Ended { path, exit } => format!("{path} ended {exit}"),
            Event::Failed(failure) => format!("{} failed", failure.path()),
            other => format!("{other:?}"),
        };
        let seen: Vec<String> = take_all(&mut events).iter().map(text).collect();
        let expected = ["started", "suspended", "resumed", "restarted 1", "failed", "restarted 2", "ended stopped"];
        assert_eq!(seen, expected.map(|what| format!("/user/actor {what}")));
    });
}

#[test]
fn e5_event_without_a_subscriber_is_not_created() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let described = Arc::new(AtomicUsize::new(0));
    let drop_three = |name: &str| {
        let count = Arc::clone(&described);
        let props = Props::from_fn(|| (), |_, _: u32| Ok::<(), BoxError>(())).mailbox(Mailbox::conflated());
        let actor = system.spawn(name, props.describe(move |_| count.fetch_add(1, Relaxed).to_string())).unwrap();
        (0..3).for_each(|n| actor.tell(n).unwrap());
        actor.cancel(());
        sim.settle();
        described.swap(0, Relaxed)
    };
    assert_eq!(drop_three("unsubscribed"), 0);
    let others = system.hub().subscribe_with(only(EventKinds::LIFECYCLE | EventKinds::LINTS));
    assert_eq!(drop_three("others"), 0);
    drop(others);
    let subscription = system.hub().subscribe_with(only(EventKinds::DEAD_LETTERS));
    assert_eq!(drop_three("dead-letters"), 3);
    drop(subscription);
    assert_eq!(drop_three("dropped"), 0);
}
