//! `Sending` and `SendError`: a send that waits for room, and why a send was not accepted.

use crate::actor::cell::Cell;
use crate::events::cause::Cause;
use crate::mailbox::Priority;
use crate::mailbox::waiting_sends::Sent;
use crate::tree::member::Member;
use crate::tree::token::{CancelToken, Cancelled};
use crate::tree::waits::RoomEdge;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

/// A message that was not accepted, and why. The message comes back.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum SendError<M> {
    /// The mailbox is full. Use `send` to wait for room, or give the mailbox another capacity or overflow policy.
    Full(M),
    /// The actor has ended, or takes no more input.
    Closed(M),
    /// The token given to the send was cancelled while it waited for room.
    Cancelled(M, Cause),
    /// The message has a priority and the mailbox has none. Build it with `Mailbox::prioritised`.
    NoPriorities(M),
}

impl<M> SendError<M> {
    /// The message.
    pub fn into_message(self) -> M {
        match self {
            Self::Full(message) | Self::Closed(message) | Self::NoPriorities(message) | Self::Cancelled(message, _) => message,
        }
    }

    /// The same error without its message.
    pub fn without_message(self) -> SendError<()> {
        match self {
            Self::Full(_) => SendError::Full(()),
            Self::Closed(_) => SendError::Closed(()),
            Self::Cancelled(_, cause) => SendError::Cancelled((), cause),
            Self::NoPriorities(_) => SendError::NoPriorities(()),
        }
    }
}

impl SendError<()> {
    /// The same error with what was refused.
    pub(crate) fn with_message<M>(self, message: M) -> SendError<M> {
        match self {
            Self::Full(()) => SendError::Full(message),
            Self::Closed(()) => SendError::Closed(message),
            Self::Cancelled((), cause) => SendError::Cancelled(message, cause),
            Self::NoPriorities(()) => SendError::NoPriorities(message),
        }
    }
}

impl<M> fmt::Display for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(_) => f.write_str("the mailbox is full: wait with `send`, or give it more room or an overflow policy"),
            Self::Closed(_) => f.write_str("the actor has ended or takes no more input"),
            Self::Cancelled(_, cause) => write!(f, "cancelled while waiting for room: {cause}"),
            Self::NoPriorities(_) => f.write_str("the mailbox has no priorities: build it with `Mailbox::prioritised`"),
        }
    }
}

/// Without the message, which need not be `Debug`.
impl<M> fmt::Debug for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(_) => f.write_str("Full(..)"),
            Self::Closed(_) => f.write_str("Closed(..)"),
            Self::Cancelled(_, cause) => write!(f, "Cancelled(.., {cause:?})"),
            Self::NoPriorities(_) => f.write_str("NoPriorities(..)"),
        }
    }
}

impl<M> core::error::Error for SendError<M> {}

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
    place: Place<M>,
    /// Whether it leaves an edge while it waits; an ask has its own.
    is_traced: bool,
    token: Option<Cancelled>,
}

enum Place<M> {
    Here(M, Priority),
    /// In the waiting list.
    Waiting(u64, Option<Box<RoomEdge>>),
    Accepted,
    GivenBack,
}

impl<'a, M> Sending<'a, M> {
    #[inline]
    pub(crate) fn new(to: &'a Arc<Cell<M>>, message: M) -> Self {
        Self { to, place: Place::Here(message, Priority::NORMAL), is_traced: true, token: None }
    }

    /// The same for the question of an ask, which leaves an edge to its answer.
    pub(crate) fn for_ask(mut self) -> Self {
        self.is_traced = false;
        self
    }

    /// Stop waiting when `token` is cancelled; the message comes back as `SendError::Cancelled`.
    pub fn or_cancel(mut self, token: &CancelToken) -> Self {
        self.token = Some(token.cancelled());
        self
    }

    /// Send it with a priority, to a mailbox that has them.
    pub fn priority(mut self, priority: Priority) -> Self {
        if let Place::Here(_, known) = &mut self.place {
            *known = priority;
        }
        self
    }

    /// Takes the message back, wherever it is; `None` if it has been accepted.
    fn take_back(&mut self) -> Option<M> {
        let message = match core::mem::replace(&mut self.place, Place::GivenBack) {
            Place::Here(message, _) => Some(message),
            Place::Waiting(key, _edge) => self.to.inbox().withdraw(key),
            Place::Accepted => None,
            Place::GivenBack => given_back(),
        };
        if message.is_none() {
            self.place = Place::Accepted;
        }
        message
    }
}

impl<M: Send + 'static> Sending<'_, M> {
    #[cold]
    fn leave_edge(&self, key: u64) -> Option<Box<RoomEdge>> {
        if self.is_traced { RoomEdge::begin(Arc::clone(self.to) as Arc<dyn Member>, key) } else { None }
    }
}

#[cold]
fn given_back() -> ! {
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
        let polled = match core::mem::replace(&mut this.place, Place::GivenBack) {
            Place::Here(message, priority) => match this.to.inbox().push_now_or_wait(message, priority, cx.waker()) {
                Ok(Sent { waiting, filling, behind }) => {
                    this.to.mind(filling);
                    match waiting {
                        Some(key) => this.place = Place::Waiting(key, this.leave_edge(key)),
                        None if behind => {
                            this.place = Place::Accepted;
                            cx.waker().wake_by_ref();
                        }
                        None => {
                            this.place = Place::Accepted;
                            return Poll::Ready(Ok(()));
                        }
                    }
                    return Poll::Pending;
                }
                Err(error) => Poll::Ready(Err(error)),
            },
            Place::Waiting(key, edge) => {
                let polled = this.to.inbox().poll_waiting(key, cx.waker());
                if polled.is_pending() {
                    this.place = Place::Waiting(key, edge);
                }
                polled
            }
            Place::Accepted => Poll::Ready(Ok(())),
            Place::GivenBack => given_back(),
        };
        if let Poll::Ready(Ok(())) = polled {
            this.place = Place::Accepted;
        }
        polled
    }
}

impl<M> Drop for Sending<'_, M> {
    #[inline]
    fn drop(&mut self) {
        if let Place::Waiting(..) = self.place {
            drop(self.take_back());
        }
    }
}
