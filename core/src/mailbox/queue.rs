//! `MessageQueue`: the message queue of one actor, with its control word. Many senders, one
//! receiver.
//!
//! This file has the operations that move messages, and is compiled for each message type. What
//! needs no message type is in `push`, `receiver`, `control`, `message_counts`,
//! `waiting_sends` and most of `reserve`: methods of [`AnyQueue`], which are compiled once.
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
//!    `ColdMessages` for the messages of lanes and backlogs.

use crate::base::lock::Lock;
use crate::base::sync::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use crate::mailbox::Mailbox;
use crate::mailbox::control::PollState;
use crate::mailbox::messages::{MessageStore, Messages};
use crate::mailbox::queue_state::QueueState;
#[cfg(test)]
use crate::mailbox::{
    Priority,
    high_water::HighWater,
    push::{Pushed, WhenFull},
    send_error::SendError,
};
use alloc::collections::VecDeque;
use core::task::Waker;

/// The message queue of one actor. `S` is where it keeps its messages. The owner attaches data: `U`
/// under the lock, and `H` beside it.
///
/// The state is the last field, because it may be unsized. All other fields have the same place in
/// every queue, so code that does not know `S` reaches them as fast.
///
/// The order is fixed by `repr(C)`. What the receiver uses for every message is first, and what
/// senders use for every message is last. An owner of 64 bytes or more between them keeps them out
/// of one cache line, which would otherwise go back and forth between two cores.
#[repr(C)]
pub(crate) struct QueueOf<S: ?Sized, U, H> {
    /// Messages whose handler has started. Only the receiver writes it.
    pub(super) taken: AtomicUsize,
    /// Messages whose handler has returned `Ok`. Only the receiver writes it.
    pub(super) handled: AtomicUsize,
    pub(super) control_word: AtomicU32,
    pub(super) poll_state: AtomicU8,
    /// True while the receiver is parked early and no message has arrived since. It is a hint, but
    /// it is always false once a handler has waited.
    pub(super) parked_early: AtomicBool,
    /// Flags of the owner.
    pub(super) owner_flags: AtomicU8,
    /// Bits of the owner, set when the queue is made.
    pub(crate) owner_bits: u8,
    /// Data of the owner.
    pub(crate) owner: H,
    pub(super) state: Lock<QueueState<S, U>>,
}

/// A queue of messages `M`.
pub(crate) type MessageQueue<M, U = (), H = ()> = QueueOf<Messages<M>, U, H>;

/// A queue, whatever its message type.
pub(crate) type AnyQueue<U, H> = QueueOf<dyn MessageStore, U, H>;

impl<M: Send + 'static, U: Default, H> MessageQueue<M, U, H> {
    /// How many bytes lie between what the receiver and what senders use for every message.
    #[cfg(all(test, not(loom)))]
    pub(crate) const BYTES_BETWEEN_SIDES: usize =
        core::mem::offset_of!(Self, state) - core::mem::offset_of!(Self, owner_bits) - 1;

    #[inline]
    pub(crate) fn new(kind: Mailbox, owner: H, owner_bits: u8) -> Self {
        Self {
            taken: AtomicUsize::new(0),
            handled: AtomicUsize::new(0),
            control_word: AtomicU32::new(0),
            poll_state: AtomicU8::new(PollState::Outside as u8),
            parked_early: AtomicBool::new(false),
            owner_flags: AtomicU8::new(0),
            owner_bits,
            owner,
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
            Err(message) => self.push_message(message, WhenFull::Fail).map(|(pushed, _)| pushed.high_water),
        }
    }

    /// A slow push of a message. Returns also the message that was dropped, if one was.
    #[cfg(test)]
    pub(crate) fn push_message(&self, message: M, when_full: WhenFull) -> Result<(Pushed, Option<M>), SendError<M>> {
        let mut slot = Some(message);
        match self.any().push_slow(&mut slot, Priority::NORMAL, when_full, None) {
            Ok(pushed) => Ok((pushed, slot)),
            Err(error) => Err(error.with_message_of(&mut slot)),
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
        self.wake_for_messages(waker);
        message.map_or(Ok(()), Err)
    }

    /// Pushes messages from the front of `part` as far as the credits reach, with one use of the
    /// lock. The others need the slow path.
    pub(crate) fn push_part(&self, part: &mut VecDeque<M>) {
        let waker = self.state.with(|state| {
            let pushed = part.len().min(state.credits as usize);
            if pushed == 0 {
                return None;
            }
            state.credits -= pushed as u32;
            state.accepted = state.accepted.wrapping_add(pushed);
            state.messages.chunk.extend(part.drain(..pushed));
            state.unpark_if_idle()
        });
        self.wake_for_messages(waker);
    }

    #[inline]
    fn wake_for_messages(&self, waker: Option<Waker>) {
        if let Some(waker) = waker {
            self.parked_early.store(false, Ordering::Relaxed);
            waker.wake();
        }
    }

    /// Takes the only queued message, counts it as taken, and parks the receiver. Returns `None` if
    /// there is not exactly one message, a send waits, the queue is closed, or the control word is
    /// not zero.
    #[inline]
    pub(crate) fn take_single(&self, waker: &Waker) -> Option<M> {
        let mut replaced = None;
        let message = self.state.with(|state| {
            let message = if self.any().may_take_single(state) { state.messages.take_single() } else { None };
            if message.is_some() {
                replaced = self.any().finish_single(state, waker);
            }
            message
        });
        drop(replaced);
        self.parked_early.store(message.is_some(), Ordering::Relaxed);
        message
    }
}
