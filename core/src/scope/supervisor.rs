//! `Supervisor`: a scope that restarts its children, and what can be done with them at run time.

use crate::actor::actor_ref::ActorRef;
use crate::actor::context::Context;
use crate::actor::props::Props;
use crate::actor::spawn::SpawnError;
use crate::actor::spawn_started::Starting;
use crate::actor::{Actor, spawn, spawn_started};
use crate::ids::path::ActorPath;
use crate::scope::member::{ScopeMember, ScopeRole};
use crate::tree::adopt::Refusal;
use crate::tree::any_ref::{AnyRef, Exited};
use crate::tree::child;
use crate::tree::child::ChildError;
use crate::tree::member::{Member, StopMode};
use crate::tree::supervision::escalate::EscalationSink;
use crate::tree::supervision::strategy::SupervisorStrategy;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

/// A scope that restarts its actors from their props. Dropping this handle does nothing.
///
/// When its own parent restarts it, its children are stopped in reverse order and start again from their props, in order, addresses kept.
#[derive(Clone)]
pub struct Supervisor {
    member: Arc<ScopeMember>,
}

/// A supervisor at the top of a system: `/user`, where everything a user starts lives, or `/system`, which outlives it at shutdown. A
/// failure that one of them hands up goes to the root, and the rest of its children go on.
pub type Guardian = Supervisor;

impl Supervisor {
    pub(crate) fn below(parent: &Arc<dyn Member>, name: &str, strategy: impl SupervisorStrategy) -> Result<Self, Refusal> {
        let strategy: Arc<dyn SupervisorStrategy> = Arc::new(strategy);
        Self::with(parent, name, Some(strategy))
    }

    /// With the system's default in place of a strategy, if none is given.
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

    /// Starts a child called `name`, also while others are restarting.
    pub fn spawn<A: Actor>(&self, name: &str, props: Props<A>) -> Result<ActorRef<A::Msg>, SpawnError<A>> {
        spawn::actor(&self.as_member(), Some(name), props)
    }

    /// As [`spawn`](Self::spawn), and waits until its `started` hook has returned `Ok`, also if that takes restarts. The actor is spawned by
    /// the call itself, and lives on if the future is dropped.
    pub fn spawn_started<A: Actor>(&self, name: &str, props: Props<A>) -> Starting<A> {
        spawn_started::actor(&self.as_member(), name, props)
    }

    /// Starts a child that needs no name.
    pub fn spawn_unnamed<A: Actor>(&self, props: Props<A>) -> Result<ActorRef<A::Msg>, SpawnError<A>> {
        spawn::actor(&self.as_member(), None, props)
    }

    /// A supervisor below this one.
    pub fn supervisor(&self, name: &str, strategy: impl SupervisorStrategy) -> Result<Supervisor, Refusal> {
        Self::below(&self.as_member(), name, strategy)
    }

    /// The live children in start order.
    pub fn children(&self) -> Vec<AnyRef> {
        self.member.node().children().into_iter().map(|member| AnyRef { member }).collect()
    }

    /// The live child called `name`.
    pub fn child(&self, name: &str) -> Option<AnyRef> {
        child::child(self.member.node(), name).ok()
    }

    /// Stops a child for good, whatever its restart policy, and gives it, to wait for its exit.
    pub fn stop_child(&self, name: &str) -> Result<AnyRef, ChildError> {
        child::stop_child(self.member.node(), name)
    }

    /// Starts a child afresh: an actor after the message in hand, a supervisor with all its children. Counts as no failure.
    pub fn restart_child(&self, name: &str) -> Result<(), ChildError> {
        child::restart_child(self.member.node(), name)
    }

    /// Sets the sink for failures that this supervisor hands up, from now on, in place of the one it had or inherited.
    /// [`ParentGuardianSink`](crate::ParentGuardianSink) hands them to its parent.
    pub fn set_escalation_sink(&self, sink: impl EscalationSink) {
        let sink: Arc<dyn EscalationSink> = Arc::new(sink);
        let replaced = self.member.node().with_supervision(|supervision| supervision.sink.replace(sink));
        drop(replaced);
    }

    /// Stops it for good: its children one after the other, the youngest first, each after the message in hand.
    ///
    /// ```
    /// use pleach::{Dispatcher, Exit, OneForOne, System};
    ///
    /// let sim = Dispatcher::seeded(1);
    /// let system = System::builder("shop", sim.runtime()).build().unwrap();
    /// let crew = system.supervisor("crew", OneForOne::new()).unwrap();
    /// crew.stop();
    /// assert_eq!(sim.simulate(crew.exited()).unwrap(), Exit::Stopped);
    /// ```
    pub fn stop(&self) {
        Arc::clone(&self.member).stop_by(StopMode::Stop);
    }

    /// Waits for its end and gives the exit. A restart is no end.
    pub fn exited(&self) -> Exited {
        self.any().exited()
    }

    /// The supervisor as something in the tree: to stop, close, cancel, watch or wait for.
    pub fn any(&self) -> AnyRef {
        AnyRef { member: self.as_member() }
    }

    /// Where it stands in the tree.
    pub fn path(&self) -> ActorPath {
        self.member.node().path()
    }

    fn as_member(&self) -> Arc<dyn Member> {
        Arc::clone(&self.member) as Arc<dyn Member>
    }
}

impl<A: Actor> Context<A> {
    /// A supervisor among the children of this actor.
    pub fn supervisor(&self, name: &str, strategy: impl SupervisorStrategy) -> Result<Supervisor, Refusal> {
        Supervisor::below(&self.member(), name, strategy)
    }
}

impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Supervisor({})", self.path())
    }
}
