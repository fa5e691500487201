//! How a stored run survives a short outage of its store.
//!
//! [`RetryingStore`] repeats commits and reads that fail as
//! [`Unavailable`](StoreError::Unavailable), with backoff. Commits are idempotent, so a repeated
//! commit that had landed is acknowledged. It gives up before the lease expires. Renewals are
//! repeated by `LeaseRenewal`; creates, claims and releases are not repeated.
//!
//! [`StoreMonitor`] logs what the driver waits for and reports it to the hooks of the run.

use crate::lease::LEASE_PARTS;
use crate::log::LogOptions;
use crate::store::{
    Claim, Commit, Committed, Filter, Held, InboxMessage, Lease, NewMessage, NewRun, Parts, Prune, Release, Renewed, Row, Rows,
    RunInfo, RunList, Store, StoreError, StoreFuture, Wanted,
};
use pleach_core::{BoxFuture, Runtime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// How soon a call that failed is repeated, at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// A run that goes on without its store waits for it no longer than this.
const BEST_EFFORT_MAX: Duration = Duration::from_secs(1);

/// What the driver of a run waits for, told to the log and to hooks.
#[derive(Default)]
pub(crate) struct StoreMonitor {
    run: Arc<str>,
    is_down: AtomicBool,
    tell: Option<NoticeListener>,
}

/// Reports notices to the caller of the run.
pub(crate) type NoticeListener = Box<dyn Fn(&StoreNotice<'_>) + Send + Sync>;

/// What the driver of a run waits for.
pub(crate) enum StoreNotice<'a> {
    StoreUnavailable(&'a StoreError),
    StoreAnswers,
    LeaseAwaited { holder: &'a str, left: Duration },
}

impl StoreMonitor {
    fn new(run: Arc<str>, tell: Option<NoticeListener>) -> Self {
        Self { run, is_down: AtomicBool::new(false), tell }
    }

    fn tell(&self, notice: &StoreNotice<'_>) {
        if let Some(tell) = &self.tell {
            tell(notice);
        }
    }

    /// A call failed, and will be repeated. The first failure in a row is told.
    pub(crate) fn failed(&self, op: &'static str, error: &StoreError) {
        if !self.is_down.swap(true, Relaxed) {
            tracing::warn!(run = %self.run, op, %error, "the store is unavailable; the run repeats the call while its lease lasts");
            self.tell(&StoreNotice::StoreUnavailable(error));
        }
    }

    pub(crate) fn answered(&self) {
        if self.is_down.load(Relaxed) && self.is_down.swap(false, Relaxed) {
            tracing::info!(run = %self.run, "the store answers again");
            self.tell(&StoreNotice::StoreAnswers);
        }
    }

    /// The run waits for the lease of another driver to end.
    pub(crate) fn lease_awaited(&self, holder: &str, left: Duration) {
        tracing::warn!(
            run = %self.run,
            holder,
            ends_in = ?left,
            "another driver holds the run; waiting for its lease to end; if that driver is dead, `take_over` claims the run at once"
        );
        self.tell(&StoreNotice::LeaseAwaited { holder, left });
    }
}

impl LogOptions {
    /// The same terms for a run that survives short outages of its store, and tells its hooks of them.
    pub(crate) fn with_retries(mut self, runtime: &Arc<dyn Runtime>, run: Arc<str>, tell: Option<NoticeListener>) -> Self {
        let while_leased = self.lease / LEASE_PARTS * (LEASE_PARTS - 1);
        let patience = if self.is_best_effort { while_leased.min(BEST_EFFORT_MAX) } else { while_leased };
        self.watch = Arc::new(StoreMonitor::new(run, tell));
        let (runtime, watch) = (Arc::clone(runtime), Arc::clone(&self.watch));
        self.store = Arc::new(RetryingStore { store: self.store, runtime, watch, patience });
        self
    }
}

/// A store whose commits and reads are repeated while it is unavailable.
struct RetryingStore {
    store: Arc<dyn Store>,
    runtime: Arc<dyn Runtime>,
    watch: Arc<StoreMonitor>,
    /// For how long a call is repeated, from its first failure.
    patience: Duration,
}

impl RetryingStore {
    async fn repeat<'a, T>(
        &self,
        op: &'static str,
        mut call: impl FnMut() -> StoreFuture<'a, T> + Send,
    ) -> Result<T, StoreError> {
        let (mut until, mut wait) = (None, AGAIN.0);
        loop {
            let error = match call().await {
                Err(error) if error.is_temporary() => error,
                answer => {
                    self.watch.answered();
                    return answer;
                }
            };
            self.watch.failed(op, &error);
            let now = self.runtime.now();
            // Not all runs of a process come back at the same moment.
            let jitter = Duration::from_nanos(self.runtime.random() % (wait / 4).as_nanos().max(1) as u64);
            let until = *until.get_or_insert(now + self.patience);
            if now >= until {
                return Err(error);
            }
            self.runtime.sleep_until((now + (wait - jitter)).min(until)).await;
            wait = (wait * 2).min(AGAIN.1);
        }
    }
}

impl Store for RetryingStore {
    fn create(&self, run: NewRun, rows: Vec<Row>) -> StoreFuture<'_, Claim> {
        self.store.create(run, rows)
    }

    fn claim(&self, wanted: Wanted, lease: Lease) -> StoreFuture<'_, Vec<Claim>> {
        self.store.claim(wanted, lease)
    }

    fn renew(&self, held: Vec<Held>, lease: Duration) -> StoreFuture<'_, Renewed> {
        self.store.renew(held, lease)
    }

    fn release(&self, held: Vec<Held>, how: Release) -> StoreFuture<'_, Vec<Held>> {
        self.store.release(held, how)
    }

    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        Box::pin(async move { self.repeat("commit", || self.store.commit(commit.clone())).await })
    }

    fn head<'a>(&'a self, run: &'a str) -> StoreFuture<'a, RunInfo> {
        self.store.head(run)
    }

    fn read<'a>(&'a self, run: &'a str, which: Rows, parts: Parts) -> StoreFuture<'a, Vec<Row>> {
        Box::pin(async move { self.repeat("read", || self.store.read(run, which.clone(), parts)).await })
    }

    fn list(&self, filters: Vec<Filter>, after: Option<u64>, count: usize) -> StoreFuture<'_, RunList> {
        self.store.list(filters, after, count)
    }

    fn post<'a>(&'a self, run: &'a str, post: NewMessage) -> StoreFuture<'a, u64> {
        self.store.post(run, post)
    }

    fn inbox<'a>(&'a self, run: &'a str, after: u64) -> StoreFuture<'a, Vec<InboxMessage>> {
        Box::pin(async move { self.repeat("inbox", || self.store.inbox(run, after)).await })
    }

    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64> {
        self.store.prune(prune)
    }

    fn delete<'a>(&'a self, run: &'a str) -> StoreFuture<'a, ()> {
        self.store.delete(run)
    }

    fn nudged(&self) -> BoxFuture<'_, ()> {
        self.store.nudged()
    }
}
