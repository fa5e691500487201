//! T2, E1, E3 and E7: causes and failures that user code creates, annotates and escalates.

use crate::common::{Job, Log, TestActor, failures, quiet};
use pleach::BoxError;
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::supervise::{AnnotatedError, CustomEscalationSink, EscalationSink, METADATA_MAX, ParentSink, Reason};
use std::fmt;

#[derive(Debug, PartialEq)]
struct QuotaExceeded {
    tenant: u32,
}

impl fmt::Display for QuotaExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "quota of tenant {} exceeded", self.tenant)
    }
}

impl std::error::Error for QuotaExceeded {}

/// Handles every failure and logs its path and origin.
fn logging_sink(log: &Log<String>) -> impl EscalationSink {
    let log = log.clone();
    CustomEscalationSink::new(move |failure: FailureInfo| {
        log.note(format!("{} from {}", failure.path(), failure.origin()));
        Ok(())
    })
}

#[test]
fn t2_cause_keeps_the_error_of_the_cancel_on_all_levels() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let scope = system.scope("outer").unwrap();
    let child = scope.scope("inner").unwrap();
    let actor = child.spawn("actor", TestActor::props(&Log::new())).unwrap();
    sim.settle();
    scope.cancel(Cause::from_error(QuotaExceeded { tenant: 7 }));
    sim.settle();
    let Some(Exit::Cancelled(cause)) = actor.exit() else { panic!("{:?}", actor.exit()) };
    assert_eq!(cause.error::<QuotaExceeded>(), Some(&QuotaExceeded { tenant: 7 }));
    assert_eq!(cause.error::<fmt::Error>(), None);
    assert_eq!(cause.to_string(), "quota of tenant 7 exceeded");
    assert_eq!(cause, child.token().cause().unwrap(), "the same cause on all levels");
    let boxed: BoxError = Box::new(QuotaExceeded { tenant: 8 });
    assert_eq!(Cause::from(boxed).error(), Some(&QuotaExceeded { tenant: 8 }));
}

#[test]
fn e3_annotated_error_becomes_metadata_and_a_plain_error() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let log = failures(&system);
    let actor = TestActor::spawn(&system, "a");
    let work = Job::Await(Box::new(|_| {
        Box::pin(async {
            let inner =
                AnnotatedError::new(QuotaExceeded { tenant: 7 }).with_metadata("endpoint", "a").with_metadata("try", "1");
            Err(AnnotatedError::new(inner).with_metadata("endpoint", "b").into())
        })
    }));
    actor.tell(work).unwrap();
    sim.settle();
    let failure = log.take().remove(0);
    assert_eq!(failure.error::<QuotaExceeded>(), Some(&QuotaExceeded { tenant: 7 }), "the wrapper is removed");
    assert_eq!(failure.metadata()["endpoint"], "b", "the outer pair wins");
    assert_eq!(failure.metadata()["try"], "1");
}

#[test]
fn e3_annotations_end_with_their_incarnation() {
    quiet();
    let sim = Sim::new(1);
    let system = sim.system("s");
    let log = failures(&system);
    let actor = TestActor::spawn(&system, "a");
    actor.tell(Job::act(|cx| assert!(cx.annotate("tenant", "7") && cx.annotate("tenant", "8")))).unwrap();
    actor.tell(Job::Panic(crate::common::INJECTED)).unwrap();
    actor.tell(Job::Fail("no")).unwrap();
    sim.settle();
    let metadata: Vec<_> = log.take().iter().map(|failure| failure.metadata().get("tenant").cloned()).collect();
    assert_eq!(metadata, [Some("8".to_string()), None], "none after a restart");
}

#[test]
fn e3_annotations_are_bounded() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let log = failures(&system);
    let actor = TestActor::spawn(&system, "a");
    actor
        .tell(Job::act(|cx| {
            assert!((0..METADATA_MAX).all(|n| cx.annotate(n.to_string(), "x")));
            assert!(!cx.annotate("one more", "x"));
            assert!(cx.annotate("0", "replaced"));
        }))
        .unwrap();
    actor.tell(Job::Fail("no")).unwrap();
    sim.settle();
    let failure = log.take().remove(0);
    assert_eq!((failure.metadata().len(), failure.metadata()["0"].as_str()), (METADATA_MAX, "replaced"));
}

#[test]
fn e3_notify_failure_is_recorded_and_the_actor_continues() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let signals = Log::new();
    let parent = {
        let signals = signals.clone();
        let props = TestActor::props(&Log::new()).map_signals(move |signal| {
            if let Signal::Failure(failure) = signal {
                signals.note(failure.to_string());
            }
            None
        });
        system.spawn("parent", props).unwrap()
    };
    let log = Log::new();
    let child_log = log.clone();
    parent
        .tell(Job::act(move |cx| {
            let child = cx.spawn("child", TestActor::props(&child_log)).unwrap();
            child
                .tell(Job::act(|cx| {
                    let failure = cx.notify_failure(QuotaExceeded { tenant: 7 });
                    assert_eq!(failure.origin(), &cx.path());
                }))
                .unwrap();
            child.tell(Job::Note(1)).unwrap();
        }))
        .unwrap();
    sim.settle();
    assert_eq!(log.take(), ["started 0", "1"], "it does not restart or stop");
    assert_eq!(signals.take(), ["/user/parent/child failed: quota of tenant 7 exceeded"]);
    assert_eq!((system.failures(), system.unhandled()), (1, 0));
}

#[test]
fn e3_escalate_reaches_the_strategy_above_the_supervisor() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let outer = system.supervisor("outer", OneForOne::new()).unwrap();
    let inner = outer.supervisor("inner", OneForOne::new()).unwrap();
    let (log, sibling_log) = (Log::new(), Log::new());
    let actor = inner.spawn("a", TestActor::props(&log)).unwrap();
    inner.spawn("b", TestActor::props(&sibling_log)).unwrap();
    actor.tell(Job::act(|cx| drop(cx.escalate("the whole branch is broken")))).unwrap();
    sim.settle();
    assert_eq!(log.take(), ["started 0", "stopped 0 stopped", "started 1"], "the supervisor restarted with all its children");
    assert_eq!(sibling_log.take(), ["started 0", "stopped 0 stopped", "started 1"]);
    assert_eq!((system.failures(), system.unhandled()), (1, 0));
}

#[test]
fn e3_escalate_at_the_top_is_an_unhandled_failure() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let log = Log::new();
    let actor = system.spawn("a", TestActor::props(&log)).unwrap();
    actor.tell(Job::act(|cx| drop(cx.escalate("beyond me")))).unwrap();
    sim.settle();
    assert_eq!(system.take_escalations().failures[0].origin(), &actor.path());
    assert_eq!(log.take(), ["started 0"], "it continues: no parent decides");
}

#[test]
fn e7_sinks_and_root_handler_can_be_set_at_run_time() {
    let sim = Sim::new(1);
    let system = sim.system("s");

    let supervisor = system.supervisor("up", crate::escalate()).unwrap();
    let fail = || {
        let child = supervisor.spawn_unnamed(TestActor::props(&Log::new())).unwrap();
        child.tell(Job::Fail("no")).unwrap();
        sim.settle();
    };
    let (default, own) = (Log::new(), Log::new());
    system.root().set_escalation_sink(logging_sink(&default));
    fail();
    assert_eq!((default.take().len(), own.take().len()), (1, 0));
    supervisor.set_escalation_sink(logging_sink(&own));
    fail();
    assert_eq!((default.take().len(), own.take().len()), (0, 1), "its own sink comes first");
    supervisor.set_escalation_sink(ParentSink);
    system.root().set_escalation_sink(ParentSink);
    let handled = Log::new();
    let handler = handled.clone();
    system.root().set_on_root_failure(move |failure, _| handler.note(failure.path().to_string()));
    fail();
    assert_eq!(handled.take(), ["/user"], "escalated by the supervisor, which has ended");
    assert!(system.take_escalations().failures.is_empty(), "the handler has handled it");
}

#[test]
fn e1_sinks_and_strategies_can_be_tested_with_a_built_failure() {
    let failure = FailureInfo::of("/user/shop".parse().unwrap(), Reason::Error("no change".into()))
        .with_incarnation(3)
        .with_restarts(2, Duration::from_secs(5))
        .with_message("Pay")
        .with_metadata("shop", "4");
    assert_eq!((failure.incarnation(), failure.restarts(), failure.message()), (3, 2, Some("Pay")));
    assert_eq!(failure.to_string(), "/user/shop failed: no change (handling Pay)");
    let log = Log::new();
    logging_sink(&log).handle(failure).unwrap();
    assert_eq!(log.take(), ["/user/shop from /user/shop"]);
}

#[test]
fn a13_root_context_spawns_unnamed_actors() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let actor = system.root().spawn_unnamed(TestActor::props(&Log::new())).unwrap();
    sim.settle();
    assert!(actor.path().to_string().starts_with("/user/"), "{}", actor.path());
}
