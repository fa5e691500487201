//! E1, E2, E7 and S8: sinks of escalated failures.

use crate::common::{INJECTED, Job, Log, TestActor, quiet};
use crate::escalate;
use crate::escalation::{describe, fail, logging_sink};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::supervise::{
    CompositeEscalationSink, CustomEscalationSink, EscalationSink, ParentSink, REFUSED_KEPT_MAX, RootEscalationSink,
    SINK_ATTEMPTS_MAX,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[test]
fn e2_sink_is_inherited_until_another_is_set() {
    explore(0..20, |sim| {
        let (all, outer_log, own) = (Log::new(), Log::new(), Log::new());
        let builder = ActorSystem::builder("s").runtime(sim.runtime());
        let system = builder.escalate_to(logging_sink(&all)).build().unwrap();
        let plain = system.supervisor("plain", escalate()).unwrap();
        let outer = system.supervisor("outer", escalate().escalate_to(logging_sink(&outer_log))).unwrap();
        let inheriting = outer.supervisor("inheriting", escalate()).unwrap();
        let other = outer.supervisor("other", escalate().escalate_to(logging_sink(&own))).unwrap();
        let parents = outer.supervisor("parents", escalate().escalate_to(ParentSink)).unwrap();
        let root = outer.supervisor("root", escalate().escalate_to(RootEscalationSink)).unwrap();
        let log = |supervisor: &Supervisor| {
            let child = fail(sim, supervisor);
            assert!(matches!(child.exit(), Some(Exit::Failed(_))));
            [&all, &outer_log, &own].map(Log::take).concat()
        };
        assert_eq!(log(&plain).len(), 1, "the sink of the system");
        assert!(
            log(&inheriting)[0].starts_with("/user/outer/inheriting from /user/outer/inheriting/"),
            "the sink of the parent"
        );
        assert!(log(&other)[0].starts_with("/user/outer/other from"), "its own sink");
        assert_eq!((log(&root).len(), system.unhandled()), (0, 1), "the sink of the root");
        assert_eq!(
            [&plain, &inheriting, &other, &root].map(|one| one.any().exit()),
            [const { None }; 4],
            "none of them failed"
        );
        // To the parent: the supervisor fails, outer decides and passes the failure to its own
        // sink.
        assert!(log(&parents)[0].starts_with("/user/outer from /user/outer/parents/"));
        assert!(parents.any().exit().is_some() && outer.any().exit().is_none());
    });
}

#[test]
fn e2_sink_of_an_actor_is_set_on_its_props() {
    let (sim, log) = (Sim::new(1), Log::new());
    let system = sim.system("s");
    let parent =
        system.spawn("parent", TestActor::props(&Log::new()).supervise(escalate()).escalate_to(logging_sink(&log))).unwrap();
    parent
        .tell(Job::act(|cx| {
            let child = cx.spawn("child", TestActor::props(&Log::new())).unwrap();
            child.tell(Job::Fail("no")).unwrap();
        }))
        .unwrap();
    sim.settle();
    assert_eq!(log.take(), ["/user/parent from /user/parent/child 1 up"]);
    assert_eq!((parent.exit(), system.unhandled()), (None, 0));
}

#[test]
fn e2_s3_supervisor_over_its_limit_ends_even_if_the_sink_accepts() {
    explore(0..20, |sim| {
        let (system, log, hooks) = (sim.system("s"), Log::new(), Log::new());
        let strategy = OneForOne::new().restart_limit(0, Duration::from_secs(1)).escalate_to(logging_sink(&log));
        let supervisor = system.supervisor("supervisor", strategy).unwrap();
        let sibling = supervisor.spawn("sibling", TestActor::props(&hooks)).unwrap();
        sim.settle();
        fail(sim, &supervisor);
        assert!(matches!(supervisor.any().exit(), Some(Exit::Failed(_))) && sibling.exit() == Some(Exit::Stopped));
        assert_eq!((log.len(), system.unhandled()), (1, 0));
    });
}

#[test]
fn e2_e3_parent_guardian_sink_equals_no_sink() {
    explore(0..20, |sim| {
        let log = Log::new();
        let builder = ActorSystem::builder("s").runtime(sim.runtime());
        let system = builder.escalate_to(CustomEscalationSink::new(|_| panic!("wrong sink"))).build().unwrap();
        let outer = system.supervisor("outer", OneForOne::new()).unwrap();
        let no_restarts = || OneForOne::new().restart_limit(0, Duration::from_secs(1));
        let both = CompositeEscalationSink::new().and(logging_sink(&log)).and(ParentSink);
        let named = outer.supervisor("named", no_restarts().escalate_to(ParentSink)).unwrap();
        let composite = outer.supervisor("composite", no_restarts().escalate_to(both)).unwrap();
        for supervisor in [&named, &composite] {
            let child = fail(sim, supervisor);
            assert_eq!(
                (supervisor.any().exit(), child.exit()),
                (None, None),
                "the parent restarted it although it exceeded its limit"
            );
        }
        assert_eq!((log.len(), system.failures(), system.unhandled()), (1, 2, 0));
    });
}

struct NoTarget;

impl pleach::supervise::SupervisorStrategy for NoTarget {
    fn decide(&self, _failure: &FailureInfo) -> SupervisorDirective {
        SupervisorDirective::Escalate
    }

    fn escalation_target(&self) -> Option<Arc<dyn EscalationSink>> {
        std::panic::panic_any(INJECTED)
    }
}

#[test]
fn s8_panic_in_escalation_target_is_recorded_and_the_parent_decides() {
    quiet();
    let sim = Sim::new(1);
    let system = sim.system("s");
    let supervisor = system.supervisor("supervisor", NoTarget).unwrap();
    fail(&sim, &supervisor);
    assert_eq!((system.failures(), system.unhandled()), (2, 1));
}

#[test]
fn e2_composite_retries_only_the_sinks_that_refused() {
    quiet();
    let (sim, first, last, attempts) = (Sim::new(1), Log::new(), Log::new(), Arc::new(AtomicUsize::new(0)));
    let system = sim.system("s");
    let seen = Arc::clone(&attempts);
    let unsteady = CustomEscalationSink::new(move |failure| match seen.fetch_add(1, Relaxed) {
        0 => Err(failure),
        1 => std::panic::panic_any(INJECTED),
        _ => Ok(()),
    });
    let all = CompositeEscalationSink::new().and(logging_sink(&first)).and(unsteady).and(logging_sink(&last)).and(ParentSink);
    let supervisor = system.supervisor("supervisor", escalate().escalate_to(all)).unwrap();
    fail(&sim, &supervisor);
    assert!(supervisor.any().exit().is_some(), "the parent was one of the sinks");
    sim.advance(Duration::from_secs(1));
    assert_eq!((first.take().len(), last.take().len(), attempts.load(Relaxed)), (1, 1, 3));
    assert_eq!((system.failures(), system.unhandled()), (2, 1), "the panic of a sink is recorded too");
    assert!(CompositeEscalationSink::default().handle(system.take_escalations().failures.remove(0)).is_ok());
}

/// A sink that refuses the first `times` failures, then accepts.
fn refusing_sink(times: usize, log: &Log<String>) -> (impl EscalationSink, Arc<AtomicUsize>) {
    let (log, attempts) = (log.clone(), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&attempts);
    let sink = CustomEscalationSink::new(move |failure: FailureInfo| {
        if seen.fetch_add(1, Relaxed) < times {
            return Err(failure);
        }
        log.note(failure.reason());
        Ok(())
    });
    (sink, attempts)
}

#[test]
fn e1_refused_failures_are_retried_in_order() {
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let (sink, attempts) = refusing_sink(3, &log);
        let supervisor = system.supervisor("supervisor", escalate().escalate_to(sink)).unwrap();
        for why in ["first", "second", "third"] {
            let child = supervisor.spawn_unnamed(TestActor::props(&Log::new())).unwrap();
            child.tell(Job::Fail(why)).unwrap();
            sim.settle();
            assert!(child.exit().is_some(), "the child does not wait for the sink");
        }
        assert_eq!((attempts.load(Relaxed), log.len()), (1, 0), "later failures wait behind the refused one");
        sim.advance(Duration::from_millis(30));
        let after_two = attempts.load(Relaxed);
        assert_eq!((after_two, log.len()), (3, 0), "the delays grow: 10 ms, then 20 ms");
        sim.advance(Duration::from_secs(1));
        assert_eq!((log.take(), attempts.load(Relaxed)), (vec!["first".into(), "second".into(), "third".into()], 6));
        assert_eq!(system.unhandled(), 0);
        assert_eq!(sim.tasks_alive(), 0, "no task is left");
    });
}

#[test]
fn e1_failure_refused_too_often_goes_to_the_root() {
    let (sim, log) = (Sim::new(1), Log::new());
    let system = sim.system("s");
    let (sink, attempts) = refusing_sink(usize::MAX, &log);
    let supervisor = system.supervisor("supervisor", escalate().escalate_to(sink)).unwrap();
    fail(&sim, &supervisor);
    sim.advance(Duration::from_secs(60));
    assert_eq!((attempts.load(Relaxed), system.unhandled()), (SINK_ATTEMPTS_MAX as usize, 1));
    let failure = system.take_escalations().failures.remove(0);
    assert_eq!(failure.metadata()["undeliverable"], format!("refused {SINK_ATTEMPTS_MAX} times by its sink"));
    // A flood of refused failures is bounded too, and none is lost.
    for _ in 0..REFUSED_KEPT_MAX + 10 {
        fail(&sim, &supervisor);
    }
    assert_eq!(system.unhandled(), 11);
    sim.advance(Duration::from_secs(3_600));
    assert_eq!(system.unhandled(), 1 + REFUSED_KEPT_MAX + 10);
    assert_eq!(sim.tasks_alive(), 0);
}

#[test]
fn e1_waiting_failures_go_to_the_root_at_the_end() {
    for kill in [false, true] {
        explore(0..20, |sim| {
            let (system, log) = (sim.system("s"), Log::new());
            let (sink, _) = refusing_sink(usize::MAX, &log);
            let supervisor = system.supervisor("supervisor", escalate().escalate_to(sink)).unwrap();
            (0..3).for_each(|_| drop(fail(sim, &supervisor)));
            if kill {
                system.cancel(Cause::Cancelled);
                sim.settle();
            } else {
                sim.run(system.shutdown(Duration::from_secs(1))).unwrap();
                sim.settle();
            }
            assert_eq!((system.unhandled(), sim.tasks_alive()), (3, 0));
        });
    }
}

#[test]
fn e1_tree_without_a_system_retries_too() {
    let (sim, log) = (Sim::new(1), Log::new());
    let scope = sim.scope();
    let (sink, attempts) = refusing_sink(2, &log);
    let supervisor = scope.supervisor("supervisor", escalate().escalate_to(sink)).unwrap();
    fail(&sim, &supervisor);
    sim.advance(Duration::from_secs(1));
    assert_eq!((log.len(), attempts.load(Relaxed)), (1, 3));
}

#[test]
fn e7_failure_refused_by_the_root_sink_stays_unhandled() {
    let (sim, log) = (Sim::new(1), Log::new());
    let handled = log.clone();
    let selective = CustomEscalationSink::new(move |failure: FailureInfo| match failure.reason().to_string() == "no" {
        true => {
            handled.note(describe(&failure));
            Ok(())
        }
        false => Err(failure),
    });
    let system = ActorSystem::builder("s").runtime(sim.runtime()).root_sink(selective).build().unwrap();
    for why in ["no", "other"] {
        let supervisor = system.supervisor(why, escalate()).unwrap();
        supervisor.spawn("child", TestActor::props(&Log::new())).unwrap().tell(Job::Fail(why)).unwrap();
        sim.settle();
    }
    assert_eq!((log.take(), system.unhandled()), (vec!["/user from /user/no/child 2 up".into()], 2));
    assert_eq!(system.take_escalations().failures.len(), 1);
}
