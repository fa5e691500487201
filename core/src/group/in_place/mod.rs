//! `InPlace`: a group whose tasks are polled by whoever polls the group. Nothing is spawned, and tasks may borrow from the caller.

pub(crate) mod executor;
pub(crate) mod member;

use crate::base::lock::Lock;
use crate::events::cause::Cause;
use crate::group::calls;
use crate::group::calls::{GoFuture, NextFuture, NextOr, NextOrFuture, TaskAdapter, WaitFuture};
use crate::group::error::{Errors, GoError, GroupClosed, NotTaken, TaskError};
use crate::group::executor::Executor;
use crate::group::handle::closed;
use crate::group::in_place::executor::InPlaceScheduler;
use crate::group::in_place::member::InPlaceMember;
use crate::group::new_task::NewTask;
use crate::group::state::Settings;
use crate::group::task::{GroupTask, TaskOutput};
use crate::ids::path::ActorPath;
use crate::tree::any_ref::AnyRef;
use crate::tree::member::Member;
use crate::tree::node;
use crate::tree::token::CancelToken;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::future::Future;
use futures_core::Stream;

/// A group whose tasks are polled where its results are awaited; from [`GroupBuilder::in_place`](crate::group::builder::GroupBuilder::in_place).
///
/// It has the calls of a [`Group`](crate::group::handle::Group) and keeps its promises, in one task and without a spawn: tasks make progress while
/// somebody awaits `next`, `wait` or a `go` that waits for a index. A cancel cuts them off there too, or when the group is dropped; in the
/// tree the group has ended by then.
///
/// ```
/// # use pleach::{Dispatcher, CancelToken, GroupBuilder};
/// # let sim = Dispatcher::seeded(1);
/// # let token = CancelToken::root(sim.runtime());
/// # sim.simulate(async {
/// let words = ["a".to_string(), "bcd".to_string()];
/// let group = GroupBuilder::under(&token).in_place().unwrap();
/// for word in &words {
///     group.go(async move { word.len() }).await.unwrap(); // borrows `words`
/// }
/// group.close();
/// assert_eq!(group.next().await, Some(Ok(1)));
/// assert_eq!(group.next().await, Some(Ok(3)));
/// assert_eq!(group.next().await, None);
/// # }).unwrap();
/// ```
pub struct InPlace<'env, T> {
    pub(in crate::group) member: Arc<InPlaceMember>,
    pub(in crate::group) settings: Settings,
    pub(in crate::group) scheduler: Lock<InPlaceScheduler<'env, T>>,
}

/// How this group takes a task.
pub(in crate::group) fn adapter<'env, T, F, R>(reject: fn(ActorPath, NotTaken, F) -> R) -> TaskAdapter<InPlace<'env, T>, F, R>
where
    F: Future<Output: TaskOutput<T>> + Send + 'env,
{
    TaskAdapter { erase: |task: Box<GroupTask<F>>| Box::into_pin(task), reject }
}

impl<'env, T> InPlace<'env, T> {
    pub(in crate::group) fn new(member: Arc<InPlaceMember>, settings: Settings) -> Self {
        Self { member, settings, scheduler: Lock::new(InPlaceScheduler::new(settings)) }
    }

    /// Takes a task, once there is a index for it, polling the others meanwhile. A group that is closed or cancelled gives it back.
    ///
    /// # Panics
    /// When awaited inside a task of this group while every index is held by a task that does the same: none would ever be free.
    /// [`go_or`](Self::go_or) gives [`NotTaken::OwnTasks`] instead.
    pub fn go<F>(&self, task: F) -> impl Future<Output = Result<(), GroupClosed<F>>> + Unpin
    where
        F: Future<Output: TaskOutput<T>> + Send + 'env,
    {
        GoFuture::new(self, GroupTask::boxed(task, None), None, adapter(closed))
    }

    /// As [`go`](Self::go), but stops waiting for a index when `token` is cancelled, and then gives the task back.
    pub fn go_or<F>(&self, token: &CancelToken, task: F) -> impl Future<Output = Result<(), GoError<F>>> + Unpin
    where
        F: Future<Output: TaskOutput<T>> + Send + 'env,
    {
        GoFuture::new(self, GroupTask::boxed(task, None), Some(token), adapter(GoError::new))
    }

    /// As [`go`](Self::go), for a task that is to know of a cancel itself: it is given the group's token.
    pub fn go_with<F>(&self, task: impl FnOnce(CancelToken) -> F) -> impl Future<Output = Result<(), GroupClosed<F>>> + Unpin
    where
        F: Future<Output: TaskOutput<T>> + Send + 'env,
    {
        self.go(task(self.token()))
    }

    /// Takes a task if there is a index for it now, else gives it back.
    pub fn try_go<F>(&self, task: F) -> Result<(), GoError<F>>
    where
        F: Future<Output: TaskOutput<T>> + Send + 'env,
    {
        calls::try_go(self, GroupTask::boxed(task, None), &adapter(GoError::new))
    }

    /// A task to be given a name or a deadline before it goes.
    pub fn task(&self) -> NewTask<'_, Self> {
        NewTask::of(self)
    }

    /// Takes no more tasks. Nothing is cancelled; closing twice changes nothing.
    pub fn close(&self) {
        self.with_state(|state, wakes| state.close(wakes));
    }

    /// The next result, in the order in which tasks end; `None` once the group is drained.
    pub fn next(&self) -> impl Future<Output = Option<Result<T, TaskError>>> + Unpin {
        NextFuture::new(self)
    }

    /// As [`next`](Self::next), but also ready when `token` is cancelled. A result is preferred to the end, and both to the token.
    pub fn next_or(&self, token: &CancelToken) -> impl Future<Output = NextOr<T>> + Unpin {
        NextOrFuture::new(self, token)
    }

    /// The results as a stream that borrows the group.
    pub fn results(&self) -> impl Stream<Item = Result<T, TaskError>> + Unpin {
        NextFuture::new(self)
    }

    /// Polls every task taken so far to its end: `Err` with the first error there was, else with the cause if the group was cancelled. It
    /// reads no results and does not close the group.
    ///
    /// # Panics
    /// When awaited inside a task of this group, which would wait for itself.
    pub fn wait(&self) -> impl Future<Output = Result<(), TaskError>> + Unpin {
        WaitFuture::new(self)
    }

    /// Cancels the group: it takes nothing more and polls nothing more. Each task that had not ended ends with
    /// [`TaskError::Cancelled`]. The first cause wins.
    pub fn cancel(&self, cause: impl Into<Cause>) {
        node::cancel(&self.member(), &cause.into());
    }

    /// Why it was cancelled, `None` while it is not.
    pub fn cause(&self) -> Option<Cause> {
        self.with_state(|state, _| state.cause().cloned())
    }

    /// The errors so far, the first one first. They stay; tasks that were drop_cancelled off are not among them.
    pub fn errors(&self) -> Errors {
        self.with_state(|state, _| state.errors())
    }

    /// How many tasks were taken and have not ended.
    pub fn in_flight(&self) -> usize {
        self.with_state(|state, _| state.in_flight())
    }

    /// How many results have not been read.
    pub fn unread(&self) -> usize {
        self.with_state(|state, _| state.unread())
    }

    /// How many results were dropped unread, by [`drop_newest`](crate::group::builder::GroupBuilder::drop_newest) or
    /// [`drop_oldest`](crate::group::builder::GroupBuilder::drop_oldest).
    pub fn dropped(&self) -> u64 {
        self.with_state(|state, _| state.dropped())
    }

    /// Whether it takes no more tasks.
    pub fn is_closed(&self) -> bool {
        self.with_state(|state, _| state.is_closed())
    }

    /// The token of this group: cancelled with it, and the other way round.
    pub fn token(&self) -> CancelToken {
        node::token(&self.member())
    }

    /// Where it stands in the tree.
    pub fn path(&self) -> ActorPath {
        self.member.node().path()
    }

    /// The group as something in the tree.
    pub fn any_ref(&self) -> AnyRef {
        AnyRef { member: self.member() }
    }
}

/// Dropping the owner drops its tasks.
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
