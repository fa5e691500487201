//! [`Probe`]: a store that counts its reads, and fails or hangs on request.

use super::fixture::AnyStore;
use pleach::store::{
    Claim, Commit, Committed, Filter, Held, InboxMessage, Lease, NewMessage, NewRun, OverdueRuns, Parts, Prune, RefusedMessage,
    Release, Renewed, Row, Rows, RunCursor, RunInfo, RunList, Store, StoreError, StoreFuture, Wanted,
};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What was read since the last [`Probe::taken`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    pub calls: u64,
    /// Rows of logs of which only the header was read.
    pub headers: u64,
    /// Rows of logs that were read with their bodies.
    pub bodies: u64,
    pub body_bytes: u64,
    /// Rows of runs in lists.
    pub runs: u64,
    pub messages: u64,
}

#[derive(Default)]
struct Counts {
    calls: AtomicU64,
    headers: AtomicU64,
    bodies: AtomicU64,
    body_bytes: AtomicU64,
    runs: AtomicU64,
    messages: AtomicU64,
    writes: AtomicU64,
}

/// How the store answers.
#[derive(Default)]
struct Manner {
    fails: AtomicBool,
    hangs: AtomicBool,
    /// Runs that are due count as overdue at once.
    is_overdue_at_once: AtomicBool,
}

/// A store in front of another one.
#[derive(Clone)]
pub struct Probe {
    store: AnyStore,
    counts: Arc<Counts>,
    manner: Arc<Manner>,
}

impl Probe {
    pub fn new(store: AnyStore) -> Self {
        Self { store, counts: Arc::default(), manner: Arc::default() }
    }

    /// Returns what was read, and starts from zero.
    pub fn taken(&self) -> Reads {
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        let Counts { calls, headers, bodies, body_bytes, runs, messages, .. } = &*self.counts;
        Reads {
            calls: take(calls),
            headers: take(headers),
            bodies: take(bodies),
            body_bytes: take(body_bytes),
            runs: take(runs),
            messages: take(messages),
        }
    }

    /// Returns how often anything was written, and starts from zero.
    pub fn written(&self) -> u64 {
        self.counts.writes.swap(0, Ordering::Relaxed)
    }

    pub fn fail(&self, fails: bool) {
        self.manner.fails.store(fails, Ordering::Relaxed);
    }

    pub fn hang(&self, hangs: bool) {
        self.manner.hangs.store(hangs, Ordering::Relaxed);
    }

    pub fn report_overdue_at_once(&self) {
        self.manner.is_overdue_at_once.store(true, Ordering::Relaxed);
    }

    /// Counts a call, and fails or hangs on request.
    async fn before(&self) -> Result<(), StoreError> {
        self.counts.calls.fetch_add(1, Ordering::Relaxed);
        if self.manner.hangs.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        match self.manner.fails.load(Ordering::Relaxed) {
            true => Err(StoreError::unavailable("the disk is gone")),
            false => Ok(()),
        }
    }

    fn writing<'a, T: Send + 'a>(&'a self, call: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        self.counts.writes.fetch_add(1, Ordering::Relaxed);
        self.calling(call)
    }

    fn calling<'a, T: Send + 'a>(&'a self, call: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        Box::pin(async move {
            self.before().await?;
            call.await
        })
    }
}

impl Store for Probe {
    fn create(&self, run: NewRun, rows: Vec<Row>) -> StoreFuture<'_, Claim> {
        self.writing(self.store.create(run, rows))
    }

    fn claim(&self, wanted: Wanted, lease: Lease) -> StoreFuture<'_, Vec<Claim>> {
        self.writing(self.store.claim(wanted, lease))
    }

    fn renew(&self, held: Vec<Held>, lease: Duration) -> StoreFuture<'_, Renewed> {
        self.writing(self.store.renew(held, lease))
    }

    fn release(&self, held: Vec<Held>, how: Release) -> StoreFuture<'_, Vec<Held>> {
        self.writing(self.store.release(held, how))
    }

    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        self.writing(self.store.commit(commit))
    }

    fn head<'a>(&'a self, run: &'a str) -> StoreFuture<'a, RunInfo> {
        self.calling(self.store.head(run))
    }

    fn read<'a>(&'a self, run: &'a str, which: Rows, parts: Parts) -> StoreFuture<'a, Vec<Row>> {
        Box::pin(async move {
            self.before().await?;
            let rows = self.store.read(run, which, parts).await?;
            let (of_parts, bytes) = match parts {
                Parts::Headers => (&self.counts.headers, 0),
                _ => (&self.counts.bodies, rows.iter().map(|row| row.body.len() as u64).sum()),
            };
            of_parts.fetch_add(rows.len() as u64, Ordering::Relaxed);
            self.counts.body_bytes.fetch_add(bytes, Ordering::Relaxed);
            Ok(rows)
        })
    }

    fn list(&self, filters: Vec<Filter>, after: Option<RunCursor>, count: usize) -> StoreFuture<'_, RunList> {
        Box::pin(async move {
            self.before().await?;
            let list = self.store.list(filters, after, count).await?;
            self.counts.runs.fetch_add(list.runs.len() as u64, Ordering::Relaxed);
            Ok(list)
        })
    }

    fn overdue(&self, due_for: Duration, count: usize) -> StoreFuture<'_, Vec<OverdueRuns>> {
        let is_at_once = self.manner.is_overdue_at_once.load(Ordering::Relaxed);
        self.calling(self.store.overdue(if is_at_once { Duration::ZERO } else { due_for }, count))
    }

    fn send_message<'a>(&'a self, run: &'a str, message: NewMessage) -> StoreFuture<'a, u64> {
        self.writing(self.store.send_message(run, message))
    }

    fn inbox<'a>(&'a self, run: &'a str, after: u64) -> StoreFuture<'a, Vec<InboxMessage>> {
        Box::pin(async move {
            self.before().await?;
            let messages = self.store.inbox(run, after).await?;
            self.counts.messages.fetch_add(messages.len() as u64, Ordering::Relaxed);
            Ok(messages)
        })
    }

    fn is_untaken<'a>(&'a self, run: &'a str, number: u64) -> StoreFuture<'a, bool> {
        self.calling(self.store.is_untaken(run, number))
    }

    fn refused<'a>(&'a self, run: &'a str) -> StoreFuture<'a, Vec<RefusedMessage>> {
        self.calling(self.store.refused(run))
    }

    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64> {
        self.writing(self.store.prune(prune))
    }

    fn delete<'a>(&'a self, run: &'a str) -> StoreFuture<'a, ()> {
        self.writing(self.store.delete(run))
    }

    fn hint(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.store.hint()
    }
}
