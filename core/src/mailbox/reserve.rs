//! Slots: a push in two steps, for a message that is made only once the mailbox has taken it.
//!
//! An adapter consumes what it is given, so it must not run before it is certain that nothing is given back. First a place is held, which
//! is when the message counts as accepted; then the message is made, outside every lock; then the place is filled.
//!
//! ```text
//!   hold ───────────────────────────────────room──► held ──fill──► queued
//!   poll_hold ──no room──► waiting ──room──► granted ─┘  └──void──► failed (its making did)
//!                             └─withdraw, close─┘
//! ```
//!
//! Invariants:
//! 1. A granted place takes room and is not accepted. Whoever withdraws gives it up, and the end of input makes it worthless, so no sender
//!    that is not polled holds up the actor.
//! 2. From `hold` to `fill` or `void` nothing is awaited. The receiver waits for that before it ends; a receiver that is gone for
//!    another reason has settled the books.
//! 3. Whoever frees a place without leaving a message there lets in those who wait, and wakes the receiver for them.

use crate::base::sync::Ordering;
use crate::base::wakers;
use crate::events::event::DeadLetterReason;
use crate::mailbox::queue::MessageQueue;
use crate::mailbox::queue_state::{HighWater, MadeRoom, QueueState, ReceiverState, WaitingSend};
use crate::mailbox::send_error::SendError;
use crate::mailbox::{Overflow, Priority, control};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::task::{Poll, Waker};

/// A place in a mailbox whose message is being made. It must be filled or voided.
#[must_use]
pub(crate) struct Reservation {
    priority: Priority,
    /// The mailbox is full: the message is a dead letter as soon as it is there.
    drop_reason: Option<DeadLetterReason>,
}

/// A message that will not be handled. With no reason the books know of it already.
pub(crate) type Rejected<M> = (M, Option<DeadLetterReason>);

/// A place that is held, and whether the mailbox is filling up.
pub(crate) type Reserved = (Reservation, Option<HighWater>);

impl<M, X: Default> MessageQueue<M, X> {
    /// Holds a place without waiting. A mailbox that is full has one for whoever `may_drop`, if its policy is to drop something.
    pub(crate) fn reserve(&self, priority: Priority, may_drop: bool) -> Result<Reserved, SendError<()>> {
        let (reserved, admitted) = self.state.with(|state| {
            if let Err(error) = state.check_accepts(priority) {
                return (Err(error), Vec::new());
            }
            let admitted = self.admit_locked(state);
            let drop_reason = match state.overflow {
                _ if state.room(&self.taken) > 0 => None,
                Overflow::DropNewest if may_drop => Some(DeadLetterReason::Newest),
                // Which is the oldest is seen when the message is there.
                Overflow::DropOldest | Overflow::Conflate if may_drop => None,
                _ => return (Err(SendError::Full(())), admitted),
            };
            (Ok(self.reserve_locked(state, Reservation { priority, drop_reason })), admitted)
        });
        wakers::wake_each(admitted);
        reserved
    }

    /// Holds a place, waiting for room. `key` is the place in the waiting list meanwhile.
    pub(crate) fn poll_reserve(
        &self,
        key: &mut Option<u64>,
        priority: Priority,
        waker: &Waker,
    ) -> Poll<Result<Reserved, SendError<()>>> {
        // The waker first: room, or an end of input, that comes after the look below wakes this one.
        if let Some(key) = *key {
            self.update_waker(key, waker);
        }
        let polled = self.poll_reserve_with(key, priority, None);
        if polled.is_pending() && key.is_none() { self.poll_reserve_with(key, priority, Some(waker.clone())) } else { polled }
    }

    /// One look at [`poll_hold`](Self::poll_hold). Only with a waker it joins the waiting list.
    fn poll_reserve_with(
        &self,
        key: &mut Option<u64>,
        priority: Priority,
        mut waker: Option<Waker>,
    ) -> Poll<Result<Reserved, SendError<()>>> {
        let mut old = None;
        let (polled, admitted) = self.state.with(|state| {
            if let Err(error) = state.check_accepts(priority) {
                // What closed may open again, so nothing is left behind.
                if let Some(key) = key.take() {
                    let cold = state.cold();
                    cold.granted.remove(&key);
                    old = cold.waiting.remove(&key).and_then(|waiting| waiting.waker);
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
                *key = Some(self.add_waiting(state, WaitingSend { message: None, priority, waker: waker.take() }));
            }
            (Poll::Pending, admitted)
        });
        wakers::discard(old.into_iter().chain(waker));
        wakers::wake_each(admitted);
        polled
    }

    fn reserve_locked(&self, state: &mut QueueState<M, X>, reservation: Reservation) -> Reserved {
        state.accepted = state.accepted.wrapping_add(1);
        state.cold().reserved += 1;
        let high_water = state.check_high_water(&self.taken);
        state.refresh_credits(&self.taken);
        (reservation, high_water)
    }

    /// Gives up a place in the waiting list, or one that was granted since.
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

    /// The message is there. Gives back what is not wanted: what was dropped for it, or the message itself.
    pub(crate) fn fill(&self, reservation: Reservation, message: M) -> Option<Rejected<M>> {
        let (rejected, waker) = self.state.with(|state| {
            let cold = state.cold();
            cold.reserved -= 1;
            if cold.receiver_gone {
                return (Some((message, None)), None);
            }
            let evicts = matches!(state.overflow, Overflow::DropOldest | Overflow::Conflate);
            let made = match reservation.drop_reason {
                Some(reason) => MadeRoom::DropIncoming(reason),
                None if evicts && state.queued(&self.taken) > state.capacity as usize => state.make_room(reservation.priority),
                None => MadeRoom::Made(None),
            };
            let rejected = match made {
                MadeRoom::DropIncoming(reason) => {
                    state.count_removed();
                    Some((message, Some(reason)))
                }
                MadeRoom::Made(dropped) => {
                    state.enqueue_accepted(message, reservation.priority);
                    dropped.map(|(dropped, reason)| (dropped, Some(reason)))
                }
                MadeRoom::Refused => unreachable!("a mailbox that evicts makes room"),
            };
            state.refresh_credits(&self.taken);
            (rejected, state.unpark_if_idle())
        });
        wakers::wake_each(waker);
        rejected
    }

    /// Making the message failed, and so counts the message.
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

    /// Somebody has left without a message: others may come in, and the receiver may have waited for this or have something to do now.
    fn after_release(&self, state: &mut QueueState<M, X>) -> Vec<Waker> {
        let mut to_wake = self.admit_locked(state);
        if state.no_send_waits() {
            self.control_word.fetch_and(!control::WAITING_SENDS, Ordering::Relaxed);
        }
        state.refresh_credits(&self.taken);
        to_wake.extend(state.unpark_if_idle());
        to_wake
    }

    /// Nobody will take what comes, and whoever says so settles the books.
    pub(crate) fn mark_receiver_gone(&self) {
        self.state.with(|state| {
            if !state.no_reservations() {
                state.cold().receiver_gone = true;
            }
        });
    }

    /// The next part of what is left over after the end, the oldest last.
    pub(crate) fn take_remaining(&self) -> Option<Vec<M>> {
        self.state.with(QueueState::take_oldest_part).map(oldest_last)
    }

    /// What is left over after the end, part by part; `None` once that is all, for which the receiver parks if messages are being made.
    pub(crate) fn poll_remaining(&self, waker: &Waker) -> Poll<Option<Vec<M>>> {
        let mut replaced = None;
        let polled = self.state.with(|state| match state.take_oldest_part() {
            Some(left) => Poll::Ready(Some(left)),
            None if state.no_reservations() => Poll::Ready(None),
            None => {
                state.receiver = ReceiverState::Idle;
                replaced = state.store_waker(waker);
                Poll::Pending
            }
        });
        drop(replaced);
        polled.map(|left| left.map(oldest_last))
    }
}

/// A part of what was queued, turned round so that the oldest is popped first.
fn oldest_last<M>((chunk, lane): (Vec<M>, VecDeque<M>)) -> Vec<M> {
    let mut left = if lane.is_empty() { chunk } else { lane.into() };
    left.reverse();
    left
}

impl<M, X: Default> QueueState<M, X> {
    /// Whether there is any use in asking for room.
    fn check_accepts(&self, priority: Priority) -> Result<(), SendError<()>> {
        match () {
            () if self.closed => Err(SendError::Closed(())),
            () if priority != Priority::NORMAL && !self.has_priorities() => Err(SendError::NoPriorities(())),
            () => Ok(()),
        }
    }

    /// Whether every place that was held has got its message.
    pub(super) fn no_reservations(&self) -> bool {
        self.cold.as_ref().is_none_or(|cold| cold.reserved == 0)
    }
}
