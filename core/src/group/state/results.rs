//! Results: completion, reading, errors and panic payloads.

use crate::base::catch::PanicPayload;
use crate::base::wakers::ClonedWaker;
use crate::group::error::{Errors, TaskError};
use crate::group::overflow::Overflow;
use crate::group::state::{Discarded, GroupState, Leftovers, NumberedResult, RETAINED_CAPACITY_MAX, TaskResult};
use crate::group::wait_queue::{Ticket, WakeList};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::task::Poll;

impl<T> GroupState<T> {
    /// Completes a task: gives its result to the first waiting reader, or queues it.
    ///
    /// Returns a result that the full buffer rejects. The caller drops it outside the lock.
    #[inline]
    #[must_use = "a result is a user's value, and is dropped outside of the lock"]
    pub(in crate::group) fn complete(&mut self, result: TaskResult<T>, wakes: &mut WakeList) -> Discarded<T> {
        debug_assert!(self.in_flight > 0, "a task completes once, after it was admitted");
        self.in_flight -= 1;
        self.completed += 1;
        debug_assert_eq!(self.accepted, self.completed + self.in_flight as u64);
        let discarded = if self.readers.is_empty() {
            self.push_unread((self.completed, result))
        } else {
            self.serve_reader((self.completed, result), wakes)
        };
        // Answered first: a waiter with an answer no longer lifts the bound on unread results.
        if self.in_flight == 0 {
            self.answer_waiters(wakes);
        }
        self.serve_slot_waiters(wakes);
        discarded
    }

    /// Fast path: completes a task whose result goes directly to the caller that polled it.
    ///
    /// Returns false and changes nothing if another caller waits, a result is unread, or this is
    /// the last task in flight.
    #[inline]
    pub(in crate::group) fn complete_fast(&mut self) -> bool {
        let can = self.in_flight > 1 && self.is_uncontended();
        if can {
            self.in_flight -= 1;
            self.completed += 1;
        }
        can
    }

    /// Queues a result. With an overflow rule, returns the result that has no room.
    #[inline]
    fn push_unread(&mut self, numbered: NumberedResult<T>) -> Discarded<T> {
        self.unread.push_back(numbered);
        if self.settings.overflow == Overflow::Wait { None } else { self.drop_overflow() }
    }

    fn drop_overflow(&mut self) -> Discarded<T> {
        let (_, discarded) = self.settings.overflow.trim(&mut self.unread, self.settings.buffer)?;
        self.dropped += 1;
        Some(Box::new(discarded))
    }

    /// Gives a result to the first waiting reader. Without one, the result is queued.
    fn serve_reader(&mut self, numbered: NumberedResult<T>, wakes: &mut WakeList) -> Discarded<T> {
        match self.readers.serve(numbered) {
            Ok(waker) => {
                wakes.push(waker);
                None
            }
            Err(numbered) => self.push_unread(numbered),
        }
    }

    /// Returns the next result, or `None` once the group is drained. Otherwise queues the reader,
    /// if a waker is given.
    #[inline]
    pub(in crate::group) fn read(
        &mut self,
        ticket: &mut Ticket,
        waker: Option<&mut ClonedWaker>,
        wakes: &mut WakeList,
    ) -> Poll<Option<TaskResult<T>>> {
        let item = match ticket {
            Some(_) => self.readers.take(ticket),
            None => self.unread.pop_front(),
        };
        debug_assert!(self.readers.is_empty() || self.unread.is_empty());
        if let Some((_, result)) = item {
            self.serve_slot_waiters(wakes);
            if self.is_drained() {
                self.readers.wake_and_clear(wakes);
            }
            if self.unread.is_empty() && self.unread.capacity() > RETAINED_CAPACITY_MAX {
                self.unread = VecDeque::new();
            }
            return Poll::Ready(Some(result));
        }
        if self.is_drained() {
            *ticket = None;
            return Poll::Ready(None);
        }
        self.readers.enqueue(ticket, waker);
        Poll::Pending
    }

    /// Removes a reader. A result it was served goes to the next reader, or back to its position in
    /// the queue.
    pub(in crate::group) fn stop_reading(&mut self, ticket: &mut Ticket, wakes: &mut WakeList) -> Discarded<T> {
        let item = self.readers.leave(ticket, wakes)?;
        match self.readers.serve(item) {
            Ok(next) => {
                wakes.push(next);
                None
            }
            Err(item) => {
                self.unread.insert(self.unread.partition_point(|(number, _)| *number < item.0), item);
                self.drop_overflow()
            }
        }
    }

    /// Records an error and returns the first error of the group.
    ///
    /// Called before the result can be read. `payload` is given only if panics are resumed.
    pub(in crate::group) fn record_error(&mut self, error: &TaskError, payload: Option<PanicPayload>) -> TaskError {
        if self.errors.errors.len() < self.settings.errors_kept {
            self.errors.errors.push(error.clone());
        } else {
            self.errors.dropped += 1;
        }
        if let Some(payload) = payload {
            self.payloads.push((error.clone(), payload));
        }
        self.first_error.get_or_insert_with(|| error.clone()).clone()
    }

    pub(in crate::group) fn errors(&self) -> Errors {
        self.errors.clone()
    }

    /// Takes the payload of a panic that is resumed. The first caller gets it.
    pub(in crate::group) fn take_payload(&mut self, error: &TaskError) -> Option<PanicPayload> {
        let at = self.payloads.iter().position(|(known, _)| known == error)?;
        Some(self.payloads.swap_remove(at).1)
    }

    /// Takes all remaining user values. The caller drops them outside the lock.
    pub(in crate::group) fn take_leftovers(&mut self) -> Leftovers<T> {
        Leftovers { unread: core::mem::take(&mut self.unread), payloads: core::mem::take(&mut self.payloads) }
    }
}
