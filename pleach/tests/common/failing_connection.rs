//! A connection to a store that can fail: interrupted for a while, or dead with its process.

use pleach::runtime::{BoxFuture, Runtime};
use pleach::store::{
    Claim, Commit, Committed, Filter, Held, InboxMessage, Lease, NewMessage, NewRun, OverdueRuns, Parts, Prune, RefusedMessage,
    Release, Renewed, Row, Rows, RunCursor, RunInfo, RunList, Store, StoreError, StoreFuture, Wanted,
};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// States of the connection.
const UP: u32 = 0;
const DOWN: u32 = 1;
const DEAD: u32 = 2;
const UNREACHABLE: u32 = 3;
const REFUSED: u32 = 4;
const BUSY: u32 = 5;
const TOO_OLD: u32 = 6;

/// A store as one process sees it.
#[derive(Clone)]
pub struct FailingConnection {
    inner: Arc<dyn Store>,
    connection: Arc<AtomicU32>,
    /// The clock and the duration of a commit.
    slow: Option<(Arc<dyn Runtime>, Duration)>,
    /// The clock and the delay of the answer to a claim, after the claim was applied.
    slow_claims: Option<(Arc<dyn Runtime>, Duration)>,
    /// The clock and the delay before a release is applied.
    slow_releases: Option<(Arc<dyn Runtime>, Duration)>,
    /// Lists are never answered.
    silent_lists: bool,
    /// The run whose records cannot be read.
    unreadable: Arc<Mutex<Option<String>>>,
    /// The run whose row cannot be read.
    headless: Arc<Mutex<Option<String>>>,
    pub claims: Arc<AtomicU64>,
    pub renewals: Arc<AtomicU64>,
}

impl FailingConnection {
    pub fn new(inner: impl Store) -> Self {
        Self {
            inner: Arc::new(inner),
            connection: Arc::default(),
            slow: None,
            slow_claims: None,
            slow_releases: None,
            silent_lists: false,
            unreadable: Arc::default(),
            headless: Arc::default(),
            claims: Arc::default(),
            renewals: Arc::default(),
        }
    }

    /// Delays every commit.
    pub fn slow(mut self, clock: Arc<dyn Runtime>, time: Duration) -> Self {
        self.slow = Some((clock, time));
        self
    }

    /// Delays the answer to every claim. The runs are claimed immediately.
    pub fn slow_claims(mut self, clock: Arc<dyn Runtime>, time: Duration) -> Self {
        self.slow_claims = Some((clock, time));
        self
    }

    /// Delays every release before it is applied.
    pub fn slow_releases(mut self, clock: Arc<dyn Runtime>, time: Duration) -> Self {
        self.slow_releases = Some((clock, time));
        self
    }

    /// Answers no list.
    pub fn silent_lists(mut self) -> Self {
        self.silent_lists = true;
        self
    }

    /// Fails every call from now on.
    pub fn cut(&self) {
        self.connection.store(DOWN, SeqCst);
    }

    /// Lets no call reach the store from now on.
    pub fn disconnect(&self) {
        self.connection.store(UNREACHABLE, SeqCst);
    }

    /// Rejects every commit before it is applied, as if another client had locked the rows.
    pub fn refuse_commits(&self) {
        self.connection.store(REFUSED, SeqCst);
    }

    /// Renews no lease from now on, as if another client had locked the rows.
    pub fn keep_busy(&self) {
        self.connection.store(BUSY, SeqCst);
    }

    /// From now on the records have a format that is too new for this process.
    pub fn outdate(&self) {
        self.connection.store(TOO_OLD, SeqCst);
    }

    /// Fails reads of this run's records from now on, as if the store were down.
    pub fn fail_reads_of(&self, run: &str) {
        *self.unreadable.lock().unwrap() = Some(run.to_string());
    }

    /// Fails reads of this run's row from now on.
    pub fn fail_heads_of(&self, run: &str) {
        *self.headless.lock().unwrap() = Some(run.to_string());
    }

    /// Restores the connection.
    pub fn mend(&self) {
        self.connection.store(UP, SeqCst);
    }

    /// Ends the process: no later call is applied or answered.
    pub fn kill(&self) {
        self.connection.store(DEAD, SeqCst);
    }

    fn through<'a, T: Send + 'a>(&'a self, call: impl FnOnce() -> StoreFuture<'a, T> + Send + 'a) -> StoreFuture<'a, T> {
        Box::pin(async move {
            match self.connection.load(SeqCst) {
                UP | REFUSED | BUSY | TOO_OLD => call().await,
                DOWN => Err(StoreError::unavailable("no connection to the store")),
                UNREACHABLE => Err(StoreError::unreachable("no connection to the store")),
                _ => std::future::pending().await,
            }
        })
    }
}

impl Store for FailingConnection {
    fn create(&self, run: NewRun, rows: Vec<Row>) -> StoreFuture<'_, Claim> {
        self.through(|| self.inner.create(run, rows))
    }

    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        self.through(move || {
            Box::pin(async move {
                if self.connection.load(SeqCst) == REFUSED {
                    return Err(StoreError::unreachable("its row is locked"));
                }
                if let Some((clock, time)) = &self.slow {
                    clock.sleep_until(clock.now() + *time).await;
                }
                self.inner.commit(commit).await
            })
        })
    }

    fn claim(&self, wanted: Wanted, lease: Lease) -> StoreFuture<'_, Vec<Claim>> {
        self.claims.fetch_add(1, SeqCst);
        self.through(move || {
            Box::pin(async move {
                let claims = self.inner.claim(wanted, lease).await;
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
                self.inner.release(held, how).await
            })
        })
    }

    fn renew(&self, held: Vec<Held>, lease: Duration) -> StoreFuture<'_, Renewed> {
        self.renewals.fetch_add(1, SeqCst);
        if self.connection.load(SeqCst) == BUSY {
            return Box::pin(async move { Ok(Renewed { busy: held, ..self.inner.renew(Vec::new(), lease).await? }) });
        }
        self.through(move || self.inner.renew(held, lease))
    }

    fn head<'a>(&'a self, run: &'a str) -> StoreFuture<'a, RunInfo> {
        if self.headless.lock().unwrap().as_deref() == Some(run) {
            return Box::pin(async { Err(StoreError::unavailable("a block cannot be read")) });
        }
        self.through(|| self.inner.head(run))
    }

    fn read<'a>(&'a self, run: &'a str, which: Rows, parts: Parts) -> StoreFuture<'a, Vec<Row>> {
        if self.connection.load(SeqCst) == TOO_OLD {
            let what = format!("row 1 of run {run:?}");
            return Box::pin(async { Err(StoreError::NewerFormat { what, format: 9, known: 2 }) });
        }
        if self.unreadable.lock().unwrap().as_deref() == Some(run) {
            return Box::pin(async { Err(StoreError::unavailable("a block cannot be read")) });
        }
        self.through(move || self.inner.read(run, which, parts))
    }

    fn list(&self, filters: Vec<Filter>, after: Option<RunCursor>, count: usize) -> StoreFuture<'_, RunList> {
        if self.silent_lists {
            return Box::pin(std::future::pending());
        }
        self.through(move || self.inner.list(filters, after, count))
    }

    fn overdue(&self, due_for: Duration, count: usize) -> StoreFuture<'_, Vec<OverdueRuns>> {
        self.through(move || self.inner.overdue(due_for, count))
    }

    fn send_message<'a>(&'a self, run: &'a str, message: NewMessage) -> StoreFuture<'a, u64> {
        self.through(|| self.inner.send_message(run, message))
    }

    fn inbox<'a>(&'a self, run: &'a str, after: u64) -> StoreFuture<'a, Vec<InboxMessage>> {
        self.through(move || self.inner.inbox(run, after))
    }

    fn is_untaken<'a>(&'a self, run: &'a str, number: u64) -> StoreFuture<'a, bool> {
        self.through(move || self.inner.is_untaken(run, number))
    }

    fn refused<'a>(&'a self, run: &'a str) -> StoreFuture<'a, Vec<RefusedMessage>> {
        self.through(move || self.inner.refused(run))
    }

    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64> {
        self.through(|| self.inner.prune(prune))
    }

    fn delete<'a>(&'a self, run: &'a str) -> StoreFuture<'a, ()> {
        self.through(|| self.inner.delete(run))
    }

    fn hint(&self) -> BoxFuture<'_, ()> {
        self.inner.hint()
    }
}
