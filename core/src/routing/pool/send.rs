//! `PoolSend`: sends to one worker of a pool, and waits for room in its mailbox.

use crate::actor::actor_ref::ActorRef;
use crate::actor::cell::member::SendStart;
use crate::mailbox::Priority;
use crate::mailbox::send_error::SendError;
use crate::routing::pool::Pool;
use crate::tree::token::{CancelToken, Cancelled};
use crate::tree::waits::RoomEdge;
use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

/// A send that waits for room; from [`Pool::send`]. Dropping it before it is ready withdraws the
/// message.
#[must_use = "a send does nothing unless awaited"]
pub struct PoolSend<'a, M: Send + 'static> {
    pool: &'a Pool<M>,
    stage: SendStage<M>,
    priority: Priority,
    token: Option<Cancelled>,
}

enum SendStage<M: Send + 'static> {
    Unsent(M),
    /// The message waits in the mailbox of this worker, under this key.
    Waiting(ActorRef<M>, u64, Option<Box<RoomEdge>>),
    Done,
}

impl<'a, M: Send + 'static> PoolSend<'a, M> {
    pub(super) fn new(pool: &'a Pool<M>, message: M) -> Self {
        Self { pool, stage: SendStage::Unsent(message), priority: Priority::NORMAL, token: None }
    }

    /// Stops waiting when `token` is cancelled, and returns the message in `SendError::Cancelled`.
    pub fn or_cancel(mut self, token: &CancelToken) -> Self {
        self.token = Some(token.cancelled());
        self
    }

    /// Sends with a priority, for workers with priority mailboxes. Default: [`Priority::NORMAL`].
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Takes the message back. `None` if it was accepted.
    fn take_back(&mut self) -> Option<M> {
        match core::mem::replace(&mut self.stage, SendStage::Done) {
            SendStage::Unsent(message) => Some(message),
            SendStage::Waiting(worker, key, _edge) => {
                let mut slot = None;
                worker.cell().any().mailbox().withdraw(key, &mut slot);
                slot
            }
            SendStage::Done => None,
        }
    }

    /// Chooses a worker, and sends the message there or queues it for room.
    fn poll_choosing(&mut self, message: M, waker: &Waker) -> Poll<Result<(), SendError<M>>> {
        let mut message = message;
        loop {
            let Some(worker) = self.pool.choose(&message) else { return Poll::Ready(Err(SendError::Closed(message))) };
            match worker.cell().begin_send(message, self.priority, waker) {
                Ok(SendStart::Accepted) => return Poll::Ready(Ok(())),
                Ok(SendStart::ReceiverBehind) => {
                    waker.wake_by_ref();
                    return Poll::Pending;
                }
                Ok(SendStart::Waits(key)) => {
                    let edge = RoomEdge::begin(worker.any().member, key);
                    self.stage = SendStage::Waiting(worker, key, edge);
                    return Poll::Pending;
                }
                Err(SendError::Closed(back)) => message = back,
                Err(error) => return Poll::Ready(Err(error)),
            }
            self.pool.remove_ended(&worker);
        }
    }
}

// The message is moved in and out and never pinned.
impl<M: Send + 'static> Unpin for PoolSend<'_, M> {}

impl<M: Send + 'static> Future for PoolSend<'_, M> {
    type Output = Result<(), SendError<M>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Some(token) = &mut this.token
            && let Poll::Ready(cause) = Pin::new(token).poll(cx)
        {
            return Poll::Ready(this.take_back().map_or(Ok(()), |message| Err(SendError::Cancelled(message, cause))));
        }
        match core::mem::replace(&mut this.stage, SendStage::Done) {
            SendStage::Unsent(message) => this.poll_choosing(message, cx.waker()),
            SendStage::Waiting(worker, key, edge) => {
                let mut slot = None;
                let polled = worker.cell().any().mailbox().poll_waiting(key, &mut slot, cx.waker());
                match (polled, slot) {
                    (Poll::Pending, _) => {
                        this.stage = SendStage::Waiting(worker, key, edge);
                        Poll::Pending
                    }
                    // The worker has ended, and the message is back.
                    (Poll::Ready(_), Some(back)) => {
                        drop(edge);
                        this.pool.remove_ended(&worker);
                        this.poll_choosing(back, cx.waker())
                    }
                    (Poll::Ready(_), None) => Poll::Ready(Ok(())),
                }
            }
            SendStage::Done => Poll::Ready(Ok(())),
        }
    }
}

impl<M: Send + 'static> Drop for PoolSend<'_, M> {
    fn drop(&mut self) {
        drop(self.take_back());
    }
}
