//! Scopes: owners of tasks, actors, producers and further scopes.
//!
//! | module | owns |
//! |---|---|
//! | `mod` | [`Scope`], the owning handle |
//! | `member` | `ScopeMember`: the member of a scope, supervisor or guardian |
//! | `launch` | [`Launch`]: options of a task |
//! | `supervisor` | [`Supervisor`]: a scope that restarts its children |
//! | `producer` | a task that fills a bounded channel |
//! | `blocking` | blocking jobs on their own threads |
//!
//! Invariants:
//! 1. A scope exits after its last child, and only after it was stopped, closed or cancelled.
//! 2. Dropping a [`Scope`] cancels it and does not wait.
//! 3. No lock is held while user code runs.

pub(crate) mod blocking;
pub(crate) mod launch;
pub(crate) mod member;
pub(crate) mod producer;
pub(crate) mod supervisor;

use crate::actor::actor_ref::ActorRef;
use crate::actor::context::Context;
use crate::actor::props::Props;
use crate::actor::spawn::SpawnError;
use crate::actor::spawn_started::SpawnStarted;
use crate::actor::{Actor, spawn, spawn_started};
#[cfg(feature = "std")]
use crate::base::block_on;
use crate::base::sync::{Arc, unsize};
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
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;
use core::time::Duration;

/// Owns tasks, actors, producers and further scopes. Cancelling or dropping it cancels all of them.
///
/// A failed task cancels the scope, and [`wait_all`](Self::wait_all) returns that failure. A failed
/// actor is supervised first (by default: restarted up to three times in five seconds) and cancels
/// the scope only if its supervision gives up.
///
/// ```
/// use pleach::prelude::*;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), pleach::Error> {
/// let scope = pleach::scope()?;
/// let sleeper = scope.launch(std::future::pending::<()>())?;
/// scope.launch(async { Err("disk full") })?;
///
/// // The failure cancels the other task, and `wait_all` returns it.
/// assert!(scope.wait_all().await.is_err());
/// assert!(matches!(sleeper.exited().await, Exit::Cancelled(Cause::Failed(_))));
/// # Ok(())
/// # }
/// ```
pub struct Scope {
    member: Arc<ScopeMember>,
    /// The cancel grace of tasks launched through this handle.
    cancel_grace: Option<Duration>,
}

impl Scope {
    /// Creates a scope that is cancelled with `token`. The scope is the root of its own tree.
    pub fn under(token: &CancelToken) -> Self {
        let tree = token.tree();
        let id = tree.next_id();
        let node = Node::new(NodeParent::Root(Arc::clone(tree)), id, Name::generated(id));
        let member = Arc::new(ScopeMember { node, role: ScopeRole::Scope, started: tree.runtime.now() });
        let dynamic = unsize!(Arc::clone(&member) => dyn Member);
        match token.attach(&dynamic) {
            Ok(registration) => member.node.attach_below(token.clone(), registration),
            Err(cause) => node::cancel(&dynamic, &cause),
        }
        Self { member, cancel_grace: None }
    }

    pub(crate) fn below(parent: &Arc<dyn Member>, name: Option<&str>) -> Result<Self, Refusal> {
        ScopeMember::below(parent, name, ScopeRole::Scope).map(|member| Self { member, cancel_grace: None })
    }

    /// Creates a scope within this one. If it fails, this one fails too.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if this scope is closing, or the name is invalid or in use.
    pub fn scope(&self, name: &str) -> Result<Scope, Refusal> {
        Self::below(&ScopeMember::as_member(&self.member), Some(name))
    }

    /// Creates a scope for one run of a graph. It is a scope like any other, and has the kind
    /// [`MemberKind::Run`](crate::MemberKind::Run) in snapshots.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if this scope is closing, or the name is invalid or in use.
    pub fn run_scope(&self, name: &str) -> Result<Scope, Refusal> {
        let member = ScopeMember::below(&ScopeMember::as_member(&self.member), Some(name), ScopeRole::Run)?;
        Ok(Self { member, cancel_grace: None })
    }

    /// Creates a scope within this one that keeps its failures: a failed task cancels nothing.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if this scope is closing, or the name is invalid or in use.
    pub fn isolated_scope(&self, name: &str) -> Result<Scope, Refusal> {
        let member = ScopeMember::below(&ScopeMember::as_member(&self.member), Some(name), ScopeRole::IsolatedScope)?;
        Ok(Self { member, cancel_grace: None })
    }

    /// Creates a supervisor within this scope.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if this scope is closing, or the name is invalid or in use.
    pub fn supervisor(&self, name: &str, strategy: impl SupervisorStrategy) -> Result<Supervisor, Refusal> {
        Supervisor::below(&ScopeMember::as_member(&self.member), name, strategy)
    }

    /// Runs a future as a child of this scope.
    ///
    /// The future returns `()` or a `Result`. An `Err` or a panic is a failure and cancels the
    /// scope. [`task`](Self::task) sets options.
    ///
    /// # Errors
    /// Returns the future in [`LaunchError`] if the scope is closing.
    pub fn launch<F>(&self, future: F) -> Result<Task, LaunchError<F>>
    where
        F: Future<Output: Outcome> + Send + 'static,
    {
        self.task().launch(future)
    }

    /// Sets the [cancel grace](Launch::cancel_grace) of tasks launched through this handle.
    /// Default: none.
    ///
    /// Scopes and actors within this scope have their own.
    #[must_use]
    pub fn with_cancel_grace(mut self, grace: Duration) -> Self {
        self.cancel_grace = Some(grace);
        self
    }

    /// Starts building a task with a name, isolation or a cancel grace.
    pub fn task(&self) -> Launch<'_> {
        Launch { scope: self, name: None, isolated: false, cancel_grace: self.cancel_grace }
    }

    /// Runs a producer as a child, and returns the receiver of its items.
    ///
    /// At most `capacity` items are queued; 0 counts as 1. The channel closes when the producer
    /// returns, fails or is cancelled.
    ///
    /// # Errors
    /// Returns the future in [`LaunchError`] if the scope is closing.
    pub fn produce<T, F>(&self, capacity: usize, producer: impl FnOnce(Producer<T>) -> F) -> Result<Produced<T>, LaunchError<F>>
    where
        T: Send + 'static,
        F: Future<Output: Outcome> + Send + 'static,
    {
        producer::produce(&ScopeMember::as_member(&self.member), capacity, producer)
    }

    /// Starts an actor called `name` as a child of this scope.
    ///
    /// # Errors
    /// Returns the props in [`SpawnError`] if the scope is closing, the name is invalid or in use,
    /// or the mailbox has no capacity.
    ///
    /// ```
    /// use pleach::{BoxError, CancelToken, Props, Scope};
    /// use pleach::runtime::Dispatcher;
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
        spawn::actor(&ScopeMember::as_member(&self.member), Some(name), props)
    }

    /// Starts an actor with a generated name. Otherwise like [`spawn`](Self::spawn).
    pub fn spawn_unnamed<A: Actor>(&self, props: Props<A>) -> Result<ActorRef<A::Msg>, SpawnError<A>> {
        spawn::actor(&ScopeMember::as_member(&self.member), None, props)
    }

    /// Starts an actor and waits until its `started` hook has returned `Ok`, including restarts.
    ///
    /// The call itself spawns the actor, which keeps running if the future is dropped.
    pub fn spawn_started<A: Actor>(&self, name: &str, props: Props<A>) -> SpawnStarted<A> {
        spawn_started::actor(&self.any().member, name, props)
    }

    /// Returns the token of this scope. Cancelling either one cancels the other; the token is also
    /// cancelled when the scope has ended.
    pub fn token(&self) -> CancelToken {
        node::token(&ScopeMember::as_member(&self.member))
    }

    /// Cancels everything in the scope. The scope accepts no further child. The first cause is
    /// kept.
    pub fn cancel(&self, cause: impl Into<Cause>) {
        node::cancel(&ScopeMember::as_member(&self.member), &cause.into());
    }

    /// Stops the children one after the other, the youngest first, each after its current message.
    pub fn stop(&self) {
        self.member.stop_with(&ScopeMember::as_member(&self.member), StopMode::Stop);
    }

    /// Closes the scope: it accepts no further child and exits after its last child has ended.
    /// Actors process their queued messages first.
    pub fn close(&self) {
        self.member.stop_with(&ScopeMember::as_member(&self.member), StopMode::Close);
    }

    /// Waits until every child has ended and all their `on_done` callbacks have run.
    ///
    /// Any number of callers may wait. Cancel safe.
    ///
    /// # Errors
    /// Returns the first failure that cancelled the scope. Awaited inside a child of the scope, it
    /// returns an error instead of deadlocking.
    pub fn wait_all(&self) -> WaitAll {
        WaitAll::new(ScopeMember::as_member(&self.member), None)
    }

    /// Waits like [`wait_all`](Self::wait_all), but at most `wait`.
    ///
    /// # Errors
    /// Returns [`WaitError::StillRunning`] with the running members after `wait`.
    pub fn wait_all_for(&self, wait: Duration) -> WaitAll {
        WaitAll::new(ScopeMember::as_member(&self.member), Some(wait))
    }

    /// Returns at once whether all children have ended.
    ///
    /// # Errors
    /// Returns [`WaitError::StillRunning`] if the scope has children, otherwise as
    /// [`wait_all`](Self::wait_all).
    pub fn try_wait_all(&self) -> Result<(), WaitError> {
        if self.member.node.has_children() {
            return Err(WaitError::StillRunning(self.member.node.running()));
        }
        outcome(&self.member.node)
    }

    /// Runs `f` once with the exit of the scope: when it exits, or at once if it has exited.
    pub fn on_done(&self, f: impl FnOnce(&Exit) + Send + 'static) {
        self.member.node.on_done(Box::new(f));
    }

    /// Waits until the scope itself has exited. It exits after a cancel, stop or close, when its
    /// last child has ended.
    pub fn exited(&self) -> Exited {
        self.any().exited()
    }

    /// Returns the id of the scope.
    pub fn id(&self) -> ActorId {
        self.member.node.id()
    }

    /// Returns the path of the scope in the tree.
    pub fn path(&self) -> ActorPath {
        self.member.node.path()
    }

    /// Returns the live children in start order.
    pub fn children(&self) -> Vec<AnyRef> {
        self.member.node.children().into_iter().map(|member| AnyRef { member }).collect()
    }

    /// Returns an untyped reference to the scope, to stop, watch or wait for it.
    pub fn any(&self) -> AnyRef {
        AnyRef { member: ScopeMember::as_member(&self.member) }
    }
}

impl<A: Actor> Context<A> {
    /// Creates a scope among the children of this actor. Dropping the scope cancels its members.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if the actor is stopping, or the name is invalid or in use.
    pub fn scope(&self, name: &str) -> Result<Scope, Refusal> {
        Scope::below(&self.member(), Some(name))
    }
}

#[cfg(feature = "std")]
impl Scope {
    /// Blocks the calling thread like [`wait_all_for`](Self::wait_all_for).
    ///
    /// Returns in time even if every worker thread of the runtime is stuck in a poll. Do not call
    /// it inside an async task.
    pub fn blocking_wait_all_for(&self, wait: Duration) -> Result<(), WaitError> {
        block_on::block_on_for(self.wait_all(), wait).unwrap_or_else(|| self.try_wait_all())
    }
}

/// Dropping the scope cancels its members, without waiting for them.
impl Drop for Scope {
    fn drop(&mut self) {
        node::cancel(&ScopeMember::as_member(&self.member), &Cause::Dropped);
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope({})", self.path())
    }
}
