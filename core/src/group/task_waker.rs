//! `WakeState`: how one task of a group is woken.
//!
//! A task that is ready at its first poll needs no bell of its own: whoever polls lends it a *spare*. Only a task that waits keeps it; a
//! spare of which a task kept a clone is retired.
//!
//! Invariants:
//! 1. A bell belongs to one task at a time. A late wake_task, for a task that has ended, does nothing.
//! 2. A wake-up is never lost: `WOKEN` is set by a read-modify-write before anybody looks at the index, and looked at after the task's poll
//!    and before the task counts as parked.

use crate::base::sync::{AtomicU32, Ordering};
use alloc::sync::Arc;
use alloc::task::Wake;
use core::task::Waker;

/// A bell's word: whether its task was woken, and above that the number of its index plus one; 0 while it has none.
const WOKEN: u32 = 1;
const INDEX_SHIFT: u32 = 1;

/// What holds tasks in started, and hears which of them is woken.
pub(super) trait WakeTask: Send + Sync + 'static {
    /// The task that lay in `index` is woken, unless it is in somebody's hand.
    fn wake_task(self: &Arc<Self>, index: usize);
}

/// WakeList one task.
struct WakeState<R> {
    target: Arc<R>,
    word: AtomicU32,
}

impl<R: WakeTask> Wake for WakeState<R> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let before = self.word.fetch_or(WOKEN, Ordering::AcqRel);
        if before & WOKEN == 0
            && let Some(index) = (before >> INDEX_SHIFT).checked_sub(1)
        {
            self.target.wake_task(index as usize);
        }
    }
}

/// A bell, and the waker that rings it.
pub(super) struct TaskWaker<R> {
    state: Arc<WakeState<R>>,
    waker: Waker,
}

impl<R: WakeTask> TaskWaker<R> {
    pub(super) fn new(target: &Arc<R>) -> Self {
        let state = Arc::new(WakeState { target: Arc::clone(target), word: AtomicU32::new(0) });
        let waker = Waker::from(Arc::clone(&state));
        Self { state, waker }
    }
}

impl<R> TaskWaker<R> {
    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// The index of its task, `None` until the first poll has ended.
    pub(super) fn index(&self) -> Option<usize> {
        (self.state.word.load(Ordering::Relaxed) >> INDEX_SHIFT).checked_sub(1).map(|index| index as usize)
    }

    /// Its task lies in `index` from now on. True if it was woken since its last poll began.
    pub(super) fn park_at(&self, index: usize) -> bool {
        let word = (index as u32 + 1) << INDEX_SHIFT;
        // A swap and not a look and a store: whoever rings in between must find the index, and what it rang for must be seen.
        self.state.word.swap(word, Ordering::AcqRel) & WOKEN != 0
    }

    /// Its task is about to be polled.
    pub(super) fn begin_poll(&self) {
        self.state.word.fetch_and(!WOKEN, Ordering::AcqRel);
    }

    /// Its task has ended.
    pub(super) fn retire(&self) {
        self.state.word.store(WOKEN, Ordering::Release);
    }

    /// The task it was lent to has ended. Gives it back, unless that task kept a clone of the waker.
    #[inline]
    pub(super) fn reuse(self) -> Option<Self> {
        if Arc::strong_count(&self.state) > 2 {
            self.retire();
            return None;
        }
        // The task may have woken itself. If another thread did, and is about to let go of its clone, the next task is polled once more
        // than it needs, which it must bear.
        if self.state.word.load(Ordering::Relaxed) != 0 {
            self.state.word.store(0, Ordering::Relaxed);
        }
        Some(self)
    }
}
