//! D2: every way to drive a dispatcher.

use crate::at;
use crate::common::counter::{counter, system_on};
use crate::common::{CountingWaker, yield_once};
use pleach::prelude::*;
use pleach::runtime::{Clock, Dispatcher, Instant, block_on};
use std::future::{Future, pending};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, Waker};

/// A clock that the test sets.
#[derive(Clone, Default)]
struct ManualClock(Arc<Mutex<ClockState>>);

#[derive(Default)]
struct ClockState {
    now: Instant,
    alarms: Vec<(Instant, Waker)>,
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        self.0.lock().unwrap().now
    }

    fn wake_at(&self, at: Instant, waker: &Waker) {
        self.0.lock().unwrap().alarms.push((at, waker.clone()));
    }
}

impl ManualClock {
    /// Sets the clock and wakes the alarms that are due.
    fn set(&self, to: Instant) {
        let due: Vec<_> = {
            let mut clock = self.0.lock().unwrap();
            clock.now = to;
            clock.alarms.extract_if(.., |(at, _)| *at <= to).collect()
        };
        due.into_iter().for_each(|(_, waker)| waker.wake());
    }

    fn alarms(&self) -> Vec<Instant> {
        self.0.lock().unwrap().alarms.iter().map(|(at, _)| *at).collect()
    }
}

#[test]
fn d2_dispatch_next_runs_one_poll_and_waits_if_none_is_ready() {
    let dispatcher = Dispatcher::on_std();
    let system = system_on(dispatcher.runtime());
    let handled = Arc::new(AtomicUsize::new(0));
    let actors: Vec<_> = (0..3).map(|_| system.spawn_unnamed(counter(&handled)).unwrap()).collect();
    for (polls, actor) in actors.iter().enumerate() {
        actor.tell(1).unwrap();
        block_on(dispatcher.dispatch_next());
        // In order, one poll at a time.
        assert_eq!((handled.load(Ordering::SeqCst), dispatcher.polls()), (polls + 1, polls as u64 + 1));
    }
    let woken = Arc::new(CountingWaker::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut next = Box::pin(dispatcher.dispatch_next());
    assert!(next.as_mut().poll(&mut TaskContext::from_waker(&waker)).is_pending());
    assert_eq!((woken.wakes(), dispatcher.polls()), (0, 3), "it waits and does not wake itself");
    actors[1].tell(1).unwrap();
    assert_eq!(woken.wakes(), 1);
    assert!(next.as_mut().poll(&mut TaskContext::from_waker(&waker)).is_ready());
    assert_eq!((handled.load(Ordering::SeqCst), dispatcher.polls()), (4, 4));
}

#[test]
fn d2_drain_ready_runs_all_ready_tasks_and_their_successors() {
    let dispatcher = Dispatcher::on_std();
    let system = system_on(dispatcher.runtime());
    let scope = system.scope("s").unwrap();
    for _ in 0..10 {
        scope.launch(yield_once()).unwrap();
    }
    assert_eq!(dispatcher.drain_ready(), 20);
    assert_eq!(dispatcher.drain_ready(), 0);
    let runtime = dispatcher.runtime();
    let sleep = runtime.sleep_until(runtime.now() + Duration::from_secs(3_600));
    scope.launch(sleep).unwrap();
    assert_eq!(dispatcher.drain_ready(), 1, "it does not wait for timers");
    assert_eq!(dispatcher.tasks_alive(), 1);
}

#[test]
fn d2_run_until_and_run_forever_sleep_by_the_clock() {
    let clock = ManualClock::default();
    let dispatcher = Dispatcher::new(clock.clone());
    let runtime = dispatcher.runtime();
    let scope = Scope::under(&CancelToken::root(dispatcher.runtime()));
    let ticks = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ticks);
    let ticker = async move {
        for n in 1..=5 {
            runtime.sleep_until(at(n * 10)).await;
            count.fetch_add(1, Ordering::SeqCst);
        }
    };
    let ticker = scope.launch(ticker).unwrap();
    let woken = Arc::new(CountingWaker::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = TaskContext::from_waker(&waker);
    {
        let until = dispatcher.runtime().sleep_until(at(25));
        let mut run = Box::pin(dispatcher.run_until(async {
            until.await;
            "done"
        }));
        assert!(run.as_mut().poll(&mut cx).is_pending());
        assert_eq!(clock.alarms(), [at(10)], "only the next timer is registered with the clock");
        clock.set(at(9));
        assert_eq!(woken.wakes(), 0);
        clock.set(at(24));
        assert_eq!(woken.wakes(), 1);
        assert!(run.as_mut().poll(&mut cx).is_pending());
        assert_eq!(ticks.load(Ordering::SeqCst), 2);
        clock.set(at(25));
        assert_eq!(run.as_mut().poll(&mut cx), Poll::Ready("done"));
    }
    let mut forever = Box::pin(dispatcher.run_forever());
    for ms in [30, 40, 50] {
        clock.set(at(ms));
        assert!(forever.as_mut().poll(&mut cx).is_pending());
    }
    assert_eq!(ticker.any().exit(), Some(Exit::Closed));
    let polls = dispatcher.polls();
    clock.set(at(1_000_000));
    assert!(forever.as_mut().poll(&mut cx).is_pending());
    assert_eq!(dispatcher.polls(), polls);
}

#[test]
fn d2_blocking_loop_parks_and_never_spins() {
    let dispatcher = Dispatcher::on_std();
    let system = system_on(dispatcher.runtime());
    let handled = Arc::new(AtomicUsize::new(0));
    let actor = system.spawn("a", counter(&handled)).unwrap();
    let scope = system.scope("s").unwrap();
    let (runtime, finish) = (dispatcher.runtime(), Arc::new(AtomicBool::new(false)));
    let finished = Arc::clone(&finish);
    let sleep = async move {
        runtime.sleep_until(runtime.now() + Duration::from_millis(50)).await;
        finished.store(true, Ordering::SeqCst);
    };
    scope.launch(sleep).unwrap();
    let sender = actor.clone();
    let began = std::time::Instant::now();
    // At each message the loop is parked or about to park.
    let seen = Arc::clone(&handled);
    let sender_thread = std::thread::spawn(move || {
        for n in 0..5 {
            sender.tell(n).unwrap();
            while seen.load(Ordering::SeqCst) <= n as usize {
                std::thread::yield_now();
            }
        }
    });
    let mut checks = 0;
    dispatcher.blocking_dispatch_loop(|| {
        checks += 1;
        // On a busy machine the sender may not be done after 50 ms.
        finish.load(Ordering::SeqCst) && handled.load(Ordering::SeqCst) == 5
    });
    assert!(began.elapsed() >= Duration::from_millis(50));
    sender_thread.join().unwrap();
    assert_eq!(handled.load(Ordering::SeqCst), 5);
    // Two first polls, five messages and one timer, with one check before and after each.
    assert!(dispatcher.polls() <= 8, "{} polls", dispatcher.polls());
    assert!(checks <= 40, "checked {checks} times in 50 ms");

    // Also without any timer.
    let (runtime, checks) = (dispatcher.runtime(), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&checks);
    let waker_thread = std::thread::spawn(move || {
        // Spawns a task when the loop is parked. A loop that spins would keep checking.
        let mut before = 0;
        while before == 0 || seen.load(Ordering::SeqCst) != before {
            before = seen.load(Ordering::SeqCst);
            (0..1_000).for_each(|_| std::thread::yield_now());
        }
        runtime.spawn(Box::pin(async {}));
    });
    let polls = dispatcher.polls();
    dispatcher.blocking_dispatch_loop(|| {
        checks.fetch_add(1, Ordering::SeqCst);
        dispatcher.polls() > polls
    });
    waker_thread.join().unwrap();
    let checks = checks.load(Ordering::SeqCst);
    assert!(checks <= 10, "checked {checks} times while idle");
}

#[test]
fn d2_control_messages_go_first() {
    let dispatcher = Dispatcher::on_std();
    let system = system_on(dispatcher.runtime());
    let handled = Arc::new(AtomicUsize::new(0));
    let others: Vec<_> = (0..50).map(|_| system.spawn_unnamed(counter(&handled)).unwrap()).collect();
    let scope = system.scope("s").unwrap();
    let task = scope.launch(pending::<()>()).unwrap();
    let [stops, closes, cancels] = ["stops", "closes", "cancels"].map(|name| system.spawn(name, counter(&handled)).unwrap());
    dispatcher.drain_ready();
    let ends: [(AnyRef, &dyn Fn()); 4] = [
        (stops.any(), &|| stops.stop()),
        (closes.any(), &|| closes.close()),
        (cancels.any(), &|| cancels.cancel(())),
        (task.any(), &|| task.cancel(())),
    ];
    for (member, end) in ends {
        others.iter().for_each(|actor| actor.tell(1).unwrap());
        let before = handled.load(Ordering::SeqCst);
        end();
        block_on(dispatcher.dispatch_next());
        assert!(member.exit().is_some(), "{} waits behind other actors", member.path());
        assert_eq!(handled.load(Ordering::SeqCst), before);
        dispatcher.drain_ready();
        assert_eq!(handled.load(Ordering::SeqCst), before + 50);
    }
}

#[test]
fn d2_several_threads_may_drive_and_leave() {
    for round in 0..20 {
        let dispatcher = Dispatcher::on_std();
        let scope = Scope::under(&CancelToken::root(dispatcher.runtime()));
        let steps = Arc::new(AtomicUsize::new(0));
        for _ in 0..8 {
            let steps = Arc::clone(&steps);
            let task = async move {
                for _ in 0..500 {
                    steps.fetch_add(1, Ordering::SeqCst);
                    yield_once().await;
                }
            };
            scope.launch(task).unwrap();
        }
        let done = AtomicBool::new(false);
        std::thread::scope(|threads| {
            for leaves_early in [false, false, true] {
                let (dispatcher, done, steps) = (&dispatcher, &done, &steps);
                threads.spawn(move || {
                    dispatcher.blocking_dispatch_loop(|| {
                        done.load(Ordering::SeqCst) || (leaves_early && steps.load(Ordering::SeqCst) > 100)
                    });
                });
            }
            let ended = scope.blocking_wait_all_for(Duration::from_secs(20));
            done.store(true, Ordering::SeqCst);
            // A new task wakes every driver, and each driver then sees that it is done.
            dispatcher.runtime().spawn(Box::pin(async {}));
            assert!(ended.is_ok(), "round {round}: a wake-up was lost: {ended:?}");
        });
        assert_eq!(steps.load(Ordering::SeqCst), 4_000);
    }
}

#[test]
fn d2_dropped_dispatcher_drops_its_tasks_and_settles_the_counts() {
    let dispatcher = Dispatcher::on_std();
    let system = system_on(dispatcher.runtime());
    let handled = Arc::new(AtomicUsize::new(0));
    let actor = system.spawn("a", counter(&handled)).unwrap();
    let scope = system.scope("s").unwrap();
    let marker = Arc::new(());
    let holder = Arc::clone(&marker);
    let task = async move {
        pending::<()>().await;
        drop(holder);
    };
    let started = scope.launch(task).unwrap();
    dispatcher.drain_ready();
    actor.tell(1).unwrap();
    let unstarted = scope.launch(pending::<()>()).unwrap();
    drop(dispatcher);
    let dropped = Some(Exit::Cancelled(Cause::Dropped));
    assert_eq!((actor.exit(), started.any().exit(), unstarted.any().exit()), (dropped.clone(), dropped.clone(), dropped));
    assert_eq!((Arc::strong_count(&marker), system.counts().dead_lettered), (1, 1));
    assert!(system.counts().is_settled());
}
