//! A store that answers late: every call waits before it lands and after, for a random time. Answers may be lost on the way.

use pleach::store::{
    Claim, Commit, Committed, Filter, Held, Lease, Mail, MemoryStore, NewRun, Parts, Post, Prune, Release, Renewed, Row, Rows,
    RunInfo, RunList, Store, StoreError, StoreFuture, Wanted,
};
use pleach::{BoxFuture, Runtime};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone)]
pub struct SlowStore {
    inside: MemoryStore,
    clock: Arc<dyn Runtime>,
    /// The longest wait before a call lands, and after.
    pub wait_max: Duration,
    /// How long a commit takes at least, after it has landed.
    pub commit_wait: Duration,
    /// How many of a hundred calls fail before they land, and how many lose their answer. Creates and claims never do.
    pub lost: u64,
}

impl SlowStore {
    pub fn new(inside: MemoryStore, clock: Arc<dyn Runtime>, wait_max: Duration) -> Self {
        Self { inside, clock, wait_max, commit_wait: Duration::ZERO, lost: 0 }
    }

    async fn pass(&self) {
        let wait = Duration::from_micros(self.clock.random() % (self.wait_max.as_micros() as u64 + 1));
        self.clock.sleep_until(self.clock.now() + wait).await;
    }

    fn is_lost(&self) -> bool {
        self.clock.random() % 100 < self.lost
    }

    fn slowly<'a, T: Send + 'a>(&'a self, landing: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        Box::pin(async move {
            self.pass().await;
            let landed = landing.await;
            self.pass().await;
            landed
        })
    }

    fn at_risk<'a, T: Send + 'a>(&'a self, landing: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        Box::pin(async move {
            if self.is_lost() {
                return Err(StoreError::unavailable("the call was lost"));
            }
            let landed = self.slowly(landing).await?;
            if self.is_lost() { Err(StoreError::unavailable("the answer was lost")) } else { Ok(landed) }
        })
    }
}

impl Store for SlowStore {
    fn create(&self, run: NewRun, rows: Vec<Row>) -> StoreFuture<'_, Claim> {
        self.slowly(self.inside.create(run, rows))
    }

    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        self.at_risk(Box::pin(async move {
            let landed = self.inside.commit(commit).await;
            self.clock.sleep_until(self.clock.now() + self.commit_wait).await;
            landed
        }))
    }

    fn claim(&self, wanted: Wanted, lease: Lease) -> StoreFuture<'_, Vec<Claim>> {
        self.slowly(self.inside.claim(wanted, lease))
    }

    fn release(&self, held: Vec<Held>, how: Release) -> StoreFuture<'_, Vec<Held>> {
        self.slowly(self.inside.release(held, how))
    }

    fn renew(&self, held: Vec<Held>, lease: Duration) -> StoreFuture<'_, Renewed> {
        self.at_risk(self.inside.renew(held, lease))
    }

    fn head<'a>(&'a self, run: &'a str) -> StoreFuture<'a, RunInfo> {
        self.at_risk(self.inside.head(run))
    }

    fn read<'a>(&'a self, run: &'a str, which: Rows, parts: Parts) -> StoreFuture<'a, Vec<Row>> {
        self.at_risk(self.inside.read(run, which, parts))
    }

    fn list(&self, filters: Vec<Filter>, after: Option<u64>, count: usize) -> StoreFuture<'_, RunList> {
        self.slowly(self.inside.list(filters, after, count))
    }

    fn post<'a>(&'a self, run: &'a str, post: Post) -> StoreFuture<'a, u64> {
        self.slowly(self.inside.post(run, post))
    }

    fn inbox<'a>(&'a self, run: &'a str, after: u64) -> StoreFuture<'a, Vec<Mail>> {
        self.at_risk(self.inside.inbox(run, after))
    }

    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64> {
        self.at_risk(self.inside.prune(prune))
    }

    fn delete<'a>(&'a self, run: &'a str) -> StoreFuture<'a, ()> {
        self.slowly(self.inside.delete(run))
    }

    fn nudged(&self) -> BoxFuture<'_, ()> {
        self.inside.nudged()
    }
}
