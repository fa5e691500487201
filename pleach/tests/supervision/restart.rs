//! A2, A8, A11, S1, S3 and S8: the effect of a failure on the actor, its mailbox and the failed
//! message.

use crate::common::{Job, Log, TestActor, dead_letters, failures, quiet};
use pleach::BoxError;
use pleach::events::DeadLetterReason;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::supervise::{EscalationStage, RESTART_LIMIT_DEFAULT, Reach, RestartRules, SupervisorStrategy};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[test]
fn a8_error_is_handled_like_a_panic() {
    quiet();
    explore(0..50, |sim| {
        let results = [Job::Fail("injected"), Job::Panic("injected")].map(|fault| {
            let (system, log) = (sim.system("s"), Log::new());
            let records = failures(&system);
            let actor = system.spawn("actor", TestActor::props(&log)).unwrap();
            actor.tell(fault).unwrap();
            actor.tell(Job::Note(1)).unwrap();
            actor.close();
            assert_eq!(sim.run(actor.exited()), Exit::Closed);
            let record = records.take().remove(0);
            assert!(record.reason().to_string().contains("injected"));
            assert_eq!((record.incarnation(), record.restarts(), record.message()), (0, 0, Some("job")));
            assert_eq!(system.failures(), 1);
            (log.take(), actor.counts())
        });
        assert_eq!(results[0], results[1]);
        assert_eq!(results[0].0, ["started 0", "restarting 0", "stopped 0 failed", "started 1", "1", "stopped 1 closed"]);
        assert_eq!(results[0].1, Counts { accepted: 2, handled: 1, failed: 1, dead_lettered: 0 });
    });
}

#[test]
fn a11_address_and_mailbox_survive_a_restart() {
    explore(0..100, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let actor = system.spawn("actor", TestActor::props(&log)).unwrap();
        let (before, id) = (actor.clone(), actor.id());
        actor.tell(Job::Fail("no")).unwrap();
        (0..500).for_each(|n| actor.tell(Job::Note(n)).unwrap());
        sim.settle();
        let seen = log.take();
        assert_eq!(seen[..4], ["started 0", "restarting 0", "stopped 0 failed", "started 1"]);
        assert!(seen[4..].iter().enumerate().all(|(at, seen)| *seen == at.to_string()), "all messages in order");
        assert_eq!(seen.len(), 504);
        before.tell(Job::Note(1)).expect("the old address still works");
        assert_eq!((before.id(), before.path().to_string().as_str()), (id, "/user/actor"));
        assert_eq!(before, system.root().lookup(&actor.path()).unwrap());
        sim.settle();
        assert_eq!(log.take(), ["1"]);
    });
}

/// An actor that fails on a message `failures` times and logs each attempt.
fn failing(log: &Log<(u32, u32)>) -> Props<impl Actor<Msg = (u32, u32)>> {
    let (log, attempts) = (log.clone(), Arc::new(AtomicU32::new(0)));
    Props::from_fn(
        || (),
        move |(): &mut (), (id, failures): (u32, u32)| -> Result<(), BoxError> {
            let attempt = attempts.fetch_add(1, Ordering::Relaxed);
            log.push((id, attempt));
            if attempt < failures {
                return Err("not yet".into());
            }
            attempts.store(0, Ordering::Relaxed);
            Ok(())
        },
    )
    .describe(|(id, _)| id.to_string())
}

#[test]
fn a11_failed_message_is_skipped_by_default() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let dead_letters = dead_letters(&system);
        let actor = system.spawn("failing", failing(&log)).unwrap();
        actor.tell((7, 1)).unwrap();
        actor.tell((8, 0)).unwrap();
        sim.settle();
        assert_eq!(log.take(), [(7, 0), (8, 1)]);
        assert_eq!(actor.counts(), Counts { accepted: 2, handled: 1, failed: 1, dead_lettered: 0 });
        assert_eq!((system.failures(), dead_letters.len()), (1, 0));
    });
}

#[test]
fn a11_retry_handles_the_message_again_first() {
    explore(0..50, |sim| {
        for (faults, handled) in [(2, 1), (3, 0)] {
            let (system, log) = (sim.system("s"), Log::new());
            let supervisor =
                system.supervisor("supervisor", OneForOne::new().restart_limit(9, Duration::from_secs(1))).unwrap();
            let actor = supervisor.spawn("failing", failing(&log).retry(2)).unwrap();
            actor.tell((7, faults)).unwrap();
            actor.tell((8, 0)).unwrap();
            sim.settle();
            let seen = log.take();
            assert_eq!(seen[..3], [(7, 0), (7, 1), (7, 2)], "before any other message");
            assert_eq!((seen[3].0, seen.len()), (8, 4));
            assert_eq!(actor.counts(), Counts { accepted: 2, handled: 1 + handled, failed: 1 - handled, dead_lettered: 0 });
            assert_eq!(system.failures() as u64, 3 - handled, "each failed attempt is recorded");
        }
    });
}

#[test]
fn a11_retry_counts_each_message_separately() {
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let supervisor = system.supervisor("supervisor", OneForOne::new().restart_limit(99, Duration::from_secs(1))).unwrap();
    let actor = supervisor.spawn("failing", failing(&log).retry(1)).unwrap();
    (0..10).for_each(|id| actor.tell((id, 1)).unwrap());
    sim.settle();
    assert_eq!(actor.counts(), Counts { accepted: 10, handled: 10, failed: 0, dead_lettered: 0 });
    assert_eq!(log.len(), 20);
}

#[test]
fn a11_dead_letter_failed_makes_a_dead_letter() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let dead_letters = dead_letters(&system);
        let supervisor = system.supervisor("supervisor", OneForOne::new().restart_limit(9, Duration::from_secs(1))).unwrap();
        let plain = supervisor.spawn("plain", failing(&log).dead_letter_failed()).unwrap();
        plain.tell((7, 1)).unwrap();
        sim.settle();
        assert_eq!(dead_letters.take(), [("7".to_string(), DeadLetterReason::HandlerFailed)]);
        assert_eq!(plain.counts(), Counts { accepted: 1, handled: 0, failed: 0, dead_lettered: 1 });
        let retried = supervisor.spawn("retried", failing(&log).retry(1).dead_letter_failed()).unwrap();
        retried.tell((8, 9)).unwrap();
        sim.settle();
        assert_eq!(log.take(), [(7, 0), (8, 0), (8, 1)]);
        assert_eq!(dead_letters.take(), [("8".to_string(), DeadLetterReason::HandlerFailed)]);
        assert_eq!(system.failures(), 3);
    });
}

/// A message that panics when it is cloned, or when it is dropped before a handler has cleared
/// `in_drop`.
struct FragileMessage {
    id: u32,
    in_clone: bool,
    in_drop: bool,
}

impl Clone for FragileMessage {
    fn clone(&self) -> Self {
        assert!(!self.in_clone, "injected into a clone");
        Self { ..*self }
    }
}

impl Drop for FragileMessage {
    fn drop(&mut self) {
        assert!(!self.in_drop, "injected into a drop");
    }
}

fn fragile_props(log: &Log<u32>) -> Props<impl Actor<Msg = FragileMessage>> {
    let log = log.clone();
    Props::from_fn(
        || (),
        move |(): &mut (), mut message: FragileMessage| -> Result<(), BoxError> {
            message.in_drop = false;
            log.push(message.id);
            if message.id >= 100 { Err("no".into()) } else { Ok(()) }
        },
    )
}

#[test]
fn a11_message_whose_clone_panics_fails_alone() {
    quiet();
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let actor = system.spawn("fragile_props", fragile_props(&log).retry(1)).unwrap();
    for (id, in_clone) in [(1, false), (2, true), (3, false)] {
        actor.tell(FragileMessage { id, in_clone, in_drop: false }).unwrap();
    }
    sim.settle();
    assert_eq!(log.take(), [1, 3], "only this message is lost");
    assert_eq!(actor.counts(), Counts { accepted: 3, handled: 2, failed: 1, dead_lettered: 0 });
    assert_eq!(system.failures(), 1);
}

#[test]
fn s8_panic_in_the_drop_of_a_clone_is_recorded() {
    quiet();
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let supervisor = system.supervisor("supervisor", OneForOne::new().restart_limit(9, Duration::from_secs(1))).unwrap();
    let actor = supervisor.spawn("fragile_props", fragile_props(&log).retry(1)).unwrap();
    for (id, in_drop) in [(100, true), (1, true), (2, false)] {
        actor.tell(FragileMessage { id, in_clone: false, in_drop }).unwrap();
    }
    actor.close();
    assert_eq!(sim.run(actor.exited()), Exit::Closed);
    assert_eq!(log.take(), [100, 100, 1, 2]);
    assert_eq!(actor.counts(), Counts { accepted: 3, handled: 2, failed: 1, dead_lettered: 0 });
    assert_eq!(system.failures(), 4, "two failed attempts and two clones whose drop panicked");
}

#[test]
fn s1_each_directive_has_its_effect() {
    use SupervisorDirective::{Escalate, Restart, Resume, Stop};
    explore(0..50, |sim| {
        for directive in [Resume, Restart, Stop, Escalate] {
            let (system, log) = (sim.system("s"), Log::new());
            let unhandled = Log::new();
            let seen = unhandled.clone();
            system.on_event(move |event| {
                if let Event::Unhandled(failure) = event {
                    seen.push(failure.clone());
                }
            });
            let supervisor = system.supervisor("supervisor", OneForOne::new().always(directive)).unwrap();
            let actor = supervisor.spawn("actor", TestActor::props(&log)).unwrap();
            actor.tell(Job::Fail("no")).unwrap();
            actor.tell(Job::Note(1)).unwrap();
            sim.settle();
            let ends: &[&str] = match directive {
                Resume => &["started 0", "1"],
                Restart => &["started 0", "restarting 0", "stopped 0 failed", "started 1", "1"],
                _ => &["started 0", "stopped 0 failed"],
            };
            assert_eq!(log.take(), ends);
            assert_eq!(system.failures(), 1, "one failure is one record");
            let escalated = directive == Escalate;
            assert_eq!((unhandled.len() == 1, supervisor.any().exit().is_some()), (escalated, escalated));
            for failure in unhandled.take() {
                assert_eq!(failure.origin().to_string(), "/user/supervisor/actor");
                assert_eq!(
                    (failure.path().to_string().as_str(), failure.stage()),
                    ("/user", EscalationStage::Escalated { hops: 2 })
                );
            }
        }
    });
}

#[test]
fn s1_one_for_one_is_the_default_and_spares_the_siblings() {
    assert_eq!(RESTART_LIMIT_DEFAULT, (3, Duration::from_secs(5)));
    let default = OneForOne::default().restarts();
    assert_eq!((default.reach, default.restarts_max, default.window), (Reach::One, 3, Duration::from_secs(5)));
    assert_eq!((RestartRules::default(), default.backoff), (default, None));
    explore(0..50, |sim| {
        let (system, log, sibling_log) = (sim.system("s"), Log::new(), Log::new());
        let sibling = system.spawn("sibling", TestActor::props(&sibling_log)).unwrap();
        // A child of an actor is supervised in the same way.
        let parent = TestActor::spawn(&system, "parent");
        let spawned = Log::new();
        let (child_log, children) = (log.clone(), spawned.clone());
        parent.tell(Job::act(move |cx| children.push(cx.spawn("child", TestActor::props(&child_log)).unwrap()))).unwrap();
        sim.settle();
        let child: ActorRef<Job> = spawned.take().remove(0);
        assert_eq!(child.path().to_string(), "/user/parent/child");
        child.tell(Job::Fail("no")).unwrap();
        sim.settle();
        assert_eq!(log.take(), ["started 0", "restarting 0", "stopped 0 failed", "started 1"]);
        assert_eq!(sibling_log.take(), ["started 0"]);
        assert!(sibling.exit().is_none() && parent.exit().is_none());
    });
}

/// Fails at these times, in seconds. Returns the number of restarts and the exit.
fn restarts(sim: &Sim, at: &[u64]) -> (usize, Option<Exit>) {
    let (system, log) = (sim.system("s"), Log::new());
    let actor = system.supervisor("supervisor", OneForOne::new()).unwrap().spawn("actor", TestActor::props(&log)).unwrap();
    let start = sim.now();
    for second in at {
        sim.advance((start + Duration::from_secs(*second)) - sim.now());
        drop(actor.tell(Job::Fail("no")));
        sim.settle();
    }
    (log.take().iter().filter(|entry| entry.starts_with("restarting")).count(), actor.exit())
}

#[test]
fn s3_fourth_failure_within_five_seconds_exceeds_the_limit() {
    explore(0..20, |sim| {
        assert_eq!(restarts(sim, &[0, 1, 2]), (3, None));
        let (restarted, exit) = restarts(sim, &[0, 1, 2, 4]);
        assert_eq!(restarted, 3);
        assert_eq!(exit.unwrap().failure().unwrap().restarts(), 3);
        // The window slides: never four failures within five seconds.
        assert_eq!(restarts(sim, &[0, 1, 2, 6, 7, 8, 12]), (7, None));
        assert_eq!(restarts(sim, &[0, 4, 5, 6, 8]).0, 4, "the first has left the window, the later four exceed the limit");
    });
}

#[test]
fn s3_supervisor_over_its_limit_stops_its_children_and_escalates() {
    explore(0..100, |sim| {
        let (system, ends, unhandled) = (sim.system("s"), Log::new(), Log::new());
        let (ended, up) = (ends.clone(), unhandled.clone());
        system.on_event(move |event| match event {
            Event::Ended { path, exit } => ended.note(format!("{path} {}", exit.to_string().split(':').next().unwrap())),
            Event::Unhandled(failure) => up.push(failure.clone()),
            _ => {}
        });
        let outside = TestActor::spawn(&system, "outside");
        let supervisor = system.supervisor("supervisor", OneForOne::new().restart_limit(0, Duration::from_secs(5))).unwrap();
        let names = ["a", "b", "c", "d"];
        let actors = names.map(|name| supervisor.spawn(name, TestActor::props(&Log::new())).unwrap());
        sim.settle();
        actors[1].tell(Job::Fail("no")).unwrap();
        let exit = sim.run(supervisor.any().exited());
        assert_eq!(exit.failure().unwrap().origin().to_string(), "/user/supervisor/b", "the failure is not lost");
        let ends = ends.take();
        let order: Vec<_> = ends.iter().filter(|end| !end.contains("/b ")).map(String::as_str).collect();
        assert_eq!(
            order,
            [
                "/user/supervisor/d stopped",
                "/user/supervisor/c stopped",
                "/user/supervisor/a stopped",
                "/user/supervisor failed"
            ]
        );
        assert_eq!(ends.iter().filter(|end| *end == "/user/supervisor/b failed").count(), 1);
        let unhandled = unhandled.take();
        assert_eq!((unhandled.len(), system.failures()), (1, 1));
        assert_eq!(unhandled[0].reason().to_string(), "no");
        assert!(outside.exit().is_none(), "the rest keeps running");
    });
}

#[test]
fn a2_message_that_exceeds_the_limit_is_counted() {
    explore(0..20, |sim| {
        let system = sim.system("s");
        let dead_letters = dead_letters(&system);
        let policies: [fn(Props<_>) -> Props<_>; 3] =
            [|props| props, |props| props.retry(5), |props| props.dead_letter_failed()];
        for (at, policy) in policies.into_iter().enumerate() {
            let supervisor = system
                .supervisor(&format!("supervisor-{at}"), OneForOne::new().restart_limit(1, Duration::from_secs(1)))
                .unwrap();
            let actor = supervisor.spawn("failing", policy(always_failing())).unwrap();
            (0..5).for_each(|id| actor.tell((id, 99)).unwrap());
            assert!(matches!(sim.run(actor.exited()), Exit::Failed(_)));
            let counts = actor.counts();
            assert_eq!((counts.accepted, counts.is_settled()), (5, true));
            let dead = dead_letters.take().into_iter().filter(|(_, reason)| *reason == DeadLetterReason::Failed).count();
            assert_eq!((counts.failed, dead), [(2, 3), (0, 5), (0, 3)][at]);
        }
    });
}

/// An actor that always fails.
type AlwaysFailing = pleach::actor::FnActor<(), (u32, u32), BoxError, fn(&mut (), (u32, u32)) -> Result<(), BoxError>>;

fn always_failing() -> Props<AlwaysFailing> {
    Props::from_fn(|| (), |(), _| Err("always".into()))
}
