//! `QueueState`: the part of a queue behind its lock: the chunk that senders fill, the lanes, the
//! waiting sends and the counts.

use crate::base::sync::{AtomicUsize, Ordering};
use crate::events::event::DeadLetterReason;
use crate::mailbox::signals::SignalQueue;
use crate::mailbox::{Mailbox, Overflow, Priority};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::task::Waker;

/// Limits of one chunk, in messages and bytes: the most that one push may have to allocate or copy.
const CHUNK_MAX: usize = 1024;
const CHUNK_BYTES_MAX: usize = 64 * 1024;
/// An idle actor keeps an empty chunk up to this size, so that a single message now and then
/// allocates nothing.
const KEPT_CHUNK_BYTES_MAX: usize = 32;
/// The same limit for a chunk with room for one message, because messages can be large.
const KEPT_SINGLE_BYTES_MAX: usize = 256;

/// Returns true if an idle actor keeps a chunk of this capacity.
const fn keeps_chunk<M>(capacity: usize) -> bool {
    capacity * size_of::<M>() <= if capacity == 1 { KEPT_SINGLE_BYTES_MAX } else { KEPT_CHUNK_BYTES_MAX }
}

/// The largest number of messages in one chunk.
pub(super) const fn chunk_len_max<M>() -> usize {
    let fitting = CHUNK_BYTES_MAX / (size_of::<M>() + 1);
    if fitting < 16 {
        16
    } else if fitting < CHUNK_MAX {
        fitting
    } else {
        CHUNK_MAX
    }
}

/// The state of a queue, behind its lock. Fields that most mailboxes do not need are in `cold`.
pub(super) struct QueueState<M, X> {
    /// The messages pushed since the receiver last took a batch, oldest first.
    pub(super) chunk: Vec<M>,
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
    /// The number of lanes with messages, or 0 if messages are in the chunk.
    pub(super) lanes: u8,
    /// True if the high-water mark was passed and reported.
    pub(super) high_water_reported: bool,
    pub(super) cold: Option<Box<ColdPart<M, X>>>,
}

/// Whether the receiver is parked, and what wakes it; see the diagram in `queue`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReceiverState {
    Running,
    Idle,
    InHandler,
    Suspended,
}

/// The part of the state that only some mailboxes need, allocated on first use.
pub(super) struct ColdPart<M, X> {
    /// Full chunks, oldest first.
    pub(super) backlog: VecDeque<Vec<M>>,
    /// One queue for each priority, lowest first.
    pub(super) lanes: Vec<VecDeque<M>>,
    /// Waiting sends by key, in order of arrival.
    pub(super) waiting: BTreeMap<u64, WaitingSend<M>>,
    pub(super) next_key: u64,
    /// Waiting sends that were granted room and have not claimed it yet.
    pub(super) granted: BTreeSet<u64>,
    /// Messages that are accepted but not made yet.
    pub(super) reserved: usize,
    /// The receiver is gone: no message that arrives will be taken.
    pub(super) receiver_gone: bool,
    /// Messages that left the queue without being taken.
    pub(super) removed: usize,
    pub(super) failed: u64,
    pub(super) dead_lettered: u64,
    pub(super) signals: SignalQueue,
    /// Data of the queue's owner, under the same lock and in the same box.
    pub(super) attached: X,
}

/// How the overflow rule has dealt with a full mailbox.
pub(super) enum MadeRoom<M> {
    /// There is room now. Contains the message that was dropped for it.
    Made(Option<(M, DeadLetterReason)>),
    /// The incoming message is accepted and becomes a dead letter at once.
    DropIncoming(DeadLetterReason),
    /// The incoming message is rejected.
    Refused,
}

/// A send, or a reservation, that waits for room.
pub(super) struct WaitingSend<M> {
    /// `None` if the sender keeps the message and only wants room.
    pub(super) message: Option<M>,
    pub(super) priority: Priority,
    /// `None` once the close of the queue has woken the sender.
    pub(super) waker: Option<Waker>,
}

impl<M, X: Default> ColdPart<M, X> {
    #[cold]
    fn with_lanes(lanes: u8) -> Box<Self> {
        Box::new(Self {
            backlog: VecDeque::new(),
            lanes: core::iter::repeat_with(VecDeque::new).take(usize::from(lanes)).collect(),
            waiting: BTreeMap::new(),
            next_key: 0,
            granted: BTreeSet::new(),
            reserved: 0,
            receiver_gone: false,
            removed: 0,
            failed: 0,
            dead_lettered: 0,
            signals: SignalQueue::default(),
            attached: X::default(),
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.backlog.is_empty() && self.lanes.iter().all(VecDeque::is_empty)
    }
}

impl<M, X: Default> QueueState<M, X> {
    #[inline]
    pub(super) fn new(kind: Mailbox) -> Self {
        let lanes = match kind.overflow {
            _ if kind.prioritised => Priority::COUNT as u8,
            Overflow::DropOldest | Overflow::Conflate => 1,
            Overflow::Fail | Overflow::DropNewest => 0,
        };
        let capacity = u32::try_from(kind.capacity).unwrap_or(u32::MAX);
        Self {
            chunk: Vec::new(),
            waker: None,
            accepted: 0,
            credits: 0,
            capacity,
            last_batch_len: 0,
            receiver: ReceiverState::Running,
            closed: false,
            overflow: kind.overflow,
            lanes,
            // A conflated mailbox replaces its message, so its fill level is never reported.
            high_water_reported: kind.overflow == Overflow::Conflate,
            cold: None,
        }
    }

    pub(super) fn cold(&mut self) -> &mut ColdPart<M, X> {
        self.cold.get_or_insert_with(|| ColdPart::with_lanes(self.lanes))
    }

    /// Returns true if there is nothing to take, and no message is being made.
    pub(super) fn is_empty(&self) -> bool {
        self.chunk.is_empty() && self.cold.as_ref().is_none_or(|cold| cold.is_empty() && cold.reserved == 0)
    }

    /// Stops accepting messages. Returns the wakers of waiting sends, for the caller to wake.
    pub(super) fn close(&mut self) -> Option<Vec<Waker>> {
        self.closed = true;
        self.credits = 0;
        self.cold.as_mut().map(|cold| cold.waiting.values_mut().filter_map(|waiting| waiting.waker.take()).collect())
    }

    /// Returns the number of accepted messages whose handler has not started.
    pub(super) fn queued(&self, taken: &AtomicUsize) -> usize {
        let removed = self.cold.as_ref().map_or(0, |cold| cold.removed);
        self.accepted.wrapping_sub(removed).wrapping_sub(taken.load(Ordering::Acquire))
    }

    /// Returns how many more messages the capacity allows.
    pub(super) fn room(&self, taken: &AtomicUsize) -> u32 {
        if self.capacity == u32::MAX {
            return u32::MAX;
        }
        let granted = self.cold.as_ref().map_or(0, |cold| cold.granted.len());
        self.capacity.saturating_sub(u32::try_from(self.queued(taken) + granted).unwrap_or(u32::MAX))
    }

    pub(super) fn no_send_waits(&self) -> bool {
        self.cold.as_ref().is_none_or(|cold| cold.waiting.is_empty())
    }

    /// After a slow push: returns true if a further part of the queue is full and the receiver has
    /// not reached it.
    pub(super) fn receiver_is_behind(&self) -> bool {
        match self.lanes {
            0 => self.chunk.len() == 1 && self.cold.as_ref().is_some_and(|cold| !cold.backlog.is_empty()),
            _ => self.accepted.is_multiple_of(CHUNK_MAX),
        }
    }

    pub(super) fn has_priorities(&self) -> bool {
        self.lanes > 1
    }

    pub(super) fn unpark_if_idle(&mut self) -> Option<Waker> {
        if self.receiver == ReceiverState::Idle { self.unpark() } else { None }
    }

    pub(super) fn enqueue(&mut self, message: M, priority: Priority) {
        self.accepted = self.accepted.wrapping_add(1);
        self.enqueue_accepted(message, priority);
    }

    /// Adds a message that is already counted as accepted.
    pub(super) fn enqueue_accepted(&mut self, message: M, priority: Priority) {
        if self.lanes > 0 {
            let lanes = &mut self.cold().lanes;
            let lane = usize::from(priority.get()).min(lanes.len() - 1);
            lanes[lane].push_back(message);
            return;
        }
        if self.chunk.len() >= chunk_len_max::<M>() {
            let full = core::mem::replace(&mut self.chunk, Vec::with_capacity(chunk_len_max::<M>()));
            self.cold().backlog.push_back(full);
        } else if self.chunk.len() == self.chunk.capacity() {
            // Reserves room for as many messages as the last batch had. For most actors that is
            // one, which an idle actor keeps.
            let more = (self.chunk.len() * 3).max(usize::from(self.last_batch_len)).max(1);
            self.chunk.reserve_exact(more.min(chunk_len_max::<M>() - self.chunk.len()));
        }
        self.chunk.push(message);
    }

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

    /// Counts one message that leaves the queue as a dead letter without being taken.
    pub(super) fn count_removed(&mut self) {
        let cold = self.cold();
        cold.removed = cold.removed.wrapping_add(1);
        cold.dead_lettered += 1;
    }

    #[inline]
    pub(super) fn take_batch(&mut self, batch: &mut Vec<M>) -> bool {
        if self.cold.is_some() && self.take_batch_cold(batch) {
            return true;
        }
        if self.chunk.is_empty() {
            return false;
        }
        self.last_batch_len = self.chunk.len() as u16;
        core::mem::swap(&mut self.chunk, batch);
        true
    }

    /// Takes the only message out of a chunk that an idle actor may keep. Returns `None` in every
    /// other case.
    #[inline]
    pub(super) fn take_single(&mut self) -> Option<M> {
        if self.chunk.len() != 1 || !keeps_chunk::<M>(self.chunk.capacity()) {
            return None;
        }
        if self.cold.as_ref().is_some_and(|cold| !cold.backlog.is_empty() || !cold.waiting.is_empty()) {
            return None;
        }
        self.last_batch_len = 1;
        self.chunk.pop()
    }

    /// Takes from the backlog, which is older than the chunk, or from the lanes.
    pub(super) fn take_batch_cold(&mut self, batch: &mut Vec<M>) -> bool {
        let cold = self.cold();
        match cold.backlog.pop_front() {
            Some(full) => *batch = full,
            None => batch.extend(cold.lanes.iter_mut().rev().find_map(VecDeque::pop_front)),
        }
        !batch.is_empty()
    }

    /// Removes the oldest queued message. With priorities, the oldest of the lowest priority.
    pub(super) fn pop_oldest(&mut self) -> Option<M> {
        self.cold().lanes.iter_mut().find_map(VecDeque::pop_front)
    }

    /// Applies the overflow rule to a message that arrives when there is no room.
    pub(super) fn make_room(&mut self, priority: Priority) -> MadeRoom<M> {
        let reason = match self.overflow {
            Overflow::Fail => return MadeRoom::Refused,
            Overflow::DropNewest => return MadeRoom::DropIncoming(DeadLetterReason::Newest),
            Overflow::DropOldest if self.is_below_all(priority) => return MadeRoom::DropIncoming(DeadLetterReason::Oldest),
            Overflow::DropOldest => DeadLetterReason::Oldest,
            Overflow::Conflate => DeadLetterReason::Conflated,
        };
        let evicted = self.pop_oldest();
        if evicted.is_some() {
            self.count_removed();
        }
        MadeRoom::Made(evicted.map(|evicted| (evicted, reason)))
    }

    /// Returns true if all queued messages have a higher priority than this.
    fn is_below_all(&self, priority: Priority) -> bool {
        let lanes = self.cold.as_ref().filter(|cold| cold.lanes.len() > 1).map(|cold| &cold.lanes);
        let lowest = lanes.and_then(|lanes| lanes.iter().position(|lane| !lane.is_empty()));
        lowest.is_some_and(|lowest| lowest > usize::from(priority.get()))
    }

    /// Takes the oldest part of the queue: a chunk or a lane.
    pub(super) fn take_oldest_part(&mut self) -> Option<(Vec<M>, VecDeque<M>)> {
        if let Some(cold) = self.cold.as_mut() {
            if let Some(full) = cold.backlog.pop_front() {
                return Some((full, VecDeque::new()));
            }
            if let Some(lane) = cold.lanes.iter_mut().rev().find(|lane| !lane.is_empty()) {
                return Some((Vec::new(), core::mem::take(lane)));
            }
        }
        if self.chunk.is_empty() { None } else { Some((core::mem::take(&mut self.chunk), VecDeque::new())) }
    }

    /// Before the receiver goes idle: keeps one small chunk, so that a single message allocates
    /// nothing. The rest stays in `batch`, for the caller to drop outside the lock.
    pub(super) fn keep_small_chunk(&mut self, batch: &mut Vec<M>) {
        if !keeps_chunk::<M>(self.chunk.capacity()) || self.chunk.capacity() == 0 {
            core::mem::swap(&mut self.chunk, batch);
        }
        if !keeps_chunk::<M>(self.chunk.capacity()) {
            // Both were large. Dropping one under the lock only frees an empty buffer and drops no
            // message.
            self.chunk = Vec::new();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::mailbox::queue::MessageQueue;

    fn go_idle<M>(queue: &MessageQueue<M, ()>, batch: &mut Vec<M>) {
        while queue.refill(batch, true, Waker::noop()).is_ready() {
            batch.clear();
        }
    }

    /// A single message leaves its room for the next one; the memory of a burst is freed.
    #[test]
    fn a14_idle_actor_keeps_room_for_one_message() {
        fn kept_capacity<M: Copy>(message: M) -> usize {
            let (queue, mut batch) = (MessageQueue::new(Mailbox::unbounded()), Vec::new());
            for burst in [1, 200, 1] {
                (0..burst).for_each(|_| assert!(queue.try_push(message).is_ok()));
                go_idle(&queue, &mut batch);
                assert_eq!(batch.capacity(), 0);
                if burst > 1 {
                    assert_eq!(queue.state.with(|state| state.chunk.capacity()), 0);
                }
            }
            // The first message after a burst allocates for a burst; the next one allocates for one
            // message.
            assert!(queue.try_push(message).is_ok());
            go_idle(&queue, &mut batch);
            queue.state.with(|state| state.chunk.capacity())
        }
        assert_eq!((kept_capacity([0u8; 16]), kept_capacity([0u8; 100]), kept_capacity([0u8; 256])), (1, 1, 1));
        assert_eq!(kept_capacity([0u8; 257]), 0);
    }
}
