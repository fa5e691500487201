//! [`PostgresStore`]: durable runs in a PostgreSQL database, shared by any number of machines.
//!
//! Every change is one statement, so a slow, suspended or dead client keeps no row locked.
//!
//! Lock rules:
//! 1. A commit updates the run's own row if instance, epoch and head match, and inserts the rows of
//!    the log from the result.
//! 2. Claims of ready runs and commits of several runs skip locked rows and never wait. Renewals
//!    skip locked rows first, then wait a short time for each of them.
//! 3. Where Rust decides (`decide`), the row is read without a lock and written only if it has not
//!    changed. Otherwise the whole operation is repeated.
//! 4. A statement for several runs locks their rows in the order of their ids, and never waits for
//!    one. Only claims lock in another order: the run that is due longest first. The run's own row
//!    is locked before rows of its log or inbox.
//! 5. A transaction that writes rows sends no notification; see `ring`.
//!
//! Reading order: `schema` and `sql` (tables and statements), `commit`, `claims`, `leases`,
//! `inbox`, `prune`, `read`, `list`, `batcher`, `batches`, `commit_many`, then `connections`,
//! `fault` (errors), `builder`, `tls`, `listen`, `ring` and `diagnosis`.

mod batcher;
#[cfg(test)]
mod batcher_model;
mod batches;
mod builder;
mod claims;
mod commit;
mod commit_many;
mod connections;
mod diagnosis;
mod fault;
mod inbox;
mod leases;
mod list;
mod listen;
mod prune;
mod read;
mod ring;
mod run_row;
mod schema;
mod sql;
mod target;
#[cfg(feature = "postgres-tls")]
mod tls;

pub use builder::PostgresBuilder;
pub use diagnosis::{PostgresDiagnosis, PostgresTable, PostgresTransaction};
#[cfg(feature = "postgres-tls")]
pub use tls::PostgresTls;

use super::hint::Hints;
use super::limits::check_lease;
use super::{
    Claim, Commit, Committed, Filter, Held, InboxMessage, Lease, NewMessage, NewRun, OverdueRuns, Parts, Prune, RefusedMessage,
    Release, Renewed, Row, Rows, RunCursor, RunInfo, RunList, Store, StoreError, StoreFuture, Wanted,
};
use batcher::Turn;
use batches::Batches;
use claims::Claimed;
use connections::{ANSWER_TIMEOUT, CONNECT_TIMEOUT, Connections};
use deadpool_postgres::Pool;
use leases::Renewal;
use pleach_core::BoxFuture;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use target::Target;
use tokio::sync::Semaphore;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Config, Socket};

/// A store in a PostgreSQL database, version 13 or later.
///
/// Clones are cheap and share one pool. The store needs a Tokio runtime.
///
/// - **Tables.** `pleach_run`, `pleach_log`, `pleach_inbox`, `pleach_tag` and `pleach_format` are
///   created in the first schema of the connection's `search_path`.
/// - **Sessions.** The store sets what it relies on in each connection: `synchronous_commit` is on
///   if it was off, `lock_timeout` is at most 10 s, and `idle_in_transaction_session_timeout` at
///   most 30 s.
/// - **Broken connections.** A connection is dropped and not reused if a call on it got no answer.
///
/// # Examples
/// ```no_run
/// use pleach::prelude::*;
/// use pleach::store::PostgresStore;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = Graph::<u32>::new("double")
///     .add_node("double", |n: u32| async move { Ok::<_, String>(n * 2) })
///     .add_edge("double", END)
///     .set_entry("double")
///     .compile()?;
///
/// let store = PostgresStore::connect("postgres://app:secret@db.internal/app").await?;
/// assert_eq!(graph.run(21).id("job-1").checkpoint(&store).await?, 42);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PostgresStore(Arc<PostgresParts>);

struct PostgresParts {
    connections: Arc<Connections>,
    batches: Batches,
    hints: Arc<Hints>,
    listener: Option<tokio::task::AbortHandle>,
}

impl PostgresStore {
    /// Connects with the default options, and creates or migrates the tables if needed.
    ///
    /// [`builder`](Self::builder) sets options.
    ///
    /// # Errors
    /// As [`PostgresBuilder::connect`].
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::builder(url).connect().await
    }

    /// Returns a builder for a store at this URL: `postgres://user:password@host/database`, or
    /// `host=.. user=.. password=..`.
    pub fn builder(url: &str) -> PostgresBuilder {
        PostgresBuilder::new(url)
    }

    /// Uses the given pool, and creates or migrates the tables if needed.
    ///
    /// Pass a pool that nothing else uses, because the store changes the settings of its sessions.
    /// Without a listener the store gets no notifications from other machines, so its workers find
    /// new runs at their next poll. [`with_pool_and_listener`](Self::with_pool_and_listener) adds a
    /// listener.
    ///
    /// # Errors
    /// As [`PostgresBuilder::connect`].
    pub async fn with_pool(pool: Pool) -> Result<Self, StoreError> {
        Self::open(from_callers_pool(pool), Arc::default(), None::<std::future::Pending<()>>, true).await
    }

    /// Uses the given pool, and one more connection that listens for notifications from other
    /// machines.
    ///
    /// A pool does not forward notifications, so the listener needs the configuration and the TLS
    /// connector (or [`NoTls`](tokio_postgres::NoTls)) of the pool.
    ///
    /// # Errors
    /// As [`PostgresBuilder::connect`]. A listener that cannot connect tries again every 2 s; this
    /// is not an error.
    pub async fn with_pool_and_listener<T>(pool: Pool, config: Config, tls: T) -> Result<Self, StoreError>
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send + Sync,
        T::TlsConnect: Send + Sync,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let hints = Arc::new(Hints::default());
        let listening = listen::listen(config, tls, Arc::clone(&hints));
        Self::open(from_callers_pool(pool), hints, Some(listening), true).await
    }

    async fn open(
        connections: Connections,
        hints: Arc<Hints>,
        listening: Option<impl Future<Output = ()> + Send + 'static>,
        migrates: bool,
    ) -> Result<Self, StoreError> {
        let connections = Arc::new(connections);
        let batches = Batches::new(&connections);
        let mut store = PostgresParts { connections, batches, hints, listener: None };
        store.prepare(migrates).await?;
        store.listener = listening.map(|listening| tokio::spawn(listening).abort_handle());
        Ok(Self(Arc::new(store)))
    }

    fn send_hint_if(&self, may_make_ready: bool) {
        if may_make_ready {
            self.0.hints.notify();
        }
    }
}

fn from_callers_pool(pool: Pool) -> Connections {
    let (connect_timeout, answer_timeout) = (CONNECT_TIMEOUT, ANSWER_TIMEOUT);
    let (target, size) = (Target::of_callers_pool(), pool.status().max_size);
    let calls_max = if size > 1 { size - 1 } else { size };
    let permits = Arc::new(Semaphore::new(calls_max));
    Connections { pool, permits, calls_max, target, is_own_pool: false, connect_timeout, answer_timeout }
}

/// Makes a call on a connection. Repeats it once on another connection if the failure allows it;
/// see [`fault::Failure::may_be_repeated`].
macro_rules! on_a_connection {
    ($parts:expr, $is_repeatable:expr, |$client:ident| $call:expr) => {
        on_a_connection!($parts, take, $is_repeatable, |$client| $call)
    };
    ($parts:expr, $take:ident, $is_repeatable:expr, |$client:ident| $call:expr) => {{
        let connections = &$parts.connections;
        let mut may_repeat = true;
        loop {
            let connection = connections.$take().await?;
            let $client = &*connection;
            let answer = connections.answer(async {
                match $call.await {
                    Err(failure) => Err(schema::explain($client, failure).await),
                    answer => answer,
                }
            });
            let answer = answer.await;
            connection.give_back(&answer);
            match answer {
                Err(failure) if may_repeat && failure.may_be_repeated($is_repeatable) => may_repeat = false,
                answer => break answer.map_err(|failure| failure.into_store_error(&connections.target)),
            }
        }
    }};
}

/// Makes a call that reads or claims one run; see [`fault::Failure::in_run`].
async fn for_run<T>(run: &str, call: impl Future<Output = Result<T, fault::Failure>>) -> Result<T, fault::Failure> {
    call.await.map_err(|failure| failure.in_run(run))
}

impl PostgresParts {
    /// Creates or migrates the tables if needed, or fails if the caller does not allow it.
    async fn prepare(&self, migrates: bool) -> Result<(), StoreError> {
        let format = on_a_connection!(self, true, |client| schema::known_format(client))?;
        if format != schema::FORMAT && !migrates {
            let what = self.connections.target.to_string();
            return Err(StoreError::OlderFormat { what, format, needed: schema::FORMAT });
        }
        if format != schema::FORMAT {
            // A migration can take longer than the timeout of a call.
            let mut connection = self.connections.take().await?;
            let upgraded = schema::upgrade(connection.exclusive()).await;
            connection.give_back(&upgraded);
            upgraded.map_err(|failure| failure.into_store_error(&self.connections.target))?;
        }
        Ok(())
    }

    /// Makes a commit, with the commits of other runs if some are under way.
    async fn commit(&self, commit: &Arc<Commit>, head: u64) -> Result<Committed, StoreError> {
        let turn = match commit_many::bytes(commit) {
            Some(bytes) => self.batches.commits.turn(commit, bytes).await,
            None => Turn::ALONE,
        };
        let (is_repeated, _place) = match turn {
            Turn::Over(answer) => return answer,
            Turn::Alone { is_repeated, place } => (is_repeated, place),
        };
        on_a_connection!(self, !is_repeated, |client| commit::commit(client, commit, head))
    }

    /// Reads rows. Reads of one row share a round trip with those of other runs.
    async fn read(&self, run: &str, which: Rows, parts: Parts) -> Result<Vec<Row>, StoreError> {
        let turn = match read::single_row(run, &which, parts) {
            Some(single) => self.batches.reads.turn(&Arc::new(single), 0).await,
            None => Turn::ALONE,
        };
        let _place = match turn {
            Turn::Over(answer) => return answer,
            Turn::Alone { place, .. } => place,
        };
        on_a_connection!(self, true, |client| for_run(run, read::rows(client, run, which.clone(), parts)))
    }

    /// Renews leases, with those of other callers if some are under way. Then waits for locked rows
    /// on a connection of its own.
    async fn renew(&self, renewal: Renewal) -> Result<Renewed, StoreError> {
        let (lease, renewal) = (renewal.lease, Arc::new(renewal));
        let (not_done, now) = match self.batches.renewals.turn(&renewal, 0).await {
            Turn::Over(answer) => answer?,
            Turn::Alone { place: _place, .. } => on_a_connection!(self, take_for_renewal, true, |client| async {
                let mut renewed = leases::renew_free(client, std::iter::once(&*renewal)).await?;
                Ok(renewed.remove(0))
            })?,
        };
        if not_done.busy.is_empty() {
            return Ok(Renewed { lost: not_done.lost, busy: not_done.busy, now });
        }
        on_a_connection!(self, take_for_renewal, true, |client| leases::renew_busy(client, &not_done, lease, now))
    }

    /// Releases runs. Waits for locked rows one by one, so that the call holds no lock while it
    /// waits.
    async fn release(&self, held: &[Held], how: &Release) -> Result<Vec<Held>, StoreError> {
        // A released run counts as lost, so the call is not repeatable.
        let leases::NotDone { mut lost, busy } = on_a_connection!(self, false, |client| leases::release(client, held, how))?;
        for one in &busy {
            let released = on_a_connection!(self, false, |client| leases::release_one(client, one, how))?;
            lost.extend(released.lost);
            // Another transaction changed the row during the wait and unlocked it, so the caller no
            // longer holds the run.
            lost.extend(released.busy);
        }
        Ok(lost)
    }
}

impl Drop for PostgresParts {
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            listener.abort();
        }
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresStore").field(&self.0.connections).finish()
    }
}

impl Store for PostgresStore {
    fn create(&self, run: NewRun, rows: Vec<Row>) -> StoreFuture<'_, Claim> {
        Box::pin(async move {
            run.check(&rows)?;
            // Without an owner, a repeated call looks like another run with the same id.
            let is_repeatable = run.lease.is_some();
            let claim = on_a_connection!(self.0, is_repeatable, |client| commit::create(client, &run, &rows))?;
            self.send_hint_if(run.lease.is_none());
            Ok(claim)
        })
    }

    fn claim(&self, wanted: Wanted, lease: Lease) -> StoreFuture<'_, Vec<Claim>> {
        Box::pin(async move {
            wanted.check(&lease)?;
            match &wanted {
                Wanted::One { run, force } => {
                    on_a_connection!(self.0, true, |client| for_run(run, claims::claim_one(client, run, *force, &lease)))
                }
                Wanted::Ready { graphs, count } => {
                    let mut claimed = Claimed::default();
                    let answer = on_a_connection!(self.0, true, |client| {
                        claims::claim_ready(client, graphs, *count, &lease, &mut claimed)
                    });
                    claimed.with(answer)
                }
            }
        })
    }

    fn renew(&self, held: Vec<Held>, lease: Duration) -> StoreFuture<'_, Renewed> {
        Box::pin(async move {
            check_lease(lease)?;
            self.0.connections.renewal(lease, self.0.renew(Renewal { held, lease })).await
        })
    }

    fn release(&self, held: Vec<Held>, how: Release) -> StoreFuture<'_, Vec<Held>> {
        Box::pin(async move {
            let lost = self.0.release(&held, &how).await?;
            self.send_hint_if(true);
            Ok(lost)
        })
    }

    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        Box::pin(async move {
            let head = commit.check()?;
            let commit = Arc::new(commit);
            let committed = self.0.commit(&commit, head).await?;
            self.send_hint_if(commit.may_make_ready());
            Ok(committed)
        })
    }

    fn head<'a>(&'a self, run: &'a str) -> StoreFuture<'a, RunInfo> {
        Box::pin(async move { on_a_connection!(self.0, true, |client| for_run(run, read::head(client, run))) })
    }

    fn read<'a>(&'a self, run: &'a str, which: Rows, parts: Parts) -> StoreFuture<'a, Vec<Row>> {
        Box::pin(async move { self.0.read(run, which, parts).await })
    }

    fn list(&self, filters: Vec<Filter>, after: Option<RunCursor>, count: usize) -> StoreFuture<'_, RunList> {
        Box::pin(async move { on_a_connection!(self.0, true, |client| list::list(client, filters.clone(), after, count)) })
    }

    fn overdue(&self, due_for: Duration, count: usize) -> StoreFuture<'_, Vec<OverdueRuns>> {
        Box::pin(async move { on_a_connection!(self.0, true, |client| list::overdue(client, due_for, count)) })
    }

    fn send_message<'a>(&'a self, run: &'a str, message: NewMessage) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            message.check()?;
            let number = on_a_connection!(self.0, message.dedup.is_some(), |client| inbox::add_message(client, run, &message))?;
            self.send_hint_if(true);
            Ok(number)
        })
    }

    fn inbox<'a>(&'a self, run: &'a str, after: u64) -> StoreFuture<'a, Vec<InboxMessage>> {
        Box::pin(async move { on_a_connection!(self.0, true, |client| for_run(run, read::inbox(client, run, after))) })
    }

    fn is_untaken<'a>(&'a self, run: &'a str, number: u64) -> StoreFuture<'a, bool> {
        Box::pin(async move { on_a_connection!(self.0, true, |client| for_run(run, read::is_untaken(client, run, number))) })
    }

    fn refused<'a>(&'a self, run: &'a str) -> StoreFuture<'a, Vec<RefusedMessage>> {
        Box::pin(async move { on_a_connection!(self.0, true, |client| for_run(run, read::refused(client, run))) })
    }

    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            match &prune {
                Prune::Rows { held, before, keep } => {
                    on_a_connection!(self.0, true, |client| prune::prune_rows(client, held, *before, keep))
                }
                Prune::Ended { unchanged_for, count } => {
                    on_a_connection!(self.0, true, |client| prune::prune_ended(client, *unchanged_for, *count))
                }
            }
        })
    }

    fn delete<'a>(&'a self, run: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(async move { on_a_connection!(self.0, false, |client| prune::delete(client, run)) })
    }

    fn hint(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.hints.wait())
    }
}
