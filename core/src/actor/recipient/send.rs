//! `RecipientSend`: a send to a recipient that waits for room, and keeps its message until there is.

use crate::actor::recipient::Recipient;
use crate::events::failure::FailureInfo;
use crate::mailbox::Priority;
use crate::mailbox::send_error::SendError;
use crate::tree::token::{CancelToken, Cancelled};
use crate::tree::waits::RoomEdge;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

/// A send that waits for room; from [`Recipient::send`]. Dropping it before it is done drops the message with it.
#[must_use = "a send does nothing unless awaited"]
pub struct RecipientSend<'a, M: Send + 'static> {
    to: &'a Recipient<M>,
    message: Option<M>,
    priority: Priority,
    /// Its place in the waiting list.
    waiting: Option<u64>,
    edge: Option<Box<RoomEdge>>,
    /// Whether it leaves an edge while it waits; an ask has its own.
    adds_wait_edge: bool,
    token: Option<Cancelled>,
}

impl<'a, M: Send + 'static> RecipientSend<'a, M> {
    pub(super) fn new(to: &'a Recipient<M>, message: M) -> Self {
        let priority = Priority::NORMAL;
        Self { to, message: Some(message), priority, waiting: None, edge: None, adds_wait_edge: true, token: None }
    }

    /// The same for the question of an ask, which leaves an edge to its answer.
    pub(super) fn for_ask(mut self) -> Self {
        self.adds_wait_edge = false;
        self
    }

    /// Stop waiting when `token` is cancelled; the message comes back as `SendError::Cancelled`.
    pub fn or_cancel(mut self, token: &CancelToken) -> Self {
        self.token = Some(token.cancelled());
        self
    }

    /// Send it with a priority, to a mailbox that has them.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Ready with what became of making the message, once the mailbox has taken it.
    pub(super) fn poll_delivered(&mut self, cx: &mut Context<'_>) -> Poll<Result<Result<(), FailureInfo>, SendError<M>>> {
        let room = self.to.target.room();
        if let Some(token) = &mut self.token
            && let Poll::Ready(cause) = Pin::new(token).poll(cx)
        {
            self.withdraw();
            return Poll::Ready(self.message.take().map_or(Ok(Ok(())), |message| Err(SendError::Cancelled(message, cause))));
        }
        if self.message.is_none() {
            return Poll::Ready(Ok(Ok(())));
        }
        let Poll::Ready(polled) = room.poll_reserve(&mut self.waiting, self.priority, cx.waker()) else {
            if let (true, None, Some(key)) = (self.adds_wait_edge, &self.edge, self.waiting) {
                self.edge = RoomEdge::begin(Arc::clone(&self.to.actor.member), key);
            }
            return Poll::Pending;
        };
        self.edge = None;
        let message = self.message.take().expect("looked at above");
        Poll::Ready(match polled {
            Ok(reservation) => Ok(self.to.fill(reservation, message)),
            Err(refused) => Err(refused.with_message(message)),
        })
    }

    fn withdraw(&mut self) {
        if let Some(key) = self.waiting.take() {
            self.to.target.room().withdraw_reserve(key);
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
        // A failure in making the message is on record, and none of the sender's.
        let polled = this.poll_delivered(cx).map_ok(drop);
        if is_new && matches!(polled, Poll::Ready(Ok(()))) && this.to.target.room().receiver_is_behind() {
            // It is done, and lets its receiver run first.
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
