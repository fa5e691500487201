//! `node::leave`: the exit of a member against whoever wants to be told of it.
//!
//! Proves for these orders: T10 (`on_done` runs exactly once, whenever it is registered and however many ways lead to the exit), A15
//! (`exited()` answers after every `on_done` has run, early or late), S10 (a watcher hears one `Terminated`).

use super::{ByHand, Mark, Times, block_on, explore};
use crate::node::{Above, Member, Node, WindDown};
use crate::world::World;
use crate::{ActorId, AnyRef, Exit, Name, Scope, Signal};
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
            let told = super::poll_once(&mut goes);
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
}

impl Ear {
    fn new(id: ActorId) -> Arc<Self> {
        let node = Node::new(Above::Nothing(World::new(ByHand::new())), id, Name::made(id));
        Arc::new(Self { node, heard: Times::default() })
    }
}

impl Member for Ear {
    fn node(&self) -> &Node {
        &self.node
    }

    fn wind_down(self: Arc<Self>, _how: WindDown) {}

    fn cut_off(self: Arc<Self>) {}

    fn childless(&self) -> Option<Exit> {
        None
    }

    fn hears(&self) -> bool {
        true
    }

    fn hear(&self, signal: Signal) {
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
            move || any.member.node().watch(&ear)
        };
        watch(&early)();
        let watcher = thread::spawn(watch(&late));
        scope.close();
        watcher.join().unwrap();
        assert_eq!((early.heard.get(), late.heard.get()), (1, 1));
    });
}
