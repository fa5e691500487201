//! `Dispatcher`: whoever wakes a task against whoever drives, and two drivers at once.
//!
//! Proves for these orders: D2 (a driver that waits is woken for what becomes ready; a task that is woken while it is polled is polled
//! again, whichever driver comes upon it).

use super::{Times, block_on, explore};
use crate::{BoxFuture, CancelToken, Clock, Dispatcher, Exit, Instant, Scope};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::{poll_fn, ready};
use core::task::Poll;
use loom::thread;

struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Instant {
        Instant::ZERO
    }
}

/// A task that lets others run once before it ends.
fn steps_aside(done: Times) -> BoxFuture<'static, ()> {
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

#[test]
fn loom_d2_two_drivers_and_a_task_that_is_woken_in_its_poll() {
    explore(|| {
        let dispatcher = Arc::new(Dispatcher::new(StoppedClock));
        let done = Times::default();
        dispatcher.runtime().spawn(steps_aside(done.clone()));
        let drives = Arc::clone(&dispatcher);
        let driver = thread::spawn(move || drives.drain_ready());
        dispatcher.drain_ready();
        driver.join().unwrap();
        dispatcher.drain_ready();
        assert_eq!((done.get(), dispatcher.tasks_alive()), (1, 0));
    });
}
