//! Groups that restart together: the tasks of their members against each other, against orders from above, and against ends.
//!
//! A child's mailbox is filled and its input ended before it runs, so that a thread of the model ends with its child: whoever waits for
//! its group and is never told to start is a deadlock, and the model fails.
//!
//! Proves for these orders: S2 (a group that goes down comes up again, whoever fails or leaves meanwhile), S13 (an order from above that
//! comes in the midst of that neither stalls nor is lost), A7 (stop, close and cancel reach an actor that waits for its group).

use crate::actor::Actor;
use crate::actor::actor_ref::ActorRef;
use crate::actor::context::Context;
use crate::actor::props::Props;
use crate::base::reason::Reason;
use crate::events::cause::Exit;
use crate::ids::name::Name;
use crate::models::{ByHand, Mark, block_on, explore};
use crate::scope::Scope;
use crate::scope::supervisor::Supervisor;
use crate::supervise::decide::RestartPolicy;
use crate::supervise::restart_plan::Report;
use crate::tree::member::{Member, StopMode};
use crate::tree::node::{Node, NodeParent};
use crate::tree::supervision;
use crate::tree::supervision::restart_together::Progress;
use crate::tree::supervision::strategy::OneForAll;
use crate::tree::supervision::{ChildAction, FailedChild};
use alloc::sync::Arc;
use core::mem;
use core::time::Duration;
use loom::sync::{Condvar, Mutex};
use loom::thread::{self, JoinHandle};

/// Fails when told to.
struct Fallible;

enum Told {
    Nothing,
    Fail,
}

impl Actor for Fallible {
    type Msg = Told;
    type Error = &'static str;

    async fn handle(&mut self, told: Told, _cx: &mut Context<Self>) -> Result<(), &'static str> {
        match told {
            Told::Nothing => Ok(()),
            Told::Fail => Err("told to fail"),
        }
    }
}

/// Has a supervisor halt or start, as the plan of its parent would.
fn order(supervisor: &Arc<dyn Member>, order: fn(&Node) -> Progress) {
    match order(supervisor.node()) {
        Progress::ByPlan => supervision::advance(supervisor),
        Progress::AtOnce(report) => drop(supervision::report(supervisor.node(), report)),
        Progress::ByItself => {}
    }
}

/// A one-for-all supervisor, whose children run on threads of their own once the model says so.
struct Group {
    runtime: Arc<ByHand>,
    _scope: Scope,
    supervisor: Supervisor,
}

impl Group {
    fn new() -> Self {
        let runtime = ByHand::new();
        let scope = Scope::under(&runtime.token());
        let supervisor = Supervisor::below(&scope.any().member, "group", OneForAll::new()).unwrap();
        Self { runtime, _scope: scope, supervisor }
    }

    /// A child that is told this, and then nothing more if its input is to end.
    fn child(&self, name: &str, policy: RestartPolicy, told: impl IntoIterator<Item = Told>) -> ActorRef<Told> {
        let child = self.supervisor.spawn(name, Props::new(|| Fallible).restart(policy)).unwrap();
        told.into_iter().for_each(|told| assert!(child.tell(told).is_ok()));
        child
    }

    /// One whose input has ended.
    fn closed(&self, name: &str, told: impl IntoIterator<Item = Told>) -> ActorRef<Told> {
        let child = self.child(name, RestartPolicy::Transient, told);
        child.close();
        child
    }

    fn member(&self) -> Arc<dyn Member> {
        self.supervisor.any().member
    }

    /// Runs the next child, in start order, to its end.
    fn run_next(&self) -> JoinHandle<()> {
        let task = self.runtime.take().unwrap();
        thread::spawn(move || block_on(task))
    }

    fn run_next_here(&self) {
        block_on(self.runtime.take().unwrap());
    }
}

fn assert_closed(child: &ActorRef<Told>, handled: u64, failed: u64) {
    let counts = child.counts();
    assert_eq!((counts.handled, counts.failed, counts.dead_lettered), (handled, failed, 0), "{}", child.path());
    assert_eq!(child.exit(), Some(Exit::Closed));
}

/// The order to start may come before, while or after the actor goes to wait for it.
#[test]
fn loom_s13_waiting_for_the_group_against_start() {
    explore(|| {
        let group = Group::new();
        let child = group.closed("a", [Told::Nothing]);
        let runs = group.run_next();
        order(&group.member(), supervision::halt);
        order(&group.member(), supervision::start);
        runs.join().unwrap();
        assert_closed(&child, 1, 0);
    });
}

/// Nobody is going to say start: the stop alone must reach it.
#[test]
fn loom_a7_waiting_for_the_group_against_stop() {
    explore(|| {
        let group = Group::new();
        let child = group.child("a", RestartPolicy::Transient, []);
        let runs = group.run_next();
        order(&group.member(), supervision::halt);
        child.stop();
        runs.join().unwrap();
        assert_eq!(child.exit(), Some(Exit::Stopped));
    });
}

#[test]
fn loom_a7_waiting_for_the_group_against_cancel() {
    explore(|| {
        let group = Group::new();
        let child = group.child("a", RestartPolicy::Permanent, []);
        let runs = group.run_next();
        order(&group.member(), supervision::halt);
        child.cancel("now");
        runs.join().unwrap();
        assert_eq!(child.exit(), Some(Exit::Cancelled("now".into())));
    });
}

/// The supervisor ends its children's input: what is queued is handled, though nobody says start.
#[test]
fn loom_a7_waiting_for_the_group_against_the_end_of_all_input() {
    explore(|| {
        let group = Group::new();
        let child = group.child("a", RestartPolicy::Permanent, [Told::Nothing]);
        let runs = group.run_next();
        order(&group.member(), supervision::halt);
        group.supervisor.any().close();
        runs.join().unwrap();
        assert_closed(&child, 1, 0);
        assert_eq!(group.supervisor.any().exit(), Some(Exit::Closed));
    });
}

/// One of a group leaves by itself while the other's failure brings the group down.
#[test]
fn loom_s2_a_child_leaves_while_its_group_restarts() {
    explore(|| {
        let group = Group::new();
        let fails = group.closed("a", [Told::Fail, Told::Nothing]);
        let leaves = group.closed("b", []);
        let runs = group.run_next();
        group.run_next_here();
        runs.join().unwrap();
        assert_closed(&fails, 1, 1);
        assert_closed(&leaves, 0, 0);
    });
}

/// A child that does what the guardian tells it and nothing else, so that its thread is short: what halts and starts a cell is two bits
/// in a word, and here two fields.
struct Puppet {
    node: Node,
    orders: Mutex<Orders>,
    changed: Condvar,
}

#[derive(Default)]
struct Orders {
    halt: bool,
    go: bool,
    over: bool,
}

impl Puppet {
    fn order(&self, change: impl FnOnce(&mut Orders)) {
        change(&mut self.orders.lock().unwrap());
        self.changed.notify_one();
    }

    /// Fails, and halts as it is told to.
    fn fail(&self, troupe: &Troupe) {
        let failure = self.node.failure(0, Reason::Error("told to fail".into()));
        let (verdict, _) = supervision::judge(&self.node, FailedChild::Actor, failure);
        assert_eq!(verdict, ChildAction::Wait(Duration::ZERO));
        self.orders.lock().unwrap().halt = false;
        troupe.troubles.add();
        supervision::report(&self.node, Report::Halted);
        troupe.end_if_settled();
    }

    /// Halts and starts as it is told, until the model is over. True if it was up at that.
    fn dance(&self, troupe: &Troupe, mut up: bool) -> bool {
        loop {
            let mut orders = self.orders.lock().unwrap();
            let report = if mem::take(&mut orders.halt) {
                Report::Halted
            } else if mem::take(&mut orders.go) {
                Report::Started
            } else if orders.over {
                return up;
            } else {
                drop(self.changed.wait(orders).unwrap());
                continue;
            };
            drop(orders);
            up = report == Report::Started;
            supervision::report(&self.node, report);
            troupe.end_if_settled();
        }
    }
}

impl Member for Puppet {
    fn node(&self) -> &Node {
        &self.node
    }

    fn stop_by(self: Arc<Self>, _how: StopMode) {}

    fn on_cancel(self: Arc<Self>) {}

    fn exit_when_childless(&self) -> Option<Exit> {
        None
    }

    fn halt(self: Arc<Self>) -> Progress {
        self.order(|orders| (orders.go, orders.halt) = (false, true));
        Progress::ByItself
    }

    fn start_again(self: Arc<Self>) -> Progress {
        self.order(|orders| (orders.go, orders.halt) = (true, false));
        Progress::ByItself
    }
}

/// Two puppets, and how much trouble is still to come.
struct Troupe {
    group: Group,
    puppets: [Arc<Puppet>; 2],
    troubles: Mark,
    troubles_in_all: usize,
}

impl Troupe {
    fn new(troubles_in_all: usize) -> Arc<Self> {
        let group = Group::new();
        let puppets = [(); 2].map(|()| {
            let id = group.member().node().tree().next_id();
            let node = Node::new(NodeParent::Member(group.member()), id, Name::made(id));
            let puppet = Arc::new(Puppet { node, orders: Mutex::new(Orders::default()), changed: Condvar::new() });
            assert!(group.member().node().adopt(Arc::clone(&puppet) as Arc<dyn Member>).is_ok());
            puppet
        });
        Arc::new(Self { group, puppets, troubles: Mark::new(), troubles_in_all })
    }

    /// Once all the trouble has been and no plan is left, the model is over.
    fn end_if_settled(&self) {
        // In this order: with all the trouble behind, a plan that is gone is the last.
        let settled = || self.group.member().node().with_supervision(|guardian| guardian.regroup.is_none());
        if self.troubles.get() == self.troubles_in_all && settled() {
            self.puppets.iter().for_each(|puppet| puppet.order(|orders| orders.over = true));
        }
    }

    /// Runs the puppet at `at` on a thread: it may fail first. Gives whether it was up in the end.
    fn run(self: &Arc<Self>, at: usize, fails: bool) -> JoinHandle<bool> {
        let troupe = Arc::clone(self);
        thread::spawn(move || {
            let puppet = &troupe.puppets[at];
            if fails {
                puppet.fail(&troupe);
            }
            puppet.dance(&troupe, !fails)
        })
    }
}

/// Both fail, each perhaps while it is being halted for the other, or after it was started with it.
#[test]
fn loom_s2_two_of_a_group_fail_at_once() {
    explore(|| {
        let troupe = Troupe::new(2);
        let runs = [troupe.run(0, true), troupe.run(1, true)];
        assert_eq!(runs.map(|runs| runs.join().unwrap()), [true, true]);
    });
}

/// An order from above makes a new plan, perhaps while a step of the old one is being carried out: that step must not undo what the new
/// one has ordered since.
#[test]
fn loom_s13_an_order_from_above_against_a_group_that_restarts() {
    explore(|| {
        let troupe = Troupe::new(2);
        let runs = [troupe.run(0, true), troupe.run(1, false)];
        order(&troupe.group.member(), supervision::halt);
        order(&troupe.group.member(), supervision::start);
        troupe.troubles.add();
        troupe.end_if_settled();
        assert_eq!(runs.map(|runs| runs.join().unwrap()), [true, true]);
    });
}
