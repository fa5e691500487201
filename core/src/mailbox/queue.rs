//! `MessageQueue`: the message queue of one actor, with its control word. Many senders, one
//! receiver.
//!
//! This file has the operations that move messages, and is compiled for each message type. What
//! needs no message type is in `receiver`, `control`, `message_counts`, and most of
//! `waiting_sends` and `reserve`: methods of [`AnyQueue`], which are compiled once.
//!
//! One short lock guards the chunk that senders fill. The receiver swaps the whole chunk for an
//! empty one, reverses it so that it can pop from the end, and works through it without the lock.
//! That chunk is the receiver's batch. Above 1,024 messages a full chunk moves to a backlog, so no
//! push copies more than one chunk.
//!
//! Mailboxes that drop the oldest message, conflate or have priorities keep their messages in lanes
//! instead. The receiver takes one message at a time from a lane.
//!
//! Lock rule: under the lock nothing is woken or dropped, no user code runs, and no waker of a
//! sender is cloned.
//!
//! States of the receiver (`ReceiverState`). Its waker is stored exactly while it is not `Running`:
//!
//! ```text
//!  Running ──refill finds nothing──► Idle ───────push or control──► Running
//!     ├──────take_single, early────► Idle
//!     ├──────handler is pending────► InHandler ──cancel───────────► Running  (not by a push)
//!     └──────suspended─────────────► Suspended ──any control──────► Running  (not by a push)
//! ```
//!
//! Invariants:
//! 1. `accepted - removed - taken` messages are queued. No push exceeds the capacity. Messages that
//!    the receiver adds itself may exceed it: from a feed, a timer, the stash or a retry. So may a
//!    send that is admitted to break a wait cycle.
//! 2. `credits` is the number of pushes that need no further check (see `high_water`).
//! 3. A caller that needs the receiver takes its waker under the lock and wakes it outside the
//!    lock.
//! 4. Control bits are set before the lock is taken to look at the receiver's state. The receiver
//!    checks them again under the lock before it parks. So no bit is missed.
//! 5. The message of a waiting send is kept beside the queue. The receiver, or a later push that
//!    finds room, moves it to the queue, in order and before newer messages. So a `tell` never
//!    overtakes it, and a dropped send leaks no room.
//! 6. A receiver may park early: when it takes the only queued message, before it handles it. A
//!    push meanwhile wakes its task, which is then polled once more. So the receiver may return
//!    `Pending` after its handler without checking the queue again.
//! 7. A push in two steps (`reserve`) is accepted before its message exists. The receiver does not
//!    exit before that message has arrived.
//! 8. State that only some mailboxes need is in two boxes, allocated on first use: `ColdPart`, and
//!    `ColdMessages` for what depends on the message type.

use crate::base::lock::Lock;
use crate::base::sync::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use crate::base::wakers;
use crate::events::event::DeadLetterReason;
use crate::events::instrument::SendContext;
use crate::mailbox::control::PollState;
use crate::mailbox::high_water::HighWater;
use crate::mailbox::messages::{MessageStore, Messages, OwnerData, Taken, WaitingMessage};
use crate::mailbox::queue_state::{Admission, QueueState, ReceiverState};
use crate::mailbox::send_error::SendError;
use crate::mailbox::{Mailbox, Priority};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::task::{Poll, Waker};

/// The message queue of one actor. `S` is where it keeps its messages. The owner attaches data: `U`
/// under the lock, and `H` beside it.
///
/// The state is the last field, because it may be unsized. All other fields have the same place in
/// every queue, so code that does not know `S` reaches them as fast.
pub(crate) struct QueueOf<S: ?Sized, U, H> {
    /// Data of the owner.
    pub(crate) owner: H,
    pub(super) control_word: AtomicU32,
    pub(super) poll_state: AtomicU8,
    /// True while the receiver is parked early and no message has arrived since. It is a hint, but
    /// it is always false once a handler has waited.
    pub(super) parked_early: AtomicBool,
    /// Flags of the owner.
    pub(super) owner_flags: AtomicU8,
    /// Bits of the owner, set when the queue is made.
    pub(crate) owner_bits: u8,
    /// Messages whose handler has started. Only the receiver writes it.
    pub(super) taken: AtomicUsize,
    /// Messages whose handler has returned `Ok`. Only the receiver writes it.
    pub(super) handled: AtomicUsize,
    pub(super) state: Lock<QueueState<S, U>>,
}

/// A queue of messages `M`. `X` is data of the owner, under the lock, that depends on `M`.
pub(crate) type MessageQueue<M, X = (), U = (), H = ()> = QueueOf<Messages<M, X>, U, H>;

/// A queue, whatever its message type.
pub(crate) type AnyQueue<U, H> = QueueOf<dyn MessageStore, U, H>;

/// What `refill` found.
pub(crate) enum Refill<M> {
    /// The batch has messages.
    Messages,
    /// The only queued message. It counts as taken, and the receiver is parked.
    Single(M),
    /// The control word has bits to process.
    Control,
    /// The queue is closed and empty.
    Ended,
}

/// What `refill` does if there is no message.
pub(super) enum WithoutMessage {
    Control,
    Ended,
    AdmitSends,
    Park,
    CheckAgain,
}

/// What a slow push does if there is no room.
pub(crate) enum WhenFull {
    /// It fails and returns the message.
    Fail,
    /// It applies the overflow rule of the mailbox, which may drop a message.
    Drop,
    /// It waits for room. Contains the waker of the sender, until the wait begins.
    Wait(Option<Waker>),
}

/// A push that was not rejected.
pub(crate) struct Pushed<M> {
    /// The key of a send that waits for room, or `None` if its message was accepted.
    pub(crate) waiting: Option<u64>,
    /// Set if the push passed the high-water mark.
    pub(crate) high_water: Option<HighWater>,
    /// The message that was dropped to make room, or this one.
    pub(crate) dropped: Option<(M, DeadLetterReason)>,
}

impl WhenFull {
    fn take_waker(&mut self) -> Option<Waker> {
        if let Self::Wait(waker) = self { waker.take() } else { None }
    }

    /// Drops the waker if it was not needed.
    fn discard(self) {
        if let Self::Wait(waker) = self {
            wakers::discard(waker);
        }
    }
}

impl<M: Send + 'static, X: OwnerData, U: Default, H> MessageQueue<M, X, U, H> {
    #[inline]
    pub(crate) fn new(kind: Mailbox, owner: H, owner_bits: u8) -> Self {
        Self {
            owner,
            control_word: AtomicU32::new(0),
            poll_state: AtomicU8::new(PollState::Outside as u8),
            parked_early: AtomicBool::new(false),
            owner_flags: AtomicU8::new(0),
            owner_bits,
            taken: AtomicUsize::new(0),
            handled: AtomicUsize::new(0),
            state: Lock::new(QueueState::new(kind)),
        }
    }

    /// Returns this queue without its message type, for code that is compiled once.
    #[inline]
    pub(crate) fn any(&self) -> &AnyQueue<U, H> {
        self
    }

    /// Pushes a message if there is room, and ignores the overflow rule. Returns `Some` if the push
    /// passed the high-water mark.
    #[cfg(test)]
    pub(crate) fn try_push(&self, message: M) -> Result<Option<HighWater>, SendError<M>> {
        match self.push_fast(message) {
            Ok(()) => Ok(None),
            Err(message) => self.push_slow(message, Priority::NORMAL, WhenFull::Fail, None).map(|pushed| pushed.high_water),
        }
    }

    /// Fast path of nearly every push: there is room, and the chunk has free memory. Returns the
    /// message if the slow path is needed.
    #[inline]
    pub(crate) fn push_fast(&self, message: M) -> Result<(), M> {
        let mut message = Some(message);
        let waker = self.state.with(|state| {
            if state.credits > 0
                && let Some(message) = message.take()
            {
                state.credits -= 1;
                state.accepted = state.accepted.wrapping_add(1);
                state.messages.chunk.push(message);
                return state.unpark_if_idle();
            }
            None
        });
        if let Some(waker) = waker {
            self.parked_early.store(false, Ordering::Relaxed);
            waker.wake();
        }
        message.map_or(Ok(()), Err)
    }

    /// Slow path of a push: every case without credits. Waiting sends go first.
    #[cold]
    pub(crate) fn push_slow(
        &self,
        message: M,
        priority: Priority,
        mut when_full: WhenFull,
        mut context: Option<SendContext>,
    ) -> Result<Pushed<M>, SendError<M>> {
        let (mut to_wake, mut receiver, mut old_context) = (Vec::new(), None, None);
        let pushed = self.state.with(|state| {
            let (mut waiting, mut dropped) = (None, None);
            match self.any().begin_push(state, priority, &mut when_full, &mut to_wake) {
                Ok(Some(Admission::Enqueue)) => {
                    state.messages.enqueue(message, state.position(priority));
                    context = state.push_context(priority, context.take());
                }
                Ok(Some(Admission::ReplaceOldest(reason))) => {
                    dropped = state.messages.pop_oldest().map(|oldest| (oldest, reason));
                    old_context = state.pop_oldest_context();
                    state.messages.enqueue(message, state.position(priority));
                    context = state.push_context(priority, context.take());
                }
                Ok(Some(Admission::DropIncoming(reason))) => dropped = Some((message, reason)),
                Ok(None) => {
                    let (message, waker) = (Some(Box::new(message) as WaitingMessage), when_full.take_waker());
                    waiting = Some(self.any().add_waiting(state, message, priority, waker, context.take()));
                }
                Err(error) => return Err(error.with_message(message)),
            }
            let high_water = self.any().finish_push(state, &mut receiver);
            Ok(Pushed { waiting, high_water, dropped })
        });
        drop((context, old_context));
        when_full.discard();
        wakers::wake_each(to_wake);
        wakers::wake_each(receiver);
        pushed
    }

    /// Takes the only queued message, counts it as taken, and parks the receiver. Returns `None` if
    /// there is not exactly one message, a send waits, the queue is closed, or the control word is
    /// not zero.
    #[inline]
    pub(crate) fn take_single(&self, waker: &Waker) -> Option<M> {
        let mut replaced = None;
        let message = self.state.with(|state| {
            // The end of a backlog is reported by a batch.
            if state.closed | state.high_water_reported || self.control_word() != 0 || !state.no_send_waits() {
                return None;
            }
            let message = state.messages.take_single()?;
            state.last_batch_len = 1;
            self.count_taken();
            state.refresh_credits(&self.taken, &self.control_word);
            state.receiver = ReceiverState::Idle;
            replaced = state.store_waker(waker);
            Some(message)
        });
        drop(replaced);
        self.parked_early.store(message.is_some(), Ordering::Relaxed);
        message
    }

    /// Fills `batch`, which must be empty. If there is nothing to take and `may_park` is true,
    /// parks the receiver.
    pub(crate) fn refill(&self, batch: &mut Vec<M>, may_park: bool, waker: &Waker) -> Poll<Refill<M>> {
        loop {
            let (mut replaced, mut old_context) = (None, None);
            let found = self.state.with(|state| {
                match state.messages.take_batch(batch, &mut state.last_batch_len) {
                    Taken::Nothing => {}
                    taken => {
                        if taken == Taken::Cold {
                            old_context = state.take_context();
                        }
                        state.refresh_credits(&self.taken, &self.control_word);
                        return None;
                    }
                }
                let next = self.any().without_message(state, may_park);
                if let WithoutMessage::Park = next {
                    state.messages.keep_small_chunk(batch);
                    state.refresh_credits(&self.taken, &self.control_word);
                    replaced = state.store_waker(waker);
                }
                Some(next)
            });
            drop(replaced);
            drop(old_context);
            match found {
                None => {
                    // The oldest message goes last, because the batch is popped from its end.
                    if batch.len() > 1 {
                        batch.reverse();
                    }
                    return Poll::Ready(Refill::Messages);
                }
                Some(WithoutMessage::Control) => return Poll::Ready(Refill::Control),
                Some(WithoutMessage::Ended) => return Poll::Ready(Refill::Ended),
                Some(WithoutMessage::AdmitSends) => self.any().admit(),
                Some(WithoutMessage::Park) => {
                    if batch.capacity() > 0 {
                        *batch = Vec::new();
                    }
                    return Poll::Pending;
                }
                Some(WithoutMessage::CheckAgain) => return Poll::Pending,
            }
        }
    }

    /// Runs `f` on the owner's data that depends on the message type, under the lock. `f` must not
    /// wake, drop or call user code.
    pub(crate) fn with_message_data<R>(&self, f: impl FnOnce(&mut X) -> R) -> R {
        self.state.with(|state| f(&mut state.messages.cold(state.lanes).attached))
    }

    /// As [`with_message_data`](Self::with_message_data), but does nothing if there is none.
    pub(crate) fn with_message_data_if_any<R>(&self, f: impl FnOnce(&mut X) -> R) -> Option<R> {
        self.state.with(|state| state.messages.cold.as_mut().map(|cold| f(&mut cold.attached)))
    }
}
