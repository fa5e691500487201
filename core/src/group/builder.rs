//! `GroupBuilder`: the options of a group, and its position in the tree.

use crate::actor::Actor;
use crate::actor::context::Context;
use crate::base::sync::{Arc, unsize};
use crate::group::error::GroupError;
use crate::group::handle::Group;
use crate::group::in_place::InPlace;
use crate::group::in_place::member::InPlaceMember;
use crate::group::overflow::Overflow;
use crate::group::runners::RunnerExecutor;
use crate::group::state::GroupSettings;
use crate::ids::name::Name;
use crate::scope::Scope;
use crate::tree::adopt;
use crate::tree::member::Member;
use crate::tree::node;
use crate::tree::node::{Node, NodeParent};
use crate::tree::token::CancelToken;
use alloc::string::{String, ToString};
use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;

/// The default number of errors that a group keeps for `errors()`.
pub const ERRORS_KEPT_DEFAULT: usize = 1_024;

/// What happens to a panic in a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PanicPolicy {
    /// Reports it as [`TaskError::Panicked`](crate::group::error::TaskError::Panicked). This is the
    /// default.
    #[default]
    Error,
    /// Resumes the panic in the caller that reads the result with `next`, and in a caller of `wait`
    /// if it is the first error. The first caller gets the original payload, any other its text.
    Resume,
}

/// Builds a [`Group`] or a group [in place](InPlace).
///
/// Created by `system.group(name)`, `scope.group(name)`, `cx.group(name)` or
/// [`GroupBuilder::under`]. Defaults: no limit, no bound on unread results, fail-fast, panics
/// reported as errors.
///
/// ```
/// use pleach::prelude::*;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), pleach::Error> {
/// let system = ActorSystem::new("app")?;
/// let group = system.group::<u32>("squares").limit(8).fail_fast(false).build()?;
/// group.go(async { 3 * 3 }).await?;
/// group.close();
/// assert_eq!(group.next().await, Some(Ok(9)));
/// # Ok(())
/// # }
/// ```
#[must_use = "a group is created by `build` or `in_place`"]
pub struct GroupBuilder<T> {
    parent: GroupParent,
    settings: GroupSettings,
    of: PhantomData<fn() -> T>,
}

/// The parent of the group in the tree.
enum GroupParent {
    /// A member, and the name of the group below it.
    Member(Arc<dyn Member>, String),
    /// None: the group is the root of its own tree and is cancelled with this token.
    Token(CancelToken),
}

impl<T> GroupBuilder<T> {
    /// Builds a group that is the root of its own tree and is cancelled with `token`.
    pub fn under(token: &CancelToken) -> Self {
        Self::at(GroupParent::Token(token.clone()))
    }

    pub(crate) fn below(parent: Arc<dyn Member>, name: &str) -> Self {
        Self::at(GroupParent::Member(parent, name.to_string()))
    }

    fn at(parent: GroupParent) -> Self {
        let settings = GroupSettings {
            limit: usize::MAX,
            buffer: usize::MAX,
            overflow: Overflow::Wait,
            errors_kept: ERRORS_KEPT_DEFAULT,
            fail_fast: true,
            resume_panics: false,
            cancel_grace: None,
        };
        Self { parent, settings, of: PhantomData }
    }

    /// Limits the number of tasks in flight. `go` waits for a free slot. Default: no limit.
    ///
    /// [`build`](Self::build) returns [`GroupError::ZeroLimit`] for 0.
    pub fn limit(mut self, limit: usize) -> Self {
        self.settings.limit = limit;
        self
    }

    /// Limits the number of unread results. Default: no limit.
    ///
    /// A task is accepted only if its result will have room, so `go` also waits for readers. The
    /// limit does not apply while a caller is in `wait`, which reads no results.
    /// [`build`](Self::build) returns [`GroupError::ZeroBuffer`] for 0.
    pub fn buffer(mut self, buffer: usize) -> Self {
        self.settings.buffer = buffer;
        self
    }

    /// Drops the result of a task that ends while the [`buffer`](Self::buffer) is full.
    ///
    /// `go` does not wait for readers then. `dropped()` counts the dropped results. Errors are
    /// still recorded for `errors()` and `wait`. Default: nothing is dropped.
    pub fn drop_newest(mut self) -> Self {
        self.settings.overflow = Overflow::DropNewest;
        self
    }

    /// Drops the oldest unread result when the buffer is full. Otherwise like
    /// [`drop_newest`](Self::drop_newest).
    pub fn drop_oldest(mut self) -> Self {
        self.settings.overflow = Overflow::DropOldest;
        self
    }

    /// Sets whether the first failed task cancels the group. Default: true.
    pub fn fail_fast(mut self, fail_fast: bool) -> Self {
        self.settings.fail_fast = fail_fast;
        self
    }

    /// Sets what happens to a panic in a task. Default: [`PanicPolicy::Error`].
    pub fn panic_policy(mut self, policy: PanicPolicy) -> Self {
        self.settings.resume_panics = policy == PanicPolicy::Resume;
        self
    }

    /// Sets how many errors are kept for `errors()`. Default: the first 1,024. `next` returns all
    /// of them.
    pub fn errors_kept(mut self, kept: usize) -> Self {
        self.settings.errors_kept = kept;
        self
    }

    /// Lets started tasks run for `grace` after a cancel of the group, to clean up. Default: none.
    ///
    /// Without a grace, a cancel drops the tasks at their next await.
    /// [`NewTask::cancel_grace`](crate::group::new_task::NewTask::cancel_grace) overrides it for
    /// one task.
    ///
    /// A task observes the cancel through the token of the group. If it returns in time it ends
    /// with [`TaskError::TidiedUp`](crate::group::error::TaskError::TidiedUp) and its value is
    /// dropped. After the grace it is dropped and ends with
    /// [`TaskError::Cancelled`](crate::group::error::TaskError::Cancelled). A task that was
    /// cancelled before its first poll is dropped at once.
    ///
    /// # Errors
    /// [`in_place`](Self::in_place) returns [`GroupError::GraceInPlace`]: only groups on the
    /// runtime have a cancel grace.
    ///
    /// ```
    /// use pleach::CancelToken;
    /// use pleach::group::{GroupBuilder, TaskError};
    /// use pleach::runtime::Dispatcher;
    /// use std::time::Duration;
    ///
    /// let dispatcher = Dispatcher::seeded(1);
    /// let group = GroupBuilder::<()>::under(&CancelToken::root(dispatcher.runtime()))
    ///     .cancel_grace(Duration::from_secs(5))
    ///     .build()?;
    /// dispatcher.simulate(async {
    ///     let task = group.go_with(|token| async move {
    ///         token.cancelled().await;
    ///         // Flush, release locks, close connections.
    ///     });
    ///     task.await.unwrap();
    /// });
    /// dispatcher.drain_ready();
    /// group.cancel("enough");
    /// dispatcher.drain_ready();
    /// let ended = dispatcher.simulate(group.next()).unwrap();
    /// assert_eq!(ended, Some(Err(TaskError::TidiedUp("enough".into()))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.settings.cancel_grace = Some(grace);
        self
    }

    /// Changes the value type and keeps the options.
    pub(super) fn of<U>(self) -> GroupBuilder<U> {
        GroupBuilder { parent: self.parent, settings: self.settings, of: PhantomData }
    }

    fn check(&self) -> Result<(), GroupError> {
        match (self.settings.limit, self.settings.buffer) {
            (0, _) => Err(GroupError::ZeroLimit),
            (_, 0) => Err(GroupError::ZeroBuffer),
            _ => Ok(()),
        }
    }

    /// Builds a group whose tasks are polled by the caller. Nothing is spawned, and tasks may
    /// borrow.
    ///
    /// # Errors
    /// - [`GroupError::ZeroLimit`], [`GroupError::ZeroBuffer`]: a limit or buffer of 0.
    /// - [`GroupError::GraceInPlace`]: a [`cancel_grace`](Self::cancel_grace) is set. A group in
    ///   place leaves the tree when it is cancelled, and its owner may never poll it again.
    /// - [`GroupError::Refused`]: the parent is closing, or the name is invalid or in use.
    pub fn in_place<'env>(self) -> Result<InPlace<'env, T>, GroupError> {
        self.check()?;
        if self.settings.cancel_grace.is_some() {
            return Err(GroupError::GraceInPlace);
        }
        let settings = self.settings;
        self.parent.attach(|node| Arc::new(InPlaceMember::new(node))).map(|member| InPlace::new(member, settings))
    }
}

impl<T: Send + 'static> GroupBuilder<T> {
    /// Builds the group. Its tasks run on the runtime.
    ///
    /// # Errors
    /// - [`GroupError::ZeroLimit`], [`GroupError::ZeroBuffer`]: a limit or buffer of 0.
    /// - [`GroupError::Refused`]: the parent is closing, or the name is invalid or in use.
    pub fn build(self) -> Result<Group<T>, GroupError> {
        self.check()?;
        let settings = self.settings;
        self.parent.attach(|node| Arc::new(RunnerExecutor::new(node, settings))).map(Group::new)
    }
}

impl GroupParent {
    /// Creates the member and attaches it to this parent.
    fn attach<M: Member>(self, member: impl FnOnce(Node) -> Arc<M>) -> Result<Arc<M>, GroupError> {
        let dynamic = |member: &Arc<M>| unsize!(Arc::clone(member) => dyn Member);
        match self {
            Self::Member(parent, name) => {
                let member = member(adopt::new_node(parent.node().tree(), &parent, Some(&name))?);
                adopt::adopt(&parent, dynamic(&member))?;
                Ok(member)
            }
            Self::Token(token) => {
                let tree = token.tree();
                let id = tree.next_id();
                let member = member(Node::new(NodeParent::Root(Arc::clone(tree)), id, Name::generated(id)));
                match token.attach(&dynamic(&member)) {
                    Ok(registration) => member.node().attach_below(token.clone(), registration),
                    Err(cause) => node::cancel(&dynamic(&member), &cause),
                }
                Ok(member)
            }
        }
    }
}

impl<T> fmt::Debug for GroupBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut builder = f.debug_struct("GroupBuilder");
        match &self.parent {
            GroupParent::Member(parent, name) => builder.field("parent", &parent.node().path()).field("name", name),
            GroupParent::Token(token) => builder.field("token", token),
        };
        builder.field("limit", &self.settings.limit).field("buffer", &self.settings.buffer).finish_non_exhaustive()
    }
}

impl Scope {
    /// Starts building a group called `name` in this scope.
    ///
    /// Failures of its tasks go to the readers of the group and do not cancel the scope.
    pub fn group<T>(&self, name: &str) -> GroupBuilder<T> {
        GroupBuilder::below(self.any().member, name)
    }
}

impl<A: Actor> Context<A> {
    /// Starts building a group called `name` among the children of this actor.
    ///
    /// The group is cancelled when this incarnation of the actor ends.
    pub fn group<T>(&self, name: &str) -> GroupBuilder<T> {
        GroupBuilder::below(self.member(), name)
    }
}
