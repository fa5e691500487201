//! Waits for a future on a plain thread. Needs `std`.
//!
//! The thread parks between polls. A deadline is measured by the thread itself, so it also expires
//! when every worker of the runtime is busy.

use alloc::sync::Arc;
use alloc::task::Wake;
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::thread::{self, Thread};
use std::time::Instant;

struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Returns a waker that unparks the current thread.
pub(crate) fn thread_waker() -> Waker {
    Waker::from(Arc::new(ThreadWaker(thread::current())))
}

/// Polls `future` on the current thread until it is ready, and returns its output.
///
/// The thread parks between polls. Use it on threads outside of a runtime, such as `main` or a
/// test. On a worker thread of a runtime it blocks that worker, and can deadlock if `future` needs
/// the same worker.
///
/// # Examples
///
/// ```
/// let sum = pleach::runtime::block_on(async { 1 + 1 });
/// assert_eq!(sum, 2);
/// ```
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

/// Like [`block_on`], but returns `None` once `wait` has passed.
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
