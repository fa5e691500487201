//! `Launch`: a task with a name, isolation or a cancel grace.

use crate::scope::Scope;
use crate::scope::member::ScopeMember;
use crate::tree::task;
use crate::tree::task::{LaunchError, Outcome, Task, TaskKind};
use core::future::Future;
use core::time::Duration;

/// Builds a task of a scope; from [`Scope::task`].
///
/// ```
/// use pleach::{CancelToken, Scope};
/// use pleach::runtime::Dispatcher;
///
/// let sim = Dispatcher::seeded(1);
/// let scope = Scope::under(&CancelToken::root(sim.runtime()));
/// let task = scope.task().named("probe").isolated().launch(async { Err("no route") }).unwrap();
/// assert!(!sim.simulate(task.exited()).unwrap().is_clean());
/// assert!(!scope.token().is_cancelled(), "an isolated task does not cancel its scope");
/// ```
#[must_use = "a task is started by `launch`"]
pub struct Launch<'a> {
    pub(super) scope: &'a Scope,
    pub(super) name: Option<&'a str>,
    pub(super) isolated: bool,
    pub(super) cancel_grace: Option<Duration>,
}

impl<'a> Launch<'a> {
    /// Names the task in the tree. Default: a generated name.
    pub fn named(mut self, name: &'a str) -> Self {
        self.name = Some(name);
        self
    }

    /// Isolates the task: its failure is reported but does not cancel the scope.
    pub fn isolated(mut self) -> Self {
        self.isolated = true;
        self
    }

    /// Lets the task run for `grace` after a cancel, to clean up. Default: the grace of the scope
    /// handle, or none.
    ///
    /// Without a grace, a cancel drops the task at its next await. The task observes the cancel
    /// through the token of its scope. Its exit is [`Exit::TidiedUp`](crate::Exit::TidiedUp) if it
    /// returned in time, [`Exit::Cancelled`](crate::Exit::Cancelled) if it was dropped. A task that
    /// is cancelled before its first poll is dropped at once.
    ///
    /// After the cancel of a shutdown, the system waits for its own
    /// [`grace`](crate::SystemBuilder::grace). A task with a longer grace is reported as still
    /// running.
    ///
    /// ```
    /// use pleach::{CancelToken, Exit, Scope};
    /// use pleach::runtime::Dispatcher;
    /// use std::time::Duration;
    ///
    /// let dispatcher = Dispatcher::seeded(1);
    /// let scope = Scope::under(&CancelToken::root(dispatcher.runtime()));
    /// let token = scope.token();
    /// let task = scope.task().cancel_grace(Duration::from_secs(5)).launch(async move {
    ///     token.cancelled().await;
    ///     // Flush, release locks, close connections.
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

    /// Launches the task as a child of the scope.
    ///
    /// # Errors
    /// Returns the future in [`LaunchError`] if the scope is closing, or the name is invalid or in
    /// use.
    pub fn launch<F>(self, future: F) -> Result<Task, LaunchError<F>>
    where
        F: Future<Output: Outcome> + Send + 'static,
    {
        let kind = if self.isolated { TaskKind::Isolated } else { TaskKind::Sibling };
        task::launch_with_grace(&ScopeMember::as_member(&self.scope.member), self.name, kind, self.cancel_grace, future)
    }
}
