//! [`RecipientSend`]: the future of a send that waits for room and keeps its message until then.

use crate::actor::recipient::Recipient;
use crate::base::sync::Arc;
use crate::events::failure::FailureInfo;
use crate::mailbox::Priority;
use crate::mailbox::send_error::SendError;
use crate::tree::token::{CancelToken, Cancelled};
use crate::tree::waits::RoomEdge;
use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

/// The future of [`Recipient::send`]: waits for room, then adapts the message and puts it into the
/// mailbox.
///
/// Cancel safety: dropping it before it is ready drops the message, and no adapter has seen it.
#[must_use = "a send does nothing unless awaited"]
pub struct RecipientSend<'a, M: Send + 'static> {
    to: &'a Recipient<M>,
    message: Option<M>,
    priority: Priority,
    /// The key in the waiting list.
    waiting: Option<u64>,
    edge: Option<Box<RoomEdge>>,
    /// False for the question of an ask, which has its own wait edge.
    adds_wait_edge: bool,
    token: Option<Cancelled>,
}

impl<'a, M: Send + 'static> RecipientSend<'a, M> {
    pub(super) fn new(to: &'a Recipient<M>, message: M) -> Self {
        let priority = Priority::NORMAL;
        Self { to, message: Some(message), priority, waiting: None, edge: None, adds_wait_edge: true, token: None }
    }

    /// Marks this as the question of an ask, which has its own wait edge to the answer.
    pub(super) fn for_ask(mut self) -> Self {
        self.adds_wait_edge = false;
        self
    }

    /// Stops waiting when `token` is cancelled. The send then fails with [`SendError::Cancelled`]
    /// and returns the message.
    pub fn or_cancel(mut self, token: &CancelToken) -> Self {
        self.token = Some(token.cancelled());
        self
    }

    /// Sets the priority of the message. Default: [`Priority::NORMAL`]. The mailbox must have
    /// [priorities](crate::Mailbox::prioritised).
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Polls the send. Once the mailbox has accepted the message, returns the failure of an
    /// adapter, if one panicked.
    pub(super) fn poll_delivered(&mut self, cx: &mut Context<'_>) -> Poll<Result<Result<(), FailureInfo>, SendError<M>>> {
        let cell = self.to.target.cell();
        if let Some(token) = &mut self.token
            && let Poll::Ready(cause) = Pin::new(token).poll(cx)
        {
            self.withdraw();
            return Poll::Ready(self.message.take().map_or(Ok(Ok(())), |message| Err(SendError::Cancelled(message, cause))));
        }
        if self.message.is_none() {
            return Poll::Ready(Ok(Ok(())));
        }
        let Poll::Ready(polled) = cell.poll_reserve(&mut self.waiting, self.priority, cx.waker()) else {
            if let (true, None, Some(key)) = (self.adds_wait_edge, &self.edge, self.waiting) {
                self.edge = RoomEdge::begin(Arc::clone(&self.to.actor.member), key);
            }
            return Poll::Pending;
        };
        self.edge = None;
        let message = self.message.take().expect("checked above");
        Poll::Ready(match polled {
            Ok(reservation) => Ok(self.to.fill(reservation, message)),
            Err(refused) => Err(refused.with_message(message)),
        })
    }

    fn withdraw(&mut self) {
        if let Some(key) = self.waiting.take() {
            self.to.target.cell().mailbox().withdraw_reserve(key);
        }
        self.edge = None;
    }
}

// The message is moved in and out and never pinned.
impl<M: Send + 'static> Unpin for RecipientSend<'_, M> {}

impl<M: Send + 'static> Future for RecipientSend<'_, M> {
    type Output = Result<(), SendError<M>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let is_new = this.message.is_some();
        // A failure of the adapter is recorded; it is not the sender's error.
        let polled = this.poll_delivered(cx).map_ok(drop);
        if is_new && matches!(polled, Poll::Ready(Ok(()))) && this.to.target.cell().mailbox().receiver_is_behind() {
            // The message is delivered. The sender yields once, so that the receiver can run.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        polled
    }
}

impl<M: Send + 'static> Drop for RecipientSend<'_, M> {
    fn drop(&mut self) {
        self.withdraw();
    }
}
