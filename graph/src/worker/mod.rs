//! [`Worker`]: claims ready runs of known graphs from a store and drives them.
//!
//! Any number of workers in any number of processes can share one store.
//!
//! ```
//! use pleach::store::MemoryStore;
//! use pleach::{END, Graph};
//! use pleach::worker::Worker;
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let graph = Graph::<u32>::new("doubling")
//!     .add_node("double", |n: u32| async move { n * 2 })
//!     .add_edge("double", END)
//!     .set_entry("double")
//!     .compile()?;
//! let store = MemoryStore::new();
//!
//! // In this and any other process: claim and drive ready runs.
//! let worker = Worker::new(&store).graph(&graph).limit(8).start()?;
//!
//! // Anywhere: create a run for the workers, and wait for its end.
//! graph.run(21).id("sum-7").checkpoint(&store).enqueue().await?;
//! assert_eq!(graph.outcome_of("sum-7", &store).await?, 42);
//!
//! // Let current runs finish for up to five seconds; other workers resume the rest.
//! worker.close(Duration::from_secs(5)).await;
//! # Ok(())
//! # }
//! ```
//!
//! A worker has one scope in the tree:
//!
//! ```text
//!   worker/          ends when it is closed and holds no run
//!     runs/          one scope per driven run, named by its id (see `control`)
//!     leases         task: renews the leases of all held runs in one call
//!     pruning        task: removes runs that ended long ago
//!     watch          task: finds runs that no worker serves
//!     claims         task: claims ready runs while the limit has room
//!     control        actor: learns that the scope is closing, lists the held runs
//! ```
//!
//! Invariants:
//! 1. A claimed run is in `held` until it was released, has ended, or was lost to another driver.
//! 2. `held` never has more runs than the limit. A run that could not be driven is released with a
//!    delay and leaves `held`. If the store was the reason, the run stays in `held` for one
//!    more second.
//! 3. Every store call has a time limit and is retried with backoff.
//!
//! The lock of `WorkerCore` is never held while a store is called, an event is reported or a waker
//! is woken.
//!
//! Read in this order: this file, `core`, `undriven`, `claims`, `suspects`, `leases`, `graphs`,
//! `watch`, `refused`.

mod claims;
mod core;
mod event;
mod graphs;
mod leases;
mod refused;
mod running;
mod suspects;
mod undriven;
mod unserved;
mod watch;

pub use event::{RunEnd, WorkerEvent};
pub use running::{RunningWorker, WorkerMessage};
pub use unserved::{StuckRun, UnservedRuns, UnservedVersion};

use crate::compile::compiled::CompiledGraph;
use crate::durable::deploy::{DeployCheck, DeployError, DeployReport, GraphExport};
use crate::durable::options::{ENDED_KEPT_DEFAULT, LEASE_DEFAULT};
use crate::error::{CheckpointError, RunFault};
use crate::run::options::RunOptions;
use crate::store::{Lease, Store, StoreError, Wanted};
use crate::util::runtime;
use crate::worker::graphs::KnownGraph;
use pleach_core::{CancelToken, Runtime, Scope};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The default number of runs that a worker drives at the same time: 64.
pub const WORKER_LIMIT_DEFAULT: usize = 64;

/// The default time after which a due run that no worker claims counts as unserved: 60 s.
pub const UNSERVED_AFTER_DEFAULT: Duration = Duration::from_secs(60);

/// The options of a worker before it starts: store, graphs, limits.
///
/// ```
/// use pleach::worker::{Worker, WorkerEvent};
/// use pleach::{END, Graph};
/// use pleach::store::MemoryStore;
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let graph = Graph::<u32>::new("doubling")
/// #     .add_node("double", |n: u32| async move { n * 2 })
/// #     .add_edge("double", END).set_entry("double").compile()?;
/// let store = MemoryStore::new();
/// let worker = Worker::new(&store)
///     .graph(&graph)
///     .limit(16)
///     .lease(Duration::from_secs(10))
///     .on_event(|event: &WorkerEvent| println!("{event:?}"))
///     .start()?;
/// worker.close(Duration::from_secs(1)).await;
/// # Ok(())
/// # }
/// ```
#[must_use = "a worker does nothing before it is started"]
pub struct Worker {
    store: Arc<dyn Store>,
    graphs: Vec<KnownGraph>,
    settings: Settings,
    name: String,
    runtime: Option<Arc<dyn Runtime>>,
    listener: Option<Listener>,
}

/// Receives the events of a worker.
type Listener = Arc<dyn Fn(&WorkerEvent) + Send + Sync>;

/// The options that all parts of a running worker read.
#[derive(Clone, Copy, Debug)]
struct Settings {
    limit: usize,
    lease: Duration,
    poll_every: Duration,
    hold_waiting_for: Duration,
    ended_kept: Duration,
    unserved_after: Duration,
}

impl Worker {
    /// Creates a worker for this store, without graphs. Add at least one with
    /// [`graph`](Self::graph).
    pub fn new(store: &(impl Store + Clone)) -> Self {
        let settings = Settings {
            limit: WORKER_LIMIT_DEFAULT,
            lease: LEASE_DEFAULT,
            poll_every: Duration::from_secs(1),
            hold_waiting_for: Duration::from_secs(10),
            ended_kept: ENDED_KEPT_DEFAULT,
            unserved_after: UNSERVED_AFTER_DEFAULT,
        };
        Self {
            store: Arc::new(store.clone()),
            graphs: Vec::new(),
            settings,
            name: "worker".to_string(),
            runtime: None,
            listener: None,
        }
    }

    /// Adds a graph. The worker claims runs with its name and fingerprint.
    ///
    /// Several versions of one graph can be added.
    pub fn graph<S: Serialize + DeserializeOwned + Send + 'static>(self, graph: &CompiledGraph<S>) -> Self {
        self.graph_with(graph, |run| run)
    }

    /// Adds a graph with options for each of its runs: hooks, extensions, limits.
    ///
    /// The id and the store in these options are ignored: the claimed run has its own.
    pub fn graph_with<S: Serialize + DeserializeOwned + Send + 'static>(
        mut self,
        graph: &CompiledGraph<S>,
        options: impl Fn(RunOptions<'static, S>) -> RunOptions<'static, S> + Send + Sync + 'static,
    ) -> Self {
        self.graphs.push(KnownGraph::new(graph.clone(), options));
        self
    }

    /// Also claims runs that earlier versions of the last added graph started, by their
    /// fingerprints.
    ///
    /// The options of that graph must say how they are [migrated](RunOptions::migrations).
    pub fn accept_fingerprints(mut self, fingerprints: impl IntoIterator<Item = impl Into<String>>) -> Self {
        if let Some(known) = self.graphs.last_mut() {
            known.export.fingerprints.extend(fingerprints.into_iter().map(Into::into));
        }
        self
    }

    /// Limits how many runs are driven at the same time. Default: 64, minimum 1.
    pub fn limit(mut self, runs: usize) -> Self {
        self.settings.limit = runs.max(1);
        self
    }

    /// Sets how long a claim on a run lasts without renewal. Default: 30 s.
    ///
    /// The worker renews its leases after a quarter of this time. If the worker dies, other workers
    /// can claim its runs after the lease has expired.
    ///
    /// # Errors
    /// [`start`](Self::start) rejects a zero duration.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// Sets how often the worker looks for ready runs without a hint from the store. Default: 1 s.
    pub fn poll_every(mut self, wait: Duration) -> Self {
        self.settings.poll_every = wait;
        self
    }

    /// Sets how long the worker holds a run that only waits for a time. Default: 10 s.
    ///
    /// A run that waits longer, or for an answer or signal, is released and claimed again when it
    /// is due.
    pub fn hold_waiting_for(mut self, wait: Duration) -> Self {
        self.settings.hold_waiting_for = wait;
        self
    }

    /// Sets how long ended runs are kept in the store. Default: 30 days.
    pub fn keep_ended(mut self, time: Duration) -> Self {
        self.settings.ended_kept = time;
        self
    }

    /// Sets how long a run may be due and unclaimed before it is reported as unserved. Default:
    /// 60 s.
    ///
    /// Choose more than a rolling deploy takes to replace a worker. The worker looks twice in this
    /// time, at least every 30 s and at most once a second. See
    /// [`WorkerEvent::Unserved`] and [`RunningWorker::unserved`].
    pub fn report_unserved_after(mut self, time: Duration) -> Self {
        self.settings.unserved_after = time;
        self
    }

    /// Returns the graphs of this worker as data, with the versions that they accept.
    ///
    /// Write them to a file as JSON for a [deploy check](DeployCheck) without this program.
    pub fn exports(&self) -> Vec<GraphExport> {
        self.graphs.iter().map(|known| known.export.clone()).collect()
    }

    /// Checks which unfinished runs of the store this worker would serve. It claims nothing.
    ///
    /// See [`DeployCheck`] for the cost.
    ///
    /// # Errors
    /// The store failed.
    pub async fn check_deploy(&self) -> Result<DeployReport, StoreError> {
        DeployCheck::of(self.exports()).run(&*self.store).await
    }

    /// Refuses to start if the worker would not serve all unfinished runs of the store.
    ///
    /// Do not use it where other workers serve other graphs or versions from the same store.
    ///
    /// ```
    /// # use pleach::store::MemoryStore;
    /// # use pleach::worker::Worker;
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = MemoryStore::new();
    /// let worker = Worker::new(&store).refuse_unserved().await?.start()?;
    /// # worker.close(Duration::from_secs(1)).await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// - [`DeployError::Unserved`]: it would not serve all runs. The report says which and why.
    /// - [`DeployError::Store`]: the store failed.
    pub async fn refuse_unserved(self) -> Result<Self, DeployError> {
        self.check_deploy().await?.require_served()?;
        Ok(self)
    }

    /// Sets the name of the worker's scope in the tree. Default: `worker`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the runtime for [`start`](Self::start): the clock, the task spawner and the random
    /// numbers.
    ///
    /// Default: the runtime of the calling actor or task, else the current Tokio runtime.
    pub fn runtime(mut self, runtime: Arc<dyn Runtime>) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Calls `listener` for every event of the worker.
    ///
    /// The worker waits for the call, so the listener must return quickly. A panic in it is caught
    /// and ignored.
    pub fn on_event(mut self, listener: impl Fn(&WorkerEvent) + Send + Sync + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// Starts the worker without a parent. Dropping the returned handle cancels it.
    ///
    /// # Errors
    /// - [`RunFault::NoRuntime`]: no runtime was set or found.
    /// - All errors of [`start_in`](Self::start_in).
    pub fn start(self) -> Result<RunningWorker, RunFault> {
        let runtime = self.runtime.clone().or_else(runtime::find).ok_or(RunFault::NoRuntime)?;
        let above = Scope::under(&CancelToken::root(runtime));
        let running = self.start_in(&above)?;
        Ok(running.owning(above))
    }

    /// Starts the worker as a child of `scope`, which closes and cancels it. Dropping the returned
    /// handle also cancels it.
    ///
    /// # Errors
    /// - [`RunFault::Checkpoint`]: the lease is zero, or a graph name or fingerprint is invalid for
    ///   every store.
    /// - [`RunFault::Refused`]: the scope accepts no child, or already has one with this name.
    pub fn start_in(self, scope: &Scope) -> Result<RunningWorker, RunFault> {
        self.check().map_err(|refused| RunFault::Checkpoint(CheckpointError::new("", "", "claim", refused)))?;
        running::start(self, scope).map_err(RunFault::Refused)
    }

    /// Fails if a store would reject every claim of this worker.
    fn check(&self) -> Result<(), StoreError> {
        if self.settings.lease.is_zero() {
            return Err(StoreError::invalid(
                "lease",
                "0",
                "a zero lease expires at once, so no run could be driven; set a few seconds",
            ));
        }
        let graphs = self.graphs.iter().flat_map(KnownGraph::served).collect();
        let lease = Lease { owner: self.name.clone(), length: self.settings.lease };
        Wanted::Ready { graphs, count: self.settings.limit }.check(&lease)
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("graphs", &self.graphs).field("settings", &self.settings).finish_non_exhaustive()
    }
}
