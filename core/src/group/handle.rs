//! `Group`: the handle and owner of a group whose tasks run on the runtime.

use crate::events::cause::Cause;
use crate::group::builder::GroupBuilder;
use crate::group::calls;
use crate::group::calls::{GoFuture, NextFuture, NextOr, NextOrFuture, Reader, TaskAdapter, WaitFuture};
use crate::group::error::{Errors, GoError, GroupClosed, NotTaken, TaskError, own_tasks};
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
use alloc::sync::Arc;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use futures_core::Stream;

/// Tasks whose results are read in the order they come, with a limit, a close, a cancel and an answer for all of them together.
///
/// It is an owner: dropping it cancels what it holds. Everything takes `&self`, so a group in an `Arc` can be fed and read by many.
///
/// ```
/// # use pleach::{Dispatcher, CancelToken, Group, GroupBuilder};
/// # let sim = Dispatcher::seeded(1);
/// # let token = CancelToken::root(sim.runtime());
/// # sim.simulate(async {
/// let group = GroupBuilder::<u32>::under(&token).limit(2).fail_fast(false).build()?;
/// for n in 1..=3 {
///     // A task gives the value, or a `Result` with it.
///     group.go(async move { if n == 2 { Err("two") } else { Ok(n) } }).await?; // waits for a slot
/// }
/// group.close();
/// let mut sum = 0;
/// while let Some(result) = group.next().await {
///     sum += result.unwrap_or(10);
/// }
/// assert_eq!(sum, 14);
/// assert_eq!(group.errors().errors.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// # }).unwrap().unwrap();
/// ```
pub struct Group<T: Send + 'static> {
    executor: Arc<RunnerExecutor<T>>,
    /// Where the group itself, as a stream, stands in line.
    reader: Reader,
}

/// How a executor takes a task, and how `go` gives one back.
pub(super) fn adapter<T, F, R>(reject: fn(ActorPath, NotTaken, F) -> R) -> TaskAdapter<Arc<RunnerExecutor<T>>, F, R>
where
    T: Send + 'static,
    F: Future<Output: TaskOutput<T>> + Send + 'static,
{
    TaskAdapter { erase: |task: Box<GroupTask<F>>| Box::into_pin(task), reject }
}

pub(super) fn closed<F>(group: ActorPath, why: NotTaken, task: F) -> GroupClosed<F> {
    let cause = match why {
        NotTaken::Closed(cause) => cause,
        NotTaken::OwnTasks => {
            // A bug in the program that could only hang; as a panic it is a failure of that task, with its place.
            panic!("{}", own_tasks(&group));
        }
        NotTaken::Full | NotTaken::Cancelled(_) | NotTaken::Name(_) => None,
    };
    GroupClosed::new(group, cause, task)
}

impl<T: Send + 'static> Group<T> {
    /// A group below `token`, cancelled with it, with no limit and with fail-fast. It stands at the top of a tree of its own;
    /// [`GroupBuilder::under`] sets more.
    pub fn under(token: &CancelToken) -> Self {
        GroupBuilder::under(token).build().expect("nothing rejects a group with no limits below a token")
    }

    pub(super) fn new(executor: Arc<RunnerExecutor<T>>) -> Self {
        Self { executor, reader: Reader::default() }
    }

    pub(super) fn executor(&self) -> &Arc<RunnerExecutor<T>> {
        &self.executor
    }

    /// Runs a task in this group, once there is a slot for it. A group that is closed or cancelled gives it back.
    ///
    /// Dropping this future before it is done drops the task, which then was never taken.
    ///
    /// # Panics
    /// When awaited inside a task of this group while every slot is held by a task that does the same: none would ever be free.
    /// [`go_or`](Self::go_or) gives [`NotTaken::OwnTasks`] instead.
    pub fn go<F>(&self, task: F) -> impl Future<Output = Result<(), GroupClosed<F>>> + Unpin
    where
        F: Future<Output: TaskOutput<T>> + Send + 'static,
    {
        GoFuture::new(&self.executor, GroupTask::boxed(task, None), None, adapter(closed))
    }

    /// As [`go`](Self::go), but stops waiting for a slot when `token` is cancelled, and then gives the task back.
    pub fn go_or<F>(&self, token: &CancelToken, task: F) -> impl Future<Output = Result<(), GoError<F>>> + Unpin
    where
        F: Future<Output: TaskOutput<T>> + Send + 'static,
    {
        GoFuture::new(&self.executor, GroupTask::boxed(task, None), Some(token), adapter(GoError::new))
    }

    /// As [`go`](Self::go), for a task that is to know of a cancel itself: it is given the group's token.
    pub fn go_with<F>(&self, task: impl FnOnce(CancelToken) -> F) -> impl Future<Output = Result<(), GroupClosed<F>>> + Unpin
    where
        F: Future<Output: TaskOutput<T>> + Send + 'static,
    {
        self.go(task(self.token()))
    }

    /// Runs a task in this group if there is a slot for it now, else gives it back.
    pub fn try_go<F>(&self, task: F) -> Result<(), GoError<F>>
    where
        F: Future<Output: TaskOutput<T>> + Send + 'static,
    {
        calls::try_go(&self.executor, GroupTask::boxed(task, None), &adapter(GoError::new))
    }

    /// A task to be given a name, a deadline or a cancel grace before it goes.
    pub fn task(&self) -> NewTask<'_, Self> {
        NewTask::of(self)
    }

    /// Takes no more tasks. Nothing is cancelled; closing twice changes nothing.
    pub fn close(&self) {
        self.executor.with_state(|state, wakes| state.close(wakes));
    }

    /// The next result, in the order in which tasks end; `None` once the group is drained: closed (or cancelled), nothing in flight,
    /// nothing unread.
    ///
    /// Any number may wait, and are served in the order they came; each result goes to one of them. Dropping this future consumes
    /// nothing.
    pub fn next(&self) -> impl Future<Output = Option<Result<T, TaskError>>> + Unpin {
        NextFuture::new(&self.executor)
    }

    /// As [`next`](Self::next), but also ready when `token` is cancelled. A result is preferred to the end, and both to the token.
    pub fn next_or(&self, token: &CancelToken) -> impl Future<Output = NextOr<T>> + Unpin {
        NextOrFuture::new(&self.executor, token)
    }

    /// The results as a stream that borrows the group. The group itself is a stream too.
    pub fn results(&self) -> impl Stream<Item = Result<T, TaskError>> + Unpin {
        NextFuture::new(&self.executor)
    }

    /// Waits until every task taken so far has ended: `Err` with the first error there was, else with the cause if the group was cancelled.
    ///
    /// Any number may wait, and get the same answer. It reads no results and does not close the group.
    ///
    /// # Panics
    /// When awaited inside a task of this group, which would wait for itself.
    pub fn wait(&self) -> impl Future<Output = Result<(), TaskError>> + Unpin {
        WaitFuture::new(&self.executor)
    }

    /// Cancels the group: it takes nothing more, what has not begun is dropped, and what runs is drop_cancelled off at its next await, or after its
    /// [cancel grace](GroupBuilder::cancel_grace). Each of these ends with [`TaskError::Cancelled`], or with [`TaskError::TidiedUp`] if it
    /// reuse within its grace. The first cause wins.
    pub fn cancel(&self, cause: impl Into<Cause>) {
        node::cancel(&self.executor.member(), &cause.into());
    }

    /// Why it was cancelled, `None` while it is not.
    pub fn cause(&self) -> Option<Cause> {
        self.executor.with_state(|state, _| state.cause().cloned())
    }

    /// The errors so far, the first one first. They stay; tasks that were cancelled are not among them.
    pub fn errors(&self) -> Errors {
        self.executor.with_state(|state, _| state.errors())
    }

    /// How many tasks were taken and have not ended.
    pub fn in_flight(&self) -> usize {
        self.executor.with_state(|state, _| state.in_flight())
    }

    /// How many results have not been read.
    pub fn unread(&self) -> usize {
        self.executor.with_state(|state, _| state.unread())
    }

    /// How many results were dropped unread, by [`drop_newest`](GroupBuilder::drop_newest) or [`drop_oldest`](GroupBuilder::drop_oldest).
    pub fn dropped(&self) -> u64 {
        self.executor.with_state(|state, _| state.dropped())
    }

    /// Whether it takes no more tasks.
    pub fn is_closed(&self) -> bool {
        self.executor.with_state(|state, _| state.is_closed())
    }

    /// The token of this group: cancelled with it, and the other way round.
    pub fn token(&self) -> CancelToken {
        node::token(&self.executor.member())
    }

    /// Where it stands in the tree.
    pub fn path(&self) -> ActorPath {
        self.executor.node().path()
    }

    /// The group as something in the tree. It ends, and leaves the tree, when it is closed or cancelled and its last task has ended;
    /// results can be read after that.
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

/// Dropping the owner cancels what it owns, without waiting.
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
