//! `PoolBuilder`: the options of a pool, and the errors of building or resizing one.

use crate::actor::Actor;
use crate::actor::actor_ref::ActorRef;
use crate::actor::context::Context;
use crate::actor::props::Props;
use crate::base::sync::{Arc, unsize};
use crate::events::failure::FailureInfo;
use crate::routing::pool::Pool;
use crate::routing::pool::choice::Routing;
use crate::scope::Scope;
use crate::scope::supervisor::Supervisor;
use crate::tree::adopt::Refusal;
use crate::tree::member::Member;
use crate::tree::supervision::strategy::SupervisorStrategy;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use core::fmt;
use core::hash::Hash;
use core::time::Duration;

/// The largest number of workers in a pool. Choosing by load or by key visits every worker, so a
/// pool should have far fewer.
pub const POOL_SIZE_MAX: usize = 65_536;

/// Builds a [`Pool`]; from `pool(..)` of a system, a supervisor, a scope or an actor's context.
///
/// Defaults: round robin, the supervision of the system, no replacement of ended workers.
///
/// ```
/// use pleach::{BoxError, CancelToken, Props, Scope};
/// use pleach::runtime::Dispatcher;
///
/// let sim = Dispatcher::seeded(1);
/// let scope = Scope::under(&CancelToken::root(sim.runtime()));
/// let pool = scope
///     .pool("resize", 4, |index| {
///         Props::from_fn(move || index, |_, _picture: String| Ok::<(), BoxError>(()))
///     })
///     .least_loaded()
///     .build()?;
/// pool.tell("sunset.png".to_string()).unwrap();
/// # Ok::<(), pleach::routing::PoolError>(())
/// ```
#[must_use = "a pool is created by `build`"]
pub struct PoolBuilder<M: Send + 'static> {
    pub(super) parent: Arc<dyn Member>,
    pub(super) name: String,
    pub(super) size: usize,
    pub(super) factory: WorkerFactory<M>,
    pub(super) routing: Routing<M>,
    pub(super) strategy: Option<Arc<dyn SupervisorStrategy>>,
    pub(super) replacements: Option<(u32, Duration)>,
}

/// Creates the props of the worker with a given index.
pub(super) type WorkerFactory<M> = Box<dyn Fn(usize) -> Result<WorkerStarter<M>, Refusal> + Send + Sync>;

/// A worker with valid props. Starts it under a supervisor, with a name.
pub(super) type WorkerStarter<M> = Box<dyn FnOnce(&Supervisor, &str) -> Result<ActorRef<M>, Refusal>>;

impl<M: Send + 'static> PoolBuilder<M> {
    pub(crate) fn new<A: Actor<Msg = M>>(
        parent: Arc<dyn Member>,
        name: &str,
        size: usize,
        props: impl Fn(usize) -> Props<A> + Send + Sync + 'static,
    ) -> Self {
        let factory = move |index: usize| {
            let props = props(index);
            if props.settings.mailbox.capacity == 0 {
                return Err(Refusal::ZeroCapacity);
            }
            let start =
                move |supervisor: &Supervisor, name: &str| supervisor.spawn(name, props).map_err(|refused| refused.reason);
            Ok(Box::new(start) as WorkerStarter<M>)
        };
        Self {
            parent,
            name: name.to_string(),
            size,
            factory: Box::new(factory),
            routing: Routing::RoundRobin,
            strategy: None,
            replacements: None,
        }
    }

    /// Chooses the workers in turn, whatever their load. This is the default.
    pub fn round_robin(mut self) -> Self {
        self.routing = Routing::RoundRobin;
        self
    }

    /// Chooses the worker with the fewest queued and current messages. Equally loaded workers take
    /// turns.
    pub fn least_loaded(mut self) -> Self {
        self.routing = Routing::LeastLoaded;
        self
    }

    /// Sends messages with the same key to the same worker, in order.
    ///
    /// When workers are added or removed, about 1/n of the keys move: the keys of a removed worker,
    /// or the share that a new worker takes over. The former worker may still process messages of a
    /// moved key while the new one begins.
    ///
    /// `key` runs in the task that sends. A panic in it is a panic of the sender.
    pub fn by_key<K: Hash>(mut self, key: impl Fn(&M) -> K + Send + Sync + 'static) -> Self {
        self.routing = Routing::by_key(key);
        self
    }

    /// Sets the strategy of the workers' supervisor.
    ///
    /// Default: the strategy of the system, otherwise each worker is restarted up to three times in
    /// five seconds ([`RestartLimitScope::PerChild`](crate::RestartLimitScope)). One more failure
    /// stops that worker ([`Event::GaveUp`](crate::Event)), and its index stays vacant unless
    /// [`replace_ended`](Self::replace_ended) is set. If the last worker stops, the pool fails and
    /// the failure goes up. A pool that is restarted there has all its workers again.
    pub fn strategy(mut self, strategy: impl SupervisorStrategy) -> Self {
        self.strategy = Some(unsize!(Arc::new(strategy) => dyn SupervisorStrategy));
        self
    }

    /// Replaces a permanently ended worker when a message is routed to it, at most `replacements`
    /// times per `window`. Default: no replacement.
    ///
    /// Beyond that limit, indices stay vacant until [`Pool::resize`].
    pub fn replace_ended(mut self, replacements: u32, window: Duration) -> Self {
        self.replacements = Some((replacements, window));
        self
    }

    /// Builds the pool and starts its workers, named `0`, `1` and so on.
    ///
    /// The props of all workers are created before the first one starts.
    ///
    /// # Errors
    /// - [`PoolError::ZeroWorkers`], [`PoolError::TooMany`]: invalid size.
    /// - [`PoolError::Failed`]: the closure for props panicked. No worker starts.
    /// - [`PoolError::Refused`]: the name is invalid or in use, a mailbox has no capacity, or the
    ///   parent is closing. Workers that have started are stopped.
    pub fn build(self) -> Result<Pool<M>, PoolError> {
        Pool::start(self)
    }
}

impl<M: Send + 'static> fmt::Debug for PoolBuilder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PoolBuilder({:?} {:?} of {})", self.name, self.routing, self.size)
    }
}

/// The reason why a pool was not built or resized.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PoolError {
    /// The size is 0. To end a pool, stop or close it.
    ZeroWorkers,
    /// The size is larger than [`POOL_SIZE_MAX`].
    TooMany(usize),
    /// The pool or one of its workers was not started.
    Refused(Refusal),
    /// The closure that creates the props of a worker panicked.
    Failed(FailureInfo),
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroWorkers => f.write_str("invalid pool size 0: use at least 1, or end the pool with `any().stop()`"),
            Self::TooMany(size) => write!(f, "invalid pool size {size}: at most {POOL_SIZE_MAX} workers are allowed"),
            Self::Refused(why) => write!(f, "cannot start a worker of the pool: {why}"),
            Self::Failed(failure) => {
                write!(f, "cannot start a worker of the pool: the closure for its props panicked: {failure}")
            }
        }
    }
}

impl core::error::Error for PoolError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Refused(why) => Some(why),
            Self::Failed(failure) => Some(failure),
            Self::ZeroWorkers | Self::TooMany(_) => None,
        }
    }
}

impl From<Refusal> for PoolError {
    fn from(why: Refusal) -> Self {
        Self::Refused(why)
    }
}

pub(super) fn check_size(size: usize) -> Result<(), PoolError> {
    match size {
        0 => Err(PoolError::ZeroWorkers),
        1..=POOL_SIZE_MAX => Ok(()),
        _ => Err(PoolError::TooMany(size)),
    }
}

/// Writes the method `pool` into the `impl` block of a type that can own pools. The last part
/// returns the parent of the pool.
macro_rules! pool_method {
    ($(#[$doc:meta])* |$owner:ident| $parent:expr) => {
        $(#[$doc])*
        pub fn pool<C: $crate::actor::Actor>(
            &self,
            name: &str,
            size: usize,
            props: impl Fn(usize) -> $crate::actor::props::Props<C> + Send + Sync + 'static,
        ) -> $crate::routing::pool::builder::PoolBuilder<C::Msg> {
            let $owner = self;
            $crate::routing::pool::builder::PoolBuilder::new($parent, name, size, props)
        }
    };
}

pub(crate) use pool_method;

impl Scope {
    pool_method! {
        /// Starts building a pool of `size` actors in this scope. `props` returns the props of the
        /// worker with a given index. [`build`](PoolBuilder::build) starts it.
        |scope| scope.any().member
    }
}

impl Supervisor {
    pool_method! {
        /// Starts building a pool of `size` actors below this supervisor. `props` returns the props
        /// of the worker with a given index. [`build`](PoolBuilder::build) starts it.
        |supervisor| supervisor.any().member
    }
}

impl<A: Actor> Context<A> {
    pool_method! {
        /// Starts building a pool of `size` actors among the children of this actor. `props`
        /// returns the props of the worker with a given index. [`build`](PoolBuilder::build) starts
        /// it.
        |context| context.member()
    }
}
