//! `Group`: the owning handle of a group whose tasks run on the runtime.

use crate::base::sync::Arc;
use crate::events::cause::Cause;
use crate::group::builder::GroupBuilder;
use crate::group::calls;
use crate::group::calls::{GoFuture, NextFuture, NextOr, NextOrFuture, Reader, TaskAdapter, WaitFuture};
use crate::group::error::{Errors, GoError, GoRejection, GroupClosed, TaskError, own_tasks};
use crate::group::executor::Executor;
use crate::group::new_task::NewTask;
use crate::group::runners::RunnerExecutor;
use crate::group::task::{GroupTask, TaskOutput};
use crate::ids::path::ActorPath;
use crate::tree::any_ref::AnyRef;
use crate::tree::member::Member;
use crate::tree::node;
use crate::tree::token::CancelToken;
use alloc::boxed::Box;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use futures_core::Stream;

/// Runs tasks on the runtime and returns their results in completion order.
///
/// A group can limit the tasks in flight, be closed or cancelled as a whole, and wait for all of
/// its tasks. All methods take `&self`, so a group in an `Arc` can have many feeders and readers.
/// Dropping the group cancels its tasks.
///
/// ```
/// use pleach::CancelToken;
/// use pleach::group::GroupBuilder;
/// use pleach::runtime::Dispatcher;
///
/// let sim = Dispatcher::seeded(1);
/// let token = CancelToken::root(sim.runtime());
/// sim.simulate(async {
///     let group = GroupBuilder::<u32>::under(&token).limit(2).fail_fast(false).build()?;
///     for n in 1..=3 {
///         // `go` waits for a slot. A task returns the value, or a `Result` with it.
///         group.go(async move { if n == 2 { Err("two") } else { Ok(n) } }).await?;
///     }
///     group.close();
///     let mut sum = 0;
///     while let Some(result) = group.next().await {
///         sum += result.unwrap_or(10);
///     }
///     assert_eq!(sum, 14);
///     assert_eq!(group.errors().errors.len(), 1);
///     Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// }).unwrap().unwrap();
/// ```
pub struct Group<T: Send + 'static> {
    executor: Arc<RunnerExecutor<T>>,
    /// The reader of the group itself, which is a stream.
    reader: Reader,
}

/// Converts tasks for this executor.
pub(super) fn adapter<T, F, R>(reject: fn(ActorPath, GoRejection, F) -> R) -> TaskAdapter<Arc<RunnerExecutor<T>>, F, R>
where
    T: Send + 'static,
    F: Future<Output: TaskOutput<T>> + Send + 'static,
{
    TaskAdapter { erase: |task: Box<GroupTask<F>>| Box::into_pin(task), reject }
}

pub(super) fn reject_closed<F>(group: ActorPath, reason: GoRejection, task: F) -> GroupClosed<F> {
    let cause = match reason {
        GoRejection::Closed(cause) => cause,
        GoRejection::SlotDeadlock => {
            // A deadlock is a bug in the program. The panic fails the task, with the place of the
            // call.
            panic!("{}", own_tasks(&group));
        }
        GoRejection::Full | GoRejection::Cancelled(_) | GoRejection::Name(_) => None,
    };
    GroupClosed::new(group, cause, task)
}

impl<T: Send + 'static> Group<T> {
    /// Builds a group with default options that is cancelled with `token`.
    ///
    /// The group is the root of its own tree. Use [`GroupBuilder::under`] to set options.
    pub fn under(token: &CancelToken) -> Self {
        GroupBuilder::under(token).build().expect("a group with default options below a token is never rejected")
    }

    pub(super) fn new(executor: Arc<RunnerExecutor<T>>) -> Self {
        Self { executor, reader: Reader::default() }
    }

    pub(super) fn executor(&self) -> &Arc<RunnerExecutor<T>> {
        &self.executor
    }

    /// Runs a task in this group as soon as a slot is free.
    ///
    /// A task may outlive the code that adds it, so it must own its data: use `async move` with
    /// clones or an `Arc`. If the compiler says that borrowed data escapes, or that an argument
    /// requires `'static`, the task borrows a local variable. A group that is polled
    /// [in place](crate::GroupBuilder::in_place) accepts tasks that borrow.
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
        F: Future<Output: TaskOutput<T>> + Send + 'static,
    {
        GoFuture::new(&self.executor, GroupTask::boxed(task, None), None, adapter(reject_closed))
    }

    /// Runs a task like [`go`](Self::go), but stops waiting for a slot when `token` is cancelled.
    ///
    /// # Errors
    /// Returns the task in [`GoError`] with the reason.
    pub fn go_or<F>(&self, token: &CancelToken, task: F) -> impl Future<Output = Result<(), GoError<F>>> + Unpin
    where
        F: Future<Output: TaskOutput<T>> + Send + 'static,
    {
        GoFuture::new(&self.executor, GroupTask::boxed(task, None), Some(token), adapter(GoError::new))
    }

    /// Runs a task like [`go`](Self::go), and passes it the token of the group to observe a cancel.
    pub fn go_with<F>(&self, task: impl FnOnce(CancelToken) -> F) -> impl Future<Output = Result<(), GroupClosed<F>>> + Unpin
    where
        F: Future<Output: TaskOutput<T>> + Send + 'static,
    {
        self.go(task(self.token()))
    }

    /// Runs a task if a slot is free now, and does not wait.
    ///
    /// # Errors
    /// Returns the task in [`GoError`] if the group is full, closed or cancelled.
    pub fn try_go<F>(&self, task: F) -> Result<(), GoError<F>>
    where
        F: Future<Output: TaskOutput<T>> + Send + 'static,
    {
        calls::try_go(&self.executor, GroupTask::boxed(task, None), &adapter(GoError::new))
    }

    /// Starts building a task with a name, a deadline or a cancel grace.
    pub fn task(&self) -> NewTask<'_, Self> {
        NewTask::of(self)
    }

    /// Closes the group: it accepts no further task. Running tasks continue. Closing twice has no
    /// effect.
    pub fn close(&self) {
        self.executor.with_state(|state, wakes| state.close(wakes));
    }

    /// Returns the next result in completion order, or `None` once the group is drained: closed or
    /// cancelled, with nothing in flight and nothing unread.
    ///
    /// Any number of callers may wait. They are served in the order in which they called, and each
    /// result goes to one of them. Cancel safe: dropping this future loses no result.
    pub fn next(&self) -> impl Future<Output = Option<Result<T, TaskError>>> + Unpin {
        NextFuture::new(&self.executor)
    }

    /// Waits like [`next`](Self::next), or until `token` is cancelled.
    ///
    /// A result takes precedence over the end of the group, and both over the token.
    pub fn next_or(&self, token: &CancelToken) -> impl Future<Output = NextOr<T>> + Unpin {
        NextOrFuture::new(&self.executor, token)
    }

    /// Returns the results as a stream that borrows the group. The group itself is a stream too.
    pub fn results(&self) -> impl Stream<Item = Result<T, TaskError>> + Unpin {
        NextFuture::new(&self.executor)
    }

    /// Waits until every accepted task has ended. Reads no result and does not close the group.
    ///
    /// Any number of callers may wait and get the same answer. Cancel safe.
    ///
    /// # Errors
    /// Returns the first error of a task, otherwise [`TaskError::Cancelled`] if the group was
    /// cancelled.
    ///
    /// # Panics
    /// Panics when awaited inside a task of this group, which would wait for itself.
    pub fn wait(&self) -> impl Future<Output = Result<(), TaskError>> + Unpin {
        WaitFuture::new(&self.executor)
    }

    /// Cancels the group: it accepts no further task. The first cause is kept.
    ///
    /// Tasks that have not started are dropped. Running tasks are dropped at their next await, or
    /// after their [cancel grace](GroupBuilder::cancel_grace). Each of them ends with
    /// [`TaskError::Cancelled`], or with [`TaskError::TidiedUp`] if it returned within its grace.
    pub fn cancel(&self, cause: impl Into<Cause>) {
        node::cancel(&self.executor.member(), &cause.into());
    }

    /// Returns the cause of the cancel, or `None` if the group was not cancelled.
    pub fn cause(&self) -> Option<Cause> {
        self.executor.with_state(|state, _| state.cause().cloned())
    }

    /// Returns the errors so far, in completion order. Cancelled tasks are not errors.
    pub fn errors(&self) -> Errors {
        self.executor.with_state(|state, _| state.errors())
    }

    /// Returns the number of accepted tasks that have not ended.
    pub fn in_flight(&self) -> usize {
        self.executor.with_state(|state, _| state.in_flight())
    }

    /// Returns the number of results that were not read yet.
    pub fn unread(&self) -> usize {
        self.executor.with_state(|state, _| state.unread())
    }

    /// Returns the number of results dropped unread by [`drop_newest`](GroupBuilder::drop_newest)
    /// or [`drop_oldest`](GroupBuilder::drop_oldest).
    pub fn dropped(&self) -> u64 {
        self.executor.with_state(|state, _| state.dropped())
    }

    /// Returns whether the group accepts no further task.
    pub fn is_closed(&self) -> bool {
        self.executor.with_state(|state, _| state.is_closed())
    }

    /// Returns the token of the group. Cancelling either one cancels the other.
    pub fn token(&self) -> CancelToken {
        node::token(&self.executor.member())
    }

    /// Returns the path of the group in the tree.
    pub fn path(&self) -> ActorPath {
        self.executor.node().path()
    }

    /// Returns an untyped reference to the group, to watch or wait for its exit.
    ///
    /// The group exits and leaves the tree when it is closed or cancelled and its last task has
    /// ended. Its results can still be read after that.
    ///
    /// Other handles call this method `any`. A group is a stream, where `StreamExt::any` would be
    /// called instead.
    pub fn any_ref(&self) -> AnyRef {
        AnyRef { member: self.executor.member() }
    }
}

impl<T: Send + 'static> Stream for Group<T> {
    type Item = Result<T, TaskError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { executor, reader } = self.get_mut();
        reader.poll(executor, cx)
    }
}

/// Dropping the group cancels its tasks, without waiting for them.
impl<T: Send + 'static> Drop for Group<T> {
    fn drop(&mut self) {
        self.reader.leave(&self.executor);
        node::cancel(&self.executor.member(), &Cause::Dropped);
        self.executor.drop_results();
    }
}

impl<T: Send + 'static> fmt::Debug for Group<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group({})", self.path())
    }
}
