//! A19, S10, T1 and T4: names and watchers of ended members, deep trees, and panicking wakers.

use crate::common::{INJECTED, Job, Log, TestActor, quiet};
use pleach::BoxError;
use pleach::prelude::*;
use pleach::runtime::Dispatcher;
use pleach::sim::Sim;
use pleach::system::System;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Wake, Waker};
use std::thread;

/// Respawns its only child under the same name when it has ended.
struct Respawns {
    rounds: Arc<AtomicU32>,
}

impl Respawns {
    fn respawn(&self, cx: &Context<Self>) -> Result<(), BoxError> {
        let ignore = |(): &mut (), (): ()| Ok::<(), BoxError>(());
        cx.spawn("child", Props::from_fn(|| (), ignore)).map_err(|error| error.reason)?.stop();
        self.rounds.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl Actor for Respawns {
    type Msg = ();
    type Error = BoxError;

    async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), BoxError> {
        Ok(())
    }

    async fn started(&mut self, cx: &mut Context<Self>) -> Result<(), BoxError> {
        self.respawn(cx)
    }

    async fn signal(&mut self, signal: Signal, cx: &mut Context<Self>) -> Result<(), BoxError> {
        if let Signal::Terminated(_) = signal {
            self.respawn(cx)?;
        }
        Ok(())
    }
}

#[test]
fn a19_name_is_free_when_the_exit_is_signalled() {
    const ROUNDS: u32 = 200;
    let dispatcher = Dispatcher::on_std();
    let system = System::builder("s", dispatcher.runtime()).build().unwrap();
    // A delay in the exit gives an early signal time to cause an error.
    system.on_event(|event| {
        if let Event::Ended { .. } = event {
            (0..50).for_each(|_| thread::yield_now());
        }
    });
    let rounds = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&rounds);
    let parent = system.spawn("parent", Props::new(move || Respawns { rounds: Arc::clone(&counted) })).unwrap();
    let done = || rounds.load(Ordering::Relaxed) >= ROUNDS || parent.exit().is_some() || system.failures() > 0;
    thread::scope(|threads| {
        threads.spawn(|| dispatcher.blocking_dispatch_loop(done));
        threads.spawn(|| dispatcher.blocking_dispatch_loop(done));
    });
    assert_eq!(system.failures(), 0, "the name was taken after {} rounds", rounds.load(Ordering::Relaxed));
}

#[test]
fn s10_ended_watchers_are_not_kept() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let watched = TestActor::spawn(&system, "watched");
    let marker = Arc::new(());
    for _ in 0..1_000 {
        let (target, holder) = (watched.any(), Arc::clone(&marker));
        let describe = move |_: &Job| {
            let _part = &holder;
            String::new()
        };
        let watcher = system.spawn_unnamed(TestActor::props(&Log::new()).describe(describe)).unwrap();
        watcher
            .tell(Job::act(move |cx| {
                cx.watch(&target);
                cx.stop();
            }))
            .unwrap();
        sim.settle();
    }
    assert_eq!(Arc::strong_count(&marker), 1);
    let log = Log::new();
    let live_watcher = system.spawn("watcher", TestActor::props(&log)).unwrap();
    let target = watched.any();
    live_watcher.tell(Job::act(move |cx| cx.watch(&target))).unwrap();
    sim.settle();
    watched.stop();
    sim.settle();
    assert_eq!(log.take(), ["started 0", "terminated /user/watched stopped"]);
}

#[test]
fn t4_dropping_a_deep_tree_does_not_overflow_the_stack() {
    let build_and_drop = || {
        let sim = Sim::new(1);
        let mut scopes = vec![sim.scope()];
        for _ in 0..5_000 {
            scopes.push(scopes.last().unwrap().scope("next").unwrap());
        }
        scopes[0].cancel("enough");
        let leaf = scopes.pop().unwrap();
        assert_eq!(leaf.any().exit(), Some(Exit::Cancelled("enough".into())));
        // Each scope holds its parent, so the leaf holds them all.
        drop(scopes);
        drop(leaf);
    };
    thread::Builder::new().stack_size(128 * 1024).spawn(build_and_drop).unwrap().join().unwrap();
}

/// A waker that panics.
struct PanickingWaker;

impl Wake for PanickingWaker {
    fn wake(self: Arc<Self>) {
        std::panic::panic_any(INJECTED);
    }
}

struct FlagWaker(AtomicBool);

impl Wake for FlagWaker {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn t1_panicking_waker_does_not_affect_other_waiters() {
    quiet();
    let sim = Sim::new(1);
    let system = sim.system("s");
    let scope = system.scope("scope").unwrap();
    let actor = scope.spawn("actor", TestActor::props(&Log::new())).unwrap();
    sim.settle();
    let token = sim.token();
    let child = token.child();
    let good = Arc::new(FlagWaker(AtomicBool::new(false)));
    let wakers = [Waker::from(Arc::new(PanickingWaker)), Waker::from(Arc::clone(&good))];
    let mut cancelled = [token.cancelled(), token.cancelled()];
    let mut exited = [actor.exited(), actor.exited()];
    for (at, waker) in wakers.iter().enumerate() {
        let cx = &mut std::task::Context::from_waker(waker);
        assert!(Pin::new(&mut cancelled[at]).poll(cx).is_pending() && Pin::new(&mut exited[at]).poll(cx).is_pending());
    }
    token.cancel("enough");
    assert!(child.is_cancelled() && good.0.swap(false, Ordering::Relaxed));
    scope.close();
    sim.settle();
    assert!(good.0.load(Ordering::Relaxed));
    assert_eq!(scope.any().exit(), Some(Exit::Closed));
}
