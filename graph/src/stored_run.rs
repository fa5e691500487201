//! The options of a run that is kept in a store.

use crate::control::RunRemote;
use crate::drive;
use crate::error::RunError;
use crate::journal::Terms;
use crate::journal::codec::Codec;
use crate::journal::deadline::Timeout;
use crate::journal::lease::Moment;
use crate::journal::scribe::COMMIT_ROWS_MAX;
use crate::migrate::Migrations;
use crate::resume::Changes;
use crate::run::RunOptions;
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
pub(crate) struct StoredOptions<S> {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) keeping: Keeping,
    pub(crate) codec: Codec<S>,
    pub(crate) origin: Origin,
    /// What is to be different from what is stored.
    pub(crate) changes: Changes<S>,
    /// Answers that the run is resumed with, by the names of letters.
    pub(crate) answers: Vec<(String, Result<Vec<u8>, serde_json::Error>)>,
    /// How long the run may take, if nothing else is stored.
    pub(crate) timeout: Option<Duration>,
    /// Who holds the run already: the claim, when it was asked for, and on which terms.
    pub(crate) holder: Option<(Claim, Moment, Terms)>,
}

/// How a run is to be kept, whatever the store.
pub(crate) struct Keeping {
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

impl Default for Keeping {
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
pub(crate) enum Origin {
    /// It is new; if there is one with its id, that one is gone on with, or refused.
    New,
    /// It is there.
    Stored { takes_over: bool },
    /// It is new, and begins where this one stands or stood.
    Forked { from: Arc<str> },
}

impl<S: Serialize + DeserializeOwned> StoredOptions<S> {
    pub(crate) fn new(store: Arc<dyn Store>, origin: Origin) -> Self {
        let (keeping, codec, changes) = (Keeping::default(), Codec::new(), Changes::default());
        Self { store, keeping, codec, origin, changes, answers: Vec::new(), timeout: None, holder: None }
    }
}

impl<S> StoredOptions<S> {
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// Goes on at this node, if it is a run that is resumed or forked. One that a worker holds goes on where it stands.
    pub(crate) fn go_on_at(&mut self, node: Option<&String>) {
        if !matches!(self.origin, Origin::New) && self.holder.is_none() {
            self.changes.from = node.cloned();
        }
    }

    /// On which terms the run is kept. What its holder says goes first.
    pub(crate) fn terms(&self, started: Instant) -> Terms {
        let Keeping { lease, body_bytes_max, rows_kept, commit_rows_max, is_best_effort, .. } = self.keeping;
        let (store, watch, timeout) = (self.store(), Arc::default(), Timeout::new(started, self.timeout));
        let (kept_lease, patience) = (None, None);
        let own = Terms {
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
        match self.holder.as_ref().map(|(_, _, terms)| terms.clone()) {
            Some(Terms { store, lease, kept_lease, patience, .. }) => Terms { store, lease, kept_lease, patience, ..own },
            None => own,
        }
    }
}

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
        self.stored(StoredOptions::new(Arc::new(store.clone()), Origin::New))
    }

    /// Goes on with the run that has this id, if there is one; what it began with then counts, and not this state.
    pub fn attach(self) -> Self {
        self.keep_as(|keeping| keeping.attaches = true)
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
        self.keep_as(|keeping| keeping.lease = lease)
    }

    /// The version of the type of the state; 0 unless told. Raise it with the type, and say how states of earlier versions are
    /// [migrated](Self::migrations).
    pub fn schema(self, version: u32) -> Self {
        self.keep_as(|keeping| keeping.schema = version)
    }

    /// What is done with a run that an earlier version of the graph began. Without them it is a [`Mismatch`](crate::RunFault::Mismatch).
    pub fn migrations(self, migrations: &Migrations) -> Self {
        self.keep_as(|keeping| keeping.migrations = migrations.clone())
    }

    /// How many of the last records are kept while the run lives; 100 unless told. What a resume, an undo or a replay of
    /// the last node needs is kept in any case.
    pub fn keep_records(self, records: u64) -> Self {
        self.keep_as(|keeping| keeping.rows_kept = records.max(1))
    }

    /// How long runs are kept that have ended; 30 days unless told. They are removed in the background, by runs that begin in the same store.
    pub fn keep_ended(self, time: Duration) -> Self {
        self.keep_as(|keeping| keeping.ended_kept = time)
    }

    /// How many bytes one state may have as JSON; 16 MiB unless told.
    pub fn max_state_bytes(self, bytes: usize) -> Self {
        self.keep_as(|keeping| keeping.body_bytes_max = bytes)
    }

    /// The most records of one commit, for tests of what a crash between two commits leaves.
    #[doc(hidden)]
    pub fn max_commit_records(self, records: usize) -> Self {
        self.keep_as(|keeping| keeping.commit_rows_max = records.max(1))
    }

    /// Goes on when the store fails, with no further checkpoints; hooks hear of it as
    /// [`CheckpointsLost`](crate::RunEvent::CheckpointsLost). Without it the run stops.
    ///
    /// A store that is unavailable is asked again for one second at most, and for three quarters of the [`lease`](Self::lease) if that is shorter.
    /// Then the run goes on without it, for good. If the lease cannot be renewed, the run goes on without the store when the lease is about to end.
    pub fn best_effort(self) -> Self {
        self.keep_as(|keeping| keeping.is_best_effort = true)
    }

    /// Makes it a run that is held already, on these terms as far as they are those of its holder.
    pub(crate) fn assign(mut self, (claim, asked_at): (Claim, Moment), holder: Terms) -> Self {
        if let Some(stored) = self.stored_mut() {
            stored.store = Arc::clone(&holder.store);
            (stored.origin, stored.holder) = (Origin::Stored { takes_over: false }, Some((claim, asked_at, holder)));
        }
        self
    }

    /// The schemas of runs that it can go on with: its own, and those before it from which migrations lead there without a gap.
    pub(crate) fn schemas(mut self) -> std::ops::RangeInclusive<u32> {
        let Keeping { schema, migrations, .. } = self.keeping();
        migrations.oldest_to(*schema)..=*schema
    }

    /// It makes no difference whether the store is named before or after.
    fn keep_as(mut self, change: impl FnOnce(&mut Keeping)) -> Self {
        change(self.keeping());
        self
    }
}
