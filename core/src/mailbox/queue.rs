//! `MessageQueue`: the queue of one actor, with its control word. Many senders, one receiver.
//!
//! What is under its lock is in `state`, sends that wait for room are in `waiting`, pushes in two steps in `slots`, the
//! control lane in `control`.
//!
//! One short lock guards the chunk that senders fill. The receiver swaps the whole chunk for an empty one, turns it round so that it can
//! pop from the end, and works through it without the lock; beyond 1,024 messages a full chunk goes to a backlog, so that no
//! push ever copies more than one. Mailboxes that drop the oldest, conflate or have priorities keep their messages in lanes instead,
//! and the receiver takes one at a time. Nothing is woken or dropped under the lock, and no waker of a sender is cloned there.
//!
//! ```text
//!  parked:   Running ──refill finds nothing──► Idle ──push or control──► Running
//!               ├───────take_alone, early────► Idle
//!               ├───────handler is pending───► InHandler ──cancel──────► Running   (a push does not wake it)
//!               └───────suspended────────────► Suspended ──any control─► Running   (a push does not wake it)
//! ```
//!
//! Invariants:
//! 1. `accepted - removed - taken` messages are queued; no push takes that beyond the capacity, though an item from a feed or a message
//!    tried again may, by one, and each send that is admitted to open a cycle of waits. `quick` is how many more can be pushed without looking closer: within the capacity, within the chunk's
//!    memory, up to the mark at 80 % of the capacity, and 0 where a push is anything but that. So the push that passes the mark is
//!    always one that looks closer, and no other asks where the mark is.
//! 2. The waker is present exactly while parked. Whoever needs the receiver takes it and wakes it outside the lock.
//! 3. Control bits are set before the lock is taken to look at `parked`, and the receiver looks at them again under the lock before
//!    it parks: a bit is never missed.
//! 4. A waiting send keeps its message in the waiting list. The receiver, or a later push that finds room, moves it to the queue, in
//!    order and before anything newer, so a `tell` never overtakes it and dropping the send leaks no slot.
//! 5. A receiver may park early: as it takes the only message there is, before it handles it. Whatever comes meanwhile wakes its task,
//!    which is then polled once more, so it may rest after its handler without another look.
//! 6. A push in two steps (`slots`) holds its place and is accepted before its message is there. The receiver neither ends nor leaves
//!    before that message has come.
//! 7. What only some mailboxes need lies in one box that is allocated when first needed.

use crate::base::lock::Lock;
use crate::base::sync::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use crate::base::wakers;
use crate::events::counts::Counts;
use crate::events::event::DeadLetterReason;
use crate::mailbox::control::PollState;
use crate::mailbox::queue_state::{HighWater, MadeRoom, QueueState, ReceiverState};
use crate::mailbox::send_error::SendError;
use crate::mailbox::{Mailbox, Priority, control};
use alloc::vec::Vec;
use core::task::{Poll, Waker};

pub(crate) struct MessageQueue<M, X> {
    pub(super) control_word: AtomicU32,
    pub(super) poll_state: AtomicU8,
    /// The receiver has parked early and no message has come since; a hint, except that it is false once a handler has waited.
    parked_early: AtomicBool,
    pub(super) owner_flag: AtomicBool,
    pub(super) taken: AtomicUsize,
    handled: AtomicUsize,
    pub(super) state: Lock<QueueState<M, X>>,
}

/// What the receiver found.
pub(crate) enum Refill<M> {
    /// The batch has messages.
    Messages,
    /// The only message there was; its handling has begun, and the receiver is parked.
    Single(M),
    /// Control has something to say.
    Control,
    /// The end of input, and nothing is left.
    Ended,
}

/// What there was under the lock.
enum RefillStep<M> {
    Ready(Refill<M>),
    AdmitSends,
    Empty,
}

/// How a push went: whether the mailbox is filling up, or that the message was not accepted.
pub(crate) type Pushed<M> = Result<Option<HighWater>, SendError<M>>;

/// How a push went under the lock: who to wake, and what was dropped for it.
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

    /// Puts a message in, without waiting. A message dropped to make room is handed to `dead_letter`, outside the lock.
    #[inline]
    pub(crate) fn push(&self, message: M, dead_letter: impl FnOnce(M, DeadLetterReason)) -> Pushed<M> {
        match self.push_fast(message) {
            Ok(()) => Ok(None),
            Err(message) => self.push_slow(message, Priority::NORMAL, true, dead_letter),
        }
    }

    /// Puts a message in if there is room, whatever the overflow policy says.
    #[inline]
    pub(crate) fn try_push(&self, message: M) -> Pushed<M> {
        match self.push_fast(message) {
            Ok(()) => Ok(None),
            Err(message) => self.push_slow(message, Priority::NORMAL, false, |_, _| {}),
        }
    }

    /// The push of nearly every message: there is room, in a chunk that has place. Gives the message back where it is not so simple.
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

    /// Any other push.
    #[cold]
    pub(crate) fn push_slow(
        &self,
        message: M,
        priority: Priority,
        may_drop: bool,
        dead_letter: impl FnOnce(M, DeadLetterReason),
    ) -> Pushed<M> {
        let (pushed, admitted, high_water) = self.state.with(|state| {
            // Whoever waits goes first.
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

    /// One more item from a source beside the queue: it is accepted and taken at once.
    pub(crate) fn count_accepted(&self) {
        self.state.with(|state| state.accepted = state.accepted.wrapping_add(1));
    }

    /// Takes the only message there is, begins it, and parks the receiver. `None` if there are more or none, or something to look at.
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

    /// Whether the receiver that parked early may rest now. If not, it may go on at once with what has come.
    #[inline]
    pub(crate) fn is_still_parked(&self) -> bool {
        self.parked_early.load(Ordering::Relaxed)
    }

    /// Fills `batch`, or parks the receiver if it may. `batch` must be empty.
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
            // The list is looked at under the lock and not the bit before it: a send that has just come to wait may not have seen
            // the room that the receiver has made, and would be left waiting beside an empty queue.
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
                // The oldest comes last, where it is popped.
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

    /// Leaves the waker for a handler that is pending, so that a cancel reaches it. False if a cancel came first.
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

    /// Parks a suspended receiver until control says something.
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

    /// Parks a receiver that waits for a change of control alone, and leaves its waker. False if the word or the end of input is no
    /// longer as it has seen it.
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

    /// Takes messages again.
    pub(crate) fn reopen(&self) {
        self.state.with(|state| state.closed = false);
    }

    /// Takes no more messages. Waiting sends get theirs back. Gives the waker of a parked receiver.
    pub(crate) fn close(&self) -> Option<Waker> {
        let (receiver, senders) = self.state.with(|state| {
            let senders = state.close();
            let resting = matches!(state.receiver, ReceiverState::Idle | ReceiverState::Suspended);
            (if resting { state.unpark() } else { None }, senders)
        });
        wakers::wake_each(senders.into_iter().flatten());
        receiver
    }

    /// As [`close`](Self::close), by the receiver itself. True if nothing is left, which is how it stays.
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

    /// The handling of one message begins. Only the receiver calls this, so a plain store is enough.
    #[inline]
    pub(crate) fn count_taken(&self) {
        self.taken.store(self.taken.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }

    /// The handling of one message ended well.
    #[inline]
    pub(crate) fn count_handled(&self) {
        self.handled.store(self.handled.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }

    /// Takes back one [`finish`](Self::finish): the message was put aside and not handled.
    pub(crate) fn uncount_handled(&self) {
        self.handled.store(self.handled.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Release);
    }

    pub(crate) fn count_failed(&self) {
        self.state.with(|state| state.cold().failed += 1);
    }

    pub(crate) fn count_dead_lettered(&self) {
        self.state.with(|state| state.cold().dead_lettered += 1);
    }

    /// One message that was queued or in the receiver's batch becomes a dead letter untaken.
    pub(crate) fn count_removed(&self) {
        self.state.with(|state| state.count_removed());
    }

    /// The receiver is gone: whatever it held and nobody settled has become a dead letter.
    pub(crate) fn count_rest_as_dead_letters(&self) {
        let open = self.counts().open();
        self.state.with(|state| {
            let queued = state.queued(&self.taken);
            let cold = state.cold();
            cold.dead_lettered += open;
            cold.removed = cold.removed.wrapping_add(queued);
        });
    }

    pub(crate) fn counts(&self) -> Counts {
        // Handled is read first: it never runs ahead of accepted.
        let handled = self.handled.load(Ordering::Acquire) as u64;
        self.state.with(|state| {
            let (failed, dead_lettered) = state.cold.as_ref().map_or((0, 0), |cold| (cold.failed, cold.dead_lettered));
            Counts { accepted: state.accepted as u64, handled, failed, dead_lettered }
        })
    }

    /// Messages accepted whose handling has not begun.
    pub(crate) fn len(&self) -> usize {
        self.state.with(|state| state.queued(&self.taken))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state.with(|state| state.is_empty())
    }
}
