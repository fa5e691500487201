//! `System`: the root of a tree of actors, and its owner.
//!
//! ```text
//!  /            root: failures that reach it are unhandled
//!  ├─ /system   guardian; started first, ends last
//!  └─ /user     guardian; everything that users start
//! ```
//!
//! | module | owns |
//! |---|---|
//! | `mod` | [`System`], the owning handle |
//! | `builder` | [`SystemBuilder`]: options and defaults |
//! | `shutdown` | the time limit of a shutdown, and its errors |
//! | `root_context` | [`RootContext`]: the non-owning handle |
//! | `seal` | the end of start-up: a system that allocates nothing more |
//! | `mount` | a system as a child of another system's scope |

pub(crate) mod builder;
pub(crate) mod mount;
pub(crate) mod root_context;
pub(crate) mod seal;
pub(crate) mod shutdown;

use crate::actor::actor_ref::ActorRef;
use crate::actor::props::Props;
use crate::actor::spawn::SpawnError;
use crate::actor::spawn_started::SpawnStarted;
use crate::actor::{Actor, spawn, spawn_started};
use crate::base::runtime::Runtime;
use crate::base::sync::{Arc, unsize};
use crate::events::cause::Cause;
use crate::events::counts::Counts;
use crate::events::event::Event;
use crate::events::hub::{EventHub, ListenerHandle};
use crate::group::builder::GroupBuilder;
use crate::inspect::health::Health;
use crate::inspect::snapshot::{Snapshot, SnapshotError, SnapshotQuery};
use crate::routing::pool::builder::pool_method;
use crate::scope::Scope;
use crate::scope::member::ScopeMember;
use crate::scope::supervisor::{Guardian, Supervisor};
use crate::system::builder::SystemBuilder;
use crate::system::root_context::RootContext;
use crate::tree::adopt::Refusal;
use crate::tree::member::Member;
use crate::tree::node;
use crate::tree::supervision::strategy::SupervisorStrategy;
use crate::tree::supervision::unhandled::Escalations;
use crate::tree::token::CancelToken;
use crate::tree::wait_all::WaitAll;
use alloc::string::String;
use core::fmt;

/// A tree of actors and scopes on one runtime. Dropping it cancels everything in it.
///
/// [`shutdown`](Self::shutdown) ends it in an orderly way.
///
/// ```
/// use pleach::{BoxError, Props};
/// use pleach::runtime::Dispatcher;
/// use pleach::system::System;
/// use std::time::Duration;
///
/// let sim = Dispatcher::seeded(1);
/// let system = System::builder("shop", sim.runtime()).build().unwrap();
/// let sum = system.spawn("sum", Props::from_fn(|| 0, |sum: &mut u32, n: u32| {
///     *sum += n;
///     Ok::<(), BoxError>(())
/// })).unwrap();
/// sum.tell(7).unwrap();
///
/// let ended = sim.simulate(system.shutdown(Duration::from_secs(5))).unwrap();
/// assert!(ended.is_ok());
/// assert_eq!(system.counts().handled, 1, "queued messages are handled first");
/// ```
pub struct System {
    name: String,
    root: Arc<ScopeMember>,
    user: Arc<ScopeMember>,
    system: Arc<ScopeMember>,
}

impl System {
    /// Starts building a system called `name` on `runtime`.
    pub fn builder(name: &str, runtime: Arc<dyn Runtime>) -> SystemBuilder {
        SystemBuilder::new(name).runtime(runtime)
    }

    /// Returns the name of the system.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a non-owning handle, to spawn, look up and listen from anywhere.
    pub fn root(&self) -> RootContext {
        RootContext::new(Arc::clone(&self.root), Arc::clone(&self.user))
    }

    /// Starts an actor at `/user/name`.
    ///
    /// # Errors
    /// Returns the props in [`SpawnError`] if the system is shutting down, the name is invalid or
    /// in use, or the mailbox has no capacity.
    pub fn spawn<A: Actor>(&self, name: &str, props: Props<A>) -> Result<ActorRef<A::Msg>, SpawnError<A>> {
        spawn::actor(&self.user_member(), Some(name), props)
    }

    /// Starts an actor and waits until its `started` hook has returned `Ok`, including restarts.
    ///
    /// The call itself spawns the actor, which keeps running if the future is dropped.
    ///
    /// ```
    /// use pleach::{Actor, BoxError, Context, Props};
    /// use pleach::runtime::Dispatcher;
    /// use pleach::system::System;
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
    /// let starting = system.spawn_started("listener", Props::new(|| Listener));
    /// let listener = sim.simulate(starting).unwrap();
    /// assert!(listener.is_ok(), "the port is bound");
    /// ```
    pub fn spawn_started<A: Actor>(&self, name: &str, props: Props<A>) -> SpawnStarted<A> {
        spawn_started::actor(&self.user_member(), name, props)
    }

    /// Starts an actor below `/user` with a generated name. Otherwise like [`spawn`](Self::spawn).
    pub fn spawn_unnamed<A: Actor>(&self, props: Props<A>) -> Result<ActorRef<A::Msg>, SpawnError<A>> {
        spawn::actor(&self.user_member(), None, props)
    }

    /// Creates a supervisor at `/user/name`.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if the system is shutting down, or the name is invalid or in use.
    pub fn supervisor(&self, name: &str, strategy: impl SupervisorStrategy) -> Result<Supervisor, Refusal> {
        Supervisor::below(&self.user_member(), name, strategy)
    }

    pool_method! {
        /// Starts building a pool of `size` actors at `/user/name`. `props` returns the props of
        /// the worker with a given index. [`build`](crate::PoolBuilder::build) starts it.
        |system| system.user_member()
    }

    /// Starts building a group at `/user/name`. [`build`](GroupBuilder::build) creates it.
    pub fn group<T>(&self, name: &str) -> GroupBuilder<T> {
        GroupBuilder::below(self.user_member(), name)
    }

    /// Creates a scope at `/user/name`.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if the system is shutting down, or the name is invalid or in use.
    pub fn scope(&self, name: &str) -> Result<Scope, Refusal> {
        Scope::below(&self.user_member(), Some(name))
    }

    /// Returns the guardian of `/user`, the parent of everything started through this handle.
    pub fn user_guardian(&self) -> Guardian {
        Supervisor::of(Arc::clone(&self.user))
    }

    /// Returns the guardian of `/system`. Its children are shut down after everything below
    /// `/user`.
    pub fn system_guardian(&self) -> Guardian {
        Supervisor::of(Arc::clone(&self.system))
    }

    /// Returns the message counts of all actors that ever ran in this system.
    pub fn counts(&self) -> Counts {
        self.root().counts()
    }

    /// Returns the number of failures reported so far.
    pub fn failures(&self) -> usize {
        self.root().failures()
    }

    /// Returns the number of failures that reached the root unhandled.
    pub fn unhandled(&self) -> usize {
        self.root().unhandled()
    }

    /// Returns and clears the failures that reached the root and were not handled there; see
    /// [`RootContext::take_escalations`].
    pub fn take_escalations(&self) -> Escalations {
        self.root().take_escalations()
    }

    /// Lists the members below a path as plain values; see [`RootContext::snapshot`].
    ///
    /// # Errors
    /// [`SnapshotError::NotFound`] if no live member has the path of the query.
    pub fn snapshot(&self, query: &SnapshotQuery) -> Result<Snapshot, SnapshotError> {
        self.root().snapshot(query)
    }

    /// Returns the health of this system; see [`RootContext::health`].
    pub fn health(&self) -> Health {
        self.root().health()
    }

    /// Returns the event hub of this system, for subscriptions with their own queue.
    pub fn hub(&self) -> EventHub {
        self.root().hub()
    }

    /// Calls `listener` for every event from now on; see [`RootContext::on_event`].
    pub fn on_event(&self, listener: impl Fn(&Event) + Send + Sync + 'static) -> ListenerHandle {
        self.root().on_event(listener)
    }

    /// Returns a token that is cancelled when this system begins to end: by a shutdown, a
    /// [`cancel`](Self::cancel) or a drop.
    ///
    /// Use it to release resources early, for example to stop accepting connections. Cancelling the
    /// token itself ends nothing.
    ///
    /// ```
    /// use pleach::Props;
    /// use pleach::runtime::Dispatcher;
    /// use pleach::system::System;
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

    /// Cancels everything in this system, without waiting.
    pub fn cancel(&self, cause: impl Into<Cause>) {
        node::cancel(&self.root_member(), &cause.into());
    }

    /// Waits until everything has ended, after a [`cancel`](Self::cancel) or a shutdown begun
    /// elsewhere.
    pub fn ended(&self) -> WaitAll {
        WaitAll::new(self.root_member(), None)
    }

    pub(crate) fn root_member(&self) -> Arc<dyn Member> {
        unsize!(Arc::clone(&self.root) => dyn Member)
    }

    fn user_member(&self) -> Arc<dyn Member> {
        unsize!(Arc::clone(&self.user) => dyn Member)
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
