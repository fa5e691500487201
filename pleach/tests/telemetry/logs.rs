//! O3: failures, give-ups, wait cycles and lifecycle in the log.

use crate::capture::{Line, capture};
use crate::common::no_text::NoText;
use crate::common::{INJECTED, Job, Log, TestActor, quiet};
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::supervise::{ExponentialBackoff, SupervisorDirective};
use tracing::Level;

const SUPERVISION: &str = "pleach::supervision";

fn assert_parts(line: &Line, level: Level, parts: &[&str]) {
    assert_eq!(line.level, level, "{line:?}");
    for part in parts {
        assert!(line.message().contains(part), "{part} in {line:?}");
    }
}

#[test]
fn o3_restart_is_logged_with_reason_count_and_limit() {
    quiet();
    let (captured, _guard) = capture(Level::INFO);
    let sim = Sim::new(1);
    let system = sim.system("s");
    let workers = system.supervisor("workers", OneForOne::new()).unwrap();
    let actor = workers.spawn("a", TestActor::props(&Log::new())).unwrap();
    actor.tell(Job::Fail("asked to fail")).unwrap();
    actor.tell(Job::Panic(INJECTED)).unwrap();
    sim.settle();
    let lines = captured.take_all();
    assert_eq!(lines.len(), 2, "each failure is one line: {lines:?}");
    assert_parts(&lines[0], Level::WARN, &["/user/workers/a failed and restarts now (restart 1 of 3 in 5s)"]);
    let fields = |line: &Line, names: &[&str]| names.iter().map(|name| line.field(name).to_string()).collect::<Vec<_>>();
    let names = ["system", "path", "incarnation", "error.type", "reason", "restarts", "limit", "window_ms", "delay_ms"];
    assert_eq!(fields(&lines[0], &names), ["s", "/user/workers/a", "0", "error", "asked to fail", "1", "3", "5000", "0"]);
    assert_eq!(fields(&lines[1], &["incarnation", "error.type", "restarts"]), ["1", "panic", "2"]);
    assert!(lines.iter().all(|line| line.target == SUPERVISION));
}

#[test]
fn o3_restart_after_a_backoff_says_when() {
    let (captured, _guard) = capture(Level::INFO);
    let sim = Sim::new(1);
    let system = sim.system("s");
    let backoff = ExponentialBackoff::new(Duration::from_secs(2), Duration::from_secs(60)).jitter(0.0);
    let workers = system.supervisor("workers", OneForOne::new().backoff(backoff)).unwrap();
    let actor = workers.spawn("a", TestActor::props(&Log::new())).unwrap();
    actor.tell(Job::Fail("no")).unwrap();
    sim.settle();
    let lines = captured.take(SUPERVISION);
    assert_parts(&lines[0], Level::WARN, &["/user/workers/a failed and restarts in 2s (restart 1 of 3 in 5s)"]);
    assert_eq!(lines[0].field("delay_ms"), "2000");
}

#[test]
fn o3_give_up_is_logged_once_with_its_consequence() {
    let (captured, _guard) = capture(Level::INFO);
    let sim = Sim::new(1);
    let system = sim.system("s");
    let workers = system.supervisor("workers", OneForOne::new()).unwrap();
    let actors: Vec<_> = (0..4).map(|n| workers.spawn(&n.to_string(), TestActor::props(&Log::new())).unwrap()).collect();
    (0..4).for_each(|_| drop(actors[3].tell(Job::Fail("asked to fail"))));
    sim.settle();
    let lines = captured.take(SUPERVISION);
    let levels: Vec<_> = lines.iter().map(|line| line.level).collect();
    assert_eq!(levels, [Level::WARN, Level::WARN, Level::WARN, Level::ERROR, Level::ERROR], "{lines:?}");
    let parts = [
        "supervisor /user/workers gave up after 3 restarts in 5s; 4 children stopped",
        "queued messages become dead letters",
        "restart limit",
    ];
    assert_parts(&lines[3], Level::ERROR, &parts);
    assert_eq!((lines[3].field("child"), lines[3].field("reason")), ("/user/workers/3", "asked to fail"));
    // Another fact: the supervisor itself stays down.
    assert_parts(&lines[4], Level::ERROR, &["no supervisor handled it; it is not restarted"]);

    // At the top both are one fact, and one line.
    let alone = TestActor::spawn(&system, "alone");
    TestActor::spawn(&system, "other");
    (0..4).for_each(|_| drop(alone.tell(Job::Fail("no"))));
    sim.settle();
    let errors: Vec<_> = captured.take(SUPERVISION).into_iter().filter(|line| line.level == Level::ERROR).collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_parts(&errors[0], Level::ERROR, &["supervisor /user gave up on /user/alone", "it stopped, 1 other continues"]);
}

#[test]
fn o3_stop_and_resume_after_a_failure_are_logged() {
    let (captured, _guard) = capture(Level::INFO);
    let sim = Sim::new(1);
    let system = sim.system("s");
    for (name, directive, part) in [
        ("stopping", SupervisorDirective::Stop, "failed and its supervisor stops it"),
        ("resuming", SupervisorDirective::Resume, "failed and continues with its state"),
    ] {
        let supervisor = system.supervisor(name, move |_: &FailureInfo| directive).unwrap();
        let actor = supervisor.spawn("a", TestActor::props(&Log::new())).unwrap();
        actor.tell(Job::Fail("no")).unwrap();
        sim.settle();
        let lines = captured.take(SUPERVISION);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_parts(&lines[0], Level::WARN, &[part]);
    }
}

#[test]
fn o3_unhandled_failure_is_an_error() {
    let (captured, _guard) = capture(Level::INFO);
    let sim = Sim::new(1);
    let system = sim.system("s");
    let supervisor = system.supervisor("sup", |_: &FailureInfo| SupervisorDirective::Escalate).unwrap();
    let actor = supervisor.spawn("a", TestActor::props(&Log::new())).unwrap();
    actor.tell(Job::Fail("no")).unwrap();
    sim.settle();
    let lines = captured.take(SUPERVISION);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_parts(&lines[0], Level::ERROR, &["/user/sup/a failed and no supervisor handled it"]);
    assert_eq!((lines[0].field("path"), lines[0].field("reason")), ("/user", "no"));
}

#[test]
fn o3_ask_that_closes_a_cycle_is_logged() {
    let (captured, _guard) = capture(Level::INFO);
    let sim = Sim::new(1);
    let system = sim.system("s");
    let (a, b) = (TestActor::spawn(&system, "a"), TestActor::spawn(&system, "b"));
    let back = a.clone();
    a.tell(Job::work(move |_| async move {
        let ask = Job::work(move |_| async move {
            drop(back.ask(|reply| Job::Answer(reply, 1)).timeout(Duration::from_secs(1)).await);
            Ok(())
        });
        b.tell(ask).unwrap();
        drop(b.ask(|reply| Job::Answer(reply, 2)).timeout(Duration::from_secs(2)).await);
        Ok(())
    }))
    .unwrap();
    sim.advance(Duration::from_secs(5));
    let lines = captured.take("pleach::waits");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_parts(&lines[0], Level::WARN, &["can only time out", "/user/a", "/user/b"]);
}

#[test]
fn o3_lifecycle_is_logged_at_debug() {
    let (captured, _guard) = capture(Level::DEBUG);
    let sim = Sim::new(1);
    let system = sim.system("s");
    let actor = TestActor::spawn(&system, "a");
    sim.settle();
    actor.tell(Job::Fail("no")).unwrap();
    sim.settle();
    actor.close();
    sim.settle();
    let lines = captured.take("pleach::lifecycle");
    let messages: Vec<_> = lines.iter().map(Line::message).collect();
    assert_eq!(messages, ["/user/a started", "/user/a restarted", "/user/a ended: closed"]);
    assert!(lines.iter().all(|line| line.level == Level::DEBUG && line.field("path") == "/user/a"));
    assert_eq!((lines[1].field("incarnation"), lines[2].field("exit")), ("1", "closed"));
}

#[test]
fn o3_no_line_shows_what_a_message_contains() {
    let (captured, _guard) = capture(Level::TRACE);
    let sim = Sim::new(1);
    let system = sim.system("s");
    // `TestActor` describes its messages by their number.
    let actor = system.spawn("a", TestActor::props(&Log::new())).unwrap();
    (0..20).for_each(|_| actor.tell(Job::Note(987_654)).unwrap());
    actor.tell(Job::act(|cx| cx.stop())).unwrap();
    (0..20).for_each(|_| actor.tell(Job::Note(987_654)).unwrap());
    sim.advance(Duration::from_secs(30));
    drop(system);
    sim.settle();
    let lines = captured.take_all();
    assert!(lines.iter().any(|line| line.target == "pleach::dead_letters"));
    assert!(!format!("{lines:?}").contains("987654"), "{lines:?}");
}

#[test]
fn o3_error_whose_text_panics_is_logged() {
    quiet();
    let (captured, _guard) = capture(Level::DEBUG);
    let sim = Sim::new(1);
    let system = sim.system("s");
    let workers = system.supervisor("workers", OneForOne::new().restart_limit(1, Duration::from_secs(5))).unwrap();
    let actor = workers.spawn("a", Props::from_fn(|| (), |_, ()| Err(NoText))).unwrap();
    (0..2).for_each(|_| drop(actor.tell(())));
    sim.settle();
    let (lines, others): (Vec<_>, Vec<_>) = captured.take_all().into_iter().partition(|line| line.target == SUPERVISION);
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_parts(&lines[0], Level::WARN, &["/user/workers/a failed and restarts"]);
    assert_parts(&lines[1], Level::ERROR, &["supervisor /user/workers gave up"]);
    assert!(lines.iter().all(|line| line.field("reason").contains("panicked")), "{lines:?}");
    assert!(others.iter().any(|line| line.message().contains("/user/workers/a ended")), "{others:?}");
}
