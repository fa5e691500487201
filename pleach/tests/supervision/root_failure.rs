//! E3 and E7, as far as events go: what becomes of a failure that nobody below the root handled.

use crate::common::logged::logged;
use crate::common::{Doer, INJECTED, Job, Log, quiet};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{ESCALATIONS_KEPT_MAX, SubscriptionOptions, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// One that hands the first failure up.
fn strict() -> OneForOne {
    OneForOne::new().always(SupervisorDirective::Escalate)
}

/// Has a fresh actor under its own supervisor fail, so that the failure comes up to the root.
fn fail_at_root(system: &System, number: usize) {
    logged();
    let crew = system.supervisor(&format!("crew{number}"), strict()).unwrap();
    let actor = crew.spawn("doer", Doer::props(&Log::new())).unwrap();
    actor.tell(Job::Fail("no")).unwrap();
}

#[test]
fn e3_an_unhandled_failure_is_logged_counted_handed_over_and_told() {
    const NUMBER: usize = 9_999;
    let (sim, handed) = (Sim::new(1), Log::new());
    let hands = handed.clone();
    let builder = ActorSystem::builder("s").runtime(sim.runtime());
    let system = builder.on_root_failure(move |failure, _| hands.push(failure.clone())).build().unwrap();
    let mut events = system.hub().subscribe_with(SubscriptionOptions::new().kinds(EventKinds::UNHANDLED));
    let bystander = system.spawn("bystander", Doer::props(&Log::new())).unwrap();
    fail_at_root(&system, NUMBER);
    sim.settle();
    let mut logged = logged().take();
    logged.retain(|line| line.contains(&NUMBER.to_string()));
    assert_eq!(logged.len(), 1, "{logged:?}");
    for part in ["ERROR", "origin=/user/crew9999/doer", "path=/user ", "reason=no"] {
        assert!(logged[0].contains(part), "{part} in {logged:?}");
    }
    assert_eq!((system.unhandled(), system.failures()), (1, 1));
    let (handed, told) = (handed.take(), std::iter::from_fn(|| events.try_next()).collect::<Vec<_>>());
    assert!(matches!(&told[..], [Event::Unhandled(failure)] if failure.origin() == handed[0].origin()));
    assert_eq!(handed.len(), 1);
    assert!(bystander.exit().is_none(), "the rest goes on");
    let gone = system.root().lookup_any(&"/user/crew9999".parse().unwrap());
    assert!(gone.is_none(), "and what failed stays stopped");
}

#[test]
fn e3_the_root_handler_may_ask_for_a_shutdown() {
    explore(0..50, |sim| {
        let builder = ActorSystem::builder("s").runtime(sim.runtime());
        let system = builder.on_root_failure(|_, root| root.begin_shutdown()).build().unwrap();
        let log = Log::new();
        let bystander = system.spawn("bystander", Doer::props(&log)).unwrap();
        bystander.tell(Job::Note(1)).unwrap();
        fail_at_root(&system, 0);
        sim.run(system.ended()).unwrap();
        assert_eq!(bystander.exit(), Some(Exit::Closed), "in an orderly way: what was queued is handled");
        assert_eq!(log.take(), ["started 0", "1", "stopped 0 closed"]);
    });
}

#[test]
fn e7_take_escalations_drains_what_nobody_handled_up_to_a_bound() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let more = 7;
    (0..ESCALATIONS_KEPT_MAX + more).for_each(|number| {
        fail_at_root(&system, number);
        sim.settle();
    });
    let taken = system.take_escalations();
    assert_eq!((taken.failures.len(), taken.dropped), (ESCALATIONS_KEPT_MAX, more as u64));
    assert_eq!(taken.failures[0].origin().to_string(), "/user/crew0/doer", "the oldest first");
    assert_eq!(system.unhandled(), ESCALATIONS_KEPT_MAX + more);
    let taken = system.take_escalations();
    assert_eq!((taken.failures.len(), taken.dropped), (0, 0));
    fail_at_root(&system, 1_000);
    sim.settle();
    assert_eq!(system.take_escalations().failures.len(), 1);
}

#[test]
fn e7_what_a_root_handler_took_is_handled_unless_it_panics() {
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
    let left: Vec<_> = system.take_escalations().failures.iter().map(|failure| failure.origin().to_string()).collect();
    assert_eq!(left, ["/user/crew1/doer"]);
    assert_eq!((system.unhandled(), system.failures()), (3, 4), "the handler's own panic is on record");
}

#[test]
fn e7_a_listener_of_the_builder_hears_the_very_first_event() {
    let (sim, heard) = (Sim::new(1), Log::new());
    let (one, two) = (heard.clone(), heard.clone());
    let builder = ActorSystem::builder("s").runtime(sim.runtime()).grace(Duration::from_secs(1));
    let system = builder.on_event(move |_| one.push(1)).on_event(move |_| two.push(2)).build().unwrap();
    system.spawn("a", Doer::props(&Log::new())).unwrap();
    sim.settle();
    assert_eq!(heard.take(), [1, 2]);
}
