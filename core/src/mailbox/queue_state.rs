//! `QueueState`: the part of a queue behind its lock: the messages, the waiting sends and the
//! counts.
//!
//! The messages are the last field, and may be unsized: code that does not depend on the message
//! type works on `QueueState<dyn MessageStore, _>`.

use crate::base::sorted::{SortedMap, SortedSet};
use crate::base::sync::{AtomicUsize, Ordering};
use crate::events::event::DeadLetterReason;
use crate::events::instrument::SendContext;
use crate::mailbox::contexts::Contexts;
use crate::mailbox::messages::{CHUNK_MAX, MessageStore, Messages, Position};
use crate::mailbox::send_error::SendError;
use crate::mailbox::signals::SignalQueue;
use crate::mailbox::slot::BoxedMessage;
use crate::mailbox::{Mailbox, Overflow, Priority};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::task::Waker;

/// The state of a queue, behind its lock. Fields that most mailboxes do not need are in `cold`.
pub(super) struct QueueState<S: ?Sized, U> {
    /// The waker of a parked receiver.
    pub(super) waker: Option<Waker>,
    pub(super) accepted: usize,
    /// Pushes that need no further check; see `high_water`.
    pub(super) credits: u32,
    pub(super) capacity: u32,
    /// The length of the last batch, as a guess for the next.
    pub(super) last_batch_len: u16,
    pub(super) receiver: ReceiverState,
    pub(super) closed: bool,
    pub(super) overflow: Overflow,
    /// The number of lanes, or 0 if messages are in the chunk.
    pub(super) lanes: u8,
    /// True if the high-water mark was passed and reported.
    pub(super) high_water_reported: bool,
    pub(super) cold: Option<Box<ColdPart<U>>>,
    pub(super) messages: S,
}

/// The state of a queue, whatever its message type.
pub(super) type AnyQueueState<U> = QueueState<dyn MessageStore, U>;

/// Whether the receiver is parked, and what wakes it; see the diagram in `queue`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReceiverState {
    Running,
    Idle,
    InHandler,
    Suspended,
}

/// The part of the state that only some mailboxes need, allocated on first use.
#[derive(Default)]
pub(super) struct ColdPart<U> {
    /// Waiting sends by key, in order of arrival.
    pub(super) waiting: SortedMap<u64, WaitingSend>,
    pub(super) next_key: u64,
    /// Waiting sends that were granted room and have not claimed it yet.
    pub(super) granted: SortedSet<u64>,
    /// Messages that are accepted but not made yet.
    pub(super) reserved: usize,
    /// The receiver is gone: no message that arrives will be taken.
    pub(super) receiver_gone: bool,
    /// Messages that left the queue without being taken.
    pub(super) removed: usize,
    pub(super) failed: u64,
    pub(super) dead_lettered: u64,
    pub(super) signals: SignalQueue,
    /// Only for an instrumented actor.
    pub(super) contexts: Option<Box<Contexts>>,
    /// Data of the queue's owner, under the same lock and in the same box.
    pub(super) attached: U,
}

/// A send, or a reservation, that waits for room.
pub(super) struct WaitingSend {
    /// `None` if the sender keeps the message and only wants room.
    pub(super) message: Option<BoxedMessage>,
    pub(super) priority: Priority,
    /// `None` once the close of the queue has woken the sender.
    pub(super) waker: Option<Waker>,
    pub(super) context: Option<SendContext>,
}

/// What happens to a message that arrives on the slow path.
pub(super) enum Admission {
    /// It goes into the queue, and counts as accepted.
    Enqueue,
    /// As `Enqueue`, after the oldest message was removed for it.
    ReplaceOldest(DeadLetterReason),
    /// It is accepted and becomes a dead letter at once.
    DropIncoming(DeadLetterReason),
}

impl<M, U> QueueState<Messages<M>, U> {
    #[inline]
    pub(super) fn new(kind: Mailbox) -> Self {
        let lanes = match kind.overflow {
            _ if kind.prioritised => Priority::COUNT as u8,
            Overflow::DropOldest | Overflow::Conflate => 1,
            Overflow::Fail | Overflow::DropNewest => 0,
        };
        Self {
            waker: None,
            accepted: 0,
            credits: 0,
            capacity: u32::try_from(kind.capacity).unwrap_or(u32::MAX),
            last_batch_len: 0,
            receiver: ReceiverState::Running,
            closed: false,
            overflow: kind.overflow,
            lanes,
            // A conflated mailbox replaces its message, so its fill level is never reported.
            high_water_reported: kind.overflow == Overflow::Conflate,
            cold: None,
            messages: Messages::new(),
        }
    }
}

impl<S: ?Sized, U: Default> QueueState<S, U> {
    #[inline]
    pub(super) fn cold(&mut self) -> &mut ColdPart<U> {
        self.cold.get_or_insert_default()
    }

    /// Returns the number of accepted messages whose handler has not started.
    #[inline]
    pub(super) fn queued(&self, taken: &AtomicUsize) -> usize {
        let removed = self.cold.as_ref().map_or(0, |cold| cold.removed);
        self.accepted.wrapping_sub(removed).wrapping_sub(taken.load(Ordering::Acquire))
    }

    /// Returns how many more messages the capacity allows.
    #[inline]
    pub(super) fn room(&self, taken: &AtomicUsize) -> u32 {
        if self.capacity == u32::MAX {
            return u32::MAX;
        }
        let granted = self.cold.as_ref().map_or(0, |cold| cold.granted.len());
        self.capacity.saturating_sub(u32::try_from(self.queued(taken) + granted).unwrap_or(u32::MAX))
    }

    #[inline]
    pub(super) fn no_send_waits(&self) -> bool {
        self.cold.as_ref().is_none_or(|cold| cold.waiting.is_empty())
    }

    #[inline]
    pub(super) fn position(&self, priority: Priority) -> Position {
        Position { priority, lanes: self.lanes, last_batch_len: self.last_batch_len }
    }

    #[inline]
    pub(super) fn unpark_if_idle(&mut self) -> Option<Waker> {
        if self.receiver == ReceiverState::Idle { self.unpark() } else { None }
    }

    #[inline]
    pub(super) fn unpark(&mut self) -> Option<Waker> {
        self.receiver = ReceiverState::Running;
        self.waker.take()
    }

    /// Stores the waker of a receiver that parks. Returns the waker it replaces, to be dropped
    /// outside the lock.
    #[inline]
    pub(super) fn store_waker(&mut self, waker: &Waker) -> Option<Waker> {
        match &self.waker {
            Some(known) if known.will_wake(waker) => None,
            _ => self.waker.replace(waker.clone()),
        }
    }
}

impl<U: Default> AnyQueueState<U> {
    /// Returns true if there is nothing to take, and no message is being made.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.no_reservations()
    }

    /// Stops accepting messages. Returns the wakers of waiting sends, for the caller to wake.
    pub(super) fn close(&mut self) -> Vec<Waker> {
        self.closed = true;
        self.credits = 0;
        let waiting = self.cold.as_mut().into_iter().flat_map(|cold| cold.waiting.values_mut());
        waiting.filter_map(|waiting| waiting.waker.take()).collect()
    }

    /// After a slow push: returns true if a further part of the queue is full and the receiver has
    /// not reached it.
    pub(super) fn receiver_is_behind(&self) -> bool {
        match self.lanes {
            0 => self.messages.has_new_chunk(),
            _ => self.accepted.is_multiple_of(CHUNK_MAX),
        }
    }

    /// Counts one message that leaves the queue as a dead letter without being taken.
    pub(super) fn count_removed(&mut self) {
        let cold = self.cold();
        cold.removed = cold.removed.wrapping_add(1);
        cold.dead_lettered += 1;
    }

    /// Fails if the queue can never accept a message of this priority.
    pub(super) fn check_accepts(&self, priority: Priority) -> Result<(), SendError<()>> {
        match () {
            () if self.closed => Err(SendError::Closed(())),
            () if priority != Priority::NORMAL && self.lanes <= 1 => Err(SendError::NoPriorities(())),
            () => Ok(()),
        }
    }

    /// Decides about a message that arrives while there is room for `room` messages, and counts it
    /// as accepted or dropped. If the mailbox is full, `may_drop` allows its overflow rule to drop
    /// a message.
    pub(super) fn admit_message(&mut self, room: u32, priority: Priority, may_drop: bool) -> Result<Admission, SendError<()>> {
        self.check_accepts(priority)?;
        let admission = match self.overflow {
            _ if room > 0 => Admission::Enqueue,
            Overflow::Fail => return Err(SendError::Full(())),
            _ if !may_drop => return Err(SendError::Full(())),
            _ => self.make_room(priority),
        };
        self.accepted = self.accepted.wrapping_add(1);
        Ok(admission)
    }

    /// Applies the overflow rule to a message that arrives when there is no room, and counts the
    /// message that will be dropped.
    pub(super) fn make_room(&mut self, priority: Priority) -> Admission {
        let admission = match self.overflow {
            Overflow::Fail | Overflow::DropNewest => Admission::DropIncoming(DeadLetterReason::DroppedNewest),
            Overflow::DropOldest if self.is_below_all(priority) => Admission::DropIncoming(DeadLetterReason::DroppedOldest),
            // The queue is full of messages that are being made: there is no oldest.
            _ if self.messages.is_empty() => return Admission::Enqueue,
            Overflow::DropOldest => Admission::ReplaceOldest(DeadLetterReason::DroppedOldest),
            Overflow::Conflate => Admission::ReplaceOldest(DeadLetterReason::Conflated),
        };
        self.count_removed();
        admission
    }

    /// Returns true if all queued messages have a higher priority than this.
    fn is_below_all(&self, priority: Priority) -> bool {
        self.messages.lowest_lane().is_some_and(|lowest| lowest > usize::from(priority.get()))
    }

    /// Returns true if every reservation was filled or failed.
    pub(super) fn no_reservations(&self) -> bool {
        self.cold.as_ref().is_none_or(|cold| cold.reserved == 0)
    }
}
