//! Lets a stored run survive a short outage of its store.
//!
//! [`RetryingStore`] repeats commits and reads that fail temporarily
//! ([`Unreachable`](StoreError::Unreachable) or [`Unavailable`](StoreError::Unavailable)), with
//! backoff. Commits are idempotent, so a repeated commit that had landed is acknowledged. It stops
//! before the lease expires. Renewals are repeated by `LeaseRenewal`; creates, claims and releases
//! are not repeated.
//!
//! [`StoreMonitor`] logs outages and waits for leases, and reports them to the hooks of the run.

use crate::lease::LEASE_PARTS;
use crate::log::LogOptions;
use crate::store::{
    Claim, Commit, Committed, Filter, Held, InboxMessage, Lease, NewMessage, NewRun, OverdueRuns, Parts, Prune, RefusedMessage,
    Release, Renewed, Row, Rows, RunCursor, RunInfo, RunList, Store, StoreError, StoreFuture, Wanted,
};
use pleach_core::{BoxFuture, ExponentialBackoff, Runtime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// The first and the longest wait before a failed call is repeated.
const RETRY_WAIT: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// The part of a wait that may be subtracted, so that the runs of a process do not all call at the
/// same moment.
const JITTER: f32 = 0.25;

/// The longest time that a best-effort run repeats a call.
const BEST_EFFORT_MAX: Duration = Duration::from_secs(1);

/// Logs and reports outages of the store and waits for a lease.
#[derive(Default)]
pub(crate) struct StoreMonitor {
    run: Arc<str>,
    is_down: AtomicBool,
    listener: Option<NoticeListener>,
}

/// Receives the notices of a [`StoreMonitor`].
pub(crate) type NoticeListener = Box<dyn Fn(&StoreNotice<'_>) + Send + Sync>;

/// A condition that delays the driver of a run.
pub(crate) enum StoreNotice<'a> {
    StoreUnavailable(&'a StoreError),
    StoreRecovered,
    LeaseAwaited { holder: &'a str, left: Duration },
}

impl StoreMonitor {
    fn new(run: Arc<str>, listener: Option<NoticeListener>) -> Self {
        Self { run, is_down: AtomicBool::new(false), listener }
    }

    fn report(&self, notice: &StoreNotice<'_>) {
        if let Some(listener) = &self.listener {
            listener(notice);
        }
    }

    /// Notes a failed call that will be repeated. Reports only the first failure in a row.
    pub(crate) fn failed(&self, op: &'static str, error: &StoreError) {
        if !self.is_down.swap(true, Relaxed) {
            tracing::warn!(run = %self.run, op, %error, "the store is unavailable; the run repeats the call while its lease lasts");
            self.report(&StoreNotice::StoreUnavailable(error));
        }
    }

    /// Notes a successful call. Reports the end of an outage.
    pub(crate) fn answered(&self) {
        if self.is_down.load(Relaxed) && self.is_down.swap(false, Relaxed) {
            tracing::info!(run = %self.run, "the store answers again");
            self.report(&StoreNotice::StoreRecovered);
        }
    }

    /// Reports that the run waits for the lease of another driver.
    pub(crate) fn lease_awaited(&self, holder: &str, left: Duration) {
        tracing::warn!(
            run = %self.run,
            holder,
            ends_in = ?left,
            "another driver holds the run; waiting until its lease expires; if that driver is dead, `take_over` claims the run immediately"
        );
        self.report(&StoreNotice::LeaseAwaited { holder, left });
    }
}

impl LogOptions {
    /// Returns options whose store repeats calls during outages and reports them to `listener`.
    pub(crate) fn with_retries(mut self, runtime: &Arc<dyn Runtime>, run: Arc<str>, listener: Option<NoticeListener>) -> Self {
        let while_leased = self.lease / LEASE_PARTS * (LEASE_PARTS - 1);
        let retry_for = if self.is_best_effort { while_leased.min(BEST_EFFORT_MAX) } else { while_leased };
        self.monitor = Arc::new(StoreMonitor::new(run, listener));
        let (runtime, monitor) = (Arc::clone(runtime), Arc::clone(&self.monitor));
        self.store = Arc::new(RetryingStore { store: self.store, runtime, monitor, retry_for });
        self
    }
}

/// A store that repeats commits and reads while it is unavailable.
struct RetryingStore {
    store: Arc<dyn Store>,
    runtime: Arc<dyn Runtime>,
    monitor: Arc<StoreMonitor>,
    /// How long a call is repeated after its first failure.
    retry_for: Duration,
}

impl RetryingStore {
    /// Calls the store until it answers, or until the time for retries is over.
    async fn repeat<'a, T>(
        &self,
        op: &'static str,
        mut call: impl FnMut() -> StoreFuture<'a, T> + Send,
    ) -> Result<T, StoreError> {
        let backoff = ExponentialBackoff::new(RETRY_WAIT.0, RETRY_WAIT.1).jitter(JITTER);
        let (mut until, mut failures) = (None, 0);
        loop {
            let error = match call().await {
                Err(error) if error.is_temporary() => error,
                answer => {
                    self.monitor.answered();
                    return answer;
                }
            };
            self.monitor.failed(op, &error);
            let now = self.runtime.now();
            let until = *until.get_or_insert(now + self.retry_for);
            if now >= until {
                return Err(error);
            }
            failures += 1;
            let wait = backoff.delay(failures, self.runtime.random());
            self.runtime.sleep_until((now + wait).min(until)).await;
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

    fn list(&self, filters: Vec<Filter>, after: Option<RunCursor>, count: usize) -> StoreFuture<'_, RunList> {
        self.store.list(filters, after, count)
    }

    fn overdue(&self, due_for: Duration, count: usize) -> StoreFuture<'_, Vec<OverdueRuns>> {
        self.store.overdue(due_for, count)
    }

    fn send_message<'a>(&'a self, run: &'a str, message: NewMessage) -> StoreFuture<'a, u64> {
        self.store.send_message(run, message)
    }

    fn inbox<'a>(&'a self, run: &'a str, after: u64) -> StoreFuture<'a, Vec<InboxMessage>> {
        Box::pin(async move { self.repeat("inbox", || self.store.inbox(run, after)).await })
    }

    fn is_untaken<'a>(&'a self, run: &'a str, number: u64) -> StoreFuture<'a, bool> {
        self.store.is_untaken(run, number)
    }

    fn refused<'a>(&'a self, run: &'a str) -> StoreFuture<'a, Vec<RefusedMessage>> {
        self.store.refused(run)
    }

    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64> {
        self.store.prune(prune)
    }

    fn delete<'a>(&'a self, run: &'a str) -> StoreFuture<'a, ()> {
        self.store.delete(run)
    }

    fn hint(&self) -> BoxFuture<'_, ()> {
        self.store.hint()
    }
}
