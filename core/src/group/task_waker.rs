//! `Bell`: how one task of a group is woken.
//!
//! A task that is ready at its first poll needs no bell of its own: whoever polls lends it a *spare*. Only a task that waits keeps it; a
//! spare of which a task kept a clone is retired.
//!
//! Invariants:
//! 1. A bell belongs to one task at a time. A late ring, for a task that has ended, does nothing.
//! 2. A wake-up is never lost: `WOKEN` is set by a read-modify-write before anybody looks at the slot, and looked at after the task's poll
//!    and before the task counts as parked.

use crate::base::sync::{AtomicU32, Ordering};
use alloc::sync::Arc;
use alloc::task::Wake;
use core::task::Waker;

/// A bell's word: whether its task was woken, and above that the number of its slot plus one; 0 while it has none.
const WOKEN: u32 = 1;
const SLOT_SHIFT: u32 = 1;

/// What holds tasks in slots, and hears which of them is woken.
pub(super) trait Ringing: Send + Sync + 'static {
    /// The task that lay in `slot` is woken, unless it is in somebody's hand.
    fn ring(self: &Arc<Self>, slot: usize);
}

/// Wakes one task.
struct Bell<R> {
    to: Arc<R>,
    word: AtomicU32,
}

impl<R: Ringing> Wake for Bell<R> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let before = self.word.fetch_or(WOKEN, Ordering::AcqRel);
        if before & WOKEN == 0
            && let Some(slot) = (before >> SLOT_SHIFT).checked_sub(1)
        {
            self.to.ring(slot as usize);
        }
    }
}

/// A bell, and the waker that rings it.
pub(super) struct Bound<R> {
    bell: Arc<Bell<R>>,
    waker: Waker,
}

impl<R: Ringing> Bound<R> {
    pub(super) fn new(to: &Arc<R>) -> Self {
        let bell = Arc::new(Bell { to: Arc::clone(to), word: AtomicU32::new(0) });
        let waker = Waker::from(Arc::clone(&bell));
        Self { bell, waker }
    }
}

impl<R> Bound<R> {
    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// The slot of its task, `None` until the first poll has ended.
    pub(super) fn slot(&self) -> Option<usize> {
        (self.bell.word.load(Ordering::Relaxed) >> SLOT_SHIFT).checked_sub(1).map(|slot| slot as usize)
    }

    /// Its task lies in `slot` from now on. True if it was woken since its last poll began.
    pub(super) fn settle_in(&self, slot: usize) -> bool {
        let word = (slot as u32 + 1) << SLOT_SHIFT;
        // A swap and not a look and a store: whoever rings in between must find the slot, and what it rang for must be seen.
        self.bell.word.swap(word, Ordering::AcqRel) & WOKEN != 0
    }

    /// Its task is about to be polled.
    pub(super) fn clear(&self) {
        self.bell.word.fetch_and(!WOKEN, Ordering::AcqRel);
    }

    /// Its task has ended.
    pub(super) fn retire(&self) {
        self.bell.word.store(WOKEN, Ordering::Release);
    }

    /// The task it was lent to has ended. Gives it back, unless that task kept a clone of the waker.
    #[inline]
    pub(super) fn returned(self) -> Option<Self> {
        if Arc::strong_count(&self.bell) > 2 {
            self.retire();
            return None;
        }
        // The task may have woken itself. If another thread did, and is about to let go of its clone, the next task is polled once more
        // than it needs, which it must bear.
        if self.bell.word.load(Ordering::Relaxed) != 0 {
            self.bell.word.store(0, Ordering::Relaxed);
        }
        Some(self)
    }
}
