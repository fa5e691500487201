//! `NewTask`: a task that is given a name, a deadline or a cancel grace before it goes.

use crate::group::calls::GoFuture;
use crate::group::error::{GoError, NotTaken};
use crate::group::executor::Executor;
use crate::group::handle::Group;
use crate::group::in_place::InPlace;
use crate::group::task::{Deadline, GroupTask, TaskOptions, TaskOutput};
use crate::group::{calls, handle, in_place};
use crate::ids::name::Name;
use crate::tree::cancel_grace::CancelGrace;
use crate::tree::member::Member;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::Future;
use core::time::Duration;

/// A task about to go; from `task()` of a group.
#[must_use = "a task is started by `go` or `try_go`"]
pub struct NewTask<'a, G> {
    group: &'a G,
    name: Option<&'a str>,
    within: Option<Duration>,
    cancel_grace: Option<Duration>,
}

impl<'a, G> NewTask<'a, G> {
    pub(super) fn of(group: &'a G) -> Self {
        Self { group, name: None, within: None, cancel_grace: None }
    }

    /// Gives the task a name, which is the last step of the path of its failure. Several tasks may have the same.
    pub fn named(mut self, name: &'a str) -> Self {
        self.name = Some(name);
        self
    }

    /// Gives the task this long, from its first poll: after that it is dropped and fails with [`Elapsed`](crate::base::timeout::Elapsed).
    pub fn within(mut self, within: Duration) -> Self {
        self.within = Some(within);
        self
    }

    fn options(&self, member: &dyn Member) -> Result<Option<Box<TaskOptions>>, NotTaken> {
        let name = self.name.map(Name::new).transpose().map_err(NotTaken::Name)?;
        let runtime = || Arc::clone(&member.node().tree().runtime);
        let deadline = self.within.map(|within| Deadline { within, runtime: runtime(), sleep: None });
        let grace = self.cancel_grace.map(CancelGrace::new);
        let plain = name.is_none() && deadline.is_none() && grace.is_none();
        Ok((!plain).then(|| Box::new(TaskOptions { name, deadline, grace })))
    }
}

impl<'a, T: Send + 'static> NewTask<'a, Group<T>> {
    /// Lets this task run on for `grace` after a cancel of the group, to tidy up; then it is dropped. It comes before the grace of the
    /// group, and is described [there](crate::group::builder::GroupBuilder::cancel_grace). A [deadline](Self::within) that passes drops the task at once.
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.cancel_grace = Some(grace);
        self
    }

    /// Runs it, once there is a slot for it.
    pub async fn go<F>(self, task: F) -> Result<(), GoError<F>>
    where
        F: Future<Output: TaskOutput<T>> + Send + 'static,
    {
        let executor = self.group.executor();
        match self.options(&**executor) {
            Ok(options) => GoFuture::new(executor, GroupTask::boxed(task, options), None, handle::adapter(GoError::new)).await,
            Err(why) => Err(GoError::new(self.group.path(), why, task)),
        }
    }

    /// Runs it if there is a slot for it now.
    pub fn try_go<F>(self, task: F) -> Result<(), GoError<F>>
    where
        F: Future<Output: TaskOutput<T>> + Send + 'static,
    {
        let executor = self.group.executor();
        match self.options(&**executor) {
            Ok(options) => calls::try_go(executor, GroupTask::boxed(task, options), &handle::adapter(GoError::new)),
            Err(why) => Err(GoError::new(self.group.path(), why, task)),
        }
    }
}

impl<'a, 'env, T> NewTask<'a, InPlace<'env, T>> {
    /// Runs it, once there is a slot for it.
    pub async fn go<F>(self, task: F) -> Result<(), GoError<F>>
    where
        F: Future<Output: TaskOutput<T>> + Send + 'env,
    {
        match self.options(&*self.group.member()) {
            Ok(options) => {
                GoFuture::new(self.group, GroupTask::boxed(task, options), None, in_place::adapter(GoError::new)).await
            }
            Err(why) => Err(GoError::new(self.group.path(), why, task)),
        }
    }

    /// Takes it if there is a slot for it now.
    pub fn try_go<F>(self, task: F) -> Result<(), GoError<F>>
    where
        F: Future<Output: TaskOutput<T>> + Send + 'env,
    {
        match self.options(&*self.group.member()) {
            Ok(options) => calls::try_go(self.group, GroupTask::boxed(task, options), &in_place::adapter(GoError::new)),
            Err(why) => Err(GoError::new(self.group.path(), why, task)),
        }
    }
}
