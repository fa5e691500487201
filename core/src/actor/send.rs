//! `Sending` and `SendError`: a send that waits for room, and why a send was not accepted.

use crate::actor::cell::Cell;
use crate::mailbox::Priority;
use crate::mailbox::send_error::SendError;
use crate::mailbox::waiting_sends::Sent;
use crate::tree::member::Member;
use crate::tree::token::{CancelToken, Cancelled};
use crate::tree::waits::RoomEdge;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

/// A send that waits for room; from `ActorRef::send`. Dropping it before it is done takes the message back out.
///
/// A send that an actor awaits in its own task, and that could only wait for good because the receiver waits for that actor, is
/// admitted beyond the capacity; see [`Lint::SendCycle`](crate::Lint::SendCycle). When the receiver has fallen behind by a whole part
/// of its queue, 1,024 messages at most, an accepted send yields once, so that a sender in a loop lets its receiver run.
///
/// # Panics
/// When polled again after it has given the message back: there is nothing left to send.
#[must_use = "a send does nothing unless awaited"]
pub struct Sending<'a, M> {
    to: &'a Arc<Cell<M>>,
    state: SendState<M>,
    /// Whether it leaves an edge while it waits; an ask has its own.
    adds_wait_edge: bool,
    token: Option<Cancelled>,
}

enum SendState<M> {
    NotSent(M, Priority),
    /// In the waiting list.
    Waiting(u64, Option<Box<RoomEdge>>),
    Accepted,
    Returned,
}

impl<'a, M> Sending<'a, M> {
    #[inline]
    pub(crate) fn new(to: &'a Arc<Cell<M>>, message: M) -> Self {
        Self { to, state: SendState::NotSent(message, Priority::NORMAL), adds_wait_edge: true, token: None }
    }

    /// The same for the question of an ask, which leaves an edge to its answer.
    pub(crate) fn for_ask(mut self) -> Self {
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
        if let SendState::NotSent(_, known) = &mut self.state {
            *known = priority;
        }
        self
    }

    /// Takes the message back, wherever it is; `None` if it has been accepted.
    fn take_back(&mut self) -> Option<M> {
        let message = match core::mem::replace(&mut self.state, SendState::Returned) {
            SendState::NotSent(message, _) => Some(message),
            SendState::Waiting(key, _edge) => self.to.mailbox().withdraw(key),
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
        if self.adds_wait_edge { RoomEdge::begin(Arc::clone(self.to) as Arc<dyn Member>, key) } else { None }
    }
}

#[cold]
fn polled_after_return() -> ! {
    panic!("a send was polled again after it had given its message back");
}

// The message is moved in and out and never pinned.
impl<M> Unpin for Sending<'_, M> {}

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
            SendState::NotSent(message, priority) => match this.to.mailbox().push_now_or_wait(message, priority, cx.waker()) {
                Ok(Sent { waiting, high_water, receiver_behind }) => {
                    this.to.report_if_high_water(high_water);
                    match waiting {
                        Some(key) => this.state = SendState::Waiting(key, this.add_wait_edge(key)),
                        None if receiver_behind => {
                            this.state = SendState::Accepted;
                            cx.waker().wake_by_ref();
                        }
                        None => {
                            this.state = SendState::Accepted;
                            return Poll::Ready(Ok(()));
                        }
                    }
                    return Poll::Pending;
                }
                Err(error) => Poll::Ready(Err(error)),
            },
            SendState::Waiting(key, edge) => {
                let polled = this.to.mailbox().poll_waiting(key, cx.waker());
                if polled.is_pending() {
                    this.state = SendState::Waiting(key, edge);
                }
                polled
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

impl<M> Drop for Sending<'_, M> {
    #[inline]
    fn drop(&mut self) {
        if let SendState::Waiting(..) = self.state {
            drop(self.take_back());
        }
    }
}
