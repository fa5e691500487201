//! Stores with one fault each, to prove that the checks find it. They wrap a sound store and are
//! not part of the product.

use crate::ledger_client::LedgerClient;
use crate::report::Spec;
use crate::store_address::StoreAddress;
use pleach::runtime::BoxFuture;
use pleach::store::{
    Claim, Commit, Committed, Filter, Held, InboxMessage, Lease, NewMessage, NewRun, OverdueRuns, Parts, Prune, RefusedMessage,
    Release, Renewed, Row, Rows, RunCursor, RunInfo, RunList, Store, StoreError, StoreFuture, Timestamp, Wanted,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::{Mutex, mpsc};
use tokio_postgres::{Client, NoTls};

/// How late a commit lands that was answered too early.
const LATE: Duration = Duration::from_millis(30);

/// The fault of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mutant {
    /// The run continues before its step is durable. The store reports a record only once it is
    /// durable.
    AdvanceBeforeCommit,
    /// A commit is acknowledged before it is durable.
    AcknowledgeBeforeCommit,
    /// A commit lands with any epoch, if the head is right.
    NoEpochCheck,
    /// A claim hides the last record of the run.
    Forgetful,
    /// PostgreSQL: a commit reads the row of the run under `FOR KEY SHARE` and then writes; a claim
    /// is a plain update.
    ForKeyShare,
}

/// The store for a driver: the given one, or one with a fault.
pub fn apply(ledger: &LedgerClient, store: Arc<dyn Store>) -> Arc<dyn Store> {
    let Spec { mutant, address, .. } = ledger.spec();
    let fault: Box<dyn Fault> = match (*mutant, address) {
        (Some(Mutant::AdvanceBeforeCommit), _) => Box::new(Early::new(&store, Some(ledger.clone()))),
        (Some(Mutant::AcknowledgeBeforeCommit), _) => Box::new(Early::new(&store, None)),
        (Some(Mutant::NoEpochCheck), _) => Box::new(NoEpochCheck(Arc::clone(&store))),
        (Some(Mutant::Forgetful), _) => Box::new(Forgetful(Arc::clone(&store))),
        (Some(Mutant::ForKeyShare), StoreAddress::Postgres(url)) => Box::new(ForKeyShare {
            url: url.clone(),
            inner: Arc::clone(&store),
            ledger: ledger.clone(),
            client: Mutex::default(),
        }),
        _ => return store,
    };
    Arc::new(Mutated { inner: store, fault })
}

/// The calls that a faulty store changes.
trait Fault: Send + Sync + 'static {
    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed>;

    /// `None`: unchanged.
    fn claim(&self, _wanted: &Wanted, _lease: &Lease) -> Option<StoreFuture<'_, Vec<Claim>>> {
        None
    }
}

/// Answers at once and commits later, in order.
struct Early(mpsc::UnboundedSender<Commit>);

impl Early {
    fn new(inner: &Arc<dyn Store>, tells_when_landed: Option<LedgerClient>) -> Self {
        let (sender, mut commits) = mpsc::unbounded_channel::<Commit>();
        let inner = Arc::clone(inner);
        tokio::spawn(async move {
            while let Some(commit) = commits.recv().await {
                tokio::time::sleep(LATE).await;
                let Commit { run, epoch, .. } = commit.clone();
                let sequences: Vec<u64> = commit.rows.iter().map(|row| row.sequence).collect();
                if inner.commit(commit).await.is_ok()
                    && let Some(ledger) = &tells_when_landed
                {
                    sequences.into_iter().for_each(|sequence| ledger.acknowledged(&run, epoch, sequence));
                }
            }
        });
        Self(sender)
    }
}

impl Fault for Early {
    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        let sent = self.0.send(commit).map_err(|_| StoreError::unavailable("the commit task has ended"));
        Box::pin(async move { sent.map(|()| Committed { last_message: 0, now: SystemTime::now().into() }) })
    }
}

/// Checks only the head.
struct NoEpochCheck(Arc<dyn Store>);

impl Fault for NoEpochCheck {
    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        Box::pin(async move {
            let fenced = match self.0.commit(commit.clone()).await {
                Err(fenced @ StoreError::Fenced { .. }) => fenced,
                answer => return answer,
            };
            let now = self.0.head(&commit.run).await?;
            let is_next = commit.rows.first().is_some_and(|row| row.sequence == now.head + 1);
            if is_next { self.0.commit(Commit { epoch: now.epoch, ..commit }).await } else { Err(fenced) }
        })
    }
}

/// Claims and returns a head that is too low.
struct Forgetful(Arc<dyn Store>);

impl Fault for Forgetful {
    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        self.0.commit(commit)
    }

    fn claim(&self, wanted: &Wanted, lease: &Lease) -> Option<StoreFuture<'_, Vec<Claim>>> {
        let (wanted, lease) = (wanted.clone(), lease.clone());
        Some(Box::pin(async move {
            let mut claims = self.0.claim(wanted, lease).await?;
            claims.iter_mut().for_each(|claim| claim.run.head -= 1);
            Ok(claims)
        }))
    }
}

/// Reads under a lock that does not block claims.
struct ForKeyShare {
    url: String,
    inner: Arc<dyn Store>,
    ledger: LedgerClient,
    client: Mutex<Option<Client>>,
}

const READ_RUN: &str = "SELECT no, epoch, head, posted FROM pleach_run WHERE id = $1::text FOR KEY SHARE";
const ADD: &str = "INSERT INTO pleach_log (run, seq, sum, header, body) VALUES ($1, $2, $3, $4, $5)";
const MOVE: &str =
    "UPDATE pleach_run SET sum = sum # head # $2::bigint, head = $2::bigint, takeovers = 0 WHERE no = $1::bigint";
const CLAIM: &str = "UPDATE pleach_run SET epoch = epoch + 1, owner = $2::text, lease_until = now.millis + $3::bigint,
    sum = sum # epoch # (epoch + 1) # COALESCE(lease_until, -1) # (now.millis + $3::bigint)
    FROM (SELECT (extract(epoch FROM statement_timestamp()) * 1000)::bigint AS millis) AS now WHERE id = $1::text";

impl ForKeyShare {
    async fn connect(&self) -> Result<Client, tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    async fn write(&self, commit: &Commit) -> Result<Option<Committed>, tokio_postgres::Error> {
        let mut kept = self.client.lock().await;
        let client = match &mut *kept {
            Some(client) => client,
            none => none.insert(self.connect().await?),
        };
        let transaction = client.transaction().await?;
        let found = transaction.query_one(READ_RUN, &[&commit.run]).await?;
        let (no, epoch, head, posted): (i64, i64, i64, i64) = (found.get(0), found.get(1), found.get(2), found.get(3));
        if epoch as u64 != commit.epoch || head as u64 + 1 != commit.rows[0].sequence {
            return Ok(None);
        }
        self.ledger.pass("commit inside");
        for row in &commit.rows {
            let (sequence, sum) = (row.sequence as i64, i64::from(row.sum));
            transaction.execute(ADD, &[&no, &sequence, &sum, &row.header, &row.body]).await?;
        }
        let last = head + commit.rows.len() as i64;
        transaction.execute(MOVE, &[&no, &last]).await?;
        transaction.commit().await?;
        Ok(Some(Committed { last_message: posted as u64, now: SystemTime::now().into() }))
    }
}

impl Fault for ForKeyShare {
    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        Box::pin(async move {
            // Commits that do more than add rows go to the sound store: one fault at a time.
            if commit.status.is_some() || commit.wake.is_some() || commit.release || !commit.takes.is_empty() {
                return self.inner.commit(commit).await;
            }
            let landed = self.write(&commit).await.map_err(StoreError::unavailable)?;
            landed.ok_or(StoreError::Fenced { run: commit.run, epoch: commit.epoch })
        })
    }

    fn claim(&self, wanted: &Wanted, lease: &Lease) -> Option<StoreFuture<'_, Vec<Claim>>> {
        let Wanted::One { run, .. } = wanted else { return None };
        let (run, lease) = (run.clone(), lease.clone());
        Some(Box::pin(async move {
            let millis = lease.length.as_millis() as i64;
            let client = self.connect().await.map_err(StoreError::unavailable)?;
            client.execute(CLAIM, &[&run, &lease.owner, &millis]).await.map_err(StoreError::unavailable)?;
            let run = self.inner.head(&run).await?;
            let now = Timestamp::from_millis(run.lease_until.map_or(0, Timestamp::as_millis) - millis);
            Ok(vec![Claim { run, now }])
        }))
    }
}

/// A store with changed commits and possibly changed claims.
struct Mutated {
    inner: Arc<dyn Store>,
    fault: Box<dyn Fault>,
}

impl Store for Mutated {
    fn create(&self, run: NewRun, rows: Vec<Row>) -> StoreFuture<'_, Claim> {
        self.inner.create(run, rows)
    }

    fn claim(&self, wanted: Wanted, lease: Lease) -> StoreFuture<'_, Vec<Claim>> {
        self.fault.claim(&wanted, &lease).unwrap_or_else(|| self.inner.claim(wanted, lease))
    }

    fn renew(&self, held: Vec<Held>, lease: Duration) -> StoreFuture<'_, Renewed> {
        self.inner.renew(held, lease)
    }

    fn release(&self, held: Vec<Held>, how: Release) -> StoreFuture<'_, Vec<Held>> {
        self.inner.release(held, how)
    }

    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        self.fault.commit(commit)
    }

    fn head<'a>(&'a self, run: &'a str) -> StoreFuture<'a, RunInfo> {
        self.inner.head(run)
    }

    fn read<'a>(&'a self, run: &'a str, which: Rows, parts: Parts) -> StoreFuture<'a, Vec<Row>> {
        self.inner.read(run, which, parts)
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
        self.inner.prune(prune)
    }

    fn delete<'a>(&'a self, run: &'a str) -> StoreFuture<'a, ()> {
        self.inner.delete(run)
    }

    fn hint(&self) -> BoxFuture<'_, ()> {
        self.inner.hint()
    }
}
