//! [`RecipientAsk`]: the future of an ask through a recipient or a pool.
//!
//! The question is made first, because a pool may choose the receiver by its key. [`AskTarget`]
//! delivers it; from then on the future only waits for the answer.

use crate::actor::ask::{AskEdge, AskTimeout};
use crate::actor::recipient::Recipient;
use crate::actor::reply::{Reply, ReplySlot};
use crate::base::runtime::BoxFuture;
use crate::base::sync::{Arc, unsize};
use crate::tree::node::Node;
use crate::tree::waits::Unanswered;
use crate::tree::waits::ask_error::AskError;
use alloc::boxed::Box;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

/// An address that delivers questions.
pub(crate) trait AskTarget<M>: Send + Sync {
    /// Returns the node whose runtime measures the timeout.
    fn node(&self) -> &Node;

    /// Points `edge` to the receiver, and waits until it has accepted the question. Returns the
    /// edge, which lasts until the answer.
    fn deliver(&self, question: M, edge: AskEdge) -> BoxFuture<'_, Result<AskEdge, AskError>>;
}

/// The future of [`Recipient::ask`] and [`Pool::ask`](crate::Pool::ask): sends a question and waits
/// for its answer.
///
/// The question is sent when the future is first polled. There is no time limit by default.
/// Dropping the future stops waiting, as with [`Ask`](crate::Ask).
#[must_use = "an ask does nothing unless awaited"]
pub struct RecipientAsk<'a, M: Send + 'static, T, Q> {
    to: &'a dyn AskTarget<M>,
    /// Present until the first poll.
    question: Option<Q>,
    /// Present from the first poll on.
    slot: Option<Arc<ReplySlot<T>>>,
    /// Present until the receiver has accepted the question.
    delivery: Option<BoxFuture<'a, Result<AskEdge, AskError>>>,
    /// Present after that.
    edge: Option<AskEdge>,
    timeout: AskTimeout,
}

impl<'a, M, T, Q> RecipientAsk<'a, M, T, Q>
where
    M: Send + 'static,
    T: Send + 'static,
    Q: FnOnce(Reply<T>) -> M,
{
    pub(crate) fn new(to: &'a dyn AskTarget<M>, question: Q) -> Self {
        let timeout = AskTimeout::default();
        Self { to, question: Some(question), slot: None, delivery: None, edge: None, timeout }
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
            let slot = ReplySlot::new(cx.waker());
            let edge = AskEdge::new(unsize!(Arc::clone(&slot) => dyn Unanswered), &self.timeout);
            self.delivery = Some(self.to.deliver(question(Reply::to(&slot)), edge));
            self.slot = Some(slot);
        }
        if let Some(delivery) = &mut self.delivery
            && let Poll::Ready(delivered) = delivery.as_mut().poll(cx)
        {
            self.delivery = None;
            self.edge = Some(delivered?);
        }
        // During the delivery, the slot may already have an error, such as a wait cycle.
        self.slot.as_ref().map_or(Poll::Ready(Err(AskError::Dropped)), |slot| slot.poll(cx.waker()))
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
            polled = this.timeout.poll(&this.to.node().tree().runtime, cx).map(Err);
        }
        if polled.is_ready() {
            (this.delivery, this.edge, this.slot) = (None, None, None);
        }
        polled
    }
}

impl<M: Send + 'static> AskTarget<M> for Recipient<M> {
    fn node(&self) -> &Node {
        self.actor.member.node()
    }

    fn deliver(&self, question: M, mut edge: AskEdge) -> BoxFuture<'_, Result<AskEdge, AskError>> {
        Box::pin(async move {
            edge.point_to(&self.actor.member).await?;
            let mut sending = self.send(question).for_ask();
            match poll_fn(|cx| sending.poll_delivered(cx)).await {
                Ok(Ok(())) => Ok(edge),
                Ok(Err(failure)) => Err(AskError::Failed(failure)),
                Err(_) => Err(self.exit().map_or(AskError::Closed, AskError::from)),
            }
        })
    }
}
