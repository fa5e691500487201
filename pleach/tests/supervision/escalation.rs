//! E3, S7 and S11: the way of an escalated failure.

use crate::common::{Job, Log, TestActor, failures};
use crate::escalate;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::supervise::{CustomEscalationSink, EscalationSink, EscalationStage};

/// Handles every failure and logs its path, its origin and the number of hops.
pub fn logging_sink(log: &Log<String>) -> impl EscalationSink {
    let log = log.clone();
    CustomEscalationSink::new(move |failure: FailureInfo| {
        log.note(describe(&failure));
        Ok(())
    })
}

pub fn describe(failure: &FailureInfo) -> String {
    let hops = match failure.stage() {
        EscalationStage::Escalated { hops } => hops,
        _ => 0,
    };
    format!("{} from {} {hops} up", failure.path(), failure.origin())
}

pub fn fail(sim: &Sim, supervisor: &Supervisor) -> ActorRef<Job> {
    let child = supervisor.spawn_unnamed(TestActor::props(&Log::new())).unwrap();
    child.tell(Job::Fail("no")).unwrap();
    sim.settle();
    child
}

#[test]
fn e3_failure_that_every_parent_escalates_stops_at_the_root() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let outer = system.supervisor("outer", escalate()).unwrap();
        let inner = outer.supervisor("inner", escalate()).unwrap();
        let other = TestActor::spawn(&system, "other");
        let sibling = inner.spawn("sibling", TestActor::props(&Log::new())).unwrap();
        let child = inner.spawn("child", TestActor::props(&Log::new())).unwrap();
        child.tell(Job::Fail("no")).unwrap();
        sim.settle();
        for ended in [child.any(), inner.any(), outer.any()] {
            assert!(matches!(ended.exit(), Some(Exit::Failed(failure)) if failure.origin() == &child.path()), "{ended:?}");
        }
        assert_eq!((sibling.exit(), other.exit()), (Some(Exit::Stopped), None), "the rest of the system keeps running");
        assert_eq!((system.failures(), system.unhandled()), (1, 1));
        let failure = system.take_escalations().failures.remove(0);
        assert_eq!(describe(&failure), "/user from /user/outer/inner/child 3 up");
    });
}

#[test]
fn e3_failure_can_be_seen_from_each_parent_above() {
    explore(0..20, |sim| {
        let system = sim.system("s");
        let records = failures(&system);
        let supervisor = system.supervisor("supervisor", OneForOne::new()).unwrap();
        let child = fail(sim, &supervisor);
        let group = system.group::<()>("group").build().unwrap();
        group.try_go(async { Err("no") }).unwrap();
        sim.settle();
        let [failure, task_failure] = &records.take()[..] else { panic!("two failures") };
        let up = failure.escalate_to_parent().unwrap();
        assert_eq!((up.actor(), up.path(), up.origin()), (supervisor.any().id(), &supervisor.any().path(), &child.path()));
        assert_eq!((up.incarnation(), up.reason().to_string()), (failure.incarnation(), "no".to_string()));
        assert_eq!((failure.path(), failure.stage()), (&child.path(), EscalationStage::Initial), "the original is unchanged");
        let above: Vec<FailureInfo> = std::iter::successors(Some(up), FailureInfo::escalate_to_parent).collect();
        let origin = child.path();
        let expected = ["/user/supervisor", "/user", "/"]
            .into_iter()
            .zip(1..)
            .map(|(path, hops)| format!("{path} from {origin} {hops} up"));
        assert_eq!(above.iter().map(describe).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        let up = task_failure.escalate_to_parent().unwrap();
        assert_eq!((up.path().to_string().as_str(), up.origin()), ("/user/group", task_failure.path()));
        drop((system, supervisor, group));
        sim.settle();
    });
}

#[test]
fn e3_strategy_of_the_grandparent_decides_again() {
    use SupervisorDirective::{Restart, Resume, Stop};
    for (directive, child_lives, inner_lives) in [(Restart, true, true), (Stop, false, false), (Resume, false, true)] {
        explore(0..50, |sim| {
            let (system, log, decided) = (sim.system("s"), Log::new(), Log::new());
            let seen = decided.clone();
            let strategy = move |failure: &FailureInfo| {
                seen.note(describe(failure));
                directive
            };
            let outer = system.supervisor("outer", strategy).unwrap();
            let inner = outer.supervisor("inner", escalate()).unwrap();
            let sibling = inner.spawn("sibling", TestActor::props(&log)).unwrap();
            let child = inner.spawn("child", TestActor::props(&Log::new())).unwrap();
            child.tell(Job::Fail("no")).unwrap();
            sim.settle();
            assert_eq!(
                decided.take(),
                ["/user/outer/inner from /user/outer/inner/child 1 up"],
                "as seen by the parent, with the origin"
            );
            assert_eq!(child.exit().is_none(), child_lives, "{directive:?}");
            assert_eq!((inner.any().exit().is_none(), sibling.exit().is_none()), (inner_lives, inner_lives), "{directive:?}");
            let expected: &[&str] = match directive {
                Restart => &["started 0", "stopped 0 stopped", "started 1"],
                Stop => &["started 0", "stopped 0 stopped"],
                _ => &["started 0"],
            };
            assert_eq!((log.take(), system.unhandled()), (expected.iter().map(ToString::to_string).collect(), 0));
        });
    }
}

#[test]
fn e3_parent_actor_restarts_with_its_subtree() {
    explore(0..50, |sim| {
        let (system, log, child_log) = (sim.system("s"), Log::new(), Log::new());
        let outer = system.supervisor("outer", OneForOne::new()).unwrap();
        let parent = outer.spawn("parent", TestActor::props(&log).supervise(escalate())).unwrap();
        let (children, child_entries) = (Log::new(), child_log.clone());
        let spawned = children.clone();
        parent.tell(Job::act(move |cx| spawned.push(cx.spawn("child", TestActor::props(&child_entries)).unwrap()))).unwrap();
        sim.settle();
        let child: ActorRef<Job> = children.take().remove(0);
        child.tell(Job::Fail("no")).unwrap();
        parent.tell(Job::Note(1)).unwrap();
        sim.settle();
        assert!(matches!(child.exit(), Some(Exit::Failed(_))), "an actor spawns its children again");
        let seen = log.take();
        let hooks: Vec<_> = seen.iter().filter(|line| !line.contains('/')).collect();
        // The note may arrive before the failure.
        let early = ["started 0", "1", "restarting 0", "stopped 0 failed", "started 1"];
        let in_time = ["started 0", "restarting 0", "stopped 0 failed", "started 1", "1"];
        assert!(hooks == early || hooks == in_time, "{seen:?}");
        assert!(seen.iter().any(|line| line == "escalate /user/outer/parent/child"), "it gets the escalation: {seen:?}");
        assert_eq!((parent.exit(), system.unhandled()), (None, 0));
    });
}

#[test]
fn s11_system_actors_escalate_to_slash_system_and_end_last() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let supervisor = system.system_guardian().supervisor("supervisor", escalate()).unwrap();
        let actor = supervisor.spawn("actor", TestActor::props(&Log::new())).unwrap();
        assert_eq!(actor.path().to_string(), "/system/supervisor/actor");
        actor.tell(Job::Fail("no")).unwrap();
        sim.settle();
        let failure = system.take_escalations().failures.remove(0);
        assert_eq!(describe(&failure), "/system from /system/supervisor/actor 2 up");
        let end = |name: &'static str| {
            let log = log.clone();
            move |_: &Exit| log.note(name)
        };
        // System actors end after all user actors.
        let late = TestActor::spawn(&system, "first");
        late.on_done(end("user"));
        system.system_guardian().spawn("last", TestActor::props(&Log::new())).unwrap().on_done(end("system"));
        system.user_guardian().spawn("second", TestActor::props(&Log::new())).unwrap().on_done(end("younger user"));
        sim.run(system.shutdown(Duration::from_secs(1))).unwrap();
        assert_eq!(log.take(), ["younger user", "user", "system"]);
    });
}

#[test]
fn s7_failure_has_all_its_details() {
    explore(0..20, |sim| {
        let system = sim.system("s");
        let seen = failures(&system);
        let decided = Log::new();
        let log = decided.clone();
        system.on_event(move |event| {
            if let Event::Decided { failure, directive, .. } = event {
                log.push((failure.clone(), *directive));
            }
        });
        let supervisor = system.supervisor("supervisor", OneForOne::new().restart_limit(1, Duration::from_secs(9))).unwrap();
        let child = supervisor.spawn("child", TestActor::props(&Log::new())).unwrap();
        (0..2).for_each(|_| child.tell(Job::Fail("no")).unwrap());
        sim.settle();
        let [first, second] = seen.take().try_into().unwrap();
        for (failure, incarnation) in [(&first, 0), (&second, 1)] {
            assert_eq!((failure.actor(), failure.path(), failure.origin()), (child.id(), &child.path(), &child.path()));
            assert_eq!((failure.incarnation(), failure.stage()), (incarnation, EscalationStage::Initial));
            assert_eq!((failure.message(), failure.reason().to_string().as_str()), (Some("job"), "no"));
        }
        let [(restarted, restart), (escalated, escalate), _] = decided.take().try_into().unwrap();
        assert_eq!((restart, restarted.restarts()), (SupervisorDirective::Restart, 1));
        assert_eq!(
            (escalate, escalated.restarts(), escalated.window()),
            (SupervisorDirective::Escalate, 1, Duration::from_secs(9))
        );
        let up = system.take_escalations().failures.remove(0);
        assert_eq!((up.stage(), up.origin(), up.incarnation()), (EscalationStage::Escalated { hops: 2 }, &child.path(), 1));
        let remote = up.with_metadata("endpoint", "10.0.0.7:4000").with_metadata("transport", "tcp");
        assert_eq!(remote.metadata()["endpoint"], "10.0.0.7:4000");
        assert_eq!(size_of::<FailureInfo>(), size_of::<usize>(), "a clone only increments a counter");
    });
}
