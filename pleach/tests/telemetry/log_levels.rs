//! O3: what no subscriber wants costs nothing, and a level can be changed at run time.

use crate::capture::capture;
use crate::common::counting_clock::CountingClock;
use crate::common::{Job, Log, TestActor};
use pleach::prelude::*;
use pleach::sim::Sim;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tracing::Level;

#[test]
fn o3_handlers_are_watched_only_if_a_subscriber_wants_warnings() {
    let (sim, clock_reads) = (Sim::new(1), Arc::new(AtomicUsize::new(0)));
    let (captured, _guard) = capture(Level::ERROR);
    let runtime = Arc::new(CountingClock(sim.runtime(), Arc::clone(&clock_reads)));
    let system = ActorSystem::builder("s").runtime(runtime).build().unwrap();
    let actor = TestActor::spawn(&system, "a");
    let clock_reads_of_messages = || {
        sim.settle();
        clock_reads.store(0, Relaxed);
        (0..100).for_each(|n| actor.tell(Job::Note(n)).unwrap());
        sim.settle();
        clock_reads.load(Relaxed)
    };
    assert_eq!(clock_reads_of_messages(), 0);
    captured.set_level(Level::WARN);
    assert_eq!(clock_reads_of_messages(), 0, "the system does not know yet");
    system.refresh_log_levels();
    assert_eq!(clock_reads_of_messages(), 2, "the actor enters the list of busy actors, and the sampler starts");
    assert_eq!(clock_reads_of_messages(), 0, "it is in the list");
    captured.set_level(Level::ERROR);
    system.refresh_log_levels();
    assert_eq!(clock_reads_of_messages(), 0);
}

#[test]
fn o3_changed_level_applies_at_once_or_with_the_next_line() {
    let sim = Sim::new(1);
    let (captured, _guard) = capture(Level::INFO);
    let system = sim.system("s");
    let spawn_and_settle = |name: &str| {
        let actor = system.spawn(name, TestActor::props(&Log::new())).unwrap();
        sim.settle();
        actor
    };
    let first = spawn_and_settle("first");
    assert_eq!(captured.take_all().len(), 0);
    captured.set_level(Level::DEBUG);
    spawn_and_settle("unseen");
    assert_eq!(captured.take_all().len(), 0);
    // Any other line makes the system ask again.
    first.tell(Job::Fail("no")).unwrap();
    sim.settle();
    captured.take_all();
    spawn_and_settle("seen");
    assert_eq!(captured.take("pleach::lifecycle").len(), 1);
    captured.set_level(Level::WARN);
    system.refresh_log_levels();
    spawn_and_settle("unseen-again");
    assert_eq!(captured.take_all().len(), 0);
}
