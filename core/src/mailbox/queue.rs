//! `MessageQueue`: the message queue of one actor, with its control word. Many senders, one
//! receiver.
//!
//! One short lock guards the chunk that senders fill. The receiver swaps the whole chunk for an
//! empty one, reverses it so that it can pop from the end, and works through it without the lock.
//! That chunk is the receiver's batch. Above 1,024 messages a full chunk moves to a backlog, so no
//! push copies more than one chunk.
//!
//! Mailboxes that drop the oldest message, conflate or have priorities keep their messages in lanes
//! instead. The receiver takes one message at a time from a lane.
//!
//! Lock rule: under the lock nothing is woken or dropped, no user code runs, and no waker of a
//! sender is cloned.
//!
//! States of the receiver (`ReceiverState`). Its waker is stored exactly while it is not `Running`:
//!
//! ```text
//!  Running ──refill finds nothing──► Idle ───────push or control──► Running
//!     ├──────take_single, early────► Idle
//!     ├──────handler is pending────► InHandler ──cancel───────────► Running  (not by a push)
//!     └──────suspended─────────────► Suspended ──any control──────► Running  (not by a push)
//! ```
//!
//! Invariants:
//! 1. `accepted - removed - taken` messages are queued. No push exceeds the capacity. Three cases
//!    may exceed it: an item from a feed and a retried message, by one each, and every send that is
//!    admitted to break a wait cycle.
//! 2. `credits` is the number of pushes that need no further check (see `high_water`).
//! 3. A caller that needs the receiver takes its waker under the lock and wakes it outside the
//!    lock.
//! 4. Control bits are set before the lock is taken to look at the receiver's state. The receiver
//!    checks them again under the lock before it parks. So no bit is missed.
//! 5. A waiting send keeps its message in the waiting list. The receiver, or a later push that
//!    finds room, moves it to the queue, in order and before newer messages. So a `tell` never
//!    overtakes it, and a dropped send leaks no room.
//! 6. A receiver may park early: when it takes the only queued message, before it handles it. A
//!    push meanwhile wakes its task, which is then polled once more. So the receiver may return
//!    `Pending` after its handler without checking the queue again.
//! 7. A push in two steps (`reserve`) is accepted before its message exists. The receiver does not
//!    exit before that message has arrived.
//! 8. State that only some mailboxes need is in one box (`ColdPart`), allocated on first use.

use crate::base::lock::Lock;
use crate::base::sync::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use crate::base::wakers;
use crate::events::event::DeadLetterReason;
use crate::mailbox::control::PollState;
use crate::mailbox::high_water::HighWater;
use crate::mailbox::queue_state::{MadeRoom, QueueState, ReceiverState};
use crate::mailbox::send_error::SendError;
use crate::mailbox::{Mailbox, Priority, control};
use alloc::vec::Vec;
use core::task::{Poll, Waker};

/// The message queue of one actor. `X` is data that the owner attaches to it.
pub(crate) struct MessageQueue<M, X> {
    pub(super) control_word: AtomicU32,
    pub(super) poll_state: AtomicU8,
    /// True while the receiver is parked early and no message has arrived since. It is a hint, but
    /// it is always false once a handler has waited.
    parked_early: AtomicBool,
    pub(super) owner_flag: AtomicBool,
    /// Messages whose handler has started. Only the receiver writes it.
    pub(super) taken: AtomicUsize,
    /// Messages whose handler has returned `Ok`. Only the receiver writes it.
    pub(super) handled: AtomicUsize,
    pub(super) state: Lock<QueueState<M, X>>,
}

/// What `refill` found.
pub(crate) enum Refill<M> {
    /// The batch has messages.
    Messages,
    /// The only queued message. It counts as taken, and the receiver is parked.
    Single(M),
    /// The control word has bits to process.
    Control,
    /// The queue is closed and empty.
    Ended,
}

/// What `refill` found under the lock.
enum RefillStep<M> {
    Ready(Refill<M>),
    AdmitSends,
    Empty,
}

/// The result of a push: `Some` if it passed the high-water mark, or the error with the message.
pub(crate) type Pushed<M> = Result<Option<HighWater>, SendError<M>>;

/// The result of a push under the lock: the waker to wake, and the message that was dropped.
type PushResult<M> = Result<(Option<Waker>, Option<(M, DeadLetterReason)>), SendError<M>>;

impl<M, X: Default> MessageQueue<M, X> {
    #[inline]
    pub(crate) fn new(kind: Mailbox) -> Self {
        Self {
            control_word: AtomicU32::new(0),
            poll_state: AtomicU8::new(PollState::Outside as u8),
            parked_early: AtomicBool::new(false),
            owner_flag: AtomicBool::new(false),
            taken: AtomicUsize::new(0),
            handled: AtomicUsize::new(0),
            state: Lock::new(QueueState::new(kind)),
        }
    }

    /// Pushes a message without waiting. A message that is dropped to make room is passed to
    /// `dead_letter`, outside the lock.
    #[inline]
    pub(crate) fn push(&self, message: M, dead_letter: impl FnOnce(M, DeadLetterReason)) -> Pushed<M> {
        match self.push_fast(message) {
            Ok(()) => Ok(None),
            Err(message) => self.push_slow(message, Priority::NORMAL, true, dead_letter),
        }
    }

    /// Pushes a message if there is room, and ignores the overflow rule.
    #[inline]
    pub(crate) fn try_push(&self, message: M) -> Pushed<M> {
        match self.push_fast(message) {
            Ok(()) => Ok(None),
            Err(message) => self.push_slow(message, Priority::NORMAL, false, |_, _| {}),
        }
    }

    /// Fast path of nearly every push: there is room, and the chunk has free memory. Returns the
    /// message if the slow path is needed.
    #[inline]
    pub(super) fn push_fast(&self, message: M) -> Result<(), M> {
        let mut message = Some(message);
        let waker = self.state.with(|state| {
            if state.credits > 0
                && let Some(message) = message.take()
            {
                state.credits -= 1;
                state.accepted = state.accepted.wrapping_add(1);
                state.chunk.push(message);
                return state.unpark_if_idle();
            }
            None
        });
        if let Some(waker) = waker {
            self.parked_early.store(false, Ordering::Relaxed);
            waker.wake();
        }
        message.map_or(Ok(()), Err)
    }

    /// Slow path of a push: every case without credits.
    #[cold]
    pub(crate) fn push_slow(
        &self,
        message: M,
        priority: Priority,
        may_drop: bool,
        dead_letter: impl FnOnce(M, DeadLetterReason),
    ) -> Pushed<M> {
        let (pushed, admitted, high_water) = self.state.with(|state| {
            // Waiting sends go first.
            let admitted = self.admit_locked(state);
            let pushed = self.push_locked(state, message, priority, may_drop);
            let high_water = if pushed.is_ok() { state.check_high_water(&self.taken) } else { None };
            (pushed, admitted, high_water)
        });
        wakers::wake_each(admitted);
        let (waker, dropped) = pushed?;
        wakers::wake_each(waker);
        if let Some((message, reason)) = dropped {
            dead_letter(message, reason);
        }
        Ok(high_water)
    }

    fn push_locked(&self, state: &mut QueueState<M, X>, message: M, priority: Priority, may_drop: bool) -> PushResult<M> {
        if state.closed {
            return Err(SendError::Closed(message));
        }
        if priority != Priority::NORMAL && !state.has_priorities() {
            return Err(SendError::NoPriorities(message));
        }
        if state.room(&self.taken) > 0 {
            state.enqueue(message, priority);
            state.refresh_credits(&self.taken);
            return Ok((state.unpark_if_idle(), None));
        }
        if !may_drop {
            return Err(SendError::Full(message));
        }
        match state.make_room(priority) {
            MadeRoom::Made(dropped) => {
                state.enqueue(message, priority);
                Ok((state.unpark_if_idle(), dropped))
            }
            MadeRoom::DropIncoming(reason) => {
                state.accepted = state.accepted.wrapping_add(1);
                state.count_removed();
                Ok((None, Some((message, reason))))
            }
            MadeRoom::Refused => Err(SendError::Full(message)),
        }
    }

    /// Takes the only queued message, counts it as taken, and parks the receiver. Returns `None` if
    /// there is not exactly one message, or if the control word is not zero.
    #[inline]
    pub(crate) fn take_single(&self, waker: &Waker) -> Option<M> {
        let mut replaced = None;
        let message = self.state.with(|state| {
            if state.closed || self.control_word() != 0 {
                return None;
            }
            let message = state.take_single()?;
            self.count_taken();
            state.refresh_credits(&self.taken);
            state.receiver = ReceiverState::Idle;
            replaced = state.store_waker(waker);
            Some(message)
        });
        drop(replaced);
        self.parked_early.store(message.is_some(), Ordering::Relaxed);
        message
    }

    /// Returns true if nothing has arrived since the receiver parked early, so it may return
    /// `Pending` at once.
    #[inline]
    pub(crate) fn is_still_parked(&self) -> bool {
        self.parked_early.load(Ordering::Relaxed)
    }

    /// Fills `batch`, which must be empty. If there is nothing to take and `may_park` is true,
    /// parks the receiver.
    pub(crate) fn refill(&self, batch: &mut Vec<M>, may_park: bool, waker: &Waker) -> Poll<Refill<M>> {
        let mut replaced = None;
        let found = self.state.with(|state| {
            if state.take_batch(batch) {
                state.refresh_credits(&self.taken);
                return RefillStep::Ready(Refill::Messages);
            }
            if self.control_word() & !control::PASSIVE != 0 {
                return RefillStep::Ready(Refill::Control);
            }
            if state.closed && state.no_reservations() {
                return RefillStep::Ready(Refill::Ended);
            }
            // This checks the list under the lock, not the bit before it. A send that has just
            // joined the list may not have seen the room that the receiver made, and would
            // otherwise wait beside an empty queue.
            if state.cold.is_some() && !state.no_send_waits() && !state.closed && state.room(&self.taken) > 0 {
                return RefillStep::AdmitSends;
            }
            if may_park {
                state.receiver = ReceiverState::Idle;
                state.keep_small_chunk(batch);
                state.refresh_credits(&self.taken);
                replaced = state.store_waker(waker);
            }
            RefillStep::Empty
        });
        drop(replaced);
        match found {
            RefillStep::Ready(refill) => {
                // The oldest message goes last, because the batch is popped from its end.
                if batch.len() > 1 {
                    batch.reverse();
                }
                Poll::Ready(refill)
            }
            RefillStep::AdmitSends => {
                self.admit();
                self.refill(batch, may_park, waker)
            }
            RefillStep::Empty => {
                if may_park && batch.capacity() > 0 {
                    *batch = Vec::new();
                }
                Poll::Pending
            }
        }
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
            if state.closed || self.control_word() & !control::PASSIVE != 0 {
                return Poll::Ready(());
            }
            admitted = self.admit_locked(state);
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
            if self.control_word() != seen || state.closed != seen_closed {
                return false;
            }
            admitted = self.admit_locked(state);
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
        wakers::wake_each(senders.into_iter().flatten());
        receiver
    }

    /// As [`close`](Self::close), called by the receiver itself. Returns true if the queue is
    /// empty; it then stays empty.
    pub(crate) fn close_by_receiver(&self) -> bool {
        let (empty, senders) = self.state.with(|state| {
            let senders = state.close();
            (state.is_empty(), senders)
        });
        if let Some(senders) = senders {
            wakers::wake_each(senders);
        }
        empty
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.with(|state| state.closed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state.with(|state| state.is_empty())
    }
}
