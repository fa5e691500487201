//! Two future adapters: [`either`] completes with the first of two, [`ErrInto`] boxes the error.

use pin_project_lite::pin_project;
use pleach_core::{BoxError, BoxFuture};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Completes when the first of the two futures completes.
pub(crate) async fn either(mut one: BoxFuture<'_, ()>, mut other: BoxFuture<'_, ()>) {
    poll_fn(|cx| match one.as_mut().poll(cx) {
        Poll::Pending => other.as_mut().poll(cx),
        ready => ready,
    })
    .await;
}

pin_project! {
    /// Converts the error of a user's future. An async block instead would store the future twice.
    pub(crate) struct ErrInto<F> {
        #[pin]
        pub(crate) future: F,
    }
}

impl<T, E: Into<BoxError>, F: Future<Output = Result<T, E>>> Future for ErrInto<F> {
    type Output = Result<T, BoxError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().future.poll(cx).map_err(Into::into)
    }
}
