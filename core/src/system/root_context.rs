//! `RootContext`: a handle to a system for code that is neither part of the tree nor its owner.

use crate::actor::actor_ref::ActorRef;
use crate::actor::props::Props;
use crate::actor::spawn::SpawnError;
use crate::actor::{Actor, spawn};
use crate::base::catch;
use crate::base::reason::Reason;
use crate::base::sync::{Arc, unsize};
use crate::events::cause::Cause;
use crate::events::counts::Counts;
use crate::events::event::Event;
use crate::events::failure::FailureInfo;
use crate::events::health_report::{HealthReport, Problem};
use crate::events::hub::{EventHub, ListenerHandle};
use crate::events::signal::Terminated;
use crate::ids::path::ActorPath;
use crate::inspect::health::Health;
use crate::inspect::snapshot::{Snapshot, SnapshotError, SnapshotQuery};
use crate::mailbox::send_error::SendError;
use crate::scope::member::ScopeMember;
use crate::tree::any_ref::AnyRef;
use crate::tree::child;
use crate::tree::member::{Member, StopMode};
use crate::tree::node;
use crate::tree::node::Running;
use crate::tree::sample;
use crate::tree::sample::ActorSample;
use crate::tree::supervision::sink::EscalationSink;
use crate::tree::supervision::unhandled::Escalations;
use crate::tree::supervision::unhandled::RootHandler;
use crate::tree::token::CancelToken;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;

/// A non-owning handle to a system, to spawn, look up, watch and count from anywhere.
///
/// Clones refer to the same system. Dropping it has no effect.
///
/// ```
/// use pleach::prelude::*;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), pleach::Error> {
/// let system = ActorSystem::new("shop")?;
/// let root = system.root();
/// let echo = root.spawn("echo", Props::from_fn(|| (), |_, _: u32| Ok::<(), String>(())))?;
/// assert_eq!(root.lookup::<u32>(&echo.path()).unwrap(), echo);
/// assert!(root.lookup::<String>(&echo.path()).is_err(), "the actor accepts u32");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RootContext {
    root: Arc<ScopeMember>,
    user: Arc<ScopeMember>,
}

impl RootContext {
    pub(crate) fn new(root: Arc<ScopeMember>, user: Arc<ScopeMember>) -> Self {
        Self { root, user }
    }

    /// Starts an actor at `/user/name`.
    ///
    /// # Errors
    /// Returns the props in [`SpawnError`] if the system is shutting down, the name is invalid or
    /// in use, or the mailbox has no capacity.
    pub fn spawn<A: Actor>(&self, name: &str, props: Props<A>) -> Result<ActorRef<A::Msg>, SpawnError<A>> {
        let user: Arc<dyn Member> = unsize!(Arc::clone(&self.user) => dyn Member);
        spawn::actor(&user, Some(name), props)
    }

    /// Starts an actor below `/user` with a generated name.
    ///
    /// # Errors
    /// See [`spawn`](Self::spawn).
    pub fn spawn_unnamed<A: Actor>(&self, props: Props<A>) -> Result<ActorRef<A::Msg>, SpawnError<A>> {
        let user: Arc<dyn Member> = unsize!(Arc::clone(&self.user) => dyn Member);
        spawn::actor(&user, None, props)
    }

    /// Returns the live member at `path`, whatever its kind. `None` for a path on another machine.
    pub fn lookup_any(&self, path: &ActorPath) -> Option<AnyRef> {
        child::descend(&self.root_member(), path).map(|member| AnyRef { member })
    }

    /// Lists the members below a path, one page at a time, as plain values.
    ///
    /// No member is sent a message and no task is woken. The lock of a member is held for the time
    /// that reading one member takes. A page costs about 1 µs per member, whatever the number of
    /// siblings before it.
    ///
    /// # Errors
    /// [`SnapshotError::NotFound`] if no live member has the path of the query.
    ///
    /// ```
    /// use pleach::BoxError;
    /// use pleach::inspect::SnapshotQuery;
    /// use pleach::prelude::*;
    /// use pleach::runtime::Dispatcher;
    /// use pleach::system::System;
    ///
    /// let sim = Dispatcher::seeded(1);
    /// let system = System::builder("shop", sim.runtime()).build().unwrap();
    /// for name in ["till", "stock", "mail"] {
    ///     system.spawn(name, Props::from_fn(|| (), |_, _: u32| Ok::<(), BoxError>(()))).unwrap();
    /// }
    /// sim.drain_ready();
    /// let mut query = SnapshotQuery::at("/user".parse().unwrap()).limit(2);
    /// let mut listed = Vec::new();
    /// loop {
    ///     let page = system.snapshot(&query).unwrap();
    ///     listed.extend(page.members.iter().map(|member| member.path.to_string()));
    ///     match page.next {
    ///         Some(cursor) => query = query.after(cursor),
    ///         None => break,
    ///     }
    /// }
    /// assert_eq!(listed, ["/user", "/user/till", "/user/stock", "/user/mail"]);
    /// ```
    pub fn snapshot(&self, query: &SnapshotQuery) -> Result<Snapshot, SnapshotError> {
        query.run(&self.root_member())
    }

    /// Returns the health of this system, with reasons. A readiness probe can serve
    /// [`Health::is_ready`].
    ///
    /// Nothing is measured in advance. Rare events are kept when they happen. Everything else is
    /// found by looking at members: one call looks at up to 20,000 of them and the next call
    /// continues there, so a call costs a few milliseconds at most. How long a mailbox is full or a
    /// handler runs is counted from the first call that finds it, or exactly while a listener wants
    /// lints. So call it regularly, for example every 5 s.
    ///
    /// ```
    /// use pleach::inspect::Problem;
    /// use pleach::runtime::Dispatcher;
    /// use pleach::system::System;
    ///
    /// let sim = Dispatcher::seeded(1);
    /// let system = System::builder("shop", sim.runtime()).build().unwrap();
    /// assert!(system.health().is_healthy());
    /// let problem = Problem::new("printer", "the printer is out of paper; no receipts").advice("add paper");
    /// let report = system.root().report_health(problem);
    /// assert_eq!(system.health().to_string(), "degraded\n- /: the printer is out of paper; no receipts; add paper");
    /// assert!(system.health().is_ready(), "the problem does not block readiness");
    /// drop(report);
    /// assert!(system.health().is_healthy());
    /// ```
    pub fn health(&self) -> Health {
        Health::of(&self.root_member())
    }

    /// Reports a problem of the program, which is part of the [health](Self::health) until the
    /// returned report is dropped. [`AnyRef::report_health`] reports it for one member.
    pub fn report_health(&self, problem: Problem) -> HealthReport {
        self.any().report_health(problem)
    }

    /// Forgets all supervisors that gave up, so that they are no longer part of the
    /// [health](Self::health). One whose child runs again is forgotten without this.
    pub fn forget_give_ups(&self) {
        self.root.node().tree().give_ups.clear();
    }

    /// Returns an untyped reference to the root of the system.
    pub fn any(&self) -> AnyRef {
        AnyRef { member: self.root_member() }
    }

    fn root_member(&self) -> Arc<dyn Member> {
        unsize!(Arc::clone(&self.root) => dyn Member)
    }

    /// Returns the actor at `path` if its message type is `M`.
    ///
    /// # Errors
    /// [`LookupError::NotFound`] if no member has this path; [`LookupError::WrongType`] if it is
    /// not an actor with message type `M`.
    pub fn lookup<M: Send + 'static>(&self, path: &ActorPath) -> Result<ActorRef<M>, LookupError> {
        let found = self.lookup_any(path).ok_or_else(|| LookupError::NotFound(path.clone()))?;
        found.actor().ok_or_else(|| LookupError::WrongType { path: path.clone(), asked: core::any::type_name::<M>() })
    }

    /// Sends a message to the actor at `path`, without waiting.
    ///
    /// # Errors
    /// Returns the message in [`DispatchError`] if the lookup fails or the actor does not accept
    /// it.
    pub fn dispatch<M: Send + 'static>(&self, path: &ActorPath, message: M) -> Result<(), DispatchError<M>> {
        match self.lookup(path) {
            Ok(actor) => actor.tell(message).map_err(DispatchError::Send),
            Err(reason) => Err(DispatchError::Lookup { reason, message }),
        }
    }

    /// Waits for the exit of `other`; ready at once if it has exited. A restart is not an exit.
    ///
    /// Dropping the future ends the watch.
    pub fn watch(&self, other: &AnyRef) -> impl Future<Output = Terminated> + Send + use<> {
        let (id, path, exited) = (other.id(), other.path(), other.exited());
        async move { Terminated { id, path, exit: exited.await } }
    }

    /// Returns the message counts of all actors that ever ran in this system.
    pub fn counts(&self) -> Counts {
        self.root.node().counts_below()
    }

    /// Calls `visit` with a sample of each running actor, for metrics. Takes time in proportion to
    /// the number of members, and holds no lock for longer than one of them needs.
    pub fn sample_actors(&self, mut visit: impl FnMut(&ActorSample)) {
        sample::visit(unsize!(Arc::clone(&self.root) => dyn Member), &mut visit);
    }

    /// Returns the number of failures reported so far.
    pub fn failures(&self) -> usize {
        self.root.node().events().failure_count()
    }

    /// Calls `listener` for every event from now on, on the thread where the event happens.
    ///
    /// The listener must return quickly. A panic in it does not affect the system. It stays
    /// registered until the handle is stopped; dropping the handle has no effect.
    pub fn on_event(&self, listener: impl Fn(&Event) + Send + Sync + 'static) -> ListenerHandle {
        self.hub().listen(listener)
    }

    /// Returns the event hub of this system, for subscriptions with their own queue.
    pub fn hub(&self) -> EventHub {
        EventHub::of(&self.root.node().tree().events)
    }

    /// Returns the number of failures that reached the root unhandled.
    pub fn unhandled(&self) -> usize {
        self.root.node().tree().unhandled.count()
    }

    /// Returns and clears the failures that reached the root and were not handled there: the first
    /// 256 since the last call, and the number of further ones.
    pub fn take_escalations(&self) -> Escalations {
        self.root.node().tree().unhandled.take()
    }

    /// Sets the handler for failures that reach the root. Replaces the previous one.
    ///
    /// See [`SystemBuilder::on_root_failure`](crate::SystemBuilder::on_root_failure). Failures kept
    /// before stay available in [`take_escalations`](Self::take_escalations).
    pub fn set_on_root_failure(&self, handler: impl Fn(&FailureInfo, &RootContext) + Send + Sync + 'static) {
        self.root.node().tree().unhandled.set_handler(self.guard_handler(handler));
    }

    /// Sets the sink for supervisors without an own or inherited sink.
    ///
    /// See [`SystemBuilder::escalate_to`](crate::SystemBuilder::escalate_to).
    /// [`ParentSink`](crate::ParentSink) restores the default.
    pub fn set_escalation_sink(&self, sink: impl EscalationSink) {
        self.root.node().tree().set_sink(unsize!(Arc::new(sink) => dyn EscalationSink));
    }

    /// Sets a sink for failures that neither the root's sink nor its handler takes.
    pub(crate) fn escalate_outside(&self, sink: impl EscalationSink) {
        self.root.node().tree().unhandled.set_outer_sink(unsize!(Arc::new(sink) => dyn EscalationSink));
    }

    /// Wraps a root handler: passes it a `RootContext` and reports its panics. Holds the tree
    /// weakly.
    fn guard_handler(&self, handler: impl Fn(&FailureInfo, &RootContext) + Send + Sync + 'static) -> RootHandler {
        let (root, user) = (Arc::downgrade(&self.root), Arc::downgrade(&self.user));
        let guarded = Arc::new(move |failure: &FailureInfo| {
            // The failed member keeps the root alive. `/user` may be gone if the owner dropped the
            // system; the root, which is cancelled then, replaces it and refuses everything as
            // well.
            let Some(root) = root.upgrade() else { return false };
            let user = user.upgrade().unwrap_or_else(|| Arc::clone(&root));
            let context = Self::new(root, user);
            let outcome = catch::catch(|| handler(failure, &context));
            outcome.map_err(|reason| context.root.node().events().record_failure(&context.failure(reason))).is_ok()
        });
        unsize!(guarded => dyn Fn(&FailureInfo) -> bool + Send + Sync)
    }

    /// Creates a failure of the root itself.
    pub(crate) fn failure(&self, reason: Reason) -> FailureInfo {
        self.root.node().failure(0, reason)
    }

    /// Returns everything that runs in this system, in start order.
    pub fn running(&self) -> Vec<Running> {
        self.root.node().running()
    }

    /// Begins a shutdown without waiting. Nothing new starts; everything is closed, youngest first.
    pub fn begin_shutdown(&self) {
        self.root.stop_with(&self.root_member(), StopMode::Close);
    }

    /// Returns a token that is cancelled when this system begins to end; see
    /// [`System::shutdown_token`](crate::System::shutdown_token).
    pub fn shutdown_token(&self) -> CancelToken {
        self.root.node().closing_token()
    }

    /// Cancels everything in this system, without waiting.
    pub fn cancel(&self, cause: impl Into<Cause>) {
        node::cancel(&(unsize!(Arc::clone(&self.root) => dyn Member)), &cause.into());
    }
}

impl fmt::Debug for RootContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RootContext").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

/// The reason why a lookup found no actor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LookupError {
    /// No live member has this path.
    NotFound(ActorPath),
    /// The member at this path is not an actor with the requested message type.
    WrongType {
        /// The path that was looked up.
        path: ActorPath,
        /// The name of the requested message type.
        asked: &'static str,
    },
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(path) => write!(f, "no member found at {path}; check the path, or start it first"),
            Self::WrongType { path, asked } => write!(f, "the member at {path} is not an actor with message type {asked}"),
        }
    }
}

impl core::error::Error for LookupError {}

/// The reason why a message was not delivered to a path. Holds the message.
pub enum DispatchError<M> {
    /// The lookup of the path failed.
    Lookup {
        /// The reason why the lookup failed.
        reason: LookupError,
        /// The message that was not sent.
        message: M,
    },
    /// The actor did not accept the message.
    Send(SendError<M>),
}

impl<M> fmt::Display for DispatchError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lookup { reason, .. } => write!(f, "{reason}"),
            Self::Send(error) => write!(f, "{error}"),
        }
    }
}

impl<M> fmt::Debug for DispatchError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lookup { reason, .. } => f.debug_struct("Lookup").field("reason", reason).finish_non_exhaustive(),
            Self::Send(error) => f.debug_tuple("Send").field(error).finish(),
        }
    }
}

impl<M> core::error::Error for DispatchError<M> {}
