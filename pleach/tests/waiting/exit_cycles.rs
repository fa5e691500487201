//! W1: a send to a sibling that is down never waits forever while their supervisor ends both.

use crate::common::{Gate, Job, Log, TestActor};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};

/// Two children of a supervisor: `a` has a full mailbox and fails at its gate, `c` waits in a
/// handler.
struct TestGroup {
    group: Supervisor,
    a: ActorRef<Job>,
    fail_a: Gate,
    release_c: Gate,
}

/// Starts the group. Calls `between` after `a` and before `c` was spawned.
fn start_group(sim: &Sim, system: &ActorSystem, between: impl FnOnce(&Supervisor)) -> TestGroup {
    let log = Log::new();
    let group = system.supervisor("group", OneForAll::new()).unwrap();
    let a = group.spawn("a", TestActor::props(&log).mailbox(Mailbox::bounded(1))).unwrap();
    between(&group);
    let c = group.spawn("c", TestActor::props(&log)).unwrap();
    let (fail_a, release_c) = (Gate::new(), Gate::new());
    let gate = fail_a.clone();
    let wait_and_fail = Job::work(move |_| async move {
        gate.pass().await;
        Err("requested".into())
    });
    a.tell(wait_and_fail).unwrap();
    c.tell(Job::Pass(release_c.clone(), 0)).unwrap();
    sim.settle();
    a.tell(Job::Note(1)).unwrap();
    TestGroup { group, a, fail_a, release_c }
}

/// A job that sends to `to` and logs whether the send was accepted.
fn send(to: &ActorRef<Job>, answers: &Log<bool>) -> Job {
    let (to, answers) = (to.clone(), answers.clone());
    Job::work(move |_| async move {
        answers.push(to.send(Job::Note(2)).await.is_ok());
        Ok(())
    })
}

#[test]
fn w1_send_to_a_sibling_that_fails_while_the_group_ends_is_accepted() {
    explore(0..50, |sim| {
        let (system, answers) = (sim.system("s"), Log::new());
        let TestGroup { group, a, fail_a, release_c } = start_group(sim, &system, |_| {});
        let log = Log::new();
        let sender = group.spawn("sender", TestActor::props(&log)).unwrap();
        sender.tell(send(&a, &answers)).unwrap();
        sim.settle();
        group.any().stop();
        sim.settle();
        // From now on `a` is down, and the group ends the sender first.
        fail_a.open();
        release_c.open();
        sim.settle();
        assert_eq!(answers.take(), [true]);
        assert_eq!(group.any().exit(), Some(Exit::Stopped));
    });
}

#[test]
fn w1_send_below_an_actor_that_ends_before_its_group_is_accepted() {
    explore(0..50, |sim| {
        let (system, answers, senders) = (sim.system("s"), Log::new(), Log::new());
        let log = Log::new();
        let mut b = None;
        let TestGroup { group, a, fail_a, release_c } = start_group(sim, &system, |group| {
            b = Some(group.spawn("b", TestActor::props(&log)).unwrap());
        });
        let (spawned, entries) = (senders.clone(), log.clone());
        let b = b.unwrap();
        b.tell(Job::act(move |cx| spawned.push(cx.spawn("sender", TestActor::props(&entries)).unwrap()))).unwrap();
        sim.settle();
        let sender: ActorRef<Job> = senders.take().remove(0);
        sender.tell(send(&a, &answers)).unwrap();
        sim.settle();
        fail_a.open();
        sim.settle();
        // The group stops and waits for `c`. Meanwhile `b` ends its child.
        b.tell(Job::Fail("requested")).unwrap();
        sim.settle();
        group.any().stop();
        release_c.open();
        sim.settle();
        assert_eq!(answers.take(), [true]);
        assert_eq!(group.any().exit(), Some(Exit::Stopped));
    });
}

#[test]
fn w1_send_below_a_supervisor_that_ends_early_is_accepted() {
    explore(0..50, |sim| {
        let (system, answers, log) = (sim.system("s"), Log::new(), Log::new());
        let mut inner = None;
        let TestGroup { group, a, fail_a, release_c } = start_group(sim, &system, |group| {
            let created = group.supervisor("inner", OneForOne::new()).unwrap();
            inner = Some((created.spawn("sender", TestActor::props(&log)).unwrap(), created));
        });
        let (sender, inner) = inner.unwrap();
        sender.tell(send(&a, &answers)).unwrap();
        sim.settle();
        fail_a.open();
        inner.any().stop();
        sim.settle();
        group.any().stop();
        release_c.open();
        sim.settle();
        assert_eq!(answers.take(), [true]);
        assert_eq!(group.any().exit(), Some(Exit::Stopped));
    });
}
