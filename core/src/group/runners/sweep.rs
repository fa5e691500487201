//! Cancels the started tasks of a group.
//!
//! Runners sweep `started` once. A task without a cancel grace is dropped. A task with a grace is
//! polled until it returns or the grace is over.

use crate::events::cause::Cause;
use crate::group::runners::scheduler::{NextAction, RunnerTask, Scheduler, StartedTask};
use alloc::boxed::Box;

impl<T> StartedTask<T> {
    /// Returns whether this task still has to be swept.
    fn needs_sweep(&self) -> bool {
        matches!(self, Self::Parked(task) | Self::Queued(task) if !task.in_grace)
    }
}

impl<T> Scheduler<T> {
    /// Returns what a runner does with a cancelled task.
    #[cold]
    pub(super) fn cancelled(&self, task: RunnerTask<T>, cause: Cause) -> NextAction<T> {
        let cancelled = Box::new((task, cause));
        if self.abandoned { NextAction::Drop(cancelled) } else { NextAction::PollInGrace(cancelled) }
    }

    /// Restarts the sweep without graces, because the runtime is shutting down.
    pub(super) fn sweep_all_again(&mut self) {
        self.abandoned = true;
        if self.group.cause().is_none() {
            // The canceller has not updated the state yet. The next runner is dropped too, and
            // sweeps then.
            return;
        }
        self.sweep_position = 0;
        self.ready.clear();
        self.unswept = 0;
        for (_, entry) in &mut self.started {
            if let StartedTask::Parked(task) | StartedTask::Queued(task) = entry {
                task.in_grace = false;
                self.unswept += 1;
            }
        }
    }

    /// Takes the next started task that was not swept, if the group is cancelled.
    pub(super) fn take_swept(&mut self) -> Option<(RunnerTask<T>, Cause)> {
        let cause = self.group.cause()?.clone();
        while self.sweep_position < self.started.capacity() {
            let entry = self.started.get_mut(self.sweep_position);
            self.sweep_position += 1;
            let Some(entry) = entry else { continue };
            if !entry.needs_sweep() {
                continue;
            }
            if let StartedTask::Parked(task) | StartedTask::Queued(task) = core::mem::replace(entry, StartedTask::Polling) {
                self.unswept -= 1;
                self.polling += 1;
                return Some((task, cause));
            }
        }
        None
    }
}
