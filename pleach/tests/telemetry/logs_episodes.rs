//! O3: dead letters, long handlers and full mailboxes: one line when it begins, and one when it is
//! over.

use crate::capture::capture;
use crate::common::{Gate, Job, Log, TestActor};
use pleach::prelude::*;
use pleach::sim::Sim;
use tracing::Level;

const DEAD_LETTERS: &str = "pleach::dead_letters";
const HANDLER: &str = "pleach::handler";
const MAILBOX: &str = "pleach::mailbox";

fn second() -> Duration {
    Duration::from_secs(1)
}

/// Spawns an actor that waits at a gate, with a mailbox for `capacity` messages.
fn waiting(sim: &Sim, system: &ActorSystem, name: &str, mailbox: Mailbox) -> (ActorRef<Job>, Gate) {
    let gate = Gate::new();
    let actor = system.spawn(name, TestActor::props(&Log::new()).mailbox(mailbox)).unwrap();
    actor.tell(Job::Pass(gate.clone(), 0)).unwrap();
    sim.settle();
    (actor, gate)
}

#[test]
fn o3_dead_letters_are_summarised_every_ten_seconds() {
    let (captured, _guard) = capture(Level::INFO);
    let sim = Sim::new(1);
    let system = sim.system("s");
    let lose = |name: &str, count: u32| {
        let (actor, gate) = waiting(&sim, &system, name, Mailbox::unbounded());
        (0..count).for_each(|n| actor.tell(Job::Note(n)).unwrap());
        actor.stop();
        gate.open();
        sim.settle();
    };
    lose("a", 5);
    let lines = captured.take(DEAD_LETTERS);
    assert_eq!(lines.len(), 1, "the first one is written at once: {lines:?}");
    assert_eq!((lines[0].level, lines[0].field("count"), lines[0].field("reason")), (Level::WARN, "1", "stopped"));
    assert!(lines[0].field("samples").starts_with("/user/a (") && lines[0].field("samples").ends_with("Job)"), "{lines:?}");
    assert!(lines[0].message().contains("1 message was not handled: the actor stopped first"), "{lines:?}");

    for name in ["b", "c", "d", "e"] {
        lose(name, 100);
    }
    assert_eq!(captured.take(DEAD_LETTERS).len(), 0, "counted, not written");
    sim.advance(second() * 10);
    let lines = captured.take(DEAD_LETTERS);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0].field("count"), "404");
    let samples = lines[0].field("samples");
    assert!(samples.contains("/user/a (") && samples.contains("/user/c (") && !samples.contains("/user/d"), "{samples}");

    sim.advance(second() * 60);
    assert_eq!(captured.take(DEAD_LETTERS).len(), 0, "nothing more to say");
    let tasks = sim.tasks_alive();
    lose("f", 2);
    drop(system);
    sim.settle();
    let counts: Vec<_> = captured.take(DEAD_LETTERS).iter().map(|line| line.field("count").to_string()).collect();
    assert_eq!(counts, ["1", "1"], "the end of the system writes the rest");
    assert_eq!((tasks, sim.tasks_alive()), (0, 0), "no timer is left");
}

#[test]
fn o3_dead_letters_are_separate_by_reason() {
    let (captured, _guard) = capture(Level::INFO);
    let sim = Sim::new(1);
    let system = sim.system("s");
    let (dropping, _gate) = waiting(&sim, &system, "dropping", Mailbox::bounded(2).drop_oldest());
    (0..10).for_each(|n| dropping.tell(Job::Note(n)).unwrap());
    let (conflated, _gate) = waiting(&sim, &system, "conflated", Mailbox::conflated());
    (0..10).for_each(|n| conflated.tell(Job::Note(n)).unwrap());
    dropping.cancel(());
    sim.advance(second() * 10);
    let seen: Vec<_> = captured
        .take(DEAD_LETTERS)
        .iter()
        .map(|line| (line.field("reason").to_string(), line.field("count").to_string()))
        .collect();
    let line = |reason: &str, count: &str| (reason.to_string(), count.to_string());
    assert_eq!(seen[0], line("dropped_oldest", "1"));
    assert!(seen.contains(&line("dropped_oldest", "7")), "{seen:?}");
    assert!(seen.iter().any(|(reason, _)| reason == "cancelled"), "{seen:?}");
    assert!(!seen.iter().any(|(reason, _)| reason == "conflated"), "a conflated mailbox does what it should: {seen:?}");
}

#[test]
fn o3_long_handler_is_logged_once_and_its_end_too() {
    let (captured, _guard) = capture(Level::INFO);
    let sim = Sim::new(1);
    let system = sim.system("s");
    let (actor, gate) = waiting(&sim, &system, "a", Mailbox::unbounded());
    sim.advance(second() * 30);
    let lines = captured.take(HANDLER);
    assert_eq!(lines.len(), 1, "once: {lines:?}");
    assert_eq!((lines[0].level, lines[0].field("path"), lines[0].field("running_ms")), (Level::WARN, "/user/a", "1000"));
    assert!(lines[0].field("message_type").ends_with("Job"), "{lines:?}");
    actor.tell(Job::Note(1)).unwrap();
    gate.open();
    sim.settle();
    let lines = captured.take(HANDLER);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!((lines[0].level, lines[0].field("path"), lines[0].field("ran_ms")), (Level::INFO, "/user/a", "30000"));
    // A cancel ends it too.
    actor.tell(Job::Pass(gate, 1)).unwrap();
    sim.advance(second() * 2);
    actor.cancel(());
    sim.settle();
    let levels: Vec<_> = captured.take(HANDLER).iter().map(|line| line.level).collect();
    assert_eq!(levels, [Level::WARN, Level::INFO]);
}

#[test]
fn o3_full_mailbox_is_one_episode_however_often_it_fills() {
    for mailbox in [Mailbox::bounded(10), Mailbox::bounded(10).drop_oldest(), Mailbox::bounded(10).prioritised()] {
        let (captured, _guard) = capture(Level::INFO);
        let sim = Sim::new(1);
        let system = sim.system("s");
        let actor = system.spawn("a", TestActor::props(&Log::new()).mailbox(mailbox)).unwrap();
        sim.settle();
        for _ in 0..50 {
            (0..10).for_each(|n| actor.tell(Job::Note(n)).unwrap());
            sim.settle();
            sim.advance(second());
        }
        let lines = captured.take(MAILBOX);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!((lines[0].level, lines[0].field("path"), lines[0].field("capacity")), (Level::WARN, "/user/a", "10"));
        sim.advance(second() * 20);
        let lines = captured.take(MAILBOX);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!((lines[0].level, lines[0].field("path"), lines[0].field("fills")), (Level::INFO, "/user/a", "50"));
        assert_eq!(lines[0].field("lasted_ms"), "49000");
        sim.advance(second() * 60);
        assert_eq!(captured.take_all().len(), 0);
    }
}

#[test]
fn o3_full_mailbox_of_an_ended_actor_is_forgotten() {
    let (captured, _guard) = capture(Level::INFO);
    let sim = Sim::new(1);
    let system = sim.system("s");
    let (actor, gate) = waiting(&sim, &system, "a", Mailbox::bounded(10));
    (0..10).for_each(|n| actor.tell(Job::Note(n)).unwrap());
    sim.advance(second() * 100);
    assert_eq!(captured.take(MAILBOX).len(), 1, "it stays full");
    actor.stop();
    gate.open();
    sim.advance(second() * 20);
    let levels: Vec<_> = captured.take(MAILBOX).iter().map(|line| line.level).collect();
    assert_eq!(levels, [Level::INFO]);
}

#[test]
fn o3_number_of_named_mailboxes_is_bounded() {
    let (captured, _guard) = capture(Level::INFO);
    let sim = Sim::new(1);
    let system = sim.system("s");
    let stuck: Vec<_> = (0..300).map(|n| waiting(&sim, &system, &format!("a{n}"), Mailbox::bounded(5))).collect();
    for (actor, _) in &stuck {
        (0..5).for_each(|n| actor.tell(Job::Note(n)).unwrap());
    }
    let lines = captured.take(MAILBOX);
    assert_eq!(lines.len(), 257, "256 mailboxes, and a line that there are more");
    assert!(lines[256].message().starts_with("more than 256 mailboxes"), "{:?}", lines[256]);
}

#[test]
fn o3_log_has_one_timer_for_mailboxes_and_one_for_each_reason() {
    let (_captured, _guard) = capture(Level::INFO);
    let sim = Sim::new(1);
    let system = sim.system("s");
    let flood = || {
        let (actor, gate) = waiting(&sim, &system, "dropping", Mailbox::bounded(4).drop_newest());
        (0..8).for_each(|n| drop(actor.tell(Job::Note(n))));
        gate.open();
        sim.settle();
        actor.stop();
        sim.settle();
    };
    flood();
    sim.advance(second() * 3);
    let tasks = sim.tasks_alive();
    for _ in 0..50 {
        // The mailbox fills and drains, and messages are lost, again and again.
        flood();
        sim.advance(second() * 3);
    }
    assert!(sim.tasks_alive() <= tasks + 2, "{} after {tasks}", sim.tasks_alive());
}

/// A listener that has handlers timed adds no second line.
#[test]
fn o3_end_of_a_stuck_handler_is_logged_once() {
    let (captured, _guard) = capture(Level::INFO);
    let sim = Sim::new(1);
    let system = sim.system("s");
    let _listener = system.hub().listen_to(EventKinds::LINTS, |_| {});
    let (_actor, gate) = waiting(&sim, &system, "a", Mailbox::unbounded());
    sim.advance(second() * 5);
    gate.open();
    sim.settle();
    let lines = captured.take(HANDLER);
    assert_eq!(lines.iter().map(|line| line.level).collect::<Vec<_>>(), [Level::WARN, Level::INFO], "{lines:?}");
    // The sampler begins with an earlier message and does not see this one: no line at all.
    let (gate, actor) = (Gate::new(), TestActor::spawn(&system, "b"));
    actor.tell(Job::Note(1)).unwrap();
    sim.advance(second() / 2);
    actor.tell(Job::Pass(gate.clone(), 2)).unwrap();
    sim.advance(second() * 6 / 5);
    gate.open();
    sim.settle();
    assert_eq!(captured.take(HANDLER).len(), 0);
}
