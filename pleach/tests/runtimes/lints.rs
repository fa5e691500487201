//! E5: lints are reported once, and cost nothing without a subscriber.

use crate::common::counting_clock::CountingClock;
use crate::common::{Gate, Job, Log, TestActor};
use crate::{always_restart, only, take_all};
use pleach::events::{EventSubscription, Lint};
use pleach::prelude::*;
use pleach::runtime::{BoxFuture, Instant, Runtime};
use pleach::sim::{Sim, explore};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Takes all `MailboxFilling` lints: path, queued, capacity.
fn filling(events: &mut EventSubscription) -> Vec<(String, usize, usize)> {
    let lint = |event| match event {
        Event::Lint(Lint::MailboxFilling { path, queued, capacity }) => (path.to_string(), queued, capacity),
        other => panic!("{other:?}"),
    };
    take_all(events).into_iter().map(lint).collect()
}

#[test]
fn e5_mailbox_over_80_percent_is_reported_once_until_below_50() {
    for (name, mailbox, over) in [
        ("ten", Mailbox::bounded(10), 9),
        ("default", Mailbox::default(), 820),
        ("large", Mailbox::bounded(5_000), 4_001),
        ("oldest", Mailbox::bounded(10).drop_oldest(), 9),
        ("prioritised", Mailbox::bounded(7).prioritised(), 6),
    ] {
        let sim = Sim::new(1);
        let system = sim.system("s");
        let mut lints = system.hub().subscribe_with(only(EventKinds::LINTS));
        let actor = system.spawn(name, TestActor::props(&Log::new()).mailbox(mailbox)).unwrap();
        sim.settle();
        let note = |count: usize| (0..count).for_each(|_| actor.tell(Job::Note(0)).unwrap());
        for round in 0..3 {
            note(over - 1);
            assert_eq!(filling(&mut lints), [], "{name} {round}: not above 80 percent");
            note(1);
            let seen = filling(&mut lints);
            assert!(
                matches!(&seen[..], [(path, queued, _)] if *path == format!("/user/{name}") && *queued == over),
                "{seen:?}"
            );
            note(1);
            assert_eq!(filling(&mut lints), [], "{name} {round}: reported once");
            sim.settle();
        }
    }
}

#[test]
fn e5_mailbox_around_80_percent_is_reported_once() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let mut lints = system.hub().subscribe_with(only(EventKinds::LINTS));
    let (gate, actor) = (Gate::new(), system.spawn("a", TestActor::props(&Log::new()).mailbox(Mailbox::bounded(10))).unwrap());
    let pass = || Job::Pass(gate.clone(), 0);
    actor.tell(pass()).unwrap();
    sim.settle();
    (0..10).for_each(|_| actor.tell(pass()).unwrap());
    assert_eq!(filling(&mut lints).len(), 1);
    // Between 60 and 100 %.
    for _ in 0..20 {
        (0..4).for_each(|_| {
            gate.open();
            sim.settle();
        });
        (0..4).for_each(|_| actor.tell(pass()).unwrap());
    }
    assert_eq!(filling(&mut lints), []);
}

#[test]
fn e5_waiting_sends_and_asks_fill_a_mailbox_too() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let mut lints = system.hub().subscribe_with(only(EventKinds::LINTS));
    let spawn = |name| system.spawn(name, TestActor::props(&Log::new()).mailbox(Mailbox::bounded(5))).unwrap();
    let (sent, asked) = (spawn("sent"), spawn("asked"));
    sim.run(async { futures::future::join_all((0..7).map(|_| sent.send(Job::Note(0)))).await });
    let seen = filling(&mut lints);
    assert!(matches!(&seen[..], [(path, 5, 5)] if path == "/user/sent"), "{seen:?}");
    sim.run(async { futures::future::join_all((0..7).map(|_| asked.ask(|reply| Job::Answer(reply, 1)))).await });
    let seen = filling(&mut lints);
    assert!(matches!(&seen[..], [(path, 5, 5)] if path == "/user/asked"), "{seen:?}");
    // A conflated or an unbounded mailbox never fills up.
    for mailbox in [Mailbox::conflated(), Mailbox::unbounded()] {
        let actor = system.spawn_unnamed(TestActor::props(&Log::new()).mailbox(mailbox)).unwrap();
        (0..2_000).for_each(|_| actor.tell(Job::Note(0)).unwrap());
    }
    assert_eq!(filling(&mut lints), []);
}

/// Takes all `LongHandler` lints: path and running time.
fn long_handlers(events: &mut EventSubscription) -> Vec<(String, Duration)> {
    let lint = |event| match event {
        Event::Lint(Lint::LongHandler { path, running_for, message }) => {
            assert!(message.ends_with("Job"), "{message}");
            (path.to_string(), running_for)
        }
        other => panic!("{other:?}"),
    };
    take_all(events).into_iter().map(lint).collect()
}

#[test]
fn e5_long_wait_in_a_handler_is_reported_while_it_runs() {
    explore(0..20, |sim| {
        let system = sim.system("s");
        let mut lints = system.hub().subscribe_with(only(EventKinds::LINTS));
        let (gate, log) = (Gate::new(), Log::new());
        let actor = system.spawn("a", TestActor::props(&log)).unwrap();
        let second = Duration::from_secs(1);
        actor.tell(Job::Note(1)).unwrap();
        actor.tell(Job::Pass(gate.clone(), 2)).unwrap();
        actor.tell(Job::Note(3)).unwrap();
        sim.advance(second - Duration::from_nanos(1));
        assert_eq!(long_handlers(&mut lints), []);
        sim.advance(Duration::from_nanos(1));
        assert_eq!(long_handlers(&mut lints), [("/user/a".to_string(), second)], "reported while it runs");
        sim.advance(second * 10);
        gate.open();
        sim.settle();
        assert_eq!(log.take(), ["started 0", "1", "2", "3"]);
        assert_eq!(long_handlers(&mut lints), [], "once, and not for the short handlers");
        // Shorter waits are not reported.
        let runtime = sim.runtime();
        for _ in 0..5 {
            let runtime = Arc::clone(&runtime);
            actor
                .tell(Job::work(|_| async move {
                    runtime.sleep_until(runtime.now() + Duration::from_millis(900)).await;
                    Ok(())
                }))
                .unwrap();
        }
        sim.advance(second * 10);
        assert_eq!(long_handlers(&mut lints), []);
        // A long handler whose actor is cancelled.
        actor.tell(Job::Pass(gate.clone(), 4)).unwrap();
        sim.advance(second * 2);
        actor.cancel(());
        sim.settle();
        assert_eq!(long_handlers(&mut lints).len(), 1);
    });
}

/// A runtime whose clock advances while a handler blocks.
struct BlockingClock(Arc<dyn Runtime>, Arc<AtomicUsize>);

impl Runtime for BlockingClock {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.0.spawn(task);
    }

    fn now(&self) -> Instant {
        self.0.now() + Duration::from_millis(self.1.load(Relaxed) as u64)
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        self.0.sleep_until(at)
    }

    fn random(&self) -> u64 {
        self.0.random()
    }
}

#[test]
fn e5_handler_that_blocks_is_reported_when_it_returns() {
    let (sim, blocked) = (Sim::new(1), Arc::new(AtomicUsize::new(0)));
    let threshold = Duration::from_millis(20);
    let runtime = Arc::new(BlockingClock(sim.runtime(), Arc::clone(&blocked)));
    let system = ActorSystem::builder("s").runtime(runtime).long_handler(threshold).build().unwrap();
    let mut lints = system.hub().subscribe_with(only(EventKinds::LINTS));
    let actor = system.supervisor("supervisor", always_restart()).unwrap().spawn("a", TestActor::props(&Log::new())).unwrap();
    let block = move |ms| {
        blocked.fetch_add(ms, Relaxed);
    };
    let (first, second, third) = (block.clone(), block.clone(), block);
    actor.tell(Job::act(move |_| first(20))).unwrap();
    actor.tell(Job::act(move |_| second(19))).unwrap();
    let fails = Job::work(move |_| async move {
        third(21);
        Err("no".into())
    });
    actor.tell(fails).unwrap();
    actor.close();
    sim.run(actor.exited());
    let path = || "/user/supervisor/a".to_string();
    assert_eq!(long_handlers(&mut lints), [(path(), threshold), (path(), Duration::from_millis(21))]);
}

#[test]
fn e5_handlers_are_timed_only_with_a_subscriber_of_lints() {
    let (sim, clock_reads) = (Sim::new(1), Arc::new(AtomicUsize::new(0)));
    let runtime = Arc::new(CountingClock(sim.runtime(), Arc::clone(&clock_reads)));
    let system = ActorSystem::builder("s").runtime(runtime).build().unwrap();
    let actor = TestActor::spawn(&system, "a");
    let clock_reads_of = |messages: u32| {
        sim.settle();
        clock_reads.store(0, Relaxed);
        (0..messages).for_each(|n| actor.tell(Job::Note(n)).unwrap());
        sim.settle();
        clock_reads.load(Relaxed)
    };
    assert_eq!(clock_reads_of(1_000), 0);
    let others = system.hub().subscribe_with(only(EventKinds::LIFECYCLE | EventKinds::FAILURES | EventKinds::DEAD_LETTERS));
    assert_eq!(clock_reads_of(1_000), 0, "other events need no clock");
    let elsewhere = sim.system("another");
    let lints_elsewhere = elsewhere.hub().subscribe();
    assert_eq!(clock_reads_of(1_000), 0, "nor does a subscriber of another system");
    let lints = system.hub().subscribe_with(only(EventKinds::LINTS));
    assert!(clock_reads_of(1_000) >= 1_000);
    drop((lints, others, lints_elsewhere));
    assert_eq!(clock_reads_of(1_000), 0);
}
