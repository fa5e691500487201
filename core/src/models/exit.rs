//! `node::leave`: the exit of a member against whoever wants to be told of it.
//!
//! Proves for these orders: T10 (`on_done` runs exactly once, whenever it is registered and however many ways lead to the exit), A15
//! (`exited()` answers after every `on_done` has run, early or late), S10 (a watcher hears one `Terminated`), S14 (a branch that several
//! threads drop is dropped whole), A17 (children that are hurried are told to end once).

use crate::events::cause::Exit;
use crate::events::signal::Signal;
use crate::ids::name::Name;
use crate::ids::path::ActorId;
use crate::models::{ByHand, Mark, Times, block_on, explore};
use crate::scope::Scope;
use crate::tree::adopt;
use crate::tree::any_ref::AnyRef;
use crate::tree::member::{Member, StopMode};
use crate::tree::node::{Node, NodeParent};
use crate::tree::{Tree, node};
use alloc::sync::Arc;
use alloc::vec::Vec;
use loom::thread;
use std::sync::Mutex;

/// A scope with nothing in it: it leaves as soon as it is told to end.
fn scope() -> Scope {
    Scope::under(&ByHand::new().token())
}

fn count_done(of: &AnyRef) -> Times {
    let done = Times::default();
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

/// Two ways to the exit at once: one of them makes it, and each `on_done` runs once, with that exit.
#[test]
fn loom_t10_two_exits_and_a_late_on_done() {
    explore(|| {
        let scope = scope();
        let told: Arc<Mutex<Vec<Exit>>> = Arc::default();
        let tell = |told: &Arc<Mutex<Vec<Exit>>>| {
            let (any, told) = (scope.any(), Arc::clone(told));
            move || any.on_done(move |exit| told.lock().unwrap().push(exit.clone()))
        };
        tell(&told)();
        let late = thread::spawn(tell(&told));
        let any = scope.any();
        let canceller = thread::spawn(move || any.cancel("now"));
        scope.close();
        canceller.join().unwrap();
        late.join().unwrap();
        let exit = block_on(scope.exited());
        assert!(exit == Exit::Closed || exit == Exit::Cancelled("now".into()), "{exit:?}");
        assert_eq!(*told.lock().unwrap(), [exit.clone(), exit]);
    });
}

#[test]
fn loom_a15_exited_after_every_on_done() {
    explore(|| {
        let scope = scope();
        let done = Mark::new();
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
        assert_eq!(block_on(scope.exited()), Exit::Closed, "late is as good");
    });
}

/// A waiter that goes away in that moment takes nothing with it.
#[test]
fn loom_a15_exited_against_a_dropped_waiter() {
    explore(|| {
        let scope = scope();
        let (stays, mut goes) = (scope.exited(), scope.exited());
        let stays = thread::spawn(move || block_on(stays));
        let goes = thread::spawn(move || {
            let told = crate::models::poll_once(&mut goes);
            drop(goes);
            told.is_pending()
        });
        scope.stop();
        assert_eq!(stays.join().unwrap(), Exit::Stopped);
        goes.join().unwrap();
    });
}

/// Something in the tree that only listens.
struct Ear {
    node: Node,
    heard: Times,
    told_to_end: Times,
}

impl Ear {
    fn new(id: ActorId) -> Arc<Self> {
        Self::at(NodeParent::Root(Tree::new(ByHand::new())), id)
    }

    fn at(above: NodeParent, id: ActorId) -> Arc<Self> {
        let node = Node::new(above, id, Name::made(id));
        Arc::new(Self { node, heard: Times::default(), told_to_end: Times::default() })
    }

    /// One that is a child of `parent`, and in its table.
    fn below(parent: &Arc<dyn Member>, id: ActorId) -> Arc<Self> {
        let ear = Self::at(NodeParent::Member(Arc::clone(parent)), id);
        assert!(adopt::adopt(parent, Arc::clone(&ear) as Arc<dyn Member>).is_ok());
        ear
    }
}

impl Member for Ear {
    fn node(&self) -> &Node {
        &self.node
    }

    fn stop_by(self: Arc<Self>, _how: StopMode) {
        self.told_to_end.add();
    }

    fn on_cancel(self: Arc<Self>) {}

    fn exit_when_childless(&self) -> Option<Exit> {
        None
    }

    fn wants_signals(&self) -> bool {
        true
    }

    fn notify(&self, signal: Signal) {
        if matches!(signal, Signal::Terminated(_)) {
            self.heard.add();
        }
    }
}

#[test]
fn loom_s10_watch_against_exit() {
    explore(|| {
        let scope = scope();
        let (early, late) = (Ear::new(ActorId::new(0, 101)), Ear::new(ActorId::new(0, 102)));
        let watch = |ear: &Arc<Ear>| {
            let (any, ear) = (scope.any(), Arc::clone(ear) as Arc<dyn Member>);
            move || node::watch(&any.member, &ear)
        };
        watch(&early)();
        let watcher = thread::spawn(watch(&late));
        scope.close();
        watcher.join().unwrap();
        assert_eq!((early.heard.get(), late.heard.get()), (1, 1));
    });
}

/// The last owners of two leaves go at once, each while members of the branch are weakly referred to.
#[test]
fn loom_s14_a_branch_that_two_threads_drop_is_dropped_whole() {
    explore(|| {
        let top: Arc<dyn Member> = Ear::new(ActorId::new(0, 101));
        let middle: Arc<dyn Member> = Ear::at(NodeParent::Member(Arc::clone(&top)), ActorId::new(0, 102));
        let leaves = [103, 104].map(|id| Ear::at(NodeParent::Member(Arc::clone(&middle)), ActorId::new(0, id)));
        let weak = [Arc::downgrade(&top), Arc::downgrade(&middle)];
        drop((top, middle));
        let threads = leaves.map(|leaf| thread::spawn(move || drop(leaf)));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(weak.iter().all(|member| member.strong_count() == 0));
    });
}

/// A hook is cut off while the child that was told to end leaves: whoever goes on, each child is told once.
#[test]
fn loom_a17_hurry_against_the_end_of_a_child() {
    explore(|| {
        let scope = scope();
        let parent = scope.any().member;
        let children = [101, 102, 103].map(|id| Ear::below(&parent, ActorId::new(0, id)));
        scope.stop();
        let hurries = thread::spawn(move || parent.node().hurry_wind_down());
        let youngest: Arc<dyn Member> = Arc::clone(&children[2]) as Arc<dyn Member>;
        node::leave(&youngest, &Exit::Stopped);
        hurries.join().unwrap();
        assert_eq!(children.each_ref().map(|child| child.told_to_end.get()), [1, 1, 1]);
        for child in children {
            node::leave(&(child as Arc<dyn Member>), &Exit::Stopped);
        }
        assert_eq!(scope.any().exit(), Some(Exit::Stopped));
    });
}
