//! D2: drivers of a dispatcher, and waiters beside them.

use crate::at;
use crate::common::{CountingWaker, poll_once};
use pleach::CancelToken;
use pleach::prelude::*;
use pleach::runtime::{Clock, Dispatcher, Instant, block_on};
use pleach::scope::WaitError;
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context as TaskContext, Poll, Wake, Waker};

/// A stopped clock that records the requested wake times.
#[derive(Clone, Default)]
struct StoppedClock(Arc<Mutex<Vec<Instant>>>);

impl Clock for StoppedClock {
    fn now(&self) -> Instant {
        Instant::ZERO
    }

    fn wake_at(&self, at: Instant, _waker: &Waker) {
        self.0.lock().unwrap().push(at);
    }
}

#[test]
fn d2_wait_from_another_thread_ends_while_the_driver_is_parked() {
    let dispatcher = Arc::new(Dispatcher::on_std());
    let scope = Scope::under(&CancelToken::root(dispatcher.runtime()));
    scope.launch(pending::<()>()).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let (driver, finished) = (Arc::clone(&dispatcher), Arc::clone(&done));
    let (park_sender, park_receiver) = mpsc::channel();
    let driver = std::thread::spawn(move || {
        driver.blocking_dispatch_loop(|| {
            // Sent once more after the last poll. After that the driver parks.
            park_sender.send(driver.polls()).unwrap();
            finished.load(Ordering::SeqCst)
        });
    });
    while park_receiver.recv().unwrap() == 0 {}
    let waited = block_on(scope.wait_all_for(Duration::from_millis(100)));
    assert!(matches!(waited, Err(WaitError::StillRunning(_))), "{waited:?}");
    done.store(true, Ordering::SeqCst);
    drop(scope);
    driver.join().unwrap();
}

#[test]
fn d2_earlier_timer_wakes_the_drivers() {
    let clock = StoppedClock::default();
    let dispatcher = Dispatcher::new(clock.clone());
    let runtime = dispatcher.runtime();
    let woken = Arc::new(CountingWaker::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut driver = pin!(dispatcher.run_until(pending::<()>()));
    let mut drive = || assert!(driver.as_mut().poll(&mut TaskContext::from_waker(&waker)).is_pending());
    drive();
    let mut late = runtime.sleep_until(at(50));
    assert!(poll_once(&mut late).is_pending());
    assert_eq!(woken.wakes(), 1, "the first timer");
    drive();
    let mut early = runtime.sleep_until(at(20));
    assert!(poll_once(&mut early).is_pending());
    assert_eq!(woken.wakes(), 2, "an earlier timer");
    drive();
    let mut latest = runtime.sleep_until(at(90));
    assert!(poll_once(&mut latest).is_pending());
    assert_eq!(woken.wakes(), 2, "a later timer does not wake the driver");
    assert_eq!(*clock.0.lock().unwrap(), [at(50), at(20)]);
}

#[test]
fn d2_run_until_and_run_forever_yield_to_others() {
    let dispatcher = Dispatcher::on_std();
    let scope = Scope::under(&CancelToken::root(dispatcher.runtime()));
    // A task that is always ready.
    scope
        .launch(poll_fn(|cx| {
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        }))
        .unwrap();
    let woken = Arc::new(CountingWaker::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = TaskContext::from_waker(&waker);
    let mut until = pin!(dispatcher.run_until(pending::<()>()));
    assert!(until.as_mut().poll(&mut cx).is_pending());
    let polls = dispatcher.polls();
    assert!(polls > 0 && woken.wakes() > 0, "it wakes itself");
    let mut forever = pin!(dispatcher.run_forever());
    assert!(forever.as_mut().poll(&mut cx).is_pending());
    assert!(dispatcher.polls() > polls);
}

#[test]
fn d2_dropped_drivers_leave_no_wakers_behind() {
    let dispatcher = Dispatcher::on_std();
    let runtime = dispatcher.runtime();
    // The clock gets wakers too.
    let mut sleep = runtime.sleep_until(runtime.now() + Duration::from_secs(3_600));
    assert!(poll_once(&mut sleep).is_pending());
    let marker = Arc::new(CountingWaker::default());
    for _ in 0..100 {
        // A new waker each time, as with `select` in a new task.
        struct NewWaker(#[allow(dead_code, reason = "only its reference count is used")] Arc<CountingWaker>);
        impl Wake for NewWaker {
            fn wake(self: Arc<Self>) {}
        }
        let waker = Waker::from(Arc::new(NewWaker(Arc::clone(&marker))));
        let mut next = pin!(dispatcher.dispatch_next());
        assert!(next.as_mut().poll(&mut TaskContext::from_waker(&waker)).is_pending());
        let mut until = pin!(dispatcher.run_until(pending::<()>()));
        assert!(until.as_mut().poll(&mut TaskContext::from_waker(&waker)).is_pending());
        let mut forever = pin!(dispatcher.run_forever());
        assert!(forever.as_mut().poll(&mut TaskContext::from_waker(&waker)).is_pending());
    }
    assert_eq!(Arc::strong_count(&marker), 1);
}

#[test]
fn d2_on_std_wakes_run_until_and_run_forever_for_timers() {
    let dispatcher = Dispatcher::on_std();
    let runtime = dispatcher.runtime();
    let scope = Scope::under(&CancelToken::root(Arc::clone(&runtime)));
    let sleep = |ms| runtime.sleep_until(runtime.now() + Duration::from_millis(ms));
    scope.launch(sleep(20)).unwrap();
    // Another executor polls this. It parks, and only the clock wakes it.
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
