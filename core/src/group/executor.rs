//! `Executor`: what runs the tasks of a group, and what every executor does alike: one poll, the end of a task, its failure.
//!
//! User code (polling a task, dropping it, dropping what it left) runs inside `catch` and under no lock.

use crate::base::catch;
use crate::base::catch::Payload;
use crate::base::reason::{BoxError, Reason};
use crate::base::wakers::{Key, Spare};
use crate::events::cause::Cause;
use crate::events::failure::FailureInfo;
use crate::group::error::TaskError;
use crate::group::state::{Admission, Discarded, Entry, GroupState, Settings, TaskResult};
use crate::group::task::BoxedTask;
use crate::group::wait_queue::WakeList;
use crate::ids::name::Name;
use crate::tree::member::Member;
use crate::tree::node;
use alloc::sync::Arc;
use core::task::{Context, Poll};

/// Polls that one task of the runtime gives to tasks of a group before it lets others run.
pub(super) const POLLS_IN_A_ROW_MAX: u32 = 64;

/// A question to the state, with the waker of whoever asks if it is to join a line.
pub(super) trait PollState<T, R>: FnMut(&mut GroupState<T>, Option<&mut Spare>, &mut WakeList) -> Poll<R> {}

impl<T, R, F: FnMut(&mut GroupState<T>, Option<&mut Spare>, &mut WakeList) -> Poll<R>> PollState<T, R> for F {}

/// What runs the tasks of a group.
pub(super) trait Executor {
    /// What its tasks give.
    type Value;

    /// Its tasks: those of a group that polls them in place may borrow.
    type Task;

    fn member(&self) -> Arc<dyn Member>;

    fn settings(&self) -> Settings;

    /// Where it lies, by which its tasks know it again.
    fn address(&self) -> usize;

    /// Runs `f` on the state, under the lock; then wakes whom it says, and leaves the tree if the group has ended.
    fn with_state<R>(&self, f: impl FnOnce(&mut GroupState<Self::Value>, &mut WakeList) -> R) -> R;

    /// Takes the task if the state let it in, and sees to it that it runs.
    fn admit(&self, entry: Entry<'_>, work: impl FnOnce() -> Self::Task) -> Admission;

    /// Whether tasks are polled by whoever waits for something of the group, in [`poll_call`](Self::poll_call).
    const POLLS_IN_PLACE: bool = false;

    /// Asks `poll_state` of the state until it has an answer. An executor that drives polls tasks in between, and gives `poll_state` a waker to join a line
    /// with only when there is nothing left to poll; its own waker is left under `key`.
    #[inline]
    fn poll_call<R>(&self, cx: &mut Context<'_>, _key: &mut Key, mut poll_state: impl PollState<Self::Value, R>) -> Poll<R> {
        let polled = self.with_state(|state, wakes| poll_state(state, None, wakes));
        if polled.is_ready() {
            return polled;
        }
        self.join_queue(cx, poll_state)
    }

    /// Slow path of [`poll_call`](Self::poll_call): the caller queues up. Not inlined, to keep the fast path small.
    #[cold]
    #[inline(never)]
    fn join_queue<R>(&self, cx: &mut Context<'_>, mut poll_state: impl PollState<Self::Value, R>) -> Poll<R> {
        let mut waker = Spare::of(cx.waker());
        self.with_state(|state, wakes| poll_state(state, Some(&mut waker), wakes))
    }

    /// A result that can be had without waiting in line and without entering the state twice. An executor that drives may have one.
    #[inline]
    fn read_fast(&self) -> Option<TaskResult<Self::Value>> {
        None
    }

    /// Whoever waited waits no more.
    fn unregister_poller(&self, _key: &mut Key) {}
}

/// Why a task gave no value.
enum TaskFault {
    Error(BoxError),
    Panic(Reason, Payload),
}

/// Polls a task once. If it has ended it is dropped, and its failure is on record; else it comes back.
#[inline]
pub(super) fn poll_task<'env, T>(
    executor: &impl Executor<Value = T>,
    work: BoxedTask<'env, T>,
    number: u64,
    cx: &mut Context<'_>,
) -> Result<TaskResult<T>, BoxedTask<'env, T>> {
    let (mut work, mut value) = (Some(work), None);
    // What is ready is dropped inside the same `catch`; whatever else happens, the task is still there afterwards.
    let polled = catch::catch_whole(|| {
        let polled = work.as_mut().map_or(Poll::Pending, |work| work.as_mut().poll(cx));
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(ready)) => {
                value = Some(ready);
                drop(work.take());
                Poll::Ready(Ok(()))
            }
        }
    });
    let fault = match polled {
        Ok(Poll::Ready(Ok(()))) => return Ok(Ok(value.expect("a task that is done has given its value"))),
        Ok(Poll::Pending) => return Err(work.expect("a task that waits is still there")),
        Ok(Poll::Ready(Err(error))) => TaskFault::Error(error),
        Err((reason, payload)) => TaskFault::Panic(reason, payload),
    };
    Ok(Err(fail_and_drop(executor, number, fault, value, work)))
}

/// The error of a task that did not end well, after all that is left of it was dropped.
#[cold]
fn fail_and_drop<T>(
    executor: &impl Executor<Value = T>,
    number: u64,
    fault: TaskFault,
    value: Option<T>,
    work: Option<BoxedTask<'_, T>>,
) -> TaskError {
    let name = work.as_ref().and_then(|work| work.name().cloned());
    // With a value there was a panic in the drop of the task: the value is not to be trusted, since something that the task owned did not
    // come to its end.
    drop(catch::catch(|| drop(value)));
    drop(catch::catch(|| drop(work)));
    fail(executor, name, number, fault)
}

/// Drops a task that was drop_cancelled off.
pub(super) fn drop_cancelled<'env, T>(
    executor: &impl Executor<Value = T>,
    work: BoxedTask<'env, T>,
    number: u64,
    cause: Cause,
) -> TaskResult<T> {
    let name = work.name().cloned();
    Err(match catch::catch_whole(|| drop(work)) {
        Ok(()) => TaskError::Cancelled(cause),
        Err((reason, payload)) => fail(executor, name, number, TaskFault::Panic(reason, payload)),
    })
}

/// Polls a task whose group is cancelled while its grace lasts; then it is dropped. A value that it gives is dropped: it was to tidy up.
pub(super) fn poll_cancelled<'env, T>(
    executor: &impl Executor<Value = T>,
    mut work: BoxedTask<'env, T>,
    number: u64,
    cause: Cause,
    cx: &mut Context<'_>,
) -> Result<TaskResult<T>, BoxedTask<'env, T>> {
    let grace = work.as_mut().grace(executor.settings().cancel_grace);
    if !grace.is_some_and(|grace| grace.lasts(executor.member().node().runtime(), cx)) {
        return Ok(drop_cancelled(executor, work, number, cause));
    }
    let name = work.name().cloned();
    let value = match poll_task(executor, work, number, cx) {
        Ok(Ok(value)) => value,
        other => return other,
    };
    Ok(Err(match catch::catch_whole(|| drop(value)) {
        Ok(()) => TaskError::TidiedUp(cause),
        Err((reason, payload)) => fail(executor, name, number, TaskFault::Panic(reason, payload)),
    }))
}

/// Drops a result that found no room in the buffer.
#[inline]
pub(super) fn discard<T>(discarded: Discarded<T>) {
    if let Some(ended) = discarded {
        drop(catch::catch(|| drop(ended)));
    }
}

/// Puts a failure on record. With fail-fast the group is cancelled here, before the result can be seen.
#[cold]
fn fail<T>(executor: &impl Executor<Value = T>, name: Option<Name>, number: u64, fault: TaskFault) -> TaskError {
    let (settings, member) = (executor.settings(), executor.member());
    let (error, payload) = match fault {
        TaskFault::Error(error) => (TaskError::Failed(failure(&member, name, number, Reason::Error(error))), None),
        TaskFault::Panic(reason, payload) => (TaskError::Panicked(failure(&member, name, number, reason)), Some(payload)),
    };
    let (kept, discarded) = if settings.resume_panics { (payload, None) } else { (None, payload) };
    discarded.into_iter().for_each(Payload::discard);
    let first = executor.with_state(|state, _| state.record_error(&error, kept));
    if let Some(failure) = first.failure().filter(|_| settings.fail_fast) {
        node::cancel(&member, &Cause::Failed(failure.clone()));
        // Somebody else may have cancelled it first, and not have come to the state yet.
        if member.node().cause().is_some() && executor.with_state(|state, _| state.cause().is_none()) {
            member.on_cancel();
        }
    }
    error
}

fn failure(member: &Arc<dyn Member>, name: Option<Name>, number: u64, reason: Reason) -> FailureInfo {
    let node = member.node();
    let path = node.path().push_child(name.unwrap_or(Name::numbered(number)));
    let failure = FailureInfo::new(node.id(), path, 0, reason, node.runtime().now()).below(Some(member));
    node.events().failure(&failure);
    failure
}

/// Hands on a result, unless it is a panic that is to go on here.
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
        // Whoever comes second gets the text alone.
        if let Some(payload) = payload.or_else(|| Payload::of(failure.reason())) {
            catch::resume(payload);
        }
    }
}
