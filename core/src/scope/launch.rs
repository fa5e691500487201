//! DOC

use crate::scope::Scope;
use crate::tree::task;
use crate::tree::task::{LaunchError, Outcome, Task, TaskKind};
use core::future::Future;
use core::time::Duration;

/// A task about to be launched; from [`Scope::task`].
#[must_use = "a task is launched by `launch`"]
pub struct Launch<'a> {
    pub(super) scope: &'a Scope,
    pub(super) name: Option<&'a str>,
    pub(super) isolated: bool,
    pub(super) cancel_grace: Option<Duration>,
}

impl<'a> Launch<'a> {
    /// Gives the task a name in the tree.
    pub fn named(mut self, name: &'a str) -> Self {
        self.name = Some(name);
        self
    }

    /// A failure of this task does not cancel the scope; it is still on record.
    pub fn isolated(mut self) -> Self {
        self.isolated = true;
        self
    }

    /// Lets the task run on for `grace` after a cancel, to tidy up; then it is dropped. Without it a cancel drops the task at its next
    /// await.
    ///
    /// The task learns of the cancel by the token of its scope. Its exit is [`Exit::TidiedUp`] if it returned in time,
    /// [`Exit::Cancelled`] if it was dropped. A task that is cancelled before its first poll is dropped at once. After a shutdown's cancel the
    /// system waits for its own [`grace`](crate::SystemBuilder::grace): a longer one here is reported there.
    ///
    /// ```
    /// use pleach::{CancelToken, Dispatcher, Exit, Scope};
    /// use std::time::Duration;
    ///
    /// let dispatcher = Dispatcher::seeded(1);
    /// let scope = Scope::under(&CancelToken::root(dispatcher.runtime()));
    /// let token = scope.token();
    /// let task = scope.task().cancel_grace(Duration::from_secs(5)).launch(async move {
    ///     token.cancelled().await;
    ///     // Here it flushes, says goodbye, gives back what it holds.
    /// })?;
    /// dispatcher.drain_ready();
    /// scope.cancel("enough");
    /// dispatcher.drain_ready();
    /// assert!(matches!(task.any().exit(), Some(Exit::TidiedUp(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.cancel_grace = Some(grace);
        self
    }

    /// Launches it.
    pub fn launch<F>(self, future: F) -> Result<Task, LaunchError<F>>
    where
        F: Future<Output: Outcome> + Send + 'static,
    {
        let kind = if self.isolated { TaskKind::Isolated } else { TaskKind::Sibling };
        task::launch_with_grace(&self.scope.member.as_member(), self.name, kind, self.cancel_grace, future)
    }
}
