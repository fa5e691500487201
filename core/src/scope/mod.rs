//! `Scope`: an owner of whatever is started in it. Dropping it cancels all of that; waiting for it waits for all of it.

pub(crate) mod blocking;
pub(crate) mod launch;
pub(crate) mod member;
pub(crate) mod producer;
pub(crate) mod supervisor;

use crate::actor::actor_ref::ActorRef;
use crate::actor::context::Context;
use crate::actor::props::Props;
use crate::actor::spawn::SpawnError;
use crate::actor::spawn_started::Starting;
use crate::actor::{Actor, spawn, spawn_started};
#[cfg(feature = "std")]
use crate::base::block_on;
use crate::events::cause::{Cause, Exit};
use crate::ids::name::Name;
use crate::ids::path::{ActorId, ActorPath};
use crate::scope::launch::Launch;
use crate::scope::member::{ScopeMember, ScopeRole};
use crate::scope::producer::{Produced, Producer};
use crate::scope::supervisor::Supervisor;
use crate::tree::adopt::Refusal;
use crate::tree::any_ref::{AnyRef, Exited};
use crate::tree::member::{Member, StopMode};
use crate::tree::node;
use crate::tree::node::{Node, NodeParent};
use crate::tree::supervision::strategy::SupervisorStrategy;
use crate::tree::task::{LaunchError, Outcome, Task};
use crate::tree::token::CancelToken;
use crate::tree::wait_all::{WaitAll, WaitError, outcome};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;
use core::time::Duration;

/// An owner of tasks, actors, producers and further scopes. Cancelling it, or dropping it, reaches all of them.
///
/// A task that fails cancels the scope, and [`wait_all`](Self::wait_all) returns that failure; an actor that fails follows its
/// supervision first (restart, three times in five seconds) and cancels the scope only when that gives up.
pub struct Scope {
    member: Arc<ScopeMember>,
    /// Of the tasks launched through this handle.
    cancel_grace: Option<Duration>,
}

impl Scope {
    /// A scope below `token`: cancelled with it. It stands at the top of a tree of its own.
    pub fn under(token: &CancelToken) -> Self {
        let tree = token.tree();
        let id = tree.next_id();
        let node = Node::new(NodeParent::Root(Arc::clone(tree)), id, Name::made(id));
        let member = Arc::new(ScopeMember { node, role: ScopeRole::Scope });
        let dynamic: Arc<dyn Member> = Arc::clone(&member) as Arc<dyn Member>;
        match token.attach(&dynamic) {
            Ok(place) => member.node.hang_below(token.clone(), place),
            Err(cause) => node::cancel(&dynamic, &cause),
        }
        Self { member, cancel_grace: None }
    }

    pub(crate) fn below(parent: &Arc<dyn Member>, name: Option<&str>) -> Result<Self, Refusal> {
        ScopeMember::below(parent, name, ScopeRole::Scope).map(|member| Self { member, cancel_grace: None })
    }

    /// A scope within this one. If it fails, so does this one.
    pub fn scope(&self, name: &str) -> Result<Scope, Refusal> {
        Self::below(&self.member.as_member(), Some(name))
    }

    /// A scope within this one whose failures stay in it: tasks that fail cancel nothing.
    pub fn isolated_scope(&self, name: &str) -> Result<Scope, Refusal> {
        let member = ScopeMember::below(&self.member.as_member(), Some(name), ScopeRole::IsolatedScope)?;
        Ok(Self { member, cancel_grace: None })
    }

    /// A supervisor within this scope.
    pub fn supervisor(&self, name: &str, strategy: impl SupervisorStrategy) -> Result<Supervisor, Refusal> {
        Supervisor::below(&self.member.as_member(), name, strategy)
    }

    /// Runs a future as a child. A scope that is shutting down refuses and hands the future back.
    ///
    /// The future may return `()` or a `Result`; an `Err` or a panic is a failure and cancels the scope.
    pub fn launch<F>(&self, future: F) -> Result<Task, LaunchError<F>>
    where
        F: Future<Output: Outcome> + Send + 'static,
    {
        self.task().launch(future)
    }

    /// Gives every task that is launched in this scope from now on a [cancel grace](Launch::cancel_grace) of `grace`. Scopes and actors
    /// within it have their own.
    #[must_use]
    pub fn with_cancel_grace(mut self, grace: Duration) -> Self {
        self.cancel_grace = Some(grace);
        self
    }

    /// A task to be given a name or kept apart before it is launched.
    pub fn task(&self) -> Launch<'_> {
        Launch { scope: self, name: None, isolated: false, cancel_grace: self.cancel_grace }
    }

    /// Runs a producer as a child, and gives the receiver of what it sends. At most `capacity` items (at least one) wait between
    /// them. The channel closes when the producer returns, fails or is cancelled.
    pub fn produce<T, F>(&self, capacity: usize, producer: impl FnOnce(Producer<T>) -> F) -> Result<Produced<T>, LaunchError<F>>
    where
        T: Send + 'static,
        F: Future<Output: Outcome> + Send + 'static,
    {
        producer::produce(&self.member.as_member(), capacity, producer)
    }

    /// Starts an actor called `name` as a child.
    ///
    /// ```
    /// use pleach::{BoxError, CancelToken, Dispatcher, Props, Scope};
    ///
    /// let sim = Dispatcher::seeded(1);
    /// let scope = Scope::under(&CancelToken::root(sim.runtime()));
    /// let adder = scope.spawn("adder", Props::from_fn(|| 0, |sum: &mut u32, n: u32| {
    ///     *sum += n;
    ///     Ok::<(), BoxError>(())
    /// })).unwrap();
    /// adder.tell(1).unwrap();
    /// ```
    pub fn spawn<A: Actor>(&self, name: &str, props: Props<A>) -> Result<ActorRef<A::Msg>, SpawnError<A>> {
        spawn::actor(&self.member.as_member(), Some(name), props)
    }

    /// Starts an actor that needs no name.
    pub fn spawn_unnamed<A: Actor>(&self, props: Props<A>) -> Result<ActorRef<A::Msg>, SpawnError<A>> {
        spawn::actor(&self.member.as_member(), None, props)
    }

    /// As [`spawn`](Self::spawn), by its earlier name.
    pub fn actor<A: Actor>(&self, name: &str, props: Props<A>) -> Result<ActorRef<A::Msg>, SpawnError<A>> {
        spawn::actor(&self.member.as_member(), Some(name), props)
    }

    /// As [`spawn`](Self::spawn), and waits until its `started` hook has returned `Ok`, also if that takes restarts. The actor is spawned by
    /// the call itself, and lives on if the future is dropped.
    pub fn spawn_started<A: Actor>(&self, name: &str, props: Props<A>) -> Starting<A> {
        spawn_started::actor(&self.any().member, name, props)
    }

    /// The token of this scope: cancelled with it or when it has ended, and the other way round.
    pub fn token(&self) -> CancelToken {
        node::token(&self.member.as_member())
    }

    /// Cancels everything in the scope, and the scope takes nothing more. The first cause wins.
    pub fn cancel(&self, cause: impl Into<Cause>) {
        node::cancel(&self.member.as_member(), &cause.into());
    }

    /// Ends the children one after the other, the youngest first, each after what it has in hand.
    pub fn stop(&self) {
        Arc::clone(&self.member).stop_by(StopMode::Stop);
    }

    /// Takes nothing more, and ends when all children have ended of themselves: actors after what is in their mailboxes.
    pub fn close(&self) {
        Arc::clone(&self.member).stop_by(StopMode::Close);
    }

    /// Waits until every child has ended and every `on_done` of theirs has run. Any number of callers.
    ///
    /// Gives the first failure that cancelled the scope, if there was one. Awaited from inside a child it is an error and not a
    /// deadlock.
    pub fn wait_all(&self) -> WaitAll {
        WaitAll::of(self.member.as_member(), None)
    }

    /// As [`wait_all`](Self::wait_all), but answers after `wait` at the latest, with what is still running.
    pub fn wait_all_for(&self, wait: Duration) -> WaitAll {
        WaitAll::of(self.member.as_member(), Some(wait))
    }

    /// Answers at once: `Ok` only when there are no children.
    pub fn try_wait_all(&self) -> Result<(), WaitError> {
        if self.member.node.has_children() {
            return Err(WaitError::StillRunning(self.member.node.running()));
        }
        outcome(&self.member.node)
    }

    /// Runs `f` with the exit of the scope, once: when it ends, or at once if it has.
    pub fn on_done(&self, f: impl FnOnce(&Exit) + Send + 'static) {
        self.member.node.on_done(Box::new(f));
    }

    /// Waits for the scope itself to end, which it does after a cancel, stop or close, when its last child has.
    pub fn exited(&self) -> Exited {
        self.any().exited()
    }

    /// Who it is.
    pub fn id(&self) -> ActorId {
        self.member.node.id()
    }

    /// Where it stands in the tree.
    pub fn path(&self) -> ActorPath {
        self.member.node.path()
    }

    /// The live children in start order.
    pub fn children(&self) -> Vec<AnyRef> {
        self.member.node.children().into_iter().map(|member| AnyRef { member }).collect()
    }

    /// The scope as something in the tree.
    pub fn any(&self) -> AnyRef {
        AnyRef { member: self.member.as_member() }
    }
}

impl<A: Actor> Context<A> {
    /// A scope among the children of this actor. It is an owner: dropping it cancels what it holds.
    pub fn scope(&self, name: &str) -> Result<Scope, Refusal> {
        Scope::below(&self.member(), Some(name))
    }
}

#[cfg(feature = "std")]
impl Scope {
    /// As [`wait_all_for`](Self::wait_all_for), from a plain thread: it answers in time even when every worker of the runtime is stuck
    /// inside a poll.
    pub fn blocking_wait_all_for(&self, wait: Duration) -> Result<(), WaitError> {
        block_on::block_on_for(self.wait_all(), wait).unwrap_or_else(|| self.try_wait_all())
    }
}

/// Dropping the owner cancels what it owns, without waiting.
impl Drop for Scope {
    fn drop(&mut self) {
        node::cancel(&self.member.as_member(), &Cause::Dropped);
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope({})", self.path())
    }
}
