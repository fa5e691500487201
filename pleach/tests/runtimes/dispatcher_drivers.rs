//! D2: who drives a dispatcher, who only waits on it, and who is polled beside it.

use crate::common::poll_once;
use pleach::prelude::*;
use pleach::{CancelToken, Clock, Dispatcher, Instant, WaitError, block_on};
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context as TaskContext, Poll, Wake, Waker};

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A clock that stands still and notes for when it was asked to wake.
#[derive(Clone, Default)]
struct Still(Arc<Mutex<Vec<Instant>>>);

impl Clock for Still {
    fn now(&self) -> Instant {
        Instant::ZERO
    }

    fn wake_at(&self, at: Instant, _waker: &Waker) {
        self.0.lock().unwrap().push(at);
    }
}

fn at(ms: u64) -> Instant {
    Instant::after_start(Duration::from_millis(ms))
}

#[test]
fn w7_a_wait_from_another_thread_is_answered_while_the_driver_is_parked() {
    let dispatcher = Arc::new(Dispatcher::on_std());
    let scope = Scope::under(&CancelToken::root(dispatcher.runtime()));
    scope.launch(pending::<()>()).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let (driver, over) = (Arc::clone(&dispatcher), Arc::clone(&done));
    let (parks, parked) = mpsc::channel();
    let driver = std::thread::spawn(move || {
        driver.blocking_dispatch_loop(|| {
            // Sent once more after the last poll: from then on it has nothing to do but park.
            parks.send(driver.polls()).unwrap();
            over.load(Ordering::SeqCst)
        });
    });
    while parked.recv().unwrap() == 0 {}
    let waited = block_on(scope.wait_all_for(Duration::from_millis(100)));
    assert!(matches!(waited, Err(WaitError::StillRunning(_))), "{waited:?}");
    done.store(true, Ordering::SeqCst);
    drop(scope);
    driver.join().unwrap();
}

#[test]
fn w7_an_earlier_timer_wakes_the_drivers() {
    let clock = Still::default();
    let dispatcher = Dispatcher::new(clock.clone());
    let runtime = dispatcher.runtime();
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut driver = pin!(dispatcher.run_until(pending::<()>()));
    let mut drive = || assert!(driver.as_mut().poll(&mut TaskContext::from_waker(&waker)).is_pending());
    drive();
    let mut late = runtime.sleep_until(at(50));
    assert!(poll_once(&mut late).is_pending());
    assert_eq!(woken.0.load(Ordering::SeqCst), 1, "the first timer");
    drive();
    let mut early = runtime.sleep_until(at(20));
    assert!(poll_once(&mut early).is_pending());
    assert_eq!(woken.0.load(Ordering::SeqCst), 2, "an earlier one");
    drive();
    let mut latest = runtime.sleep_until(at(90));
    assert!(poll_once(&mut latest).is_pending());
    assert_eq!(woken.0.load(Ordering::SeqCst), 2, "a later one changes nothing for the driver");
    assert_eq!(*clock.0.lock().unwrap(), [at(50), at(20)]);
}

#[test]
fn w7_run_until_and_run_forever_let_others_run() {
    let dispatcher = Dispatcher::on_std();
    let scope = Scope::under(&CancelToken::root(dispatcher.runtime()));
    // A task that is always ready.
    scope
        .launch(poll_fn(|cx| {
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        }))
        .unwrap();
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = TaskContext::from_waker(&waker);
    let mut until = pin!(dispatcher.run_until(pending::<()>()));
    assert!(until.as_mut().poll(&mut cx).is_pending());
    let polls = dispatcher.polls();
    assert!(polls > 0 && woken.0.load(Ordering::SeqCst) > 0, "it comes back by itself");
    let mut forever = pin!(dispatcher.run_forever());
    assert!(forever.as_mut().poll(&mut cx).is_pending());
    assert!(dispatcher.polls() > polls);
}

#[test]
fn w7_dropped_drivers_leave_no_wakers_behind() {
    let dispatcher = Dispatcher::on_std();
    let runtime = dispatcher.runtime();
    // The clock is given wakers as well.
    let mut sleep = runtime.sleep_until(runtime.now() + Duration::from_secs(3_600));
    assert!(poll_once(&mut sleep).is_pending());
    let held = Arc::new(Woken::default());
    for _ in 0..100 {
        // A waker of its own each time, as `select` in a new task has.
        struct Fresh(#[allow(dead_code, reason = "held for its count")] Arc<Woken>);
        impl Wake for Fresh {
            fn wake(self: Arc<Self>) {}
        }
        let waker = Waker::from(Arc::new(Fresh(Arc::clone(&held))));
        let mut next = pin!(dispatcher.dispatch_next());
        assert!(next.as_mut().poll(&mut TaskContext::from_waker(&waker)).is_pending());
        let mut until = pin!(dispatcher.run_until(pending::<()>()));
        assert!(until.as_mut().poll(&mut TaskContext::from_waker(&waker)).is_pending());
        let mut forever = pin!(dispatcher.run_forever());
        assert!(forever.as_mut().poll(&mut TaskContext::from_waker(&waker)).is_pending());
    }
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn w7_on_std_wakes_run_until_and_run_forever_for_timers() {
    let dispatcher = Dispatcher::on_std();
    let runtime = dispatcher.runtime();
    let scope = Scope::under(&CancelToken::root(Arc::clone(&runtime)));
    let sleep = |ms| runtime.sleep_until(runtime.now() + Duration::from_millis(ms));
    scope.launch(sleep(20)).unwrap();
    // The executor is another one: it parks, and nobody but the clock wakes it.
    block_on(dispatcher.run_until(scope.wait_all())).unwrap();
    scope.launch(sleep(20)).unwrap();
    let ended = block_on(async {
        let mut forever = pin!(dispatcher.run_forever());
        let mut ended = pin!(scope.wait_all());
        poll_fn(|cx| {
            assert!(forever.as_mut().poll(cx).is_pending());
            ended.as_mut().poll(cx)
        })
        .await
    });
    ended.unwrap();
}
