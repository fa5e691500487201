//! `node::leave`: the exit of a member against its waiters.
//!
//! Proves: T10 (`on_done` runs exactly once, whenever it is registered and however many ways lead
//! to the exit), A15 (`exited()` is ready after every `on_done` has run), S10 (a watcher gets one
//! `Terminated`), S14 (a branch that several threads drop is dropped completely), A17 (each child
//! is stopped once, also when the stop is hurried).

use crate::events::cause::Exit;
use crate::events::signal::Signal;
use crate::ids::name::Name;
use crate::ids::path::ActorId;
use crate::models::{LoomCounter, ManualRuntime, PlainCounter, block_on, explore, poll_once};
use crate::scope::Scope;
use crate::tree::adopt;
use crate::tree::any_ref::AnyRef;
use crate::tree::facts::{MemberFacts, MemberKind, Work};
use crate::tree::member::{Member, ObservedMember, StopMode, SupervisedMember, WaitingMember};
use crate::tree::node::{Node, NodeParent};
use crate::tree::{Tree, node};
use alloc::sync::Arc;
use alloc::vec::Vec;
use loom::thread;
use std::sync::Mutex;

/// Creates an empty scope, which exits as soon as it is stopped.
fn scope() -> Scope {
    Scope::under(&ManualRuntime::new().token())
}

fn count_done(of: &AnyRef) -> PlainCounter {
    let done = PlainCounter::default();
    let counts = done.clone();
    of.on_done(move |_| counts.add());
    done
}

#[test]
fn loom_t10_on_done_against_leave() {
    explore(|| {
        let scope = scope();
        let (one, other) = (scope.any(), scope.any());
        let registers = [one, other].map(|any| thread::spawn(move || count_done(&any)));
        scope.close();
        for done in registers {
            assert_eq!(done.join().unwrap().get(), 1);
        }
        assert_eq!(scope.any().exit(), Some(Exit::Closed));
    });
}

/// Two exits at once: one of them wins, and each `on_done` runs once with that exit.
#[test]
fn loom_t10_two_exits_and_a_late_on_done() {
    explore(|| {
        let scope = scope();
        let exits: Arc<Mutex<Vec<Exit>>> = Arc::default();
        let record = |exits: &Arc<Mutex<Vec<Exit>>>| {
            let (any, exits) = (scope.any(), Arc::clone(exits));
            move || any.on_done(move |exit| exits.lock().unwrap().push(exit.clone()))
        };
        record(&exits)();
        let late = thread::spawn(record(&exits));
        let any = scope.any();
        let canceller = thread::spawn(move || any.cancel("now"));
        scope.close();
        canceller.join().unwrap();
        late.join().unwrap();
        let exit = block_on(scope.exited());
        assert!(exit == Exit::Closed || exit == Exit::Cancelled("now".into()), "{exit:?}");
        assert_eq!(*exits.lock().unwrap(), [exit.clone(), exit]);
    });
}

#[test]
fn loom_a15_exited_after_every_on_done() {
    explore(|| {
        let scope = scope();
        let done = LoomCounter::new();
        let runs = done.clone();
        scope.on_done(move |_| runs.add());
        let waiters = [(); 2].map(|()| {
            let (exited, done) = (scope.exited(), done.clone());
            thread::spawn(move || (block_on(exited), done.get()))
        });
        scope.close();
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), (Exit::Closed, 1));
        }
        assert_eq!(block_on(scope.exited()), Exit::Closed, "also after the exit");
    });
}

/// A waiter that is dropped during the exit does not affect the other one.
#[test]
fn loom_a15_exited_against_a_dropped_waiter() {
    explore(|| {
        let scope = scope();
        let (stays, mut goes) = (scope.exited(), scope.exited());
        let stays = thread::spawn(move || block_on(stays));
        let goes = thread::spawn(move || {
            let polled = poll_once(&mut goes);
            drop(goes);
            polled.is_pending()
        });
        scope.stop();
        assert_eq!(stays.join().unwrap(), Exit::Stopped);
        goes.join().unwrap();
    });
}

/// A member that only records what it receives.
struct TestMember {
    node: Node,
    notifications: PlainCounter,
    stops: PlainCounter,
}

impl TestMember {
    fn new(id: ActorId) -> Arc<Self> {
        Self::at(NodeParent::Root(Tree::new(ManualRuntime::new())), id)
    }

    fn at(above: NodeParent, id: ActorId) -> Arc<Self> {
        let node = Node::new(above, id, Name::generated(id));
        Arc::new(Self { node, notifications: PlainCounter::default(), stops: PlainCounter::default() })
    }

    /// Creates a child of `parent`, registered there.
    fn below(parent: &Arc<dyn Member>, id: ActorId) -> Arc<Self> {
        let member = Self::at(NodeParent::Member(Arc::clone(parent)), id);
        assert!(adopt::adopt(parent, Arc::clone(&member) as Arc<dyn Member>).is_ok());
        member
    }
}

impl Member for TestMember {
    fn node(&self) -> &Node {
        &self.node
    }

    fn stop_with(&self, _this: &Arc<dyn Member>, _how: StopMode) {
        self.stops.add();
    }

    fn on_cancel(&self, _this: &Arc<dyn Member>) {}

    fn exit_when_childless(&self) -> Option<Exit> {
        None
    }
}

impl ObservedMember for TestMember {
    fn facts(&self) -> MemberFacts {
        MemberFacts::new(MemberKind::Task, Work::Waiting)
    }
}

impl SupervisedMember for TestMember {
    fn wants_signals(&self) -> bool {
        true
    }

    fn notify(&self, signal: Signal) {
        if matches!(signal, Signal::Terminated(_)) {
            self.notifications.add();
        }
    }
}

impl WaitingMember for TestMember {}

#[test]
fn loom_s10_watch_against_exit() {
    explore(|| {
        let scope = scope();
        let (early, late) = (TestMember::new(ActorId::new(0, 101)), TestMember::new(ActorId::new(0, 102)));
        let watch = |member: &Arc<TestMember>| {
            let (any, member) = (scope.any(), Arc::clone(member) as Arc<dyn Member>);
            move || node::watch(&any.member, &member)
        };
        watch(&early)();
        let watcher = thread::spawn(watch(&late));
        scope.close();
        watcher.join().unwrap();
        assert_eq!((early.notifications.get(), late.notifications.get()), (1, 1));
    });
}

/// The last owners of two leaves drop them at once, while weak references to the branch exist.
#[test]
fn loom_s14_a_branch_dropped_by_two_threads_is_freed() {
    explore(|| {
        let top: Arc<dyn Member> = TestMember::new(ActorId::new(0, 101));
        let middle: Arc<dyn Member> = TestMember::at(NodeParent::Member(Arc::clone(&top)), ActorId::new(0, 102));
        let leaves = [103, 104].map(|id| TestMember::at(NodeParent::Member(Arc::clone(&middle)), ActorId::new(0, id)));
        let weak = [Arc::downgrade(&top), Arc::downgrade(&middle)];
        drop((top, middle));
        let threads = leaves.map(|leaf| thread::spawn(move || drop(leaf)));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(weak.iter().all(|member| member.strong_count() == 0));
    });
}

/// The stop is hurried while a child that was stopped leaves. Either thread may continue the stop;
/// each child is stopped once.
#[test]
fn loom_a17_hurried_stop_against_the_exit_of_a_child() {
    explore(|| {
        let scope = scope();
        let parent = scope.any().member;
        let children = [101, 102, 103].map(|id| TestMember::below(&parent, ActorId::new(0, id)));
        scope.stop();
        let hurries = thread::spawn(move || parent.node().stop_remaining_at_once());
        let youngest: Arc<dyn Member> = Arc::clone(&children[2]) as Arc<dyn Member>;
        node::leave(&youngest, &Exit::Stopped);
        hurries.join().unwrap();
        assert_eq!(children.each_ref().map(|child| child.stops.get()), [1, 1, 1]);
        for child in children {
            node::leave(&(child as Arc<dyn Member>), &Exit::Stopped);
        }
        assert_eq!(scope.any().exit(), Some(Exit::Stopped));
    });
}
