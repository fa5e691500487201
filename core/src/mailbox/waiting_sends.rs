//! Sends that wait for room: a list in order of arrival. A send is admitted when the receiver makes
//! room, or beyond the capacity to break a wait cycle.
//!
//! Lock rule: wakers of senders are user code. They are cloned, woken and dropped outside the lock.

use crate::base::sync::Ordering;
use crate::base::wakers;
use crate::events::instrument::SendContext;
use crate::mailbox::queue::AnyQueue;
use crate::mailbox::queue_state::{AnyQueueState, WaitingSend};
use crate::mailbox::send_error::SendError;
use crate::mailbox::slot::{BoxedMessage, Slot};
use crate::mailbox::{Priority, control};
use alloc::vec::Vec;
use core::task::{Poll, Waker};

/// How the wait of a send has ended.
enum WaitEnd {
    /// Its message is in the queue.
    Admitted,
    /// The queue was closed. The sender must withdraw its message; if it cannot, the queue was
    /// opened again and has admitted it.
    Closed,
}

impl<U: Default, H> AnyQueue<U, H> {
    /// Polls a waiting send. Returns `Ready(Ok)` once its message is in the queue; after an error
    /// the message is in `slot`.
    pub(crate) fn poll_waiting(&self, key: u64, slot: &mut dyn Slot, waker: &Waker) -> Poll<Result<(), SendError<()>>> {
        match self.poll_admitted(key, waker) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(WaitEnd::Closed) if self.withdraw(key, slot) => Poll::Ready(Err(SendError::Closed(()))),
            Poll::Ready(_) => Poll::Ready(Ok(())),
        }
    }

    /// Moves a message from the waiting list to `slot`. Returns false if it is already in the
    /// queue.
    pub(crate) fn withdraw(&self, key: u64, slot: &mut dyn Slot) -> bool {
        let withdrawn = self.state.with(|state| {
            let withdrawn = state.cold.as_mut().and_then(|cold| cold.waiting.remove(&key));
            self.refresh_after_admission(state);
            withdrawn
        });
        let Some(WaitingSend { message, waker, .. }) = withdrawn else { return false };
        wakers::discard(waker);
        message.map(|message| slot.put_boxed(message)).is_some()
    }

    /// Polls a waiting send, until its message is in the queue or the queue was closed.
    fn poll_admitted(&self, key: u64, waker: &Waker) -> Poll<WaitEnd> {
        // The waker is updated first: a close that comes after the check below wakes it.
        if !self.update_waker(key, waker) {
            return Poll::Ready(WaitEnd::Admitted);
        }
        self.state.with(|state| match state.cold.as_ref().is_some_and(|cold| cold.waiting.contains_key(&key)) {
            // It was admitted since.
            false => Poll::Ready(WaitEnd::Admitted),
            true if state.closed => Poll::Ready(WaitEnd::Closed),
            true => Poll::Pending,
        })
    }

    /// Adds a send to the end of the waiting list. Credits become 0, so later pushes take the slow
    /// path and cannot overtake it.
    pub(super) fn add_waiting(
        &self,
        state: &mut AnyQueueState<U>,
        message: Option<BoxedMessage>,
        priority: Priority,
        waker: Option<Waker>,
        context: Option<SendContext>,
    ) -> u64 {
        let waiting = WaitingSend { message, priority, waker, context };
        state.credits = 0;
        let cold = state.cold();
        cold.next_key += 1;
        cold.waiting.insert(cold.next_key, waiting);
        self.control_word.fetch_or(control::WAITING_SENDS, Ordering::Relaxed);
        cold.next_key
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

    pub(super) fn admit_locked(&self, state: &mut AnyQueueState<U>) -> Vec<Waker> {
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
    pub(super) fn refresh_after_admission(&self, state: &mut AnyQueueState<U>) {
        state.refresh_credits(&self.taken, &self.control_word);
        if state.no_send_waits() {
            self.control_word.fetch_and(!control::WAITING_SENDS, Ordering::Relaxed);
        }
    }

    /// After a push: returns true if the receiver is behind by a whole part of the queue.
    pub(crate) fn receiver_is_behind(&self) -> bool {
        self.state.with(|state| state.receiver_is_behind())
    }
}

impl<U: Default> AnyQueueState<U> {
    /// Moves a waiting send into the queue, or grants its room. Returns the waker of its sender.
    fn admit_send(&mut self, key: u64, waiting: WaitingSend) -> Option<Waker> {
        match waiting.message {
            Some(message) => {
                self.accepted = self.accepted.wrapping_add(1);
                let at = self.position(waiting.priority);
                self.messages.enqueue_boxed(message, at);
                drop(self.push_context(waiting.priority, waiting.context));
            }
            None => drop(self.cold().granted.insert(key)),
        }
        waiting.waker
    }
}
