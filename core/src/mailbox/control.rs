//! The control lane: a word of bits that the receiver loads before every message, and what the bits announce.

use crate::base::sync::Ordering;
use crate::events::signal::Signal;
use crate::ids::path::ActorId;
use crate::mailbox::queue::MessageQueue;
use crate::mailbox::queue_state::ReceiverState;
use core::task::Waker;

/// Cut off at the next await.
pub(crate) const CANCEL: u32 = 1;
/// End after the message in hand.
pub(crate) const STOP: u32 = 1 << 1;
/// Start afresh from the factory.
pub(crate) const RESTART: u32 = 1 << 2;
/// Serve control only, until resumed.
pub(crate) const SUSPEND: u32 = 1 << 3;
/// Serve messages again.
pub(crate) const RESUME: u32 = 1 << 4;
/// Signals are waiting.
pub(crate) const SIGNALS: u32 = 1 << 5;
/// Senders are waiting for room.
pub(crate) const WAITING_SENDS: u32 = 1 << 6;
/// Replies were dropped unanswered.
pub(crate) const UNANSWERED: u32 = 1 << 7;
/// A child's failure has become this actor's own.
pub(crate) const CHILD_FAILED: u32 = 1 << 8;
/// The actor has timers to look after.
pub(crate) const TIMERS: u32 = 1 << 10;
/// The actor has put messages aside or brought them back.
pub(crate) const STASH_CHANGED: u32 = 1 << 11;
/// Set by the actor itself while it ends: a cancel no longer cuts it off.
pub(crate) const ENDING: u32 = 1 << 9;
/// Set by the actor itself while its handlers are timed.
pub(crate) const TIME_HANDLERS: u32 = 1 << 12;
/// End this incarnation, and wait to be told to start the next.
pub(crate) const HALT: u32 = 1 << 13;
/// Start the next incarnation.
pub(crate) const START: u32 = 1 << 14;
/// Somebody waits to hear that the incarnation is up.
pub(crate) const REPORT_START: u32 = 1 << 15;
/// Whoever ordered the end is the supervisor: no other incarnation follows.
pub(crate) const FINAL: u32 = 1 << 16;
/// Set by the actor itself while another behaviour than its first handles its messages.
pub(crate) const BEHAVIOUR: u32 = 1 << 17;

/// Set by the actor itself between two incarnations, while it waits to start the next.
pub(crate) const WAITING_TO_RESTART: u32 = 1 << 18;

/// Set by the actor itself when it ended its input for good and nothing was left of it.
pub(crate) const MAILBOX_EMPTY: u32 = 1 << 19;

/// What does not keep an idle receiver from parking.
pub(super) const PASSIVE: u32 = WAITING_SENDS | REPORT_START | FINAL | BEHAVIOUR;

/// Where the receiver's task is.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PollState {
    Outside,
    Polling,
    Parked,
}

impl<M, X: Default> MessageQueue<M, X> {
    #[inline]
    pub(crate) fn control_word(&self) -> u32 {
        self.control_word.load(Ordering::Acquire)
    }

    /// Whether a cancel came that must cut off what runs.
    #[inline]
    pub(crate) fn must_cancel(&self) -> bool {
        self.control_word() & (CANCEL | ENDING) == CANCEL
    }

    /// Clears control bits, and gives the word as it was.
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

    /// Sets control bits and gives back the waker of a receiver that must look at them now.
    pub(crate) fn raise(&self, bits: u32) -> Option<Waker> {
        self.control_word.fetch_or(bits, Ordering::AcqRel);
        self.state.with(|state| match state.receiver {
            ReceiverState::InHandler if bits & CANCEL == 0 => None,
            _ => state.unpark(),
        })
    }

    /// Sets bits that the receiver itself will come upon, without waking it.
    pub(crate) fn raise_silently(&self, bits: u32) {
        self.control_word.fetch_or(bits, Ordering::AcqRel);
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

    /// Takes back the news that `id` has ended, if nobody has heard it yet.
    pub(crate) fn remove_terminated(&self, id: ActorId) {
        let forgotten = self.state.with(|state| state.cold.as_mut().and_then(|cold| cold.signals.remove_terminated(id)));
        drop(forgotten);
    }

    /// Runs `f` on what the owner keeps with the queue, under the lock. `f` must not wake, drop or call user code.
    pub(crate) fn with_attached<R>(&self, f: impl FnOnce(&mut X) -> R) -> R {
        self.state.with(|state| f(&mut state.cold().attached))
    }

    /// As [`with_attached`](Self::with_attached), if anything was ever attached.
    pub(crate) fn with_attached_if_any<R>(&self, f: impl FnOnce(&mut X) -> R) -> Option<R> {
        self.state.with(|state| state.cold.as_mut().map(|cold| f(&mut cold.attached)))
    }

    /// The flag of the owner: only the receiver's own task sets and reads it.
    #[inline]
    pub(crate) fn owner_flag(&self) -> bool {
        self.owner_flag.load(Ordering::Relaxed)
    }

    pub(crate) fn set_owner_flag(&self) {
        self.owner_flag.store(true, Ordering::Relaxed);
    }

    /// Counts `made` messages that the receiver took without a send: it made them itself.
    pub(crate) fn count_made_by_receiver(&self, made: usize) {
        self.state.with(|state| {
            state.accepted = state.accepted.wrapping_add(made);
            self.taken.store(self.taken.load(Ordering::Relaxed).wrapping_add(made), Ordering::Release);
        });
    }

    /// Counts `count` messages as not taken: the receiver will take them again.
    pub(crate) fn uncount_taken(&self, count: usize) {
        self.taken.store(self.taken.load(Ordering::Relaxed).wrapping_sub(count), Ordering::Release);
    }

    /// How many messages have been taken so far.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}
