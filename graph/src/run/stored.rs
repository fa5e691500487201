//! The options of a run that is stored.

use crate::control::RunRemote;
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
    /// Keeps the run in this store: each step is durable before the next begins, and the run can be [resumed](crate::CompiledGraph::resume)
    /// after a crash. A run with this id that is there already is [`Exists`](crate::RunFault::Exists).
    ///
    /// The run survives a short outage of the store. Commits, renewals and reads that fail as [`Unavailable`](crate::store::StoreError::Unavailable) are
    /// repeated with backoff until the lease is about to end, for three quarters of the [`lease`](Self::lease) at most; then the run ends with
    /// [`Checkpoint`](crate::RunFault::Checkpoint), and can be resumed. Hooks hear of the first failure
    /// ([`StoreUnavailable`](crate::RunEvent::StoreUnavailable)) and of the recovery ([`StoreAnswers`](crate::RunEvent::StoreAnswers)). Making
    /// or claiming a run is not repeated.
    pub fn checkpoint(self, store: &(impl Store + Clone)) -> Self {
        self.stored(DurableOptions::new(Arc::new(store.clone()), RunSource::New))
    }

    /// Goes on with the run that has this id, if there is one; what it began with then counts, and not this state.
    pub fn attach(self) -> Self {
        self.keep_as(|storage| storage.attaches = true)
    }

    /// Leaves the run to whoever claims it: a [`Worker`](crate::Worker), here or elsewhere. It is durable once this returns.
    ///
    /// What is said here of how it runs (limits, hooks, extensions) is said by the worker that drives it.
    pub async fn enqueue(self) -> Result<RunRemote, RunError<S>> {
        // What others need of it is taken now: a scope that it was given is not part of that.
        let first = self.into_first();
        drive::enqueue(first?).await
    }

    /// How long the run stays with a driver that is not heard of, before another may claim it; 30 seconds unless told.
    pub fn lease(self, lease: Duration) -> Self {
        self.keep_as(|storage| storage.lease = lease)
    }

    /// The version of the type of the state; 0 unless told. Raise it with the type, and say how states of earlier versions are
    /// [migrated](Self::migrations).
    pub fn schema(self, version: u32) -> Self {
        self.keep_as(|storage| storage.schema = version)
    }

    /// What is done with a run that an earlier version of the graph began. Without them it is a [`Mismatch`](crate::RunFault::Mismatch).
    pub fn migrations(self, migrations: &Migrations) -> Self {
        self.keep_as(|storage| storage.migrations = migrations.clone())
    }

    /// How many of the last records are kept while the run lives; 100 unless told. What a resume, an undo or a replay of
    /// the last node needs is kept in any case.
    pub fn keep_records(self, records: u64) -> Self {
        self.keep_as(|storage| storage.rows_kept = records.max(1))
    }

    /// How long runs are kept that have ended; 30 days unless told. They are removed in the background, by runs that begin in the same store.
    pub fn keep_ended(self, time: Duration) -> Self {
        self.keep_as(|storage| storage.ended_kept = time)
    }

    /// How many bytes one state may have as JSON; 16 MiB unless told.
    pub fn max_state_bytes(self, bytes: usize) -> Self {
        self.keep_as(|storage| storage.body_bytes_max = bytes)
    }

    /// The most records of one commit, for tests of what a crash between two commits leaves.
    #[doc(hidden)]
    pub fn max_commit_records(self, records: usize) -> Self {
        self.keep_as(|storage| storage.commit_rows_max = records.max(1))
    }

    /// Goes on when the store fails, with no further checkpoints; hooks hear of it as
    /// [`CheckpointsLost`](crate::RunEvent::CheckpointsLost). Without it the run stops.
    ///
    /// A store that is unavailable is asked again for one second at most, and for three quarters of the [`lease`](Self::lease) if that is shorter.
    /// Then the run goes on without it, for good. If the lease cannot be renewed, the run goes on without the store when the lease is about to end.
    pub fn best_effort(self) -> Self {
        self.keep_as(|storage| storage.is_best_effort = true)
    }

    /// Makes it a run that is held already, on these terms as far as they are those of its holder.
    pub(crate) fn assign(mut self, (claim, asked_at): (Claim, Moment), holder: LogOptions) -> Self {
        if let Some(stored) = self.stored_mut() {
            stored.store = Arc::clone(&holder.store);
            (stored.origin, stored.holder) = (RunSource::Stored { takes_over: false }, Some((claim, asked_at, holder)));
        }
        self
    }

    /// The schemas of runs that it can go on with: its own, and those before it from which migrations lead there without a gap.
    pub(crate) fn schemas(mut self) -> std::ops::RangeInclusive<u32> {
        let StorageOptions { schema, migrations, .. } = self.storage();
        migrations.oldest_to(*schema)..=*schema
    }

    /// It makes no difference whether the store is named before or after.
    fn keep_as(mut self, change: impl FnOnce(&mut StorageOptions)) -> Self {
        change(self.storage());
        self
    }
}
