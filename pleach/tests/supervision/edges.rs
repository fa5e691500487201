//! S1, S2, S3, S12, E1 and E2: edge cases of supervision and escalation.

use crate::common::{Gate, INJECTED, Job, Log, TestActor, failures, quiet};
use crate::{escalate, ms};
use pleach::BoxError;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::supervise::{
    CompositeEscalationSink, CustomEscalationSink, EscalationSink, ExponentialBackoff, OneForAll, ParentSink, RestartPolicy,
    RestartRules, SupervisorStrategy,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

fn logging_sink(log: &Log<String>) -> impl EscalationSink {
    let log = log.clone();
    CustomEscalationSink::new(move |failure: FailureInfo| {
        log.note(failure.path());
        Ok(())
    })
}

/// Records every decision from now on: path, directive and number of restarts.
fn decisions(system: &ActorSystem) -> Log<(String, SupervisorDirective, u32)> {
    let log = Log::new();
    let seen = log.clone();
    system.on_event(move |event| {
        if let Event::Decided { failure, directive, .. } = event {
            seen.push((failure.path().to_string(), *directive, failure.restarts()));
        }
    });
    log
}

#[test]
fn s3_failure_during_a_group_restart_counts_no_further_restart() {
    explore(0..50, |sim| {
        let (system, gate) = (sim.system("s"), Gate::new());
        let supervisor = system.supervisor("supervisor", OneForAll::new().restart_limit(1, Duration::from_secs(60))).unwrap();
        let [a, b] = ["a", "b"].map(|name| supervisor.spawn(name, TestActor::props(&Log::new())).unwrap());
        let at_gate = gate.clone();
        b.tell(Job::work(async move |_| {
            at_gate.pass().await;
            Err("failed while stopping".into())
        }))
        .unwrap();
        sim.settle();
        let decided = decisions(&system);
        a.tell(Job::Fail("first")).unwrap();
        sim.settle();
        // The restart waits for b, which handles a message.
        gate.open();
        sim.settle();
        assert_eq!(decided.take(), [("/user/supervisor/a".to_string(), SupervisorDirective::Restart, 1)]);
        assert_eq!((system.failures(), a.exit(), b.exit()), (2, None, None));
        for child in [a, b] {
            assert_eq!(sim.run(child.ask(|reply| Job::Answer(reply, 7))).unwrap(), 7);
        }
    });
}

#[test]
fn s1_actor_without_state_is_restarted_instead_of_resumed() {
    quiet();
    explore(0..20, |sim| {
        let (system, created) = (sim.system("s"), Arc::new(AtomicU32::new(0)));
        let decided = decisions(&system);
        let supervisor = system.supervisor("supervisor", OneForOne::new().always(SupervisorDirective::Resume)).unwrap();
        let count = Arc::clone(&created);
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
        let child = supervisor.spawn("a", props).unwrap();
        assert_eq!(sim.run(child.ask(|reply| reply)).unwrap(), 1);
        assert_eq!(decided.take(), [("/user/supervisor/a".to_string(), SupervisorDirective::Restart, 1)]);
    });
}

/// Panics in `restarts`, or in a hook if it has rules.
struct PanickingStrategy {
    has_rules: bool,
}

impl SupervisorStrategy for PanickingStrategy {
    fn decide(&self, _failure: &FailureInfo) -> SupervisorDirective {
        SupervisorDirective::Restart
    }

    fn restarts(&self) -> RestartRules {
        if self.has_rules { RestartRules::default() } else { std::panic::panic_any(INJECTED) }
    }

    fn after_restart(&self, _child: &AnyRef) {
        std::panic::panic_any(INJECTED)
    }
}

#[test]
fn s1_panic_in_the_rules_or_hooks_of_a_strategy_is_recorded() {
    quiet();
    explore(0..20, |sim| {
        for has_rules in [false, true] {
            let system = sim.system("s");
            let supervisor = system.supervisor("supervisor", PanickingStrategy { has_rules }).unwrap();
            let child = supervisor.spawn("a", TestActor::props(&Log::new())).unwrap();
            child.tell(Job::Fail("no")).unwrap();
            sim.settle();
            assert_eq!((child.exit().is_none(), system.failures()), (has_rules, 2), "without rules the failure escalates");
        }
    });
}

#[test]
fn s2_permanent_child_stopped_during_backoff_starts_again() {
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let backoff = ExponentialBackoff::new(ms(100), ms(1_000)).jitter(0.0);
        let supervisor = system.supervisor("supervisor", backoff).unwrap();
        let child = supervisor.spawn("a", TestActor::props(&log).restart(RestartPolicy::Permanent)).unwrap();
        child.tell(Job::Fail("no")).unwrap();
        sim.settle();
        child.stop();
        sim.advance(ms(1_000));
        assert_eq!((child.exit(), system.failures()), (None, 2), "an unrequested end is a failure");
        assert_eq!(log.take().pop().as_deref(), Some("started 2"));
        // A stop by its supervisor is final, also during the backoff.
        child.tell(Job::Fail("no")).unwrap();
        sim.settle();
        assert!(matches!(sim.run(supervisor.stop_child("a").unwrap().exited()), Exit::Failed(_)));
    });
}

#[test]
fn s1_each_child_has_its_own_backoff() {
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let backoff = ExponentialBackoff::new(ms(100), ms(10_000)).jitter(0.0);
        let supervisor = system.supervisor("supervisor", backoff).unwrap();
        let often = supervisor.spawn("often", TestActor::props(&Log::new())).unwrap();
        for _ in 0..4 {
            often.tell(Job::Fail("again")).unwrap();
            sim.advance(ms(2_000));
        }
        let once = supervisor.spawn("once", TestActor::props(&log)).unwrap();
        once.tell(Job::Fail("for the first time")).unwrap();
        sim.advance(ms(99));
        assert_eq!(log.take(), ["started 0", "restarting 0", "stopped 0 failed"]);
        sim.advance(ms(1));
        assert_eq!(log.take(), ["started 1"]);
    });
}

#[test]
fn e2_sink_of_the_props_goes_before_the_sink_of_the_strategy() {
    let (sim, own, of_strategy) = (Sim::new(1), Log::new(), Log::new());
    let system = sim.system("s");
    let props = TestActor::props(&Log::new())
        .supervise(escalate().escalate_to(logging_sink(&of_strategy)))
        .escalate_to(logging_sink(&own));
    let parent = system.spawn("parent", props).unwrap();
    parent
        .tell(Job::act(|cx| {
            let child = cx.spawn("child", TestActor::props(&Log::new())).unwrap();
            child.tell(Job::Fail("no")).unwrap();
        }))
        .unwrap();
    sim.settle();
    assert_eq!((own.take(), of_strategy.len()), (vec!["/user/parent".to_string()], 0));
}

/// On its second attempt the inner sink passes the failure on, and the outer sink refuses it at
/// first.
#[test]
fn e1_failure_refused_during_a_retry_is_not_lost() {
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let (first, second) = (AtomicU32::new(0), AtomicU32::new(0));
        let log_sink = logging_sink(&log);
        let outer_sink = CustomEscalationSink::new(move |failure: FailureInfo| match second.fetch_add(1, Relaxed) {
            0 => Err(failure),
            _ => log_sink.handle(failure),
        });
        let inner_sink = CustomEscalationSink::new(move |failure: FailureInfo| match first.fetch_add(1, Relaxed) {
            0 => Err(failure),
            _ => ParentSink.handle(failure),
        });
        let outer = system.supervisor("outer", escalate().escalate_to(outer_sink)).unwrap();
        let inner = outer.supervisor("inner", escalate().escalate_to(inner_sink)).unwrap();
        let child = inner.spawn("child", TestActor::props(&Log::new())).unwrap();
        child.tell(Job::Fail("no")).unwrap();
        sim.advance(Duration::from_secs(10));
        assert_eq!((log.take(), system.unhandled()), (vec!["/user/outer".to_string()], 0));
    });
}

#[test]
fn e2_composite_remembers_a_bounded_number_of_partial_deliveries() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let seen = failures(&system);
    let supervisor = system.supervisor("supervisor", pleach::supervise::AlwaysRestart).unwrap();
    let child = supervisor.spawn("a", TestActor::props(&Log::new())).unwrap();
    (0..257).for_each(|_| child.tell(Job::Fail("again")).unwrap());
    sim.settle();
    let (failures, delivered) = (seen.take(), Log::new());
    let composite = CompositeEscalationSink::new().and(logging_sink(&delivered)).and(CustomEscalationSink::new(Err));
    for failure in &failures {
        assert!(composite.handle(failure.clone()).is_err());
    }
    assert_eq!(delivered.take().len(), 257);
    assert!(composite.handle(failures[256].clone()).is_err());
    assert_eq!(delivered.len(), 0, "it has handled this failure and does not get it again");
    assert!(composite.handle(failures[0].clone()).is_err());
    assert_eq!(delivered.len(), 1, "the delivery of this failure was forgotten");
}

#[test]
fn s12_name_of_a_stopping_child_is_taken_until_it_has_ended() {
    /// Waits at the gate in its `stopped` hook.
    struct SlowStop(Gate);

    impl Actor for SlowStop {
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
        let supervisor = system.supervisor("supervisor", OneForOne::new()).unwrap();
        let props = |gate: &Gate| {
            let gate = gate.clone();
            Props::new(move || SlowStop(gate.clone()))
        };
        supervisor.spawn("a", props(&gate)).unwrap();
        sim.settle();
        let stopping = supervisor.stop_child("a").unwrap();
        sim.settle();
        let refused = supervisor.spawn("a", props(&gate)).unwrap_err();
        assert!(matches!(refused.reason, pleach::actor::Refusal::NameTaken { .. }), "{refused}");
        gate.open();
        assert_eq!(sim.run(stopping.exited()), Exit::Stopped);
        supervisor.spawn("a", refused.into_props()).unwrap();
        assert_eq!(supervisor.children().len(), 1);
    });
}
