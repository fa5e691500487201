//! The message counts of a queue: accepted, taken, handled, failed, dead-lettered.
//!
//! Each accepted message ends as exactly one of handled, failed or dead-lettered, so the counts
//! always add up. `taken` and `handled` are atomics that only the receiver writes; the other counts
//! are under the queue's lock.

use crate::base::sync::Ordering;
use crate::events::counts::Counts;
use crate::mailbox::queue::{AnyQueue, QueueOf};

impl<S: ?Sized, U, H> QueueOf<S, U, H> {
    /// Counts one message as taken: its handler starts. Only the receiver calls this, so a plain
    /// store is enough.
    #[inline]
    pub(crate) fn count_taken(&self) {
        self.taken.store(self.taken.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }

    /// Counts one message as handled.
    #[inline]
    pub(crate) fn count_handled(&self) {
        self.handled.store(self.handled.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }

    /// Takes back one [`count_handled`](Self::count_handled), because the message was stashed.
    pub(crate) fn uncount_handled(&self) {
        self.handled.store(self.handled.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Release);
    }

    /// Subtracts `count` from the taken messages, because the receiver will take them again.
    pub(crate) fn uncount_taken(&self, count: usize) {
        self.taken.store(self.taken.load(Ordering::Relaxed).wrapping_sub(count), Ordering::Release);
    }

    /// Returns the counts of taken and handled messages as they will be while the next message is
    /// handled.
    pub(crate) fn progress_of_next(&self) -> (usize, usize) {
        (self.taken().wrapping_add(1), self.handled.load(Ordering::Relaxed))
    }

    /// Returns how many messages have been taken so far.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

impl<U: Default, H> AnyQueue<U, H> {
    /// Counts one more accepted message that does not come through the queue, such as an item of a
    /// feed.
    pub(crate) fn count_accepted(&self) {
        self.state.with(|state| state.accepted = state.accepted.wrapping_add(1));
    }

    /// Counts one taken message whose handler failed.
    pub(crate) fn count_failed(&self) {
        self.state.with(|state| state.cold().failed += 1);
    }

    /// Counts one taken message that became a dead letter.
    pub(crate) fn count_dead_lettered(&self) {
        self.state.with(|state| state.cold().dead_lettered += 1);
    }

    /// Counts one message, queued or in the receiver's batch, that becomes a dead letter without
    /// being taken.
    pub(crate) fn count_removed(&self) {
        self.state.with(|state| state.count_removed());
    }

    /// Counts all unsettled messages as dead letters, because the receiver is gone.
    pub(crate) fn count_rest_as_dead_letters(&self) {
        let open = self.counts().open();
        self.state.with(|state| {
            let queued = state.queued(&self.taken);
            let cold = state.cold();
            cold.dead_lettered += open;
            cold.removed = cold.removed.wrapping_add(queued);
        });
    }

    /// Returns all counts at one moment.
    pub(crate) fn counts(&self) -> Counts {
        // `handled` is read first, so it never exceeds `accepted`.
        let handled = self.handled.load(Ordering::Acquire) as u64;
        self.state.with(|state| {
            let (failed, dead_lettered) = state.cold.as_ref().map_or((0, 0), |cold| (cold.failed, cold.dead_lettered));
            Counts { accepted: state.accepted as u64, handled, failed, dead_lettered }
        })
    }

    /// Returns the number of accepted messages whose handler has not started.
    pub(crate) fn len(&self) -> usize {
        self.state.with(|state| state.queued(&self.taken))
    }

    /// Counts `made` messages that the receiver made itself: accepted and taken at once.
    pub(crate) fn count_made_by_receiver(&self, made: usize) {
        self.state.with(|state| {
            state.accepted = state.accepted.wrapping_add(made);
            self.taken.store(self.taken.load(Ordering::Relaxed).wrapping_add(made), Ordering::Release);
        });
    }
}
