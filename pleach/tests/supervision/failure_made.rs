//! T2, E1, E3, E7: causes and failures that user code makes, annotates and hands up itself.

use crate::common::{Doer, Job, Log, failures, quiet};
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::{AnnotatedError, BoxError, CustomEscalationSink, EscalationSink, METADATA_MAX, ParentGuardianSink, Reason};
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

/// Notes the path and origin of every failure it takes.
fn taker(log: &Log<String>) -> impl EscalationSink {
    let log = log.clone();
    CustomEscalationSink::new(move |failure: FailureInfo| {
        log.note(format!("{} from {}", failure.path(), failure.origin()));
        Ok(())
    })
}

#[test]
fn t2_cause_gives_the_error_of_the_cancel_back_all_the_way_down() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let scope = system.scope("outer").unwrap();
    let child = scope.scope("inner").unwrap();
    let actor = child.actor("actor", Doer::props(&Log::new())).unwrap();
    sim.settle();
    scope.cancel(Cause::from_error(QuotaExceeded { tenant: 7 }));
    sim.settle();
    let Some(Exit::Cancelled(cause)) = actor.exit() else { panic!("{:?}", actor.exit()) };
    assert_eq!(cause.error::<QuotaExceeded>(), Some(&QuotaExceeded { tenant: 7 }));
    assert_eq!(cause.error::<fmt::Error>(), None);
    assert_eq!(cause.to_string(), "quota of tenant 7 exceeded");
    assert_eq!(cause, child.token().cause().unwrap(), "the very same cause everywhere");
    let boxed: BoxError = Box::new(QuotaExceeded { tenant: 8 });
    assert_eq!(Cause::from(boxed).error(), Some(&QuotaExceeded { tenant: 8 }));
}

#[test]
fn e3_annotated_error_becomes_metadata_and_the_plain_error() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let log = failures(&system);
    let actor = system.spawn("a", Doer::props(&Log::new())).unwrap();
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
    assert_eq!(failure.error::<QuotaExceeded>(), Some(&QuotaExceeded { tenant: 7 }), "the wrapper is gone");
    assert_eq!(failure.metadata()["endpoint"], "b", "the outer pair wins");
    assert_eq!(failure.metadata()["try"], "1");
}

#[test]
fn e3_annotations_last_for_their_incarnation_and_hold_for_panics() {
    quiet();
    let sim = Sim::new(1);
    let system = sim.system("s");
    let log = failures(&system);
    let actor = system.spawn("a", Doer::props(&Log::new())).unwrap();
    actor.tell(Job::act(|cx| assert!(cx.annotate("tenant", "7") && cx.annotate("tenant", "8")))).unwrap();
    actor.tell(Job::Panic(crate::common::INJECTED)).unwrap();
    actor.tell(Job::Fail("no")).unwrap();
    sim.settle();
    let metadata: Vec<_> = log.take().iter().map(|failure| failure.metadata().get("tenant").cloned()).collect();
    assert_eq!(metadata, [Some("8".to_string()), None], "after a restart there are none");
}

#[test]
fn e3_annotations_are_bounded() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let log = failures(&system);
    let actor = system.spawn("a", Doer::props(&Log::new())).unwrap();
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
fn e3_notify_failure_is_recorded_and_heard_while_the_actor_goes_on() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let heard = Log::new();
    let parent = {
        let heard = heard.clone();
        let props = Doer::props(&Log::new()).map_system(move |signal| {
            if let Signal::Failure(failure) = signal {
                heard.note(failure.to_string());
            }
            None
        });
        system.spawn("parent", props).unwrap()
    };
    let log = Log::new();
    let child_log = log.clone();
    parent
        .tell(Job::act(move |cx| {
            let child = cx.spawn("child", Doer::props(&child_log)).unwrap();
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
    assert_eq!(log.take(), ["started 0", "1"], "it neither restarts nor stops");
    assert_eq!(heard.take(), ["/user/parent/child failed: quota of tenant 7 exceeded"]);
    assert_eq!((system.failures(), system.unhandled()), (1, 0));
}

#[test]
fn e3_escalate_reaches_the_strategy_above_the_supervisor() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let outer = system.supervisor("outer", OneForOne::new()).unwrap();
    let inner = outer.supervisor("inner", OneForOne::new()).unwrap();
    let (log, beside) = (Log::new(), Log::new());
    let actor = inner.spawn("a", Doer::props(&log)).unwrap();
    inner.spawn("b", Doer::props(&beside)).unwrap();
    actor.tell(Job::act(|cx| drop(cx.escalate("the whole branch is broken")))).unwrap();
    sim.settle();
    assert_eq!(log.take(), ["started 0", "stopped 0 stopped", "started 1"], "the supervisor restarted with all its children");
    assert_eq!(beside.take(), ["started 0", "stopped 0 stopped", "started 1"]);
    assert_eq!((system.failures(), system.unhandled()), (1, 0));
}

#[test]
fn e3_escalate_at_the_top_is_an_unhandled_failure() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let log = Log::new();
    let actor = system.spawn("a", Doer::props(&log)).unwrap();
    actor.tell(Job::act(|cx| drop(cx.escalate("beyond me")))).unwrap();
    sim.settle();
    assert_eq!(system.take_escalations().failures[0].origin(), &actor.path());
    assert_eq!(log.take(), ["started 0"], "it goes on: nobody above decided otherwise");
}

#[test]
fn e7_sinks_and_root_handler_can_be_set_at_run_time() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let escalates = || OneForOne::new().always(SupervisorDirective::Escalate);
    let supervisor = system.supervisor("up", escalates()).unwrap();
    let fail = || {
        let child = supervisor.spawn_unnamed(Doer::props(&Log::new())).unwrap();
        child.tell(Job::Fail("no")).unwrap();
        sim.settle();
    };
    let (default, own) = (Log::new(), Log::new());
    system.root().set_escalation_sink(taker(&default));
    fail();
    assert_eq!((default.take().len(), own.take().len()), (1, 0));
    supervisor.set_escalation_sink(taker(&own));
    fail();
    assert_eq!((default.take().len(), own.take().len()), (0, 1), "its own comes first");
    supervisor.set_escalation_sink(ParentGuardianSink);
    system.root().set_escalation_sink(ParentGuardianSink);
    let handled = Log::new();
    let handler = handled.clone();
    system.root().set_on_root_failure(move |failure, _| handler.note(failure.path().to_string()));
    fail();
    assert_eq!(handled.take(), ["/user"], "handed up by the supervisor, which has ended by it");
    assert!(system.take_escalations().failures.is_empty(), "what the handler was given is handled");
}

#[test]
fn e1_sink_and_strategy_can_be_tested_with_a_failure_of_ones_own() {
    let failure = FailureInfo::of("/user/till".parse().unwrap(), Reason::Error("no change".into()))
        .with_incarnation(3)
        .with_restarts(2, Duration::from_secs(5))
        .with_message("Pay")
        .with_metadata("shop", "4");
    assert_eq!((failure.incarnation(), failure.restarts(), failure.message()), (3, 2, Some("Pay")));
    assert_eq!(failure.to_string(), "/user/till failed: no change (handling Pay)");
    let log = Log::new();
    taker(&log).handle(failure).unwrap();
    assert_eq!(log.take(), ["/user/till from /user/till"]);
}

#[test]
fn a13_root_context_spawns_without_a_name() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let actor = system.root().spawn_unnamed(Doer::props(&Log::new())).unwrap();
    sim.settle();
    assert!(actor.path().to_string().starts_with("/user/"), "{}", actor.path());
}
