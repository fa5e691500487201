//! W1: a send never waits for good for a sibling that is down while their supervisor ends both.

use crate::common::{Doer, Gate, Job, Log};
use pleach::prelude::*;
use pleach::sim::{Sim, explore};

/// Three members of a group: `a` has a full mailbox and fails at its gate, `c` is held up in a handler.
struct Trio {
    group: Supervisor,
    a: ActorRef<Job>,
    fail_a: Gate,
    hold_c: Gate,
}

/// Starts the group, with `between` called after `a` and before `c`.
fn trio(sim: &Sim, system: &ActorSystem, between: impl FnOnce(&Supervisor)) -> Trio {
    let log = Log::new();
    let group = system.supervisor("group", OneForAll::new()).unwrap();
    let a = group.spawn("a", Doer::props(&log).mailbox(Mailbox::bounded(1))).unwrap();
    between(&group);
    let c = group.spawn("c", Doer::props(&log)).unwrap();
    let (fail_a, hold_c) = (Gate::new(), Gate::new());
    let failing = fail_a.clone();
    let fails = Job::work(move |_| async move {
        failing.pass().await;
        Err("told to fail".into())
    });
    a.tell(fails).unwrap();
    c.tell(Job::Pass(hold_c.clone(), 0)).unwrap();
    sim.settle();
    a.tell(Job::Note(1)).unwrap();
    Trio { group, a, fail_a, hold_c }
}

/// Has an actor send to `to`, and note that it was let in or refused.
fn send(to: &ActorRef<Job>, answers: &Log<bool>) -> Job {
    let (to, answers) = (to.clone(), answers.clone());
    Job::work(move |_| async move {
        answers.push(to.send(Job::Note(2)).await.is_ok());
        Ok(())
    })
}

#[test]
fn w1_send_to_a_sibling_that_fails_while_the_group_ends_is_admitted() {
    explore(0..50, |sim| {
        let (system, answers) = (sim.system("s"), Log::new());
        let Trio { group, a, fail_a, hold_c } = trio(sim, &system, |_| {});
        let log = Log::new();
        let sender = group.spawn("sender", Doer::props(&log)).unwrap();
        sender.tell(send(&a, &answers)).unwrap();
        sim.settle();
        group.any().stop();
        sim.settle();
        // It is down from now on: the group ends the sender first.
        fail_a.open();
        hold_c.open();
        sim.settle();
        assert_eq!(answers.take(), [true]);
        assert_eq!(group.any().exit(), Some(Exit::Stopped));
    });
}

#[test]
fn w1_send_below_an_actor_that_ends_before_its_group_is_admitted() {
    explore(0..50, |sim| {
        let (system, answers, senders) = (sim.system("s"), Log::new(), Log::new());
        let log = Log::new();
        let mut b = None;
        let Trio { group, a, fail_a, hold_c } = trio(sim, &system, |group| {
            b = Some(group.spawn("b", Doer::props(&log)).unwrap());
        });
        let (born, notes) = (senders.clone(), log.clone());
        let b = b.unwrap();
        b.tell(Job::act(move |cx| born.push(cx.spawn("sender", Doer::props(&notes)).unwrap()))).unwrap();
        sim.settle();
        let sender: ActorRef<Job> = senders.take().remove(0);
        sender.tell(send(&a, &answers)).unwrap();
        sim.settle();
        fail_a.open();
        sim.settle();
        // The group goes down and waits for `c`. Meanwhile `b` ends its child.
        b.tell(Job::Fail("told to fail")).unwrap();
        sim.settle();
        group.any().stop();
        hold_c.open();
        sim.settle();
        assert_eq!(answers.take(), [true]);
        assert_eq!(group.any().exit(), Some(Exit::Stopped));
    });
}

#[test]
fn w1_send_below_a_supervisor_that_ends_before_its_group_is_admitted() {
    explore(0..50, |sim| {
        let (system, answers, log) = (sim.system("s"), Log::new(), Log::new());
        let mut inner = None;
        let Trio { group, a, fail_a, hold_c } = trio(sim, &system, |group| {
            let made = group.supervisor("inner", OneForOne::new()).unwrap();
            inner = Some((made.spawn("sender", Doer::props(&log)).unwrap(), made));
        });
        let (sender, inner) = inner.unwrap();
        sender.tell(send(&a, &answers)).unwrap();
        sim.settle();
        fail_a.open();
        inner.any().stop();
        sim.settle();
        group.any().stop();
        hold_c.open();
        sim.settle();
        assert_eq!(answers.take(), [true]);
        assert_eq!(group.any().exit(), Some(Exit::Stopped));
    });
}
