//! `InPlace`: a group whose tasks are polled inside the task that awaits it.

pub(crate) mod executor;
pub(crate) mod member;
pub(crate) mod scheduler;

use crate::base::lock::Lock;
use crate::base::sync::Arc;
use crate::events::cause::Cause;
use crate::group::calls;
use crate::group::calls::{GoFuture, NextFuture, NextOr, NextOrFuture, TaskAdapter, WaitFuture};
use crate::group::error::{Errors, GoError, GoRejection, GroupClosed, TaskError};
use crate::group::executor::Executor;
use crate::group::handle::reject_closed;
use crate::group::in_place::member::InPlaceMember;
use crate::group::in_place::scheduler::InPlaceScheduler;
use crate::group::new_task::NewTask;
use crate::group::state::GroupSettings;
use crate::group::task::{GroupTask, TaskOutput};
use crate::ids::path::ActorPath;
use crate::tree::any_ref::AnyRef;
use crate::tree::member::Member;
use crate::tree::node;
use crate::tree::token::CancelToken;
use alloc::boxed::Box;
use core::fmt;
use core::future::Future;
use futures_core::Stream;

/// A group whose tasks are polled by the caller, without spawning. Tasks may borrow.
///
/// Created by [`GroupBuilder::in_place`](crate::group::builder::GroupBuilder::in_place). It has the
/// methods and guarantees of a [`Group`](crate::group::handle::Group), with these differences:
/// - Tasks make progress only while a caller awaits [`next`](Self::next), [`wait`](Self::wait), or
///   a [`go`](Self::go) that waits for a slot.
/// - Tasks may borrow from the caller's stack (`'env` instead of `'static`).
/// - A cancel removes the group from the tree at once. The tasks are dropped at the next call, or
///   with the group.
/// - It has no cancel grace.
///
/// Dropping the group drops its tasks.
///
/// ```
/// use pleach::CancelToken;
/// use pleach::group::GroupBuilder;
/// use pleach::runtime::Dispatcher;
///
/// let sim = Dispatcher::seeded(1);
/// let token = CancelToken::root(sim.runtime());
/// sim.simulate(async {
///     let words = ["a".to_string(), "bcd".to_string()];
///     let group = GroupBuilder::under(&token).in_place().unwrap();
///     for word in &words {
///         group.go(async move { word.len() }).await.unwrap(); // borrows `words`
///     }
///     group.close();
///     assert_eq!(group.next().await, Some(Ok(1)));
///     assert_eq!(group.next().await, Some(Ok(3)));
///     assert_eq!(group.next().await, None);
/// }).unwrap();
/// ```
pub struct InPlace<'env, T> {
    member: Arc<InPlaceMember>,
    settings: GroupSettings,
    scheduler: Lock<InPlaceScheduler<'env, T>>,
}

/// Converts tasks for this executor.
pub(in crate::group) fn adapter<'env, T, F, R>(
    reject: fn(ActorPath, GoRejection, F) -> R,
) -> TaskAdapter<InPlace<'env, T>, F, R>
where
    F: Future<Output: TaskOutput<T>> + Send + 'env,
{
    TaskAdapter { erase: |task: Box<GroupTask<F>>| Box::into_pin(task), reject }
}

impl<'env, T> InPlace<'env, T> {
    pub(in crate::group) fn new(member: Arc<InPlaceMember>, settings: GroupSettings) -> Self {
        Self { member, settings, scheduler: Lock::new(InPlaceScheduler::new(settings)) }
    }

    /// Adds a task. If the group is full, polls the other tasks until a slot is free.
    ///
    /// Cancel safe: dropping this future before it is ready drops the task, which was never polled.
    ///
    /// # Errors
    /// Returns the task in [`GroupClosed`] if the group is closed or cancelled.
    ///
    /// # Panics
    /// Panics when awaited inside a task of this group while every slot is held by a task that does
    /// the same, because no slot could become free. [`go_or`](Self::go_or) returns
    /// [`GoRejection::SlotDeadlock`] instead.
    pub fn go<F>(&self, task: F) -> impl Future<Output = Result<(), GroupClosed<F>>> + Unpin
    where
        F: Future<Output: TaskOutput<T>> + Send + 'env,
    {
        GoFuture::new(self, GroupTask::boxed(task, None), None, adapter(reject_closed))
    }

    /// Adds a task like [`go`](Self::go), but stops waiting for a slot when `token` is cancelled.
    ///
    /// # Errors
    /// Returns the task in [`GoError`] with the reason.
    pub fn go_or<F>(&self, token: &CancelToken, task: F) -> impl Future<Output = Result<(), GoError<F>>> + Unpin
    where
        F: Future<Output: TaskOutput<T>> + Send + 'env,
    {
        GoFuture::new(self, GroupTask::boxed(task, None), Some(token), adapter(GoError::new))
    }

    /// Adds a task like [`go`](Self::go), and passes it the token of the group to observe a cancel.
    pub fn go_with<F>(&self, task: impl FnOnce(CancelToken) -> F) -> impl Future<Output = Result<(), GroupClosed<F>>> + Unpin
    where
        F: Future<Output: TaskOutput<T>> + Send + 'env,
    {
        self.go(task(self.token()))
    }

    /// Adds a task if a slot is free now, and does not wait.
    ///
    /// # Errors
    /// Returns the task in [`GoError`] if the group is full, closed or cancelled.
    pub fn try_go<F>(&self, task: F) -> Result<(), GoError<F>>
    where
        F: Future<Output: TaskOutput<T>> + Send + 'env,
    {
        calls::try_go(self, GroupTask::boxed(task, None), &adapter(GoError::new))
    }

    /// Starts building a task with a name or a deadline.
    pub fn task(&self) -> NewTask<'_, Self> {
        NewTask::of(self)
    }

    /// Closes the group: it accepts no further task. Running tasks continue. Closing twice has no
    /// effect.
    pub fn close(&self) {
        self.with_state(|state, wakes| state.close(wakes));
    }

    /// Returns the next result in completion order, or `None` once the group is drained.
    ///
    /// Polls the tasks while it waits. Cancel safe: dropping this future loses no result.
    pub fn next(&self) -> impl Future<Output = Option<Result<T, TaskError>>> + Unpin {
        NextFuture::new(self)
    }

    /// Waits like [`next`](Self::next), or until `token` is cancelled.
    ///
    /// A result takes precedence over the end of the group, and both over the token.
    pub fn next_or(&self, token: &CancelToken) -> impl Future<Output = NextOr<T>> + Unpin {
        NextOrFuture::new(self, token)
    }

    /// Returns the results as a stream that borrows the group.
    pub fn results(&self) -> impl Stream<Item = Result<T, TaskError>> + Unpin {
        NextFuture::new(self)
    }

    /// Polls every task to its end. Reads no result and does not close the group.
    ///
    /// # Errors
    /// Returns the first error of a task, otherwise [`TaskError::Cancelled`] if the group was
    /// cancelled.
    ///
    /// # Panics
    /// Panics when awaited inside a task of this group, which would wait for itself.
    pub fn wait(&self) -> impl Future<Output = Result<(), TaskError>> + Unpin {
        WaitFuture::new(self)
    }

    /// Cancels the group: it accepts no further task and polls no task again.
    ///
    /// Each task that has not ended ends with [`TaskError::Cancelled`]. The first cause is kept.
    pub fn cancel(&self, cause: impl Into<Cause>) {
        node::cancel(&self.member(), &cause.into());
    }

    /// Returns the cause of the cancel, or `None` if the group was not cancelled.
    pub fn cause(&self) -> Option<Cause> {
        self.with_state(|state, _| state.cause().cloned())
    }

    /// Returns the errors so far, in completion order. Cancelled tasks are not errors.
    pub fn errors(&self) -> Errors {
        self.with_state(|state, _| state.errors())
    }

    /// Returns the number of accepted tasks that have not ended.
    pub fn in_flight(&self) -> usize {
        self.with_state(|state, _| state.in_flight())
    }

    /// Returns the number of results that were not read yet.
    pub fn unread(&self) -> usize {
        self.with_state(|state, _| state.unread())
    }

    /// Returns the number of results dropped unread by
    /// [`drop_newest`](crate::group::builder::GroupBuilder::drop_newest) or
    /// [`drop_oldest`](crate::group::builder::GroupBuilder::drop_oldest).
    pub fn dropped(&self) -> u64 {
        self.with_state(|state, _| state.dropped())
    }

    /// Returns whether the group accepts no further task.
    pub fn is_closed(&self) -> bool {
        self.with_state(|state, _| state.is_closed())
    }

    /// Returns the token of the group. Cancelling either one cancels the other.
    pub fn token(&self) -> CancelToken {
        node::token(&self.member())
    }

    /// Returns the path of the group in the tree.
    pub fn path(&self) -> ActorPath {
        self.member.node().path()
    }

    /// Returns an untyped reference to the group, to watch or wait for its exit.
    pub fn any_ref(&self) -> AnyRef {
        AnyRef { member: self.member() }
    }
}

/// Dropping the group drops its tasks.
impl<T> Drop for InPlace<'_, T> {
    fn drop(&mut self) {
        self.clear();
    }
}

impl<T> fmt::Debug for InPlace<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InPlace({})", self.path())
    }
}
