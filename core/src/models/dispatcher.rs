//! `Dispatcher`: wakes against a driving thread, and two driving threads at once.
//!
//! Proves: D2 (a waiting driver is woken for ready tasks; a task woken during its poll is polled
//! again, by either driver; a waiting driver is woken for, or has seen, the first timer, whichever
//! thread sets it).

use crate::base::runtime::BoxFuture;
use crate::base::time::Instant;
use crate::dispatcher::{Clock, Dispatcher};
use crate::events::cause::Exit;
use crate::models::{PlainCounter, block_on, explore};
use crate::scope::Scope;
use crate::tree::token::CancelToken;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::{poll_fn, ready};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use loom::thread;

struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Instant {
        Instant::ZERO
    }
}

/// A task that yields once before it ends.
fn steps_aside(done: PlainCounter) -> BoxFuture<'static, ()> {
    let mut stepped = false;
    Box::pin(poll_fn(move |cx| {
        if core::mem::replace(&mut stepped, true) {
            done.add();
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }))
}

#[test]
fn loom_d2_launch_against_a_driver_that_waits() {
    explore(|| {
        let dispatcher = Dispatcher::new(StoppedClock);
        let scope = Arc::new(Scope::under(&CancelToken::root(dispatcher.runtime())));
        let launches = Arc::clone(&scope);
        let launcher = thread::spawn(move || {
            drop(launches.launch(ready(())).unwrap());
            launches.close();
        });
        assert_eq!(block_on(dispatcher.run_until(scope.exited())), Exit::Closed);
        launcher.join().unwrap();
        dispatcher.drain_ready();
        assert_eq!(dispatcher.tasks_alive(), 0);
    });
}

/// A clock that does not advance, wakes its caller at once, which is allowed, and counts the calls.
struct Asked(PlainCounter);

impl Clock for Asked {
    fn now(&self) -> Instant {
        Instant::ZERO
    }

    fn wake_at(&self, _at: Instant, waker: &Waker) {
        self.0.add();
        waker.wake_by_ref();
    }
}

#[test]
fn loom_w7_a_timer_set_elsewhere_against_a_driver_that_waits() {
    explore(|| {
        let asked = PlainCounter::default();
        let dispatcher = Dispatcher::new(Asked(asked.clone()));
        let runtime = dispatcher.runtime();
        let setter = thread::spawn(move || {
            let mut sleep = runtime.sleep_until(Instant::after_start(Duration::from_secs(1)));
            assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            sleep
        });
        // The driver parks until the clock was asked. A timer that it missed would leave it parked
        // forever.
        block_on(dispatcher.run_until(poll_fn(|_| if asked.get() > 0 { Poll::Ready(()) } else { Poll::Pending })));
        drop(setter.join().unwrap());
    });
}

#[test]
fn loom_d2_two_drivers_and_a_task_that_is_woken_in_its_poll() {
    explore(|| {
        let dispatcher = Arc::new(Dispatcher::new(StoppedClock));
        let done = PlainCounter::default();
        dispatcher.runtime().spawn(steps_aside(done.clone()));
        let drives = Arc::clone(&dispatcher);
        let driver = thread::spawn(move || drives.drain_ready());
        dispatcher.drain_ready();
        driver.join().unwrap();
        dispatcher.drain_ready();
        assert_eq!((done.get(), dispatcher.tasks_alive()), (1, 0));
    });
}
