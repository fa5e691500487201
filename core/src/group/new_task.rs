//! `NewTask`: a task with a name, a deadline or a cancel grace.

use crate::base::sync::Arc;
use crate::group::calls::GoFuture;
use crate::group::error::{GoError, GoRejection};
use crate::group::executor::Executor;
use crate::group::handle::Group;
use crate::group::in_place::InPlace;
use crate::group::task::{Deadline, GroupTask, TaskOptions, TaskOutput};
use crate::group::{calls, handle, in_place};
use crate::ids::name::Name;
use crate::tree::cancel_grace::CancelGrace;
use crate::tree::member::Member;
use alloc::boxed::Box;
use core::future::Future;
use core::time::Duration;

/// Builds a task with a name, a deadline or a cancel grace; from `task()` of a group.
///
/// ```
/// use pleach::CancelToken;
/// use pleach::group::GroupBuilder;
/// use pleach::runtime::Dispatcher;
/// use std::time::Duration;
///
/// let sim = Dispatcher::seeded(1);
/// let token = CancelToken::root(sim.runtime());
/// sim.simulate(async {
///     let group = GroupBuilder::<u32>::under(&token).build().unwrap();
///     let slow = std::future::pending::<u32>();
///     group.task().named("slow").timeout(Duration::from_secs(1)).go(slow).await.unwrap();
///     let error = group.next().await.unwrap().unwrap_err();
///     assert!(error.failure().unwrap().path().to_string().ends_with("/slow"));
/// }).unwrap();
/// ```
#[must_use = "a task is started by `go` or `try_go`"]
pub struct NewTask<'a, G> {
    group: &'a G,
    name: Option<&'a str>,
    timeout: Option<Duration>,
    cancel_grace: Option<Duration>,
}

impl<'a, G> NewTask<'a, G> {
    pub(super) fn of(group: &'a G) -> Self {
        Self { group, name: None, timeout: None, cancel_grace: None }
    }

    /// Names the task. The name is the last segment of the path of its failure. Names need not be
    /// unique.
    pub fn named(mut self, name: &'a str) -> Self {
        self.name = Some(name);
        self
    }

    /// Limits the time of the task, counted from its first poll. Default: none.
    ///
    /// After that time the task is dropped and fails with
    /// [`Elapsed`](crate::base::timeout::Elapsed).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    fn options(&self, member: &dyn Member) -> Result<Option<Box<TaskOptions>>, GoRejection> {
        let name = self.name.map(Name::new).transpose().map_err(GoRejection::Name)?;
        let runtime = || Arc::clone(&member.node().tree().runtime);
        let deadline = self.timeout.map(|length| Deadline { length, runtime: runtime(), sleep: None });
        let grace = self.cancel_grace.map(CancelGrace::new);
        let plain = name.is_none() && deadline.is_none() && grace.is_none();
        Ok((!plain).then(|| Box::new(TaskOptions { name, deadline, grace })))
    }
}

impl<'a, T: Send + 'static> NewTask<'a, Group<T>> {
    /// Lets this task run for `grace` after a cancel of the group, to clean up. Default: the grace
    /// of the group.
    ///
    /// See [`GroupBuilder::cancel_grace`](crate::group::builder::GroupBuilder::cancel_grace). A
    /// [timeout](Self::timeout) that expires drops the task at once.
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.cancel_grace = Some(grace);
        self
    }

    /// Runs the task as soon as a slot is free.
    ///
    /// # Errors
    /// Returns the task in [`GoError`] if the group is closed or cancelled, the name is invalid, or
    /// all tasks of the group wait for a slot of it.
    pub async fn go<F>(self, task: F) -> Result<(), GoError<F>>
    where
        F: Future<Output: TaskOutput<T>> + Send + 'static,
    {
        let executor = self.group.executor();
        match self.options(&**executor) {
            Ok(options) => GoFuture::new(executor, GroupTask::boxed(task, options), None, handle::adapter(GoError::new)).await,
            Err(reason) => Err(GoError::new(self.group.path(), reason, task)),
        }
    }

    /// Runs the task if a slot is free now.
    ///
    /// # Errors
    /// Returns the task in [`GoError`] if the group is full, closed or cancelled, or the name is
    /// invalid.
    pub fn try_go<F>(self, task: F) -> Result<(), GoError<F>>
    where
        F: Future<Output: TaskOutput<T>> + Send + 'static,
    {
        let executor = self.group.executor();
        match self.options(&**executor) {
            Ok(options) => calls::try_go(executor, GroupTask::boxed(task, options), &handle::adapter(GoError::new)),
            Err(reason) => Err(GoError::new(self.group.path(), reason, task)),
        }
    }
}

impl<'a, 'env, T> NewTask<'a, InPlace<'env, T>> {
    /// Adds the task as soon as a slot is free, and polls the other tasks meanwhile.
    ///
    /// # Errors
    /// Returns the task in [`GoError`] if the group is closed or cancelled, the name is invalid, or
    /// all tasks of the group wait for a slot of it.
    pub async fn go<F>(self, task: F) -> Result<(), GoError<F>>
    where
        F: Future<Output: TaskOutput<T>> + Send + 'env,
    {
        match self.options(&*self.group.member()) {
            Ok(options) => {
                GoFuture::new(self.group, GroupTask::boxed(task, options), None, in_place::adapter(GoError::new)).await
            }
            Err(reason) => Err(GoError::new(self.group.path(), reason, task)),
        }
    }

    /// Adds the task if a slot is free now.
    ///
    /// # Errors
    /// Returns the task in [`GoError`] if the group is full, closed or cancelled, or the name is
    /// invalid.
    pub fn try_go<F>(self, task: F) -> Result<(), GoError<F>>
    where
        F: Future<Output: TaskOutput<T>> + Send + 'env,
    {
        match self.options(&*self.group.member()) {
            Ok(options) => calls::try_go(self.group, GroupTask::boxed(task, options), &in_place::adapter(GoError::new)),
            Err(reason) => Err(GoError::new(self.group.path(), reason, task)),
        }
    }
}
