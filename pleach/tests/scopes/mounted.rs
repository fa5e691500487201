//! T4, T6, T7 and E3: a system mounted in a scope of another system.

use crate::common::{Job, Log, TestActor};
use pleach::actor::Refusal;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};

/// An outer system with a scope, and an inner system with one actor mounted in that scope.
fn mounted(sim: &Sim, log: &Log<String>) -> (ActorSystem, Scope, pleach::system::Mounted, ActorRef<Job>) {
    let (outer, inner) = (sim.system("outer"), sim.system("inner"));
    let actor = inner.spawn("a", TestActor::props(log)).unwrap();
    let scope = outer.scope("jobs").unwrap();
    let mounted = inner.mount(&scope).unwrap();
    sim.settle();
    (outer, scope, mounted, actor)
}

#[test]
fn t4_mounted_system_shuts_down_with_its_scope() {
    explore(0..50, |sim| {
        let log = Log::new();
        let (outer, scope, mounted, actor) = mounted(sim, &log);
        assert_eq!(mounted.any().path().to_string(), "/user/jobs/inner");
        actor.tell(Job::Note(1)).unwrap();
        scope.close();
        sim.run(scope.wait_all()).unwrap();
        assert_eq!(log.take(), ["started 0", "1", "stopped 0 closed"], "queued messages are handled first");
        assert!(actor.exit().is_some() && mounted.any().exit().is_some());
        sim.run(outer.shutdown(Duration::from_secs(1))).unwrap();
    });
}

#[test]
fn t7_mounted_system_is_cancelled_with_the_cause_of_its_scope() {
    explore(0..50, |sim| {
        let (_outer, scope, mounted, actor) = mounted(sim, &Log::new());
        scope.cancel("enough");
        sim.settle();
        assert_eq!(actor.exit(), Some(Exit::Cancelled("enough".into())));
        assert_eq!(mounted.any().exit(), Some(Exit::Cancelled("enough".into())));
    });
}

#[test]
fn t7_mounted_system_that_does_not_end_is_cancelled_after_the_grace() {
    let sim = Sim::new(1);
    let (_outer, scope, mounted, actor) = mounted(&sim, &Log::new());
    actor.tell(Job::work(|_| std::future::pending())).unwrap();
    sim.settle();
    scope.stop();
    sim.advance(Duration::from_secs(5));
    assert!(matches!(actor.exit(), Some(Exit::Cancelled(Cause::DeadlineExceeded))), "{:?}", actor.exit());
    assert_eq!(mounted.any().exit(), Some(Exit::Stopped));
}

#[test]
fn e3_failure_at_the_root_of_a_mounted_system_escalates_outside() {
    let sim = Sim::new(1);
    let (outer, inner) = (sim.system("outer"), sim.system("inner"));
    let scope = outer.scope("jobs").unwrap();
    let up = inner.supervisor("up", OneForOne::new().always(SupervisorDirective::Escalate)).unwrap();
    let actor = up.spawn("a", TestActor::props(&Log::new())).unwrap();
    let mounted = inner.mount(&scope).unwrap();
    sim.settle();
    actor.tell(Job::Fail("failed")).unwrap();
    sim.settle();
    assert_eq!(mounted.root().unhandled(), 1, "counted in the inner system");
    assert!(mounted.root().take_escalations().failures.is_empty(), "handled by the outer system");
    let failure = outer.take_escalations().failures.remove(0);
    assert_eq!(failure.origin().to_string(), "/user/jobs/inner");
    let inside = failure.error::<FailureInfo>().expect("the failure of the inner system");
    assert_eq!(inside.origin(), &actor.path());
}

#[test]
fn e3_root_handler_of_a_mounted_system_comes_first() {
    let sim = Sim::new(1);
    let (outer, inner) = (sim.system("outer"), sim.system("inner"));
    let scope = outer.scope("jobs").unwrap();
    let handled = Log::new();
    let handler = handled.clone();
    inner.root().set_on_root_failure(move |failure, _| handler.note(failure.origin()));
    let up = inner.supervisor("up", OneForOne::new().always(SupervisorDirective::Escalate)).unwrap();
    let actor = up.spawn("a", TestActor::props(&Log::new())).unwrap();
    let _mounted = inner.mount(&scope).unwrap();
    actor.tell(Job::Fail("failed")).unwrap();
    sim.settle();
    assert_eq!((handled.take(), outer.unhandled()), (vec!["/user/up/a".to_string()], 0));
}

#[test]
fn t4_mounted_system_that_ends_leaves_its_scope() {
    let sim = Sim::new(1);
    let (_outer, scope, mounted, _actor) = mounted(&sim, &Log::new());
    mounted.root().begin_shutdown();
    sim.settle();
    assert_eq!(mounted.any().exit(), Some(Exit::Stopped));
    assert_eq!(scope.children().len(), 0);
    assert_eq!(scope.any().exit(), None, "the scope continues");
}

#[test]
fn t6_refused_mount_returns_the_system() {
    let sim = Sim::new(1);
    let (outer, inner) = (sim.system("outer"), sim.system("inner"));
    let actor = inner.spawn("a", TestActor::props(&Log::new())).unwrap();
    let scope = outer.scope("jobs").unwrap();
    scope.stop();
    let refused = inner.mount(&scope).unwrap_err();
    assert!(matches!(refused.reason, Refusal::ShuttingDown { .. }));
    assert!(refused.to_string().starts_with("system inner was not mounted: "), "{refused}");
    sim.settle();
    assert_eq!(actor.exit(), None, "the system is still running");
    drop(refused);
    sim.settle();
    assert_eq!(actor.exit(), Some(Exit::Cancelled(Cause::Dropped)));
}
