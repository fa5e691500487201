//! Reservations: a push in two steps, for a message that is made only after the mailbox has
//! accepted it.
//!
//! An adapter consumes its input, so it must not run while the message could still be rejected and
//! returned. First room is reserved, and the message counts as accepted. Then the message is made,
//! outside every lock. Then the reservation is filled.
//!
//! ```text
//!  reserve ────────────────────────────────room──► reserved ──fill──────────────► queued
//!  poll_reserve ──no room──► waiting ──room──► granted ─┘ └──fail_reservation──► failed
//!                               └─withdraw, close─┘
//! ```
//!
//! Invariants:
//! 1. A granted place uses room but is not accepted. Withdrawing it, or closing the queue, frees
//!    it. So a sender that is not polled never blocks the actor.
//! 2. Nothing is awaited between `reserve` and `fill` or `fail_reservation`. The receiver waits for
//!    that before it exits. If the receiver's task is dropped instead, it has already settled the
//!    counts (`receiver_gone`).
//! 3. Code that frees a place without leaving a message there admits the waiting sends and wakes
//!    the receiver for them.

use crate::base::wakers;
use crate::events::event::DeadLetterReason;
use crate::events::instrument::SendContext;
use crate::mailbox::high_water::HighWater;
use crate::mailbox::messages::MessageStore as _;
use crate::mailbox::queue::{AnyQueue, MessageQueue};
use crate::mailbox::queue_state::{Admission, AnyQueueState, ReceiverState};
use crate::mailbox::send_error::SendError;
use crate::mailbox::{Overflow, Priority};
use alloc::vec::Vec;
use core::task::{Poll, Waker};

/// Room in a mailbox for a message that is being made. It must be filled or failed.
#[must_use]
pub(crate) struct Reservation {
    priority: Priority,
    /// Set if the mailbox was full: the message becomes a dead letter as soon as it is made.
    drop_reason: Option<DeadLetterReason>,
}

/// A message that will not be handled. The reason is `None` if the counts already include it.
pub(crate) type Rejected<M> = (M, Option<DeadLetterReason>);

/// A reservation, and `Some` if it passed the high-water mark.
pub(crate) type Reserved = (Reservation, Option<HighWater>);

impl<U: Default, H> AnyQueue<U, H> {
    /// Reserves room without waiting. If the mailbox is full, `may_drop` allows its overflow rule
    /// to drop a message.
    pub(crate) fn reserve(&self, priority: Priority, may_drop: bool) -> Result<Reserved, SendError<()>> {
        let (reserved, admitted) = self.state.with(|state| {
            if let Err(error) = state.check_accepts(priority) {
                return (Err(error), Vec::new());
            }
            let mut admitted = Vec::new();
            let room = self.admit_first(state, &mut admitted);
            let drop_reason = match state.overflow {
                _ if room > 0 => None,
                Overflow::DropNewest if may_drop => Some(DeadLetterReason::DroppedNewest),
                // The oldest message is found when the new one is made.
                Overflow::DropOldest | Overflow::Conflate if may_drop => None,
                _ => return (Err(SendError::Full(())), admitted),
            };
            (Ok(self.reserve_locked(state, Reservation { priority, drop_reason })), admitted)
        });
        wakers::wake_each(admitted);
        reserved
    }

    /// Reserves room, waiting for it. `key` is the key in the waiting list meanwhile.
    pub(crate) fn poll_reserve(
        &self,
        key: &mut Option<u64>,
        priority: Priority,
        waker: &Waker,
    ) -> Poll<Result<Reserved, SendError<()>>> {
        // The waker is updated first: room or a close that comes after the check below wakes it.
        if let Some(key) = *key {
            self.update_waker(key, waker);
        }
        let polled = self.poll_reserve_with(key, priority, None);
        if polled.is_pending() && key.is_none() { self.poll_reserve_with(key, priority, Some(waker.clone())) } else { polled }
    }

    /// One attempt of [`poll_reserve`](Self::poll_reserve). It joins the waiting list only if it
    /// has a waker.
    fn poll_reserve_with(
        &self,
        key: &mut Option<u64>,
        priority: Priority,
        mut waker: Option<Waker>,
    ) -> Poll<Result<Reserved, SendError<()>>> {
        let mut old = None;
        let (polled, admitted) = self.state.with(|state| {
            if let Err(error) = state.check_accepts(priority) {
                // A closed queue may be reopened, so nothing stays in its lists.
                if let Some(key) = key.take() {
                    let cold = state.cold();
                    cold.granted.remove(&key);
                    old = cold.waiting.remove(&key).and_then(|waiting| waiting.waker);
                    self.refresh_after_admission(state);
                }
                return (Poll::Ready(Err(error)), Vec::new());
            }
            let admitted = self.admit_locked(state);
            let is_admitted = match *key {
                Some(key) => state.cold().granted.remove(&key),
                None => state.no_send_waits() && state.room(&self.taken) > 0,
            };
            if is_admitted {
                *key = None;
                return (Poll::Ready(Ok(self.reserve_locked(state, Reservation { priority, drop_reason: None }))), admitted);
            }
            if key.is_none() && waker.is_some() {
                *key = Some(self.add_waiting(state, None, priority, waker.take(), None));
            }
            (Poll::Pending, admitted)
        });
        wakers::discard(old.into_iter().chain(waker));
        wakers::wake_each(admitted);
        polled
    }

    fn reserve_locked(&self, state: &mut AnyQueueState<U>, reservation: Reservation) -> Reserved {
        state.accepted = state.accepted.wrapping_add(1);
        state.cold().reserved += 1;
        let high_water = state.check_high_water(&self.taken, &self.control_word);
        state.refresh_credits(&self.taken, &self.control_word);
        (reservation, high_water)
    }

    /// Leaves the waiting list, or frees the room that was granted since.
    pub(crate) fn withdraw_reserve(&self, key: u64) {
        let (waiting, to_wake) = self.state.with(|state| {
            let cold = state.cold();
            let waiting = cold.waiting.remove(&key);
            cold.granted.remove(&key);
            (waiting, self.after_release(state))
        });
        wakers::discard(waiting.and_then(|waiting| waiting.waker));
        wakers::wake_each(to_wake);
    }

    /// Decides about the message of a reservation, and counts the message that will be dropped.
    /// Returns `None` if the receiver is gone.
    fn begin_fill(&self, state: &mut AnyQueueState<U>, reservation: &Reservation) -> Option<Admission> {
        let cold = state.cold();
        cold.reserved -= 1;
        if cold.receiver_gone {
            return None;
        }
        let evicts = matches!(state.overflow, Overflow::DropOldest | Overflow::Conflate);
        Some(match reservation.drop_reason {
            Some(reason) => {
                state.count_removed();
                Admission::DropIncoming(reason)
            }
            None if evicts && state.queued(&self.taken) > state.capacity as usize => state.make_room(reservation.priority),
            None => Admission::Enqueue,
        })
    }

    /// Releases a reservation whose message could not be made. It counts as failed.
    pub(crate) fn fail_reservation(&self, _reservation: Reservation) {
        let to_wake = self.state.with(|state| {
            let cold = state.cold();
            cold.reserved -= 1;
            if cold.receiver_gone {
                return Vec::new();
            }
            cold.removed = cold.removed.wrapping_add(1);
            cold.failed += 1;
            self.after_release(state)
        });
        wakers::wake_each(to_wake);
    }

    /// After room was freed without a message: admits waiting sends. Returns their wakers, and the
    /// receiver's if it is idle, because it may have waited for this reservation or has messages
    /// now.
    fn after_release(&self, state: &mut AnyQueueState<U>) -> Vec<Waker> {
        let mut to_wake = self.admit_locked(state);
        self.refresh_after_admission(state);
        to_wake.extend(state.unpark_if_idle());
        to_wake
    }

    /// No message is left: ready if none is being made, else parks the receiver.
    pub(super) fn without_remaining(
        &self,
        state: &mut AnyQueueState<U>,
        waker: &Waker,
        replaced: &mut Option<Waker>,
    ) -> Poll<()> {
        if state.no_reservations() {
            return Poll::Ready(());
        }
        state.receiver = ReceiverState::Idle;
        *replaced = state.store_waker(waker);
        Poll::Pending
    }

    /// Records that no message will be taken any more. The caller settles the counts.
    pub(crate) fn mark_receiver_gone(&self) {
        self.state.with(|state| {
            if !state.no_reservations() {
                state.cold().receiver_gone = true;
            }
        });
    }
}

impl<M: Send + 'static, U: Default, H> MessageQueue<M, U, H> {
    /// Fills a reservation. Returns a message that will not be handled: the one that was dropped to
    /// make room, or this one.
    pub(crate) fn fill(&self, reservation: Reservation, message: M, context: Option<SendContext>) -> Option<Rejected<M>> {
        let mut unused = (None, None);
        let (rejected, waker) = self.state.with(|state| {
            let at = state.position(reservation.priority);
            let rejected = match self.any().begin_fill(state, &reservation) {
                None => return (Some((message, None)), None),
                Some(Admission::DropIncoming(reason)) => Some((message, Some(reason))),
                Some(Admission::Enqueue) => {
                    state.messages.enqueue(message, at);
                    unused.0 = state.push_context(reservation.priority, context);
                    None
                }
                Some(Admission::ReplaceOldest(reason)) => {
                    let mut slot = Some(message);
                    state.messages.replace_oldest(&mut slot, at);
                    unused.1 = state.pop_oldest_context();
                    unused.0 = state.push_context(reservation.priority, context);
                    slot.map(|oldest| (oldest, Some(reason)))
                }
            };
            state.refresh_credits(&self.taken, &self.control_word);
            (rejected, state.unpark_if_idle())
        });
        drop(unused);
        wakers::wake_each(waker);
        rejected
    }
}
