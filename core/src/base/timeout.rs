//! `Timeout`: a future that is given so long, on the clock of a tree's runtime: virtual in the simulator.

use crate::base::runtime::{BoxFuture, Runtime};
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use pin_project_lite::pin_project;

pin_project! {
    /// A future with a limit of time; from [`Context::timeout`](crate::Context::timeout).
    #[must_use = "futures do nothing unless awaited"]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        sleep: BoxFuture<'static, ()>,
        wait: Duration,
    }
}

impl<F> Timeout<F> {
    pub(crate) fn new(runtime: &dyn Runtime, wait: Duration, future: F) -> Self {
        Self { future, sleep: runtime.sleep_until(runtime.now() + wait), wait }
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        // The future goes first: an output that is there in time counts.
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        this.sleep.as_mut().poll(cx).map(|()| Err(Elapsed(*this.wait)))
    }
}

/// The error of a task that did not end within the time it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed(pub Duration);

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not done within {:?}", self.0)
    }
}

impl core::error::Error for Elapsed {}
