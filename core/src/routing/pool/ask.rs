//! `PoolAsk`: asks one worker of a pool.
//!
//! The question is turned into a message first, because the choice of the worker may depend on its
//! key. From then on it works like an ask to one actor: it waits for room, records a wait-for edge,
//! and never hangs after the worker has ended.

use crate::actor::ask::{AskTimeout, PendingAsk};
use crate::actor::reply::Reply;
use crate::base::runtime::BoxFuture;
use crate::routing::pool::Pool;
use crate::tree::waits::ask_error::AskError;
use alloc::boxed::Box;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

/// Waits for the reply of a pool; from [`Pool::ask`]. The question is sent at the first poll.
#[must_use = "an ask does nothing unless awaited"]
pub struct PoolAsk<'a, M: Send + 'static, T, Q> {
    pool: &'a Pool<M>,
    question: Option<Q>,
    asking: Option<BoxFuture<'a, Result<T, AskError>>>,
    timeout: AskTimeout,
}

impl<'a, M: Send + 'static, T, Q> PoolAsk<'a, M, T, Q> {
    pub(super) fn new(pool: &'a Pool<M>, question: Q) -> Self {
        Self { pool, question: Some(question), asking: None, timeout: AskTimeout::default() }
    }

    /// Limits the wait. Default: no limit. After it, the ask fails with [`AskError::TimedOut`].
    pub fn timeout(mut self, wait: Duration) -> Self {
        self.timeout.set(wait);
        self
    }
}

// The question is moved and never pinned.
impl<M: Send + 'static, T, Q> Unpin for PoolAsk<'_, M, T, Q> {}

impl<M, T, Q> Future for PoolAsk<'_, M, T, Q>
where
    M: Send + 'static,
    T: Send + 'static,
    Q: FnOnce(Reply<T>) -> M,
{
    type Output = Result<T, AskError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { pool, question, asking, timeout } = self.get_mut();
        if let Some(question) = question.take() {
            let (message, pending) = PendingAsk::new(question, timeout, cx.waker());
            *asking = Some(Box::pin(ask_worker(pool, message, pending)));
        }
        let Some(answer) = asking else { return Poll::Ready(Err(AskError::Dropped)) };
        let mut polled = answer.as_mut().poll(cx);
        if polled.is_pending() {
            polled = timeout.poll(pool.node().runtime(), cx).map(Err);
        }
        if polled.is_ready() {
            *asking = None;
        }
        polled
    }
}

/// Sends the question to its worker and waits for the reply.
async fn ask_worker<M: Send + 'static, T: Send + 'static>(
    pool: &Pool<M>,
    mut message: M,
    mut pending: PendingAsk<T>,
) -> Result<T, AskError> {
    loop {
        let Some(worker) = pool.choose(&message) else {
            return Err(pool.any().exit().map_or(AskError::Closed, AskError::from));
        };
        poll_fn(|cx| Poll::Ready(pending.begin_wait_for(&worker.any().member, cx.waker()))).await?;
        let mut sending = worker.send(message).for_ask();
        // While the ask waits for room, it may already learn that there will be no reply.
        let sent = poll_fn(|cx| match Pin::new(&mut sending).poll(cx) {
            Poll::Ready(sent) => Poll::Ready(Ok(sent)),
            Poll::Pending => pending.poll(cx.waker()).map(Err),
        });
        match sent.await {
            Ok(Ok(())) => break,
            Ok(Err(error)) => message = error.into_message(),
            Err(answer) => return answer,
        }
        pool.remove_ended(&worker);
    }
    poll_fn(|cx| pending.poll(cx.waker())).await
}
