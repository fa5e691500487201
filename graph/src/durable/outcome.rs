//! [`OutcomeOf`]: waits for the end of a stored run without driving it.

use crate::compile::compiled::CompiledGraph;
use crate::durable::migrate::Migrations;
use crate::engine::undo_stored::compensation_of;
use crate::error::{CheckpointError, MismatchError, Outcome, RunError, RunFault, StoredFault, fault_of};
use crate::log::codec::Codec;
use crate::log::open;
use crate::log::open::LogPosition;
use crate::store::{GraphVersion, Header, RunInfo, RunStatus, Store, StoreError};
use crate::util::future::either;
use crate::util::runtime;
use pleach_core::{BoxFuture, Runtime};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

/// The first and the longest wait between two reads of the run.
const POLL_WAIT: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// A future for the end of a run that other processes drive. Returned by
/// [`CompiledGraph::outcome_of`].
///
/// It implements `IntoFuture`. It resolves to the last state or the error of the run.
///
/// ```
/// use pleach::store::MemoryStore;
/// use pleach::{END, Graph};
/// use pleach::worker::Worker;
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let graph = Graph::<u32>::new("doubling")
/// #     .add_node("double", |n: u32| async move { n * 2 })
/// #     .add_edge("double", END).set_entry("double").compile()?;
/// let store = MemoryStore::new();
/// graph.run(21).id("sum-7").checkpoint(&store).enqueue().await?;
///
/// let worker = Worker::new(&store).graph(&graph).start()?;
/// assert_eq!(graph.outcome_of("sum-7", &store).await?, 42);
/// worker.close(Duration::from_secs(1)).await;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing happens before it is awaited"]
pub struct OutcomeOf<S> {
    graph: CompiledGraph<S>,
    run: Arc<str>,
    store: Arc<dyn Store>,
    runtime: Option<Arc<dyn Runtime>>,
    schema: u32,
    migrations: Migrations,
}

impl<S: Serialize + DeserializeOwned + Send + 'static> CompiledGraph<S> {
    /// Waits for the end of a run that other processes drive, and returns its last state.
    ///
    /// It does not claim the run. A run that waits for an answer is waited for.
    ///
    /// # Errors
    /// - [`Ended`](RunFault::Ended): the run was cancelled.
    /// - [`Cancelled`](RunFault::Cancelled): the run was cancelled at its deadline.
    /// - [`Checkpoint`](RunFault::Checkpoint): the run is [`Stuck`](RunStatus::Stuck) and would
    ///   never end, or the store failed.
    /// - The fault of the run, if it failed.
    pub fn outcome_of(&self, run: impl Into<Arc<str>>, store: &(impl Store + Clone)) -> OutcomeOf<S> {
        let (graph, run, store) = (self.clone(), run.into(), Arc::new(store.clone()));
        OutcomeOf { graph, run, store, runtime: None, schema: 0, migrations: Migrations::new() }
    }
}

impl<S> OutcomeOf<S> {
    /// Sets the runtime whose clock is used. Default: that of the awaiting actor or task, else the
    /// current Tokio runtime.
    pub fn runtime(mut self, runtime: Arc<dyn Runtime>) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Sets the version of the state type, as [`RunOptions::schema`](crate::RunOptions::schema)
    /// does. Default: 0.
    ///
    /// If the run ended with another schema, its state is [migrated](Self::migrations) when it is
    /// read; without migrations it is a [`Mismatch`](RunFault::Mismatch).
    pub fn schema(mut self, version: u32) -> Self {
        self.schema = version;
        self
    }

    /// Sets how the last state is migrated if the run ended with an earlier schema. The stored run
    /// stays unchanged.
    pub fn migrations(mut self, migrations: &Migrations) -> Self {
        self.migrations = migrations.clone();
        self
    }
}

impl<S: Serialize + DeserializeOwned + Send + 'static> OutcomeOf<S> {
    async fn wait(self) -> Outcome<S> {
        let Self { graph, run, store, runtime, schema, migrations } = self;
        let runtime = runtime.or_else(runtime::find).ok_or_else(|| RunError::new(RunFault::NoRuntime, None))?;
        let mut wait = POLL_WAIT.0;
        loop {
            let hinted = store.hint();
            let info = store.head(&run).await.map_err(|error| RunError::new(fault_of(&*run, "", "open", error), None))?;
            if info.graph != graph.name() {
                let (run, stored, given) = (run.to_string(), info.graph, graph.name().to_string());
                return Err(RunError::new(RunFault::Mismatch(MismatchError { run, what: "graph", stored, given }), None));
            }
            if info.status == RunStatus::Stuck {
                let stuck = StoreError::Stuck { run: run.to_string(), takeovers: info.takeovers, reason: info.trouble };
                return Err(RunError::new(fault_of(&*run, "", "open", stuck), None));
            }
            if info.status.has_ended() {
                return outcome(&*store, &info, schema, &migrations).await;
            }
            either(runtime.sleep_until(runtime.now() + wait), hinted).await;
            wait = (wait * 2).min(POLL_WAIT.1);
        }
    }
}

impl<S: Serialize + DeserializeOwned + Send + 'static> IntoFuture for OutcomeOf<S> {
    type Output = Outcome<S>;
    type IntoFuture = BoxFuture<'static, Outcome<S>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.wait())
    }
}

impl<S> fmt::Debug for OutcomeOf<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OutcomeOf({:?})", self.run)
    }
}

/// Returns the fault of a cancelled run if its deadline was the cause.
async fn deadline_of(store: &dyn Store, info: &RunInfo) -> Option<RunFault> {
    let last = open::records(store, &info.id, vec![info.head]).await.ok()?.remove(&info.head)?;
    let fault = serde_json::from_slice::<StoredFault>(&last.body).ok()?;
    fault.is_deadline().then(|| fault.into_fault())
}

/// Reads the outcome of a run that has ended.
async fn outcome<S: Serialize + DeserializeOwned>(
    store: &dyn Store,
    info: &RunInfo,
    schema: u32,
    migrations: &Migrations,
) -> Outcome<S> {
    if info.status == RunStatus::Cancelled {
        let ended = RunFault::Ended { run: info.id.clone(), status: info.status };
        return Err(RunError::new(deadline_of(store, info).await.unwrap_or(ended), None));
    }
    let failed = |error| RunError::new(fault_of(&*info.id, "", "open", error), None);
    let damaged = |reason| StoreError::Damaged { run: info.id.clone(), sequence: info.head, reason };
    let position = open::position(store, &info.id, info.head).await.map_err(failed)?;
    let LogPosition { frontier, base, undone, undo_failed, .. } = position;
    let root = frontier.get(&[]).map_or(0, |token| token.row);
    let wanted = if info.status == RunStatus::Finished { vec![root] } else { vec![root, base] };
    let wanted = wanted.into_iter().filter(|row| *row > 0).collect();
    let records = open::records(store, &info.id, wanted).await.map_err(failed)?;
    let decoded = |row: u64| {
        let record = records.get(&row).ok_or_else(|| fault_of(&*info.id, "", "open", damaged("it is not there")))?;
        let Header { fingerprint, schema: from, .. } = &record.header;
        let version = |schema| GraphVersion { fingerprint: fingerprint.clone(), schema };
        migrations.check_version(&info.id, &version(*from), &version(schema))?;
        let body = migrations.migrate_body(record.body.clone(), "", (&info.id, row), *from..schema)?;
        let read = Codec::<S>::new().read(&body);
        read.map(|stored| stored.state)
            .map_err(|error| RunFault::Checkpoint(CheckpointError::new(&*info.id, "", "decode", error)))
    };
    if info.status == RunStatus::Finished {
        return decoded(root).map_err(|fault| RunError::new(fault, None));
    }
    let fault = records.get(&base).and_then(|record| serde_json::from_slice::<StoredFault>(&record.body).ok());
    let mut fault = fault.ok_or_else(|| failed(damaged("it does not say how the run failed")))?;
    let mut all_undone = std::mem::take(&mut fault.undone);
    all_undone.extend(undone);
    let mut error = RunError::new(fault.into_fault(), decoded(root).ok());
    if matches!(info.status, RunStatus::Compensated | RunStatus::CompensationFailed) {
        let compensation = compensation_of(store, &info.id, all_undone, undo_failed).await.map_err(failed)?;
        error.set_compensation(compensation);
    }
    Err(error)
}
