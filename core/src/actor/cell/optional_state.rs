//! [`OptionalState`]: state that only some actors have.
//!
//! It is attached to the mailbox, in its cold part, so an actor without any of it needs no memory
//! for it. It is under the mailbox's lock: nothing is woken, dropped or called there.

use crate::actor::cell::{AnyCell, Cell, CellOf};
use crate::actor::props::ActorOptions;
use crate::actor::reserve::{RESERVED, Reserved};
use crate::actor::stash::AnyStash;
use crate::actor::timers::{AnyTimers, Timers};
use crate::base::runtime::BoxFuture;
use crate::base::sync::Arc;
use crate::base::time::Instant;
use crate::base::work_count;
use crate::mailbox::control::{BEHAVIOUR, UNANSWERED};
use crate::mailbox::observe::{OwnerData, OwnerSizes};
use crate::mailbox::slot::Batch;
use crate::tree::waits::{Edge, Unanswered};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::any::Any;
use core::task::{Context, Poll};

/// The flag of an actor that has ever set a timer or stashed a message.
pub(crate) const TIMERS_OR_STASH: u8 = 1;
/// The flag of an actor in the list of busy actors; see `tree::watch`.
pub(super) const WATCHED: u8 = 2;

#[derive(Default)]
pub(crate) struct OptionalState {
    /// Replies that were dropped without an answer, kept until the outcome of the handler is known.
    unanswered: Vec<Arc<dyn Unanswered>>,
    /// The edges of the wait-for graph: what the actor awaits in its own task, oldest first.
    edges: VecDeque<Edge>,
    stopwatch: Option<Box<Stopwatch>>,
    /// When the handler began that was reported as stuck.
    stuck_since: Option<Instant>,
    /// The `Behaviour` that replaces `Actor::handle`. Its type depends on the actor's type, which a
    /// cell does not know.
    behaviour: Option<Arc<dyn Any + Send + Sync>>,
    /// Set when the cell is made; see `ActorOptions::bits`.
    options: Option<Arc<ActorOptions>>,
    /// The number of the incarnation, once the actor has restarted, and how many messages were
    /// taken before it.
    incarnation: (u32, usize),
    /// When the backoff before the next incarnation ends.
    restart_at: Option<Instant>,
    kept: Option<Box<KeptMessages>>,
    /// In a sealed system.
    reserved: Option<Box<Reserved>>,
}

/// What an observer reads of the optional state.
pub(super) struct ObservedState {
    pub(super) incarnation: u32,
    pub(super) taken_before: usize,
    pub(super) restart_at: Option<Instant>,
    pub(super) handling_since: Option<Instant>,
    /// When the sampler first saw the message of a handler that it reported as stuck.
    pub(super) stuck_since: Option<Instant>,
    /// The first edges, and how many there are.
    pub(super) edges: (Vec<Edge>, usize),
}

/// Timers and stash. They are trait objects, so their code is compiled only for actors that use
/// them.
#[derive(Default)]
struct KeptMessages {
    timers: Option<Box<dyn AnyTimers>>,
    /// The last key of a timer, kept while there are no timers.
    last_timer_key: u64,
    stash: Option<Box<dyn AnyStash>>,
}

impl OwnerData for OptionalState {
    fn sizes(&self) -> OwnerSizes {
        self.kept.as_ref().map_or_else(OwnerSizes::default, |kept| OwnerSizes {
            stashed: kept.stash.as_ref().map_or(0, |stash| stash.len()),
            timers: kept.timers.as_ref().map_or(0, |timers| timers.len()),
        })
    }
}

/// Measures the running handler, while an event listener wants long handlers.
pub(crate) struct Stopwatch {
    pub(crate) started_at: Instant,
    /// Wakes a pending handler at the time limit.
    pub(crate) alarm: Option<BoxFuture<'static, ()>>,
    /// The handler has run for longer than the limit, which was reported.
    pub(crate) is_reported: bool,
}

/// The timers, taken out of the lock while they are used. They are put back even if one of their
/// closures panics.
struct BorrowedTimers<'a> {
    cell: &'a AnyCell,
    timers: Option<Box<dyn AnyTimers>>,
}

impl Drop for BorrowedTimers<'_> {
    fn drop(&mut self) {
        let Some(timers) = self.timers.take() else { return };
        let is_kept = !timers.is_empty() || self.cell.is_reserved();
        let (last_key, mut timers) = (timers.last_key(), Some(timers).filter(|_| is_kept));
        if timers.is_some() {
            self.cell.mailbox.set_owner_flag(TIMERS_OR_STASH, true);
        }
        self.cell.with_kept(|kept| {
            kept.last_timer_key = last_key;
            kept.timers = timers.take();
        });
    }
}

impl<S: ?Sized> CellOf<S> {
    /// Returns true if the actor has ever set a timer or stashed a message.
    #[inline]
    pub(crate) fn has_timers_or_stash(&self) -> bool {
        self.mailbox.owner_flag(TIMERS_OR_STASH)
    }
}

impl AnyCell {
    #[cold]
    pub(super) fn set_options(&self, options: Arc<ActorOptions>) {
        self.mailbox.with_attached(|optional| optional.options = Some(options));
    }

    /// Returns the options of the actor, if it has any.
    pub(crate) fn options(&self) -> Option<Arc<ActorOptions>> {
        if self.mailbox.owner_bits == 0 {
            return None;
        }
        self.mailbox.with_attached_if_any(|optional| optional.options.clone()).flatten()
    }

    pub(crate) fn push_unanswered(&self, reply: Arc<dyn Unanswered>) {
        self.mailbox.with_attached(|optional| optional.unanswered.push(reply));
        self.mailbox.raise_silently(UNANSWERED);
    }

    pub(crate) fn take_unanswered(&self) -> Vec<Arc<dyn Unanswered>> {
        self.mailbox.clear_bits(UNANSWERED);
        self.mailbox.with_attached_if_any(|optional| core::mem::take(&mut optional.unanswered)).unwrap_or_default()
    }

    /// Keeps the memory of a taken list for the next one, unless a reply was dropped meanwhile.
    #[cold]
    pub(super) fn keep_unanswered_memory(&self, mut empty: Vec<Arc<dyn Unanswered>>) {
        self.mailbox.with_attached_if_any(|optional| {
            if optional.unanswered.is_empty() {
                core::mem::swap(&mut optional.unanswered, &mut empty);
            }
        });
        drop(empty);
    }

    /// Replaces the time when the stuck handler began, and returns the previous one.
    pub(super) fn set_stuck_since(&self, since: Option<Instant>) -> Option<Instant> {
        self.mailbox.with_attached(|optional| core::mem::replace(&mut optional.stuck_since, since))
    }

    /// Replaces the stopwatch of the running handler and returns the previous one.
    pub(crate) fn set_stopwatch(&self, stopwatch: Option<Box<Stopwatch>>) -> Option<Box<Stopwatch>> {
        match stopwatch {
            None => self.mailbox.with_attached_if_any(|optional| optional.stopwatch.take()).flatten(),
            stopwatch => self.mailbox.with_attached(|optional| core::mem::replace(&mut optional.stopwatch, stopwatch)),
        }
    }

    /// Returns the behaviour that replaces `Actor::handle`. Only the actor's own task reads it.
    pub(crate) fn behaviour(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.mailbox.with_attached_if_any(|optional| optional.behaviour.clone()).flatten()
    }

    /// Sets or clears the behaviour and returns the previous one, for the caller to drop.
    pub(crate) fn set_behaviour(&self, behaviour: Option<Arc<dyn Any + Send + Sync>>) -> Option<Arc<dyn Any + Send + Sync>> {
        match behaviour {
            Some(_) => self.mailbox.raise_silently(BEHAVIOUR),
            None => drop(self.mailbox.clear_bits(BEHAVIOUR)),
        }
        self.mailbox.with_attached(|optional| core::mem::replace(&mut optional.behaviour, behaviour))
    }

    /// Notes that an incarnation after the first one begins.
    pub(super) fn note_incarnation(&self, incarnation: u32) {
        let taken = self.mailbox.taken();
        self.mailbox.with_attached(|optional| (optional.incarnation, optional.restart_at) = ((incarnation, taken), None));
    }

    /// Notes when the backoff before the next incarnation ends.
    pub(super) fn note_restart_at(&self, at: Instant) {
        self.mailbox.with_attached(|optional| optional.restart_at = Some(at));
    }

    /// Returns what an observer reads, with at most `edges_max` edges. `None` for an actor without
    /// any optional state.
    pub(super) fn observe_optional(&self, edges_max: usize) -> Option<ObservedState> {
        self.mailbox.with_attached_if_any(|optional| ObservedState {
            incarnation: optional.incarnation.0,
            taken_before: optional.incarnation.1,
            restart_at: optional.restart_at,
            stuck_since: optional.stuck_since,
            handling_since: optional.stopwatch.as_ref().map(|stopwatch| stopwatch.started_at),
            edges: (optional.edges.iter().take(edges_max).cloned().collect(), optional.edges.len()),
        })
    }

    /// Returns the asks, and the sends without room, that the actor awaits in its own task, oldest
    /// first.
    pub(crate) fn own_edges(&self) -> Vec<Edge> {
        let mut edges = Vec::new();
        self.mailbox.with_attached_if_any(|optional| edges.extend(optional.edges.iter().cloned()));
        work_count::count(edges.len());
        edges
    }

    pub(crate) fn has_edges(&self) -> bool {
        self.mailbox.with_attached_if_any(|optional| !optional.edges.is_empty()).unwrap_or(false)
    }

    pub(crate) fn add_edge(&self, edge: Edge) {
        self.mailbox.with_attached(|optional| optional.edges.push_back(edge));
    }

    pub(crate) fn remove_edge(&self, edge: &Edge) {
        let removed = self.mailbox.with_attached_if_any(|optional| {
            let at = optional.edges.iter().position(|known| known.is_same_wait(edge))?;
            work_count::count(at + 1);
            optional.edges.remove(at)
        });
        drop(removed);
    }

    fn with_kept<R>(&self, f: impl FnOnce(&mut KeptMessages) -> R) -> R {
        self.mailbox.with_attached(|optional| f(optional.kept.get_or_insert_default()))
    }

    fn with_kept_if_any<R>(&self, f: impl FnOnce(&mut KeptMessages) -> R) -> Option<R> {
        self.mailbox.with_attached_if_any(|optional| optional.kept.as_mut().map(|kept| f(kept))).flatten()
    }

    /// Polls the timers, if there are any. Returns also whether any is left.
    pub(super) fn poll_timers(&self, quiet: bool, batch: &mut dyn Batch, cx: &mut Context<'_>) -> (Poll<()>, bool) {
        let mut borrowed = BorrowedTimers { cell: self, timers: self.take_timers() };
        let Some(timers) = &mut borrowed.timers else { return (Poll::Pending, false) };
        let polled = timers.poll(&self.node().tree().runtime, self.mailbox.taken(), quiet, batch, cx);
        (polled, !timers.is_empty())
    }

    /// Returns how many timers the actor has set, without the receive timeout.
    pub(crate) fn timers_set(&self) -> usize {
        self.with_kept_if_any(|kept| kept.timers.as_ref().map_or(0, |timers| timers.set())).unwrap_or(0)
    }

    /// Stores what is reserved for this actor.
    pub(crate) fn set_reserved(&self, reserved: Box<Reserved>, waits: usize) {
        let replaced = self.mailbox.with_attached(|optional| {
            optional.edges.reserve(waits);
            optional.unanswered.reserve(waits);
            optional.reserved.replace(reserved)
        });
        drop(replaced);
        self.mailbox.set_owner_flag(RESERVED, true);
    }

    pub(crate) fn with_reserved<R>(&self, f: impl FnOnce(&mut Reserved) -> R) -> Option<R> {
        self.mailbox.with_attached_if_any(|optional| optional.reserved.as_mut().map(|reserved| f(reserved))).flatten()
    }

    /// Drops all timers, and keeps their memory.
    #[cold]
    pub(crate) fn clear_timers(&self) {
        let mut borrowed = BorrowedTimers { cell: self, timers: self.take_timers() };
        if let Some(timers) = &mut borrowed.timers {
            timers.clear();
        }
    }

    /// Takes all timers out, for the caller to drop.
    pub(crate) fn take_timers(&self) -> Option<Box<dyn AnyTimers>> {
        self.with_kept_if_any(|kept| kept.timers.take()).flatten()
    }

    /// Runs `f` on the stash outside the lock, if there is one. Only the actor's own task calls
    /// this, and `f` calls no user code.
    pub(crate) fn with_stash<R>(&self, f: impl FnOnce(&mut dyn AnyStash) -> R) -> Option<R> {
        let mut stash = self.take_stash()?;
        let result = f(&mut *stash);
        self.set_stash(stash);
        Some(result)
    }

    pub(crate) fn take_stash(&self) -> Option<Box<dyn AnyStash>> {
        self.with_kept_if_any(|kept| kept.stash.take()).flatten()
    }

    pub(crate) fn set_stash(&self, stash: Box<dyn AnyStash>) {
        self.with_kept(|kept| kept.stash = Some(stash));
    }
}

impl<M: Send + 'static> Cell<M> {
    /// Runs `f` on the timers outside the lock; there are none before the first call. Only the
    /// actor's own task calls this.
    pub(crate) fn with_timers<R>(&self, f: impl FnOnce(&mut Timers<M>) -> R) -> R {
        let cell = self.any();
        let new = || Box::new(Timers::<M>::new(cell.with_kept(|kept| kept.last_timer_key)));
        let timers = cell.take_timers().unwrap_or_else(|| new());
        let mut borrowed = BorrowedTimers { cell, timers: Some(timers) };
        let timers = borrowed.timers.as_mut().and_then(|timers| timers.as_any_mut().downcast_mut());
        f(timers.expect("the timers are borrowed until the end of this call, and are of the actor's message type"))
    }
}
