//! Sends that wait for room: a list in the order they came. The receiver's room lets them in, or the end of a cycle of waits does.
//!
//! Wakers of senders are a user's: they are cloned, woken and dropped outside the lock.

use crate::base::sync::Ordering;
use crate::base::wakers;
use crate::mailbox::queue::MessageQueue;
use crate::mailbox::queue_state::{Filling, QueueState, Waiting};
use crate::mailbox::send_error::SendError;
use crate::mailbox::{Priority, control};
use alloc::vec::Vec;
use core::task::{Poll, Waker};

/// What became of a message that is sent.
pub(crate) struct Sent {
    /// The key of a send that waits; `None` if its message is in the queue.
    pub(crate) waiting: Option<u64>,
    /// The mailbox is filling up.
    pub(crate) filling: Option<Filling>,
    /// The receiver has fallen behind: a sender that goes on should let it run.
    pub(crate) behind: bool,
}

impl<M, X: Default> MessageQueue<M, X> {
    /// Puts a message into the queue, or into the waiting list if there is no room.
    #[inline]
    pub(crate) fn push_now_or_wait(&self, message: M, priority: Priority, waker: &Waker) -> Result<Sent, SendError<M>> {
        if priority != Priority::NORMAL {
            return self.push_or_wait(message, priority, waker);
        }
        match self.push_quickly(message) {
            Ok(()) => Ok(Sent { waiting: None, filling: None, behind: false }),
            Err(message) => self.push_or_wait(message, priority, waker),
        }
    }

    #[cold]
    fn push_or_wait(&self, message: M, priority: Priority, waker: &Waker) -> Result<Sent, SendError<M>> {
        match self.push_slowly(message, priority, false, |_, _| {}) {
            Ok(filling) => Ok(Sent { waiting: None, filling, behind: self.is_behind() }),
            Err(SendError::Full(message)) => self.wait_for_room(message, priority, waker.clone()),
            Err(refused) => Err(refused),
        }
    }

    fn wait_for_room(&self, message: M, priority: Priority, waker: Waker) -> Result<Sent, SendError<M>> {
        let mut waker = Some(waker);
        let (sent, to_wake) = self.state.with(|state| {
            if state.closed {
                return (Err(SendError::Closed(message)), Vec::new());
            }
            let mut to_wake = self.admit_locked(state);
            let waiting = if state.nobody_waits() && state.room(&self.taken) > 0 {
                state.put(message, priority);
                to_wake.extend(state.unpark_if_idle());
                None
            } else {
                // The receiver need not be woken: while it is parked it takes nothing, so no room appears, and before it parks it
                // lets in whoever waits.
                Some(self.add_waiting(state, Waiting { message: Some(message), priority, waker: waker.take() }))
            };
            let filling = state.passed_mark(&self.taken);
            state.measure(&self.taken);
            (Ok(Sent { waiting, filling, behind: false }), to_wake)
        });
        wakers::discard(waker);
        wakers::wake_each(to_wake);
        sent
    }

    /// Puts a send at the end of the waiting list. Nobody gets in before it without looking closer.
    pub(super) fn add_waiting(&self, state: &mut QueueState<M, X>, waiting: Waiting<M>) -> u64 {
        state.quick = 0;
        let cold = state.cold();
        cold.next_key += 1;
        cold.waiting.insert(cold.next_key, waiting);
        self.word.fetch_or(control::SENDERS, Ordering::Relaxed);
        cold.next_key
    }

    /// Looks after a waiting send: `Ready(Ok)` once its message is in the queue.
    pub(crate) fn poll_waiting(&self, key: u64, waker: &Waker) -> Poll<Result<(), SendError<M>>> {
        // The waker first: an end of input that comes after the look below wakes this one.
        if !self.renew_waker(key, waker) {
            return Poll::Ready(Ok(()));
        }
        let taken_back = self.state.with(|state| {
            let closed = state.closed;
            let waiting = &mut state.cold.as_mut()?.waiting;
            // It may have been let in since.
            if closed || !waiting.contains_key(&key) { Some(waiting.remove(&key)) } else { None }
        });
        let Some(taken_back) = taken_back else { return Poll::Pending };
        let Some(Waiting { message, waker, .. }) = taken_back else { return Poll::Ready(Ok(())) };
        wakers::discard(waker);
        Poll::Ready(message.map_or(Ok(()), |message| Err(SendError::Closed(message))))
    }

    /// Has the send with this key wake `waker`. False if it does not wait any more.
    pub(super) fn renew_waker(&self, key: u64, waker: &Waker) -> bool {
        let known = self.state.with(|state| {
            let waiting = state.cold.as_ref()?.waiting.get(&key)?;
            Some(waiting.waker.as_ref().is_some_and(|known| known.will_wake(waker)))
        });
        if known == Some(false) {
            let mut new = Some(waker.clone());
            let waits = self.state.with(|state| {
                let waiting = state.cold.as_mut().and_then(|cold| cold.waiting.get_mut(&key));
                waiting.map(|waiting| core::mem::swap(&mut waiting.waker, &mut new)).is_some()
            });
            wakers::discard(new);
            return waits;
        }
        known.is_some()
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
        withdrawn.and_then(|waiting| {
            wakers::discard(waiting.waker);
            waiting.message
        })
    }

    /// Whether the send with this key waits for room. After the end of input it waits for nothing.
    pub(crate) fn has_waiting(&self, key: u64) -> bool {
        self.state.with(|state| !state.closed && state.cold.as_ref().is_some_and(|cold| cold.waiting.contains_key(&key)))
    }

    /// Moves waiting sends into the queue as far as there is room.
    pub(crate) fn admit(&self) {
        let admitted = self.state.with(|state| self.admit_locked(state));
        wakers::wake_each(admitted);
    }

    /// As [`admit`](Self::admit), and then the send with this key even beyond the capacity. True if it came to that.
    pub(crate) fn admit_one(&self, key: u64) -> bool {
        let (beyond, to_wake) = self.state.with(|state| {
            let mut to_wake = self.admit_locked(state);
            let waiting = if state.closed { None } else { state.cold.as_mut().and_then(|cold| cold.waiting.remove(&key)) };
            let beyond = waiting.is_some();
            if let Some(waiting) = waiting {
                to_wake.extend(state.let_in(key, waiting));
                self.measure_waiting(state);
            }
            to_wake.extend(state.unpark_if_idle());
            (beyond, to_wake)
        });
        wakers::wake_each(to_wake);
        beyond
    }

    pub(super) fn admit_locked(&self, state: &mut QueueState<M, X>) -> Vec<Waker> {
        let mut admitted = Vec::new();
        // After the end of input the senders take theirs back: what got in now might find nobody left to handle or dead_letter it.
        if state.closed || state.nobody_waits() {
            return admitted;
        }
        let mut room = state.room(&self.taken);
        while room > 0
            && let Some((key, next)) = state.cold().waiting.pop_first()
        {
            room -= 1;
            admitted.extend(state.let_in(key, next));
        }
        self.measure_waiting(state);
        admitted
    }

    /// After sends have left the waiting list.
    fn measure_waiting(&self, state: &mut QueueState<M, X>) {
        state.measure(&self.taken);
        if state.nobody_waits() {
            self.word.fetch_and(!control::SENDERS, Ordering::Relaxed);
        }
    }

    /// After a push: whether the receiver has fallen behind.
    pub(crate) fn is_behind(&self) -> bool {
        self.state.with(|state| state.is_behind())
    }
}

impl<M, X: Default> QueueState<M, X> {
    /// Puts a send that waited into the queue, or grants its place. Gives the waker of its sender.
    fn let_in(&mut self, key: u64, waiting: Waiting<M>) -> Option<Waker> {
        match waiting.message {
            Some(message) => self.put(message, waiting.priority),
            None => drop(self.cold().granted.insert(key)),
        }
        waiting.waker
    }
}
