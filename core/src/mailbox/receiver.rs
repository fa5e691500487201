//! The receiver's side of a queue: how it takes messages, parks, and closes the queue. All but
//! two checks is compiled once for all message types.

use crate::base::sync::Ordering;
use crate::base::wakers;
use crate::ids::path::ActorPath;
use crate::mailbox::control;
use crate::mailbox::control::PollState;
use crate::mailbox::messages::Taken;
use crate::mailbox::queue::{AnyQueue, QueueOf};
use crate::mailbox::queue_state::{AnyQueueState, ReceiverState};
use crate::mailbox::slot::Batch;
use crate::tree::reserve::SealError;
use alloc::vec::Vec;
use core::task::{Poll, Waker};

/// What `refill` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refill {
    /// The batch has messages.
    Messages,
    /// The control word has bits to process.
    Control,
    /// The queue is closed and empty.
    Ended,
}

/// What `refill` does if there is no message.
enum WithoutMessage {
    Control,
    Ended,
    AdmitSends,
    Park,
    CheckAgain,
}

impl<S: ?Sized, U, H> QueueOf<S, U, H> {
    /// Returns true if nothing has arrived since the receiver parked early, so it may return
    /// `Pending` at once.
    #[inline]
    pub(crate) fn is_still_parked(&self) -> bool {
        self.parked_early.load(Ordering::Relaxed)
    }
}

impl<U: Default, H> AnyQueue<U, H> {
    /// Returns true if the receiver may take a single message and park at once.
    #[inline]
    pub(super) fn may_take_single(&self, state: &AnyQueueState<U>) -> bool {
        // The end of a backlog is reported by a batch.
        !(state.closed | state.high_water_reported) && self.control_word() == 0 && state.no_send_waits()
    }

    /// After a single message was taken: counts it, and parks the receiver. Returns the waker it
    /// replaces, to be dropped outside the lock.
    #[inline]
    pub(super) fn finish_single(&self, state: &mut AnyQueueState<U>, waker: &Waker) -> Option<Waker> {
        state.last_batch_len = 1;
        self.count_taken();
        state.refresh_credits(&self.taken, &self.control_word);
        state.receiver = ReceiverState::Idle;
        state.store_waker(waker)
    }

    /// Fills `batch`, which must be empty. If there is nothing to take and `may_park` is true,
    /// parks the receiver.
    pub(crate) fn refill(&self, batch: &mut dyn Batch, may_park: bool, waker: &Waker) -> Poll<Refill> {
        loop {
            let (mut replaced, mut old_context, mut frees) = (None, None, true);
            let found = self.state.with(|state| {
                match state.messages.take_batch(batch, &mut state.last_batch_len) {
                    Taken::Nothing => {}
                    taken => {
                        if taken == Taken::Cold {
                            old_context = state.take_context();
                        }
                        state.refresh_credits(&self.taken, &self.control_word);
                        return None;
                    }
                }
                let next = self.without_message(state, may_park);
                if let WithoutMessage::Park = next {
                    frees = state.messages.keep_small_chunk(batch);
                    state.refresh_credits(&self.taken, &self.control_word);
                    replaced = state.store_waker(waker);
                }
                Some(next)
            });
            drop(replaced);
            drop(old_context);
            match found {
                None => {
                    // The oldest message goes last, because the batch is popped from its end.
                    batch.reverse();
                    return Poll::Ready(Refill::Messages);
                }
                Some(WithoutMessage::Control) => return Poll::Ready(Refill::Control),
                Some(WithoutMessage::Ended) => return Poll::Ready(Refill::Ended),
                Some(WithoutMessage::AdmitSends) => self.admit(),
                Some(WithoutMessage::Park) => {
                    if frees {
                        batch.free();
                    }
                    return Poll::Pending;
                }
                Some(WithoutMessage::CheckAgain) => return Poll::Pending,
            }
        }
    }

    /// Takes the remaining messages after the exit into `batch`, part by part, oldest last. Ready
    /// with false after the last part. Parks the receiver while messages are still being made.
    pub(crate) fn poll_remaining(&self, batch: &mut dyn Batch, waker: &Waker) -> Poll<bool> {
        let mut replaced = None;
        let polled = self.state.with(|state| match state.messages.take_batch(batch, &mut state.last_batch_len) {
            Taken::Nothing => self.without_remaining(state, waker, &mut replaced).map(|()| false),
            Taken::Chunk | Taken::Cold => Poll::Ready(true),
        });
        drop(replaced);
        batch.reverse();
        polled
    }

    /// Decides what a receiver does that has found no message. It parks only if `may_park`.
    fn without_message(&self, state: &mut AnyQueueState<U>, may_park: bool) -> WithoutMessage {
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

    /// Checks whether memory for as many messages as the capacity allows can be reserved.
    pub(crate) fn check_capacity(&self, path: impl Fn() -> ActorPath) -> Result<(), SealError> {
        let (capacity, capacity_max) = self.state.with(|state| (state.capacity, state.messages.capacity_max(state.lanes)));
        match capacity as usize {
            _ if capacity == u32::MAX => Err(SealError::UnboundedMailbox { path: path() }),
            capacity if capacity > capacity_max => Err(SealError::MailboxTooLarge { path: path(), capacity, capacity_max }),
            _ => Ok(()),
        }
    }

    /// Reserves that memory, and room for the messages of `timers` timers of the receiver. The
    /// capacity was checked.
    pub(crate) fn reserve_memory(&self, timers: usize) {
        self.state.with(|state| {
            let capacity = state.capacity as usize;
            state.messages.reserve(capacity, timers, state.lanes);
            state.refresh_credits(&self.taken, &self.control_word);
        });
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
