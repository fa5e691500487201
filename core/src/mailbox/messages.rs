//! [`Messages`]: where a queue keeps its messages, and [`MessageStore`]: the same without the
//! message type.
//!
//! Only this file, `queue` and the typed halves of `waiting_sends` and `reserve` are compiled for
//! each message type. All other code of a queue sees its messages as `dyn MessageStore`, and is
//! compiled once.

use crate::mailbox::Priority;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::any::Any;

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

/// Data of a queue's owner that depends on the message type.
pub(crate) trait OwnerData: Default + Send + 'static {
    /// Returns how many messages it keeps, for observers. Default: none.
    fn sizes(&self) -> OwnerSizes {
        OwnerSizes::default()
    }
}

impl OwnerData for () {}

/// How many messages the owner of a queue keeps beside it.
#[derive(Clone, Copy, Default)]
pub(crate) struct OwnerSizes {
    pub(crate) stashed: usize,
    pub(crate) timers: usize,
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
    /// Moves the message of a waiting send into the queue.
    fn enqueue_waiting(&mut self, message: WaitingMessage, at: Position);
    /// Returns how many messages the owner keeps beside the queue.
    fn owner_sizes(&self) -> OwnerSizes;
}

/// The message of a waiting send. It is boxed, so that the list of waiting sends needs no message
/// type.
pub(super) type WaitingMessage = Box<dyn Any + Send>;

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
pub(super) enum Taken {
    Nothing,
    /// The whole chunk.
    Chunk,
    /// A full chunk of the backlog, or one message of a lane.
    Cold,
}

/// The messages of a queue. `X` is data of the queue's owner that depends on the message type.
pub(crate) struct Messages<M, X> {
    /// The messages pushed since the receiver last took a batch, oldest first.
    pub(super) chunk: Vec<M>,
    pub(super) cold: Option<Box<ColdMessages<M, X>>>,
}

/// The part that only some mailboxes need, allocated on first use.
pub(super) struct ColdMessages<M, X> {
    /// Full chunks, oldest first.
    backlog: VecDeque<Vec<M>>,
    /// One queue for each priority, lowest first.
    lanes: Vec<VecDeque<M>>,
    pub(super) attached: X,
}

impl<M, X> Messages<M, X> {
    #[inline]
    pub(super) const fn new() -> Self {
        Self { chunk: Vec::new(), cold: None }
    }
}

impl<M, X: Default> Messages<M, X> {
    pub(super) fn cold(&mut self, lanes: u8) -> &mut ColdMessages<M, X> {
        self.cold.get_or_insert_with(|| {
            Box::new(ColdMessages {
                backlog: VecDeque::new(),
                lanes: core::iter::repeat_with(VecDeque::new).take(usize::from(lanes)).collect(),
                attached: X::default(),
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

    /// Moves the oldest full chunk, one message of the lanes, or the whole chunk into `batch`, and
    /// stores the length of the chunk.
    #[inline]
    pub(super) fn take_batch(&mut self, batch: &mut Vec<M>, last_batch_len: &mut u16) -> Taken {
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

    /// Takes from the backlog, which is older than the chunk, or from the lanes.
    fn take_batch_cold(&mut self, batch: &mut Vec<M>) -> bool {
        let Some(cold) = &mut self.cold else { return false };
        match cold.backlog.pop_front() {
            Some(full) => *batch = full,
            None => batch.extend(cold.lanes.iter_mut().rev().find_map(VecDeque::pop_front)),
        }
        !batch.is_empty()
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

    /// Removes the oldest queued message. With priorities, the oldest of the lowest priority.
    pub(super) fn pop_oldest(&mut self) -> Option<M> {
        self.cold.as_mut()?.lanes.iter_mut().find_map(VecDeque::pop_front)
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

impl<M: Send + 'static, X: OwnerData> MessageStore for Messages<M, X> {
    fn message_type(&self) -> &'static str {
        core::any::type_name::<M>()
    }

    #[inline]
    fn is_empty(&self) -> bool {
        let is_empty = |cold: &ColdMessages<M, X>| cold.backlog.is_empty() && cold.lanes.iter().all(VecDeque::is_empty);
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

    fn enqueue_waiting(&mut self, message: WaitingMessage, at: Position) {
        if let Ok(message) = message.downcast() {
            self.enqueue(*message, at);
        }
    }

    fn owner_sizes(&self) -> OwnerSizes {
        self.cold.as_ref().map_or_else(OwnerSizes::default, |cold| cold.attached.sizes())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::mailbox::Mailbox;
    use crate::mailbox::queue::MessageQueue;
    use core::task::Waker;

    fn go_idle<M: Send + 'static>(queue: &MessageQueue<M>, batch: &mut Vec<M>) {
        while queue.refill(batch, true, Waker::noop()).is_ready() {
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
