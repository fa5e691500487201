//! [`ReportingStore`]: a store that reports claims to the ledger, records what was written, and has
//! a kill point before and after each call.

use crate::ledger_client::LedgerClient;
use pleach::runtime::BoxFuture;
use pleach::store::{
    Claim, Commit, Committed, Filter, Held, InboxMessage, Lease, NewMessage, NewRun, OverdueRuns, Parts, Prune, RefusedMessage,
    Release, Renewed, Row, Rows, RunCursor, RunInfo, RunList, Store, StoreFuture, Wanted,
};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone)]
pub struct ReportingStore {
    pub inner: Arc<dyn Store>,
    pub ledger: LedgerClient,
}

impl ReportingStore {
    /// Calls the store between two kill points. After an error there is no second point, since
    /// nothing happened.
    fn between<'a, T: Send + 'a>(
        &'a self,
        before: &'static str,
        after: &'static str,
        asked: impl FnOnce(&'a dyn Store) -> StoreFuture<'a, T> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            self.ledger.pass(before);
            let answer = asked(&*self.inner).await?;
            self.ledger.pass(after);
            Ok(answer)
        })
    }
}

impl Store for ReportingStore {
    fn create(&self, run: NewRun, rows: Vec<Row>) -> StoreFuture<'_, Claim> {
        Box::pin(async move {
            self.ledger.writes(&run.id, &rows);
            let (id, sequences) = (run.id.clone(), rows.iter().map(|row| row.sequence).collect::<Vec<u64>>());
            let claim = self.between("create before", "create after", |inner| inner.create(run, rows)).await?;
            self.ledger.claimed(&id, claim.run.epoch);
            sequences.into_iter().for_each(|sequence| self.ledger.acknowledged(&id, claim.run.epoch, sequence));
            Ok(claim)
        })
    }

    fn claim(&self, wanted: Wanted, lease: Lease) -> StoreFuture<'_, Vec<Claim>> {
        Box::pin(async move {
            self.ledger.pass("claim before");
            let claims = self.inner.claim(wanted, lease).await?;
            claims.iter().for_each(|claim| self.ledger.claimed(&claim.run.id, claim.run.epoch));
            self.ledger.pass("claim after");
            Ok(claims)
        })
    }

    fn renew(&self, held: Vec<Held>, lease: Duration) -> StoreFuture<'_, Renewed> {
        self.between("renew before", "renew after", move |inner| inner.renew(held, lease))
    }

    fn release(&self, held: Vec<Held>, how: Release) -> StoreFuture<'_, Vec<Held>> {
        self.between("release before", "release after", move |inner| inner.release(held, how))
    }

    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        self.ledger.writes(&commit.run, &commit.rows);
        self.between("commit before", "commit after", move |inner| inner.commit(commit))
    }

    fn head<'a>(&'a self, run: &'a str) -> StoreFuture<'a, RunInfo> {
        self.between("head before", "head after", move |inner| inner.head(run))
    }

    fn read<'a>(&'a self, run: &'a str, which: Rows, parts: Parts) -> StoreFuture<'a, Vec<Row>> {
        self.between("read before", "read after", move |inner| inner.read(run, which, parts))
    }

    fn list(&self, filters: Vec<Filter>, after: Option<RunCursor>, count: usize) -> StoreFuture<'_, RunList> {
        self.inner.list(filters, after, count)
    }

    fn overdue(&self, due_for: Duration, count: usize) -> StoreFuture<'_, Vec<OverdueRuns>> {
        self.inner.overdue(due_for, count)
    }

    fn send_message<'a>(&'a self, run: &'a str, message: NewMessage) -> StoreFuture<'a, u64> {
        self.between("post before", "post after", move |inner| inner.send_message(run, message))
    }

    fn inbox<'a>(&'a self, run: &'a str, after: u64) -> StoreFuture<'a, Vec<InboxMessage>> {
        self.between("inbox before", "inbox after", move |inner| inner.inbox(run, after))
    }

    fn is_untaken<'a>(&'a self, run: &'a str, number: u64) -> StoreFuture<'a, bool> {
        self.inner.is_untaken(run, number)
    }

    fn refused<'a>(&'a self, run: &'a str) -> StoreFuture<'a, Vec<RefusedMessage>> {
        self.inner.refused(run)
    }

    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64> {
        self.between("prune before", "prune after", move |inner| inner.prune(prune))
    }

    fn delete<'a>(&'a self, run: &'a str) -> StoreFuture<'a, ()> {
        self.inner.delete(run)
    }

    fn hint(&self) -> BoxFuture<'_, ()> {
        self.inner.hint()
    }
}
