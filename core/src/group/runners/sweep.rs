//! What becomes of the tasks of a cancelled group that have begun. Runners sweep the slots once: a task without a cancel grace is dropped, one
//! with a grace is polled on until it returns or the grace is over.

use crate::events::cause::Cause;
use crate::group::runners::{InHand, Next, Slot, State};
use alloc::boxed::Box;

impl<T> Slot<T> {
    /// Whether a task is here that does not run on after a cancel.
    fn is_to_sweep(&self) -> bool {
        matches!(self, Self::Parked(task) | Self::Queued(task) if !task.runs_on)
    }
}

impl<T> State<T> {
    /// What a runner does with a task of a cancelled group.
    #[cold]
    pub(super) fn cancelled(&self, task: InHand<T>, cause: Cause) -> Next<T> {
        let cancelled = Box::new((task, cause));
        if self.abandoned { Next::Cut(cancelled) } else { Next::RunOn(cancelled) }
    }

    /// Nobody runs on from now on: the sweep also takes the tasks that do.
    pub(super) fn sweep_all_again(&mut self) {
        self.abandoned = true;
        if self.books.cause().is_none() {
            // Whoever cancels the group has not come to it yet. The next runner is abandoned too.
            return;
        }
        self.swept = 0;
        self.ready.clear();
        self.in_slots = 0;
        for (_, place) in &mut self.slots {
            if let Slot::Parked(task) | Slot::Queued(task) = place {
                task.runs_on = false;
                self.in_slots += 1;
            }
        }
    }

    /// A task that is in a slot although the group is cancelled, and was not swept before.
    pub(super) fn take_swept(&mut self) -> Option<(InHand<T>, Cause)> {
        let cause = self.books.cause()?.clone();
        while self.swept < self.slots.capacity() {
            let place = self.slots.get_mut(self.swept);
            self.swept += 1;
            let Some(place) = place else { continue };
            if !place.is_to_sweep() {
                continue;
            }
            if let Slot::Parked(task) | Slot::Queued(task) = core::mem::replace(place, Slot::Away) {
                self.in_slots -= 1;
                self.in_hand += 1;
                return Some((task, cause));
            }
        }
        None
    }
}
