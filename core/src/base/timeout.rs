//! [`Timeout`]: a future with a time limit, measured by the clock of a runtime.

use crate::base::runtime::{BoxFuture, Runtime};
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use pin_project_lite::pin_project;

pin_project! {
    /// A future with a time limit; returned by [`Context::timeout`](crate::Context::timeout).
    ///
    /// Completes with the output of the inner future, or with [`Elapsed`] once the limit has
    /// passed. An output that is ready in the same poll wins. Dropping it drops the inner future.
    #[must_use = "futures do nothing unless awaited"]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        sleep: BoxFuture<'static, ()>,
        wait: Duration,
    }
}

impl<F> Timeout<F> {
    /// Limits `future` to `wait` from now, by the clock of `runtime`.
    pub fn new(runtime: &dyn Runtime, wait: Duration, future: F) -> Self {
        Self { future, sleep: runtime.sleep_until(runtime.now() + wait), wait }
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        // The inner future is polled first: an output that is ready in time wins.
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        this.sleep.as_mut().poll(cx).map(|()| Err(Elapsed(*this.wait)))
    }
}

/// The error of a future that did not complete within its time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed(
    /// The time limit that has passed.
    pub Duration,
);

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "timed out after {:?}", self.0)
    }
}

impl core::error::Error for Elapsed {}
