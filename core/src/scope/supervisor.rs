//! `Supervisor`: a scope that restarts its children, and operations on single children.

use crate::actor::actor_ref::ActorRef;
use crate::actor::context::Context;
use crate::actor::props::Props;
use crate::actor::spawn::SpawnError;
use crate::actor::spawn_started::SpawnStarted;
use crate::actor::{Actor, spawn, spawn_started};
use crate::base::sync::{Arc, unsize};
use crate::ids::path::ActorPath;
use crate::scope::member::{ScopeMember, ScopeRole};
use crate::tree::adopt::Refusal;
use crate::tree::any_ref::{AnyRef, Exited};
use crate::tree::child;
use crate::tree::child::ChildError;
use crate::tree::member::{Member, StopMode};
use crate::tree::supervision::sink::EscalationSink;
use crate::tree::supervision::strategy::SupervisorStrategy;
use alloc::vec::Vec;
use core::fmt;

/// A scope that restarts failed actors from their props. Dropping this handle has no effect.
///
/// If its own parent restarts it, its children are stopped in reverse order and started again in
/// order, from their props. Their addresses stay valid.
///
/// ```
/// use pleach::prelude::*;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), pleach::Error> {
/// let system = ActorSystem::new("shop")?;
/// let strategy = OneForOne::new().restart_limit(3, Duration::from_secs(5));
/// let workers = system.supervisor("workers", strategy)?;
/// let sum = workers.spawn("sum", Props::from_fn(|| 0, |sum: &mut u32, n: u32| {
///     *sum += n;
///     if n > 0 { Ok(()) } else { Err("zero") }
/// }))?;
/// for n in [5, 0, 7] {
///     sum.tell(n)?; // the second message fails, and the actor restarts
/// }
/// sum.close();
/// assert_eq!(sum.exited().await, Exit::Closed);
/// assert_eq!(sum.counts().failed, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Supervisor {
    member: Arc<ScopeMember>,
}

/// A supervisor at the top of a system: `/user` or `/system`.
///
/// `/user` holds everything that users start. `/system` is shut down after it. A failure that a
/// guardian passes up goes to the root, and its other children continue.
pub type Guardian = Supervisor;

impl Supervisor {
    pub(crate) fn below(parent: &Arc<dyn Member>, name: &str, strategy: impl SupervisorStrategy) -> Result<Self, Refusal> {
        let strategy = unsize!(Arc::new(strategy) => dyn SupervisorStrategy);
        Self::with(parent, name, Some(strategy))
    }

    /// Creates a supervisor. Without a strategy, it uses the default of the system.
    pub(crate) fn with(
        parent: &Arc<dyn Member>,
        name: &str,
        strategy: Option<Arc<dyn SupervisorStrategy>>,
    ) -> Result<Self, Refusal> {
        let member = ScopeMember::below(parent, Some(name), ScopeRole::Supervisor)?;
        member.node().with_supervision(|supervision| supervision.strategy = strategy);
        Ok(Self { member })
    }

    pub(crate) fn of(member: Arc<ScopeMember>) -> Self {
        Self { member }
    }

    /// Starts an actor called `name` as a child, also while other children restart.
    ///
    /// # Errors
    /// Returns the props in [`SpawnError`] if the supervisor is stopping, the name is invalid or in
    /// use, or the mailbox has no capacity.
    pub fn spawn<A: Actor>(&self, name: &str, props: Props<A>) -> Result<ActorRef<A::Msg>, SpawnError<A>> {
        spawn::actor(&self.as_member(), Some(name), props)
    }

    /// Starts an actor and waits until its `started` hook has returned `Ok`, including restarts.
    ///
    /// The call itself spawns the actor, which keeps running if the future is dropped.
    pub fn spawn_started<A: Actor>(&self, name: &str, props: Props<A>) -> SpawnStarted<A> {
        spawn_started::actor(&self.as_member(), name, props)
    }

    /// Starts an actor with a generated name. Otherwise like [`spawn`](Self::spawn).
    pub fn spawn_unnamed<A: Actor>(&self, props: Props<A>) -> Result<ActorRef<A::Msg>, SpawnError<A>> {
        spawn::actor(&self.as_member(), None, props)
    }

    /// Creates a supervisor below this one.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if this one is stopping, or the name is invalid or in use.
    pub fn supervisor(&self, name: &str, strategy: impl SupervisorStrategy) -> Result<Supervisor, Refusal> {
        Self::below(&self.as_member(), name, strategy)
    }

    /// Returns the live children in start order.
    pub fn children(&self) -> Vec<AnyRef> {
        self.member.node().children().into_iter().map(|member| AnyRef { member }).collect()
    }

    /// Returns the live child called `name`.
    pub fn child(&self, name: &str) -> Option<AnyRef> {
        child::child(self.member.node(), name).ok()
    }

    /// Stops a child permanently, whatever its restart policy. Returns a reference to wait for its
    /// exit.
    ///
    /// # Errors
    /// Returns a [`ChildError`] if no such child exists.
    pub fn stop_child(&self, name: &str) -> Result<AnyRef, ChildError> {
        child::stop_child(self.member.node(), name)
    }

    /// Restarts a child: an actor after its current message, a supervisor with all its children.
    /// Does not count as a failure.
    ///
    /// # Errors
    /// Returns a [`ChildError`] if no such child exists, or it is a task or scope, which cannot
    /// restart.
    pub fn restart_child(&self, name: &str) -> Result<(), ChildError> {
        child::restart_child(self.member.node(), name)
    }

    /// Sets the sink for failures that this supervisor passes up. Replaces its own or inherited
    /// sink.
    ///
    /// [`ParentSink`](crate::ParentSink) passes them to the parent, which is the
    /// default.
    pub fn set_escalation_sink(&self, sink: impl EscalationSink) {
        let sink = unsize!(Arc::new(sink) => dyn EscalationSink);
        let replaced = self.member.node().with_supervision(|supervision| supervision.sink.replace(sink));
        drop(replaced);
    }

    /// Stops the supervisor permanently: its children one after the other, the youngest first, each
    /// after its current message.
    ///
    /// ```
    /// use pleach::Exit;
    /// use pleach::runtime::Dispatcher;
    /// use pleach::supervise::OneForOne;
    /// use pleach::system::System;
    ///
    /// let sim = Dispatcher::seeded(1);
    /// let system = System::builder("shop", sim.runtime()).build().unwrap();
    /// let workers = system.supervisor("workers", OneForOne::new()).unwrap();
    /// workers.stop();
    /// assert_eq!(sim.simulate(workers.exited()).unwrap(), Exit::Stopped);
    /// ```
    pub fn stop(&self) {
        self.member.stop_with(&self.as_member(), StopMode::Stop);
    }

    /// Waits for the exit of the supervisor. A restart is not an exit.
    pub fn exited(&self) -> Exited {
        self.any().exited()
    }

    /// Returns an untyped reference, to stop, close, cancel, watch or wait for the supervisor.
    pub fn any(&self) -> AnyRef {
        AnyRef { member: self.as_member() }
    }

    /// Returns the path of the supervisor in the tree.
    pub fn path(&self) -> ActorPath {
        self.member.node().path()
    }

    fn as_member(&self) -> Arc<dyn Member> {
        unsize!(Arc::clone(&self.member) => dyn Member)
    }
}

impl<A: Actor> Context<A> {
    /// Creates a supervisor among the children of this actor.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if the actor is stopping, or the name is invalid or in use.
    pub fn supervisor(&self, name: &str, strategy: impl SupervisorStrategy) -> Result<Supervisor, Refusal> {
        Supervisor::below(&self.member(), name, strategy)
    }
}

impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Supervisor({})", self.path())
    }
}
