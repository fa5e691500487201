//! [`RecipientAsk`]: the future of an ask whose question is adapted.

use crate::actor::ask::{AskTimeout, PendingAsk};
use crate::actor::recipient::Recipient;
use crate::actor::recipient::send::RecipientSend;
use crate::actor::reply::Reply;
use crate::tree::waits::ask_error::AskError;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

/// The future of [`Recipient::ask`]: sends a question and waits for its answer.
///
/// The question is sent when the future is first polled. There is no time limit by default.
/// Dropping the future stops waiting, as with [`Ask`](crate::Ask).
#[must_use = "an ask does nothing unless awaited"]
pub struct RecipientAsk<'a, M: Send + 'static, T, Q> {
    to: &'a Recipient<M>,
    question: Option<Q>,
    sending: Option<RecipientSend<'a, M>>,
    pending: Option<PendingAsk<T>>,
    timeout: AskTimeout,
}

impl<'a, M, T, Q> RecipientAsk<'a, M, T, Q>
where
    M: Send + 'static,
    T: Send + 'static,
    Q: FnOnce(Reply<T>) -> M,
{
    pub(super) fn new(to: &'a Recipient<M>, question: Q) -> Self {
        Self { to, question: Some(question), sending: None, pending: None, timeout: AskTimeout::default() }
    }

    /// Sets a time limit for the answer. Default: none.
    ///
    /// After it, the ask fails with [`AskError::TimedOut`].
    pub fn timeout(mut self, wait: Duration) -> Self {
        self.timeout.set(wait);
        self
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, AskError>> {
        if let Some(question) = self.question.take() {
            let (message, mut pending) = PendingAsk::new(question, &self.timeout, cx.waker());
            pending.begin_wait_for(&self.to.actor.member, cx.waker())?;
            self.sending = Some(self.to.send(message).for_ask());
            self.pending = Some(pending);
        }
        if let Some(sending) = &mut self.sending {
            match sending.poll_delivered(cx) {
                // The slot may already have an error, such as a wait cycle.
                Poll::Pending => {}
                Poll::Ready(Ok(Ok(()))) => self.sending = None,
                Poll::Ready(Ok(Err(failure))) => return Poll::Ready(Err(AskError::Failed(failure))),
                Poll::Ready(Err(_)) => return Poll::Ready(Err(self.to.exit().map_or(AskError::Closed, AskError::from))),
            }
        }
        self.pending.as_mut().map_or(Poll::Ready(Err(AskError::Dropped)), |pending| pending.poll(cx.waker()))
    }
}

// The question is moved and never pinned.
impl<M: Send + 'static, T, Q> Unpin for RecipientAsk<'_, M, T, Q> {}

impl<M, T, Q> Future for RecipientAsk<'_, M, T, Q>
where
    M: Send + 'static,
    T: Send + 'static,
    Q: FnOnce(Reply<T>) -> M,
{
    type Output = Result<T, AskError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let mut polled = this.poll_answer(cx);
        if polled.is_pending() {
            polled = this.timeout.poll(this.to.actor.member.node().runtime(), cx).map(Err);
        }
        if polled.is_ready() {
            (this.sending, this.pending) = (None, None);
        }
        polled
    }
}
