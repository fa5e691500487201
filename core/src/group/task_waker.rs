//! `TaskWaker`: wakes one task of a group.
//!
//! A task that is ready at its first poll needs no waker of its own: the executor lends it a
//! *spare*. Only a task that is pending keeps it. A spare of which a task kept a clone is retired.
//!
//! | word | meaning | set by | cleared by |
//! |---|---|---|---|
//! | `WOKEN` | bit 0: woken since its poll | a wake, `retire` | `begin_poll`, `park_at`, `reuse` |
//! | other bits | index of the task plus one, or 0 | `park_at` | `retire` |
//!
//! Invariants:
//! 1. A waker belongs to one task at a time. A late wake, for a task that has ended, does nothing.
//! 2. No wake is lost. `WOKEN` is set by a read-modify-write before the index is read, and checked
//!    after the task's poll and before the task counts as parked.

use crate::base::sync::{Arc, AtomicU32, Ordering, WakeArc, impl_wake, waker_of};
use core::task::Waker;

/// The low bit of the word: the task was woken. The other bits hold its index plus one.
const WOKEN: u32 = 1;
const INDEX_SHIFT: u32 = 1;

/// An executor that keeps started tasks by index.
pub(super) trait WakeTask: Send + Sync + 'static {
    /// Schedules the task at `index`, unless it is being polled.
    fn wake_task(this: &Arc<Self>, index: usize);
}

/// The shared part of a waker: the executor and the word.
struct WakeState<R> {
    target: Arc<R>,
    word: AtomicU32,
}

impl_wake!([R: WakeTask] WakeState<R>);

impl<R: WakeTask> WakeArc for WakeState<R> {
    fn wake(this: Arc<Self>) {
        Self::wake_by_ref(&this);
    }

    fn wake_by_ref(this: &Arc<Self>) {
        let before = this.word.fetch_or(WOKEN, Ordering::AcqRel);
        if before & WOKEN == 0
            && let Some(index) = (before >> INDEX_SHIFT).checked_sub(1)
        {
            R::wake_task(&this.target, index as usize);
        }
    }
}

/// The waker of one task, with a [`Waker`] made of it.
pub(super) struct TaskWaker<R> {
    state: Arc<WakeState<R>>,
    waker: Waker,
}

impl<R: WakeTask> TaskWaker<R> {
    pub(super) fn new(target: &Arc<R>) -> Self {
        let state = Arc::new(WakeState { target: Arc::clone(target), word: AtomicU32::new(0) });
        let waker = waker_of(Arc::clone(&state));
        Self { state, waker }
    }
}

impl<R> TaskWaker<R> {
    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Returns the index of the task. `None` until its first poll has ended.
    pub(super) fn index(&self) -> Option<usize> {
        (self.state.word.load(Ordering::Relaxed) >> INDEX_SHIFT).checked_sub(1).map(|index| index as usize)
    }

    /// Stores the index of the task, which is parked from now on. Returns whether it was woken
    /// since its last poll began.
    pub(super) fn park_at(&self, index: usize) -> bool {
        let word = (index as u32 + 1) << INDEX_SHIFT;
        // One swap instead of a load and a store: a concurrent wake must either see the index, or
        // be seen here.
        self.state.word.swap(word, Ordering::AcqRel) & WOKEN != 0
    }

    /// Clears `WOKEN` before the task is polled.
    pub(super) fn begin_poll(&self) {
        self.state.word.fetch_and(!WOKEN, Ordering::AcqRel);
    }

    /// Detaches the waker from its task, which has ended.
    pub(super) fn retire(&self) {
        self.state.word.store(WOKEN, Ordering::Release);
    }

    /// Returns the waker for reuse after its task has ended, or `None` if that task kept a clone.
    #[inline]
    pub(super) fn reuse(self) -> Option<Self> {
        if Arc::strong_count(&self.state) > 2 {
            self.retire();
            return None;
        }
        // The task may have woken itself. If another thread did and is about to drop its clone, the
        // next task may get one spurious poll, which is allowed.
        if self.state.word.load(Ordering::Relaxed) != 0 {
            self.state.word.store(0, Ordering::Relaxed);
        }
        Some(self)
    }
}
