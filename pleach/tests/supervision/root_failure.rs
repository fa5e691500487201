//! E3 and E7: a failure that no member below the root handled.

use crate::common::logged::logged;
use crate::common::{INJECTED, Job, Log, TestActor, quiet};
use crate::escalate;
use pleach::events::SubscriptionOptions;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::supervise::ESCALATIONS_KEPT_MAX;
use pleach::system::System;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Lets a new actor under a new supervisor fail, so that the failure reaches the root.
fn fail_at_root(system: &System, number: usize) {
    logged();
    let supervisor = system.supervisor(&format!("supervisor-{number}"), escalate()).unwrap();
    let actor = supervisor.spawn("actor", TestActor::props(&Log::new())).unwrap();
    actor.tell(Job::Fail("no")).unwrap();
}

#[test]
fn e3_unhandled_failure_is_logged_counted_and_reported() {
    const NUMBER: usize = 9_999;
    let (sim, handler_calls) = (Sim::new(1), Log::new());
    let handler_log = handler_calls.clone();
    let builder = ActorSystem::builder("s").runtime(sim.runtime());
    let system = builder.on_root_failure(move |failure, _| handler_log.push(failure.clone())).build().unwrap();
    let mut events = system.hub().subscribe_with(SubscriptionOptions::new().kinds(EventKinds::UNHANDLED));
    let other = TestActor::spawn(&system, "other");
    fail_at_root(&system, NUMBER);
    sim.settle();
    let mut logged = logged().take();
    logged.retain(|line| !line.starts_with("DEBUG") && line.contains(&format!("supervisor-{NUMBER}")));
    assert_eq!(logged.len(), 1, "{logged:?}");
    for part in ["ERROR", "origin=/user/supervisor-9999/actor", "path=/user ", "reason=\"no\""] {
        assert!(logged[0].contains(part), "{part} in {logged:?}");
    }
    assert_eq!((system.unhandled(), system.failures()), (1, 1));
    let (handler_calls, reported) = (handler_calls.take(), std::iter::from_fn(|| events.try_next()).collect::<Vec<_>>());
    assert!(matches!(&reported[..], [Event::Unhandled(failure)] if failure.origin() == handler_calls[0].origin()));
    assert_eq!(handler_calls.len(), 1);
    assert!(other.exit().is_none(), "the rest keeps running");
    let failed = system.root().lookup_any(&"/user/supervisor-9999".parse().unwrap());
    assert!(failed.is_none(), "the failed supervisor stays stopped");
}

#[test]
fn e3_root_handler_may_begin_a_shutdown() {
    explore(0..50, |sim| {
        let builder = ActorSystem::builder("s").runtime(sim.runtime());
        let system = builder.on_root_failure(|_, root| root.begin_shutdown()).build().unwrap();
        let log = Log::new();
        let other = system.spawn("other", TestActor::props(&log)).unwrap();
        other.tell(Job::Note(1)).unwrap();
        fail_at_root(&system, 0);
        sim.run(system.ended()).unwrap();
        assert_eq!(other.exit(), Some(Exit::Closed), "queued messages are handled first");
        assert_eq!(log.take(), ["started 0", "1", "stopped 0 closed"]);
    });
}

#[test]
fn e7_take_escalations_drains_unhandled_failures_up_to_a_limit() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let more = 7;
    (0..ESCALATIONS_KEPT_MAX + more).for_each(|number| {
        fail_at_root(&system, number);
        sim.settle();
    });
    let taken = system.take_escalations();
    assert_eq!((taken.failures.len(), taken.dropped), (ESCALATIONS_KEPT_MAX, more as u64));
    assert_eq!(taken.failures[0].origin().to_string(), "/user/supervisor-0/actor", "the oldest first");
    assert_eq!(system.unhandled(), ESCALATIONS_KEPT_MAX + more);
    let taken = system.take_escalations();
    assert_eq!((taken.failures.len(), taken.dropped), (0, 0));
    fail_at_root(&system, 1_000);
    sim.settle();
    assert_eq!(system.take_escalations().failures.len(), 1);
}

#[test]
fn e7_root_handler_handles_a_failure_unless_it_panics() {
    quiet();
    let sim = Sim::new(1);
    let builder = ActorSystem::builder("s").runtime(sim.runtime());
    let calls = AtomicUsize::new(0);
    let handler = move |_: &FailureInfo, _: &RootContext| {
        if calls.fetch_add(1, Relaxed) == 1 {
            std::panic::panic_any(INJECTED);
        }
    };
    let system = builder.on_root_failure(handler).build().unwrap();
    (0..3).for_each(|number| {
        fail_at_root(&system, number);
        sim.settle();
    });
    let unhandled: Vec<_> = system.take_escalations().failures.iter().map(|failure| failure.origin().to_string()).collect();
    assert_eq!(unhandled, ["/user/supervisor-1/actor"]);
    assert_eq!((system.unhandled(), system.failures()), (3, 4), "the panic of the handler is recorded");
}

#[test]
fn e7_listener_of_the_builder_gets_the_first_event() {
    let (sim, events) = (Sim::new(1), Log::new());
    let (first, second) = (events.clone(), events.clone());
    let builder = ActorSystem::builder("s").runtime(sim.runtime()).grace(Duration::from_secs(1));
    let system = builder.on_event(move |_| first.push(1)).on_event(move |_| second.push(2)).build().unwrap();
    TestActor::spawn(&system, "a");
    sim.settle();
    assert_eq!(events.take(), [1, 2]);
}
