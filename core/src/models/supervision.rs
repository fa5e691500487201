//! Children that restart together: their tasks against each other, against orders from above, and
//! against exits.
//!
//! The mailbox of a child is filled and closed before it runs, so that a thread of the model ends
//! with its child. A child that waits for the restart plan and never gets its start is a deadlock,
//! which loom reports.
//!
//! Proves: S2 (children that halt together start again, whichever fails or leaves meanwhile), S13
//! (an order from above in the middle of that neither stalls nor is lost), A7 (stop, close and
//! cancel reach an actor that waits for the restart plan).

use crate::actor::Actor;
use crate::actor::actor_ref::ActorRef;
use crate::actor::context::Context;
use crate::actor::props::Props;
use crate::base::reason::Reason;
use crate::events::cause::Exit;
use crate::ids::name::Name;
use crate::models::{LoomCounter, ManualRuntime, block_on, explore};
use crate::scope::Scope;
use crate::scope::supervisor::Supervisor;
use crate::supervise::decide::RestartPolicy;
use crate::supervise::restart_plan::ChildReport;
use crate::tree::facts::{MemberFacts, MemberKind, Work};
use crate::tree::member::{Member, ObservedMember, StopMode, SupervisedMember, WaitingMember};
use crate::tree::node::{Node, NodeParent};
use crate::tree::supervision;
use crate::tree::supervision::restart_together::Progress;
use crate::tree::supervision::strategy::OneForAll;
use crate::tree::supervision::{ChildAction, FailedMemberKind};
use alloc::sync::Arc;
use core::mem;
use core::time::Duration;
use loom::sync::{Condvar, Mutex};
use loom::thread::{self, JoinHandle};

/// Fails on command.
struct TestActor;

enum Command {
    Nothing,
    Fail,
}

impl Actor for TestActor {
    type Msg = Command;
    type Error = &'static str;

    async fn handle(&mut self, command: Command, _cx: &mut Context<Self>) -> Result<(), &'static str> {
        match command {
            Command::Nothing => Ok(()),
            Command::Fail => Err("failed on command"),
        }
    }
}

/// Halts or starts a supervisor, as the restart plan of its parent would.
fn order(supervisor: &Arc<dyn Member>, order: fn(&Node) -> Progress) {
    match order(supervisor.node()) {
        Progress::Planned => supervision::advance(supervisor),
        Progress::Done(report) => drop(supervision::report(supervisor.node(), report)),
        Progress::Pending => {}
    }
}

/// A one-for-all supervisor, whose children run on threads when the model says so.
struct SupervisedGroup {
    runtime: Arc<ManualRuntime>,
    _scope: Scope,
    supervisor: Supervisor,
}

impl SupervisedGroup {
    fn new() -> Self {
        let runtime = ManualRuntime::new();
        let scope = Scope::under(&runtime.token());
        let supervisor = Supervisor::below(&scope.any().member, "group", OneForAll::new()).unwrap();
        Self { runtime, _scope: scope, supervisor }
    }

    /// Starts a child and sends it these commands.
    fn child(&self, name: &str, policy: RestartPolicy, commands: impl IntoIterator<Item = Command>) -> ActorRef<Command> {
        let child = self.supervisor.spawn(name, Props::new(|| TestActor).restart(policy)).unwrap();
        commands.into_iter().for_each(|command| assert!(child.tell(command).is_ok()));
        child
    }

    /// Starts a child, sends it these commands, and closes its input.
    fn closed(&self, name: &str, commands: impl IntoIterator<Item = Command>) -> ActorRef<Command> {
        let child = self.child(name, RestartPolicy::Transient, commands);
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

fn assert_closed(child: &ActorRef<Command>, handled: u64, failed: u64) {
    let counts = child.counts();
    assert_eq!((counts.handled, counts.failed, counts.dead_lettered), (handled, failed, 0), "{}", child.path());
    assert_eq!(child.exit(), Some(Exit::Closed));
}

/// The start may come before, while or after the actor begins to wait for it.
#[test]
fn loom_s13_waiting_for_the_plan_against_start() {
    explore(|| {
        let group = SupervisedGroup::new();
        let child = group.closed("a", [Command::Nothing]);
        let runs = group.run_next();
        order(&group.member(), supervision::halt);
        order(&group.member(), supervision::start);
        runs.join().unwrap();
        assert_closed(&child, 1, 0);
    });
}

/// No start will come: the stop alone must reach the actor.
#[test]
fn loom_a7_waiting_for_the_plan_against_stop() {
    explore(|| {
        let group = SupervisedGroup::new();
        let child = group.child("a", RestartPolicy::Transient, []);
        let runs = group.run_next();
        order(&group.member(), supervision::halt);
        child.stop();
        runs.join().unwrap();
        assert_eq!(child.exit(), Some(Exit::Stopped));
    });
}

#[test]
fn loom_a7_waiting_for_the_plan_against_cancel() {
    explore(|| {
        let group = SupervisedGroup::new();
        let child = group.child("a", RestartPolicy::Permanent, []);
        let runs = group.run_next();
        order(&group.member(), supervision::halt);
        child.cancel("now");
        runs.join().unwrap();
        assert_eq!(child.exit(), Some(Exit::Cancelled("now".into())));
    });
}

/// The supervisor closes its children. Queued messages are handled although no start comes.
#[test]
fn loom_a7_waiting_for_the_plan_against_close() {
    explore(|| {
        let group = SupervisedGroup::new();
        let child = group.child("a", RestartPolicy::Permanent, [Command::Nothing]);
        let runs = group.run_next();
        order(&group.member(), supervision::halt);
        group.supervisor.any().close();
        runs.join().unwrap();
        assert_closed(&child, 1, 0);
        assert_eq!(group.supervisor.any().exit(), Some(Exit::Closed));
    });
}

/// One child leaves while the failure of the other one halts both.
#[test]
fn loom_s2_a_child_leaves_while_its_siblings_restart() {
    explore(|| {
        let group = SupervisedGroup::new();
        let fails = group.closed("a", [Command::Fail, Command::Nothing]);
        let leaves = group.closed("b", []);
        let runs = group.run_next();
        group.run_next_here();
        runs.join().unwrap();
        assert_closed(&fails, 1, 1);
        assert_closed(&leaves, 0, 0);
    });
}

/// A child that only follows the orders of its supervisor, to keep its thread short. A cell has two
/// bits of its control word for them; this has two fields.
struct TestChild {
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

impl TestChild {
    fn order(&self, change: impl FnOnce(&mut Orders)) {
        change(&mut self.orders.lock().unwrap());
        self.changed.notify_one();
    }

    /// Fails, and halts as ordered.
    fn fail(&self, test: &RestartTest) {
        let failure = self.node.failure(0, Reason::Error("failed on command".into()));
        let (action, _) = supervision::judge(&self.node, FailedMemberKind::Actor, failure);
        assert_eq!(action, ChildAction::Wait(Duration::ZERO));
        self.orders.lock().unwrap().halt = false;
        test.disturbances.add();
        supervision::report(&self.node, ChildReport::Halted);
        test.end_if_settled();
    }

    /// Halts and starts as ordered, until the model is over. Returns whether it was running then.
    fn follow_orders(&self, test: &RestartTest, mut up: bool) -> bool {
        loop {
            let mut orders = self.orders.lock().unwrap();
            let report = if mem::take(&mut orders.halt) {
                ChildReport::Halted
            } else if mem::take(&mut orders.go) {
                ChildReport::Started
            } else if orders.over {
                return up;
            } else {
                drop(self.changed.wait(orders).unwrap());
                continue;
            };
            drop(orders);
            up = report == ChildReport::Started;
            supervision::report(&self.node, report);
            test.end_if_settled();
        }
    }
}

impl Member for TestChild {
    fn node(&self) -> &Node {
        &self.node
    }

    fn stop_with(&self, _this: &Arc<dyn Member>, _how: StopMode) {}

    fn on_cancel(&self, _this: &Arc<dyn Member>) {}

    fn exit_when_childless(&self) -> Option<Exit> {
        None
    }

    fn halt(&self, _this: &Arc<dyn Member>) -> Progress {
        self.order(|orders| (orders.go, orders.halt) = (false, true));
        Progress::Pending
    }
}

impl ObservedMember for TestChild {
    fn facts(&self) -> MemberFacts {
        MemberFacts::new(MemberKind::Task, Work::Waiting)
    }
}

impl SupervisedMember for TestChild {
    fn start_again(&self) -> Progress {
        self.order(|orders| (orders.go, orders.halt) = (true, false));
        Progress::Pending
    }
}

impl WaitingMember for TestChild {}

/// Two test children, and the number of disturbances that are still to come.
struct RestartTest {
    group: SupervisedGroup,
    children: [Arc<TestChild>; 2],
    disturbances: LoomCounter,
    disturbances_total: usize,
}

impl RestartTest {
    fn new(disturbances_total: usize) -> Arc<Self> {
        let group = SupervisedGroup::new();
        let children = [(); 2].map(|()| {
            let id = group.member().node().tree().next_id();
            let node = Node::new(NodeParent::Member(group.member()), id, Name::generated(id));
            let child = Arc::new(TestChild { node, orders: Mutex::new(Orders::default()), changed: Condvar::new() });
            assert!(group.member().node().adopt(Arc::clone(&child) as Arc<dyn Member>).is_ok());
            child
        });
        Arc::new(Self { group, children, disturbances: LoomCounter::new(), disturbances_total })
    }

    /// Ends the model after all disturbances, when no plan is left.
    fn end_if_settled(&self) {
        // In this order: after all disturbances, a plan that has ended was the last one.
        let settled = || self.group.member().node().with_supervision(|supervision| supervision.restart_plan.is_none());
        if self.disturbances.get() == self.disturbances_total && settled() {
            self.children.iter().for_each(|child| child.order(|orders| orders.over = true));
        }
    }

    /// Runs the child at `at` on a thread. It fails first if `fails`. Returns whether it was
    /// running in the end.
    fn run(self: &Arc<Self>, at: usize, fails: bool) -> JoinHandle<bool> {
        let test = Arc::clone(self);
        thread::spawn(move || {
            let child = &test.children[at];
            if fails {
                child.fail(&test);
            }
            child.follow_orders(&test, !fails)
        })
    }
}

/// Both children fail, possibly while one is halted for the other, or after both were started.
#[test]
fn loom_s2_two_children_fail_at_once() {
    explore(|| {
        let test = RestartTest::new(2);
        let runs = [test.run(0, true), test.run(1, true)];
        assert_eq!(runs.map(|runs| runs.join().unwrap()), [true, true]);
    });
}

/// An order from above creates a new plan, possibly while a step of the old plan is executed. That
/// step must not undo the new order.
#[test]
fn loom_s13_order_from_above_against_restarting_children() {
    explore(|| {
        let test = RestartTest::new(2);
        let runs = [test.run(0, true), test.run(1, false)];
        order(&test.group.member(), supervision::halt);
        order(&test.group.member(), supervision::start);
        test.disturbances.add();
        test.end_if_settled();
        assert_eq!(runs.map(|runs| runs.join().unwrap()), [true, true]);
    });
}
