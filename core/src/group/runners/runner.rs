//! `Runner`: a task of the runtime that polls the tasks of a group, one after the other.
//!
//! Any runner polls any task: a woken task goes back to the queue of the executor. A group
//! therefore needs one runtime task per worker thread, not one per task.

use crate::base::sync::{Arc, unsize};
use crate::events::cause::Cause;
use crate::group::executor;
use crate::group::executor::{Executor, POLLS_IN_A_ROW_MAX};
use crate::group::runners::RunnerExecutor;
use crate::group::runners::runner_count::{Origin, Role};
use crate::group::runners::scheduler::{NextAction, PollOutcome, RunnerTask};
use crate::group::task_waker::TaskWaker;
use crate::tree::current;
use crate::tree::member::Member;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

/// How long a runner polls before it yields. Checked after its 1st, 2nd, 4th, 8th … poll, because
/// reading the clock costs time.
const TIME_IN_A_ROW_MAX: Duration = Duration::from_micros(200);

/// Polls the tasks of one group until it exits.
pub(super) struct Runner<T: Send + 'static> {
    /// `None` after its exit.
    executor: Option<Arc<RunnerExecutor<T>>>,
    current: Option<Arc<dyn Member>>,
    spare_waker: Option<TaskWaker<RunnerExecutor<T>>>,
    /// Where it was before its next poll (see `runner_count`).
    origin: Origin,
}

impl<T: Send + 'static> Runner<T> {
    pub(super) fn new(executor: Arc<RunnerExecutor<T>>, role: Role) -> Self {
        let current = Some(unsize!(Arc::clone(&executor) => dyn Member));
        Self { executor: Some(executor), current, spare_waker: None, origin: Origin::Spawned(role) }
    }
}

/// Polls a task once. For its first poll, lends it the spare waker.
#[inline]
fn run<T: Send + 'static>(
    executor: &Arc<RunnerExecutor<T>>,
    spare_waker: &mut Option<TaskWaker<RunnerExecutor<T>>>,
    task: RunnerTask<T>,
) -> PollOutcome<T> {
    let RunnerTask { future, number, waker, .. } = task;
    let is_first = waker.is_none();
    let waker = waker.or_else(|| spare_waker.take()).unwrap_or_else(|| TaskWaker::new(executor));
    let outer = current::enter_task(executor.address(), waker.waker());
    let polled = executor::poll_task(executor, future, number, &mut Context::from_waker(waker.waker()));
    current::leave_task(outer);
    match polled {
        Err(future) => PollOutcome::Pending(RunnerTask { future, number, waker: Some(waker), in_grace: false }),
        Ok(result) if is_first => {
            *spare_waker = waker.reuse();
            PollOutcome::Ended(result, None)
        }
        Ok(result) => PollOutcome::Ended(result, Some(waker)),
    }
}

/// Polls a cancelled task within its grace, or drops it if it has none.
#[cold]
fn poll_in_grace<T: Send + 'static>(
    executor: &Arc<RunnerExecutor<T>>,
    (task, cause): (RunnerTask<T>, Cause),
) -> PollOutcome<T> {
    let RunnerTask { mut future, number, waker, .. } = task;
    let has_grace = future.as_mut().grace(executor.settings().cancel_grace).is_some();
    let waker = match waker {
        Some(waker) if has_grace => waker,
        waker => return PollOutcome::Ended(executor::drop_cancelled(executor, future, number, cause), waker),
    };
    waker.begin_poll();
    let outer = current::enter_task(executor.address(), waker.waker());
    let polled = executor::poll_cancelled(executor, future, number, cause, &mut Context::from_waker(waker.waker()));
    current::leave_task(outer);
    match polled {
        Err(future) => PollOutcome::Pending(RunnerTask { future, number, waker: Some(waker), in_grace: true }),
        Ok(result) => PollOutcome::Ended(result, Some(waker)),
    }
}

impl<T: Send + 'static> Future for Runner<T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { executor: owned, current, spare_waker, origin } = &mut *self;
        let Some(executor) = &*owned else { return Poll::Ready(()) };
        let inside = current::enter(current, cx.waker());
        let runtime = executor.node().runtime();
        let (mut polls, mut left) = (0_u32, POLLS_IN_A_ROW_MAX);
        let mut next = RunnerExecutor::begin(executor, *origin, cx.waker());
        // A runner that finds no work needs no clock.
        let has_work = !matches!(next, NextAction::Park(_) | NextAction::Exit);
        let began = has_work.then(|| runtime.now());
        let polled = loop {
            let outcome = match next {
                NextAction::Poll(task) => run(executor, spare_waker, task),
                NextAction::PollInGrace(cancelled) => poll_in_grace(executor, *cancelled),
                NextAction::Drop(cancelled) => {
                    let (RunnerTask { future, number, waker, .. }, cause) = *cancelled;
                    PollOutcome::Ended(executor::drop_cancelled(executor, future, number, cause), waker)
                }
                NextAction::Yield => {
                    *origin = Origin::Spawned(Role::Counted);
                    cx.waker().wake_by_ref();
                    break Poll::Pending;
                }
                NextAction::Park(at) => {
                    *origin = Origin::Idle(at);
                    break Poll::Pending;
                }
                NextAction::Exit => break Poll::Ready(()),
            };
            polls += 1;
            left = left.saturating_sub(1);
            if polls.is_power_of_two() && began.is_some_and(|began| runtime.now().since(began) > TIME_IN_A_ROW_MAX) {
                left = 0;
            }
            next = RunnerExecutor::finish_poll(executor, outcome, &mut left, cx.waker());
        };
        drop(inside);
        if polled.is_ready() {
            *owned = None;
        }
        polled
    }
}

/// A runner that is dropped before it ended was dropped by a runtime that shuts down.
impl<T: Send + 'static> Drop for Runner<T> {
    fn drop(&mut self) {
        if let Some(executor) = self.executor.take() {
            RunnerExecutor::abandon(&executor);
        }
    }
}
