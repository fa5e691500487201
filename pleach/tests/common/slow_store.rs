//! A slow store: every call waits a random time before and after it is applied. Answers may be
//! lost.

use pleach::runtime::{BoxFuture, Runtime};
use pleach::store::{
    Claim, Commit, Committed, Filter, Held, InboxMessage, Lease, MemoryStore, NewMessage, NewRun, OverdueRuns, Parts, Prune,
    RefusedMessage, Release, Renewed, Row, Rows, RunCursor, RunInfo, RunList, Store, StoreError, StoreFuture, Wanted,
};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone)]
pub struct SlowStore {
    inner: MemoryStore,
    clock: Arc<dyn Runtime>,
    /// The longest wait before and after a call is applied.
    pub wait_max: Duration,
    /// The least time between a commit and its answer.
    pub commit_wait: Duration,
    /// Percentage of calls that fail before they are applied, and of calls that lose their answer.
    /// Creates and claims are never lost.
    pub lost: u64,
}

impl SlowStore {
    pub fn new(inner: MemoryStore, clock: Arc<dyn Runtime>, wait_max: Duration) -> Self {
        Self { inner, clock, wait_max, commit_wait: Duration::ZERO, lost: 0 }
    }

    async fn pass(&self) {
        let wait = Duration::from_micros(self.clock.random() % (self.wait_max.as_micros() as u64 + 1));
        self.clock.sleep_until(self.clock.now() + wait).await;
    }

    fn is_lost(&self) -> bool {
        self.clock.random() % 100 < self.lost
    }

    fn slowly<'a, T: Send + 'a>(&'a self, call: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        Box::pin(async move {
            self.pass().await;
            let answer = call.await;
            self.pass().await;
            answer
        })
    }

    fn at_risk<'a, T: Send + 'a>(&'a self, call: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        Box::pin(async move {
            if self.is_lost() {
                return Err(StoreError::unavailable("the call was lost"));
            }
            let answer = self.slowly(call).await?;
            if self.is_lost() { Err(StoreError::unavailable("the answer was lost")) } else { Ok(answer) }
        })
    }
}

impl Store for SlowStore {
    fn create(&self, run: NewRun, rows: Vec<Row>) -> StoreFuture<'_, Claim> {
        self.slowly(self.inner.create(run, rows))
    }

    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        self.at_risk(Box::pin(async move {
            let answer = self.inner.commit(commit).await;
            self.clock.sleep_until(self.clock.now() + self.commit_wait).await;
            answer
        }))
    }

    fn claim(&self, wanted: Wanted, lease: Lease) -> StoreFuture<'_, Vec<Claim>> {
        self.slowly(self.inner.claim(wanted, lease))
    }

    fn release(&self, held: Vec<Held>, how: Release) -> StoreFuture<'_, Vec<Held>> {
        self.slowly(self.inner.release(held, how))
    }

    fn renew(&self, held: Vec<Held>, lease: Duration) -> StoreFuture<'_, Renewed> {
        self.at_risk(self.inner.renew(held, lease))
    }

    fn head<'a>(&'a self, run: &'a str) -> StoreFuture<'a, RunInfo> {
        self.at_risk(self.inner.head(run))
    }

    fn read<'a>(&'a self, run: &'a str, which: Rows, parts: Parts) -> StoreFuture<'a, Vec<Row>> {
        self.at_risk(self.inner.read(run, which, parts))
    }

    fn list(&self, filters: Vec<Filter>, after: Option<RunCursor>, count: usize) -> StoreFuture<'_, RunList> {
        self.slowly(self.inner.list(filters, after, count))
    }

    fn overdue(&self, due_for: Duration, count: usize) -> StoreFuture<'_, Vec<OverdueRuns>> {
        self.slowly(self.inner.overdue(due_for, count))
    }

    fn send_message<'a>(&'a self, run: &'a str, message: NewMessage) -> StoreFuture<'a, u64> {
        self.slowly(self.inner.send_message(run, message))
    }

    fn inbox<'a>(&'a self, run: &'a str, after: u64) -> StoreFuture<'a, Vec<InboxMessage>> {
        self.at_risk(self.inner.inbox(run, after))
    }

    fn is_untaken<'a>(&'a self, run: &'a str, number: u64) -> StoreFuture<'a, bool> {
        self.at_risk(self.inner.is_untaken(run, number))
    }

    fn refused<'a>(&'a self, run: &'a str) -> StoreFuture<'a, Vec<RefusedMessage>> {
        self.slowly(self.inner.refused(run))
    }

    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64> {
        self.at_risk(self.inner.prune(prune))
    }

    fn delete<'a>(&'a self, run: &'a str) -> StoreFuture<'a, ()> {
        self.slowly(self.inner.delete(run))
    }

    fn hint(&self) -> BoxFuture<'_, ()> {
        self.inner.hint()
    }
}
