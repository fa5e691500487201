//! The executor of a group in place: waiting callers poll the tasks.
//!
//! A caller that awaits `go`, `next` or `wait` is a *poller* while it waits.
//!
//! Invariants:
//! 1. A task is in exactly one place: `new_tasks`, `started`, or with one poller.
//! 2. A poller that waits has polled every ready task and registered its waker with the
//!    [`InPlaceMember`]. A task that is admitted later wakes the queued callers.
//! 3. The lock of the scheduler and the lock of the member are never held together.

use crate::base::sync::{Arc, unsize};
use crate::base::wakers::{ClonedWaker, WakerKey};
use crate::events::cause::Cause;
use crate::group::executor;
use crate::group::executor::{Executor, POLLS_IN_A_ROW_MAX, PollState};
use crate::group::in_place::InPlace;
use crate::group::in_place::member::{CANCEL, InPlaceMember};
use crate::group::in_place::scheduler::{InPlaceScheduler, InPlaceTask, NextAction, PollOutcome};
use crate::group::state::{Admission, Discarded, Entry, GroupSettings, GroupState, TaskResult};
use crate::group::task::BoxedTask;
use crate::group::task_waker::{TaskWaker, WakeTask};
use crate::group::wait_queue::WakeList;
use crate::tree::member::Member;
use crate::tree::{current, node};
use core::task::{Context, Poll};

impl<'env, T> InPlace<'env, T> {
    /// Applies pending requests of the tree, runs `f` under the lock, then follows up outside it.
    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut InPlaceScheduler<'env, T>, &mut WakeList) -> R) -> R {
        if self.member.requests() != 0 {
            self.apply_requests();
        }
        let mut wakes = WakeList::default();
        // Not part of the answer: the answer is large, and wrapping it would cost one more move.
        let mut should_exit = false;
        let answer = self.scheduler.with(|scheduler| {
            let answer = f(scheduler, &mut wakes);
            should_exit = scheduler.group.should_exit();
            answer
        });
        if should_exit {
            self.leave();
        }
        wakes.wake();
        answer
    }

    #[cold]
    fn leave(&self) {
        let exit = self.scheduler.with(|scheduler| scheduler.group.should_exit().then(|| scheduler.group.take_exit()));
        if let Some(exit) = exit {
            node::leave(&self.member(), &exit);
        }
    }

    /// Applies a close or cancel that the tree has requested to the group state.
    #[cold]
    fn apply_requests(&self) {
        let mut wakes = WakeList::default();
        let cause = self.member.node().cause();
        self.scheduler.with(|scheduler| match &cause {
            Some(cause) => scheduler.group.cancel(cause, &mut wakes),
            None => scheduler.group.close(&mut wakes),
        });
        wakes.wake();
    }

    /// Takes the started task that was woken first.
    fn take_woken(&self) -> Option<InPlaceTask<'env, T>> {
        while let Some(index) = self.member.take_woken() {
            let task = self.scheduler.with(|scheduler| scheduler.started.get_mut(index)?.take());
            if let Some(task) = task {
                task.waker.iter().for_each(TaskWaker::begin_poll);
                return Some(task);
            }
        }
        None
    }

    /// Polls a task once.
    #[inline]
    fn run(&self, task: InPlaceTask<'env, T>) -> PollOutcome<'env, T> {
        let InPlaceTask { future, number, waker } = task;
        let waker = waker.unwrap_or_else(|| TaskWaker::new(&self.member));
        let outer = current::enter_task(self.address(), waker.waker());
        let polled = executor::poll_task(self, future, number, &mut Context::from_waker(waker.waker()));
        current::leave_task(outer);
        match polled {
            Err(future) => PollOutcome::Pending(InPlaceTask { future, number, waker: Some(waker) }),
            Ok(result) if waker.index().is_none() => PollOutcome::Ended(result, waker.reuse()),
            Ok(result) => PollOutcome::Ended(result, Some(waker)),
        }
    }

    /// Returns a polled task, polls the state, and takes a new task if the state has no answer. All
    /// of it happens under one lock.
    #[inline]
    fn finish_poll<R>(
        &self,
        outcome: PollOutcome<'env, T>,
        left: &mut u32,
        poll_state: &mut impl PollState<T, R>,
    ) -> NextAction<'env, T, R> {
        let (mut woken, mut discarded) = (None, None);
        let next = self.with(|scheduler, wakes| {
            match outcome {
                PollOutcome::Nothing => {}
                PollOutcome::Ended(result, waker) => discarded = self.complete(scheduler, result, waker, wakes),
                PollOutcome::Pending(task) => {
                    woken = scheduler.park(task);
                    if woken.is_some() {
                        // The task yielded: the other tasks run first, then everything else in the
                        // poller's runtime task.
                        *left = (*left).min(scheduler.group.in_flight() as u32 - 1);
                    }
                }
            }
            match poll_state(&mut scheduler.group, None, wakes) {
                Poll::Ready(answer) => NextAction::Answer(answer),
                Poll::Pending if *left == 0 => NextAction::Woken,
                Poll::Pending => scheduler.take_in_turn(),
            }
        });
        executor::discard(discarded);
        if let Some(index) = woken {
            // Other pollers may have parked without seeing this task, and this poller may leave
            // before it takes the task again.
            InPlaceMember::wake_task(&self.member, index);
        }
        next
    }

    /// Completes a task. Its waker becomes the spare if it has no index.
    #[inline]
    fn complete(
        &self,
        scheduler: &mut InPlaceScheduler<'env, T>,
        result: TaskResult<T>,
        waker: Option<TaskWaker<InPlaceMember>>,
        wakes: &mut WakeList,
    ) -> Discarded<T> {
        match waker.as_ref().and_then(TaskWaker::index) {
            Some(index) => {
                scheduler.started.remove(index);
                waker.iter().for_each(TaskWaker::retire);
            }
            // A task waker holds no user value, so dropping the old spare under the lock is safe.
            None => scheduler.spare_waker = waker,
        }
        let discarded = scheduler.group.complete(result, wakes);
        if scheduler.group.in_flight() == 0 {
            self.member.clear_busy();
        }
        discarded
    }

    /// Takes any task, after a cancel.
    fn take_any(&self) -> Option<InPlaceTask<'env, T>> {
        self.scheduler.with(|scheduler| {
            let parked =
                |scheduler: &mut InPlaceScheduler<'env, T>| scheduler.started.iter_mut().find_map(|(_, task)| task.take());
            scheduler.take_new().or_else(|| parked(scheduler))
        })
    }

    /// Drops every task that no poller has.
    fn drop_all_tasks(&self) {
        while let Some(task) = self.take_any() {
            let cause = self.member.node().cause().unwrap_or(Cause::Cancelled);
            let result = executor::drop_cancelled(self, task.future, task.number, cause);
            executor::discard(self.with(|scheduler, wakes| self.complete(scheduler, result, task.waker, wakes)));
        }
    }

    /// Drops all tasks and results, when the handle is dropped.
    pub(super) fn clear(&self) {
        node::cancel(&self.member(), &Cause::Dropped);
        self.drop_all_tasks();
        executor::discard_leftovers(self.with_state(|state, _| state.take_leftovers()));
    }
}

impl<'env, T> Executor for InPlace<'env, T> {
    type Value = T;
    type Task = BoxedTask<'env, T>;

    const POLLS_IN_PLACE: bool = true;

    fn member(&self) -> Arc<dyn Member> {
        unsize!(Arc::clone(&self.member) => dyn Member)
    }

    fn settings(&self) -> GroupSettings {
        self.settings
    }

    #[inline]
    fn address(&self) -> usize {
        Arc::as_ptr(&self.member).addr()
    }

    #[inline]
    fn with_state<R>(&self, f: impl FnOnce(&mut GroupState<T>, &mut WakeList) -> R) -> R {
        self.with(|scheduler, wakes| f(&mut scheduler.group, wakes))
    }

    #[inline]
    fn admit(&self, entry: Entry<'_>, make_task: impl FnOnce() -> BoxedTask<'env, T>) -> Admission {
        let mut offered = (entry, make_task);
        // Fast path: tasks are in flight already, and no waiting caller has to be woken for one
        // more.
        if self.member.requests() == 0 {
            let (entry, make_task) = offered;
            let taken = self.scheduler.with(|scheduler| {
                if scheduler.group.in_flight() == 0 || !scheduler.group.has_no_waiters() {
                    return Err(make_task);
                }
                match scheduler.group.admit_fast(&entry) {
                    Some(number) => {
                        scheduler.new_tasks.push_back((make_task(), number));
                        Ok(number)
                    }
                    None => Err(make_task),
                }
            });
            match taken {
                Ok(number) => return Admission::Admitted(number),
                Err(make_task) => offered = (entry, make_task),
            }
        }
        loop {
            let (entry, make_task) = offered;
            let admission = self.with(|scheduler, wakes| {
                let is_first = scheduler.group.in_flight() == 0;
                if is_first && self.member.set_busy() != 0 && !scheduler.group.is_closed() {
                    // The tree has made a request since the check in `with`. Apply it first, then
                    // try again.
                    self.member.clear_busy();
                    return Err((entry, make_task));
                }
                let admission = scheduler.group.admit(entry, wakes);
                if let Admission::Admitted(number) = admission {
                    scheduler.new_tasks.push_back((make_task(), number));
                    scheduler.group.wake_all_waiters(wakes);
                } else if is_first {
                    self.member.clear_busy();
                }
                Ok(admission)
            });
            match admission {
                Ok(admission) => return admission,
                Err(again) => offered = again,
            }
        }
    }

    fn poll_call<R>(&self, cx: &mut Context<'_>, key: &mut WakerKey, mut poll_state: impl PollState<T, R>) -> Poll<R> {
        let (mut outcome, mut left) = (PollOutcome::Nothing, POLLS_IN_A_ROW_MAX);
        while left > 0 {
            let requests = self.member.requests();
            if requests & CANCEL != 0 {
                self.drop_all_tasks();
            }
            let task =
                match self.finish_poll(core::mem::replace(&mut outcome, PollOutcome::Nothing), &mut left, &mut poll_state) {
                    NextAction::Answer(answer) => return Poll::Ready(answer),
                    NextAction::Poll(task) => Some(task),
                    NextAction::Woken if left == 0 => break,
                    NextAction::Woken => self.take_woken().or_else(|| self.scheduler.with(InPlaceScheduler::take_new)),
                };
            match task {
                Some(task) => outcome = self.run(task),
                None if self.member.park(requests, key, cx.waker()) => break,
                None => {}
            }
            left = left.saturating_sub(1);
        }
        if left == 0 {
            cx.waker().wake_by_ref();
        }
        // Either no task is left to poll, or other work has to run first: queue the caller.
        let (mut answer, mut waker) = (Poll::Pending, ClonedWaker::of(cx.waker()));
        let queued = self.finish_poll(
            outcome,
            &mut left,
            &mut |state: &mut GroupState<T>, _: Option<&mut ClonedWaker>, wakes: &mut WakeList| {
                answer = poll_state(state, Some(&mut waker), wakes);
                Poll::Ready(())
            },
        );
        drop(queued);
        // A task admitted before the caller was queued woke no one. Later ones wake the caller.
        if answer.is_pending() && left > 0 && self.scheduler.with(|scheduler| !scheduler.new_tasks.is_empty()) {
            cx.waker().wake_by_ref();
        }
        answer
    }

    /// Fast path: no other caller waits, and a new task is ready at its first poll. The result
    /// bypasses all queues.
    #[inline]
    fn read_fast(&self) -> Option<TaskResult<T>> {
        if self.member.requests() != 0 || self.member.may_have_woken() {
            return None;
        }
        let task =
            self.scheduler.with(|scheduler| if scheduler.group.is_uncontended() { scheduler.take_new() } else { None })?;
        match self.run(task) {
            PollOutcome::Ended(result, waker) => {
                let mut result = Some(result);
                let is_done = self.scheduler.with(|scheduler| {
                    scheduler.spare_waker = waker;
                    scheduler.group.complete_fast()
                });
                // Not the fast path: queue the result. The caller reads it from the queue.
                if !is_done && let Some(result) = result.take() {
                    executor::discard(self.with(|scheduler, wakes| self.complete(scheduler, result, None, wakes)));
                }
                result
            }
            pending => {
                drop(self.finish_poll(
                    pending,
                    &mut 1,
                    &mut |_: &mut GroupState<T>, _: Option<&mut ClonedWaker>, _: &mut WakeList| Poll::Ready(()),
                ));
                None
            }
        }
    }

    fn unregister_poller(&self, key: &mut WakerKey) {
        if key.is_some() {
            self.member.unpark(key);
        }
    }
}
