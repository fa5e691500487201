//! `PostgresStore`: runs in a PostgreSQL database, shared by as many machines as can reach it.
//!
//! Every change is one statement, so no row stays locked while a client thinks, freezes or dies:
//! - A commit updates the run's own row where instance, epoch and head match, and inserts the rows of the log from that.
//! - Claims of ready runs skip rows that others have locked. They wait for nobody. Renewals skip them at first, then wait a short time for each.
//! - Where Rust decides (`decide`), the row is read without a lock and written only if it is still the same; else all of it is done again.
//! - A statement for several runs locks their rows in the order of their keys. The run's own row is locked before rows of its log or inbox.
//!
//! Read in this order: `schema` and `sql` (the tables and statements), `commit`, `claims`, `leases`, `post`, `prune`, `read`, `list`, then
//! `connections` (what happens to a connection), `fault` (what errors say), `builder`, `tls` and `listen`.

mod builder;
mod claims;
mod commit;
mod connections;
mod fault;
mod inbox;
mod leases;
mod list;
mod listen;
mod prune;
mod read;
mod run_row;
mod schema;
mod sql;
mod target;
#[cfg(feature = "postgres-tls")]
mod tls;

pub use builder::PostgresBuilder;
#[cfg(feature = "postgres-tls")]
pub use tls::PostgresTls;

use super::hint::Hints;
use super::limits::check_lease;
use super::{
    Claim, Commit, Committed, Filter, Held, InboxMessage, Lease, NewMessage, NewRun, Parts, Prune, Release, Renewed, Row, Rows,
    RunInfo, RunList, Store, StoreError, StoreFuture, Wanted,
};
use claims::Claimed;
use connections::{ANSWER_TIMEOUT, CONNECT_TIMEOUT, Connections};
use deadpool_postgres::Pool;
use pleach_core::BoxFuture;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use target::Target;
use tokio::sync::Semaphore;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Config, Socket};

/// Runs in a PostgreSQL database (13 or later). Cloning is cheap, and gives the same store. It needs a Tokio runtime.
///
/// The tables (`pleach_run`, `pleach_log`, `pleach_inbox`, `pleach_format`) are made in the first schema of the connection's `search_path`.
///
/// Each connection gets the session settings that the store relies on: `synchronous_commit` is switched on if it is off, `lock_timeout` is at most
/// 10 s, and `idle_in_transaction_session_timeout` at most 30 s. A connection is dropped, not reused, when a call on it was not answered.
#[derive(Clone)]
pub struct PostgresStore(Arc<PostgresParts>);

struct PostgresParts {
    connections: Connections,
    hints: Arc<Hints>,
    listener: Option<tokio::task::AbortHandle>,
}

impl PostgresStore {
    /// Connects with the default options: see [`builder`](Self::builder) and [`PostgresBuilder::connect`].
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::builder(url).connect().await
    }

    /// Returns a builder for a store at this address: `postgres://user:password@host/database`, or `host=.. user=.. password=..`.
    pub fn builder(url: &str) -> PostgresBuilder {
        PostgresBuilder::new(url)
    }

    /// Uses a pool of your own, and makes or upgrades the tables if necessary.
    ///
    /// Give the store a pool that nothing else uses: it changes the settings of the sessions. The store hears no notifications from other machines,
    /// so its workers find new runs at their next poll; [`with_pool_and_listener`](Self::with_pool_and_listener) does.
    ///
    /// # Errors
    /// As [`PostgresBuilder::connect`].
    pub async fn with_pool(pool: Pool) -> Result<Self, StoreError> {
        Self::open(of_caller(pool), Arc::default(), None::<std::future::Pending<()>>).await
    }

    /// Uses a pool of your own, and one more connection that listens for notifications from other machines.
    ///
    /// A pool does not hand out the notifications that its connections receive, so the listener needs the configuration and the TLS connector
    /// (or [`NoTls`](tokio_postgres::NoTls)) that the pool was made with.
    ///
    /// # Errors
    /// As [`PostgresBuilder::connect`]. A listener that cannot connect tries again every 2 s and fails nothing.
    pub async fn with_pool_and_listener<T>(pool: Pool, config: Config, tls: T) -> Result<Self, StoreError>
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send + Sync,
        T::TlsConnect: Send + Sync,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let hints = Arc::new(Hints::default());
        let listening = listen::listen(config, tls, Arc::clone(&hints));
        Self::open(of_caller(pool), hints, Some(listening)).await
    }

    async fn open(
        connections: Connections,
        hints: Arc<Hints>,
        listening: Option<impl Future<Output = ()> + Send + 'static>,
    ) -> Result<Self, StoreError> {
        let mut store = PostgresParts { connections, hints, listener: None };
        store.prepare().await?;
        store.listener = listening.map(|listening| tokio::spawn(listening).abort_handle());
        Ok(Self(Arc::new(store)))
    }

    fn ring_if(&self, nudges: bool) {
        if nudges {
            self.0.hints.ring();
        }
    }
}

fn of_caller(pool: Pool) -> Connections {
    let (connect_timeout, answer_timeout) = (CONNECT_TIMEOUT, ANSWER_TIMEOUT);
    let (target, size) = (Target::of_callers_pool(), pool.status().max_size);
    let calls_max = if size > 1 { size - 1 } else { size };
    let permits = Arc::new(Semaphore::new(calls_max));
    Connections { pool, permits, calls_max, target, is_own_pool: false, connect_timeout, answer_timeout }
}

/// Makes a call on a connection; and once more on another if the failure allows it: see [`fault::Failure::may_be_repeated`].
macro_rules! on_a_connection {
    ($inner:expr, $is_repeatable:expr, |$client:ident| $call:expr) => {
        on_a_connection!($inner, take, $is_repeatable, |$client| $call)
    };
    ($inner:expr, $take:ident, $is_repeatable:expr, |$client:ident| $call:expr) => {{
        let connections = &$inner.connections;
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

/// A call that reads or claims one run: see [`fault::Failure::in_run`].
async fn for_run<T>(run: &str, call: impl Future<Output = Result<T, fault::Failure>>) -> Result<T, fault::Failure> {
    call.await.map_err(|failure| failure.in_run(run))
}

impl PostgresParts {
    /// Makes or upgrades the tables.
    async fn prepare(&self) -> Result<(), StoreError> {
        if on_a_connection!(self, true, |client| schema::is_old(client))? {
            // An upgrade may take longer than any call.
            let mut connection = self.connections.take().await?;
            let upgraded = schema::upgrade(connection.exclusive()).await;
            connection.give_back(&upgraded);
            upgraded.map_err(|failure| failure.into_store_error(&self.connections.target))?;
        }
        Ok(())
    }

    /// Gives runs up in as many statements as it takes. What is busy is waited for one by one, so that no row is locked meanwhile.
    async fn release(&self, held: &[Held], how: &Release) -> Result<Vec<Held>, StoreError> {
        // Once given up, a run counts as lost: that is not asked twice.
        let leases::Left { mut lost, busy } = on_a_connection!(self, false, |client| leases::release(client, held, how))?;
        for one in &busy {
            let released = on_a_connection!(self, false, |client| leases::release_one(client, one, how))?;
            lost.extend(released.lost);
            // Another transaction gave it a new version while its row was waited for, and let it go: it is no longer as it was named.
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
            // Without an owner a repetition cannot be told from another run with this id.
            let is_repeatable = run.lease.is_some();
            let claim = on_a_connection!(self.0, is_repeatable, |client| commit::create(client, &run, &rows))?;
            self.ring_if(run.lease.is_none());
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
            let renewing =
                async { on_a_connection!(self.0, take_for_renewal, true, |client| leases::renew(client, &held, lease)) };
            self.0.connections.renewal(lease, renewing).await
        })
    }

    fn release(&self, held: Vec<Held>, how: Release) -> StoreFuture<'_, Vec<Held>> {
        Box::pin(async move {
            let lost = self.0.release(&held, &how).await?;
            self.ring_if(true);
            Ok(lost)
        })
    }

    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        Box::pin(async move {
            let head = commit.check()?;
            let committed = on_a_connection!(self.0, true, |client| commit::commit(client, &commit, head))?;
            self.ring_if(commit.may_make_ready());
            Ok(committed)
        })
    }

    fn head<'a>(&'a self, run: &'a str) -> StoreFuture<'a, RunInfo> {
        Box::pin(async move { on_a_connection!(self.0, true, |client| for_run(run, read::head(client, run))) })
    }

    fn read<'a>(&'a self, run: &'a str, which: Rows, parts: Parts) -> StoreFuture<'a, Vec<Row>> {
        Box::pin(
            async move { on_a_connection!(self.0, true, |client| for_run(run, read::rows(client, run, which.clone(), parts))) },
        )
    }

    fn list(&self, filters: Vec<Filter>, after: Option<u64>, count: usize) -> StoreFuture<'_, RunList> {
        Box::pin(async move { on_a_connection!(self.0, true, |client| list::list(client, filters.clone(), after, count)) })
    }

    fn post<'a>(&'a self, run: &'a str, post: NewMessage) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            post.check()?;
            let number = on_a_connection!(self.0, post.dedup.is_some(), |client| inbox::post(client, run, &post))?;
            self.ring_if(true);
            Ok(number)
        })
    }

    fn inbox<'a>(&'a self, run: &'a str, after: u64) -> StoreFuture<'a, Vec<InboxMessage>> {
        Box::pin(async move { on_a_connection!(self.0, true, |client| for_run(run, read::inbox(client, run, after))) })
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

    fn nudged(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.hints.wait())
    }
}
