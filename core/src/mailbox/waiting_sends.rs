//! Sends that wait for room: a list in order of arrival. A send is admitted when the receiver makes
//! room, or beyond the capacity to break a wait cycle.
//!
//! Lock rule: wakers of senders are user code. They are cloned, woken and dropped outside the lock.

use crate::base::sync::Ordering;
use crate::base::wakers;
use crate::mailbox::high_water::HighWater;
use crate::mailbox::queue::MessageQueue;
use crate::mailbox::queue_state::{QueueState, WaitingSend};
use crate::mailbox::send_error::SendError;
use crate::mailbox::{Priority, control};
use alloc::vec::Vec;
use core::task::{Poll, Waker};

/// The result of a send that was not rejected.
pub(crate) struct Sent {
    /// The key of a waiting send, or `None` if its message is in the queue.
    pub(crate) waiting: Option<u64>,
    /// Set if the send passed the high-water mark.
    pub(crate) high_water: Option<HighWater>,
    /// True if the receiver is behind, so the sender should yield once.
    pub(crate) receiver_behind: bool,
}

impl<M, X: Default> MessageQueue<M, X> {
    /// Pushes a message into the queue, or into the waiting list if there is no room.
    #[inline]
    pub(crate) fn push_now_or_wait(&self, message: M, priority: Priority, waker: &Waker) -> Result<Sent, SendError<M>> {
        if priority != Priority::NORMAL {
            return self.push_or_wait(message, priority, waker);
        }
        match self.push_fast(message) {
            Ok(()) => Ok(Sent { waiting: None, high_water: None, receiver_behind: false }),
            Err(message) => self.push_or_wait(message, priority, waker),
        }
    }

    #[cold]
    fn push_or_wait(&self, message: M, priority: Priority, waker: &Waker) -> Result<Sent, SendError<M>> {
        match self.push_slow(message, priority, false, |_, _| {}) {
            Ok(high_water) => Ok(Sent { waiting: None, high_water, receiver_behind: self.receiver_is_behind() }),
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
            let waiting = if state.no_send_waits() && state.room(&self.taken) > 0 {
                state.enqueue(message, priority);
                to_wake.extend(state.unpark_if_idle());
                None
            } else {
                // The receiver need not be woken. While it is parked it takes nothing, so no room
                // appears; and before it parks it admits waiting sends.
                Some(self.add_waiting(state, WaitingSend { message: Some(message), priority, waker: waker.take() }))
            };
            let high_water = state.check_high_water(&self.taken);
            state.refresh_credits(&self.taken);
            (Ok(Sent { waiting, high_water, receiver_behind: false }), to_wake)
        });
        wakers::discard(waker);
        wakers::wake_each(to_wake);
        sent
    }

    /// Adds a send to the end of the waiting list. Credits become 0, so later pushes take the slow
    /// path and cannot overtake it.
    pub(super) fn add_waiting(&self, state: &mut QueueState<M, X>, waiting: WaitingSend<M>) -> u64 {
        state.credits = 0;
        let cold = state.cold();
        cold.next_key += 1;
        cold.waiting.insert(cold.next_key, waiting);
        self.control_word.fetch_or(control::WAITING_SENDS, Ordering::Relaxed);
        cold.next_key
    }

    /// Polls a waiting send. Returns `Ready(Ok)` once its message is in the queue.
    pub(crate) fn poll_waiting(&self, key: u64, waker: &Waker) -> Poll<Result<(), SendError<M>>> {
        // The waker is updated first: a close that comes after the check below wakes it.
        if !self.update_waker(key, waker) {
            return Poll::Ready(Ok(()));
        }
        let taken_back = self.state.with(|state| {
            let closed = state.closed;
            let waiting = &mut state.cold.as_mut()?.waiting;
            // The send may have been admitted since.
            if closed || !waiting.contains_key(&key) { Some(waiting.remove(&key)) } else { None }
        });
        let Some(taken_back) = taken_back else { return Poll::Pending };
        let Some(WaitingSend { message, waker, .. }) = taken_back else { return Poll::Ready(Ok(())) };
        wakers::discard(waker);
        Poll::Ready(message.map_or(Ok(()), |message| Err(SendError::Closed(message))))
    }

    /// Sets the waker of a waiting send. Returns false if it no longer waits.
    pub(super) fn update_waker(&self, key: u64, waker: &Waker) -> bool {
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

    /// Takes a message out of the waiting list. Returns `None` if it is already in the queue.
    pub(crate) fn withdraw(&self, key: u64) -> Option<M> {
        let withdrawn = self.state.with(|state| {
            let withdrawn = state.cold.as_mut()?.waiting.remove(&key);
            if state.no_send_waits() {
                self.control_word.fetch_and(!control::WAITING_SENDS, Ordering::Relaxed);
                state.refresh_credits(&self.taken);
            }
            withdrawn
        });
        withdrawn.and_then(|waiting| {
            wakers::discard(waiting.waker);
            waiting.message
        })
    }

    /// Returns true if the send with this key waits for room. After a close no send waits.
    pub(crate) fn is_send_waiting(&self, key: u64) -> bool {
        self.state.with(|state| !state.closed && state.cold.as_ref().is_some_and(|cold| cold.waiting.contains_key(&key)))
    }

    /// Moves waiting sends into the queue while there is room.
    pub(crate) fn admit(&self) {
        let admitted = self.state.with(|state| self.admit_locked(state));
        wakers::wake_each(admitted);
    }

    /// As [`admit`](Self::admit), then also admits the send with this key, beyond the capacity if
    /// needed. Returns true if the send still waited and was admitted.
    pub(crate) fn admit_beyond_capacity(&self, key: u64) -> bool {
        let (beyond, to_wake) = self.state.with(|state| {
            let mut to_wake = self.admit_locked(state);
            let waiting = if state.closed { None } else { state.cold.as_mut().and_then(|cold| cold.waiting.remove(&key)) };
            let beyond = waiting.is_some();
            if let Some(waiting) = waiting {
                to_wake.extend(state.admit_send(key, waiting));
                self.refresh_after_admission(state);
            }
            to_wake.extend(state.unpark_if_idle());
            (beyond, to_wake)
        });
        wakers::wake_each(to_wake);
        beyond
    }

    pub(super) fn admit_locked(&self, state: &mut QueueState<M, X>) -> Vec<Waker> {
        let mut admitted = Vec::new();
        // After a close the senders take their messages back. A message admitted now might find no
        // receiver to handle it or to make it a dead letter.
        if state.closed || state.no_send_waits() {
            return admitted;
        }
        let mut room = state.room(&self.taken);
        while room > 0
            && let Some((key, next)) = state.cold().waiting.pop_first()
        {
            room -= 1;
            admitted.extend(state.admit_send(key, next));
        }
        self.refresh_after_admission(state);
        admitted
    }

    /// Updates the credits and the control bit after sends have left the waiting list.
    fn refresh_after_admission(&self, state: &mut QueueState<M, X>) {
        state.refresh_credits(&self.taken);
        if state.no_send_waits() {
            self.control_word.fetch_and(!control::WAITING_SENDS, Ordering::Relaxed);
        }
    }

    /// After a push: returns true if the receiver is behind by a whole part of the queue.
    pub(crate) fn receiver_is_behind(&self) -> bool {
        self.state.with(|state| state.receiver_is_behind())
    }
}

impl<M, X: Default> QueueState<M, X> {
    /// Moves a waiting send into the queue, or grants its room. Returns the waker of its sender.
    fn admit_send(&mut self, key: u64, waiting: WaitingSend<M>) -> Option<Waker> {
        match waiting.message {
            Some(message) => self.enqueue(message, waiting.priority),
            None => drop(self.cold().granted.insert(key)),
        }
        waiting.waker
    }
}
