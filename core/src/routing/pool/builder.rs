//! `PoolBuilder`: how a pool is set up, and why one was not made.

use crate::actor::Actor;
use crate::actor::actor_ref::ActorRef;
use crate::actor::context::Context;
use crate::actor::props::Props;
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
use alloc::sync::Arc;
use core::fmt;
use core::hash::Hash;
use core::time::Duration;

/// The most workers a pool can have. Choosing one by load or by key looks at each of them, so a pool should have far fewer.
pub const POOL_SIZE_MAX: usize = 65_536;

/// A pool about to be made; from `pool(..)` of a system, a supervisor, a scope or an actor's context.
///
/// ```
/// # use pleach::{BoxError, CancelToken, Dispatcher, Props, Scope};
/// # let sim = Dispatcher::seeded(1);
/// # let scope = Scope::under(&CancelToken::root(sim.runtime()));
/// let pool = scope
///     .pool("resize", 4, |place| Props::from_fn(move || place, |_, _picture: String| Ok::<(), BoxError>(())))
///     .least_loaded()
///     .build()?;
/// pool.tell("sunset.png".to_string()).unwrap();
/// # Ok::<(), pleach::PoolError>(())
/// ```
#[must_use = "a pool is made by `build`"]
pub struct PoolBuilder<M: Send + 'static> {
    pub(super) parent: Arc<dyn Member>,
    pub(super) name: String,
    pub(super) size: usize,
    pub(super) factory: WorkerFactory<M>,
    pub(super) routing: Routing<M>,
    pub(super) strategy: Option<Arc<dyn SupervisorStrategy>>,
    pub(super) replacements: Option<(u32, Duration)>,
}

/// Makes the props of the worker for a place.
pub(super) type WorkerFactory<M> = Box<dyn Fn(usize) -> Result<WorkerStarter<M>, Refusal> + Send + Sync>;

/// A worker whose props are made and good: starts it under a supervisor, with a name.
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
            if props.mailbox_kind().capacity == 0 {
                return Err(Refusal::NoCapacity);
            }
            let start = move |supervisor: &Supervisor, name: &str| supervisor.spawn(name, props).map_err(|refused| refused.why);
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

    /// Each worker in its turn, whatever it has to do. This is the default.
    pub fn round_robin(mut self) -> Self {
        self.routing = Routing::RoundRobin;
        self
    }

    /// The worker with the fewest messages queued or in hand; among equals, each in its turn.
    pub fn least_loaded(mut self) -> Self {
        self.routing = Routing::LeastLoaded;
        self
    }

    /// Messages with the same key go to the same worker, in order, as long as it is there. When workers come or go about 1/n of the
    /// keys move, and no others: those of a worker that ended, or those that a new one takes over. The worker before may still be
    /// at what it has of such a key when the next one begins.
    ///
    /// `key` runs in the task that sends; a panic in it is the sender's.
    pub fn by_key<K: Hash>(mut self, key: impl Fn(&M) -> K + Send + Sync + 'static) -> Self {
        self.routing = Routing::by_key(key);
        self
    }

    /// How the workers are supervised. Unless given here or for the system: each worker restarts when it fails, three times in five
    /// seconds ([`RestartBudget::PerChild`](crate::RestartBudget)). One failure more stops that worker ([`Event::GaveUp`](crate::Event)),
    /// and its place stays vacant unless [`replace_ended`](Self::replace_ended) is set. The last worker takes the pool with it, and
    /// the failure goes up; if the pool is restarted there, it has all its workers again.
    pub fn strategy(mut self, strategy: impl SupervisorStrategy) -> Self {
        self.strategy = Some(Arc::new(strategy));
        self
    }

    /// Puts another worker in the place of one that has ended for good, as soon as a message meets it, but no more than
    /// `replacements` within any `window`: past that, places stay vacant until [`Pool::resize`]. Not done unless asked for.
    pub fn replace_ended(mut self, replacements: u32, window: Duration) -> Self {
        self.replacements = Some((replacements, window));
        self
    }

    /// Makes the pool and starts its workers, called `0`, `1` and so on.
    ///
    /// The props of all workers are made before the first one starts. If the closure panics, or gives a mailbox with no capacity, no
    /// worker starts. A parent that begins to shut down meanwhile refuses the rest, and ends those that have started.
    pub fn build(self) -> Result<Pool<M>, PoolError> {
        Pool::start(self)
    }
}

impl<M: Send + 'static> fmt::Debug for PoolBuilder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PoolBuilder({:?} {:?} of {})", self.name, self.routing, self.size)
    }
}

/// Why a pool was not made, or not resized.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PoolError {
    /// A pool of no workers was asked for. To end a pool, stop or close it.
    NoWorkers,
    /// More workers were asked for than [`POOL_SIZE_MAX`].
    TooMany(usize),
    /// The pool, or one of its workers, was not started.
    Refused(Refusal),
    /// The closure that gives the props of a worker panicked.
    Failed(FailureInfo),
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoWorkers => {
                f.write_str("a pool of 0 workers takes no message: give it at least 1, or stop it with `any().stop()`")
            }
            Self::TooMany(size) => write!(f, "a pool of {size} workers is too large: {POOL_SIZE_MAX} are the most it can have"),
            Self::Refused(why) => write!(f, "the pool could not start a worker: {why}"),
            Self::Failed(failure) => write!(f, "the pool could not start a worker, its props panicked: {failure}"),
        }
    }
}

impl core::error::Error for PoolError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Refused(why) => Some(why),
            Self::Failed(failure) => Some(failure),
            Self::NoWorkers | Self::TooMany(_) => None,
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
        0 => Err(PoolError::NoWorkers),
        1..=POOL_SIZE_MAX => Ok(()),
        _ => Err(PoolError::TooMany(size)),
    }
}

impl Scope {
    /// A pool of `size` actors within this scope; `props` gives the recipe for each place.
    /// [`build`](PoolBuilder::build) starts it.
    pub fn pool<A: Actor>(
        &self,
        name: &str,
        size: usize,
        props: impl Fn(usize) -> Props<A> + Send + Sync + 'static,
    ) -> PoolBuilder<A::Msg> {
        PoolBuilder::new(self.any().member, name, size, props)
    }
}

impl Supervisor {
    /// A pool of `size` actors below this supervisor; `props` gives the recipe for each place.
    /// [`build`](PoolBuilder::build) starts it.
    pub fn pool<A: Actor>(
        &self,
        name: &str,
        size: usize,
        props: impl Fn(usize) -> Props<A> + Send + Sync + 'static,
    ) -> PoolBuilder<A::Msg> {
        PoolBuilder::new(self.any().member, name, size, props)
    }
}

impl<A: Actor> Context<A> {
    /// A pool of `size` actors among the children of this actor; `props` gives the recipe for each place.
    /// [`build`](PoolBuilder::build) starts it.
    pub fn pool<C: Actor>(
        &self,
        name: &str,
        size: usize,
        props: impl Fn(usize) -> Props<C> + Send + Sync + 'static,
    ) -> PoolBuilder<C::Msg> {
        PoolBuilder::new(self.member(), name, size, props)
    }
}
