//! With `std`: a dispatcher driven by a thread that parks, on the machine's clock.

use super::{Clock, Dispatcher};
use crate::Instant;
use crate::blocking::thread_waker;
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll};
use std::thread;

/// The machine's monotonic clock.
#[derive(Debug)]
pub struct StdClock(std::time::Instant);

impl StdClock {
    /// A clock that begins now.
    pub fn new() -> Self {
        Self(std::time::Instant::now())
    }
}

impl Default for StdClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for StdClock {
    fn now(&self) -> Instant {
        Instant::after_start(self.0.elapsed())
    }
}

impl Dispatcher {
    /// A dispatcher on the machine's clock, to be driven by [`blocking_dispatch_loop`](Self::blocking_dispatch_loop). To await timers
    /// in `run_until` and the like, give it a [`Clock`] with a `wake_at` of its own.
    pub fn on_std() -> Self {
        Self::new(StdClock::new())
    }

    /// Drives everything from this thread until `future` is done. While nothing is ready the thread is parked, until the next timer at
    /// the latest.
    pub fn blocking_run_until<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let waker = thread_waker();
        let mut output = None;
        self.blocking_dispatch_loop(|| {
            if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                output = Some(done);
            }
            output.is_some()
        });
        output.expect("the loop ends when the future is done")
    }

    /// Drives everything from this thread until `done` says so, which is asked after every poll and every wake-up. While nothing is
    /// ready the thread is parked, until the next timer at the latest; it never spins.
    pub fn blocking_dispatch_loop(&self, mut done: impl FnMut() -> bool) {
        let waker = thread_waker();
        while !done() {
            if self.inner.step(None).is_some() {
                continue;
            }
            self.inner.wait_for_more(&waker);
            match self.inner.queue.with(|queue| queue.next_timer()) {
                Some(at) => thread::park_timeout(at.since(self.inner.now())),
                None => thread::park(),
            }
        }
        self.inner.hand_over();
    }
}
