//! E1, E2, E3, E7, S7, S11: where a failure goes that supervision handed up.

use crate::common::{Doer, INJECTED, Job, Log, failures, quiet};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{
    ATTEMPTS_MAX, CompositeEscalationSink, CustomEscalationSink, EscalationSink, EscalationStage, ParentGuardianSink,
    REFUSED_KEPT_MAX, RootEscalationSink,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

fn escalate() -> OneForOne {
    OneForOne::new().always(SupervisorDirective::Escalate)
}

/// Takes every failure and notes who answers for it, where it began and how far it came.
fn taker(log: &Log<String>) -> impl EscalationSink {
    let log = log.clone();
    CustomEscalationSink::new(move |failure: FailureInfo| {
        log.note(describe(&failure));
        Ok(())
    })
}

fn describe(failure: &FailureInfo) -> String {
    let hops = match failure.stage() {
        EscalationStage::Escalated { hops } => hops,
        _ => 0,
    };
    format!("{} from {} {hops} up", failure.path(), failure.origin())
}

fn fail(sim: &Sim, supervisor: &Supervisor) -> ActorRef<Job> {
    let child = supervisor.spawn_unnamed(Doer::props(&Log::new())).unwrap();
    child.tell(Job::Fail("no")).unwrap();
    sim.settle();
    child
}

#[test]
fn e3_a_child_fails_its_parent_hands_it_up_and_at_the_root_it_ends_in_a_stop() {
    explore(0..50, |sim| {
        let system = sim.system("s");
        let outer = system.supervisor("outer", escalate()).unwrap();
        let inner = outer.supervisor("inner", escalate()).unwrap();
        let beside = system.spawn("beside", Doer::props(&Log::new())).unwrap();
        let sibling = inner.spawn("sibling", Doer::props(&Log::new())).unwrap();
        let child = inner.spawn("child", Doer::props(&Log::new())).unwrap();
        child.tell(Job::Fail("no")).unwrap();
        sim.settle();
        for ended in [child.any(), inner.any(), outer.any()] {
            assert!(matches!(ended.exit(), Some(Exit::Failed(failure)) if failure.origin() == &child.path()), "{ended:?}");
        }
        assert_eq!((sibling.exit(), beside.exit()), (Some(Exit::Stopped), None), "the rest of the system goes on");
        assert_eq!((system.failures(), system.unhandled()), (1, 1));
        let failure = system.take_escalations().failures.remove(0);
        assert_eq!(describe(&failure), "/user from /user/outer/inner/child 3 up");
    });
}

#[test]
fn e3_a_failure_can_be_seen_as_each_parent_above_sees_it() {
    explore(0..20, |sim| {
        let system = sim.system("s");
        let records = failures(&system);
        let crew = system.supervisor("crew", OneForOne::new()).unwrap();
        let child = fail(sim, &crew);
        let group = system.group::<()>("group").build().unwrap();
        group.try_go(async { Err("no") }).unwrap();
        sim.settle();
        let [failure, of_task] = &records.take()[..] else { panic!("two failures") };
        let up = failure.escalate_to_parent().unwrap();
        assert_eq!((up.actor(), up.path(), up.origin()), (crew.any().id(), &crew.any().path(), &child.path()));
        assert_eq!((up.incarnation(), up.reason().to_string()), (failure.incarnation(), "no".to_string()));
        assert_eq!((failure.path(), failure.stage()), (&child.path(), EscalationStage::Initial), "it stays as it is");
        let above: Vec<FailureInfo> = std::iter::successors(Some(up), FailureInfo::escalate_to_parent).collect();
        let begun = child.path();
        let expected =
            ["/user/crew", "/user", "/"].into_iter().zip(1..).map(|(path, hops)| format!("{path} from {begun} {hops} up"));
        assert_eq!(above.iter().map(describe).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        let up = of_task.escalate_to_parent().unwrap();
        assert_eq!((up.path().to_string().as_str(), up.origin()), ("/user/group", of_task.path()));
        drop((system, crew, group));
        sim.settle();
    });
}

#[test]
fn e3_the_strategy_of_the_parents_parent_decides_again() {
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
            let sibling = inner.spawn("sibling", Doer::props(&log)).unwrap();
            let child = inner.spawn("child", Doer::props(&Log::new())).unwrap();
            child.tell(Job::Fail("no")).unwrap();
            sim.settle();
            assert_eq!(
                decided.take(),
                ["/user/outer/inner from /user/outer/inner/child 1 up"],
                "in the parent's view, origin kept"
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
fn e3_an_actor_as_parent_restarts_with_its_subtree() {
    explore(0..50, |sim| {
        let (system, log, child_log) = (sim.system("s"), Log::new(), Log::new());
        let outer = system.supervisor("outer", OneForOne::new()).unwrap();
        let parent = outer.spawn("parent", Doer::props(&log).supervise(escalate())).unwrap();
        let (born, notes) = (Log::new(), child_log.clone());
        let spawned = born.clone();
        parent.tell(Job::act(move |cx| spawned.push(cx.spawn("child", Doer::props(&notes)).unwrap()))).unwrap();
        sim.settle();
        let child: ActorRef<Job> = born.take().remove(0);
        child.tell(Job::Fail("no")).unwrap();
        parent.tell(Job::Note(1)).unwrap();
        sim.settle();
        assert!(matches!(child.exit(), Some(Exit::Failed(_))), "an actor starts its own children anew");
        let told = log.take();
        let hooks: Vec<_> = told.iter().filter(|line| !line.contains('/')).collect();
        // The note may have come before the failure did.
        let early = ["started 0", "1", "restarting 0", "stopped 0 failed", "started 1"];
        let in_time = ["started 0", "restarting 0", "stopped 0 failed", "started 1", "1"];
        assert!(hooks == early || hooks == in_time, "{told:?}");
        assert!(told.iter().any(|line| line == "escalate /user/outer/parent/child"), "it hears why: {told:?}");
        assert_eq!((parent.exit(), system.unhandled()), (None, 0));
    });
}

#[test]
fn s11_a_system_actors_failure_goes_through_slash_system_and_they_outlive_the_users() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let strict = system.system_guardian().supervisor("strict", escalate()).unwrap();
        let guard = strict.spawn("guard", Doer::props(&Log::new())).unwrap();
        assert_eq!(guard.path().to_string(), "/system/strict/guard");
        guard.tell(Job::Fail("no")).unwrap();
        sim.settle();
        let failure = system.take_escalations().failures.remove(0);
        assert_eq!(describe(&failure), "/system from /system/strict/guard 2 up");
        let end = |name: &'static str| {
            let log = log.clone();
            move |_: &Exit| log.note(name)
        };
        // Started before any user, it still ends after all of them.
        let late = system.spawn("first", Doer::props(&Log::new())).unwrap();
        late.on_done(end("user"));
        system.system_guardian().spawn("keeper", Doer::props(&Log::new())).unwrap().on_done(end("system"));
        system.user_guardian().spawn("second", Doer::props(&Log::new())).unwrap().on_done(end("younger user"));
        sim.run(system.shutdown(Duration::from_secs(1))).unwrap();
        assert_eq!(log.take(), ["younger user", "user", "system"]);
    });
}

#[test]
fn e2_a_sink_takes_the_failure_and_is_inherited_until_another_is_given() {
    explore(0..20, |sim| {
        let (all, outer_log, own) = (Log::new(), Log::new(), Log::new());
        let builder = ActorSystem::builder("s").runtime(sim.runtime());
        let system = builder.escalate_to(taker(&all)).build().unwrap();
        let plain = system.supervisor("plain", escalate()).unwrap();
        let outer = system.supervisor("outer", escalate().escalate_to(taker(&outer_log))).unwrap();
        let inherits = outer.supervisor("inherits", escalate()).unwrap();
        let other = outer.supervisor("other", escalate().escalate_to(taker(&own))).unwrap();
        let parents = outer.supervisor("parents", escalate().escalate_to(ParentGuardianSink)).unwrap();
        let root = outer.supervisor("root", escalate().escalate_to(RootEscalationSink)).unwrap();
        let notes = |supervisor: &Supervisor| {
            let child = fail(sim, supervisor);
            assert!(matches!(child.exit(), Some(Exit::Failed(_))));
            [&all, &outer_log, &own].map(Log::take).concat()
        };
        assert_eq!(notes(&plain).len(), 1, "the system's");
        assert!(notes(&inherits)[0].starts_with("/user/outer/inherits from /user/outer/inherits/"), "the parent's");
        assert!(notes(&other)[0].starts_with("/user/outer/other from"), "its own");
        assert_eq!((notes(&root).len(), system.unhandled()), (0, 1), "the root's, past everybody");
        assert_eq!(
            [&plain, &inherits, &other, &root].map(|one| one.any().exit()),
            [const { None }; 4],
            "they have handed it on"
        );
        // The way to the parent: the supervisor has failed, outer decides, and hands it to its own sink.
        assert!(notes(&parents)[0].starts_with("/user/outer from /user/outer/parents/"));
        assert!(parents.any().exit().is_some() && outer.any().exit().is_none());
    });
}

#[test]
fn e2_an_actors_sink_is_on_its_props() {
    let (sim, log) = (Sim::new(1), Log::new());
    let system = sim.system("s");
    let parent = system.spawn("parent", Doer::props(&Log::new()).supervise(escalate()).escalate_to(taker(&log))).unwrap();
    parent
        .tell(Job::act(|cx| {
            let child = cx.spawn("child", Doer::props(&Log::new())).unwrap();
            child.tell(Job::Fail("no")).unwrap();
        }))
        .unwrap();
    sim.settle();
    assert_eq!(log.take(), ["/user/parent from /user/parent/child 1 up"]);
    assert_eq!((parent.exit(), system.unhandled()), (None, 0));
}

#[test]
fn e2_s3_a_supervisor_that_restarted_too_often_ends_although_its_sink_took_the_failure() {
    explore(0..20, |sim| {
        let (system, log, hooks) = (sim.system("s"), Log::new(), Log::new());
        let strategy = OneForOne::new().intensity(0, Duration::from_secs(1)).escalate_to(taker(&log));
        let crew = system.supervisor("crew", strategy).unwrap();
        let sibling = crew.spawn("sibling", Doer::props(&hooks)).unwrap();
        sim.settle();
        fail(sim, &crew);
        assert!(matches!(crew.any().exit(), Some(Exit::Failed(_))) && sibling.exit() == Some(Exit::Stopped));
        assert_eq!((log.len(), system.unhandled()), (1, 0));
    });
}

#[test]
fn e2_e3_naming_the_parents_guardian_is_what_happens_without_a_sink() {
    explore(0..20, |sim| {
        let log = Log::new();
        let builder = ActorSystem::builder("s").runtime(sim.runtime());
        let system = builder.escalate_to(CustomEscalationSink::new(|_| panic!("not this way"))).build().unwrap();
        let outer = system.supervisor("outer", OneForOne::new()).unwrap();
        let strict = || OneForOne::new().intensity(0, Duration::from_secs(1));
        let both = CompositeEscalationSink::new().and(taker(&log)).and(ParentGuardianSink);
        let named = outer.supervisor("named", strict().escalate_to(ParentGuardianSink)).unwrap();
        let among = outer.supervisor("among", strict().escalate_to(both)).unwrap();
        for crew in [&named, &among] {
            let child = fail(sim, crew);
            assert_eq!(
                (crew.any().exit(), child.exit()),
                (None, None),
                "its parent had it restart, though it did so too often"
            );
        }
        assert_eq!((log.len(), system.failures(), system.unhandled()), (1, 2, 0));
    });
}

struct NoTarget;

impl pleach::SupervisorStrategy for NoTarget {
    fn decide(&self, _failure: &FailureInfo) -> SupervisorDirective {
        SupervisorDirective::Escalate
    }

    fn escalation_target(&self) -> Option<Arc<dyn EscalationSink>> {
        std::panic::panic_any(INJECTED)
    }
}

#[test]
fn s8_a_panic_in_naming_a_target_is_on_record_and_the_failure_goes_the_way_to_the_parent() {
    quiet();
    let sim = Sim::new(1);
    let system = sim.system("s");
    let crew = system.supervisor("crew", NoTarget).unwrap();
    fail(&sim, &crew);
    assert_eq!((system.failures(), system.unhandled()), (2, 1));
}

#[test]
fn e2_a_composite_gives_to_all_and_again_only_to_those_that_refused() {
    quiet();
    let (sim, first, last, tries) = (Sim::new(1), Log::new(), Log::new(), Arc::new(AtomicUsize::new(0)));
    let system = sim.system("s");
    let seen = Arc::clone(&tries);
    let moody = CustomEscalationSink::new(move |failure| match seen.fetch_add(1, Relaxed) {
        0 => Err(failure),
        1 => std::panic::panic_any(INJECTED),
        _ => Ok(()),
    });
    let all = CompositeEscalationSink::new().and(taker(&first)).and(moody).and(taker(&last)).and(ParentGuardianSink);
    let crew = system.supervisor("crew", escalate().escalate_to(all)).unwrap();
    fail(&sim, &crew);
    assert!(crew.any().exit().is_some(), "the way to the parent was one of several");
    sim.advance(Duration::from_secs(1));
    assert_eq!((first.take().len(), last.take().len(), tries.load(Relaxed)), (1, 1, 3));
    assert_eq!((system.failures(), system.unhandled()), (2, 1), "the panic of a sink is on record too");
    assert!(CompositeEscalationSink::default().handle(system.take_escalations().failures.remove(0)).is_ok());
}

/// Refuses so many times, then takes.
fn refuses(times: usize, log: &Log<String>) -> (impl EscalationSink, Arc<AtomicUsize>) {
    let (log, tries) = (log.clone(), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&tries);
    let sink = CustomEscalationSink::new(move |failure: FailureInfo| {
        if seen.fetch_add(1, Relaxed) < times {
            return Err(failure);
        }
        log.note(failure.reason());
        Ok(())
    });
    (sink, tries)
}

#[test]
fn e1_a_refused_failure_is_tried_again_in_order() {
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let (sink, tries) = refuses(3, &log);
        let crew = system.supervisor("crew", escalate().escalate_to(sink)).unwrap();
        for why in ["first", "second", "third"] {
            let child = crew.spawn_unnamed(Doer::props(&Log::new())).unwrap();
            child.tell(Job::Fail(why)).unwrap();
            sim.settle();
            assert!(child.exit().is_some(), "nobody waits for the sink");
        }
        assert_eq!((tries.load(Relaxed), log.len()), (1, 0), "what came later waits behind what was refused");
        sim.advance(Duration::from_millis(30));
        let after_two = tries.load(Relaxed);
        assert_eq!((after_two, log.len()), (3, 0), "the pauses grow: 10 ms, then 20");
        sim.advance(Duration::from_secs(1));
        assert_eq!((log.take(), tries.load(Relaxed)), (vec!["first".into(), "second".into(), "third".into()], 6));
        assert_eq!(system.unhandled(), 0);
        assert_eq!(sim.tasks_alive(), 0, "nothing is left running for it");
    });
}

#[test]
fn e1_past_the_bound_it_goes_to_the_root_as_undeliverable() {
    let (sim, log) = (Sim::new(1), Log::new());
    let system = sim.system("s");
    let (sink, tries) = refuses(usize::MAX, &log);
    let crew = system.supervisor("crew", escalate().escalate_to(sink)).unwrap();
    fail(&sim, &crew);
    sim.advance(Duration::from_secs(60));
    assert_eq!((tries.load(Relaxed), system.unhandled()), (ATTEMPTS_MAX as usize, 1));
    let failure = system.take_escalations().failures.remove(0);
    assert_eq!(failure.metadata()["undeliverable"], format!("refused {ATTEMPTS_MAX} times by its sink"));
    // A flood that nobody takes is bounded as well, and none of it goes nowhere.
    for _ in 0..REFUSED_KEPT_MAX + 10 {
        fail(&sim, &crew);
    }
    assert_eq!(system.unhandled(), 11);
    sim.advance(Duration::from_secs(3_600));
    assert_eq!(system.unhandled(), 1 + REFUSED_KEPT_MAX + 10);
    assert_eq!(sim.tasks_alive(), 0);
}

#[test]
fn e1_what_waits_at_the_end_goes_to_the_root() {
    for kill in [false, true] {
        explore(0..20, |sim| {
            let (system, log) = (sim.system("s"), Log::new());
            let (sink, _) = refuses(usize::MAX, &log);
            let crew = system.supervisor("crew", escalate().escalate_to(sink)).unwrap();
            (0..3).for_each(|_| drop(fail(sim, &crew)));
            if kill {
                system.kill();
                sim.settle();
            } else {
                sim.run(system.shutdown(Duration::from_secs(1))).unwrap();
            }
            assert_eq!((system.unhandled(), sim.tasks_alive()), (3, 0));
        });
    }
}

#[test]
fn e1_a_tree_without_a_system_tries_again_too() {
    let (sim, log) = (Sim::new(1), Log::new());
    let scope = sim.scope();
    let (sink, tries) = refuses(2, &log);
    let crew = scope.supervisor("crew", escalate().escalate_to(sink)).unwrap();
    fail(&sim, &crew);
    sim.advance(Duration::from_secs(1));
    assert_eq!((log.len(), tries.load(Relaxed)), (1, 3));
}

#[test]
fn e7_the_root_sink_takes_what_came_up_and_what_it_refuses_goes_on() {
    let (sim, log) = (Sim::new(1), Log::new());
    let taken = log.clone();
    let picky = CustomEscalationSink::new(move |failure: FailureInfo| match failure.reason().to_string() == "no" {
        true => {
            taken.note(describe(&failure));
            Ok(())
        }
        false => Err(failure),
    });
    let system = ActorSystem::builder("s").runtime(sim.runtime()).root_sink(picky).build().unwrap();
    for why in ["no", "other"] {
        let crew = system.supervisor(why, escalate()).unwrap();
        crew.spawn("child", Doer::props(&Log::new())).unwrap().tell(Job::Fail(why)).unwrap();
        sim.settle();
    }
    assert_eq!((log.take(), system.unhandled()), (vec!["/user from /user/no/child 2 up".into()], 2));
    assert_eq!(system.take_escalations().failures.len(), 1);
}

#[test]
fn s7_a_failure_tells_all_that_is_known_of_it() {
    explore(0..20, |sim| {
        let system = sim.system("s");
        let seen = failures(&system);
        let decided = Log::new();
        let told = decided.clone();
        system.on_event(move |event| {
            if let Event::Decided { failure, directive } = event {
                told.push((failure.clone(), *directive));
            }
        });
        let crew = system.supervisor("crew", OneForOne::new().intensity(1, Duration::from_secs(9))).unwrap();
        let child = crew.spawn("child", Doer::props(&Log::new())).unwrap();
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
        assert_eq!(size_of::<FailureInfo>(), size_of::<usize>(), "a clone is one count more");
    });
}
