//! [`Messages`]: where a queue keeps its messages, and [`MessageStore`]: the same without the
//! message type.
//!
//! Only this file, `queue`, `slot` and `fill` of `reserve` are compiled for each message type. All
//! other code of a queue sees its messages as `dyn MessageStore`, and is compiled once.

use crate::mailbox::Priority;
use crate::mailbox::slot::{self, Batch, BoxedMessage, Slot};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Limits of one chunk, in messages and bytes: the most that one push may have to allocate or copy.
pub(super) const CHUNK_MAX: usize = 1024;
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

/// The messages of a queue, as seen by code that does not know their type.
pub(crate) trait MessageStore: Send {
    /// Returns the name of the message type.
    fn message_type(&self) -> &'static str;
    /// Returns true if no message is queued. Messages of waiting sends are not queued.
    fn is_empty(&self) -> bool;
    /// Returns how many more messages fit into the memory of the chunk.
    fn chunk_room(&self) -> u32;
    /// Returns true if the chunk has just begun and there is a backlog.
    fn has_new_chunk(&self) -> bool;
    /// Returns the lowest lane with messages, if there are several lanes.
    fn lowest_lane(&self) -> Option<usize>;
    /// Moves the message of a slot to the end of the chunk, or of its lane.
    fn enqueue_slot(&mut self, slot: &mut dyn Slot, at: Position);
    /// Moves the message of a waiting send into the queue.
    fn enqueue_boxed(&mut self, message: BoxedMessage, at: Position);
    /// Removes the oldest queued message; with priorities, the oldest of the lowest priority.
    /// Exchanges it with the message in the slot, which goes into the queue. Returns false if there
    /// was no oldest.
    fn replace_oldest(&mut self, slot: &mut dyn Slot, at: Position) -> bool;
    /// Moves the oldest messages into `batch`, which must be empty: a full chunk of the backlog,
    /// one message of the lanes, or the whole chunk, whose length is stored.
    fn take_batch(&mut self, batch: &mut dyn Batch, last_batch_len: &mut u16) -> Taken;
    /// Returns the largest capacity for which `reserve` can allocate memory.
    fn capacity_max(&self, lanes: u8) -> usize;
    /// Reserves memory for `capacity` messages twice: for the queue, and for the batch of the
    /// receiver, which also takes `more` messages of its own.
    fn reserve(&mut self, capacity: usize, more: usize, lanes: u8);
    /// Before the receiver goes idle: keeps one small chunk, so that a single message allocates
    /// nothing. The rest stays in `batch`, for the caller to free outside the
    /// lock. Returns false if all memory is reserved, and the batch keeps its own.
    fn keep_small_chunk(&mut self, batch: &mut dyn Batch) -> bool;
}

/// Where a message goes in the queue.
#[derive(Clone, Copy)]
pub(crate) struct Position {
    pub(super) priority: Priority,
    /// The number of lanes, or 0 if messages go into the chunk.
    pub(super) lanes: u8,
    /// The length of the last batch, as a guess for the next.
    pub(super) last_batch_len: u16,
}

/// What [`Messages::take_batch`] has taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    Nothing,
    /// The whole chunk.
    Chunk,
    /// A full chunk of the backlog, or one message of a lane.
    Cold,
}

/// The messages of a queue.
pub(crate) struct Messages<M> {
    /// The messages pushed since the receiver last took a batch, oldest first.
    pub(super) chunk: Vec<M>,
    cold: Option<Box<ColdMessages<M>>>,
}

/// The part that only some mailboxes need, allocated on first use.
struct ColdMessages<M> {
    /// Full chunks, oldest first.
    backlog: VecDeque<Vec<M>>,
    /// One queue for each priority, lowest first.
    lanes: Vec<VecDeque<M>>,
    /// In a sealed system, memory for the first batch. No memory is freed there.
    reserved: Option<Vec<M>>,
}

impl<M> Messages<M> {
    #[inline]
    pub(super) const fn new() -> Self {
        Self { chunk: Vec::new(), cold: None }
    }
}

impl<M> Messages<M> {
    fn cold(&mut self, lanes: u8) -> &mut ColdMessages<M> {
        self.cold.get_or_insert_with(|| {
            Box::new(ColdMessages {
                backlog: VecDeque::new(),
                lanes: core::iter::repeat_with(VecDeque::new).take(usize::from(lanes)).collect(),
                reserved: None,
            })
        })
    }

    /// Adds a message to the end of the chunk, or of its lane.
    pub(super) fn enqueue(&mut self, message: M, at: Position) {
        if at.lanes > 0 {
            let lanes = &mut self.cold(at.lanes).lanes;
            let lane = usize::from(at.priority.get()).min(lanes.len() - 1);
            lanes[lane].push_back(message);
            return;
        }
        if self.chunk.len() >= chunk_len_max::<M>() {
            let full = core::mem::replace(&mut self.chunk, Vec::with_capacity(chunk_len_max::<M>()));
            self.cold(0).backlog.push_back(full);
        } else if self.chunk.len() == self.chunk.capacity() {
            // Reserves room for as many messages as the last batch had. For most actors that is
            // one, which an idle actor keeps.
            let more = (self.chunk.len() * 3).max(usize::from(at.last_batch_len)).max(1);
            self.chunk.reserve_exact(more.min(chunk_len_max::<M>() - self.chunk.len()));
        }
        self.chunk.push(message);
    }

    /// Takes the only message out of a chunk that an idle actor may keep. Returns `None` in every
    /// other case.
    #[inline]
    pub(super) fn take_single(&mut self) -> Option<M> {
        if self.chunk.len() != 1 || !keeps_chunk::<M>(self.chunk.capacity()) {
            return None;
        }
        if self.cold.as_ref().is_some_and(|cold| !cold.backlog.is_empty()) {
            return None;
        }
        self.chunk.pop()
    }

    /// Takes from the backlog, which is older than the chunk, or from the lanes.
    fn take_batch_cold(&mut self, batch: &mut Vec<M>) -> bool {
        let Some(cold) = &mut self.cold else { return false };
        match cold.backlog.pop_front() {
            Some(full) => *batch = full,
            None => batch.extend(cold.lanes.iter_mut().rev().find_map(VecDeque::pop_front)),
        }
        !batch.is_empty()
    }

    /// Removes the oldest queued message. With priorities, the oldest of the lowest priority.
    fn pop_oldest(&mut self) -> Option<M> {
        self.cold.as_mut()?.lanes.iter_mut().find_map(VecDeque::pop_front)
    }
}

impl<M: Send + 'static> MessageStore for Messages<M> {
    fn message_type(&self) -> &'static str {
        core::any::type_name::<M>()
    }

    #[inline]
    fn is_empty(&self) -> bool {
        let is_empty = |cold: &ColdMessages<M>| cold.backlog.is_empty() && cold.lanes.iter().all(VecDeque::is_empty);
        self.chunk.is_empty() && self.cold.as_deref().is_none_or(is_empty)
    }

    #[inline]
    fn chunk_room(&self) -> u32 {
        self.chunk.capacity().min(chunk_len_max::<M>()).saturating_sub(self.chunk.len()) as u32
    }

    fn has_new_chunk(&self) -> bool {
        self.chunk.len() == 1 && self.cold.as_ref().is_some_and(|cold| !cold.backlog.is_empty())
    }

    fn lowest_lane(&self) -> Option<usize> {
        let lanes = self.cold.as_ref().filter(|cold| cold.lanes.len() > 1).map(|cold| &cold.lanes)?;
        lanes.iter().position(|lane| !lane.is_empty())
    }

    fn enqueue_slot(&mut self, slot: &mut dyn Slot, at: Position) {
        if let Some(message) = slot::typed(slot).and_then(Option::take) {
            self.enqueue(message, at);
        }
    }

    fn enqueue_boxed(&mut self, message: BoxedMessage, at: Position) {
        let mut slot: Option<M> = None;
        slot.put_boxed(message);
        self.enqueue_slot(&mut slot, at);
    }

    fn replace_oldest(&mut self, slot: &mut dyn Slot, at: Position) -> bool {
        let oldest = self.pop_oldest();
        self.enqueue_slot(slot, at);
        let was_full = oldest.is_some();
        if let Some(slot) = slot::typed(slot) {
            *slot = oldest;
        }
        was_full
    }

    fn take_batch(&mut self, batch: &mut dyn Batch, last_batch_len: &mut u16) -> Taken {
        let Some(batch) = batch.as_any_mut().downcast_mut::<Vec<M>>() else { return Taken::Nothing };
        if let Some(reserved) = self.cold.as_mut().and_then(|cold| cold.reserved.as_mut())
            && batch.capacity() < reserved.capacity()
        {
            // The first batch since the system was sealed. An earlier one, of an actor that was
            // busy then, has no room for all messages.
            core::mem::swap(batch, reserved);
        }
        if self.cold.is_some() && self.take_batch_cold(batch) {
            return Taken::Cold;
        }
        if self.chunk.is_empty() {
            return Taken::Nothing;
        }
        *last_batch_len = self.chunk.len() as u16;
        core::mem::swap(&mut self.chunk, batch);
        Taken::Chunk
    }

    fn capacity_max(&self, lanes: u8) -> usize {
        if lanes == 0 { chunk_len_max::<M>() } else { CHUNK_MAX }
    }

    fn reserve(&mut self, capacity: usize, more: usize, lanes: u8) {
        let room = capacity + more + 1;
        if lanes == 0 {
            self.chunk.reserve_exact(room.saturating_sub(self.chunk.len()));
        }
        let cold = self.cold(lanes);
        cold.lanes.iter_mut().for_each(|lane| lane.reserve_exact(room.saturating_sub(lane.len())));
        cold.reserved.get_or_insert_with(|| Vec::with_capacity(room));
    }

    fn keep_small_chunk(&mut self, batch: &mut dyn Batch) -> bool {
        if self.cold.as_ref().is_some_and(|cold| cold.reserved.is_some()) {
            return false;
        }
        let Some(batch) = batch.as_any_mut().downcast_mut::<Vec<M>>() else { return false };
        if !keeps_chunk::<M>(self.chunk.capacity()) || self.chunk.capacity() == 0 {
            core::mem::swap(&mut self.chunk, batch);
        }
        if !keeps_chunk::<M>(self.chunk.capacity()) {
            // Both were large. Dropping one under the lock only frees an empty buffer and drops no
            // message.
            self.chunk = Vec::new();
        }
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::mailbox::Mailbox;
    use crate::mailbox::queue::MessageQueue;
    use core::task::Waker;

    fn go_idle<M: Send + 'static>(queue: &MessageQueue<M>, batch: &mut Vec<M>) {
        while queue.any().refill(batch, true, Waker::noop()).is_ready() {
            batch.clear();
        }
    }

    /// A single message leaves its room for the next one; the memory of a burst is freed.
    #[test]
    fn a14_idle_actor_keeps_room_for_one_message() {
        fn kept_capacity<M: Copy + Send + 'static>(message: M) -> usize {
            let (queue, mut batch): (MessageQueue<M>, _) = (MessageQueue::new(Mailbox::unbounded(), (), 0), Vec::new());
            for burst in [1, 200, 1] {
                (0..burst).for_each(|_| assert!(queue.try_push(message).is_ok()));
                go_idle(&queue, &mut batch);
                assert_eq!(batch.capacity(), 0);
                if burst > 1 {
                    assert_eq!(queue.state.with(|state| state.messages.chunk.capacity()), 0);
                }
            }
            // The first message after a burst allocates for a burst; the next one allocates for one
            // message.
            assert!(queue.try_push(message).is_ok());
            go_idle(&queue, &mut batch);
            queue.state.with(|state| state.messages.chunk.capacity())
        }
        assert_eq!((kept_capacity([0u8; 16]), kept_capacity([0u8; 100]), kept_capacity([0u8; 256])), (1, 1, 1));
        assert_eq!(kept_capacity([0u8; 257]), 0);
    }
}
