//! O1: what each member is doing now, without any work of the member for it.

use crate::common::{Gate, Job, Log, TestActor, quiet};
use pleach::inspect::{Activity, WaitKind};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};
use pleach::supervise::ExponentialBackoff;
use pleach::{BoxError, Mailbox};
use std::time::Duration;

fn props() -> Props<TestActor> {
    TestActor::props(&Log::new())
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn o1_activity_follows_the_life_of_an_actor() {
    quiet();
    explore(0..20, |sim| {
        let system = sim.system("s");
        let strategy = OneForOne::new().backoff(ExponentialBackoff::new(seconds(4), seconds(4)).jitter(0.0));
        let supervisor = system.supervisor("supervisor", strategy).unwrap();
        let actor = supervisor.spawn("actor", props()).unwrap();
        let any = actor.any();
        assert_eq!(any.activity(), Activity::Starting);
        sim.settle();
        assert_eq!(any.activity(), Activity::Idle);
        let gate = Gate::new();
        actor.tell(Job::Pass(gate.clone(), 1)).unwrap();
        sim.settle();
        assert!(matches!(any.activity(), Activity::Handling { .. }), "{:?}", any.activity());
        gate.open();
        sim.settle();
        assert_eq!(any.activity(), Activity::Idle);
        any.suspend().unwrap();
        sim.settle();
        assert_eq!(any.activity(), Activity::Suspended);
        actor.tell(Job::Note(2)).unwrap();
        sim.settle();
        assert_eq!((any.activity(), any.queued()), (Activity::Suspended, 1));
        any.resume().unwrap();
        sim.settle();
        assert_eq!((any.activity(), any.queued()), (Activity::Idle, 0));
        actor.tell(Job::Fail("broken")).unwrap();
        sim.settle();
        assert_eq!(any.activity(), Activity::WaitingToRestart { remaining: Some(seconds(4)) });
        sim.run(sim.sleep(seconds(3)));
        assert_eq!(any.activity(), Activity::WaitingToRestart { remaining: Some(seconds(1)) });
        sim.run(sim.sleep(seconds(2)));
        assert_eq!((any.activity(), any.info().actor.unwrap().incarnation), (Activity::Idle, 1));
        any.stop();
        sim.settle();
        assert_eq!(any.activity(), Activity::Ended);
    });
}

#[test]
fn o1_handling_time_counts_from_the_first_observation() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let (actor, gate) = (TestActor::spawn(&system, "actor"), Gate::new());
    actor.tell(Job::Pass(gate.clone(), 1)).unwrap();
    actor.tell(Job::Pass(gate.clone(), 2)).unwrap();
    sim.run(sim.sleep(seconds(5)));
    let handling = |for_at_least| Activity::Handling { for_at_least, is_exact: false };
    assert_eq!(actor.any().activity(), handling(Duration::ZERO), "the first look");
    sim.run(sim.sleep(seconds(7)));
    assert_eq!(actor.any().activity(), handling(seconds(7)));
    // The next message counts on its own.
    gate.open();
    sim.settle();
    assert_eq!(actor.any().activity(), handling(Duration::ZERO));
    sim.run(sim.sleep(seconds(2)));
    assert_eq!(actor.any().activity(), handling(seconds(2)));
}

#[test]
fn o1_handling_time_is_exact_while_lints_are_wanted() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let _lints = system.hub().listen_to(EventKinds::LINTS, |_| {});
    let (actor, gate) = (TestActor::spawn(&system, "actor"), Gate::new());
    sim.settle();
    actor.tell(Job::Pass(gate, 1)).unwrap();
    // Before and after the handler is reported as a long one.
    for millis in [700, 4_700] {
        sim.run(sim.sleep(Duration::from_millis(millis)));
        let since = if millis == 700 { millis } else { 5_400 };
        let exact = Activity::Handling { for_at_least: Duration::from_millis(since), is_exact: true };
        assert_eq!(actor.any().activity(), exact);
    }
}

#[test]
fn o1_asks_and_exits_that_a_member_awaits_are_shown() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let (asking, asked) = (TestActor::spawn(&system, "asking"), TestActor::spawn(&system, "asked"));
    let gate = Gate::new();
    asked.tell(Job::Pass(gate, 1)).unwrap();
    let to = asked.clone();
    asking
        .tell(Job::work(move |_| async move {
            to.ask(|reply| Job::Answer(reply, 5)).await?;
            Ok::<(), BoxError>(())
        }))
        .unwrap();
    let scope = system.scope("scope").unwrap();
    let exited = asked.exited();
    let task = scope.launch(async move { drop(exited.await) }).unwrap();
    sim.settle();
    let wait = |any: AnyRef| any.info().waits.into_iter().map(|wait| (wait.kind, wait.on.to_string())).collect::<Vec<_>>();
    assert_eq!(wait(asking.any()), [(WaitKind::Answer, "/user/asked".to_string())]);
    assert_eq!(wait(task.any()), [(WaitKind::Exit, "/user/asked".to_string())]);
    assert_eq!(task.any().activity(), Activity::Waiting);
    assert_eq!(wait(asked.any()), []);
}

/// Waits at a gate in its hooks.
struct SlowHooks(Gate);

impl Actor for SlowHooks {
    type Msg = ();
    type Error = BoxError;

    async fn started(&mut self, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.0.pass().await;
        Ok(())
    }

    async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), BoxError> {
        Err("broken".into())
    }

    async fn restarting(&mut self, _failure: &FailureInfo, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.0.pass().await;
        Ok(())
    }

    async fn stopped(&mut self, _exit: &Exit, _cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.0.pass().await;
        Ok(())
    }
}

#[test]
fn o1_hooks_show_as_starting_restarting_and_stopping() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let gate = Gate::new();
    let in_hooks = gate.clone();
    let actor = system.spawn("actor", Props::new(move || SlowHooks(in_hooks.clone()))).unwrap();
    sim.settle();
    assert_eq!(actor.any().activity(), Activity::Starting);
    let open = || {
        gate.open();
        sim.settle();
        actor.any().activity()
    };
    assert_eq!(open(), Activity::Idle);
    actor.tell(()).unwrap();
    sim.settle();
    // The `restarting` hook runs before the incarnation ends, with its message not settled.
    assert!(!matches!(actor.any().activity(), Activity::Idle | Activity::Ended));
    assert_eq!(open(), Activity::Restarting, "the `stopped` hook of the first incarnation");
    assert_eq!(open(), Activity::Starting, "the `started` hook of the second");
    assert_eq!(open(), Activity::Idle);
    actor.stop();
    sim.settle();
    assert_eq!(actor.any().activity(), Activity::Stopping);
    assert_eq!(open(), Activity::Ended);
}

#[test]
fn o1_members_without_a_mailbox_show_what_they_do() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let scope = system.scope("scope").unwrap();
    let gate = Gate::new();
    let task = scope.launch(gate.pass()).unwrap();
    assert_eq!(task.any().activity(), Activity::Ready);
    sim.settle();
    assert_eq!((task.any().activity(), scope.any().activity()), (Activity::Waiting, Activity::Open));
    scope.close();
    assert_eq!(scope.any().activity(), Activity::Stopping);
    let closing = scope.any().info();
    assert_eq!(closing.waits[0].on, task.path());
    gate.open();
    sim.settle();
    assert_eq!(scope.any().activity(), Activity::Ended);
}

#[test]
fn o1_orders_that_a_member_cannot_follow_are_errors() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let scope = system.scope("scope").unwrap();
    let error = scope.any().suspend().unwrap_err();
    assert_eq!(error.to_string(), "cannot suspend /user/scope, which is a scope: only actors have a mailbox to wait with");
    assert!(scope.any().resume().is_err() && scope.any().restart().is_err());
    let actor = system.spawn("actor", props().mailbox(Mailbox::bounded(1))).unwrap();
    sim.settle();
    actor.any().restart().unwrap();
    sim.settle();
    assert_eq!(actor.any().info().actor.unwrap().incarnation, 1);
    assert_eq!(actor.any().restarts().unwrap().used, 0, "an order is not a failure");
}
