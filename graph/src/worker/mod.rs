//! `Worker`: drives the ready runs of a store, of the graphs that it knows. Any number of them, in any number of processes, share one store.
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
//!     .add_node("double", |n: u32| async move { Ok::<_, String>(n * 2) })
//!     .add_edge("double", END)
//!     .set_entry("double")
//!     .compile()?;
//! let store = MemoryStore::new();
//!
//! // Here, and in as many other processes as there are: drive whatever is ready.
//! let worker = Worker::new(&store).graph(&graph).limit(8).start()?;
//!
//! // Anywhere: leave a run to the workers, and wait for its end.
//! graph.run(21).id("sum-7").checkpoint(&store).enqueue().await?;
//! assert_eq!(graph.outcome_of("sum-7", &store).await?, 42);
//!
//! // Finish what runs now, for five seconds at most; others go on with the rest.
//! worker.close(Duration::from_secs(5)).await;
//! # Ok(())
//! # }
//! ```
//!
//! A worker has a scope in the tree, or one of its own. In it stand:
//!
//! ```text
//!   worker/          ends when it is closed and holds nothing
//!     runs/          each run that is driven, a scope by its id (see `control`)
//!     leases         a task: renews the leases of all runs at once
//!     pruning        a task: removes runs that ended long ago
//!     claims         a task: claims what is ready, as long as there is room
//!     desk           an actor: hears that the scope is being closed, and says which runs are held
//! ```
//!
//! What always holds:
//! 1. A run that was claimed is in `held` from then on, until it was given up, has ended, or was lost to another driver.
//! 2. `held` never has more runs than the limit. A run that could not be driven rests in the store, and takes no place; one that the store kept from being driven
//!    keeps its place for a second before that.
//! 3. Every call of the store is bounded in time, and repeated with backoff when it fails.
//!
//! Read in this order: this file, `core`, `unserved`, `claims`, `suspects`, `leases`, `graphs`.

mod claims;
mod core;
mod event;
mod graphs;
mod leases;
mod running;
mod suspects;
mod unserved;

pub use event::{RunEnd, WorkerEvent};
pub use running::{RunningWorker, WorkerMessage};

use crate::compile::compiled::CompiledGraph;
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

/// How many runs a worker drives at a time, unless it is told otherwise.
pub const WORKER_LIMIT_DEFAULT: usize = 64;

/// A worker before it starts: which store, which graphs, how much of it. See the [module](self) for an example.
#[must_use = "a worker does nothing before it is started"]
pub struct Worker {
    store: Arc<dyn Store>,
    graphs: Vec<KnownGraph>,
    settings: Settings,
    name: String,
    runtime: Option<Arc<dyn Runtime>>,
    listener: Option<Listener>,
}

/// Hears what a worker does.
type Listener = Arc<dyn Fn(&WorkerEvent) + Send + Sync>;

/// How a worker works.
#[derive(Clone, Copy, Debug)]
struct Settings {
    limit: usize,
    lease: Duration,
    poll_every: Duration,
    patience: Duration,
    ended_kept: Duration,
}

impl Worker {
    /// A worker on this store, which knows no graph yet.
    pub fn new(store: &(impl Store + Clone)) -> Self {
        let settings = Settings {
            limit: WORKER_LIMIT_DEFAULT,
            lease: LEASE_DEFAULT,
            poll_every: Duration::from_secs(1),
            patience: Duration::from_secs(10),
            ended_kept: ENDED_KEPT_DEFAULT,
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

    /// Drives runs of this graph: those of its name and fingerprint. Several versions of one graph can be known at the same time.
    pub fn graph<S: Serialize + DeserializeOwned + Send + 'static>(self, graph: &CompiledGraph<S>) -> Self {
        self.graph_with(graph, |run| run)
    }

    /// The same, with options for every run: hooks, extensions, limits. Which run it is, and where it is kept, is not theirs to say.
    pub fn graph_with<S: Serialize + DeserializeOwned + Send + 'static>(
        mut self,
        graph: &CompiledGraph<S>,
        options: impl Fn(RunOptions<'static, S>) -> RunOptions<'static, S> + Send + Sync + 'static,
    ) -> Self {
        self.graphs.push(KnownGraph::new(graph.clone(), options));
        self
    }

    /// Drives also runs that earlier versions of the last named graph began: those of these fingerprints. Its options say how they are
    /// [migrated](RunOptions::migrations).
    pub fn earlier(mut self, fingerprints: impl IntoIterator<Item = impl Into<String>>) -> Self {
        if let Some(known) = self.graphs.last_mut() {
            known.fingerprints.extend(fingerprints.into_iter().map(Into::into));
        }
        self
    }

    /// How many runs are driven at a time; 64 unless told, and at least one.
    pub fn limit(mut self, runs: usize) -> Self {
        self.settings.limit = runs.max(1);
        self
    }

    /// How long a run stays with this worker if it is not heard of; 30 seconds unless told. It is renewed four times as often. One of
    /// no length is refused when the worker is started.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// How often the store is asked for ready runs when it did not say that there are any; every second unless told.
    pub fn poll_every(mut self, wait: Duration) -> Self {
        self.settings.poll_every = wait;
        self
    }

    /// For how long a run is held that does nothing but wait for a time; 10 seconds unless told. One that waits longer, or for an answer, is given up and
    /// claimed again when it is due.
    pub fn patience(mut self, wait: Duration) -> Self {
        self.settings.patience = wait;
        self
    }

    /// For how long runs that have ended are kept in the store; 30 days unless told.
    pub fn keep_ended(mut self, time: Duration) -> Self {
        self.settings.ended_kept = time;
        self
    }

    /// The name of its scope in the tree; `worker` unless told.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Takes clock, tasks and chance from this runtime, if it is started alone.
    pub fn on(mut self, runtime: Arc<dyn Runtime>) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Hears what the worker does, as it does it: be quick, or hand it on.
    pub fn on_event(mut self, listener: impl Fn(&WorkerEvent) + Send + Sync + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// Starts it alone, on the runtime that it was given or that is found here. Dropping what is returned cancels it.
    pub fn start(self) -> Result<RunningWorker, RunFault> {
        let runtime = self.runtime.clone().or_else(runtime::find).ok_or(RunFault::NoRuntime)?;
        let above = Scope::under(&CancelToken::root(runtime));
        let running = self.start_in(&above)?;
        Ok(running.owning(above))
    }

    /// Starts it as a child of `scope`: seen in the tree, closed and cancelled with it. Dropping what is returned cancels it.
    ///
    /// # Errors
    /// - [`RunFault::Checkpoint`]: the lease is zero, or a graph name or fingerprint is one that no store accepts.
    /// - [`RunFault::Refused`]: the scope takes no child, or none of this name.
    pub fn start_in(self, scope: &Scope) -> Result<RunningWorker, RunFault> {
        self.check().map_err(|refused| RunFault::Checkpoint(CheckpointError::new("", "", "claim", refused)))?;
        running::start(self, scope).map_err(RunFault::Refused)
    }

    /// Fails if every claim of this worker would be refused.
    fn check(&self) -> Result<(), StoreError> {
        if self.settings.lease.is_zero() {
            return Err(StoreError::invalid("lease", "0", "it ends before it begins: give it some seconds"));
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
