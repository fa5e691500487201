//! A store that fails on request, as a crash, a full disk or a lost answer looks to a driver.

use pleach::runtime::{BoxFuture, Runtime};
use pleach::store::{
    Claim, Commit, Committed, Filter, Held, InboxMessage, Lease, MemoryStore, NewMessage, NewRun, OverdueRuns, Parts, Prune,
    RefusedMessage, Release, Renewed, Row, Rows, RunCursor, RunInfo, RunList, Store, StoreError, StoreFuture, Wanted,
};
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How a failing write ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFailure {
    /// The write is not applied.
    Lost,
    /// The write is applied, but the caller gets an error.
    Unanswered,
}

#[derive(Clone)]
pub struct FlakyStore {
    inner: MemoryStore,
    plan: Arc<Plan>,
}

#[derive(Default)]
struct Plan {
    /// Creates and commits so far.
    writes: AtomicU64,
    fail_at: AtomicU64,
    /// The first write that finds the store unavailable. 0: the store is up.
    down_from: AtomicU64,
    lands: AtomicU64,
    /// Renewals fail.
    no_renewals: AtomicBool,
    /// Releases are ignored, as if the process had died.
    no_releases: AtomicBool,
    /// The sequence number of the damaged row.
    damaged: AtomicU64,
    /// Reads are never answered.
    stalls: AtomicBool,
    /// Releases are never answered.
    stalls_releases: AtomicBool,
    /// The clock by which a prune takes time.
    slow_prunes: OnceLock<Arc<dyn Runtime>>,
    is_row_locked: AtomicBool,
    /// The clock and the duration of a create or a claim.
    slow_claims: OnceLock<(Arc<dyn Runtime>, Duration)>,
    /// The clock and the duration of a commit.
    slow_commits: OnceLock<(Arc<dyn Runtime>, Duration)>,
}

/// An error that a driver does not retry: for the run it is as if its process had died.
fn unusable(reason: &str) -> StoreError {
    StoreError::Unusable { store: "flaky".to_string(), reason: reason.to_string() }
}

/// Locks the run's row until it is dropped.
struct RowLock<'a>(&'a AtomicBool);

impl Drop for RowLock<'_> {
    fn drop(&mut self) {
        self.0.store(false, SeqCst);
    }
}

impl FlakyStore {
    pub fn new(inner: MemoryStore) -> Self {
        Self { inner, plan: Arc::default() }
    }

    /// Lets the write with this number fail, counted from 1.
    pub fn fail_at(&self, write: u64, fate: WriteFailure) {
        self.plan.fail_at.store(write, SeqCst);
        self.plan.lands.store(u64::from(fate == WriteFailure::Unanswered), SeqCst);
    }

    /// Makes the store unavailable for this write and all later ones.
    pub fn down_from(&self, write: u64) {
        self.plan.down_from.store(write, SeqCst);
    }

    pub fn fail_renewals(&self) {
        self.plan.no_renewals.store(true, SeqCst);
    }

    /// Ignores releases from now on, as if the process had died.
    pub fn swallow_releases(&self, swallow: bool) {
        self.plan.no_releases.store(swallow, SeqCst);
    }

    pub fn damage(&self, sequence: u64) {
        self.plan.damaged.store(sequence, SeqCst);
    }

    /// Answers no read from now on.
    pub fn stall_reads(&self) {
        self.plan.stalls.store(true, SeqCst);
    }

    /// Answers and applies no release from now on.
    pub fn stall_releases(&self) {
        self.plan.stalls_releases.store(true, SeqCst);
    }

    /// Lets a prune take one millisecond and lock the run's row meanwhile, like a transaction of
    /// several statements.
    pub fn prune_slowly(&self, clock: Arc<dyn Runtime>) {
        drop(self.plan.slow_prunes.set(clock));
    }

    /// Applies a commit after this time, and answers it after the same time again.
    pub fn commit_slowly(&self, clock: Arc<dyn Runtime>, time: Duration) {
        drop(self.plan.slow_commits.set((clock, time)));
    }

    /// Delays creates and claims in the same way.
    pub fn claim_slowly(&self, clock: Arc<dyn Runtime>, time: Duration) {
        drop(self.plan.slow_claims.set((clock, time)));
    }

    async fn slowly<T>(slow: &OnceLock<(Arc<dyn Runtime>, Duration)>, call: impl Future<Output = T>) -> T {
        let pass = async || {
            if let Some((clock, time)) = slow.get() {
                clock.sleep_until(clock.now() + *time).await;
            }
        };
        pass().await;
        let answer = call.await;
        pass().await;
        answer
    }

    /// Waits until the row is unlocked.
    async fn row(&self) {
        while self.plan.is_row_locked.load(SeqCst) {
            self.moment().await;
        }
    }

    async fn moment(&self) {
        if let Some(clock) = self.plan.slow_prunes.get() {
            clock.sleep_until(clock.now() + Duration::from_millis(1)).await;
        }
    }

    pub fn writes(&self) -> u64 {
        self.plan.writes.load(SeqCst)
    }

    fn fate(&self) -> Option<WriteFailure> {
        let write = self.plan.writes.fetch_add(1, SeqCst) + 1;
        let fails = write == self.plan.fail_at.load(SeqCst);
        fails.then(|| if self.plan.lands.load(SeqCst) == 1 { WriteFailure::Unanswered } else { WriteFailure::Lost })
    }

    fn write<'a, T: Send + 'a>(&self, write: impl FnOnce() -> StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        let fate = self.fate();
        let down_from = self.plan.down_from.load(SeqCst);
        if down_from > 0 && self.writes() >= down_from {
            return Box::pin(async { Err(StoreError::unavailable("the store is down")) });
        }
        match fate {
            None => write(),
            Some(WriteFailure::Lost) => Box::pin(async { Err(unusable("the disk is full")) }),
            Some(WriteFailure::Unanswered) => {
                let call = write();
                Box::pin(async {
                    call.await?;
                    Err(unusable("the answer was lost"))
                })
            }
        }
    }
}

impl Store for FlakyStore {
    fn create(&self, run: NewRun, rows: Vec<Row>) -> StoreFuture<'_, Claim> {
        self.write(|| Box::pin(Self::slowly(&self.plan.slow_claims, self.inner.create(run, rows))))
    }

    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        self.write(|| {
            Box::pin(async {
                self.row().await;
                Self::slowly(&self.plan.slow_commits, self.inner.commit(commit)).await
            })
        })
    }

    fn claim(&self, wanted: Wanted, lease: Lease) -> StoreFuture<'_, Vec<Claim>> {
        Box::pin(Self::slowly(&self.plan.slow_claims, self.inner.claim(wanted, lease)))
    }

    fn release(&self, held: Vec<Held>, how: Release) -> StoreFuture<'_, Vec<Held>> {
        if self.plan.no_releases.load(SeqCst) {
            return Box::pin(async { Ok(Vec::new()) });
        }
        Box::pin(async move {
            if self.plan.stalls_releases.load(SeqCst) {
                std::future::pending::<()>().await;
            }
            self.row().await;
            self.inner.release(held, how).await
        })
    }

    fn renew(&self, held: Vec<Held>, lease: Duration) -> StoreFuture<'_, Renewed> {
        if self.plan.no_renewals.load(SeqCst) {
            return Box::pin(async { Err(StoreError::unavailable("no answer")) });
        }
        Box::pin(async move {
            self.row().await;
            self.inner.renew(held, lease).await
        })
    }

    fn head<'a>(&'a self, run: &'a str) -> StoreFuture<'a, RunInfo> {
        self.inner.head(run)
    }

    fn read<'a>(&'a self, run: &'a str, which: Rows, parts: Parts) -> StoreFuture<'a, Vec<Row>> {
        let damaged = self.plan.damaged.load(SeqCst);
        let stalls = self.plan.stalls.load(SeqCst);
        Box::pin(async move {
            if stalls {
                return std::future::pending().await;
            }
            let mut rows = self.inner.read(run, which, parts).await?;
            for row in rows.iter_mut().filter(|row| row.sequence == damaged) {
                row.header[20] ^= 1;
            }
            Ok(rows)
        })
    }

    fn list(&self, filters: Vec<Filter>, after: Option<RunCursor>, count: usize) -> StoreFuture<'_, RunList> {
        self.inner.list(filters, after, count)
    }

    fn overdue(&self, due_for: Duration, count: usize) -> StoreFuture<'_, Vec<OverdueRuns>> {
        self.inner.overdue(due_for, count)
    }

    fn send_message<'a>(&'a self, run: &'a str, message: NewMessage) -> StoreFuture<'a, u64> {
        self.inner.send_message(run, message)
    }

    fn inbox<'a>(&'a self, run: &'a str, after: u64) -> StoreFuture<'a, Vec<InboxMessage>> {
        self.inner.inbox(run, after)
    }

    fn is_untaken<'a>(&'a self, run: &'a str, number: u64) -> StoreFuture<'a, bool> {
        self.inner.is_untaken(run, number)
    }

    fn refused<'a>(&'a self, run: &'a str) -> StoreFuture<'a, Vec<RefusedMessage>> {
        self.inner.refused(run)
    }

    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            self.plan.is_row_locked.store(self.plan.slow_prunes.get().is_some(), SeqCst);
            let _lock = RowLock(&self.plan.is_row_locked);
            self.moment().await;
            self.inner.prune(prune).await
        })
    }

    fn delete<'a>(&'a self, run: &'a str) -> StoreFuture<'a, ()> {
        self.inner.delete(run)
    }

    fn hint(&self) -> BoxFuture<'_, ()> {
        self.inner.hint()
    }
}
