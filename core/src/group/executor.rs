//! The `Executor` trait, and what both executors share: one poll, the end of a task, its failure.
//!
//! User code (polling a task, dropping it, dropping its value) runs inside `catch` and under no
//! lock.

use crate::base::catch;
use crate::base::catch::PanicPayload;
use crate::base::reason::{BoxError, Reason};
use crate::base::sync::Arc;
use crate::base::wakers::{ClonedWaker, WakerKey};
use crate::events::cause::Cause;
use crate::events::failure::FailureInfo;
use crate::group::error::TaskError;
use crate::group::state::{Admission, Discarded, Entry, GroupSettings, GroupState, Leftovers, TaskResult};
use crate::group::task::BoxedTask;
use crate::group::wait_queue::WakeList;
use crate::ids::name::Name;
use crate::tree::member::Member;
use crate::tree::node;
use core::task::{Context, Poll};

/// The number of polls that one runtime task gives to the tasks of a group before it yields.
pub(super) const POLLS_IN_A_ROW_MAX: u32 = 64;

/// Polls the group state. With a waker, the caller is queued if the answer is pending.
pub(super) trait PollState<T, R>: FnMut(&mut GroupState<T>, Option<&mut ClonedWaker>, &mut WakeList) -> Poll<R> {}

impl<T, R, F: FnMut(&mut GroupState<T>, Option<&mut ClonedWaker>, &mut WakeList) -> Poll<R>> PollState<T, R> for F {}

/// Polls the tasks of a group.
pub(super) trait Executor {
    /// The value of a successful task.
    type Value;

    /// The task type. Tasks that are polled in place may borrow from the caller.
    type Task;

    fn member(&self) -> Arc<dyn Member>;

    fn settings(&self) -> GroupSettings;

    /// Identifies the executor. A task compares it to find out whether it belongs to this group.
    fn address(&self) -> usize;

    /// Runs `f` under the lock. Then wakes the collected wakers, and leaves the tree if the group
    /// has ended.
    fn with_state<R>(&self, f: impl FnOnce(&mut GroupState<Self::Value>, &mut WakeList) -> R) -> R;

    /// Asks the state for a slot and, if it is granted, schedules the task.
    fn admit(&self, entry: Entry<'_>, make_task: impl FnOnce() -> Self::Task) -> Admission;

    /// Whether waiting callers poll the tasks, inside [`poll_call`](Self::poll_call).
    const POLLS_IN_PLACE: bool = false;

    /// Polls the state for a waiting call.
    ///
    /// An executor that polls in place runs tasks until `poll_state` is ready. It passes a waker
    /// only when no task is left to poll, and registers the caller as a poller under `key`.
    #[inline]
    fn poll_call<R>(
        &self,
        cx: &mut Context<'_>,
        _key: &mut WakerKey,
        mut poll_state: impl PollState<Self::Value, R>,
    ) -> Poll<R> {
        let polled = self.with_state(|state, wakes| poll_state(state, None, wakes));
        if polled.is_ready() {
            return polled;
        }
        self.join_queue(cx, poll_state)
    }

    /// Slow path of [`poll_call`](Self::poll_call): queues the caller. Not inlined, to keep the
    /// fast path small.
    #[cold]
    #[inline(never)]
    fn join_queue<R>(&self, cx: &mut Context<'_>, mut poll_state: impl PollState<Self::Value, R>) -> Poll<R> {
        let mut waker = ClonedWaker::of(cx.waker());
        self.with_state(|state, wakes| poll_state(state, Some(&mut waker), wakes))
    }

    /// Fast path of `next`: returns a result without queueing and with a single update of the
    /// state. Only for executors that poll in place.
    #[inline]
    fn read_fast(&self) -> Option<TaskResult<Self::Value>> {
        None
    }

    /// Removes a caller from the pollers.
    fn unregister_poller(&self, _key: &mut WakerKey) {}
}

/// Why a task has no value.
enum TaskFault {
    Error(BoxError),
    Panic(Reason, PanicPayload),
}

/// Polls a task once. Returns its result, or the task if it is pending.
///
/// A task that has ended is dropped, and its failure is reported.
#[inline]
pub(super) fn poll_task<'env, T>(
    executor: &impl Executor<Value = T>,
    task: BoxedTask<'env, T>,
    number: u64,
    cx: &mut Context<'_>,
) -> Result<TaskResult<T>, BoxedTask<'env, T>> {
    let (mut task, mut value) = (Some(task), None);
    // A ready task is dropped inside the same `catch`. In all other cases the task is still owned
    // here.
    let polled = catch::catch_with_payload(|| {
        let polled = task.as_mut().map_or(Poll::Pending, |task| task.as_mut().poll(cx));
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(ready)) => {
                value = Some(ready);
                drop(task.take());
                Poll::Ready(Ok(()))
            }
        }
    });
    let fault = match polled {
        Ok(Poll::Ready(Ok(()))) => return Ok(Ok(value.expect("a completed task has a value"))),
        Ok(Poll::Pending) => return Err(task.expect("a pending task is kept")),
        Ok(Poll::Ready(Err(error))) => TaskFault::Error(error),
        Err((reason, payload)) => TaskFault::Panic(reason, payload),
    };
    Ok(Err(fail_and_drop(executor, number, fault, value, task)))
}

/// Drops the task and its value, then reports the failure.
#[cold]
fn fail_and_drop<T>(
    executor: &impl Executor<Value = T>,
    number: u64,
    fault: TaskFault,
    value: Option<T>,
    task: Option<BoxedTask<'_, T>>,
) -> TaskError {
    let name = task.as_ref().and_then(|task| task.name().cloned());
    // A value is present only if the drop of the task panicked. It is discarded: the task's own
    // data was not dropped completely.
    drop(catch::catch(|| drop(value)));
    drop(catch::catch(|| drop(task)));
    report_failure(executor, name, number, fault)
}

/// Drops a cancelled task.
pub(super) fn drop_cancelled<'env, T>(
    executor: &impl Executor<Value = T>,
    task: BoxedTask<'env, T>,
    number: u64,
    cause: Cause,
) -> TaskResult<T> {
    let name = task.name().cloned();
    Err(match catch::catch_with_payload(|| drop(task)) {
        Ok(()) => TaskError::Cancelled(cause),
        Err((reason, payload)) => report_failure(executor, name, number, TaskFault::Panic(reason, payload)),
    })
}

/// Polls a cancelled task within its cancel grace, or drops it after the grace.
///
/// A returned value is dropped: a cancelled task runs only to clean up.
pub(super) fn poll_cancelled<'env, T>(
    executor: &impl Executor<Value = T>,
    mut task: BoxedTask<'env, T>,
    number: u64,
    cause: Cause,
    cx: &mut Context<'_>,
) -> Result<TaskResult<T>, BoxedTask<'env, T>> {
    let grace = task.as_mut().grace(executor.settings().cancel_grace);
    if !grace.is_some_and(|grace| grace.is_running(executor.member().node().runtime(), cx)) {
        return Ok(drop_cancelled(executor, task, number, cause));
    }
    let name = task.name().cloned();
    let value = match poll_task(executor, task, number, cx) {
        Ok(Ok(value)) => value,
        other => return other,
    };
    Ok(Err(match catch::catch_with_payload(|| drop(value)) {
        Ok(()) => TaskError::TidiedUp(cause),
        Err((reason, payload)) => report_failure(executor, name, number, TaskFault::Panic(reason, payload)),
    }))
}

/// Drops a result that had no room in the buffer.
#[inline]
pub(super) fn discard<T>(discarded: Discarded<T>) {
    if let Some(ended) = discarded {
        drop(catch::catch(|| drop(ended)));
    }
}

/// Drops the remaining user values of a group. A panic in one does not affect the others.
pub(super) fn discard_leftovers<T>(leftovers: Leftovers<T>) {
    let Leftovers { unread, payloads } = leftovers;
    unread.into_iter().for_each(|result| drop(catch::catch(|| drop(result))));
    payloads.into_iter().for_each(|(_, payload)| payload.discard());
}

/// Reports a failure. With fail-fast, cancels the group before the result can be read.
#[cold]
fn report_failure<T>(executor: &impl Executor<Value = T>, name: Option<Name>, number: u64, fault: TaskFault) -> TaskError {
    let (settings, member) = (executor.settings(), executor.member());
    let (error, payload) = match fault {
        TaskFault::Error(error) => (TaskError::Failed(failure(&member, name, number, Reason::Error(error))), None),
        TaskFault::Panic(reason, payload) => (TaskError::Panicked(failure(&member, name, number, reason)), Some(payload)),
    };
    let (kept, discarded) = if settings.resume_panics { (payload, None) } else { (None, payload) };
    discarded.into_iter().for_each(PanicPayload::discard);
    let first = executor.with_state(|state, _| state.record_error(&error, kept));
    if let Some(failure) = first.failure().filter(|_| settings.fail_fast) {
        node::cancel(&member, &Cause::Failed(failure.clone()));
        // Another thread may have cancelled the node first without having updated the state yet.
        if member.node().cause().is_some() && executor.with_state(|state, _| state.cause().is_none()) {
            member.on_cancel(&member);
        }
    }
    error
}

fn failure(member: &Arc<dyn Member>, name: Option<Name>, number: u64, reason: Reason) -> FailureInfo {
    let node = member.node();
    let path = node.path().push_child(name.unwrap_or(Name::generated_from(number)));
    let failure = FailureInfo::new(node.id(), path, 0, reason, node.runtime().now()).below(Some(member));
    node.events().record_failure(&failure);
    failure
}

/// Returns the result, or resumes its panic if the group is configured to do so.
#[inline]
pub(super) fn resume_if_configured<V>(executor: &impl Executor, result: Result<V, TaskError>) -> Result<V, TaskError> {
    if let Err(error) = &result {
        resume_panic(executor, error);
    }
    result
}

#[cold]
fn resume_panic(executor: &impl Executor, error: &TaskError) {
    if let TaskError::Panicked(failure) = error
        && executor.settings().resume_panics
    {
        let payload = executor.with_state(|state, _| state.take_payload(error));
        // The first caller gets the payload, any other the text only.
        if let Some(payload) = payload.or_else(|| PanicPayload::of(failure.reason())) {
            catch::resume(payload);
        }
    }
}
