//! `State`: what of an inbox lies under its lock: the chunk being filled, the lanes, the waiting sends, the books.

use crate::base::sync::{AtomicUsize, Ordering};
use crate::events::event::DeadLetterReason;
use crate::mailbox::signals::SignalQueue;
use crate::mailbox::{Mailbox, Overflow, Priority};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::task::Waker;

/// Most messages in one chunk, and most bytes: what a push may have to allocate or copy at once.
const CHUNK_MAX: usize = 1024;
const CHUNK_BYTES_MAX: usize = 64 * 1024;
/// Most bytes of an empty chunk that an idle actor keeps, so that a lone message now and then allocates nothing.
const KEPT_CHUNK_BYTES_MAX: usize = 32;
/// The same where the chunk has room for one message only, and messages are large.
const KEPT_SINGLE_BYTES_MAX: usize = 256;

/// Whether an idle actor keeps a chunk with room for so many.
const fn keeps_chunk<M>(capacity: usize) -> bool {
    capacity * size_of::<M>() <= if capacity == 1 { KEPT_SINGLE_BYTES_MAX } else { KEPT_CHUNK_BYTES_MAX }
}

const fn chunk_len_max<M>() -> usize {
    let fitting = CHUNK_BYTES_MAX / (size_of::<M>() + 1);
    if fitting < 16 {
        16
    } else if fitting < CHUNK_MAX {
        fitting
    } else {
        CHUNK_MAX
    }
}

pub(super) struct QueueState<M, X> {
    pub(super) chunk: Vec<M>,
    pub(super) waker: Option<Waker>,
    pub(super) accepted: usize,
    pub(super) credits: u32,
    pub(super) capacity: u32,
    pub(super) last_batch_len: u16,
    pub(super) receiver: ReceiverState,
    pub(super) closed: bool,
    pub(super) overflow: Overflow,
    /// How many lanes its messages wait in, to be taken one by one; 0 where they wait in the chunk.
    pub(super) lanes: u8,
    /// The mark at 80 % is passed, and has been told of.
    pub(super) high_water_reported: bool,
    pub(super) cold: Option<Box<ColdPart<M, X>>>,
}

/// A bounded mailbox has come to hold more than 80 % of what it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HighWater {
    pub(crate) queued: u32,
    pub(crate) capacity: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReceiverState {
    Running,
    Idle,
    InHandler,
    Suspended,
}

pub(super) struct ColdPart<M, X> {
    pub(super) backlog: VecDeque<Vec<M>>,
    pub(super) lanes: Vec<VecDeque<M>>,
    pub(super) waiting: BTreeMap<u64, WaitingSend<M>>,
    pub(super) next_key: u64,
    /// Waiting sends that were given room and have not come for it yet.
    pub(super) granted: BTreeSet<u64>,
    /// Messages that were accepted and are still being made.
    pub(super) reserved: usize,
    /// Nobody will take what comes.
    pub(super) receiver_gone: bool,
    pub(super) removed: usize,
    pub(super) failed: u64,
    pub(super) dead_lettered: u64,
    pub(super) signals: SignalQueue,
    /// What the owner of the mailbox keeps here, under the same lock and in the same box.
    pub(super) attached: X,
}

/// A full mailbox has done what its policy says.
pub(super) enum MadeRoom<M> {
    /// There is room now, for what was dropped.
    Made(Option<(M, DeadLetterReason)>),
    /// What comes is accepted and is a dead letter at once.
    DropIncoming(DeadLetterReason),
    /// There is none.
    Refused,
}

pub(super) struct WaitingSend<M> {
    /// `None` if only room is wanted: the sender has the message.
    pub(super) message: Option<M>,
    pub(super) priority: Priority,
    /// `None` once the end of input has woken the sender.
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
            // Nobody is told where each message takes the place of the one before.
            high_water_reported: kind.overflow == Overflow::Conflate,
            cold: None,
        }
    }

    pub(super) fn cold(&mut self) -> &mut ColdPart<M, X> {
        self.cold.get_or_insert_with(|| ColdPart::with_lanes(self.lanes))
    }

    /// Whether there is nothing to take, now or once it is made.
    pub(super) fn is_empty(&self) -> bool {
        self.chunk.is_empty() && self.cold.as_ref().is_none_or(|cold| cold.is_empty() && cold.reserved == 0)
    }

    /// Takes no more messages. Gives the senders that wait, for the caller to wake.
    pub(super) fn close(&mut self) -> Option<Vec<Waker>> {
        self.closed = true;
        self.credits = 0;
        self.cold.as_mut().map(|cold| cold.waiting.values_mut().filter_map(|waiting| waiting.waker.take()).collect())
    }

    /// Messages accepted whose handling has not begun.
    pub(super) fn queued(&self, taken: &AtomicUsize) -> usize {
        let removed = self.cold.as_ref().map_or(0, |cold| cold.removed);
        self.accepted.wrapping_sub(removed).wrapping_sub(taken.load(Ordering::Acquire))
    }

    /// How many more messages the capacity allows.
    pub(super) fn room(&self, taken: &AtomicUsize) -> u32 {
        if self.capacity == u32::MAX {
            return u32::MAX;
        }
        let granted = self.cold.as_ref().map_or(0, |cold| cold.granted.len());
        self.capacity.saturating_sub(u32::try_from(self.queued(taken) + granted).unwrap_or(u32::MAX))
    }

    /// What may wait above the mark: a fifth of the capacity, rounded up, so that whatever is above the mark is more than 80 %.
    fn room_above_high_water(&self) -> u32 {
        self.capacity.div_ceil(5)
    }

    /// After a push that looked closer: whether the mark is passed and nobody has been told.
    pub(super) fn check_high_water(&mut self, taken: &AtomicUsize) -> Option<HighWater> {
        let room = self.room(taken);
        if self.is_high_water_reported(room) || room == u32::MAX || room >= self.room_above_high_water() {
            return None;
        }
        self.high_water_reported = true;
        Some(HighWater { queued: self.capacity - room, capacity: self.capacity })
    }

    /// Sets `quick` anew. What the receiver frees is counted only here, when `quick` is used up or the chunk has changed, so that the
    /// line with its counter does not travel between cores for every message. While senders wait nobody else gets in.
    #[inline]
    pub(super) fn refresh_credits(&mut self, taken: &AtomicUsize) {
        let free = self.chunk.capacity().min(chunk_len_max::<M>()).saturating_sub(self.chunk.len()) as u32;
        let simple = free > 0 && self.lanes == 0 && !self.closed && self.no_send_waits();
        self.credits = if simple { free.min(self.room_below_high_water(taken)) } else { 0 };
    }

    /// As `room`, up to the mark only as long as it is not passed: the push that passes it looks closer.
    fn room_below_high_water(&mut self, taken: &AtomicUsize) -> u32 {
        let room = self.room(taken);
        if room == u32::MAX {
            return room;
        }
        if self.is_high_water_reported(room) { room } else { room.saturating_sub(self.room_above_high_water()) }
    }

    /// Whether it has been told that the mark is passed, and less than half of the room was free ever since.
    fn is_high_water_reported(&mut self, room: u32) -> bool {
        if self.high_water_reported && room > self.capacity / 2 && self.overflow != Overflow::Conflate {
            self.high_water_reported = false;
        }
        self.high_water_reported
    }

    pub(super) fn no_send_waits(&self) -> bool {
        self.cold.as_ref().is_none_or(|cold| cold.waiting.is_empty())
    }

    /// After a push that looked closer: whether another part of the queue is full, which its receiver has not come to.
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

    /// Puts in a message that has been counted.
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
            // Room for as many as came the last time, which for most actors is one, and what an idle one keeps.
            let more = (self.chunk.len() * 3).max(usize::from(self.last_batch_len)).max(1);
            self.chunk.reserve_exact(more.min(chunk_len_max::<M>() - self.chunk.len()));
        }
        self.chunk.push(message);
    }

    pub(super) fn unpark(&mut self) -> Option<Waker> {
        self.receiver = ReceiverState::Running;
        self.waker.take()
    }

    /// Keeps the waker of a receiver that parks; the one it replaces is dropped outside the lock.
    #[inline]
    pub(super) fn store_waker(&mut self, waker: &Waker) -> Option<Waker> {
        match &self.waker {
            Some(known) if known.will_wake(waker) => None,
            _ => self.waker.replace(waker.clone()),
        }
    }

    /// One message leaves the queue untaken, as a dead letter.
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

    /// The only message, out of a chunk that an idle actor may keep. `None` where it is not so simple.
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

    /// From the lanes, or from the backlog, which is older than the chunk.
    pub(super) fn take_batch_cold(&mut self, batch: &mut Vec<M>) -> bool {
        let cold = self.cold();
        match cold.backlog.pop_front() {
            Some(full) => *batch = full,
            None => batch.extend(cold.lanes.iter_mut().rev().find_map(VecDeque::pop_front)),
        }
        !batch.is_empty()
    }

    /// The oldest message not yet taken: with priorities, the oldest of the lowest.
    pub(super) fn pop_oldest(&mut self) -> Option<M> {
        self.cold().lanes.iter_mut().find_map(VecDeque::pop_front)
    }

    /// Does what the overflow policy says about a message that comes when there is no room.
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

    /// Whether all that waits has a higher priority than this.
    fn is_below_all(&self, priority: Priority) -> bool {
        let lanes = self.cold.as_ref().filter(|cold| cold.lanes.len() > 1).map(|cold| &cold.lanes);
        let lowest = lanes.and_then(|lanes| lanes.iter().position(|lane| !lane.is_empty()));
        lowest.is_some_and(|lowest| lowest > usize::from(priority.get()))
    }

    /// The oldest part of what is queued: a chunk or a lane.
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

    /// On going idle one small chunk stays, so that a lone message allocates nothing. What is left in `batch` is for the caller to
    /// drop outside the lock.
    pub(super) fn keep_small_chunk(&mut self, batch: &mut Vec<M>) {
        if !keeps_chunk::<M>(self.chunk.capacity()) || self.chunk.capacity() == 0 {
            core::mem::swap(&mut self.chunk, batch);
        }
        if !keeps_chunk::<M>(self.chunk.capacity()) {
            // Both were large. One is dropped here under the lock, which is a free of an empty buffer and no user's value.
            self.chunk = Vec::new();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::mailbox::queue::MessageQueue;

    fn goes_idle<M>(inbox: &MessageQueue<M, ()>, batch: &mut Vec<M>) {
        while inbox.refill(batch, true, Waker::noop()).is_ready() {
            batch.clear();
        }
    }

    /// The place of the last lone message is there for the next, and what a burst took is given back.
    #[test]
    fn a14_an_idle_actor_keeps_the_place_of_one_message() {
        fn kept_capacity<M: Copy>(message: M) -> usize {
            let (inbox, mut batch) = (MessageQueue::new(Mailbox::unbounded()), Vec::new());
            for burst in [1, 200, 1] {
                (0..burst).for_each(|_| assert!(inbox.try_push(message).is_ok()));
                goes_idle(&inbox, &mut batch);
                assert_eq!(batch.capacity(), 0);
                if burst > 1 {
                    assert_eq!(inbox.state.with(|state| state.chunk.capacity()), 0);
                }
            }
            // After a burst there is room for another one; after that for one message again.
            assert!(inbox.try_push(message).is_ok());
            goes_idle(&inbox, &mut batch);
            inbox.state.with(|state| state.chunk.capacity())
        }
        assert_eq!((kept_capacity([0u8; 16]), kept_capacity([0u8; 100]), kept_capacity([0u8; 256])), (1, 1, 1));
        assert_eq!(kept_capacity([0u8; 257]), 0);
    }
}
