//! `Scope`: its end against members that are started at that moment.
//!
//! Proves: T5 (`wait_all` returns neither too early nor never), T6 (a launch is refused and returns
//! its future, or the child belongs to the scope), T7 (a cancel reaches every child), T8 (a task
//! that never started is dropped), T10 (each `on_done` runs once).

use crate::events::cause::{Cause, Exit};
use crate::models::{DropCounter, LoomCounter, ManualRuntime, block_on, explore};
use crate::scope::Scope;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::{pending, ready};
use core::time::Duration;
use loom::thread;

fn scope() -> (Arc<ManualRuntime>, Arc<Scope>) {
    let runtime = ManualRuntime::new();
    let scope = Arc::new(Scope::under(&runtime.token()));
    (runtime, scope)
}

/// A task that never ends is launched while the scope is cancelled.
#[test]
fn loom_t6_t7_launch_against_cancel() {
    explore(|| {
        let (runtime, scope) = scope();
        let gone = LoomCounter::new();
        let (launches, held) = (Arc::clone(&scope), DropCounter(gone.clone()));
        let launcher = thread::spawn(move || {
            let launched = launches.launch(async move {
                let _held = held;
                pending::<()>().await;
            });
            runtime.run_spawned();
            launched
        });
        scope.cancel("now");
        assert!(block_on(scope.wait_all()).is_ok());
        let gone_by_then = gone.get();
        match launcher.join().unwrap() {
            Ok(task) => {
                assert_eq!(gone_by_then, 1, "the wait is over, so the future is gone");
                assert_eq!(block_on(task.exited()), Exit::Cancelled("now".into()));
            }
            Err(refused) => {
                assert_eq!(gone.get(), 0, "it came back");
                drop(refused);
                assert_eq!(gone.get(), 1);
            }
        }
        assert_eq!(block_on(scope.exited()), Exit::Cancelled("now".into()));
    });
}

/// A task is launched and runs to its end while the scope is closed. It is refused or waited for.
#[test]
fn loom_t5_t6_launch_against_close() {
    explore(|| {
        let (runtime, scope) = scope();
        let (gone, done) = (LoomCounter::new(), LoomCounter::new());
        let (launches, held, counts) = (Arc::clone(&scope), DropCounter(gone.clone()), done.clone());
        let launcher = thread::spawn(move || {
            let launched = launches.launch(async move { drop(held) });
            if let Ok(task) = &launched {
                task.on_done(move |_| counts.add());
            }
            runtime.run_spawned();
            launched
        });
        scope.close();
        assert!(block_on(scope.wait_all()).is_ok());
        let (gone_by_then, done_by_then) = (gone.get(), done.get());
        match launcher.join().unwrap() {
            Ok(task) => {
                assert_eq!((gone_by_then, done_by_then, done.get()), (1, 1, 1));
                assert_eq!(task.any().exit(), Some(Exit::Closed));
            }
            Err(refused) => {
                drop(refused);
                assert_eq!((gone.get(), done.get()), (1, 0));
            }
        }
        assert_eq!(block_on(scope.exited()), Exit::Closed);
    });
}

/// The last two children leave while the scope is closed. It exits once, whichever thread is last.
#[test]
fn loom_t5_last_children_against_close() {
    explore(|| {
        let (runtime, scope) = scope();
        let done = LoomCounter::new();
        let counts = done.clone();
        scope.on_done(move |_| counts.add());
        (0..2).for_each(|_| drop(scope.launch(ready(())).unwrap()));
        let tasks: Vec<_> = core::iter::from_fn(|| runtime.take()).collect();
        let runners: Vec<_> = tasks.into_iter().map(|task| thread::spawn(move || block_on(task))).collect();
        scope.close();
        assert!(block_on(scope.wait_all()).is_ok());
        assert_eq!(block_on(scope.exited()), Exit::Closed);
        assert_eq!(done.get(), 1);
        runners.into_iter().for_each(|runner| runner.join().unwrap());
    });
}

/// A cancel against the first poll of a task: its future is dropped once and it leaves the tree
/// once.
#[test]
fn loom_t8_cancel_against_the_first_poll() {
    explore(|| {
        let (runtime, scope) = scope();
        let (gone, done) = (LoomCounter::new(), LoomCounter::new());
        let (held, counts) = (DropCounter(gone.clone()), done.clone());
        let task = scope.launch(async move {
            let _held = held;
            pending::<()>().await;
        });
        let task = task.unwrap();
        task.on_done(move |_| counts.add());
        let runner = thread::spawn(move || runtime.run_spawned());
        task.cancel("now");
        assert_eq!(block_on(task.exited()), Exit::Cancelled("now".into()));
        assert_eq!((gone.get(), done.get()), (1, 1));
        runner.join().unwrap();
        assert!(scope.try_wait_all().is_ok());
    });
}

/// A scope created inside a cancelled scope is refused, or cancelled with it.
#[test]
fn loom_t4_adopt_against_cancel() {
    explore(|| {
        let (_runtime, scope) = scope();
        let outer = Arc::clone(&scope);
        let maker = thread::spawn(move || outer.scope("inner").map(|inner| (block_on(inner.exited()), inner)));
        scope.cancel("now");
        assert!(block_on(scope.wait_all()).is_ok());
        if let Ok((exit, _inner)) = maker.join().unwrap() {
            assert_eq!(exit, Exit::Cancelled("now".into()));
        }
        assert_eq!(block_on(scope.exited()), Exit::Cancelled("now".into()));
    });
}

/// The token of a scope and the token above the scope, against a cancel.
#[test]
fn loom_t7_token_of_a_scope_against_cancel() {
    explore(|| {
        let above = ManualRuntime::new().token();
        let hangs_below = above.clone();
        let maker = thread::spawn(move || {
            let scope = Scope::under(&hangs_below);
            let token = scope.token();
            (block_on(token.cancelled()), block_on(scope.exited()))
        });
        above.cancel("now");
        let (cause, exit) = maker.join().unwrap();
        assert_eq!((cause, exit), (Cause::from("now"), Exit::Cancelled("now".into())));
        assert_eq!(above.listener_counts(), (0, 0));
    });
}

/// The token of a scope that ends meanwhile is cancelled then.
#[test]
fn loom_t2_token_of_a_scope_against_its_end() {
    explore(|| {
        let (_runtime, scope) = scope();
        let asks = Arc::clone(&scope);
        let asker = thread::spawn(move || block_on(asks.token().cancelled()));
        scope.close();
        assert_eq!(block_on(scope.exited()), Exit::Closed);
        assert_eq!(asker.join().unwrap(), Cause::Cancelled);
    });
}

/// A task with a cancel grace returns when the token of its scope is cancelled. The cancel has
/// reached the task by then, so the exit says that it tidied up.
#[test]
fn loom_t7_tidied_up_after_the_token_of_the_scope() {
    explore(|| {
        let (runtime, scope) = scope();
        let token = scope.token();
        let task = scope.task().cancel_grace(Duration::from_secs(1)).launch(async move {
            token.cancelled().await;
        });
        let task = task.unwrap_or_else(|_| panic!("an open scope takes a task"));
        let runner = thread::spawn(move || runtime.run_spawned());
        let polled = task.clone();
        scope.cancel("now");
        runner.join().unwrap();
        let exit = block_on(polled.exited());
        // A task that is cancelled before its first poll is dropped.
        assert!(matches!(&exit, Exit::TidiedUp(_) | Exit::Cancelled(_)), "{exit}");
    });
}
