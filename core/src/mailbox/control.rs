//! The control lane: a word of bits that the receiver loads before every message, and what the bits announce.

use crate::events::signal::Signal;
use crate::actor::timers::Timers;
use crate::base::sync::Ordering;
use crate::base::visits;
use crate::ids::path::ActorId;
use crate::mailbox::queue::Inbox;
use crate::mailbox::queue_state::{Parked, Stopwatch};
use crate::tree::waits::{Edge, Unanswered};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
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
pub(crate) const SENDERS: u32 = 1 << 6;
/// Replies were dropped unanswered.
pub(crate) const UNANSWERED: u32 = 1 << 7;
/// A child's failure has become this actor's own.
pub(crate) const CHILD_FAILED: u32 = 1 << 8;
/// The actor has timers to look after.
pub(crate) const TIMERS: u32 = 1 << 10;
/// The actor has put messages aside or brought them back.
pub(crate) const STASH: u32 = 1 << 11;
/// Set by the actor itself while it ends: a cancel no longer cuts it off.
pub(crate) const ENDING: u32 = 1 << 9;
/// Set by the actor itself while its handlers are timed.
pub(crate) const TIMED: u32 = 1 << 12;
/// End this incarnation, and wait to be told to start the next.
pub(crate) const HALT: u32 = 1 << 13;
/// Start the next incarnation.
pub(crate) const GO: u32 = 1 << 14;
/// Somebody waits to hear that the incarnation is up.
pub(crate) const AWAITED: u32 = 1 << 15;
/// Whoever ordered the end is the supervisor: no other incarnation follows.
pub(crate) const FOR_GOOD: u32 = 1 << 16;
/// Set by the actor itself while another behaviour than its first handles its messages.
pub(crate) const BEHAVIOUR: u32 = 1 << 17;

/// Set by the actor itself between two incarnations, while it waits to start the next.
pub(crate) const DOWN: u32 = 1 << 18;

/// Set by the actor itself when it ended its input for good and nothing was left of it.
pub(crate) const EMPTIED: u32 = 1 << 19;

/// What does not keep an idle receiver from parking.
pub(super) const QUIET: u32 = SENDERS | AWAITED | FOR_GOOD | BEHAVIOUR;

/// Where the receiver's task is.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Posture {
    Outside,
    Polling,
    Resting,
}

/// The timers while they are worked on. They come back also if a closure among them panics.
struct Lent<'a, M> {
    inbox: &'a Inbox<M>,
    timers: Option<Box<Timers<M>>>,
}

impl<M> Drop for Lent<'_, M> {
    fn drop(&mut self) {
        if let Some(timers) = self.timers.take().filter(|timers| !timers.is_empty()) {
            self.inbox.keeps_more.store(true, Ordering::Relaxed);
            self.inbox.state.with(|state| state.cold().timers = Some(timers));
        }
    }
}

impl<M> Inbox<M> {
    #[inline]
    pub(crate) fn word(&self) -> u32 {
        self.word.load(Ordering::Acquire)
    }

    /// Whether a cancel came that must cut off what runs.
    #[inline]
    pub(crate) fn is_cut_off(&self) -> bool {
        self.word() & (CANCEL | ENDING) == CANCEL
    }

    /// Clears control bits, and gives the word as it was.
    pub(crate) fn lower(&self, bits: u32) -> u32 {
        self.word.fetch_and(!bits, Ordering::AcqRel)
    }

    #[inline]
    pub(crate) fn posture(&self) -> Posture {
        match self.posture.load(Ordering::Relaxed) {
            0 => Posture::Outside,
            1 => Posture::Polling,
            _ => Posture::Resting,
        }
    }

    #[inline]
    pub(crate) fn set_posture(&self, posture: Posture) {
        self.posture.store(posture as u8, Ordering::Relaxed);
    }

    /// Sets control bits and gives back the waker of a receiver that must look at them now.
    pub(crate) fn raise(&self, bits: u32) -> Option<Waker> {
        self.word.fetch_or(bits, Ordering::AcqRel);
        self.state.with(|state| match state.parked {
            Parked::InHandler if bits & CANCEL == 0 => None,
            _ => state.unpark(),
        })
    }

    /// Sets bits that the receiver itself will come upon, without waking it.
    pub(crate) fn mark(&self, bits: u32) {
        self.word.fetch_or(bits, Ordering::AcqRel);
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
                self.word.fetch_and(!SIGNALS, Ordering::AcqRel);
            }
            signal
        })
    }

    /// Takes back the news that `id` has ended, if nobody has heard it yet.
    pub(crate) fn forget_end_of(&self, id: ActorId) {
        let forgotten = self.state.with(|state| state.cold.as_mut().and_then(|cold| cold.signals.forget_end_of(id)));
        drop(forgotten);
    }

    pub(crate) fn hold_unanswered(&self, reply: Arc<dyn Unanswered>) {
        self.state.with(|state| state.cold().unanswered.push(reply));
        self.mark(UNANSWERED);
    }

    pub(crate) fn take_unanswered(&self) -> Vec<Arc<dyn Unanswered>> {
        self.lower(UNANSWERED);
        self.state.with(|state| state.cold.as_mut().map(|cold| core::mem::take(&mut cold.unanswered)).unwrap_or_default())
    }

    /// Keeps when the handler at work began, and what wakes it when that is too long ago; gives what was there.
    pub(crate) fn set_stopwatch(&self, stopwatch: Option<Box<Stopwatch>>) -> Option<Box<Stopwatch>> {
        self.state.with(|state| match (&mut state.cold, stopwatch) {
            (None, None) => None,
            (Some(cold), stopwatch) => core::mem::replace(&mut cold.stopwatch, stopwatch),
            (None, stopwatch) => core::mem::replace(&mut state.cold().stopwatch, stopwatch),
        })
    }

    /// What handles the actor's messages in place of its first behaviour; only the actor's own task looks at it.
    pub(crate) fn behaviour(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.state.with(|state| state.cold.as_ref().and_then(|cold| cold.behaviour.clone()))
    }

    /// Sets or clears that; gives what was there, for the caller to drop.
    pub(crate) fn set_behaviour(&self, behaviour: Option<Arc<dyn Any + Send + Sync>>) -> Option<Arc<dyn Any + Send + Sync>> {
        match behaviour {
            Some(_) => self.mark(BEHAVIOUR),
            None => drop(self.lower(BEHAVIOUR)),
        }
        self.state.with(|state| core::mem::replace(&mut state.cold().behaviour, behaviour))
    }

    /// The asks, and the sends without room, that the actor awaits in its own task; the oldest first.
    pub(crate) fn edges(&self) -> Vec<Edge> {
        let mut edges = Vec::new();
        self.state.with(|state| edges.extend(state.cold.iter().flat_map(|cold| &cold.edges).cloned()));
        visits::visit(edges.len());
        edges
    }

    pub(crate) fn has_edges(&self) -> bool {
        self.state.with(|state| state.cold.as_ref().is_some_and(|cold| !cold.edges.is_empty()))
    }

    pub(crate) fn begin_wait(&self, edge: Edge) {
        self.state.with(|state| state.cold().edges.push_back(edge));
    }

    pub(crate) fn end_wait(&self, edge: &Edge) {
        let ended = self.state.with(|state| {
            let edges = &mut state.cold.as_mut()?.edges;
            let at = edges.iter().position(|known| known.is(edge))?;
            visits::visit(at + 1);
            edges.remove(at)
        });
        drop(ended);
    }

    /// Works on the timers, which only the actor's own task does, outside the lock.
    pub(crate) fn with_timers<R>(&self, f: impl FnOnce(&mut Timers<M>) -> R) -> R {
        let timers = self.state.with(|state| state.cold().timers.take()).unwrap_or_default();
        let mut lent = Lent { inbox: self, timers: Some(timers) };
        lent.timers.as_mut().map(|timers| f(timers)).expect("the timers are lent until the end of this call")
    }

    /// Whether the actor has ever set a timer or put a message aside.
    #[inline]
    pub(crate) fn keeps_more(&self) -> bool {
        self.keeps_more.load(Ordering::Relaxed)
    }

    /// Takes all timers out, for the caller to drop.
    pub(crate) fn take_timers(&self) -> Option<Box<Timers<M>>> {
        self.state.with(|state| state.cold.as_mut().and_then(|cold| cold.timers.take()))
    }

    /// How many messages have been taken so far.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}
