//! Who hears of an end, and what a long branch or a bad waker does to others: A19, S10, T1, T4, T5.

use crate::common::{Doer, INJECTED, Job, Log, quiet};
use pleach::prelude::*;
use pleach::sim::Sim;
use pleach::{BoxError, Dispatcher, System};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Wake, Waker};
use std::thread;

/// Has one child, and starts another of that name when it hears of its end.
struct Respawns {
    rounds: Arc<AtomicU32>,
}

impl Respawns {
    fn respawn(&self, cx: &Context<Self>) -> Result<(), BoxError> {
        let nothing = |(): &mut (), (): ()| Ok::<(), BoxError>(());
        cx.spawn("child", Props::from_fn(|| (), nothing)).map_err(|error| error.why)?.stop();
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
fn a19_a_name_is_free_for_whoever_hears_of_the_end() {
    const ROUNDS: u32 = 200;
    let dispatcher = Dispatcher::on_std();
    let system = System::builder("s", dispatcher.runtime()).build().unwrap();
    // Whoever is woken early has all the time to be too early.
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
fn s10_watchers_that_have_ended_are_not_kept() {
    let sim = Sim::new(1);
    let system = sim.system("s");
    let watched = system.spawn("watched", Doer::props(&Log::new())).unwrap();
    let held = Arc::new(());
    for _ in 0..1_000 {
        let (target, part) = (watched.any(), Arc::clone(&held));
        let describe = move |_: &Job| {
            let _part = &part;
            String::new()
        };
        let watcher = system.spawn_unnamed(Doer::props(&Log::new()).describe(describe)).unwrap();
        watcher
            .tell(Job::act(move |cx| {
                cx.watch(&target);
                cx.stop();
            }))
            .unwrap();
        sim.settle();
    }
    assert_eq!(Arc::strong_count(&held), 1);
    let log = Log::new();
    let living = system.spawn("living", Doer::props(&log)).unwrap();
    let target = watched.any();
    living.tell(Job::act(move |cx| cx.watch(&target))).unwrap();
    sim.settle();
    watched.stop();
    sim.settle();
    assert_eq!(log.take(), ["started 0", "terminated /user/watched stopped"]);
}

#[test]
fn t4_a_long_branch_does_not_overflow_the_stack_when_it_is_dropped() {
    let branch = || {
        let sim = Sim::new(1);
        let mut scopes = vec![sim.scope()];
        for _ in 0..5_000 {
            scopes.push(scopes.last().unwrap().scope("next").unwrap());
        }
        scopes[0].cancel("enough");
        let leaf = scopes.pop().unwrap();
        assert_eq!(leaf.any().exit(), Some(Exit::Cancelled("enough".into())));
        // Each holds the one above, and the last holds all of them.
        drop(scopes);
        drop(leaf);
    };
    thread::Builder::new().stack_size(128 * 1024).spawn(branch).unwrap().join().unwrap();
}

/// Panics when woken.
struct Bad;

impl Wake for Bad {
    fn wake(self: Arc<Self>) {
        std::panic::panic_any(INJECTED);
    }
}

struct Good(AtomicBool);

impl Wake for Good {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn t1_a_waker_that_panics_keeps_no_cancel_and_no_exit_from_anybody_else() {
    quiet();
    let sim = Sim::new(1);
    let system = sim.system("s");
    let scope = system.scope("scope").unwrap();
    let actor = scope.actor("actor", Doer::props(&Log::new())).unwrap();
    sim.settle();
    let token = sim.token();
    let child = token.child();
    let good = Arc::new(Good(AtomicBool::new(false)));
    let wakers = [Waker::from(Arc::new(Bad)), Waker::from(Arc::clone(&good))];
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
