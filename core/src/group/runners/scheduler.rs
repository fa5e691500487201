//! `Scheduler`: the state of a [`RunnerExecutor`] behind its lock.
//!
//! It stores the tasks and chooses the next action of each runner. It runs and wakes nothing. The
//! states of a task and the invariants are listed in the parent module.

use crate::events::cause::Cause;
use crate::group::runners::RunnerExecutor;
use crate::group::runners::runner_count::RunnerCount;
use crate::group::state::{Discarded, GroupSettings, GroupState, RETAINED_CAPACITY_MAX, TaskResult};
use crate::group::task::BoxedTask;
use crate::group::task_waker::TaskWaker;
use crate::group::wait_queue::WakeList;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::task::Waker;
use slab::Slab;

/// The state of a [`RunnerExecutor`].
pub(super) struct Scheduler<T> {
    pub(super) group: GroupState<T>,
    pub(super) ready: VecDeque<Ready<T>>,
    pub(super) started: Slab<StartedTask<T>>,
    /// The number of started tasks that a cancel has to sweep, and the index that the sweep has
    /// reached.
    pub(super) unswept: usize,
    pub(super) sweep_position: usize,
    pub(super) polling: usize,
    pub(super) runners: RunnerCount,
    /// The runtime is shutting down. Cancel graces no longer apply.
    pub(super) abandoned: bool,
}

/// A task that is due for a poll.
pub(super) enum Ready<T> {
    New(BoxedTask<'static, T>, u64),
    Woken(usize),
}

/// A task that was polled at least once.
pub(super) enum StartedTask<T> {
    Parked(RunnerTask<T>),
    Queued(RunnerTask<T>),
    /// A runner polls it.
    Polling,
}

/// A task together with its waker.
pub(super) struct RunnerTask<T> {
    pub(super) future: BoxedTask<'static, T>,
    pub(super) number: u64,
    /// `None` before its first poll.
    pub(super) waker: Option<TaskWaker<RunnerExecutor<T>>>,
    /// Whether it was cancelled and is polled within its cancel grace.
    pub(super) in_grace: bool,
}

/// The outcome of one poll.
pub(super) enum PollOutcome<T> {
    Ended(TaskResult<T>, Option<TaskWaker<RunnerExecutor<T>>>),
    Pending(RunnerTask<T>),
}

/// The runner's next action: poll, yield, park or exit.
pub(super) enum NextAction<T> {
    Poll(RunnerTask<T>),
    /// The task is cancelled. The runner polls it while its grace lasts, or drops it. Boxed: this
    /// is rare, and inline it would make every action larger.
    PollInGrace(Box<(RunnerTask<T>, Cause)>),
    Drop(Box<(RunnerTask<T>, Cause)>),
    /// Lets other runtime tasks run, then continues.
    Yield,
    /// Sleeps until a task is ready, at this index of the idle runners.
    Park(usize),
    Exit,
}

impl<T> Scheduler<T> {
    pub(super) fn new(settings: GroupSettings) -> Self {
        Self {
            group: GroupState::new(settings),
            ready: VecDeque::new(),
            started: Slab::new(),
            unswept: 0,
            sweep_position: 0,
            polling: 0,
            runners: RunnerCount::default(),
            abandoned: false,
        }
    }

    /// Returns the number of tasks that a runner could take now.
    pub(super) fn backlog(&self) -> usize {
        self.ready.len() + if self.group.cause().is_some() { self.unswept } else { 0 }
    }

    #[inline]
    pub(super) fn needs_follow_up(&self, busy: bool) -> bool {
        self.runners.needs_runner(self.backlog(), busy) || self.group.should_exit()
    }

    /// Returns the runner's next action: poll, yield, park or exit. `last` means that it has no
    /// polls left.
    #[inline]
    pub(super) fn next_action(&mut self, last: bool, waker: &Waker) -> NextAction<T> {
        if !last {
            if let Some(ready) = self.ready.pop_front() {
                self.polling += 1;
                let task = self.take_ready(ready);
                return match self.group.cause().filter(|_| task.in_grace) {
                    Some(cause) => self.cancelled(task, cause.clone()),
                    None => NextAction::Poll(task),
                };
            }
            if let Some((task, cause)) = self.take_swept() {
                return self.cancelled(task, cause);
            }
        }
        if self.backlog() > 0 {
            self.runners.note_yield();
            return NextAction::Yield;
        }
        if self.ready.capacity() > RETAINED_CAPACITY_MAX {
            self.ready = VecDeque::new();
        }
        if self.started.is_empty() && self.started.capacity() > RETAINED_CAPACITY_MAX {
            self.started = Slab::new();
        }
        if self.group.has_ended() {
            return NextAction::Exit;
        }
        self.runners.park(waker).map_or(NextAction::Exit, NextAction::Park)
    }

    #[inline]
    fn take_ready(&mut self, ready: Ready<T>) -> RunnerTask<T> {
        let index = match ready {
            Ready::New(future, number) => return RunnerTask { future, number, waker: None, in_grace: false },
            Ready::Woken(index) => index,
        };
        match core::mem::replace(&mut self.started[index], StartedTask::Polling) {
            StartedTask::Queued(task) | StartedTask::Parked(task) => {
                self.unswept -= usize::from(!task.in_grace);
                task.waker.iter().for_each(TaskWaker::begin_poll);
                task
            }
            StartedTask::Polling => unreachable!("a started task is queued once, and only while it is stored"),
        }
    }

    /// Parks a pending task. Queues it instead, and returns true, if it was woken during its poll.
    pub(super) fn park(&mut self, task: RunnerTask<T>) -> bool {
        self.polling -= 1;
        let Some(waker) = &task.waker else { unreachable!("a task gets its waker before its first poll") };
        let known = waker.index();
        let index = known.unwrap_or_else(|| self.started.vacant_key());
        let woken = waker.park_at(index);
        self.unswept += usize::from(!task.in_grace);
        let entry = if woken { StartedTask::Queued(task) } else { StartedTask::Parked(task) };
        match known {
            Some(index) => self.started[index] = entry,
            None => drop(self.started.insert(entry)),
        }
        if woken {
            self.ready.push_back(Ready::Woken(index));
        }
        woken
    }

    /// Queues a parked task that was woken. After a cancel, a task that is not in grace is left to
    /// the sweep.
    pub(super) fn enqueue_woken(&mut self, index: usize) {
        let is_cancelled = self.group.cause().is_some();
        let Some(entry) = self.started.get_mut(index) else { return };
        match core::mem::replace(entry, StartedTask::Polling) {
            StartedTask::Parked(task) if task.in_grace || !is_cancelled => {
                *entry = StartedTask::Queued(task);
                self.ready.push_back(Ready::Woken(index));
            }
            other => *entry = other,
        }
    }

    /// Completes a task, and frees its index and its waker.
    #[inline]
    pub(super) fn complete(
        &mut self,
        result: TaskResult<T>,
        waker: Option<TaskWaker<RunnerExecutor<T>>>,
        wakes: &mut WakeList,
    ) -> Discarded<T> {
        self.polling -= 1;
        if let Some(waker) = waker {
            if let Some(index) = waker.index() {
                self.started.remove(index);
            }
            waker.retire();
            // Only a reference count: the task may have kept a clone, and the caller holds the
            // executor.
            drop(waker);
        }
        self.group.complete(result, wakes)
    }
}
