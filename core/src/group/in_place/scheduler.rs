//! `InPlaceScheduler`: the tasks and the group state of a group in place, behind its lock.

use crate::group::in_place::member::InPlaceMember;
use crate::group::state::{GroupSettings, GroupState, TaskResult};
use crate::group::task::BoxedTask;
use crate::group::task_waker::TaskWaker;
use alloc::collections::VecDeque;
use slab::Slab;

/// The state of a group in place.
pub(super) struct InPlaceScheduler<'env, T> {
    pub(super) group: GroupState<T>,
    pub(super) new_tasks: VecDeque<(BoxedTask<'env, T>, u64)>,
    /// `None` while a poller has the task.
    pub(super) started: Slab<Option<InPlaceTask<'env, T>>>,
    pub(super) spare_waker: Option<TaskWaker<InPlaceMember>>,
    /// New tasks and woken tasks alternate.
    pub(super) new_first: bool,
}

/// A task together with its waker.
pub(super) struct InPlaceTask<'env, T> {
    pub(super) future: BoxedTask<'env, T>,
    pub(super) number: u64,
    /// `None` before its first poll, unless it was lent the spare waker.
    pub(super) waker: Option<TaskWaker<InPlaceMember>>,
}

/// The outcome of one poll.
pub(super) enum PollOutcome<'env, T> {
    Nothing,
    /// The result, and the waker of the task unless it was retired.
    Ended(TaskResult<T>, Option<TaskWaker<InPlaceMember>>),
    Pending(InPlaceTask<'env, T>),
}

/// The poller's next action.
pub(super) enum NextAction<'env, T, R> {
    Answer(R),
    Poll(InPlaceTask<'env, T>),
    /// Takes a woken task.
    Woken,
}

impl<'env, T> InPlaceScheduler<'env, T> {
    pub(super) fn new(settings: GroupSettings) -> Self {
        let group = GroupState::new(settings);
        Self { group, new_tasks: VecDeque::new(), started: Slab::new(), spare_waker: None, new_first: true }
    }

    /// Takes a task that was not polled yet, and lends it the spare waker.
    #[inline]
    pub(super) fn take_new(&mut self) -> Option<InPlaceTask<'env, T>> {
        let (future, number) = self.new_tasks.pop_front()?;
        Some(InPlaceTask { future, number, waker: self.spare_waker.take() })
    }

    /// Takes a new task if it is the turn of new tasks.
    #[inline]
    pub(super) fn take_in_turn<R>(&mut self) -> NextAction<'env, T, R> {
        self.new_first = !self.new_first;
        match self.new_first.then(|| self.take_new()).flatten() {
            Some(task) => NextAction::Poll(task),
            None => NextAction::Woken,
        }
    }

    /// Parks a pending task. Returns its index if it was woken during its poll.
    pub(super) fn park(&mut self, task: InPlaceTask<'env, T>) -> Option<usize> {
        let Some(waker) = &task.waker else { unreachable!("a task gets its waker before its first poll") };
        let index = waker.index().unwrap_or_else(|| self.started.insert(None));
        let woken = waker.park_at(index);
        self.started[index] = Some(task);
        woken.then_some(index)
    }
}
