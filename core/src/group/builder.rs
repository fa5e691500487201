//! `GroupBuilder`: how a group is set up, and where it stands.

use crate::actor::Actor;
use crate::actor::context::Context;
use crate::group::error::GroupError;
use crate::group::handle::Group;
use crate::group::in_place::InPlace;
use crate::group::in_place::member::InPlaceMember;
use crate::group::overflow::Overflow;
use crate::group::runners::RunnerExecutor;
use crate::group::state::Settings;
use crate::ids::name::Name;
use crate::scope::Scope;
use crate::tree::adopt;
use crate::tree::member::Member;
use crate::tree::node;
use crate::tree::node::{Node, NodeParent};
use crate::tree::token::CancelToken;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;

/// How many errors a group keeps to be collected, unless it is requests otherwise.
pub const ERRORS_KEPT_DEFAULT: usize = 1_024;

/// What becomes of a panic in a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PanicPolicy {
    /// It is a [`TaskError::Panicked`](crate::group::error::TaskError::Panicked) like any other error.
    #[default]
    Error,
    /// It goes on in whoever reads that result with `next`, and in whoever is requests of it as the first error by `wait`. The first of
    /// them gets what the panic carried, any other its text.
    Resume,
}

/// How a group is set up; from `system.group(name)`, `scope.group(name)`, `cx.group(name)` or [`GroupBuilder::under`].
#[must_use = "a group is made by `build`"]
pub struct GroupBuilder<T> {
    parent: GroupParent,
    settings: Settings,
    of: PhantomData<fn() -> T>,
}

/// Where the group will stand.
enum GroupParent {
    Member(Arc<dyn Member>, String),
    Token(CancelToken),
}

impl<T> GroupBuilder<T> {
    /// A group at the top of a tree of its own, cancelled with `token`.
    pub fn under(token: &CancelToken) -> Self {
        Self::at(GroupParent::Token(token.clone()))
    }

    pub(crate) fn below(parent: Arc<dyn Member>, name: &str) -> Self {
        Self::at(GroupParent::Member(parent, name.to_string()))
    }

    fn at(parent: GroupParent) -> Self {
        let settings = Settings {
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

    /// At most `limit` tasks are in flight at once; `go` waits for a slot. No limit unless given.
    pub fn limit(mut self, limit: usize) -> Self {
        self.settings.limit = limit;
        self
    }

    /// At most `buffer` results are unread at once: a task is taken only when there will be room for its result, so `go` waits for
    /// readers too. While somebody is in `wait` this does not hold. No bound unless given.
    pub fn buffer(mut self, buffer: usize) -> Self {
        self.settings.buffer = buffer;
        self
    }

    /// Drops the result of a task that ends while as many as the [`buffer`](Self::buffer) are unread. `go` does not wait for readers then.
    /// `dropped()` counts what was dropped; errors are kept for `errors()` and `wait` all the same.
    pub fn drop_newest(mut self) -> Self {
        self.settings.overflow = Overflow::DropNewest;
        self
    }

    /// As [`drop_newest`](Self::drop_newest), but drops the oldest unread result and keeps the new one.
    pub fn drop_oldest(mut self) -> Self {
        self.settings.overflow = Overflow::DropOldest;
        self
    }

    /// Whether the first task that fails cancels the group. It does unless requests otherwise.
    pub fn fail_fast(mut self, fail_fast: bool) -> Self {
        self.settings.fail_fast = fail_fast;
        self
    }

    /// What becomes of a panic in a task.
    pub fn panic_policy(mut self, policy: PanicPolicy) -> Self {
        self.settings.resume_panics = policy == PanicPolicy::Resume;
        self
    }

    /// How many errors are kept for `errors()`: the first 1,024 unless given. All of them can be read with `next`.
    pub fn errors_kept(mut self, kept: usize) -> Self {
        self.settings.errors_kept = kept;
        self
    }

    /// Lets every task that has begun run on for `grace` after a cancel of the group, to tidy up; then it is dropped. Without it a cancel
    /// drops the tasks at their next await. [`NewTask::cancel_grace`](crate::group::new_task::NewTask::cancel_grace) gives one task its own.
    ///
    /// A task learns of the cancel by the token of the group. It ends with [`TaskError::TidiedUp`](crate::group::error::TaskError::TidiedUp) if it
    /// reuse in time, and its value is dropped; with [`TaskError::Cancelled`](crate::group::error::TaskError::Cancelled) if it was dropped. A task
    /// that was cancelled before its first poll is dropped at once. Only for groups on the runtime: [`in_place`](Self::in_place) rejects it.
    ///
    /// ```
    /// use pleach::{CancelToken, Dispatcher, GroupBuilder, TaskError};
    /// use std::time::Duration;
    ///
    /// let dispatcher = Dispatcher::seeded(1);
    /// let group = GroupBuilder::<()>::under(&CancelToken::root(dispatcher.runtime()))
    ///     .cancel_grace(Duration::from_secs(5))
    ///     .build()?;
    /// dispatcher.simulate(async {
    ///     let task = group.go_with(|token| async move {
    ///         token.cancelled().await;
    ///         // Here it flushes, says goodbye, gives back what it holds.
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

    /// The same group for tasks of another type.
    pub(super) fn of<U>(self) -> GroupBuilder<U> {
        GroupBuilder { parent: self.parent, settings: self.settings, of: PhantomData }
    }

    fn check(&self) -> Result<(), GroupError> {
        match (self.settings.limit, self.settings.buffer) {
            (0, _) => Err(GroupError::NoLimit),
            (_, 0) => Err(GroupError::NoBuffer),
            _ => Ok(()),
        }
    }

    /// Makes a group whose tasks are polled by whoever polls the group: nothing is spawned, and tasks may borrow from the caller.
    ///
    /// # Errors
    /// [`GroupError::GraceInPlace`] with a [`cancel_grace`](Self::cancel_grace): such a group leaves the tree with its cancel, and nobody
    /// need poll it after that.
    pub fn in_place<'env>(self) -> Result<InPlace<'env, T>, GroupError> {
        self.check()?;
        if self.settings.cancel_grace.is_some() {
            return Err(GroupError::GraceInPlace);
        }
        let settings = self.settings;
        self.parent.take(|node| Arc::new(InPlaceMember::new(node))).map(|member| InPlace::new(member, settings))
    }
}

impl<T: Send + 'static> GroupBuilder<T> {
    /// Makes the group. Its tasks run on the runtime.
    pub fn build(self) -> Result<Group<T>, GroupError> {
        self.check()?;
        let settings = self.settings;
        self.parent.take(|node| Arc::new(RunnerExecutor::new(node, settings))).map(Group::new)
    }
}

impl GroupParent {
    /// Puts a member there.
    fn take<M: Member>(self, member: impl FnOnce(Node) -> Arc<M>) -> Result<Arc<M>, GroupError> {
        let dynamic = |member: &Arc<M>| Arc::clone(member) as Arc<dyn Member>;
        match self {
            Self::Member(parent, name) => {
                let member = member(adopt::new_node(parent.node().tree(), &parent, Some(&name))?);
                adopt::adopt(&parent, dynamic(&member))?;
                Ok(member)
            }
            Self::Token(token) => {
                let tree = token.tree();
                let id = tree.next_id();
                let member = member(Node::new(NodeParent::Root(Arc::clone(tree)), id, Name::made(id)));
                match token.attach(&dynamic(&member)) {
                    Ok(parent) => member.node().hang_below(token.clone(), parent),
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
    /// A group called `name` within this scope; [`build`](GroupBuilder::build) makes it. Its failures are its readers' and do not cancel the
    /// scope.
    pub fn group<T>(&self, name: &str) -> GroupBuilder<T> {
        GroupBuilder::below(self.any().member, name)
    }
}

impl<A: Actor> Context<A> {
    /// A group among the children of this actor; [`build`](GroupBuilder::build) makes it. It is an owner, and it is cancelled when this
    /// incarnation ends.
    pub fn group<T>(&self, name: &str) -> GroupBuilder<T> {
        GroupBuilder::below(self.member(), name)
    }
}
