//! A8, A11 and S1 to S3: what follows a failure, for the actor, its mailbox and the message that failed.

use crate::common::{Doer, Job, Log, dead_letters, failures, quiet};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{BoxError, DeadLetterReason, EscalationStage, INTENSITY_DEFAULT, Reach, Restarts, SupervisorStrategy};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[test]
fn a8_an_error_takes_the_same_road_as_a_panic() {
    quiet();
    explore(0..50, |sim| {
        let lives = [Job::Fail("injected"), Job::Panic("injected")].map(|fault| {
            let (system, log) = (sim.system("s"), Log::new());
            let records = failures(&system);
            let actor = system.spawn("doer", Doer::props(&log)).unwrap();
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
        assert_eq!(lives[0], lives[1]);
        assert_eq!(lives[0].0, ["started 0", "restarting 0", "stopped 0 failed", "started 1", "1", "stopped 1 closed"]);
        assert_eq!(lives[0].1, Counts { accepted: 2, handled: 1, failed: 1, dead_lettered: 0 });
    });
}

#[test]
fn a11_address_and_mailbox_survive_a_restart() {
    explore(0..100, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let actor = system.spawn("doer", Doer::props(&log)).unwrap();
        let (before, id) = (actor.clone(), actor.id());
        actor.tell(Job::Fail("no")).unwrap();
        (0..500).for_each(|n| actor.tell(Job::Note(n)).unwrap());
        sim.settle();
        let seen = log.take();
        assert_eq!(seen[..4], ["started 0", "restarting 0", "stopped 0 failed", "started 1"]);
        assert!(seen[4..].iter().enumerate().all(|(at, seen)| *seen == at.to_string()), "all of it, in order");
        assert_eq!(seen.len(), 504);
        before.tell(Job::Note(1)).expect("the address from before the restart is as good");
        assert_eq!((before.id(), before.path().to_string().as_str()), (id, "/user/doer"));
        assert_eq!(before, system.root().lookup(&actor.path()).unwrap());
        sim.settle();
        assert_eq!(log.take(), ["1"]);
    });
}

/// An actor that fails on a message as often as the message says, and writes down each attempt.
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
fn a11_skip_is_the_default_and_records_the_message_as_failed() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let letters = dead_letters(&system);
        let actor = system.spawn("failing", failing(&log)).unwrap();
        actor.tell((7, 1)).unwrap();
        actor.tell((8, 0)).unwrap();
        sim.settle();
        assert_eq!(log.take(), [(7, 0), (8, 1)]);
        assert_eq!(actor.counts(), Counts { accepted: 2, handled: 1, failed: 1, dead_lettered: 0 });
        assert_eq!((system.failures(), letters.len()), (1, 0));
    });
}

#[test]
fn a11_retry_handles_it_again_first_thing_and_at_most_that_often() {
    explore(0..50, |sim| {
        for (faults, handled) in [(2, 1), (3, 0)] {
            let (system, log) = (sim.system("s"), Log::new());
            let crew = system.supervisor("crew", OneForOne::new().intensity(9, Duration::from_secs(1))).unwrap();
            let actor = crew.spawn("failing", failing(&log).retry(2)).unwrap();
            actor.tell((7, faults)).unwrap();
            actor.tell((8, 0)).unwrap();
            sim.settle();
            let seen = log.take();
            assert_eq!(seen[..3], [(7, 0), (7, 1), (7, 2)], "before anything else");
            assert_eq!((seen[3].0, seen.len()), (8, 4));
            assert_eq!(actor.counts(), Counts { accepted: 2, handled: 1 + handled, failed: 1 - handled, dead_lettered: 0 });
            assert_eq!(system.failures() as u64, 3 - handled, "each attempt that failed is on record");
        }
    });
}

#[test]
fn a11_retry_counts_for_each_message_anew() {
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let crew = system.supervisor("crew", OneForOne::new().intensity(99, Duration::from_secs(1))).unwrap();
    let actor = crew.spawn("failing", failing(&log).retry(1)).unwrap();
    (0..10).for_each(|id| actor.tell((id, 1)).unwrap());
    sim.settle();
    assert_eq!(actor.counts(), Counts { accepted: 10, handled: 10, failed: 0, dead_lettered: 0 });
    assert_eq!(log.len(), 20);
}

#[test]
fn a11_dead_letter_makes_a_dead_letter_of_it() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let letters = dead_letters(&system);
        let crew = system.supervisor("crew", OneForOne::new().intensity(9, Duration::from_secs(1))).unwrap();
        let plain = crew.spawn("plain", failing(&log).dead_letter_failed()).unwrap();
        plain.tell((7, 1)).unwrap();
        sim.settle();
        assert_eq!(letters.take(), [("7".to_string(), DeadLetterReason::HandlerFailed)]);
        assert_eq!(plain.counts(), Counts { accepted: 1, handled: 0, failed: 0, dead_lettered: 1 });
        let tried = crew.spawn("tried", failing(&log).retry(1).dead_letter_failed()).unwrap();
        tried.tell((8, 9)).unwrap();
        sim.settle();
        assert_eq!(log.take(), [(7, 0), (8, 0), (8, 1)]);
        assert_eq!(letters.take(), [("8".to_string(), DeadLetterReason::HandlerFailed)]);
        assert_eq!(system.failures(), 3);
    });
}

/// A message that panics when it is copied, or when a copy of it is dropped that no handler has disarmed.
struct Fragile {
    id: u32,
    in_copy: bool,
    in_drop: bool,
}

impl Clone for Fragile {
    fn clone(&self) -> Self {
        assert!(!self.in_copy, "injected into a copy");
        Self { ..*self }
    }
}

impl Drop for Fragile {
    fn drop(&mut self) {
        assert!(!self.in_drop, "injected into a drop");
    }
}

fn careful(log: &Log<u32>) -> Props<impl Actor<Msg = Fragile>> {
    let log = log.clone();
    Props::from_fn(
        || (),
        move |(): &mut (), mut message: Fragile| -> Result<(), BoxError> {
            message.in_drop = false;
            log.push(message.id);
            if message.id >= 100 { Err("no".into()) } else { Ok(()) }
        },
    )
}

#[test]
fn a11_a_message_that_cannot_be_copied_fails_alone() {
    quiet();
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let actor = system.spawn("careful", careful(&log).retry(1)).unwrap();
    for (id, in_copy) in [(1, false), (2, true), (3, false)] {
        actor.tell(Fragile { id, in_copy, in_drop: false }).unwrap();
    }
    sim.settle();
    assert_eq!(log.take(), [1, 3], "and no other message in its place");
    assert_eq!(actor.counts(), Counts { accepted: 3, handled: 2, failed: 1, dead_lettered: 0 });
    assert_eq!(system.failures(), 1);
}

#[test]
fn s8_a_panic_in_the_drop_of_a_copy_is_on_record_and_harms_nobody() {
    quiet();
    let sim = Sim::new(0);
    let (system, log) = (sim.system("s"), Log::new());
    let crew = system.supervisor("crew", OneForOne::new().intensity(9, Duration::from_secs(1))).unwrap();
    let actor = crew.spawn("careful", careful(&log).retry(1)).unwrap();
    for (id, in_drop) in [(100, true), (1, true), (2, false)] {
        actor.tell(Fragile { id, in_copy: false, in_drop }).unwrap();
    }
    actor.close();
    assert_eq!(sim.run(actor.exited()), Exit::Closed);
    assert_eq!(log.take(), [100, 100, 1, 2]);
    assert_eq!(actor.counts(), Counts { accepted: 3, handled: 2, failed: 1, dead_lettered: 0 });
    assert_eq!(system.failures(), 4, "two attempts that failed, and two copies whose drop panicked");
}

#[test]
fn s1_each_directive_does_what_it_says() {
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
            let crew = system.supervisor("crew", OneForOne::new().always(directive)).unwrap();
            let actor = crew.spawn("doer", Doer::props(&log)).unwrap();
            actor.tell(Job::Fail("no")).unwrap();
            actor.tell(Job::Note(1)).unwrap();
            sim.settle();
            let ends: &[&str] = match directive {
                Resume => &["started 0", "1"],
                Restart => &["started 0", "restarting 0", "stopped 0 failed", "started 1", "1"],
                _ => &["started 0", "stopped 0 failed"],
            };
            assert_eq!(log.take(), ends);
            assert_eq!(system.failures(), 1, "one failure is one record, wherever it goes");
            let escalated = directive == Escalate;
            assert_eq!((unhandled.len() == 1, crew.any().exit().is_some()), (escalated, escalated));
            for failure in unhandled.take() {
                assert_eq!(failure.origin().to_string(), "/user/crew/doer");
                assert_eq!(
                    (failure.path().to_string().as_str(), failure.stage()),
                    ("/user", EscalationStage::Escalated { hops: 2 })
                );
            }
        }
    });
}

#[test]
fn s1_one_for_one_leaves_the_siblings_alone_and_is_the_default_everywhere() {
    assert_eq!(INTENSITY_DEFAULT, (3, Duration::from_secs(5)));
    let default = OneForOne::default().restarts();
    assert_eq!((default.reach, default.restarts_max, default.window), (Reach::One, 3, Duration::from_secs(5)));
    assert_eq!((Restarts::default(), default.backoff), (default, None));
    explore(0..50, |sim| {
        let (system, log, calm) = (sim.system("s"), Log::new(), Log::new());
        let sibling = system.spawn("sibling", Doer::props(&calm)).unwrap();
        // A child of an actor is supervised in the same way.
        let parent = system.spawn("parent", Doer::props(&Log::new())).unwrap();
        let born = Log::new();
        let (child_log, children) = (log.clone(), born.clone());
        parent.tell(Job::act(move |cx| children.push(cx.spawn("child", Doer::props(&child_log)).unwrap()))).unwrap();
        sim.settle();
        let child: ActorRef<Job> = born.take().remove(0);
        assert_eq!(child.path().to_string(), "/user/parent/child");
        child.tell(Job::Fail("no")).unwrap();
        sim.settle();
        assert_eq!(log.take(), ["started 0", "restarting 0", "stopped 0 failed", "started 1"]);
        assert_eq!(calm.take(), ["started 0"]);
        assert!(sibling.exit().is_none() && parent.exit().is_none());
    });
}

/// Fails at these moments, in seconds; how many of the failures were answered with a restart.
fn restarts(sim: &Sim, at: &[u64]) -> (usize, Option<Exit>) {
    let (system, log) = (sim.system("s"), Log::new());
    let actor = system.supervisor("crew", OneForOne::new()).unwrap().spawn("doer", Doer::props(&log)).unwrap();
    let begun = sim.now();
    for second in at {
        sim.advance((begun + Duration::from_secs(*second)) - sim.now());
        drop(actor.tell(Job::Fail("no")));
        sim.settle();
    }
    (log.take().iter().filter(|entry| entry.starts_with("restarting")).count(), actor.exit())
}

#[test]
fn s3_the_fourth_failure_within_any_five_seconds_exceeds_the_intensity() {
    explore(0..20, |sim| {
        assert_eq!(restarts(sim, &[0, 1, 2]), (3, None));
        let (restarted, exit) = restarts(sim, &[0, 1, 2, 4]);
        assert_eq!(restarted, 3);
        assert_eq!(exit.unwrap().failure().unwrap().restarts(), 3);
        // The window slides: never four within five seconds.
        assert_eq!(restarts(sim, &[0, 1, 2, 6, 7, 8, 12]), (7, None));
        assert_eq!(restarts(sim, &[0, 4, 5, 6, 8]).0, 4, "the first has left the window, the fourth since has not");
    });
}

#[test]
fn s3_an_exceeded_supervisor_stops_its_children_in_reverse_order_and_escalates() {
    explore(0..100, |sim| {
        let (system, ends, unhandled) = (sim.system("s"), Log::new(), Log::new());
        let (ended, up) = (ends.clone(), unhandled.clone());
        system.on_event(move |event| match event {
            Event::Ended { path, exit } => ended.note(format!("{path} {}", exit.to_string().split(':').next().unwrap())),
            Event::Unhandled(failure) => up.push(failure.clone()),
            _ => {}
        });
        let apart = system.spawn("apart", Doer::props(&Log::new())).unwrap();
        let crew = system.supervisor("crew", OneForOne::new().intensity(0, Duration::from_secs(5))).unwrap();
        let names = ["a", "b", "c", "d"];
        let actors = names.map(|name| crew.spawn(name, Doer::props(&Log::new())).unwrap());
        sim.settle();
        actors[1].tell(Job::Fail("no")).unwrap();
        let exit = sim.run(crew.any().exited());
        assert_eq!(exit.failure().unwrap().origin().to_string(), "/user/crew/b", "the failure is not lost");
        let ends = ends.take();
        let order: Vec<_> = ends.iter().filter(|end| !end.contains("/b ")).map(String::as_str).collect();
        assert_eq!(order, ["/user/crew/d stopped", "/user/crew/c stopped", "/user/crew/a stopped", "/user/crew failed"]);
        assert_eq!(ends.iter().filter(|end| *end == "/user/crew/b failed").count(), 1);
        let unhandled = unhandled.take();
        assert_eq!((unhandled.len(), system.failures()), (1, 1));
        assert_eq!(unhandled[0].reason().to_string(), "no");
        assert!(apart.exit().is_none(), "the rest goes on");
    });
}

#[test]
fn a2_the_message_that_exceeds_the_budget_is_accounted_for_whatever_the_policy() {
    explore(0..20, |sim| {
        let system = sim.system("s");
        let letters = dead_letters(&system);
        let policies: [fn(Props<_>) -> Props<_>; 3] =
            [|props| props, |props| props.retry(5), |props| props.dead_letter_failed()];
        for (at, policy) in policies.into_iter().enumerate() {
            let crew = system.supervisor(&format!("crew-{at}"), OneForOne::new().intensity(1, Duration::from_secs(1))).unwrap();
            let actor = crew.spawn("failing", policy(hopeless())).unwrap();
            (0..5).for_each(|id| actor.tell((id, 99)).unwrap());
            assert!(matches!(sim.run(actor.exited()), Exit::Failed(_)));
            let counts = actor.counts();
            assert_eq!((counts.accepted, counts.is_settled()), (5, true));
            let buried = letters.take().into_iter().filter(|(_, reason)| *reason == DeadLetterReason::Failed).count();
            assert_eq!((counts.failed, buried), [(2, 3), (0, 5), (0, 3)][at]);
        }
    });
}

/// Always fails.
type Hopeless = pleach::FnActor<(), (u32, u32), BoxError, fn(&mut (), (u32, u32)) -> Result<(), BoxError>>;

fn hopeless() -> Props<Hopeless> {
    Props::from_fn(|| (), |(), _| Err("always".into()))
}
