//! The options of a stored run, as methods of [`RunOptions`].

use crate::control::{RunRefusals, RunRemote};
use crate::durable::deploy::GraphExport;
use crate::durable::drive;
use crate::durable::migrate::Migrations;
use crate::durable::options::{DurableOptions, RunSource, StorageOptions};
use crate::error::RunError;
use crate::lease::Moment;
use crate::log::LogOptions;
use crate::run::options::RunOptions;
use crate::store::{Claim, Store};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;

impl<'a, S: Serialize + DeserializeOwned + Send + 'static> RunOptions<'a, S> {
    /// Stores the run: each step is durable before the next one starts.
    ///
    /// After a crash the run can be [resumed](crate::CompiledGraph::resume).
    ///
    /// The run survives a short outage of the store. Commits, renewals and reads that fail
    /// temporarily ([`Unreachable`](crate::store::StoreError::Unreachable) or
    /// [`Unavailable`](crate::store::StoreError::Unavailable)) are retried with backoff for at most
    /// three quarters of the [`lease`](Self::lease). Hooks get
    /// [`StoreUnavailable`](crate::RunEvent::StoreUnavailable) at the first failure and
    /// [`StoreRecovered`](crate::RunEvent::StoreRecovered) at the recovery. The creation and the
    /// claim of a run are not retried.
    ///
    /// # Errors
    /// - [`Exists`](crate::RunFault::Exists): the store already has a run with this id. See
    ///   [`attach`](Self::attach).
    /// - [`Checkpoint`](crate::RunFault::Checkpoint): the store failed until the lease was about to
    ///   expire. The run can be resumed.
    pub fn checkpoint(self, store: &(impl Store + Clone)) -> Self {
        self.stored(DurableOptions::new(Arc::new(store.clone()), RunSource::New))
    }

    /// Resumes the run with this id if the store already has one. The given state is then ignored.
    ///
    /// Default: an existing run is an [`Exists`](crate::RunFault::Exists) error.
    pub fn attach(self) -> Self {
        self.keep_as(|storage| storage.attaches = true)
    }

    /// Creates the run and leaves it to a [`Worker`](crate::Worker), in this or another process.
    ///
    /// The run is durable when this method returns. The worker sets the options of the execution,
    /// such as limits, hooks and extensions; those given here are not stored.
    ///
    /// # Errors
    /// The run has no store, or the store rejected it. The error contains the state.
    pub async fn enqueue(self) -> Result<RunRemote, RunError<S>> {
        // The scope option is dropped: a worker cannot use it.
        let queued = self.into_queued();
        drive::enqueue(queued?).await
    }

    /// Sets how long a claim on the run lasts without renewal. Default: 30 s.
    ///
    /// The driver renews the lease after a quarter of this time. If the driver dies, another one
    /// can claim the run after the lease has expired.
    pub fn lease(self, lease: Duration) -> Self {
        self.keep_as(|storage| storage.lease = lease)
    }

    /// Sets the version of the state type. Default: 0.
    ///
    /// Increase it when the type changes, and add a [migration](Self::migrations) for states of
    /// earlier versions.
    pub fn schema(self, version: u32) -> Self {
        self.keep_as(|storage| storage.schema = version)
    }

    /// Sets how a run of an earlier graph version is migrated. Default: it is a
    /// [`Mismatch`](crate::RunFault::Mismatch).
    pub fn migrations(self, migrations: &Migrations) -> Self {
        self.keep_as(|storage| storage.migrations = migrations.clone())
    }

    /// Sets how many of the last records are kept while the run lives. Default: 100, minimum 1.
    ///
    /// Older records that a resume, an undo or a replay of the last node needs are kept as well.
    pub fn keep_records(self, records: u64) -> Self {
        self.keep_as(|storage| storage.rows_kept = records.max(1))
    }

    /// Sets how long ended runs are kept. Default: 30 days.
    ///
    /// They are removed in the background when new runs start in the same store.
    pub fn keep_ended(self, time: Duration) -> Self {
        self.keep_as(|storage| storage.ended_kept = time)
    }

    /// Limits the size of one state as JSON, in bytes. Default: 16 MiB.
    pub fn max_state_bytes(self, bytes: usize) -> Self {
        self.keep_as(|storage| storage.body_bytes_max = bytes)
    }

    /// Limits the records of one commit. Only for tests of a crash between two commits.
    #[doc(hidden)]
    pub fn max_commit_records(self, records: usize) -> Self {
        self.keep_as(|storage| storage.commit_rows_max = records.max(1))
    }

    /// Continues without further checkpoints when the store fails. Default: the run ends.
    ///
    /// - Hooks get [`CheckpointsLost`](crate::RunEvent::CheckpointsLost).
    /// - An unavailable store is retried for one second, or for three quarters of the
    ///   [`lease`](Self::lease) if that is shorter. After that the run does not use the store
    ///   again.
    /// - If the lease cannot be renewed, the run continues without the store shortly before the
    ///   lease expires.
    pub fn best_effort(self) -> Self {
        self.keep_as(|storage| storage.is_best_effort = true)
    }

    /// Makes this the execution of a run that a worker has claimed, with the options of that
    /// worker.
    pub(crate) fn assign(mut self, (claim, asked_at): (Claim, Moment), holder: LogOptions) -> Self {
        if let Some(stored) = self.stored_mut() {
            stored.store = Arc::clone(&holder.store);
            (stored.origin, stored.holder) = (RunSource::Stored { takes_over: false }, Some((claim, asked_at, holder)));
        }
        self
    }

    /// Sets the health reports about messages that the run refuses.
    pub(crate) fn reporting(mut self, refusals: Arc<RunRefusals>) -> Self {
        drop(self.details().refusals.set(refusals));
        self
    }

    /// Returns the graph as data, with the schemas and shapes of stored runs that these options
    /// accept.
    pub(crate) fn export(mut self) -> GraphExport {
        let export = self.graph.export();
        let StorageOptions { schema, migrations, .. } = self.storage();
        export.schema(*schema).migrations(migrations)
    }

    /// Changes a storage option, before or after the store is named.
    fn keep_as(mut self, change: impl FnOnce(&mut StorageOptions)) -> Self {
        change(self.storage());
        self
    }
}
