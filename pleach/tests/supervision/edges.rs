//! S1, S2, S3, E1, E2: what supervision and escalation do in the cases that nobody thinks of first.

use crate::common::{Doer, Gate, INJECTED, Job, Log, failures, quiet};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{
    BoxError, CompositeEscalationSink, CustomEscalationSink, EscalationSink, ExponentialBackoff, OneForAll, ParentGuardianSink,
    RestartPolicy, Restarts, SupervisorStrategy,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const MS: fn(u64) -> Duration = Duration::from_millis;

fn escalate() -> OneForOne {
    OneForOne::new().always(SupervisorDirective::Escalate)
}

fn noting(log: &Log<String>) -> impl EscalationSink {
    let log = log.clone();
    CustomEscalationSink::new(move |failure: FailureInfo| {
        log.note(failure.path());
        Ok(())
    })
}

/// What was decided from now on, and about whom.
fn decisions(system: &ActorSystem) -> Log<(String, SupervisorDirective, u32)> {
    let log = Log::new();
    let seen = log.clone();
    system.on_event(move |event| {
        if let Event::Decided { failure, directive } = event {
            seen.push((failure.path().to_string(), *directive, failure.restarts()));
        }
    });
    log
}

#[test]
fn s3_whoever_fails_while_its_group_is_brought_down_counts_no_further_restart() {
    explore(0..50, |sim| {
        let (system, gate) = (sim.system("s"), Gate::new());
        let crew = system.supervisor("crew", OneForAll::new().intensity(1, Duration::from_secs(60))).unwrap();
        let [a, b] = ["a", "b"].map(|name| crew.spawn(name, Doer::props(&Log::new())).unwrap());
        let at_gate = gate.clone();
        b.tell(Job::work(async move |_| {
            at_gate.pass().await;
            Err("failed on its way down".into())
        }))
        .unwrap();
        sim.settle();
        let decided = decisions(&system);
        a.tell(Job::Fail("first")).unwrap();
        sim.settle();
        // The group waits for b, which is at its message.
        gate.open();
        sim.settle();
        assert_eq!(decided.take(), [("/user/crew/a".to_string(), SupervisorDirective::Restart, 1)]);
        assert_eq!((system.failures(), a.exit(), b.exit()), (2, None, None));
        for child in [a, b] {
            assert_eq!(sim.run(child.ask(|reply| Job::Answer(reply, 7))).unwrap(), 7);
        }
    });
}

#[test]
fn s1_where_there_is_no_state_to_resume_it_restarts() {
    quiet();
    explore(0..20, |sim| {
        let (system, made) = (sim.system("s"), Arc::new(AtomicU32::new(0)));
        let decided = decisions(&system);
        let crew = system.supervisor("crew", OneForOne::new().always(SupervisorDirective::Resume)).unwrap();
        let count = Arc::clone(&made);
        let props = Props::from_fn(
            move || match count.fetch_add(1, Relaxed) {
                0 => std::panic::panic_any(INJECTED),
                nth => nth,
            },
            |state: &mut u32, reply: Reply<u32>| {
                reply.send(*state);
                Ok::<(), BoxError>(())
            },
        );
        let child = crew.spawn("a", props).unwrap();
        assert_eq!(sim.run(child.ask(|reply| reply)).unwrap(), 1);
        assert_eq!(decided.take(), [("/user/crew/a".to_string(), SupervisorDirective::Restart, 1)]);
    });
}

/// Panics when it is asked for its rules, or else in a hook.
struct Bad {
    has_rules: bool,
}

impl SupervisorStrategy for Bad {
    fn decide(&self, _failure: &FailureInfo) -> SupervisorDirective {
        SupervisorDirective::Restart
    }

    fn restarts(&self) -> Restarts {
        if self.has_rules { Restarts::default() } else { std::panic::panic_any(INJECTED) }
    }

    fn after_restart(&self, _child: &pleach::AnyRef) {
        std::panic::panic_any(INJECTED)
    }
}

#[test]
fn s1_a_strategy_that_panics_over_its_rules_or_in_a_hook_is_on_record() {
    quiet();
    explore(0..20, |sim| {
        for has_rules in [false, true] {
            let system = sim.system("s");
            let crew = system.supervisor("crew", Bad { has_rules }).unwrap();
            let child = crew.spawn("a", Doer::props(&Log::new())).unwrap();
            child.tell(Job::Fail("no")).unwrap();
            sim.settle();
            assert_eq!((child.exit().is_none(), system.failures()), (has_rules, 2), "without rules it is handed up");
        }
    });
}

#[test]
fn s2_a_permanent_child_that_is_stopped_while_it_waits_starts_again_all_the_same() {
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let slowly = ExponentialBackoff::new(MS(100), MS(1_000)).jitter(0.0);
        let crew = system.supervisor("crew", slowly).unwrap();
        let child = crew.spawn("a", Doer::props(&log).restart(RestartPolicy::Permanent)).unwrap();
        child.tell(Job::Fail("no")).unwrap();
        sim.settle();
        child.stop();
        sim.advance(MS(1_000));
        assert_eq!((child.exit(), system.failures()), (None, 2), "that it ended unasked is a failure");
        assert_eq!(log.take().pop().as_deref(), Some("started 2"));
        // Its supervisor's word is for good, also while it waits.
        child.tell(Job::Fail("no")).unwrap();
        sim.settle();
        assert!(matches!(sim.run(crew.stop_child("a").unwrap().exited()), Exit::Failed(_)));
    });
}

#[test]
fn s1_each_child_has_a_backoff_of_its_own() {
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let slowly = ExponentialBackoff::new(MS(100), MS(10_000)).jitter(0.0);
        let crew = system.supervisor("crew", slowly).unwrap();
        let often = crew.spawn("often", Doer::props(&Log::new())).unwrap();
        for _ in 0..4 {
            often.tell(Job::Fail("again")).unwrap();
            sim.advance(MS(2_000));
        }
        let once = crew.spawn("once", Doer::props(&log)).unwrap();
        once.tell(Job::Fail("for the first time")).unwrap();
        sim.advance(MS(99));
        assert_eq!(log.take(), ["started 0", "restarting 0", "stopped 0 failed"]);
        sim.advance(MS(1));
        assert_eq!(log.take(), ["started 1"]);
    });
}

#[test]
fn e2_what_is_given_on_props_goes_before_what_the_strategy_names() {
    let (sim, own, of_strategy) = (Sim::new(1), Log::new(), Log::new());
    let system = sim.system("s");
    let props = Doer::props(&Log::new()).supervise(escalate().escalate_to(noting(&of_strategy))).escalate_to(noting(&own));
    let parent = system.spawn("parent", props).unwrap();
    parent
        .tell(Job::act(|cx| {
            let child = cx.spawn("child", Doer::props(&Log::new())).unwrap();
            child.tell(Job::Fail("no")).unwrap();
        }))
        .unwrap();
    sim.settle();
    assert_eq!((own.take(), of_strategy.len()), (vec!["/user/parent".to_string()], 0));
}

/// A sink that is tried again hands the failure on, and whoever is next refuses it at first: it comes to wait while others are tried.
#[test]
fn e1_what_is_refused_while_others_are_tried_again_is_not_lost() {
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let (first, second) = (AtomicU32::new(0), AtomicU32::new(0));
        let takes = noting(&log);
        let outer_sink = CustomEscalationSink::new(move |failure: FailureInfo| match second.fetch_add(1, Relaxed) {
            0 => Err(failure),
            _ => takes.handle(failure),
        });
        let inner_sink = CustomEscalationSink::new(move |failure: FailureInfo| match first.fetch_add(1, Relaxed) {
            0 => Err(failure),
            _ => ParentGuardianSink.handle(failure),
        });
        let outer = system.supervisor("outer", escalate().escalate_to(outer_sink)).unwrap();
        let inner = outer.supervisor("inner", escalate().escalate_to(inner_sink)).unwrap();
        let child = inner.spawn("child", Doer::props(&Log::new())).unwrap();
        child.tell(Job::Fail("no")).unwrap();
        sim.advance(Duration::from_secs(10));
        assert_eq!((log.take(), system.unhandled()), (vec!["/user/outer".to_string()], 0));
    });
}

#[test]
fn e2_a_composite_remembers_only_so_many_that_some_have_taken_and_others_not() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let seen = failures(&system);
    let crew = system.supervisor("crew", pleach::AlwaysRestart).unwrap();
    let child = crew.spawn("a", Doer::props(&Log::new())).unwrap();
    (0..257).for_each(|_| child.tell(Job::Fail("again")).unwrap());
    sim.settle();
    let (failures, took) = (seen.take(), Log::new());
    let composite = CompositeEscalationSink::new().and(noting(&took)).and(CustomEscalationSink::new(Err));
    for failure in &failures {
        assert!(composite.handle(failure.clone()).is_err());
    }
    assert_eq!(took.take().len(), 257);
    assert!(composite.handle(failures[256].clone()).is_err());
    assert_eq!(took.len(), 0, "it has taken this one, and does not get it twice");
    assert!(composite.handle(failures[0].clone()).is_err());
    assert_eq!(took.len(), 1, "that it took this one was forgotten");
}

#[test]
fn s12_the_name_of_a_child_that_is_stopping_is_taken_until_it_has_left() {
    /// Takes its time to stop.
    struct Slow(Gate);

    impl Actor for Slow {
        type Msg = ();
        type Error = BoxError;

        async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), BoxError> {
            Ok(())
        }

        async fn stopped(&mut self, _exit: &Exit, _cx: &mut Context<Self>) -> Result<(), BoxError> {
            self.0.pass().await;
            Ok(())
        }
    }

    explore(0..20, |sim| {
        let (system, gate) = (sim.system("s"), Gate::new());
        let crew = system.supervisor("crew", OneForOne::new()).unwrap();
        let props = |gate: &Gate| {
            let gate = gate.clone();
            Props::new(move || Slow(gate.clone()))
        };
        crew.spawn("a", props(&gate)).unwrap();
        sim.settle();
        let stopping = crew.stop_child("a").unwrap();
        sim.settle();
        let refused = crew.spawn("a", props(&gate)).unwrap_err();
        assert!(matches!(refused.why, pleach::Refusal::NameTaken { .. }), "{refused}");
        gate.open();
        assert_eq!(sim.run(stopping.exited()), Exit::Stopped);
        crew.spawn("a", refused.into_props()).unwrap();
        assert_eq!(crew.children().len(), 1);
    });
}
