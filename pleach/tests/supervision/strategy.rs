//! S1, S2, S5, S12, S13: strategies, groups that restart together, and what a supervisor can be told at run time.

use crate::common::{Doer, Gate, INJECTED, Job, Log, failures, quiet};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::{
    AlwaysRestart, AnyRef, BoxError, ChildError, EndedUnasked, ExponentialBackoff, OneForAll, RestForOne, RestartPolicy,
    Restarts, SupervisorStrategy,
};
use std::sync::Arc;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Says `up NAME` and `down NAME`, and fails when told to.
struct Named(&'static str, Log<String>);

impl Named {
    fn props(name: &'static str, log: &Log<String>) -> Props<Self> {
        let log = log.clone();
        Props::new(move || Self(name, log.clone())).mailbox(Mailbox::unbounded())
    }
}

impl Actor for Named {
    type Msg = bool;
    type Error = BoxError;

    async fn started(&mut self, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.1.note(format!("up {}", self.0));
        Ok(())
    }

    async fn handle(&mut self, well: bool, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        if well {
            self.1.note(format!("well {}", self.0));
            Ok(())
        } else {
            Err("told to fail".into())
        }
    }

    async fn stopped(&mut self, _exit: &Exit, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.1.note(format!("down {}", self.0));
        Ok(())
    }
}

fn crew_of(crew: &Supervisor, log: &Log<String>) -> [ActorRef<bool>; 3] {
    ["a", "b", "c"].map(|name| crew.spawn(name, Named::props(name, log)).unwrap())
}

#[test]
fn s1_s2_one_for_all_stops_in_reverse_start_order_and_starts_in_start_order() {
    explore(0..200, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let crew = system.supervisor("crew", OneForAll::new()).unwrap();
        let [a, b, c] = crew_of(&crew, &log);
        sim.settle();
        log.take();
        c.tell(false).unwrap();
        // What waits in the mailboxes meanwhile is handled by the next incarnations.
        [&a, &b, &c].iter().for_each(|child| drop(child.tell(true)));
        sim.settle();
        let told = log.take();
        let order = |what: &str| told.iter().filter(|line| line.starts_with(what)).cloned().collect::<Vec<_>>();
        assert_eq!(order("down"), ["down c", "down b", "down a"]);
        assert_eq!(order("up"), ["up a", "up b", "up c"]);
        assert_eq!(order("well").len(), 3);
        let at = |line: &str| told.iter().position(|other| other == line).unwrap();
        assert!(at("down a") < at("up a"), "all are down before the first is up: {told:?}");
        assert_eq!(system.failures(), 1);
        assert!([a, b, c].iter().all(|child| child.exit().is_none()));
    });
}

#[test]
fn s1_s2_rest_for_one_leaves_the_older_ones_alone() {
    explore(0..200, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let crew = system.supervisor("crew", RestForOne::new()).unwrap();
        let [_, b, _] = crew_of(&crew, &log);
        sim.settle();
        log.take();
        b.tell(false).unwrap();
        sim.settle();
        let told = log.take();
        assert!(!told.iter().any(|line| line.ends_with('a')), "{told:?}");
        assert_eq!(told.iter().filter(|line| line.starts_with("up")).collect::<Vec<_>>(), ["up b", "up c"]);
    });
}

#[test]
fn s2_a_group_keeps_to_the_policies_of_its_members() {
    explore(0..100, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let crew = system.supervisor("crew", OneForAll::new()).unwrap();
        let spawn = |name, policy| crew.spawn(name, Named::props(name, &log).restart(policy)).unwrap();
        let temporary = spawn("temporary", RestartPolicy::Temporary);
        let transient = spawn("transient", RestartPolicy::Transient);
        let permanent = spawn("permanent", RestartPolicy::Permanent);
        sim.settle();
        // One that may not restart does not take the others with it.
        let other = spawn("other", RestartPolicy::Temporary);
        other.tell(false).unwrap();
        sim.settle();
        assert!(matches!(other.exit(), Some(Exit::Failed(_))));
        log.take();
        // A permanent one that ends unasked does: that is a failure, typed.
        let seen = failures(&system);
        permanent.stop();
        sim.settle();
        assert_eq!(seen.take()[0].error::<EndedUnasked>(), Some(&EndedUnasked { exit: Exit::Stopped }));
        assert_eq!(temporary.exit(), Some(Exit::Stopped), "a temporary one goes down with the group, and stays down");
        assert_eq!((transient.exit(), permanent.exit()), (None, None));
        let told = log.take();
        assert_eq!(told.iter().filter(|line| line.starts_with("up")).collect::<Vec<_>>(), ["up transient", "up permanent"]);
        // The end of its input is undone with the end: it takes messages again.
        permanent.close();
        sim.settle();
        assert_eq!((permanent.tell(true).is_ok(), permanent.exit()), (true, None));
        sim.settle();
        assert_eq!(log.take().pop(), Some("well permanent".to_string()));
        // A cancel, and the supervisor's own word, are for good.
        permanent.cancel("enough");
        sim.settle();
        assert!(matches!(permanent.exit(), Some(Exit::Cancelled(_))));
        assert_eq!(transient.exit(), None);
    });
}

#[test]
fn s1_backoff_waits_longer_each_time_and_a_stop_does_not_wait_for_it() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let slowly = ExponentialBackoff::new(ms(100), ms(1_000)).jitter(0.0);
        let crew = system.supervisor("crew", slowly).unwrap();
        let child = crew.spawn("a", Named::props("a", &log)).unwrap();
        sim.settle();
        for wait in [100, 200, 400, 800, 1_000, 1_000] {
            log.take();
            child.tell(false).unwrap();
            sim.advance(ms(wait - 1));
            assert_eq!(log.take(), ["down a"]);
            sim.advance(ms(1));
            assert_eq!(log.take(), ["up a"]);
        }
        child.tell(false).unwrap();
        child.tell(true).unwrap();
        sim.settle();
        child.stop();
        sim.settle();
        assert!(matches!(child.exit(), Some(Exit::Failed(_))), "it had failed, and was not started again");
        assert_eq!(child.counts().dead_lettered, 1);
        let child = crew.spawn("a", Named::props("a", &log)).unwrap();
        child.tell(false).unwrap();
        sim.settle();
        child.cancel(());
        assert!(matches!(sim.run(child.exited()), Exit::Cancelled(_)));
    });
}

#[test]
fn s1_a_group_waits_for_the_backoff_of_the_one_that_failed() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let backoff = ExponentialBackoff::new(ms(100), ms(100)).jitter(0.0);
        let outer = system.supervisor("outer", OneForAll::new().backoff(backoff)).unwrap();
        let [a, ..] = crew_of(&outer, &log);
        let inner = outer.supervisor("inner", OneForOne::new().always(SupervisorDirective::Escalate)).unwrap();
        let deep = inner.spawn("deep", Named::props("deep", &log)).unwrap();
        sim.settle();
        for fails in [&a, &deep] {
            log.take();
            fails.tell(false).unwrap();
            sim.advance(ms(99));
            assert!(log.take().iter().all(|line| line.starts_with("down")));
            sim.advance(ms(200));
            assert_eq!(log.take(), ["up a", "up b", "up c", "up deep"]);
        }
    });
}

/// Writes down what it is asked and told.
struct Diary(Log<String>);

impl SupervisorStrategy for Diary {
    fn decide(&self, failure: &FailureInfo) -> SupervisorDirective {
        self.0.note(format!("decide {} after {} in {:?}", failure.path(), failure.restarts(), failure.window()));
        SupervisorDirective::Restart
    }

    fn restarts(&self) -> Restarts {
        Restarts { restarts_max: 2, window: ms(50), ..Restarts::default() }
    }

    fn before_start(&self, child: &AnyRef) {
        self.0.note(format!("before start of {}", child.path()));
    }

    fn after_restart(&self, child: &AnyRef) {
        self.0.note(format!("after restart of {}", child.path()));
    }
}

#[test]
fn s1_a_strategy_of_ones_own_decides_and_its_hooks_run_where_their_names_say() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let crew = system.supervisor("crew", Diary(log.clone())).unwrap();
        let child = crew.spawn("a", Named::props("a", &log)).unwrap();
        assert_eq!(log.take(), ["before start of /user/crew/a"], "before anything of it runs");
        child.tell(false).unwrap();
        child.tell(true).unwrap();
        sim.settle();
        let told = log.take();
        assert_eq!(
            told,
            ["up a", "decide /user/crew/a after 0 in 50ms", "down a", "up a", "after restart of /user/crew/a", "well a"]
        );
        (0..2).for_each(|_| child.tell(false).unwrap());
        sim.settle();
        let asked = log.take().into_iter().filter(|line| line.starts_with("decide")).collect::<Vec<_>>();
        assert_eq!(asked, ["decide /user/crew/a after 1 in 50ms", "decide /user/crew/a after 2 in 50ms"]);
        assert!(crew.any().exit().is_some(), "the third within 50 ms is one too many for it");
    });
}

#[test]
fn s1_a_closure_is_a_strategy_for_a_supervisor_an_actor_and_a_whole_system() {
    let by_words = |failure: &FailureInfo| match failure.to_string().contains("told") {
        true => SupervisorDirective::Stop,
        false => SupervisorDirective::Restart,
    };
    let sim = Sim::new(1);
    let system = ActorSystem::builder("s").runtime(sim.runtime()).strategy(by_words).build().unwrap();
    let log = Log::new();
    let born = Log::new();
    let top = system.spawn("top", Named::props("top", &log)).unwrap();
    let crew = system.supervisor("crew", by_words).unwrap();
    let below = crew.spawn("below", Named::props("below", &log)).unwrap();
    let parent = system.spawn("parent", Doer::props(&Log::new()).supervise(by_words)).unwrap();
    let (spawned, child_log) = (born.clone(), log.clone());
    parent.tell(Job::act(move |cx| spawned.push(cx.spawn("child", Named::props("child", &child_log)).unwrap()))).unwrap();
    sim.settle();
    for actor in [top, below, born.take().remove(0)] {
        actor.tell(false).unwrap();
        sim.settle();
        assert!(matches!(actor.exit(), Some(Exit::Failed(_))), "{actor:?}");
    }
}

#[test]
fn s1_always_restart_has_no_limit() {
    let (sim, log) = (Sim::new(1), Log::new());
    let system = sim.system("s");
    let child = system.supervisor("crew", AlwaysRestart).unwrap().spawn("a", Named::props("a", &log)).unwrap();
    (0..10_000).for_each(|_| child.tell(false).unwrap());
    child.tell(true).unwrap();
    sim.settle();
    assert_eq!((log.take().pop().as_deref(), system.failures()), (Some("well a"), 10_000));
}

#[test]
fn s1_a_strategy_that_panics_hands_the_failure_up_and_is_on_record_itself() {
    quiet();
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let bad = |_: &FailureInfo| -> SupervisorDirective { std::panic::panic_any(INJECTED) };
        let crew = system.supervisor("crew", bad).unwrap();
        let child = crew.spawn("a", Named::props("a", &log)).unwrap();
        child.tell(false).unwrap();
        sim.settle();
        assert!(child.exit().is_some() && crew.any().exit().is_some());
        assert_eq!((system.failures(), system.unhandled()), (2, 1));
    });
}

#[test]
fn s5_a_child_gets_its_verdict_while_its_parent_is_in_a_long_handler() {
    explore(0..50, |sim| {
        let (system, log, child_log) = (sim.system("s"), Log::new(), Log::new());
        let (gate, born) = (Gate::new(), Log::new());
        let parent = system.spawn("parent", Doer::props(&log)).unwrap();
        let (spawned, notes) = (born.clone(), child_log.clone());
        parent.tell(Job::act(move |cx| spawned.push(cx.spawn("child", Named::props("child", &notes)).unwrap()))).unwrap();
        parent.tell(Job::Pass(gate.clone(), 1)).unwrap();
        sim.settle();
        let child: ActorRef<bool> = born.take().remove(0);
        child.tell(false).unwrap();
        child.tell(true).unwrap();
        sim.settle();
        assert_eq!(child_log.take(), ["up child", "down child", "up child", "well child"]);
        assert_eq!(log.take(), ["started 0"], "the parent is still busy, and has not even heard of it");
        // Nor does it hold up what is handed up to its own supervisor.
        (0..3).for_each(|_| child.tell(false).unwrap());
        sim.settle();
        assert_eq!(system.unhandled(), 1, "the budget is used up, and the root knows");
        gate.open();
        assert!(matches!(sim.run(parent.exited()), Exit::Failed(_)));
        assert_eq!(log.take(), ["1", "stopped 0 failed"], "what the parent had in hand was finished");
    });
}

#[test]
fn s12_children_are_listed_stopped_restarted_and_added_at_run_time() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let crew = system.supervisor("crew", OneForOne::new()).unwrap();
        let [a, b, _] = crew_of(&crew, &log);
        let inner = crew.supervisor("inner", OneForOne::new()).unwrap();
        inner.spawn("d", Named::props("d", &log)).unwrap();
        crew.spawn("keeps", Named::props("keeps", &log).restart(RestartPolicy::Permanent)).unwrap();
        sim.settle();
        log.take();
        let names: Vec<String> = crew.children().iter().map(|child| child.path().to_string()).collect();
        assert_eq!(names.len(), 5);
        assert_eq!((names[0].as_str(), crew.child("b").map(|child| child.id())), ("/user/crew/a", Some(b.id())));
        for name in ["b", "keeps"] {
            assert_eq!(sim.run(crew.stop_child(name).unwrap().exited()), Exit::Stopped, "for good, whatever the policy");
        }
        assert_eq!(log.take(), ["down b", "down keeps"]);
        crew.restart_child("a").unwrap();
        crew.restart_child("inner").unwrap();
        sim.settle();
        let mut told = log.take();
        told.sort();
        assert_eq!(told, ["down a", "down d", "up a", "up d"]);
        assert_eq!((a.exit(), system.failures()), (None, 0));
        crew.spawn("b", Named::props("b", &log)).unwrap();
        sim.settle();
        assert_eq!(log.take(), ["up b"]);
        // What is not there, and what has no recipe.
        assert!(matches!(crew.stop_child("nobody"), Err(ChildError::NotFound { .. })));
        assert!(matches!(crew.stop_child("nobody").map_err(pleach::Error::from), Err(pleach::Error::Child(_))));
        let unknown = crew.restart_child("no/body").unwrap_err();
        assert_eq!(unknown.to_string(), "/user/crew has no live child called \"no/body\": `children()` lists those it has");
    });
}

#[test]
fn s12_an_actor_does_the_same_with_its_own_children() {
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let parent = system.spawn("parent", Doer::props(&Log::new())).unwrap();
        let notes = log.clone();
        parent
            .tell(Job::act(move |cx| {
                let crew = cx.supervisor("crew", OneForOne::new()).unwrap();
                crew.spawn("a", Named::props("a", &notes)).unwrap();
                cx.spawn("b", Named::props("b", &notes)).unwrap();
                let scope = cx.scope("scope").unwrap();
                assert!(matches!(cx.restart_child("scope"), Err(ChildError::CannotRestart(_))));
                drop(scope);
            }))
            .unwrap();
        sim.settle();
        assert_eq!(log.len(), 2);
        log.take();
        parent
            .tell(Job::act(|cx| {
                cx.restart_child("crew").unwrap();
                drop(cx.stop_child("b").unwrap());
            }))
            .unwrap();
        sim.settle();
        let mut told = log.take();
        told.sort();
        assert_eq!(told, ["down a", "down b", "up a"]);
    });
}

#[test]
fn s13_a_supervisor_that_restarts_brings_its_whole_subtree_down_and_up_with_addresses_kept() {
    explore(0..200, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let outer = system.supervisor("outer", OneForOne::new()).unwrap();
        let inner = outer.supervisor("inner", OneForOne::new().intensity(1, Duration::from_secs(1))).unwrap();
        let [a, b, c] = crew_of(&inner, &log);
        let deep = inner.supervisor("deep", OneForOne::new()).unwrap();
        let d = deep.spawn("d", Named::props("d", &log)).unwrap();
        let calm = outer.spawn("calm", Named::props("calm", &log)).unwrap();
        sim.settle();
        log.take();
        (0..2).for_each(|_| b.tell(false).unwrap());
        b.tell(true).unwrap();
        sim.settle();
        let told = log.take();
        // The first failure restarts it alone, the second is one too many: the supervisor itself has failed, and restarts.
        let order = |what: &str| told.iter().filter(|line| line.starts_with(what)).cloned().collect::<Vec<_>>();
        assert_eq!(order("up"), ["up b", "up a", "up b", "up c", "up d"]);
        let downs: Vec<String> = order("down").into_iter().filter(|line| line != "down b").collect();
        assert_eq!(downs, ["down d", "down c", "down a"]);
        assert_eq!(order("well"), ["well b"], "address and mailbox are kept");
        assert!([&a, &b, &c, &d, &calm].iter().all(|child| child.exit().is_none()));
        assert_eq!((system.unhandled(), inner.any().exit()), (0, None));
        // Its window begins anew with it.
        b.tell(false).unwrap();
        sim.settle();
        assert_eq!(log.take(), ["down b", "up b"]);
    });
}

#[test]
fn s13_what_happens_to_a_group_half_way_down_does_not_stall_it() {
    quiet();
    explore(0..2_000, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let outer = system.supervisor("outer", OneForAll::new().intensity(50, Duration::from_secs(1))).unwrap();
        let inner = outer.supervisor("inner", RestForOne::new().intensity(2, Duration::from_secs(1))).unwrap();
        let children = [crew_of(&outer, &log), crew_of(&inner, &log)].concat();
        let mut random = pleach::Random::seeded(sim.seed());
        sim.run(async {
            for _ in 0..20 {
                let child = &children[random.below(children.len())];
                match random.below(12) {
                    0 => child.stop(),
                    1 => child.cancel(()),
                    2 => drop(outer.stop_child("b")),
                    3 => drop(outer.restart_child("inner")),
                    4 => drop(inner.spawn("b", Named::props("b", &log))),
                    5 => drop(child.try_send_system(SystemMessage::Restart)),
                    6 => child.close(),
                    7 => sim.step_aside().await,
                    _ => drop(child.tell(false)),
                }
                if random.below(2) == 0 {
                    sim.step_aside().await;
                }
            }
        });
        sim.settle();
        // Whoever lives is up, and handles what it is told.
        for child in children.iter().filter(|child| child.exit().is_none()) {
            let handled = child.counts().handled;
            child.tell(true).unwrap();
            sim.settle();
            assert_eq!(child.counts().handled, handled + 1, "{} is stuck", child.path());
        }
        sim.run(system.shutdown(Duration::from_secs(1))).unwrap();
        assert_eq!(sim.tasks_alive(), 0);
    });
}

#[test]
fn s13_a_group_of_thousands_restarts_in_one_go() {
    let (sim, log) = (Sim::new(1), Log::new());
    let system = sim.system("s");
    let outer = system.supervisor("outer", OneForAll::new()).unwrap();
    let shared = Arc::new(());
    for _ in 0..5_000 {
        let keep = Arc::clone(&shared);
        outer.spawn_unnamed(Props::from_fn(move || Arc::clone(&keep), |_, ()| Ok::<(), BoxError>(()))).unwrap();
    }
    for n in 0..2_000 {
        outer.supervisor(&format!("empty-{n}"), OneForOne::new()).unwrap();
    }
    let fails = outer.spawn("fails", Named::props("fails", &log)).unwrap();
    sim.settle();
    fails.tell(false).unwrap();
    sim.settle();
    assert_eq!(log.take(), ["up fails", "down fails", "up fails"]);
    assert_eq!((outer.children().len(), Arc::strong_count(&shared)), (7_001, 10_001));
}
