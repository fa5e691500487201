//! Waiting from a plain thread, with `std`: the thread parks, and its deadline is its own, so it is told even when no worker of the
//! runtime is free.

use alloc::sync::Arc;
use alloc::task::Wake;
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::thread::{self, Thread};
use std::time::Instant;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A waker that unparks the current thread.
pub(crate) fn thread_waker() -> Waker {
    Waker::from(Arc::new(Unpark(thread::current())))
}

/// Waits for `future` on this thread, which parks meanwhile. For threads outside a runtime; inside one it holds up a worker.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = thread_waker();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

/// As [`block_on`], for at most `wait`. `None` if that passed.
pub(crate) fn block_on_for<T>(future: impl Future<Output = T>, wait: Duration) -> Option<T> {
    let deadline = Instant::now().checked_add(wait);
    let mut future = pin!(future);
    let waker = thread_waker();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        match deadline.map(|at| at.saturating_duration_since(Instant::now())) {
            Some(Duration::ZERO) => return None,
            Some(left) => thread::park_timeout(left),
            None => thread::park(),
        }
    }
}
