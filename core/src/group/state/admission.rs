//! Admission: which task may run now, and which caller waits for a slot.
//!
//! A slot is the permission to have one task in flight. It is free while the limit is not reached
//! and, with a bounded buffer, while the result of one more task would find room.

use crate::base::wakers::ClonedWaker;
use crate::events::cause::Cause;
use crate::group::overflow::Overflow;
use crate::group::state::GroupState;
use crate::group::wait_queue::{Ticket, WakeList};
use core::task::Poll;

/// How a caller asks for a slot.
pub(in crate::group) enum Entry<'a> {
    /// Without waiting.
    Now,
    /// In the order of the queue. With a waker, the caller is queued if no slot is free.
    Wait(&'a mut Ticket, Option<&'a mut ClonedWaker>),
}

/// The answer to a request for a slot.
pub(in crate::group) enum Admission {
    /// The task is in flight, as the n-th task of the group.
    Admitted(u64),
    Full,
    /// The caller is in the queue.
    Queued,
    Closed(Option<Cause>),
}

impl<T> GroupState<T> {
    /// Returns whether a slot is free that is not promised to a waiting caller.
    ///
    /// A caller in `wait` reads no results. The bound on unread results is therefore lifted while
    /// one waits, or the tasks it waits for could never start.
    fn has_room(&self) -> bool {
        let taken = self.in_flight + self.slot_waiters.served();
        taken < self.settings.limit
            && (self.settings.overflow != Overflow::Wait
                || self.settings.buffer == usize::MAX
                || taken + self.unread() < self.settings.buffer
                || self.unanswered > 0)
    }

    /// Fast path: admits a task that is not queued, if a slot is free and the queue is empty.
    #[inline]
    pub(in crate::group) fn admit_fast(&mut self, entry: &Entry<'_>) -> Option<u64> {
        let is_queued = matches!(entry, Entry::Wait(Some(_), _));
        if is_queued || self.closed || !self.slot_waiters.is_empty() || !self.has_room() {
            return None;
        }
        Some(self.count_admitted())
    }

    /// Admits a task, queues its caller, or says why not.
    #[inline]
    pub(in crate::group) fn admit(&mut self, entry: Entry<'_>, wakes: &mut WakeList) -> Admission {
        match self.admit_fast(&entry) {
            Some(number) => Admission::Admitted(number),
            None => self.admit_slow(entry, wakes),
        }
    }

    /// Slow path: the group is closed or full, or the caller is queued.
    fn admit_slow(&mut self, entry: Entry<'_>, wakes: &mut WakeList) -> Admission {
        if self.closed {
            if let Entry::Wait(ticket, _) = entry {
                self.slot_waiters.leave(ticket, wakes);
            }
            return Admission::Closed(self.cause.clone());
        }
        match entry {
            Entry::Wait(ticket @ Some(_), waker) => {
                if self.slot_waiters.take(ticket).is_some() {
                    return Admission::Admitted(self.count_admitted());
                }
                self.slot_waiters.enqueue(ticket, waker);
                Admission::Queued
            }
            Entry::Wait(ticket, waker) => {
                self.slot_waiters.enqueue(ticket, waker);
                Admission::Queued
            }
            Entry::Now => Admission::Full,
        }
    }

    #[inline]
    fn count_admitted(&mut self) -> u64 {
        self.in_flight += 1;
        self.accepted += 1;
        debug_assert!(self.in_flight <= self.settings.limit);
        self.accepted
    }

    /// Returns ready if a task with this ticket would be admitted or rejected now. Otherwise queues
    /// the caller, if a waker is given.
    pub(in crate::group) fn poll_slot(&mut self, ticket: &mut Ticket, waker: Option<&mut ClonedWaker>) -> Poll<()> {
        let is_promised = self.slot_waiters.is_served(*ticket);
        if self.closed || is_promised || (ticket.is_none() && self.slot_waiters.is_empty() && self.has_room()) {
            return Poll::Ready(());
        }
        self.slot_waiters.enqueue(ticket, waker);
        Poll::Pending
    }

    /// Removes a caller from the queue and offers its promised slot to the next one.
    pub(in crate::group) fn stop_waiting_for_slot(&mut self, ticket: &mut Ticket, wakes: &mut WakeList) {
        self.slot_waiters.leave(ticket, wakes);
        self.serve_slot_waiters(wakes);
    }

    /// Promises free slots to waiting callers, in their order.
    #[inline]
    pub(super) fn serve_slot_waiters(&mut self, wakes: &mut WakeList) {
        if !self.slot_waiters.is_empty() {
            self.serve_free_slots(wakes);
        }
    }

    fn serve_free_slots(&mut self, wakes: &mut WakeList) {
        while !self.slot_waiters.is_empty() && self.has_room() {
            if let Ok(waker) = self.slot_waiters.serve(()) {
                wakes.push(waker);
            }
        }
    }

    /// Records that `task`, a task of this group, waits for a slot of the group. Returns whether
    /// every slot is held by a task that does the same, so that no slot can become free.
    pub(in crate::group) fn is_deadlocked(&mut self, ticket: Ticket, task: usize) -> bool {
        let Some(ticket) = ticket else { return false };
        let Self { self_waits, slot_waiters, in_flight, .. } = self;
        let all_wait = self_waits.note(ticket, task, *in_flight, |ticket| slot_waiters.is_waiting(ticket));
        // If results fill the buffer, a reader makes room. If a slot is promised, its task
        // continues. Neither is a deadlock.
        all_wait && !self.closed && self.in_flight >= self.settings.limit && self.slot_waiters.served() == 0
    }
}
