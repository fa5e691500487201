//! [`RunMetrics`]: what runs and workers do, through the `metrics` facade.
//!
//! Nothing of it is inside of the engine. Nodes are counted by hooks, workers by their events, and
//! commits, claims and inboxes by a store around the store. A run without these pays nothing.

use super::measured_store::MeasuredStore;
use crate::graph::{Hooks, RunEvent, Visit};
use crate::store::Store;
use crate::worker::{RunEnd, WorkerEvent};
use pleach_core::{Cause, Instant, Reason, Runtime};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The largest number of values of the label `graph`. The others are `other`.
pub const GRAPH_LABELS_MAX: usize = 100;

/// The largest number of pairs of the labels `graph` and `node`. The node of the others is `other`.
pub const NODE_LABELS_MAX: usize = 500;

/// How many attempts of one run are timed at once. Further ones are counted only.
const ATTEMPTS_TIMED_MAX: usize = 10_000;

const OTHER: &str = "other";

/// Counters, gauges and histograms of runs, workers and stores.
///
/// | installed by | counts |
/// |---|---|
/// | [`hooks`](Self::hooks) | attempts at nodes, with their times |
/// | [`worker`](Self::worker) | ends of drives; delayed, stuck and unserved runs |
/// | [`store`](Self::store) | calls with their times; runs, claims, takeovers, refused messages |
///
/// `docs/telemetry.md` lists the names and labels. A path or the id of a run is never a label.
///
/// ```
/// use pleach::prelude::*;
/// use pleach::runtime::TokioRuntime;
/// use pleach::telemetry::RunMetrics;
/// use pleach::worker::Worker;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = Graph::<u32>::new("double")
///     .add_node("double", |n: u32| async move { Ok::<_, String>(n * 2) })
///     .add_edge("double", END)
///     .set_entry("double")
///     .compile()?;
/// let metrics = RunMetrics::new("shop", TokioRuntime::current()?);
/// let store = metrics.store(MemoryStore::new());
/// let hooks = metrics.hooks("double");
/// let worker = Worker::new(&store)
///     .graph_with(&graph, move |run| run.hooks(hooks.clone()))
///     .on_event(metrics.worker())
///     .start()?;
/// # drop(worker);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RunMetrics(Arc<Parts>);

pub(super) struct Parts {
    pub(super) system: String,
    pub(super) runtime: Arc<dyn Runtime>,
    labels: Mutex<Labels>,
    /// The graphs with unserved runs at the last report of a worker. Their gauge is set to 0 later.
    unserved: Mutex<BTreeSet<String>>,
}

#[derive(Default)]
struct Labels {
    graphs: BTreeSet<String>,
    nodes: BTreeSet<(String, String)>,
}

impl RunMetrics {
    /// Creates metrics with the label `system`. `runtime` is the clock: that of the system.
    pub fn new(system: &str, runtime: Arc<dyn Runtime>) -> Self {
        let (labels, unserved) = (Mutex::default(), Mutex::default());
        Self(Arc::new(Parts { system: system.to_string(), runtime, labels, unserved }))
    }

    /// Returns hooks that count the nodes of runs of this graph. Give them to
    /// [`RunOptions::hooks`](crate::graph::RunOptions::hooks), or to a worker with
    /// [`Worker::graph_with`](crate::worker::Worker::graph_with).
    pub fn hooks<S: 'static>(&self, graph: &str) -> Hooks<S> {
        let (parts, graph) = (Arc::clone(&self.0), self.0.graph_label(graph));
        let running: Mutex<BTreeMap<AttemptKey, Instant>> = Mutex::default();
        let lock = move |visit: &Visit, begins: Option<Instant>| {
            let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
            match begins {
                Some(now) if running.len() < ATTEMPTS_TIMED_MAX => running.insert(key_of(visit), now),
                Some(_) => None,
                None => running.remove(&key_of(visit)),
            }
        };
        let ended = move |parts: &Parts, visit: &Visit, began: Option<Instant>, failed: Option<&Reason>| {
            parts.count_attempt(&graph, &visit.node, began, outcome_of(failed));
        };
        Hooks::new(move |event: &RunEvent<&S>| match event {
            RunEvent::NodeStarted { visit, .. } | RunEvent::InnerStarted { visit } => {
                lock(visit, Some(parts.runtime.now()));
            }
            RunEvent::NodeFinished { visit, outcome } => {
                ended(&parts, visit, lock(visit, None), outcome.as_ref().err().map(|reason| &**reason));
            }
            RunEvent::InnerFinished { visit, failed } => ended(&parts, visit, lock(visit, None), failed.as_deref()),
            _ => {}
        })
    }

    /// Returns a listener for [`Worker::on_event`](crate::worker::Worker::on_event). Call it from a
    /// listener of your own if you have one.
    pub fn worker(&self) -> impl Fn(&WorkerEvent) + Send + Sync + 'static + use<> {
        let parts = Arc::clone(&self.0);
        move |event| parts.count_event(event)
    }

    /// Returns a store that measures the calls of `store`. Give it to runs and workers in its
    /// place.
    pub fn store(&self, store: impl Store) -> MeasuredStore {
        MeasuredStore::new(Arc::new(store), Arc::clone(&self.0))
    }
}

impl fmt::Debug for RunMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunMetrics").field("system", &self.0.system).finish_non_exhaustive()
    }
}

/// Identifies an attempt that runs now.
type AttemptKey = (Option<Arc<str>>, Arc<str>, String, u64, u32);

fn key_of(visit: &Visit) -> AttemptKey {
    (visit.run.clone(), Arc::clone(&visit.node), format!("{:?}", visit.branch), visit.iteration, visit.attempt)
}

impl Parts {
    /// Returns the value of the label `graph`.
    pub(super) fn graph_label(&self, graph: &str) -> String {
        let mut labels = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = labels.graphs.contains(graph);
        if !is_known && labels.graphs.len() >= GRAPH_LABELS_MAX - 1 {
            return OTHER.to_string();
        }
        labels.graphs.insert(graph.to_string());
        graph.to_string()
    }

    /// Returns the value of the label `node`.
    fn node_label(&self, graph: &str, node: &str) -> String {
        let mut labels = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
        let pair = (graph.to_string(), node.to_string());
        if !labels.nodes.contains(&pair) && labels.nodes.len() >= NODE_LABELS_MAX - 1 {
            return OTHER.to_string();
        }
        labels.nodes.insert(pair);
        node.to_string()
    }

    pub(super) fn system(&self) -> String {
        self.system.clone()
    }

    fn count_attempt(&self, graph: &str, node: &str, began: Option<Instant>, outcome: &str) {
        let (graph_label, node_label) = (graph.to_string(), self.node_label(graph, node));
        let labels =
            [("system", self.system()), ("graph", graph_label), ("node", node_label), ("outcome", outcome.to_string())];
        metrics::counter!("pleach.node.attempts", &labels).increment(1);
        if let Some(began) = began {
            let seconds = self.runtime.now().since(began).as_secs_f64();
            metrics::histogram!("pleach.node.duration", &labels).record(seconds);
        }
    }

    fn count_event(&self, event: &WorkerEvent) {
        match event {
            WorkerEvent::Ended { end, .. } => {
                metrics::counter!("pleach.worker.drives", "system" => self.system(), "end" => end_name(end)).increment(1);
            }
            WorkerEvent::Delayed { .. } | WorkerEvent::LeftToNewer { .. } => {
                metrics::counter!("pleach.worker.delayed", "system" => self.system()).increment(1);
            }
            WorkerEvent::Stuck { .. } => {
                metrics::counter!("pleach.worker.stuck", "system" => self.system()).increment(1);
            }
            WorkerEvent::StoreFailed { op, .. } => {
                metrics::counter!("pleach.worker.store_failures", "system" => self.system(), "op" => *op).increment(1);
            }
            WorkerEvent::Unserved { runs } => {
                let mut by_graph: BTreeMap<String, usize> = BTreeMap::new();
                for version in &runs.overdue {
                    *by_graph.entry(self.graph_label(&version.graph)).or_default() += version.runs.len();
                }
                self.set_unserved(by_graph);
                self.set_unservable(runs.damaged.len(), runs.stuck.len());
            }
            WorkerEvent::AllServed => {
                self.set_unserved(BTreeMap::new());
                self.set_unservable(0, 0);
            }
            _ => {}
        }
    }

    /// Sets the gauge of overdue runs of each graph, and clears those of graphs without any.
    fn set_unserved(&self, mut by_graph: BTreeMap<String, usize>) {
        let mut known = self.unserved.lock().unwrap_or_else(PoisonError::into_inner);
        for graph in known.iter() {
            by_graph.entry(graph.clone()).or_default();
        }
        *known = by_graph.keys().cloned().collect();
        for (graph, runs) in by_graph {
            metrics::gauge!("pleach.runs.overdue", "system" => self.system(), "graph" => graph).set(runs as f64);
        }
    }

    fn set_unservable(&self, damaged: usize, stuck: usize) {
        metrics::gauge!("pleach.runs.damaged", "system" => self.system()).set(damaged as f64);
        metrics::gauge!("pleach.runs.stuck", "system" => self.system()).set(stuck as f64);
    }
}

/// Returns the value of the label `outcome` of an attempt. An attempt that ends because its run is
/// paused, waits or is cancelled has not failed.
fn outcome_of(failed: Option<&Reason>) -> &'static str {
    match failed {
        None => "finished",
        Some(Reason::Error(error)) if error.is::<Cause>() => "abandoned",
        Some(_) => "failed",
    }
}

/// Returns the value of the label `end`.
fn end_name(end: &RunEnd) -> &'static str {
    match end {
        RunEnd::Finished => "finished",
        RunEnd::Failed { .. } => "failed",
        RunEnd::Cancelled => "cancelled",
        RunEnd::Waits { .. } => "waits",
        RunEnd::Released => "released",
        RunEnd::Lost => "lost",
        RunEnd::Trouble { .. } => "trouble",
        _ => OTHER,
    }
}
