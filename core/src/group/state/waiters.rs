//! Callers of `wait`. All that wait when the last task ends get the same answer.

use crate::base::wakers::ClonedWaker;
use crate::group::error::TaskError;
use crate::group::state::GroupState;
use crate::group::wait_queue::WakeList;
use core::task::{Poll, Waker};

/// One caller of `wait`, and its answer once there is one.
pub(super) struct Waiter {
    /// `None` after it was woken.
    pub(super) waker: Option<Waker>,
    answer: Option<Result<(), TaskError>>,
}

impl<T> GroupState<T> {
    /// Returns the answer once nothing is in flight. Otherwise registers the caller under `key`, if
    /// a waker is given.
    pub(in crate::group) fn poll_wait(
        &mut self,
        key: &mut Option<usize>,
        waker: Option<&mut ClonedWaker>,
        wakes: &mut WakeList,
    ) -> Poll<Result<(), TaskError>> {
        if let Some(at) = *key {
            if self.waiters[at].answer.is_some()
                && let Some(answer) = self.stop_waiting(key, wakes)
            {
                return Poll::Ready(answer);
            }
            if let Some(waker) = waker {
                waker.put(&mut self.waiters[at].waker);
            }
            return Poll::Pending;
        }
        if self.in_flight == 0 {
            return Poll::Ready(self.answer());
        }
        if let Some(waker) = waker {
            let mut waiter = Waiter { waker: None, answer: None };
            waker.put(&mut waiter.waker);
            *key = Some(self.waiters.insert(waiter));
            self.unanswered += 1;
            self.serve_slot_waiters(wakes);
        }
        Poll::Pending
    }

    /// Removes a caller and returns its answer, if it has one.
    pub(in crate::group) fn stop_waiting(
        &mut self,
        key: &mut Option<usize>,
        wakes: &mut WakeList,
    ) -> Option<Result<(), TaskError>> {
        let Waiter { waker, answer } = self.waiters.remove(key.take()?);
        waker.into_iter().for_each(|waker| wakes.discard(waker));
        self.unanswered -= usize::from(answer.is_none());
        answer
    }

    fn answer(&self) -> Result<(), TaskError> {
        let cancelled = || self.cause.clone().map(TaskError::Cancelled);
        self.first_error.clone().or_else(cancelled).map_or(Ok(()), Err)
    }

    /// Gives all waiters the answer of this moment. Later tasks do not change it.
    pub(super) fn answer_waiters(&mut self, wakes: &mut WakeList) {
        if self.unanswered == 0 {
            return;
        }
        self.unanswered = 0;
        let answer = self.answer();
        for (_, waiter) in self.waiters.iter_mut().filter(|(_, waiter)| waiter.answer.is_none()) {
            waiter.answer = Some(answer.clone());
            wakes.push(waiter.waker.take());
        }
    }
}
