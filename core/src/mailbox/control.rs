//! The control word: commands that bypass the message queue.
//!
//! The control word is one atomic integer of flag bits. The receiver (the actor's task) loads it
//! before every message, so a command takes effect before the next message.
//!
//! Rules:
//! 1. `raise` sets bits and wakes the receiver if it is parked. A receiver that waits in a handler
//!    is woken only for `CANCEL`; it sees the other bits when the handler returns.
//! 2. `raise_silently` sets bits without a wake-up. It is for the receiver's own task, and for a
//!    caller that raises another bit right after it.
//! 3. Bits are set before the lock is taken to look at the receiver's state, and the receiver
//!    checks them again under the lock before it parks. So no bit is missed.
//! 4. `PASSIVE` bits do not keep an idle receiver from parking.
//!
//! Commands. They are raised from outside, and cleared by the actor's task:
//!
//! | bit | raised by | cleared by |
//! |---|---|---|
//! | `CANCEL` | `Member::on_cancel` | never |
//! | `STOP` | `stop`, `Member::stop_with` | `ended_unexpectedly` (permanent actor) |
//! | `FINAL` | `Member::stop_with`, silently, before stop or close | never |
//! | `RESTART` | `SystemMessage::Restart`, `Member::restart` | `apply_control`, next incarnation |
//! | `CHILD_FAILED` | `SupervisedMember::apply_action` | `apply_control`, next incarnation |
//! | `SUSPEND` | `Cell::suspend` | `apply_control`, `Cell::resume` |
//! | `RESUME` | `Cell::resume` | `apply_control`, `Cell::suspend` |
//! | `HALT` | restart plan | `poll_wait`, `start_with_group` |
//! | `START` | restart plan | `poll_wait`, `apply_control`, `halt_for_group` |
//! | `REPORT_START` | restart plan, with `START` | `announce_start` |
//! | `SIGNALS` | `push_signal` | `pop_signal`, when it takes the last one |
//! | `WAITING_SENDS` | `add_waiting`, silently | the last waiting send leaves |
//!
//! Notes that the actor's task makes for itself. All are raised silently, so no task is woken:
//!
//! | bit | raised by | cleared by |
//! |---|---|---|
//! | `UNANSWERED` | a dropped reply (`keep_unanswered`) | `take_unanswered` |
//! | `TIMERS` | timer methods of `Context` | `apply_control` |
//! | `STASH_CHANGED` | `stash`, `unstash` | `settle_stash` |
//! | `TIME_HANDLERS` | `begin_batch`, `time_next_handler` | `stop_stopwatch` |
//! | `BEHAVIOUR` | `become_with` | `unbecome`, end of the incarnation |
//! | `DRAINED` | the queue, once a reported backlog is below half | `report_drained` |
//! | `STUCK` | the sampler of `tree::watch`, with a wake-up | `report_unstuck` |
//! | `INSTRUMENTED` | `carry_contexts`, before the first message | never |
//! | `FAULTY` | `expect_faults`, before the first message | never |
//! | `ENDING` | `stop_children` | next incarnation, wait to restart |
//! | `WAITING_TO_RESTART` | the wait to restart begins | the wait ends |
//! | `MAILBOX_EMPTY` | `begin_exit`, if every accepted message was taken | never |

use crate::base::sync::Ordering;
use crate::events::signal::Signal;
use crate::ids::path::ActorId;
use crate::mailbox::queue::{AnyQueue, QueueOf};
use crate::mailbox::queue_state::ReceiverState;
use core::task::Waker;

// Commands.

/// Cancel at the next await.
pub(crate) const CANCEL: u32 = 1;
/// Stop after the current message.
pub(crate) const STOP: u32 = 1 << 1;
/// Restart from the factory.
pub(crate) const RESTART: u32 = 1 << 2;
/// Serve only control, until resumed.
pub(crate) const SUSPEND: u32 = 1 << 3;
/// Handle messages again.
pub(crate) const RESUME: u32 = 1 << 4;
/// The signal queue is not empty.
pub(crate) const SIGNALS: u32 = 1 << 5;
/// Sends wait for room.
pub(crate) const WAITING_SENDS: u32 = 1 << 6;
/// A child's failure became this actor's failure.
pub(crate) const CHILD_FAILED: u32 = 1 << 8;
/// End this incarnation and wait for `START`.
pub(crate) const HALT: u32 = 1 << 13;
/// Begin the next incarnation.
pub(crate) const START: u32 = 1 << 14;
/// The restart plan waits for a report that the incarnation has started.
pub(crate) const REPORT_START: u32 = 1 << 15;
/// The supervisor ordered the end: no other incarnation follows.
pub(crate) const FINAL: u32 = 1 << 16;

// Notes of the actor's task.

/// Replies were dropped without an answer.
pub(crate) const UNANSWERED: u32 = 1 << 7;
/// The incarnation is ending: a cancel no longer interrupts it.
pub(crate) const ENDING: u32 = 1 << 9;
/// The timers of the actor have changed.
pub(crate) const TIMERS: u32 = 1 << 10;
/// The stash has changed.
pub(crate) const STASH_CHANGED: u32 = 1 << 11;
/// The next handler is measured.
pub(crate) const TIME_HANDLERS: u32 = 1 << 12;
/// A behaviour replaces `Actor::handle`.
pub(crate) const BEHAVIOUR: u32 = 1 << 17;
/// The actor is between two incarnations and waits to start the next.
pub(crate) const WAITING_TO_RESTART: u32 = 1 << 18;
/// The mailbox was closed at the final exit, and every accepted message was taken.
pub(crate) const MAILBOX_EMPTY: u32 = 1 << 19;

/// A mailbox that was reported as filling up is less than half full again.
pub(crate) const DRAINED: u32 = 1 << 20;

/// The running handler was reported as stuck.
pub(crate) const STUCK: u32 = 1 << 22;
/// Each message has a span: it is a boxed step.
pub(crate) const INSTRUMENTED: u32 = 1 << 21;
/// Each message may fail by a fault that a test asked for: it is a boxed step.
pub(crate) const FAULTY: u32 = 1 << 23;

/// Bits that do not keep an idle receiver from parking.
pub(super) const PASSIVE: u32 = WAITING_SENDS | REPORT_START | FINAL | BEHAVIOUR | INSTRUMENTED | FAULTY;

/// Whether the receiver's task is being polled.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PollState {
    /// Not in a poll.
    Outside,
    /// In a poll that has not parked.
    Polling,
    /// In a poll that has left a waker or a wake-up.
    Parked,
}

impl<S: ?Sized, U, H> QueueOf<S, U, H> {
    #[inline]
    pub(crate) fn control_word(&self) -> u32 {
        self.control_word.load(Ordering::Acquire)
    }

    /// Returns true if a cancel must interrupt the running code.
    #[inline]
    pub(crate) fn must_cancel(&self) -> bool {
        self.control_word() & (CANCEL | ENDING) == CANCEL
    }

    /// Clears control bits and returns the word as it was before.
    pub(crate) fn clear_bits(&self, bits: u32) -> u32 {
        self.control_word.fetch_and(!bits, Ordering::AcqRel)
    }

    #[inline]
    pub(crate) fn poll_state(&self) -> PollState {
        match self.poll_state.load(Ordering::Relaxed) {
            0 => PollState::Outside,
            1 => PollState::Polling,
            _ => PollState::Parked,
        }
    }

    #[inline]
    pub(crate) fn set_poll_state(&self, poll_state: PollState) {
        self.poll_state.store(poll_state as u8, Ordering::Relaxed);
    }

    /// Sets control bits without waking the receiver.
    pub(crate) fn raise_silently(&self, bits: u32) {
        self.control_word.fetch_or(bits, Ordering::AcqRel);
    }

    /// Returns whether this flag of the owner is set.
    #[inline]
    pub(crate) fn owner_flag(&self, flag: u8) -> bool {
        self.owner_flags.load(Ordering::Relaxed) & flag != 0
    }

    /// Sets or clears a flag of the owner. Returns whether it was set before.
    pub(crate) fn set_owner_flag(&self, flag: u8, set: bool) -> bool {
        let before = match set {
            true => self.owner_flags.fetch_or(flag, Ordering::AcqRel),
            false => self.owner_flags.fetch_and(!flag, Ordering::AcqRel),
        };
        before & flag != 0
    }
}

impl<U: Default, H> AnyQueue<U, H> {
    /// Sets control bits. Returns the waker of a parked receiver that must look at them now.
    pub(crate) fn raise(&self, bits: u32) -> Option<Waker> {
        self.control_word.fetch_or(bits, Ordering::AcqRel);
        self.state.with(|state| match state.receiver {
            ReceiverState::InHandler if bits & CANCEL == 0 => None,
            _ => state.unpark(),
        })
    }

    pub(crate) fn push_signal(&self, signal: Signal) -> Option<Waker> {
        let replaced = self.state.with(|state| state.cold().signals.push(signal));
        drop(replaced);
        self.raise(SIGNALS)
    }

    pub(crate) fn pop_signal(&self) -> Option<Signal> {
        self.state.with(|state| {
            let signals = &mut state.cold.as_mut()?.signals;
            let signal = signals.pop();
            if signals.is_empty() {
                self.control_word.fetch_and(!SIGNALS, Ordering::AcqRel);
            }
            signal
        })
    }

    /// Removes the queued signal that `id` has terminated, if the receiver has not taken it yet.
    pub(crate) fn remove_terminated(&self, id: ActorId) {
        let removed = self.state.with(|state| state.cold.as_mut().and_then(|cold| cold.signals.remove_terminated(id)));
        drop(removed);
    }

    /// Runs `f` on the data that the owner attached to the queue, under the lock. `f` must not
    /// wake, drop or call user code.
    pub(crate) fn with_attached<R>(&self, f: impl FnOnce(&mut U) -> R) -> R {
        self.state.with(|state| f(&mut state.cold().attached))
    }

    /// As [`with_attached`](Self::with_attached), but does nothing if no data was ever attached.
    pub(crate) fn with_attached_if_any<R>(&self, f: impl FnOnce(&mut U) -> R) -> Option<R> {
        self.state.with(|state| state.cold.as_mut().map(|cold| f(&mut cold.attached)))
    }
}
