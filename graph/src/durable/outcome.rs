//! `OutcomeOf`: waits for the end of a stored run without driving it.

use crate::compile::compiled::CompiledGraph;
use crate::durable::migrate::Migrations;
use crate::engine::undo_stored::compensation_of;
use crate::error::{CheckpointError, MismatchError, Outcome, RunError, RunFault, StoredFault, fault_of};
use crate::log::codec::Codec;
use crate::log::open;
use crate::log::open::LogPosition;
use crate::store::{GraphVersion, Header, RunInfo, RunStatus, Store, StoreError};
use crate::util::runtime;
use pleach_core::{BoxFuture, Runtime};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::future::{IntoFuture, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// How soon the run is looked at again, at first and at most.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// The end of a run that others drive, to be awaited; from [`CompiledGraph::outcome_of`].
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
    /// Waits for the end of a run that others drive, and gives its last state, or why there is none: `graph.outcome_of("sum-7", &store).await?`.
    ///
    /// A run that was cancelled is [`Ended`](RunFault::Ended); one that was cancelled at its deadline is [`Cancelled`](RunFault::Cancelled).
    /// A run that waits for an answer is waited for; one that is [`Stuck`](RunStatus::Stuck) is an error, since it would be waited for in vain.
    pub fn outcome_of(&self, run: impl Into<Arc<str>>, store: &(impl Store + Clone)) -> OutcomeOf<S> {
        let (graph, run, store) = (self.clone(), run.into(), Arc::new(store.clone()));
        OutcomeOf { graph, run, store, runtime: None, schema: 0, migrations: Migrations::new() }
    }
}

impl<S> OutcomeOf<S> {
    /// Takes the clock from this runtime; without it, from the actor or task that awaits, else from the current Tokio runtime.
    pub fn on(mut self, runtime: Arc<dyn Runtime>) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// The version of the type of the state, as for [`RunOptions::schema`](crate::RunOptions::schema). Default: 0.
    ///
    /// A run that ended with another schema is [migrated](Self::migrations) as it is read, or a [`Mismatch`](RunFault::Mismatch).
    pub fn schema(mut self, version: u32) -> Self {
        self.schema = version;
        self
    }

    /// Migrates the last state of a run that ended with an earlier schema. The run itself stays as it is.
    pub fn migrations(mut self, migrations: &Migrations) -> Self {
        self.migrations = migrations.clone();
        self
    }
}

impl<S: Serialize + DeserializeOwned + Send + 'static> OutcomeOf<S> {
    async fn wait(self) -> Outcome<S> {
        let Self { graph, run, store, runtime, schema, migrations } = self;
        let runtime = runtime.or_else(runtime::find).ok_or_else(|| RunError::new(RunFault::NoRuntime, None))?;
        let mut wait = LOOK_AGAIN.0;
        loop {
            let mut nudged = store.nudged();
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
            either(runtime.sleep_until(runtime.now() + wait), &mut nudged).await;
            wait = (wait * 2).min(LOOK_AGAIN.1);
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

async fn either(mut timer: BoxFuture<'static, ()>, nudged: &mut BoxFuture<'_, ()>) {
    poll_fn(|cx| match timer.as_mut().poll(cx) {
        Poll::Pending => nudged.as_mut().poll(cx),
        ready => ready,
    })
    .await;
}

/// How a run that was cancelled ended, if its deadline is why.
async fn deadline_of(store: &dyn Store, info: &RunInfo) -> Option<RunFault> {
    let last = open::records(store, &info.id, vec![info.head]).await.ok()?.remove(&info.head)?;
    let fault = serde_json::from_slice::<StoredFault>(&last.body).ok()?;
    fault.is_deadline().then(|| fault.into_fault())
}

/// How a run ended that has ended.
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
    let damaged = |why| StoreError::Damaged { run: info.id.clone(), sequence: info.head, why };
    let stands = open::position(store, &info.id, info.head).await.map_err(failed)?;
    let LogPosition { frontier, base, undone, undo_failed, .. } = stands;
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
