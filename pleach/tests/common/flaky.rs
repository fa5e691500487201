//! A store that fails when it is told to: what a crash, a full disk or a lost answer looks like to a driver.

use pleach::store::{
    Claim, Commit, Committed, Filter, Held, Lease, Mail, MemoryStore, NewRun, Parts, Post, Prune, Release, Renewed, Row, Rows,
    RunInfo, RunList, Store, StoreError, StoreFuture, Wanted,
};
use pleach::{BoxFuture, Runtime};
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// What becomes of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It does not land.
    Lost,
    /// It lands, and the answer is an error all the same.
    Unanswered,
}

#[derive(Clone)]
pub struct FlakyStore {
    inside: MemoryStore,
    plan: Arc<Plan>,
}

#[derive(Default)]
struct Plan {
    /// Creates and commits so far.
    writes: AtomicU64,
    fail_at: AtomicU64,
    /// From which write on none lands; none if it is 0.
    down_from: AtomicU64,
    lands: AtomicU64,
    /// Whether renewals fail.
    no_renewals: AtomicBool,
    /// Whether runs are never given up, as when a process dies.
    no_releases: AtomicBool,
    /// The row that reads as damaged.
    damaged: AtomicU64,
    /// Whether reads are never answered.
    stalls: AtomicBool,
    /// Whether releases are never answered.
    stalls_releases: AtomicBool,
    /// By whose clock a prune takes its time.
    slow_prunes: OnceLock<Arc<dyn Runtime>>,
    is_row_locked: AtomicBool,
    /// By whose clock a create or a claim takes its time, and how long.
    slow_claims: OnceLock<(Arc<dyn Runtime>, Duration)>,
    /// By whose clock a commit takes its time, and how long.
    slow_commits: OnceLock<(Arc<dyn Runtime>, Duration)>,
}

/// An error that a driver does not wait out: to the run it is as if its process had died there.
fn gone(why: &str) -> StoreError {
    StoreError::Unusable { store: "flaky".to_string(), why: why.to_string() }
}

/// As long as it lives, nobody else changes the run's row.
struct RowLock<'a>(&'a AtomicBool);

impl Drop for RowLock<'_> {
    fn drop(&mut self) {
        self.0.store(false, SeqCst);
    }
}

impl FlakyStore {
    pub fn new(inside: MemoryStore) -> Self {
        Self { inside, plan: Arc::default() }
    }

    /// The write of this number, counted from 1, fails so.
    pub fn fail_at(&self, write: u64, fate: Fate) {
        self.plan.fail_at.store(write, SeqCst);
        self.plan.lands.store(u64::from(fate == Fate::Unanswered), SeqCst);
    }

    /// The store is unavailable for this write and all that follow.
    pub fn down_from(&self, write: u64) {
        self.plan.down_from.store(write, SeqCst);
    }

    pub fn fail_renewals(&self) {
        self.plan.no_renewals.store(true, SeqCst);
    }

    /// From now on whoever gives a run up is not heard, as if it had died.
    pub fn swallow_releases(&self, swallow: bool) {
        self.plan.no_releases.store(swallow, SeqCst);
    }

    pub fn damage(&self, sequence: u64) {
        self.plan.damaged.store(sequence, SeqCst);
    }

    /// No row is read from now on: whoever asks waits for ever.
    pub fn stall_reads(&self) {
        self.plan.stalls.store(true, SeqCst);
    }

    /// No release is answered from now on, and none lands.
    pub fn stall_releases(&self) {
        self.plan.stalls_releases.store(true, SeqCst);
    }

    /// A prune takes a millisecond of this clock, and locks the run's row meanwhile, as a transaction of several statements does.
    pub fn prune_slowly(&self, clock: Arc<dyn Runtime>) {
        drop(self.plan.slow_prunes.set(clock));
    }

    /// A commit lands after so much time of this clock, and is answered after as much again.
    pub fn commit_slowly(&self, clock: Arc<dyn Runtime>, time: Duration) {
        drop(self.plan.slow_commits.set((clock, time)));
    }

    /// So does a create or a claim.
    pub fn claim_slowly(&self, clock: Arc<dyn Runtime>, time: Duration) {
        drop(self.plan.slow_claims.set((clock, time)));
    }

    async fn slowly<T>(slow: &OnceLock<(Arc<dyn Runtime>, Duration)>, landing: impl Future<Output = T>) -> T {
        let pass = async || {
            if let Some((clock, time)) = slow.get() {
                clock.sleep_until(clock.now() + *time).await;
            }
        };
        pass().await;
        let landed = landing.await;
        pass().await;
        landed
    }

    /// Waits until nobody has the row.
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

    fn fate(&self) -> Option<Fate> {
        let write = self.plan.writes.fetch_add(1, SeqCst) + 1;
        let fails = write == self.plan.fail_at.load(SeqCst);
        fails.then(|| if self.plan.lands.load(SeqCst) == 1 { Fate::Unanswered } else { Fate::Lost })
    }

    fn write<'a, T: Send + 'a>(&self, write: impl FnOnce() -> StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        let fate = self.fate();
        let down_from = self.plan.down_from.load(SeqCst);
        if down_from > 0 && self.writes() >= down_from {
            return Box::pin(async { Err(StoreError::unavailable("the store is down")) });
        }
        match fate {
            None => write(),
            Some(Fate::Lost) => Box::pin(async { Err(gone("the disk is full")) }),
            Some(Fate::Unanswered) => {
                let landed = write();
                Box::pin(async {
                    landed.await?;
                    Err(gone("the answer was lost"))
                })
            }
        }
    }
}

impl Store for FlakyStore {
    fn create(&self, run: NewRun, rows: Vec<Row>) -> StoreFuture<'_, Claim> {
        self.write(|| Box::pin(Self::slowly(&self.plan.slow_claims, self.inside.create(run, rows))))
    }

    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        self.write(|| {
            Box::pin(async {
                self.row().await;
                Self::slowly(&self.plan.slow_commits, self.inside.commit(commit)).await
            })
        })
    }

    fn claim(&self, wanted: Wanted, lease: Lease) -> StoreFuture<'_, Vec<Claim>> {
        Box::pin(Self::slowly(&self.plan.slow_claims, self.inside.claim(wanted, lease)))
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
            self.inside.release(held, how).await
        })
    }

    fn renew(&self, held: Vec<Held>, lease: Duration) -> StoreFuture<'_, Renewed> {
        if self.plan.no_renewals.load(SeqCst) {
            return Box::pin(async { Err(StoreError::unavailable("no answer")) });
        }
        Box::pin(async move {
            self.row().await;
            self.inside.renew(held, lease).await
        })
    }

    fn head<'a>(&'a self, run: &'a str) -> StoreFuture<'a, RunInfo> {
        self.inside.head(run)
    }

    fn read<'a>(&'a self, run: &'a str, which: Rows, parts: Parts) -> StoreFuture<'a, Vec<Row>> {
        let damaged = self.plan.damaged.load(SeqCst);
        let stalls = self.plan.stalls.load(SeqCst);
        Box::pin(async move {
            if stalls {
                return std::future::pending().await;
            }
            let mut rows = self.inside.read(run, which, parts).await?;
            for row in rows.iter_mut().filter(|row| row.sequence == damaged) {
                row.header[20] ^= 1;
            }
            Ok(rows)
        })
    }

    fn list(&self, filters: Vec<Filter>, after: Option<u64>, count: usize) -> StoreFuture<'_, RunList> {
        self.inside.list(filters, after, count)
    }

    fn post<'a>(&'a self, run: &'a str, post: Post) -> StoreFuture<'a, u64> {
        self.inside.post(run, post)
    }

    fn inbox<'a>(&'a self, run: &'a str, after: u64) -> StoreFuture<'a, Vec<Mail>> {
        self.inside.inbox(run, after)
    }

    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            self.plan.is_row_locked.store(self.plan.slow_prunes.get().is_some(), SeqCst);
            let _lock = RowLock(&self.plan.is_row_locked);
            self.moment().await;
            self.inside.prune(prune).await
        })
    }

    fn delete<'a>(&'a self, run: &'a str) -> StoreFuture<'a, ()> {
        self.inside.delete(run)
    }

    fn nudged(&self) -> BoxFuture<'_, ()> {
        self.inside.nudged()
    }
}
