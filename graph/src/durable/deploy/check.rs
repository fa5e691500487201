//! [`DeployCheck`]: reads the unfinished runs of a store by pages and decides for each.

use crate::compile::compiled::CompiledGraph;
use crate::durable::deploy::fit::{of_row, of_tokens};
use crate::durable::deploy::report::ReportBuilder;
use crate::durable::deploy::{DeployReport, GraphExport, RunFit};
use crate::log::open;
use crate::store::{DamagedRun, Filter, GraphVersion, RunInfo, RunStatus, Store, StoreError};
use std::collections::BTreeSet;

/// The number of runs that are read at a time.
const PAGE: usize = 500;

/// Says which unfinished runs of a store a program would serve, and why it would not serve others.
///
/// Add the graphs of the program, as typed graphs or as [exports](GraphExport). The check reads the
/// runs that are running, waiting or stuck, and changes nothing.
///
/// Cost: one page of 500 runs at a time. By default also the position of each run, which is one or
/// two reads for each. It grows with the number of unfinished runs; ended runs cost nothing.
///
/// ```
/// use pleach::durable::{DeployCheck, RunFit};
/// use pleach::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ask = |cx: NodeContext, n: u32| async move {
///     let more: u32 = cx.interrupt("more", &"how many?").await;
///     Ok::<_, String>(n + more)
/// };
/// let old = Graph::<u32>::new("order").add_node("ask", ask).add_edge("ask", END).set_entry("ask").compile()?;
/// let new = Graph::<u32>::new("order")
///     .add_node("ask", ask)
///     .add_node("ship", |n: u32| async move { n })
///     .add_edge("ask", "ship")
///     .add_edge("ship", END)
///     .set_entry("ask")
///     .compile()?;
/// let store = MemoryStore::new();
/// assert!(old.run(1).id("order-7").checkpoint(&store).await.is_err(), "it waits for an answer");
///
/// let report = DeployCheck::new().graph(&new).run(&store).await?;
/// assert_eq!(report.count(RunFit::UnknownFingerprint), 1);
/// println!("{report}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a check reads nothing before `run`"]
pub struct DeployCheck {
    graphs: Vec<GraphExport>,
    previous: Vec<GraphExport>,
    reads_logs: bool,
    runs_max: u64,
}

impl Default for DeployCheck {
    fn default() -> Self {
        Self { graphs: Vec::new(), previous: Vec::new(), reads_logs: true, runs_max: u64::MAX }
    }
}

impl DeployCheck {
    /// Creates a check without graphs: no run would be served.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a check of these graphs.
    pub(crate) fn of(graphs: Vec<GraphExport>) -> Self {
        Self { graphs, ..Self::default() }
    }

    /// Adds a graph of the new program, with schema 0 and without migrations.
    pub fn graph<S>(self, graph: &CompiledGraph<S>) -> Self {
        self.export(graph.export())
    }

    /// Adds an exported graph of the new program.
    pub fn export(mut self, export: GraphExport) -> Self {
        self.graphs.push(export);
        self
    }

    /// Adds an exported graph of the old program. It is needed to find runs that change course.
    ///
    /// The store has only the fingerprints of old graphs. Without their exports, a run of another
    /// version counts as [`Migrated`](RunFit::Migrated).
    pub fn previous(mut self, export: GraphExport) -> Self {
        self.previous.push(export);
        self
    }

    /// Sets whether the position of each run is read from its log. Default: `true`.
    ///
    /// Without it the check is faster, and does not find missing nodes, changes of course, newer
    /// formats and damaged logs.
    pub fn read_logs(mut self, read: bool) -> Self {
        self.reads_logs = read;
        self
    }

    /// Stops after this many runs. Default: no limit. The report then says that it is cut.
    pub fn limit(mut self, runs: u64) -> Self {
        self.runs_max = runs;
        self
    }

    /// Reads the store and returns the report.
    ///
    /// # Errors
    /// The store failed. A damaged run is part of the report and not an error.
    pub async fn run(&self, store: &dyn Store) -> Result<DeployReport, StoreError> {
        let mut report = ReportBuilder::default();
        // A damaged row can be listed under any status.
        let mut damaged = BTreeSet::new();
        for status in [RunStatus::Waiting, RunStatus::Running, RunStatus::Stuck] {
            let mut after = None;
            loop {
                let left = self.runs_max.saturating_sub(report.checked());
                let page = store.list(vec![Filter::Status(status)], after, PAGE.min(left.max(1) as usize)).await?;
                if left == 0 {
                    if page.runs.is_empty() && page.damaged.is_empty() {
                        break;
                    }
                    return Ok(report.finish(true));
                }
                for info in page.runs {
                    let fit = self.fit(store, &info).await?;
                    report.add(info.id, info.graph, info.version, fit);
                }
                for DamagedRun { run, .. } in page.damaged {
                    if damaged.len() < PAGE && damaged.insert(run.clone()) {
                        let version = GraphVersion { fingerprint: String::new(), schema: 0 };
                        report.add(run, String::new(), version, (RunFit::Damaged, None));
                    }
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(report.finish(false))
    }

    async fn fit(&self, store: &dyn Store, info: &RunInfo) -> Result<(RunFit, Option<String>), StoreError> {
        let fit = of_row(&self.graphs, info);
        if !self.reads_logs || !fit.is_served() {
            return Ok((fit, None));
        }
        match open::position(store, &info.id, info.head).await {
            Ok(position) => Ok(of_tokens(&self.graphs, &self.previous, info, &position.frontier)),
            Err(StoreError::NewerFormat { .. } | StoreError::Compressed { .. }) => Ok((RunFit::NewerFormat, None)),
            Err(StoreError::Damaged { .. }) => Ok((RunFit::Damaged, None)),
            // The run moved on, was pruned or removed since it was listed.
            Err(StoreError::RunNotFound { .. } | StoreError::Pruned { .. } | StoreError::NoSuchRow { .. }) => Ok((fit, None)),
            Err(error) => Err(error),
        }
    }
}
