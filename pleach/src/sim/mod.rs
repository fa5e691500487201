//! The simulator: runs a program in virtual time, under a schedule and with faults that a seed
//! fixes.
//!
//! Time jumps to the next timer when nothing is ready, and the seed chooses which ready task runs
//! next. So a test takes no real time, thousands of schedules run in a second, and a failing seed
//! fails again.
//!
//! ```
//! use pleach::prelude::*;
//! use pleach::sim::{Sim, explore};
//!
//! explore(0..100, |sim| {
//!     let system = sim.system("shop");
//!     let adder = system.spawn("adder", Props::from_fn(|| 0, |sum: &mut u32, n: u32| {
//!         *sum += n;
//!         Ok::<(), pleach::BoxError>(())
//!     })).unwrap();
//!     sim.run(async {
//!         adder.tell(1).unwrap();
//!         adder.close();
//!         assert_eq!(adder.exited().await, Exit::Closed);
//!     });
//!     assert_eq!(system.counts().handled, 1);
//! });
//! ```
//!
//! [`Sim::inject`] adds faults: failing handlers, crashed actors, late or silent I/O, a store that
//! fails. [`explore`] finds a small set of them that makes the test fail. [`Sim::probe`] is an
//! actor that expects messages, and [`assert_tree`], [`assert_conserved`] and [`Baseline`] check a
//! system.
//!
//! | file | owns |
//! |---|---|
//! | `mod` | [`Sim`], one simulation |
//! | `explore`, `shrink`, `panics` | running many seeds, and making a failure small |
//! | `faults` | what can go wrong, and the decision for each operation |
//! | `runtime` | the runtime of a simulation |
//! | `stall` | who waits for what, once nothing can continue |
//! | `probe`, `check` | expectations of a test |

mod check;
mod explore;
mod faults;
mod panics;
mod probe;
mod runtime;
mod shrink;
mod stall;

pub use check::{Baseline, assert_conserved, assert_counts, assert_tree};
pub use explore::{
    Exploration, FAULTS_VARIABLE, FoundFailure, SEED_VARIABLE, SEEDS_VARIABLE, SHRINK_RUNS_MAX, SHRINK_TIME_MAX, explore,
    first_failing,
};
#[cfg(feature = "graph")]
pub use faults::FaultyStore;
pub use faults::{DELAY_MAX_DEFAULT, FAULTS_MAX_DEFAULT, Fault, FaultKind, Faults, INJECTED_MAX, InjectedFault, Io, IoSite};
pub use probe::{PROBE_CAPACITY, PROBE_WAIT_DEFAULT, Probe};

use crate::ActorSystem;
use crate::actor::AnyRef;
use crate::events::{Event, EventKinds};
use crate::runtime::{Dispatcher, Instant, Runtime};
use crate::scope::{CancelToken, Scope, Timeout};
use crate::sim::faults::injected::FaultId;
use crate::sim::faults::injector::Injector;
use crate::sim::faults::io::{IoFaults, PendingIo};
use crate::sim::runtime::SimRuntime;
use crate::system::System;
use std::fmt;
use std::fmt::Write as _;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// One simulation: a dispatcher with virtual time, and a schedule and faults that a seed fixes.
///
/// Clones are the same simulation. It ends with its last clone: what still runs is dropped then. So
/// do not move a clone into an actor or a task of the simulation itself; that keeps it forever.
/// Give it a handle instead, such as [`io_site`](Self::io_site) or [`runtime`](Self::runtime).
///
/// ```
/// use pleach::prelude::*;
/// use pleach::sim::Sim;
///
/// let sim = Sim::new(7);
/// let system = sim.system("shop");
/// let props = Props::from_fn(|| (), |(), _: u32| Ok::<(), pleach::BoxError>(()));
/// let till = system.spawn("till", props).unwrap();
/// sim.run(async {
///     sim.sleep(Duration::from_secs(3_600)).await; // an hour in virtual time
///     till.send(1).await.unwrap();
/// });
/// sim.settle(); // runs everything that is ready
/// assert_eq!(till.counts().handled, 1);
/// ```
#[derive(Clone)]
pub struct Sim {
    simulation: Arc<Simulation>,
}

/// What the clones of a [`Sim`] share.
struct Simulation {
    dispatcher: Dispatcher,
    runtime: Arc<SimRuntime>,
    injector: Arc<Injector>,
    pending_io: Arc<PendingIo>,
    /// The top of each tree, for the text of a stall.
    roots: Mutex<Vec<AnyRef>>,
    seed: u64,
}

impl Sim {
    /// Starts a simulation with this seed. Its clock starts at zero, and it injects no faults.
    pub fn new(seed: u64) -> Self {
        Self::replaying(seed, None)
    }

    /// As [`new`](Self::new), and records the [`trace`](Self::trace).
    pub fn recording(seed: u64) -> Self {
        let sim = Self::new(seed);
        sim.simulation.dispatcher.record();
        sim
    }

    /// Starts a simulation. With `replayed`, exactly these faults are injected.
    fn replaying(seed: u64, replayed: Option<Vec<FaultId>>) -> Self {
        let dispatcher = Dispatcher::seeded(seed);
        let injector = Arc::new(Injector::new(seed, replayed));
        let runtime = Arc::new(SimRuntime { dispatcher: dispatcher.runtime(), injector: Arc::clone(&injector) });
        let (pending_io, roots) = (Arc::default(), Mutex::default());
        Self { simulation: Arc::new(Simulation { dispatcher, runtime, injector, pending_io, roots, seed }) }
    }

    /// Returns the seed of this simulation.
    pub fn seed(&self) -> u64 {
        self.simulation.seed
    }

    /// Returns the runtime of this simulation, for anything that takes one.
    pub fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::clone(&self.simulation.runtime) as Arc<dyn Runtime>
    }

    /// Starts a system in this simulation.
    ///
    /// Tokio's own timers and sockets do not work here: code that uses them fails, and a hint is
    /// logged.
    ///
    /// # Panics
    /// If `name` is not a valid path segment.
    pub fn system(&self, name: &str) -> ActorSystem {
        let system = ActorSystem::builder(name).runtime(self.runtime()).build();
        let system = system.expect("a simulated system has a runtime; its name must be a valid path segment");
        self.observe(&system);
        system
    }

    /// Lets the text of a [stall](Self::run) name the members of a system that was built otherwise
    /// than by [`system`](Self::system).
    pub fn observe(&self, system: &System) {
        system.hub().listen_to(EventKinds::FAILURES, hint_at_tokio);
        self.add_root(system.root().any());
    }

    /// Returns a cancel token without a parent.
    pub fn token(&self) -> CancelToken {
        CancelToken::root(self.runtime())
    }

    /// Returns a scope without a system.
    pub fn scope(&self) -> Scope {
        let scope = Scope::under(&self.token());
        self.add_root(scope.any());
        scope
    }

    fn add_root(&self, root: AnyRef) {
        let mut roots = self.simulation.roots.lock().unwrap_or_else(PoisonError::into_inner);
        // Not each time, so that many live scopes cost no more than a list.
        if roots.len().is_power_of_two() {
            roots.retain(|root| root.exit().is_none());
        }
        roots.push(root);
    }

    /// Asks for faults, which the seed chooses. Call it first: a system, scope or token that exists
    /// gets no faults in its handlers.
    ///
    /// Faults of handlers need nothing else. Faults of I/O and of stores happen in what is passed
    /// to [`io`](Self::io) and `store`.
    ///
    /// ```
    /// use pleach::prelude::*;
    /// use pleach::sim::{FaultKind, Sim};
    ///
    /// let sim = Sim::new(1);
    /// sim.inject(FaultKind::HandlerFails.nth(2).on("/user/till"));
    /// let system = sim.system("shop");
    /// let till = system.spawn("till", Props::from_fn(|| (), |_, _: u32| Ok::<(), pleach::BoxError>(()))).unwrap();
    /// for cents in [5, 7, 9] {
    ///     till.tell(cents).unwrap();
    /// }
    /// sim.settle();
    /// assert_eq!((system.counts().handled, system.counts().failed), (2, 1));
    /// assert_eq!(sim.injected()[0].to_string(), "handler-fails:/user/till#2");
    /// ```
    ///
    /// # Panics
    /// If a handler is to fail and a system, scope or token of this simulation exists already.
    #[track_caller]
    pub fn inject(&self, faults: impl Into<Faults>) {
        let in_time = self.simulation.injector.add(faults.into());
        assert!(
            in_time,
            "faults of handlers were asked for too late: a system, scope or token exists and gets none; call `inject` before it"
        );
    }

    /// Returns the faults that were injected so far, in order. At most 4,096 are injected.
    pub fn injected(&self) -> Vec<InjectedFault> {
        self.simulation.injector.injected()
    }

    /// Wraps the future of a stand-in for I/O, such as a request to a gateway, so that its result
    /// and its wake-ups can get faults. `name` is the site of these faults.
    ///
    /// ```
    /// use pleach::sim::{FaultKind, Sim};
    /// use std::time::Duration;
    ///
    /// let sim = Sim::new(1);
    /// sim.inject(FaultKind::IoLate.nth(1).on("gateway").up_to(Duration::from_secs(3)));
    /// let paid = sim.run(sim.io("gateway", async { "paid" }));
    /// assert_eq!(paid, "paid");
    /// assert!(sim.now().since_start() > Duration::ZERO);
    /// ```
    pub fn io<F: Future>(&self, name: &str, future: F) -> Io<F> {
        self.io_site(name).call(future)
    }

    /// Returns a handle that wraps futures as [`io`](Self::io) does, for actors and tasks of the
    /// program under test.
    pub fn io_site(&self, name: &str) -> IoSite {
        let Simulation { injector, pending_io, .. } = &*self.simulation;
        let (injector, pending) = (Arc::clone(injector), Arc::clone(pending_io));
        IoSite::new(IoFaults { injector, runtime: self.runtime(), pending }, name)
    }

    /// Wraps a store, so that its operations can get faults. The name of a method, such as
    /// `commit`, is the site of these faults.
    #[cfg(feature = "graph")]
    pub fn store(&self, store: impl crate::store::Store) -> FaultyStore {
        FaultyStore::new(Arc::new(store), Arc::clone(&self.simulation.injector), self.runtime())
    }

    /// Starts an actor at `/user/name` that records its messages, for the test to expect. It gets
    /// no faults.
    ///
    /// # Panics
    /// If the system refuses the actor: the name is invalid or in use, or the system is ending.
    #[track_caller]
    pub fn probe<M: Send + 'static>(&self, system: &System, name: &str) -> Probe<M> {
        self.simulation.injector.exempt(format!("/user/{name}"));
        Probe::start(system, name, self.runtime())
    }

    /// Returns the current time on the virtual clock.
    pub fn now(&self) -> Instant {
        self.simulation.runtime.now()
    }

    /// Waits for `wait` in virtual time.
    pub async fn sleep(&self, wait: Duration) {
        let runtime = self.runtime();
        runtime.sleep_until(runtime.now() + wait).await;
    }

    /// Limits a future to `limit` in virtual time. An output that is ready in the same poll wins.
    pub fn timeout<F: Future>(&self, limit: Duration, future: F) -> Timeout<F> {
        Timeout::new(&*self.simulation.runtime, limit, future)
    }

    /// Yields once, so that other ready tasks may run first, as the seed decides.
    pub async fn yield_now(&self) {
        let mut stepped = false;
        std::future::poll_fn(|cx| {
            if std::mem::replace(&mut stepped, true) {
                return std::task::Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            std::task::Poll::Pending
        })
        .await;
    }

    /// Runs `future`, and everything else, until `future` is ready.
    ///
    /// # Panics
    /// If `future` is not ready, no task is ready and no timer is set: the program would hang. The
    /// text says who waits for what.
    #[track_caller]
    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        // Pinned here, so that the text of a stall sees what the future still waits for.
        let mut future = pin!(future);
        match self.simulation.dispatcher.simulate(future.as_mut()) {
            Ok(done) => done,
            Err(stalled) => panic!("seed {}: {stalled}\n{}", self.seed(), self.waiting()),
        }
    }

    /// Returns who waits for what at the moment, as text: waits and their cycles, actors that are
    /// suspended, members that await something outside of the tree, and pending I/O.
    pub fn waiting(&self) -> String {
        let roots = self.simulation.roots.lock().unwrap_or_else(PoisonError::into_inner).clone();
        stall::text(&roots, &self.simulation.pending_io.list())
    }

    /// Runs all ready tasks, and those they wake, without advancing time. Returns the number of
    /// polls.
    pub fn settle(&self) -> usize {
        self.simulation.dispatcher.drain_ready()
    }

    /// Advances time by `wait` and runs what becomes ready meanwhile.
    pub fn advance(&self, wait: Duration) {
        self.simulation.dispatcher.run_until_time(self.now() + wait);
    }

    /// Runs everything, and lets time jump from timer to timer, until no task is ready and no timer
    /// is set, but for at most `limit` in virtual time. Returns whether the simulation is idle.
    ///
    /// The clock stops at the last timer, so an idle simulation does not reach the limit.
    pub fn run_until_idle(&self, limit: Duration) -> bool {
        self.simulation.dispatcher.run_until_idle(self.now() + limit)
    }

    /// Returns the number of polls so far.
    pub fn polls(&self) -> u64 {
        self.simulation.dispatcher.polls()
    }

    /// Returns the number of tasks that have not ended.
    pub fn tasks_alive(&self) -> usize {
        self.simulation.dispatcher.tasks_alive()
    }

    /// Adds a value of the program to the trace hash.
    pub fn mix_into_trace(&self, value: u64) {
        self.simulation.dispatcher.mix_into_trace(value);
    }

    /// Returns a hash over which task ran when and in which order. The same seed and program give
    /// the same hash in every process.
    pub fn trace_hash(&self) -> u64 {
        self.simulation.dispatcher.trace_hash()
    }

    /// Returns one line per poll, if this simulation is [`recording`](Self::recording).
    pub fn trace(&self) -> String {
        let mut text = String::new();
        for step in self.simulation.dispatcher.steps() {
            let _ = writeln!(text, "{:?} task {}", step.at, step.task);
        }
        text
    }
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Simulation { dispatcher, seed, .. } = &*self.simulation;
        f.debug_struct("Sim").field("dispatcher", dispatcher).field("seed", seed).finish_non_exhaustive()
    }
}

/// Part of the text of Tokio's panics outside of a Tokio runtime.
const OUTSIDE_TOKIO: &str = "Tokio 1.x runtime";

/// Logs what to use instead when code in the simulator calls Tokio.
fn hint_at_tokio(event: &Event) {
    if let Event::Failed(failure) = event
        && failure.reason().to_string().contains(OUTSIDE_TOKIO)
    {
        let path = failure.path();
        tracing::error!(%path, "Tokio does not run in the simulator: use `cx.sleep`, `cx.timeout` or the `Runtime` in place of its timers");
    }
}
