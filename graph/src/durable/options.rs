//! How a run is stored: store, lease, retention, and the source of the run.

use crate::compile::plan::Plan;
use crate::context::run_context::RunContext;
use crate::durable::changes::ResumeChanges;
use crate::durable::migrate::Migrations;
use crate::lease::Moment;
use crate::log::LogOptions;
use crate::log::codec::Codec;
use crate::log::committer::COMMIT_ROWS_MAX;
use crate::log::deadline::Timeout;
use crate::store::{BODY_BYTES_MAX, Claim, Store};
use pleach_core::Instant;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;

/// The default duration of a lease without renewal: 30 s.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(30);

/// The default number of records that are kept while a run lives: 100.
pub const RECORDS_KEPT_DEFAULT: u64 = 100;

/// The default time that an ended run is kept: 30 days.
pub const ENDED_KEPT_DEFAULT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The store of a run, and all options of the stored run.
pub(crate) struct DurableOptions<S> {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) storage: StorageOptions,
    pub(crate) codec: Codec<S>,
    pub(crate) origin: RunSource,
    /// The changes that a resume makes.
    pub(crate) changes: ResumeChanges<S>,
    /// The answers that a resume delivers, by message name.
    pub(crate) answers: Vec<(String, Result<Vec<u8>, serde_json::Error>)>,
    /// The timeout of the run. It applies only if no deadline is stored.
    pub(crate) timeout: Option<Duration>,
    /// The claim of a worker that already holds the run, when it was requested, and the worker's
    /// options.
    pub(crate) holder: Option<(Claim, Moment, LogOptions)>,
}

/// The storage options that do not depend on the state type or the store.
pub(crate) struct StorageOptions {
    pub(crate) lease: Duration,
    pub(crate) body_bytes_max: usize,
    pub(crate) rows_kept: u64,
    pub(crate) commit_rows_max: usize,
    pub(crate) is_best_effort: bool,
    pub(crate) attaches: bool,
    pub(crate) schema: u32,
    pub(crate) migrations: Migrations,
    pub(crate) ended_kept: Duration,
}

impl Default for StorageOptions {
    fn default() -> Self {
        Self {
            lease: LEASE_DEFAULT,
            body_bytes_max: BODY_BYTES_MAX,
            rows_kept: RECORDS_KEPT_DEFAULT,
            commit_rows_max: COMMIT_ROWS_MAX,
            is_best_effort: false,
            attaches: false,
            schema: 0,
            migrations: Migrations::new(),
            ended_kept: ENDED_KEPT_DEFAULT,
        }
    }
}

/// The source of a stored run.
pub(crate) enum RunSource {
    /// A new run. An existing run with its id is resumed or rejected, as `attaches` says.
    New,
    /// A stored run that continues.
    Stored { takes_over: bool },
    /// A new run that starts as a copy of this one.
    Forked { from: Arc<str> },
}

impl<S: Serialize + DeserializeOwned> DurableOptions<S> {
    pub(crate) fn new(store: Arc<dyn Store>, origin: RunSource) -> Self {
        let (storage, codec, changes) = (StorageOptions::default(), Codec::new(), ResumeChanges::default());
        Self { store, storage, codec, origin, changes, answers: Vec::new(), timeout: None, holder: None }
    }
}

impl<S> DurableOptions<S> {
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// Sets the node where a resumed or forked run continues. A run that a worker holds ignores it.
    pub(crate) fn continue_at(&mut self, node: Option<&String>) {
        if !matches!(self.origin, RunSource::New) && self.holder.is_none() {
            self.changes.from = node.cloned();
        }
    }

    /// Returns the options of the log. Those of a worker that holds the run take precedence.
    pub(crate) fn log_options(&self, started: Instant) -> LogOptions {
        let StorageOptions { lease, body_bytes_max, rows_kept, commit_rows_max, is_best_effort, .. } = self.storage;
        let (store, monitor, timeout) = (self.store(), Arc::default(), Timeout::new(started, self.timeout));
        let (worker_lease, hold_waiting_for) = (None, None);
        let own = LogOptions {
            store,
            lease,
            body_bytes_max,
            rows_kept,
            commit_rows_max,
            is_best_effort,
            worker_lease,
            hold_waiting_for,
            monitor,
            timeout,
        };
        match self.holder.as_ref().map(|(_, _, log_options)| log_options.clone()) {
            Some(LogOptions { store, lease, worker_lease, hold_waiting_for, .. }) => {
                LogOptions { store, lease, worker_lease, hold_waiting_for, ..own }
            }
            None => own,
        }
    }
}

/// A new run that a worker will drive.
pub(crate) struct QueuedRun<S> {
    pub(crate) plan: Arc<Plan<S>>,
    pub(crate) run: RunContext,
    pub(crate) start: u32,
    pub(crate) state: Option<S>,
    pub(crate) stored: Option<Box<DurableOptions<S>>>,
}
