//! K4: what `AnyRef::supervision` says before a failure is what the supervisor then decides.

use crate::common::{Job, Log, TestActor, quiet};
use crate::{escalate, ms};
use SupervisorDirective::{Escalate, Restart, Resume, Stop};
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::supervise::{RestartLimitScope, RestartPolicy, SupervisorStrategy};
use pleach::system::System;

/// The directive, and the siblings that are affected.
type Decided = (SupervisorDirective, Vec<String>);

fn names(paths: &[ActorPath]) -> Vec<String> {
    paths.iter().map(ToString::to_string).collect()
}

/// Records the decisions about the member at `path` from now on.
fn decisions(system: &System, path: &str) -> Log<Decided> {
    let (log, path) = (Log::new(), path.to_string());
    let seen = log.clone();
    system.on_event(move |event| {
        if let Event::Decided { failure, directive, scope } = event
            && failure.path().to_string() == path
        {
            seen.push((*directive, names(&scope.siblings)));
        }
    });
    log
}

fn predicted(member: &AnyRef) -> Option<Decided> {
    let info = member.supervision().unwrap();
    info.directive.map(|directive| (directive, names(&info.siblings)))
}

/// Lets `member` fail `times` times. Each time, what was predicted must be what is decided. Returns
/// the directives.
fn fail(sim: &Sim, system: &System, member: &AnyRef, actor: &ActorRef<Job>, times: usize) -> Vec<SupervisorDirective> {
    let decided = decisions(system, &member.path().to_string());
    let once = |_| {
        let before = predicted(member).expect("the strategy always decides the same");
        actor.tell(Job::Fail("no")).unwrap();
        sim.settle();
        assert_eq!(decided.take(), std::slice::from_ref(&before), "{}", member.path());
        before.0
    };
    (0..times).map(once).collect()
}

fn one(limit: u32, scope: RestartLimitScope) -> OneForOne {
    OneForOne::new().restart_limit(limit, ms(60_000)).limit_scope(scope)
}

/// Spawns two actors below a supervisor with this strategy, the first with this policy. Returns
/// what is decided about failures of the first.
fn below(strategy: impl SupervisorStrategy, policy: RestartPolicy, times: usize) -> Vec<SupervisorDirective> {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let supervisor = system.supervisor("pair", strategy).unwrap();
    let first = supervisor.spawn("first", TestActor::props(&Log::new()).restart(policy)).unwrap();
    let _second = supervisor.spawn("second", TestActor::props(&Log::new())).unwrap();
    sim.settle();
    fail(&sim, &system, &first.any(), &first, times)
}

#[test]
fn k4_predicted_decision_is_made_for_each_strategy_and_policy() {
    use RestartLimitScope::{PerChild, Shared};
    use RestartPolicy::{Permanent, Temporary, Transient};
    for policy in [Permanent, Transient] {
        assert_eq!(below(one(1, Shared), policy, 2), [Restart, Escalate]);
        assert_eq!(below(one(1, PerChild), policy, 2), [Restart, Stop]);
        assert_eq!(below(OneForAll::new().restart_limit(1, ms(60_000)), policy, 2), [Restart, Escalate]);
        assert_eq!(below(RestForOne::new().restart_limit(0, ms(60_000)), policy, 1), [Escalate]);
        assert_eq!(below(one(u32::MAX, Shared), policy, 6), [Restart; 6]);
    }
    assert_eq!(below(one(0, Shared), Temporary, 1), [Stop]);
    assert_eq!(below(OneForAll::new(), Temporary, 1), [Stop]);
    for policy in [Permanent, Transient, Temporary] {
        assert_eq!(below(escalate(), policy, 1), [Escalate]);
        assert_eq!(below(OneForOne::new().always(Stop), policy, 1), [Stop]);
        assert_eq!(below(one(0, Shared).always(Resume), policy, 2), [Resume; 2]);
    }
}

#[test]
fn k4_predicted_decision_at_the_top_escalates_without_restarts_left() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let [a, _b] = ["a", "b"].map(|name| system.spawn(name, TestActor::props(&Log::new())).unwrap());
    sim.settle();
    assert_eq!(fail(&sim, &system, &a.any(), &a, 4), [Restart, Restart, Restart, Escalate]);
    // A supervisor fails by a failure from below, which is not restarted at the top.
    let supervisor = system.supervisor("supervisor", one(0, RestartLimitScope::Shared)).unwrap();
    let child = supervisor.spawn("child", TestActor::props(&Log::new())).unwrap();
    sim.settle();
    assert_eq!(fail(&sim, &system, &supervisor.any(), &child, 1), [Escalate]);
    // One below another supervisor is.
    let outer = system.supervisor("outer", one(1, RestartLimitScope::Shared)).unwrap();
    let inner = outer.supervisor("inner", one(0, RestartLimitScope::Shared)).unwrap();
    let child = inner.spawn("child", TestActor::props(&Log::new())).unwrap();
    sim.settle();
    assert_eq!(fail(&sim, &system, &inner.any(), &child, 2), [Restart, Escalate]);
}

#[test]
fn k4_predicted_decision_leaves_out_siblings_given_up() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let pair = system.supervisor("pair", one(0, RestartLimitScope::PerChild)).unwrap();
    let [a, b] = ["a", "b"].map(|name| pair.spawn(name, TestActor::props(&Log::new())).unwrap());
    let gate = crate::common::Gate::new();
    let held = gate.clone();
    // A child of `a` holds it in its exit, so `b` is the last one although `a` is still there.
    let hold = Job::act(move |cx| {
        let guard = cx.spawn("guard", TestActor::props(&Log::new())).unwrap();
        let pass = Job::work(async move |_| {
            held.pass().await;
            Ok(())
        });
        guard.tell(pass).unwrap();
    });
    a.tell(hold).unwrap();
    sim.settle();
    assert_eq!(fail(&sim, &system, &a.any(), &a, 1), [Stop]);
    assert_eq!((pair.children().len(), a.exit()), (2, None));
    assert_eq!(fail(&sim, &system, &b.any(), &b, 1), [Escalate]);
    gate.open();
    sim.settle();
}

#[test]
fn k4_predicted_decision_in_scopes_is_made() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let scope = system.scope("scope").unwrap();
    let isolated = scope.isolated_scope("isolated").unwrap();
    for (scope, passes_up) in [(&isolated, false), (&scope, true)] {
        let [a, b] = ["a", "b"].map(|name| scope.spawn(name, TestActor::props(&Log::new())).unwrap());
        sim.settle();
        assert_eq!(fail(&sim, &system, &a.any(), &a, 4), [Restart, Restart, Restart, Escalate]);
        assert_eq!(b.exit().is_some(), passes_up, "the sibling of {}", a.path());
    }
}

#[test]
fn k4_failed_task_does_to_its_scope_what_was_predicted() {
    quiet();
    let fails = async || Err::<(), _>("no");
    for (is_isolated, directive) in [(false, Escalate), (true, Stop)] {
        let sim = Sim::new(1);
        let system = sim.system("s");
        let scope = system.scope("scope").unwrap();
        let other = scope.launch(std::future::pending::<()>()).unwrap();
        let task = scope.task().named("task");
        let task = if is_isolated { task.isolated() } else { task }.launch(fails()).unwrap();
        let siblings = if is_isolated { Vec::new() } else { vec![other.path().to_string()] };
        assert_eq!(predicted(&task.any()), Some((directive, siblings)));
        sim.settle();
        assert!(matches!(task.any().exit(), Some(Exit::Failed(_))));
        assert_eq!(other.any().exit().is_some(), !is_isolated);
        assert_eq!(system.unhandled(), usize::from(!is_isolated));
    }
}

#[test]
fn k4_failed_scope_does_to_the_scope_above_what_was_predicted() {
    for (is_isolated, directive) in [(false, Escalate), (true, Stop)] {
        let sim = Sim::new(1);
        let system = sim.system("s");
        let outer = system.scope("outer").unwrap();
        let inner = if is_isolated { outer.isolated_scope("inner") } else { outer.scope("inner") }.unwrap();
        inner.launch(async { Err::<(), _>("no") }).unwrap();
        assert_eq!(predicted(&inner.any()), Some((directive, Vec::new())));
        assert_eq!(predicted(&outer.any()), Some((Escalate, Vec::new())));
        sim.settle();
        assert_eq!(outer.any().exit().is_some(), !is_isolated);
    }
}
