//! A way to a store that may break: cut off for a while, or dead with the process that used it.

use pleach::store::{
    Claim, Commit, Committed, Filter, Held, Lease, Mail, NewRun, Parts, Post, Prune, Release, Renewed, Row, Rows, RunInfo,
    RunList, Store, StoreError, StoreFuture, Wanted,
};
use pleach::{BoxFuture, Runtime};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How the way is.
const UP: u32 = 0;
const DOWN: u32 = 1;
const DEAD: u32 = 2;
const UNREACHABLE: u32 = 3;
const REFUSED: u32 = 4;
const BUSY: u32 = 5;
const TOO_OLD: u32 = 6;

/// A store as one process sees it.
#[derive(Clone)]
pub struct MortalStore {
    inside: Arc<dyn Store>,
    way: Arc<AtomicU32>,
    /// How long a commit takes, and by which clock.
    slow: Option<(Arc<dyn Runtime>, Duration)>,
    /// How long the answer to a claim takes, after it was done, and by which clock.
    slow_claims: Option<(Arc<dyn Runtime>, Duration)>,
    /// How long a release takes before it is done, and by which clock.
    slow_releases: Option<(Arc<dyn Runtime>, Duration)>,
    /// Whether lists are never answered.
    silent_lists: bool,
    /// The run whose records cannot be read.
    unreadable: Arc<Mutex<Option<String>>>,
    pub claims: Arc<AtomicU64>,
    pub renewals: Arc<AtomicU64>,
}

impl MortalStore {
    pub fn new(inside: impl Store) -> Self {
        Self {
            inside: Arc::new(inside),
            way: Arc::default(),
            slow: None,
            slow_claims: None,
            slow_releases: None,
            silent_lists: false,
            unreadable: Arc::default(),
            claims: Arc::default(),
            renewals: Arc::default(),
        }
    }

    /// Lets every commit take this long.
    pub fn slow(mut self, clock: Arc<dyn Runtime>, time: Duration) -> Self {
        self.slow = Some((clock, time));
        self
    }

    /// Lets the answer to every claim take this long. The runs are claimed at once.
    pub fn slow_claims(mut self, clock: Arc<dyn Runtime>, time: Duration) -> Self {
        self.slow_claims = Some((clock, time));
        self
    }

    /// Lets every release take this long before it is done.
    pub fn slow_releases(mut self, clock: Arc<dyn Runtime>, time: Duration) -> Self {
        self.slow_releases = Some((clock, time));
        self
    }

    /// Answers no list.
    pub fn silent_lists(mut self) -> Self {
        self.silent_lists = true;
        self
    }

    /// Every call fails from now on.
    pub fn cut(&self) {
        self.way.store(DOWN, SeqCst);
    }

    /// No call reaches the store from now on.
    pub fn disconnect(&self) {
        self.way.store(UNREACHABLE, SeqCst);
    }

    /// Every commit is refused from now on, before anything is done: another client keeps rows locked.
    pub fn refuse_commits(&self) {
        self.way.store(REFUSED, SeqCst);
    }

    /// No lease is renewed from now on: another client keeps rows locked.
    pub fn keep_busy(&self) {
        self.way.store(BUSY, SeqCst);
    }

    /// The process is too old for the records that it reads from now on.
    pub fn outdate(&self) {
        self.way.store(TOO_OLD, SeqCst);
    }

    /// Reading the records of this run fails from now on, as if the store were down. All else works.
    pub fn fail_reads_of(&self, run: &str) {
        *self.unreadable.lock().unwrap() = Some(run.to_string());
    }

    pub fn mend(&self) {
        self.way.store(UP, SeqCst);
    }

    /// Nothing is heard of the process any more: what it asks for is not done.
    pub fn kill(&self) {
        self.way.store(DEAD, SeqCst);
    }

    fn through<'a, T: Send + 'a>(&'a self, call: impl FnOnce() -> StoreFuture<'a, T> + Send + 'a) -> StoreFuture<'a, T> {
        Box::pin(async move {
            match self.way.load(SeqCst) {
                UP | REFUSED | BUSY | TOO_OLD => call().await,
                DOWN => Err(StoreError::unavailable("no way to the store")),
                UNREACHABLE => Err(StoreError::unreachable("no way to the store")),
                _ => std::future::pending().await,
            }
        })
    }
}

impl Store for MortalStore {
    fn create(&self, run: NewRun, rows: Vec<Row>) -> StoreFuture<'_, Claim> {
        self.through(|| self.inside.create(run, rows))
    }

    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        self.through(move || {
            Box::pin(async move {
                if self.way.load(SeqCst) == REFUSED {
                    return Err(StoreError::unreachable("its row is locked"));
                }
                if let Some((clock, time)) = &self.slow {
                    clock.sleep_until(clock.now() + *time).await;
                }
                self.inside.commit(commit).await
            })
        })
    }

    fn claim(&self, wanted: Wanted, lease: Lease) -> StoreFuture<'_, Vec<Claim>> {
        self.claims.fetch_add(1, SeqCst);
        self.through(move || {
            Box::pin(async move {
                let claims = self.inside.claim(wanted, lease).await;
                if let Some((clock, time)) = &self.slow_claims {
                    clock.sleep_until(clock.now() + *time).await;
                }
                claims
            })
        })
    }

    fn release(&self, held: Vec<Held>, how: Release) -> StoreFuture<'_, Vec<Held>> {
        self.through(move || {
            Box::pin(async move {
                if let Some((clock, time)) = &self.slow_releases {
                    clock.sleep_until(clock.now() + *time).await;
                }
                self.inside.release(held, how).await
            })
        })
    }

    fn renew(&self, held: Vec<Held>, lease: Duration) -> StoreFuture<'_, Renewed> {
        self.renewals.fetch_add(1, SeqCst);
        if self.way.load(SeqCst) == BUSY {
            return Box::pin(async move { Ok(Renewed { busy: held, ..self.inside.renew(Vec::new(), lease).await? }) });
        }
        self.through(move || self.inside.renew(held, lease))
    }

    fn head<'a>(&'a self, run: &'a str) -> StoreFuture<'a, RunInfo> {
        self.through(|| self.inside.head(run))
    }

    fn read<'a>(&'a self, run: &'a str, which: Rows, parts: Parts) -> StoreFuture<'a, Vec<Row>> {
        if self.way.load(SeqCst) == TOO_OLD {
            let what = format!("row 1 of run {run:?}");
            return Box::pin(async { Err(StoreError::Future { what, format: 9, known: 2 }) });
        }
        if self.unreadable.lock().unwrap().as_deref() == Some(run) {
            return Box::pin(async { Err(StoreError::unavailable("a block cannot be read")) });
        }
        self.through(move || self.inside.read(run, which, parts))
    }

    fn list(&self, filters: Vec<Filter>, after: Option<u64>, count: usize) -> StoreFuture<'_, RunList> {
        if self.silent_lists {
            return Box::pin(std::future::pending());
        }
        self.through(move || self.inside.list(filters, after, count))
    }

    fn post<'a>(&'a self, run: &'a str, post: Post) -> StoreFuture<'a, u64> {
        self.through(|| self.inside.post(run, post))
    }

    fn inbox<'a>(&'a self, run: &'a str, after: u64) -> StoreFuture<'a, Vec<Mail>> {
        self.through(move || self.inside.inbox(run, after))
    }

    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64> {
        self.through(|| self.inside.prune(prune))
    }

    fn delete<'a>(&'a self, run: &'a str) -> StoreFuture<'a, ()> {
        self.through(|| self.inside.delete(run))
    }

    fn nudged(&self) -> BoxFuture<'_, ()> {
        self.inside.nudged()
    }
}
