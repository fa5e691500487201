//! [`FaultyStore`]: a store whose operations fail, take long, or lose their answer.

use crate::runtime::{BoxFuture, Runtime};
use crate::sim::faults::FaultKind;
use crate::sim::faults::injector::Injector;
use crate::sim::faults::kind::SiteKind;
use crate::store::{
    Claim, Commit, Committed, Filter, Held, InboxMessage, Lease, NewMessage, NewRun, OverdueRuns, Parts, Prune, RefusedMessage,
    Release, Renewed, Row, Rows, RunCursor, RunInfo, RunList, Store, StoreError, StoreFuture, Wanted,
};
use std::fmt;
use std::sync::Arc;

/// A store with the faults of a simulation; made by [`Sim::store`](crate::sim::Sim::store). Clones
/// share the store.
///
/// An operation that fails reports [`StoreError::Unavailable`], as a database does whose connection
/// broke. Hints get no faults.
#[derive(Clone)]
pub struct FaultyStore {
    store: Arc<dyn Store>,
    injector: Arc<Injector>,
    runtime: Arc<dyn Runtime>,
}

impl FaultyStore {
    pub(in crate::sim) fn new(store: Arc<dyn Store>, injector: Arc<Injector>, runtime: Arc<dyn Runtime>) -> Self {
        Self { store, injector, runtime }
    }

    /// Makes one call, with its fault. A store may act as soon as it is called, so the call is made
    /// only once its fault is known.
    fn call<'a, T: Send + 'a>(
        &'a self,
        name: &'static str,
        call: impl FnOnce() -> StoreFuture<'a, T> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            let Some(fault) = self.injector.decide(SiteKind::Store, name, false, self.runtime.now()) else {
                return call().await;
            };
            match fault.kind {
                FaultKind::StoreSlow => {
                    let half = fault.delay / 2;
                    self.runtime.sleep_until(self.runtime.now() + half).await;
                    let answer = call().await;
                    self.runtime.sleep_until(self.runtime.now() + half).await;
                    answer
                }
                FaultKind::AnswerLost => {
                    call().await?;
                    Err(StoreError::unavailable(fault.text))
                }
                _ => Err(StoreError::unavailable(fault.text)),
            }
        })
    }
}

impl Store for FaultyStore {
    fn create(&self, run: NewRun, rows: Vec<Row>) -> StoreFuture<'_, Claim> {
        self.call("create", move || self.store.create(run, rows))
    }

    fn claim(&self, wanted: Wanted, lease: Lease) -> StoreFuture<'_, Vec<Claim>> {
        self.call("claim", move || self.store.claim(wanted, lease))
    }

    fn renew(&self, held: Vec<Held>, lease: std::time::Duration) -> StoreFuture<'_, Renewed> {
        self.call("renew", move || self.store.renew(held, lease))
    }

    fn release(&self, held: Vec<Held>, how: Release) -> StoreFuture<'_, Vec<Held>> {
        self.call("release", move || self.store.release(held, how))
    }

    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        self.call("commit", move || self.store.commit(commit))
    }

    fn head<'a>(&'a self, run: &'a str) -> StoreFuture<'a, RunInfo> {
        self.call("head", move || self.store.head(run))
    }

    fn read<'a>(&'a self, run: &'a str, which: Rows, parts: Parts) -> StoreFuture<'a, Vec<Row>> {
        self.call("read", move || self.store.read(run, which, parts))
    }

    fn list(&self, filters: Vec<Filter>, after: Option<RunCursor>, count: usize) -> StoreFuture<'_, RunList> {
        self.call("list", move || self.store.list(filters, after, count))
    }

    fn overdue(&self, due_for: std::time::Duration, count: usize) -> StoreFuture<'_, Vec<OverdueRuns>> {
        self.call("overdue", move || self.store.overdue(due_for, count))
    }

    fn send_message<'a>(&'a self, run: &'a str, message: NewMessage) -> StoreFuture<'a, u64> {
        self.call("send_message", move || self.store.send_message(run, message))
    }

    fn inbox<'a>(&'a self, run: &'a str, after: u64) -> StoreFuture<'a, Vec<InboxMessage>> {
        self.call("inbox", move || self.store.inbox(run, after))
    }

    fn is_untaken<'a>(&'a self, run: &'a str, number: u64) -> StoreFuture<'a, bool> {
        self.call("is_untaken", move || self.store.is_untaken(run, number))
    }

    fn refused<'a>(&'a self, run: &'a str) -> StoreFuture<'a, Vec<RefusedMessage>> {
        self.call("refused", move || self.store.refused(run))
    }

    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64> {
        self.call("prune", move || self.store.prune(prune))
    }

    fn delete<'a>(&'a self, run: &'a str) -> StoreFuture<'a, ()> {
        self.call("delete", move || self.store.delete(run))
    }

    fn hint(&self) -> BoxFuture<'_, ()> {
        self.store.hint()
    }
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyStore").finish_non_exhaustive()
    }
}
