//! What needs no message type: how the receiver parks, how the queue is closed, and the two halves
//! of a slow push around the message itself.

use crate::base::sync::Ordering;
use crate::base::wakers;
use crate::mailbox::control::PollState;
use crate::mailbox::high_water::HighWater;
use crate::mailbox::queue::{AnyQueue, QueueOf, WhenFull, WithoutMessage};
use crate::mailbox::queue_state::{Admission, AnyQueueState, ReceiverState};
use crate::mailbox::send_error::SendError;
use crate::mailbox::{Priority, control};
use alloc::vec::Vec;
use core::task::{Poll, Waker};

impl<S: ?Sized, U, H> QueueOf<S, U, H> {
    /// Returns true if nothing has arrived since the receiver parked early, so it may return
    /// `Pending` at once.
    #[inline]
    pub(crate) fn is_still_parked(&self) -> bool {
        self.parked_early.load(Ordering::Relaxed)
    }
}

impl<U: Default, H> AnyQueue<U, H> {
    /// Before a message is pushed: admits waiting sends, then decides about the message. Returns
    /// `None` if it must wait for room.
    pub(super) fn begin_push(
        &self,
        state: &mut AnyQueueState<U>,
        priority: Priority,
        when_full: &mut WhenFull,
        to_wake: &mut Vec<Waker>,
    ) -> Result<Option<Admission>, SendError<()>> {
        let room = self.admit_first(state, to_wake);
        let may_drop = matches!(when_full, WhenFull::Drop);
        match (state.admit_message(room, priority, may_drop), when_full) {
            (Err(SendError::Full(())), WhenFull::Wait(_)) => Ok(None),
            (admitted, _) => admitted.map(Some),
        }
    }

    /// Admits waiting sends. Returns the room that is left: if a send still waits, there is none.
    pub(super) fn admit_first(&self, state: &mut AnyQueueState<U>, to_wake: &mut Vec<Waker>) -> u32 {
        loop {
            to_wake.extend(self.admit_locked(state));
            // The receiver may have taken a message since. Its room belongs to a waiting send.
            let room = state.room(&self.taken);
            if room == 0 || state.closed || state.no_send_waits() {
                return room;
            }
        }
    }

    /// After a message was pushed. Stores the waker of an idle receiver in `receiver`.
    pub(super) fn finish_push(&self, state: &mut AnyQueueState<U>, receiver: &mut Option<Waker>) -> Option<HighWater> {
        state.refresh_credits(&self.taken, &self.control_word);
        *receiver = state.unpark_if_idle();
        state.check_high_water(&self.taken, &self.control_word)
    }

    /// Decides what a receiver does that has found no message. It parks only if `may_park`.
    pub(super) fn without_message(&self, state: &mut AnyQueueState<U>, may_park: bool) -> WithoutMessage {
        state.note_end_of_backlog(&self.taken, &self.control_word);
        if self.control_word() & !control::PASSIVE != 0 {
            return WithoutMessage::Control;
        }
        if state.closed && state.no_reservations() {
            return WithoutMessage::Ended;
        }
        // This checks the list under the lock, not the bit before it. A send that has just joined
        // the list may not have seen the room that the receiver made, and would otherwise wait
        // beside an empty queue.
        if state.cold.is_some() && !state.no_send_waits() && !state.closed && state.room(&self.taken) > 0 {
            return WithoutMessage::AdmitSends;
        }
        if !may_park {
            return WithoutMessage::CheckAgain;
        }
        state.receiver = ReceiverState::Idle;
        WithoutMessage::Park
    }

    /// Stores the waker of a receiver whose handler is pending, so that a cancel can wake it.
    /// Returns false if a cancel came first.
    pub(crate) fn park_in_handler(&self, waker: &Waker) -> bool {
        self.parked_early.store(false, Ordering::Relaxed);
        let mut old = None;
        let admitted = self.state.with(|state| {
            state.receiver = ReceiverState::InHandler;
            old = state.store_waker(waker);
            if self.control_word() & control::WAITING_SENDS == 0 { Vec::new() } else { self.admit_locked(state) }
        });
        drop(old);
        wakers::wake_each(admitted);
        !self.must_cancel()
    }

    /// Parks a suspended receiver until a control bit is set or the queue is closed.
    pub(crate) fn poll_control(&self, waker: &Waker) -> Poll<()> {
        let mut old = None;
        let mut admitted = Vec::new();
        let polled = self.state.with(|state| {
            // Both may set a control bit, so they come before the check.
            admitted = self.admit_locked(state);
            state.note_end_of_backlog(&self.taken, &self.control_word);
            if state.closed || self.control_word() & !control::PASSIVE != 0 {
                return Poll::Ready(());
            }
            state.receiver = ReceiverState::Suspended;
            old = state.store_waker(waker);
            Poll::Pending
        });
        drop(old);
        wakers::wake_each(admitted);
        polled
    }

    /// Parks a receiver that waits only for a change of control, and stores its waker. Returns
    /// false if the control word or the closed flag differs from what the receiver has seen.
    pub(crate) fn park_until_control_changes(&self, waker: &Waker, seen: u32, seen_closed: bool) -> bool {
        let (mut old, mut admitted) = (None, Vec::new());
        let parked = self.state.with(|state| {
            admitted = self.admit_locked(state);
            state.note_end_of_backlog(&self.taken, &self.control_word);
            if self.control_word() != seen || state.closed != seen_closed {
                return false;
            }
            state.receiver = ReceiverState::Suspended;
            old = state.store_waker(waker);
            true
        });
        drop(old);
        wakers::wake_each(admitted);
        parked
    }

    /// Accepts messages again after a close.
    pub(crate) fn reopen(&self) {
        self.state.with(|state| state.closed = false);
    }

    /// Stops accepting messages. Waiting sends get their messages back. Returns the waker of a
    /// parked receiver.
    pub(crate) fn close(&self) -> Option<Waker> {
        let (receiver, senders) = self.state.with(|state| {
            let senders = state.close();
            let is_parked = matches!(state.receiver, ReceiverState::Idle | ReceiverState::Suspended);
            (if is_parked { state.unpark() } else { None }, senders)
        });
        wakers::wake_each(senders);
        receiver
    }

    /// As [`close`](Self::close), called by the receiver itself. Returns true if every accepted
    /// message was taken, so none is left in the queue or in the receiver's batch.
    pub(crate) fn close_by_receiver(&self) -> bool {
        let mut senders = Vec::new();
        let empty = self.state.with(|state| {
            if state.cold.is_some() {
                senders = state.close();
            } else {
                (state.closed, state.credits) = (true, 0);
            }
            state.queued(&self.taken) == 0
        });
        if !senders.is_empty() {
            wakers::wake_each(senders);
        }
        empty
    }

    /// Returns how many handlers have begun and how many have returned, if one runs now.
    pub(crate) fn handler_progress(&self) -> Option<(usize, usize)> {
        let waits = self.state.with(|state| state.receiver == ReceiverState::InHandler);
        let runs = waits || self.poll_state() != PollState::Outside;
        runs.then(|| (self.taken(), self.handled.load(Ordering::Relaxed)))
    }

    /// Returns how many messages may be queued.
    pub(crate) fn capacity(&self) -> usize {
        self.state.with(|state| state.capacity as usize)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.with(|state| state.closed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state.with(|state| state.is_empty())
    }

    /// Returns the name of the message type.
    pub(crate) fn message_type(&self) -> &'static str {
        self.state.with(|state| state.messages.message_type())
    }
}
