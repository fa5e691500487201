//! The high-water mark of a bounded mailbox, and the credits of the fast push path.
//!
//! A mailbox that becomes more than 80 % full is reported once (`Lint::MailboxFilling`), and again
//! only after more than half of its capacity was free in between. Once that is the case, the
//! control bit `DRAINED` is set, and the receiver reports it before its next message.
//!
//! `credits` is the number of pushes that need no further check. It counts only pushes within the
//! capacity, within the memory of the chunk and up to the high-water mark; it is 0 if every push
//! needs the slow path. So the push that passes the mark always takes the slow path, and the fast
//! path never asks where the mark is.

use crate::base::sync::{AtomicU32, AtomicUsize, Ordering};
use crate::mailbox::messages::MessageStore;
use crate::mailbox::queue::AnyQueue;
use crate::mailbox::queue_state::QueueState;
use crate::mailbox::{Overflow, control};

/// A bounded mailbox became more than 80 % full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HighWater {
    pub(crate) queued: u32,
    pub(crate) capacity: u32,
}

impl<S: MessageStore + ?Sized, U: Default> QueueState<S, U> {
    /// The room above the mark: a fifth of the capacity, rounded up, so that every fill level above
    /// the mark is more than 80 %.
    fn room_above_high_water(&self) -> u32 {
        self.capacity.div_ceil(5)
    }

    /// After a slow push: returns the fill level if it passed the mark and was not reported yet.
    pub(super) fn check_high_water(&mut self, taken: &AtomicUsize, control_word: &AtomicU32) -> Option<HighWater> {
        let room = self.room(taken);
        if self.is_high_water_reported(room, control_word) || room == u32::MAX || room >= self.room_above_high_water() {
            return None;
        }
        self.high_water_reported = true;
        Some(HighWater { queued: self.capacity - room, capacity: self.capacity })
    }

    /// Computes `credits` again.
    ///
    /// Only this function reads the receiver's counter, when the credits are used up or the chunk
    /// has changed. So the cache line of that counter does not move between cores for every
    /// message. While sends wait for room, there are no credits: no push may overtake them.
    #[inline]
    pub(super) fn refresh_credits(&mut self, taken: &AtomicUsize, control_word: &AtomicU32) {
        let free = self.messages.chunk_room();
        let simple = free > 0 && self.lanes == 0 && !self.closed && self.no_send_waits();
        self.credits = if simple { free.min(self.room_below_high_water(taken, control_word)) } else { 0 };
    }

    /// As `room`, but only up to the mark until it is passed: the push that passes it takes the
    /// slow path.
    fn room_below_high_water(&mut self, taken: &AtomicUsize, control_word: &AtomicU32) -> u32 {
        let room = self.room(taken);
        if room == u32::MAX {
            return room;
        }
        if self.is_high_water_reported(room, control_word) { room } else { room.saturating_sub(self.room_above_high_water()) }
    }

    /// Sets the control bit of a backlog that has ended. A receiver calls this before it parks, and
    /// before it checks the control word. To refresh the credits is not enough: a chunk without
    /// memory has none, whatever the mark.
    pub(super) fn note_end_of_backlog(&mut self, taken: &AtomicUsize, control_word: &AtomicU32) {
        if self.high_water_reported {
            let room = self.room(taken);
            self.is_high_water_reported(room, control_word);
        }
    }

    /// Returns true if the mark was reported, and at most half of the capacity was free ever since.
    fn is_high_water_reported(&mut self, room: u32, control_word: &AtomicU32) -> bool {
        if self.high_water_reported && room > self.capacity / 2 && self.overflow != Overflow::Conflate {
            self.high_water_reported = false;
            control_word.fetch_or(control::DRAINED, Ordering::AcqRel);
        }
        self.high_water_reported
    }
}

impl<U: Default, H> AnyQueue<U, H> {
    /// After the last message of an actor that ends: returns true if a backlog was reported and its
    /// end was not.
    pub(crate) fn end_backlog(&self) -> bool {
        self.state.with(|state| {
            let ends = state.high_water_reported && state.overflow != Overflow::Conflate;
            state.high_water_reported &= !ends;
            ends || self.control_word() & control::DRAINED != 0
        })
    }
}
