//! `System`: the root of a tree of actors, and its owner.
//!
//! Under the root stand `/user`, where everything a user starts lives, and `/system`, which outlives it at shutdown.

pub(crate) mod mount;
pub(crate) mod root_context;

use crate::actor::actor_ref::ActorRef;
use crate::actor::props::Props;
use crate::actor::spawn::SpawnError;
use crate::actor::spawn_started::Starting;
use crate::actor::{Actor, spawn, spawn_started};
use crate::base::runtime::Runtime;
use crate::base::time::Instant;
use crate::events::cause::Cause;
use crate::events::counts::Counts;
use crate::events::event::{Event, EventKinds};
use crate::events::failure::FailureInfo;
use crate::events::hub::{FailureEventHub, Listener, Listening};
use crate::group::builder::GroupBuilder;
use crate::ids::name::{Name, NameError};
use crate::ids::path::ActorPath;
use crate::routing::pool::builder::PoolBuilder;
use crate::scope::Scope;
use crate::scope::member::{ScopeMember, ScopeRole};
use crate::scope::supervisor::{Guardian, Supervisor};
use crate::system::root_context::RootContext;
use crate::tree::adopt::Refusal;
use crate::tree::member::{Member, StopMode};
use crate::tree::node::Running;
use crate::tree::supervision::escalate::EscalationSink;
use crate::tree::supervision::strategy::SupervisorStrategy;
use crate::tree::supervision::unhandled::Escalations;
use crate::tree::token::CancelToken;
use crate::tree::wait_all::{WaitAll, WaitError, write_running};
use crate::tree::{Tree, TreeSettings, node, wait_all};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

/// A whole tree of actors and scopes, on one runtime. Dropping it cancels everything in it; [`shutdown`](Self::shutdown) is the kind way.
pub struct System {
    name: String,
    root: Arc<ScopeMember>,
    user: Arc<ScopeMember>,
    system: Arc<ScopeMember>,
}

/// How a system is set up; from [`System::builder`].
#[must_use = "a system is made by `build`"]
pub struct SystemBuilder {
    name: String,
    runtime: Arc<dyn Runtime>,
    settings: TreeSettings,
    root_sink: Option<Arc<dyn EscalationSink>>,
    on_root_failure: Option<Box<dyn FnOnce(&RootContext) + Send + Sync>>,
    listeners: Vec<Listener>,
}

impl SystemBuilder {
    /// How long a `stopped` hook may take. Five seconds unless given.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace;
        self
    }

    /// How long a handler may be at one message before [`Lint::LongHandler`](crate::Lint::LongHandler) tells of it. A second unless
    /// given.
    pub fn long_handler(mut self, threshold: Duration) -> Self {
        self.settings.long_handler = threshold;
        self
    }

    /// Supervises the children of everything that has no strategy of its own, those at the top included. One-for-one, restart, three
    /// times in five seconds, unless given.
    pub fn strategy(mut self, strategy: impl SupervisorStrategy) -> Self {
        self.settings.strategy = Some(Arc::new(strategy));
        self
    }

    /// Takes what supervisors hand up that neither have nor inherit a sink. Each one's own parent decides, unless given.
    pub fn escalate_to(mut self, sink: impl EscalationSink) -> Self {
        self.settings.sink = Some(Arc::new(sink));
        self
    }

    /// Takes every failure that came up to the root, before the root handler does. One that it refuses, or panics at, goes on to the
    /// handler, else it is kept for [`take_escalations`](System::take_escalations).
    pub fn root_sink(mut self, sink: impl EscalationSink) -> Self {
        self.root_sink = Some(Arc::new(sink));
        self
    }

    /// Hears every event from the very first one on; see [`RootContext::on_event`]. Several may be given.
    pub fn on_event(mut self, listener: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.listeners.push(Arc::new(listener));
        self
    }

    /// Given every failure that came up to the root unhandled, in the task in which it did: be quick. It may ask for a shutdown
    /// ([`RootContext::begin_shutdown`], [`RootContext::kill`]). What it was given is handled, and
    /// [`take_escalations`](System::take_escalations) does not have it, unless the handler panics: that is a failure on record.
    pub fn on_root_failure(mut self, handler: impl Fn(&FailureInfo, &RootContext) + Send + Sync + 'static) -> Self {
        self.on_root_failure = Some(Box::new(move |root| root.set_on_root_failure(handler)));
        self
    }

    /// Makes the system.
    pub fn build(self) -> Result<System, NameError> {
        Name::new(&self.name)?;
        let tree = Tree::with(self.runtime, self.settings);
        for listener in self.listeners {
            tree.events.listen(EventKinds::ALL, listener);
        }
        let root = ScopeMember::top(&tree);
        let top: Arc<dyn Member> = Arc::clone(&root) as Arc<dyn Member>;
        let below = |name| ScopeMember::below(&top, Some(name), ScopeRole::Top);
        // The system guardian is started first and so ends last. A fresh root takes both.
        let guardians = below("system").and_then(|system| Ok((system, below("user")?)));
        let (system, user) = guardians.expect("a fresh root takes two children of different names");
        if let Some(sink) = self.root_sink {
            tree.unhandled.give_to(sink);
        }
        if let Some(set_handler) = self.on_root_failure {
            set_handler(&RootContext::new(Arc::clone(&root), Arc::clone(&user)));
        }
        Ok(System { name: self.name, root, user, system })
    }
}

impl System {
    /// A system called `name` on `runtime`, to be set up further.
    pub fn builder(name: &str, runtime: Arc<dyn Runtime>) -> SystemBuilder {
        SystemBuilder {
            name: name.to_string(),
            runtime,
            settings: TreeSettings::default(),
            root_sink: None,
            on_root_failure: None,
            listeners: Vec::new(),
        }
    }

    /// The name it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A handle for everywhere: spawn, look up and listen from outside any actor.
    pub fn root(&self) -> RootContext {
        RootContext::new(Arc::clone(&self.root), Arc::clone(&self.user))
    }

    /// Starts an actor at `/user/name`.
    pub fn spawn<A: Actor>(&self, name: &str, props: Props<A>) -> Result<ActorRef<A::Msg>, SpawnError<A>> {
        spawn::actor(&self.user_member(), Some(name), props)
    }

    /// As [`spawn`](Self::spawn), and waits until its `started` hook has returned `Ok`, also if that takes restarts. The actor is spawned by
    /// the call itself, and lives on if the future is dropped.
    ///
    /// ```
    /// use pleach::{Actor, BoxError, Context, Dispatcher, Props, System};
    ///
    /// struct Listener;
    ///
    /// impl Actor for Listener {
    ///     type Msg = ();
    ///     type Error = BoxError;
    ///
    ///     async fn started(&mut self, _cx: &mut Context<Self>) -> Result<(), BoxError> {
    ///         Ok(()) // bind the port here
    ///     }
    ///
    ///     async fn handle(&mut self, (): (), _cx: &mut Context<Self>) -> Result<(), BoxError> {
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let sim = Dispatcher::seeded(1);
    /// let system = System::builder("server", sim.runtime()).build().unwrap();
    /// let listener = sim.simulate(system.spawn_started("listener", Props::new(|| Listener))).unwrap();
    /// assert!(listener.is_ok(), "the port is bound");
    /// ```
    pub fn spawn_started<A: Actor>(&self, name: &str, props: Props<A>) -> Starting<A> {
        spawn_started::actor(&self.user_member(), name, props)
    }

    /// Starts an actor that needs no name.
    pub fn spawn_unnamed<A: Actor>(&self, props: Props<A>) -> Result<ActorRef<A::Msg>, SpawnError<A>> {
        spawn::actor(&self.user_member(), None, props)
    }

    /// A supervisor at `/user/name`.
    pub fn supervisor(&self, name: &str, strategy: impl SupervisorStrategy) -> Result<Supervisor, Refusal> {
        Supervisor::below(&self.user_member(), name, strategy)
    }

    /// A pool of `size` actors at `/user/name`; `props` gives the recipe for each place.
    /// [`build`](PoolBuilder::build) starts it.
    pub fn pool<A: Actor>(
        &self,
        name: &str,
        size: usize,
        props: impl Fn(usize) -> Props<A> + Send + Sync + 'static,
    ) -> PoolBuilder<A::Msg> {
        PoolBuilder::new(self.user_member(), name, size, props)
    }

    /// A group at `/user/name`; [`build`](GroupBuilder::build) makes it.
    pub fn group<T>(&self, name: &str) -> GroupBuilder<T> {
        GroupBuilder::below(self.user_member(), name)
    }

    /// A scope at `/user/name`.
    pub fn scope(&self, name: &str) -> Result<Scope, Refusal> {
        Scope::below(&self.user_member(), Some(name))
    }

    /// The guardian of `/user`, where everything lives that is started through this handle.
    pub fn user_guardian(&self) -> Guardian {
        Supervisor::of(Arc::clone(&self.user))
    }

    /// The guardian of `/system`: what is started there outlives everything below `/user` at shutdown.
    pub fn system_guardian(&self) -> Guardian {
        Supervisor::of(Arc::clone(&self.system))
    }

    /// What became of every message there ever was.
    pub fn counts(&self) -> Counts {
        self.root().counts()
    }

    /// How many failures are on record.
    pub fn failures(&self) -> usize {
        self.root().failures()
    }

    /// How many failures came up to the root unhandled.
    pub fn unhandled(&self) -> usize {
        self.root().unhandled()
    }

    /// Takes the failures that nobody handled, not even a root handler; see [`RootContext::take_escalations`].
    pub fn take_escalations(&self) -> Escalations {
        self.root().take_escalations()
    }

    /// Where this system tells what happens in it.
    pub fn hub(&self) -> FailureEventHub {
        self.root().hub()
    }

    /// Hears every event from now on; see [`RootContext::on_event`].
    pub fn on_event(&self, listener: impl Fn(&Event) + Send + Sync + 'static) -> Listening {
        self.root().on_event(listener)
    }

    /// Shuts down: starts nothing more, lets every actor finish what is in its mailbox, youngest first, and cancels after `grace`
    /// whatever has not ended. `Err` names what was still running then: `Late` if it has ended since, `Stuck` if it has not within the
    /// grace that the system gives its hooks.
    ///
    /// A shutdown that has begun goes on if this future is dropped, and what has not ended is cancelled then too.
    ///
    /// Called from inside an actor or task of this system it begins the shutdown and answers at once with an error, since it cannot
    /// wait for itself.
    pub async fn shutdown(&self, grace: Duration) -> Result<(), ShutdownError> {
        let inside = wait_all::inside(self.root.node());
        Arc::clone(&self.root).stop_by(StopMode::Close);
        let mut deadline =
            ShutdownDeadline { root: self.root_member(), at: self.root.node().runtime().now() + grace, is_open: true };
        if let Some(child) = inside {
            // Dropping the deadline leaves it to a task.
            return Err(ShutdownError::FromInside(child));
        }
        let ended = WaitAll::of(self.root_member(), Some(grace)).await;
        deadline.is_open = false;
        match ended {
            Err(WaitError::StillRunning(late)) => {
                let late = without_guardians(late);
                node::cancel(&self.root_member(), &Cause::DeadlineExceeded);
                self.last_wait(late).await
            }
            _ => Ok(()),
        }
    }

    /// After the cancel everything ends at its next await. What does not is inside one poll, and is named.
    async fn last_wait(&self, late: Vec<Running>) -> Result<(), ShutdownError> {
        let wait = self.root.node().tree().grace;
        match WaitAll::of(self.root_member(), Some(wait)).await {
            Err(WaitError::StillRunning(stuck)) => Err(ShutdownError::Stuck(without_guardians(stuck))),
            _ => Err(ShutdownError::Late(late)),
        }
    }

    /// A token that is cancelled as soon as this system begins to end: at the start of a shutdown, by a [`kill`](Self::kill), or when it is
    /// dropped. For what must let go early, as a loop that accepts connections. Cancelling it ends nothing.
    ///
    /// ```
    /// use pleach::{Dispatcher, Props, System};
    ///
    /// let sim = Dispatcher::seeded(1);
    /// let system = System::builder("server", sim.runtime()).build().unwrap();
    /// let begun = system.shutdown_token();
    /// let scope = system.scope("listener").unwrap();
    /// scope.launch(async move {
    ///     // In a server: accept connections until then.
    ///     begun.cancelled().await;
    /// }).unwrap();
    /// assert!(sim.simulate(system.shutdown(core::time::Duration::from_secs(1))).unwrap().is_ok());
    /// ```
    pub fn shutdown_token(&self) -> CancelToken {
        self.root.node().closing_token()
    }

    /// Cancels everything at once, without waiting.
    pub fn kill(&self) {
        node::cancel(&self.root_member(), &Cause::Cancelled);
    }

    /// Waits until nothing runs any more, after a [`kill`](Self::kill) or a shutdown that somebody else began.
    pub fn ended(&self) -> WaitAll {
        WaitAll::of(self.root_member(), None)
    }

    pub(crate) fn root_member(&self) -> Arc<dyn Member> {
        Arc::clone(&self.root) as Arc<dyn Member>
    }

    fn user_member(&self) -> Arc<dyn Member> {
        Arc::clone(&self.user) as Arc<dyn Member>
    }
}

impl Drop for System {
    fn drop(&mut self) {
        node::cancel(&self.root_member(), &Cause::Dropped);
    }
}

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("System").field("name", &self.name).field("counts", &self.counts()).finish_non_exhaustive()
    }
}

/// `/user` and `/system` wait for what is below them, and are nobody's fault.
fn without_guardians(mut running: Vec<Running>) -> Vec<Running> {
    running.retain(|one| one.path.steps().len() > 1);
    running
}

/// When a shutdown cancels what has not ended. If nobody waits for it any more, a task does.
struct ShutdownDeadline {
    root: Arc<dyn Member>,
    at: Instant,
    is_open: bool,
}

impl Drop for ShutdownDeadline {
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        let (root, runtime) = (Arc::clone(&self.root), self.root.node().runtime());
        let ended = WaitAll::of(Arc::clone(&root), Some(self.at.since(runtime.now())));
        runtime.spawn(Box::pin(async move {
            if let Err(WaitError::StillRunning(_)) = ended.await {
                node::cancel(&root, &Cause::DeadlineExceeded);
            }
        }));
    }
}

/// Why a shutdown was not clean.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ShutdownError {
    /// These did not end within the grace period; they were cancelled, and have ended since.
    Late(Vec<Running>),
    /// These did not even end after they were cancelled: each is inside one poll that does not return.
    Stuck(Vec<Running>),
    /// It was called from inside the system. The shutdown has begun and goes on; it cannot be awaited from here.
    FromInside(ActorPath),
}

impl fmt::Display for ShutdownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late(late) => {
                f.write_str("cancelled at the end of the grace period, ")?;
                write_running(f, late)
            }
            Self::Stuck(stuck) => {
                f.write_str("not ended even after the cancel, ")?;
                write_running(f, stuck)
            }
            Self::FromInside(path) => write!(f, "{path} began the shutdown of its own system and cannot wait for it"),
        }
    }
}

impl core::error::Error for ShutdownError {}
