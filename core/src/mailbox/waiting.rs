//! Sends that wait for room: a list in the order they came, from which only the receiver's room lets them in.

use super::control;
use super::inbox::Inbox;
use super::state::{Filling, State, Waiting};
use super::{Priority, SendError};
use crate::sync::Ordering;
use alloc::vec::Vec;
use core::task::{Poll, Waker};

/// The key of a send that waits, `None` if its message is in the queue, which may be filling up.
type PushedOrWaiting<M> = Result<(Option<u64>, Option<Filling>), SendError<M>>;

impl<M> Inbox<M> {
    /// Puts a message into the queue, or into the waiting list if there is no room; the key there. Says if the mailbox is filling up.
    #[inline]
    pub(crate) fn push_now_or_wait(&self, message: M, priority: Priority, waker: &Waker) -> PushedOrWaiting<M> {
        if priority != Priority::NORMAL {
            return self.push_or_wait(message, priority, waker);
        }
        match self.push_quickly(message) {
            Ok(()) => Ok((None, None)),
            Err(message) => self.push_or_wait(message, priority, waker),
        }
    }

    #[cold]
    fn push_or_wait(&self, message: M, priority: Priority, waker: &Waker) -> PushedOrWaiting<M> {
        let (key, filling, to_wake, admitted) = self.state.with(|state| {
            if state.closed {
                return Err(SendError::Closed(message));
            }
            if priority != Priority::NORMAL && !state.has_priorities() {
                return Err(SendError::NoPriorities(message));
            }
            let admitted = self.admit_locked(state);
            if state.nobody_waits() && state.room(&self.taken) > 0 {
                state.put(message, priority);
                let filling = state.passed_mark(&self.taken);
                state.measure(&self.taken);
                return Ok((None, filling, state.unpark_if_idle(), admitted));
            }
            state.quick = 0;
            let cold = state.cold();
            cold.next_key += 1;
            let key = cold.next_key;
            cold.waiting.insert(key, Waiting { message: Some(message), priority, waker: waker.clone() });
            // The receiver need not be woken: while it is parked it takes nothing, so no room appears, and before it parks it lets
            // in whoever waits.
            self.word.fetch_or(control::SENDERS, Ordering::Relaxed);
            Ok((Some(key), state.passed_mark(&self.taken), None, admitted))
        })?;
        to_wake.into_iter().chain(admitted).for_each(Waker::wake);
        Ok((key, filling))
    }

    /// Looks after a waiting send: `Ready(Ok)` once its message is in the queue.
    pub(crate) fn poll_waiting(&self, key: u64, waker: &Waker) -> Poll<Result<(), SendError<M>>> {
        let (polled, replaced) = self.state.with(|state| {
            let closed = state.closed;
            let Some(cold) = state.cold.as_mut() else { return (Poll::Ready(Ok(())), None) };
            if closed {
                let given_back = cold.waiting.remove(&key).and_then(|waiting| waiting.message);
                return (Poll::Ready(given_back.map_or(Ok(()), |message| Err(SendError::Closed(message)))), None);
            }
            match cold.waiting.get_mut(&key) {
                None => (Poll::Ready(Ok(())), None),
                Some(waiting) if waiting.waker.will_wake(waker) => (Poll::Pending, None),
                Some(waiting) => (Poll::Pending, Some(core::mem::replace(&mut waiting.waker, waker.clone()))),
            }
        });
        drop(replaced);
        polled
    }

    /// Takes a message back out of the waiting list; `None` if it is in the queue by now.
    pub(crate) fn withdraw(&self, key: u64) -> Option<M> {
        let withdrawn = self.state.with(|state| {
            let withdrawn = state.cold.as_mut()?.waiting.remove(&key);
            if state.nobody_waits() {
                self.word.fetch_and(!control::SENDERS, Ordering::Relaxed);
                state.measure(&self.taken);
            }
            withdrawn
        });
        withdrawn.and_then(|waiting| waiting.message)
    }

    /// Moves waiting sends into the queue as far as there is room.
    pub(crate) fn admit(&self) {
        let admitted = self.state.with(|state| self.admit_locked(state));
        admitted.into_iter().for_each(Waker::wake);
    }

    pub(super) fn admit_locked(&self, state: &mut State<M>) -> Vec<Waker> {
        let mut admitted = Vec::new();
        // After the end of input the senders take theirs back: what got in now might find nobody left to handle or bury it.
        if state.closed || state.nobody_waits() {
            return admitted;
        }
        let mut room = state.room(&self.taken);
        while room > 0
            && let Some((key, next)) = state.cold().waiting.pop_first()
        {
            room -= 1;
            match next.message {
                Some(message) => state.put(message, next.priority),
                None => {
                    state.cold().granted.insert(key);
                }
            }
            admitted.push(next.waker);
        }
        state.measure(&self.taken);
        if state.nobody_waits() {
            self.word.fetch_and(!control::SENDERS, Ordering::Relaxed);
        }
        admitted
    }
}
