//! How a run is stored: which store, which lease, what is kept, and where the run comes from.

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

/// How long a driver holds a run without renewing its lease.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(30);

/// How many records of a run are kept while it lives.
pub const RECORDS_KEPT_DEFAULT: u64 = 100;

/// How long a run is kept after it has ended.
pub const ENDED_KEPT_DEFAULT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Where a run is stored, and how.
pub(crate) struct DurableOptions<S> {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) storage: StorageOptions,
    pub(crate) codec: Codec<S>,
    pub(crate) origin: RunSource,
    /// What is to be different from what is stored.
    pub(crate) changes: ResumeChanges<S>,
    /// Answers that the run is resumed with, by the names of messages.
    pub(crate) answers: Vec<(String, Result<Vec<u8>, serde_json::Error>)>,
    /// How long the run may take, if nothing else is stored.
    pub(crate) timeout: Option<Duration>,
    /// Who holds the run already: the claim, when it was asked for, and on which terms.
    pub(crate) holder: Option<(Claim, Moment, LogOptions)>,
}

/// How a run is to be kept, whatever the store.
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

/// Where a stored run comes from.
pub(crate) enum RunSource {
    /// It is new; if there is one with its id, that one is gone on with, or refused.
    New,
    /// It is there.
    Stored { takes_over: bool },
    /// It is new, and begins where this one stands or stood.
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

    /// Goes on at this node, if it is a run that is resumed or forked. One that a worker holds goes on where it stands.
    pub(crate) fn continue_at(&mut self, node: Option<&String>) {
        if !matches!(self.origin, RunSource::New) && self.holder.is_none() {
            self.changes.from = node.cloned();
        }
    }

    /// On which terms the run is kept. What its holder says goes first.
    pub(crate) fn log_options(&self, started: Instant) -> LogOptions {
        let StorageOptions { lease, body_bytes_max, rows_kept, commit_rows_max, is_best_effort, .. } = self.storage;
        let (store, watch, timeout) = (self.store(), Arc::default(), Timeout::new(started, self.timeout));
        let (kept_lease, patience) = (None, None);
        let own = LogOptions {
            store,
            lease,
            body_bytes_max,
            rows_kept,
            commit_rows_max,
            is_best_effort,
            kept_lease,
            patience,
            watch,
            timeout,
        };
        match self.holder.as_ref().map(|(_, _, log_options)| log_options.clone()) {
            Some(LogOptions { store, lease, kept_lease, patience, .. }) => {
                LogOptions { store, lease, kept_lease, patience, ..own }
            }
            None => own,
        }
    }
}

/// The beginning of a run that nobody drives yet.
pub(crate) struct QueuedRun<S> {
    pub(crate) plan: Arc<Plan<S>>,
    pub(crate) run: RunContext,
    pub(crate) start: u32,
    pub(crate) state: Option<S>,
    pub(crate) stored: Option<Box<DurableOptions<S>>>,
}
