//! [`MeasuredStore`]: a store around another one, which counts and times its calls.

use super::run_metrics::Parts;
use crate::store::{
    Claim, Commit, Committed, Filter, Held, InboxMessage, Lease, NewMessage, NewRun, OverdueRuns, Prune, RefusedMessage,
    Release, Renewed, Row, RunCursor, RunInfo, RunList, RunStatus, Store, StoreError, StoreFuture, Wanted,
};
use crate::store::{Parts as RowParts, Rows};
use pleach_core::BoxFuture;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A store that measures each call, and otherwise is the store that it was made from. Made by
/// [`RunMetrics::store`](super::RunMetrics::store).
#[derive(Clone)]
pub struct MeasuredStore {
    store: Arc<dyn Store>,
    metrics: Arc<Parts>,
}

impl MeasuredStore {
    pub(super) fn new(store: Arc<dyn Store>, metrics: Arc<Parts>) -> Self {
        Self { store, metrics }
    }

    /// Awaits a call, and records how long it took and how it ended.
    async fn measured<T>(&self, op: &'static str, call: StoreFuture<'_, T>) -> Result<T, StoreError> {
        let began = self.metrics.runtime.now();
        let answer = call.await;
        let seconds = self.metrics.runtime.now().since(began).as_secs_f64();
        let outcome = match &answer {
            Ok(_) => "ok",
            Err(error) if error.is_temporary() => "unavailable",
            Err(_) => "rejected",
        };
        let system = self.metrics.system();
        metrics::histogram!("pleach.store.duration", "system" => system, "op" => op, "outcome" => outcome).record(seconds);
        answer
    }

    fn count_refused(&self, by: &'static str, messages: usize) {
        metrics::counter!("pleach.inbox.refused", "system" => self.metrics.system(), "by" => by).increment(messages as u64);
    }

    fn count_claims(&self, claims: &[Claim]) {
        for claim in claims {
            let (graph, takeover) = (self.metrics.graph_label(&claim.run.graph), claim.run.takeovers > 0);
            let takeover = if takeover { "true" } else { "false" };
            let labels = [("system", self.metrics.system()), ("graph", graph), ("takeover", takeover.to_string())];
            metrics::counter!("pleach.runs.claimed", &labels).increment(1);
        }
    }

    fn count_end(&self, graph: &str, status: RunStatus) {
        let labels = [
            ("system", self.metrics.system()),
            ("graph", self.metrics.graph_label(graph)),
            ("outcome", status.as_str().to_string()),
        ];
        metrics::counter!("pleach.runs.ended", &labels).increment(1);
    }
}

/// Returns the graph and the status of a commit that ends its run.
fn end_of(commit: &Commit) -> Option<(String, RunStatus)> {
    let status = commit.status.filter(|status| status.has_ended())?;
    let header = commit.rows.last().and_then(|row| row.open_header(&commit.run).ok());
    Some((header.map_or_else(String::new, |header| header.graph), status))
}

impl Store for MeasuredStore {
    fn create(&self, run: NewRun, rows: Vec<Row>) -> StoreFuture<'_, Claim> {
        Box::pin(async move {
            let graph = self.metrics.graph_label(&run.graph);
            let claim = self.measured("create", self.store.create(run, rows)).await?;
            metrics::counter!("pleach.runs.started", "system" => self.metrics.system(), "graph" => graph).increment(1);
            Ok(claim)
        })
    }

    fn claim(&self, wanted: Wanted, lease: Lease) -> StoreFuture<'_, Vec<Claim>> {
        Box::pin(async move {
            let claims = self.measured("claim", self.store.claim(wanted, lease)).await?;
            self.count_claims(&claims);
            Ok(claims)
        })
    }

    fn renew(&self, held: Vec<Held>, lease: Duration) -> StoreFuture<'_, Renewed> {
        Box::pin(self.measured("renew", self.store.renew(held, lease)))
    }

    fn release(&self, held: Vec<Held>, how: Release) -> StoreFuture<'_, Vec<Held>> {
        Box::pin(self.measured("release", self.store.release(held, how)))
    }

    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        Box::pin(async move {
            let (end, refused) = (end_of(&commit), commit.refuses.len());
            let committed = self.measured("commit", self.store.commit(commit)).await?;
            if refused > 0 {
                self.count_refused("run", refused);
            }
            if let Some((graph, status)) = end {
                self.count_end(&graph, status);
            }
            Ok(committed)
        })
    }

    fn head<'a>(&'a self, run: &'a str) -> StoreFuture<'a, RunInfo> {
        Box::pin(self.measured("head", self.store.head(run)))
    }

    fn read<'a>(&'a self, run: &'a str, which: Rows, parts: RowParts) -> StoreFuture<'a, Vec<Row>> {
        Box::pin(self.measured("read", self.store.read(run, which, parts)))
    }

    fn list(&self, filters: Vec<Filter>, after: Option<RunCursor>, count: usize) -> StoreFuture<'_, RunList> {
        Box::pin(self.measured("list", self.store.list(filters, after, count)))
    }

    fn overdue(&self, due_for: Duration, count: usize) -> StoreFuture<'_, Vec<OverdueRuns>> {
        Box::pin(self.measured("overdue", self.store.overdue(due_for, count)))
    }

    fn send_message<'a>(&'a self, run: &'a str, message: NewMessage) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            let answer = self.measured("send_message", self.store.send_message(run, message)).await;
            match &answer {
                Err(StoreError::InboxFull { .. }) => self.count_refused("full_inbox", 1),
                Err(StoreError::Ended { .. }) => self.count_refused("ended_run", 1),
                _ => {}
            }
            answer
        })
    }

    fn inbox<'a>(&'a self, run: &'a str, after: u64) -> StoreFuture<'a, Vec<InboxMessage>> {
        Box::pin(self.measured("inbox", self.store.inbox(run, after)))
    }

    fn is_untaken<'a>(&'a self, run: &'a str, number: u64) -> StoreFuture<'a, bool> {
        Box::pin(self.measured("inbox", self.store.is_untaken(run, number)))
    }

    fn refused<'a>(&'a self, run: &'a str) -> StoreFuture<'a, Vec<RefusedMessage>> {
        Box::pin(self.measured("inbox", self.store.refused(run)))
    }

    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64> {
        Box::pin(self.measured("prune", self.store.prune(prune)))
    }

    fn delete<'a>(&'a self, run: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(self.measured("delete", self.store.delete(run)))
    }

    fn hint(&self) -> BoxFuture<'_, ()> {
        self.store.hint()
    }
}

impl fmt::Debug for MeasuredStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MeasuredStore").finish_non_exhaustive()
    }
}
