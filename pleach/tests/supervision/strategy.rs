//! S1, S2 and S5: strategies and group restarts.

use crate::common::{Gate, INJECTED, Job, Log, TestActor, failures, quiet};
use crate::ms;
use crate::named_actor::NamedActor;
use pleach::actor::AnyRef;
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::supervise::{
    AlwaysRestart, ExponentialBackoff, OneForAll, RestForOne, RestartPolicy, RestartRules, SupervisorStrategy, UnexpectedExit,
};

/// Spawns the children `a`, `b` and `c`.
pub fn spawn_three(supervisor: &Supervisor, log: &Log<String>) -> [ActorRef<bool>; 3] {
    ["a", "b", "c"].map(|name| supervisor.spawn(name, NamedActor::props(name, log)).unwrap())
}

#[test]
fn s1_s2_one_for_all_stops_in_reverse_order_and_starts_in_order() {
    explore(0..200, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let supervisor = system.supervisor("supervisor", OneForAll::new()).unwrap();
        let [a, b, c] = spawn_three(&supervisor, &log);
        sim.settle();
        log.take();
        c.tell(false).unwrap();
        // The next incarnations handle the queued messages.
        [&a, &b, &c].iter().for_each(|child| drop(child.tell(true)));
        sim.settle();
        let seen = log.take();
        let order = |what: &str| seen.iter().filter(|line| line.starts_with(what)).cloned().collect::<Vec<_>>();
        assert_eq!(order("down"), ["down c", "down b", "down a"]);
        assert_eq!(order("up"), ["up a", "up b", "up c"]);
        assert_eq!(order("handled").len(), 3);
        let at = |line: &str| seen.iter().position(|other| other == line).unwrap();
        assert!(at("down a") < at("up a"), "all stop before the first starts: {seen:?}");
        assert_eq!(system.failures(), 1);
        assert!([a, b, c].iter().all(|child| child.exit().is_none()));
    });
}

#[test]
fn s1_s2_rest_for_one_spares_the_older_children() {
    explore(0..200, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let supervisor = system.supervisor("supervisor", RestForOne::new()).unwrap();
        let [_, b, _] = spawn_three(&supervisor, &log);
        sim.settle();
        log.take();
        b.tell(false).unwrap();
        sim.settle();
        let seen = log.take();
        assert!(!seen.iter().any(|line| line.ends_with('a')), "{seen:?}");
        assert_eq!(seen.iter().filter(|line| line.starts_with("up")).collect::<Vec<_>>(), ["up b", "up c"]);
    });
}

#[test]
fn s2_group_restart_respects_each_restart_policy() {
    explore(0..100, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let supervisor = system.supervisor("supervisor", OneForAll::new()).unwrap();
        let spawn = |name, policy| supervisor.spawn(name, NamedActor::props(name, &log).restart(policy)).unwrap();
        let temporary = spawn("temporary", RestartPolicy::Temporary);
        let transient = spawn("transient", RestartPolicy::Transient);
        let permanent = spawn("permanent", RestartPolicy::Permanent);
        sim.settle();
        // A failed temporary child does not restart the others.
        let other = spawn("other", RestartPolicy::Temporary);
        other.tell(false).unwrap();
        sim.settle();
        assert!(matches!(other.exit(), Some(Exit::Failed(_))));
        log.take();
        // A permanent child that ends unrequested does: that is an `UnexpectedExit` failure.
        let seen = failures(&system);
        permanent.stop();
        sim.settle();
        assert_eq!(seen.take()[0].error::<UnexpectedExit>(), Some(&UnexpectedExit { exit: Exit::Stopped }));
        assert_eq!(temporary.exit(), Some(Exit::Stopped), "a temporary child stops with the group and stays down");
        assert_eq!((transient.exit(), permanent.exit()), (None, None));
        let seen = log.take();
        assert_eq!(seen.iter().filter(|line| line.starts_with("up")).collect::<Vec<_>>(), ["up transient", "up permanent"]);
        // After the restart it accepts messages again.
        permanent.close();
        sim.settle();
        assert_eq!((permanent.tell(true).is_ok(), permanent.exit()), (true, None));
        sim.settle();
        assert_eq!(log.take().pop(), Some("handled permanent".to_string()));
        // A cancel is final.
        permanent.cancel("enough");
        sim.settle();
        assert!(matches!(permanent.exit(), Some(Exit::Cancelled(_))));
        assert_eq!(transient.exit(), None);
    });
}

#[test]
fn s1_backoff_grows_and_a_stop_does_not_wait_for_it() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let backoff = ExponentialBackoff::new(ms(100), ms(1_000)).jitter(0.0);
        let supervisor = system.supervisor("supervisor", backoff).unwrap();
        let child = supervisor.spawn("a", NamedActor::props("a", &log)).unwrap();
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
        assert!(matches!(child.exit(), Some(Exit::Failed(_))), "it failed and was not restarted");
        assert_eq!(child.counts().dead_lettered, 1);
        let child = supervisor.spawn("a", NamedActor::props("a", &log)).unwrap();
        child.tell(false).unwrap();
        sim.settle();
        child.cancel(());
        assert!(matches!(sim.run(child.exited()), Exit::Cancelled(_)));
    });
}

#[test]
fn s1_group_restart_waits_for_the_backoff_of_the_failed_child() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let backoff = ExponentialBackoff::new(ms(100), ms(100)).jitter(0.0);
        let outer = system.supervisor("outer", OneForAll::new().backoff(backoff)).unwrap();
        let [a, ..] = spawn_three(&outer, &log);
        let inner = outer.supervisor("inner", OneForOne::new().always(SupervisorDirective::Escalate)).unwrap();
        let deep = inner.spawn("deep", NamedActor::props("deep", &log)).unwrap();
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

/// A strategy that logs its calls.
struct LoggingStrategy(Log<String>);

impl SupervisorStrategy for LoggingStrategy {
    fn decide(&self, failure: &FailureInfo) -> SupervisorDirective {
        self.0.note(format!("decide {} after {} in {:?}", failure.path(), failure.restarts(), failure.window()));
        SupervisorDirective::Restart
    }

    fn restarts(&self) -> RestartRules {
        RestartRules { restarts_max: 2, window: ms(50), ..RestartRules::default() }
    }

    fn before_start(&self, child: &AnyRef) {
        self.0.note(format!("before start of {}", child.path()));
    }

    fn after_restart(&self, child: &AnyRef) {
        self.0.note(format!("after restart of {}", child.path()));
    }
}

#[test]
fn s1_custom_strategy_decides_and_its_hooks_run() {
    explore(0..50, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let supervisor = system.supervisor("supervisor", LoggingStrategy(log.clone())).unwrap();
        let child = supervisor.spawn("a", NamedActor::props("a", &log)).unwrap();
        assert_eq!(log.take(), ["before start of /user/supervisor/a"], "before the child runs");
        child.tell(false).unwrap();
        child.tell(true).unwrap();
        sim.settle();
        let seen = log.take();
        assert_eq!(
            seen,
            [
                "up a",
                "decide /user/supervisor/a after 0 in 50ms",
                "down a",
                "up a",
                "after restart of /user/supervisor/a",
                "handled a"
            ]
        );
        (0..2).for_each(|_| child.tell(false).unwrap());
        sim.settle();
        let decisions = log.take().into_iter().filter(|line| line.starts_with("decide")).collect::<Vec<_>>();
        assert_eq!(decisions, ["decide /user/supervisor/a after 1 in 50ms", "decide /user/supervisor/a after 2 in 50ms"]);
        assert!(supervisor.any().exit().is_some(), "the third failure in 50 ms exceeds its limit");
    });
}

#[test]
fn s1_closure_can_be_a_strategy() {
    let by_reason = |failure: &FailureInfo| match failure.to_string().contains("requested") {
        true => SupervisorDirective::Stop,
        false => SupervisorDirective::Restart,
    };
    let sim = Sim::new(1);
    let system = ActorSystem::builder("s").runtime(sim.runtime()).strategy(by_reason).build().unwrap();
    let log = Log::new();
    let children = Log::new();
    let top = system.spawn("top", NamedActor::props("top", &log)).unwrap();
    let supervisor = system.supervisor("supervisor", by_reason).unwrap();
    let child = supervisor.spawn("child", NamedActor::props("child", &log)).unwrap();
    let parent = system.spawn("parent", TestActor::props(&Log::new()).supervise(by_reason)).unwrap();
    let (spawned, child_log) = (children.clone(), log.clone());
    parent.tell(Job::act(move |cx| spawned.push(cx.spawn("child", NamedActor::props("child", &child_log)).unwrap()))).unwrap();
    sim.settle();
    for actor in [top, child, children.take().remove(0)] {
        actor.tell(false).unwrap();
        sim.settle();
        assert!(matches!(actor.exit(), Some(Exit::Failed(_))), "{actor:?}");
    }
}

#[test]
fn s1_always_restart_has_no_limit() {
    let (sim, log) = (Sim::new(1), Log::new());
    let system = sim.system("s");
    let child = system.supervisor("supervisor", AlwaysRestart).unwrap().spawn("a", NamedActor::props("a", &log)).unwrap();
    (0..10_000).for_each(|_| child.tell(false).unwrap());
    child.tell(true).unwrap();
    sim.settle();
    assert_eq!((log.take().pop().as_deref(), system.failures()), (Some("handled a"), 10_000));
}

#[test]
fn s1_panic_in_a_strategy_escalates_and_is_recorded() {
    quiet();
    explore(0..20, |sim| {
        let (system, log) = (sim.system("s"), Log::new());
        let bad = |_: &FailureInfo| -> SupervisorDirective { std::panic::panic_any(INJECTED) };
        let supervisor = system.supervisor("supervisor", bad).unwrap();
        let child = supervisor.spawn("a", NamedActor::props("a", &log)).unwrap();
        child.tell(false).unwrap();
        sim.settle();
        assert!(child.exit().is_some() && supervisor.any().exit().is_some());
        assert_eq!((system.failures(), system.unhandled()), (2, 1));
    });
}

#[test]
fn s5_child_is_restarted_while_its_parent_handles_a_message() {
    explore(0..50, |sim| {
        let (system, log, child_log) = (sim.system("s"), Log::new(), Log::new());
        let (gate, children) = (Gate::new(), Log::new());
        let parent = system.spawn("parent", TestActor::props(&log)).unwrap();
        let (spawned, entries) = (children.clone(), child_log.clone());
        parent
            .tell(Job::act(move |cx| spawned.push(cx.spawn("child", NamedActor::props("child", &entries)).unwrap())))
            .unwrap();
        parent.tell(Job::Pass(gate.clone(), 1)).unwrap();
        sim.settle();
        let child: ActorRef<bool> = children.take().remove(0);
        child.tell(false).unwrap();
        child.tell(true).unwrap();
        sim.settle();
        assert_eq!(child_log.take(), ["up child", "down child", "up child", "handled child"]);
        assert_eq!(log.take(), ["started 0"], "the parent is still busy");
        // It does not delay an escalation either.
        (0..3).for_each(|_| child.tell(false).unwrap());
        sim.settle();
        assert_eq!(system.unhandled(), 1, "the limit is exceeded, and the root knows");
        gate.open();
        assert!(matches!(sim.run(parent.exited()), Exit::Failed(_)));
        assert_eq!(log.take(), ["1", "stopped 0 failed"], "the parent finished its current message");
    });
}
