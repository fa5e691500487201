//! [`Sending`]: the future of a send that waits for room.

use crate::actor::cell::Cell;
use crate::actor::cell::member::SendStart;
use crate::base::sync::{Arc, unsize};
use crate::mailbox::Priority;
use crate::mailbox::send_error::SendError;
use crate::tree::member::Member;
use crate::tree::token::{CancelToken, Cancelled};
use crate::tree::waits::RoomEdge;
use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

/// The future of [`ActorRef::send`](crate::ActorRef::send): waits for room and puts the message
/// into the mailbox.
///
/// Cancel safety: dropping it before it is ready removes the message from the waiting list and
/// drops it.
///
/// An actor may await a send to an actor that, directly or not, waits for it. Such a send would
/// wait forever, so it is admitted beyond the capacity; see
/// [`Lint::SendCycle`](crate::Lint::SendCycle).
///
/// If the receiver is behind by a whole part of its queue (at most 1,024 messages), an accepted
/// send yields once, so that a sender in a loop lets its receiver run.
///
/// # Panics
/// If polled again after it has returned the message in an error.
#[must_use = "a send does nothing unless awaited"]
pub struct Sending<'a, M: Send + 'static> {
    to: &'a Arc<Cell<M>>,
    state: SendState<M>,
    /// False for the question of an ask, which has its own wait edge.
    adds_wait_edge: bool,
    token: Option<Cancelled>,
}

/// Where the message of a send is.
enum SendState<M> {
    NotSent(M, Priority),
    /// In the waiting list of the mailbox, under this key.
    Waiting(u64, Option<Box<RoomEdge>>),
    Accepted,
    /// Returned to the caller in an error.
    Returned,
}

impl<'a, M: Send + 'static> Sending<'a, M> {
    #[inline]
    pub(crate) fn new(to: &'a Arc<Cell<M>>, message: M) -> Self {
        Self { to, state: SendState::NotSent(message, Priority::NORMAL), adds_wait_edge: true, token: None }
    }

    /// Marks this as the question of an ask, which has its own wait edge to the answer.
    pub(crate) fn for_ask(mut self) -> Self {
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
        if let SendState::NotSent(_, known) = &mut self.state {
            *known = priority;
        }
        self
    }

    /// Takes the message back. Returns `None` if it has been accepted.
    fn take_back(&mut self) -> Option<M> {
        let message = match core::mem::replace(&mut self.state, SendState::Returned) {
            SendState::NotSent(message, _) => Some(message),
            SendState::Waiting(key, _edge) => {
                let mut slot = None;
                self.to.any().mailbox().withdraw(key, &mut slot);
                slot
            }
            SendState::Accepted => None,
            SendState::Returned => polled_after_return(),
        };
        if message.is_none() {
            self.state = SendState::Accepted;
        }
        message
    }
}

impl<M: Send + 'static> Sending<'_, M> {
    #[cold]
    fn add_wait_edge(&self, key: u64) -> Option<Box<RoomEdge>> {
        if self.adds_wait_edge { RoomEdge::begin(unsize!(Arc::clone(self.to) => dyn Member), key) } else { None }
    }
}

#[cold]
fn polled_after_return() -> ! {
    panic!("a send was polled again after it had given its message back");
}

// The message is moved in and out and never pinned.
impl<M: Send + 'static> Unpin for Sending<'_, M> {}

impl<M: Send + 'static> Future for Sending<'_, M> {
    type Output = Result<(), SendError<M>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Some(token) = &mut this.token
            && let Poll::Ready(cause) = Pin::new(token).poll(cx)
        {
            return Poll::Ready(match this.take_back() {
                Some(message) => Err(SendError::Cancelled(message, cause)),
                None => Ok(()),
            });
        }
        let polled = match core::mem::replace(&mut this.state, SendState::Returned) {
            SendState::NotSent(message, priority) => match this.to.begin_send(message, priority, cx.waker()) {
                Ok(SendStart::Accepted) => Poll::Ready(Ok(())),
                Ok(SendStart::ReceiverBehind) => {
                    this.state = SendState::Accepted;
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                Ok(SendStart::Waits(key)) => {
                    this.state = SendState::Waiting(key, this.add_wait_edge(key));
                    Poll::Pending
                }
                Err(error) => Poll::Ready(Err(error)),
            },
            SendState::Waiting(key, edge) => {
                let mut slot = None;
                let polled = this.to.any().mailbox().poll_waiting(key, &mut slot, cx.waker());
                if polled.is_pending() {
                    this.state = SendState::Waiting(key, edge);
                }
                polled.map_err(|error| error.with_message_of(&mut slot))
            }
            SendState::Accepted => Poll::Ready(Ok(())),
            SendState::Returned => polled_after_return(),
        };
        if let Poll::Ready(Ok(())) = polled {
            this.state = SendState::Accepted;
        }
        polled
    }
}

impl<M: Send + 'static> Drop for Sending<'_, M> {
    #[inline]
    fn drop(&mut self) {
        if let SendState::Waiting(..) = self.state {
            drop(self.take_back());
        }
    }
}
