//! What becomes of the tasks of a cancelled group that have begun. Runners sweep the started once: a task without a cancel grace is dropped, one
//! with a grace is polled on until it returns or the grace is over.

use crate::events::cause::Cause;
use crate::group::runners::{NextAction, RunnerTask, Scheduler, StartedTask};
use alloc::boxed::Box;

impl<T> StartedTask<T> {
    /// Whether a task is here that does not run on after a cancel.
    fn is_to_sweep(&self) -> bool {
        matches!(self, Self::Parked(task) | Self::Queued(task) if !task.in_grace)
    }
}

impl<T> Scheduler<T> {
    /// What a runner does with a task of a cancelled group.
    #[cold]
    pub(super) fn cancelled(&self, task: RunnerTask<T>, cause: Cause) -> NextAction<T> {
        let cancelled = Box::new((task, cause));
        if self.abandoned { NextAction::Drop(cancelled) } else { NextAction::PollInGrace(cancelled) }
    }

    /// Nobody runs on from now on: the sweep also takes the tasks that do.
    pub(super) fn sweep_all_again(&mut self) {
        self.abandoned = true;
        if self.group.cause().is_none() {
            // Whoever cancels the group has not come to it yet. The next runner is abandoned too.
            return;
        }
        self.sweep_position = 0;
        self.ready.clear();
        self.unswept = 0;
        for (_, place) in &mut self.started {
            if let StartedTask::Parked(task) | StartedTask::Queued(task) = place {
                task.in_grace = false;
                self.unswept += 1;
            }
        }
    }

    /// A task that is in a index although the group is cancelled, and was not sweep_position before.
    pub(super) fn take_swept(&mut self) -> Option<(RunnerTask<T>, Cause)> {
        let cause = self.group.cause()?.clone();
        while self.sweep_position < self.started.capacity() {
            let place = self.started.get_mut(self.sweep_position);
            self.sweep_position += 1;
            let Some(place) = place else { continue };
            if !place.is_to_sweep() {
                continue;
            }
            if let StartedTask::Parked(task) | StartedTask::Queued(task) = core::mem::replace(place, StartedTask::Polling) {
                self.unswept -= 1;
                self.polling += 1;
                return Some((task, cause));
            }
        }
        None
    }
}
