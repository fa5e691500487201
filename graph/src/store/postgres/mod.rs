//! `PostgresStore`: runs in a PostgreSQL database, shared by as many machines as can reach it.
//!
//! A commit is one statement: it updates the run's own row where epoch and head match, and inserts the rows of the log from that. So do claims of
//! what is ready, which skip rows that others have locked. What is rarer locks the run's row, decides (`decide`) and writes it back. `schema` has the
//! tables, `write` and `read` the statements, `listen` the hints from other machines.
//!
//! A connection that is lost is replaced. What can be repeated, is, once; else the error says that it is not known what happened.

mod listen;
mod read;
mod schema;
mod write;

use super::nudge::Nudge;
use super::{
    Claim, Commit, Committed, Filter, Held, Lease, Mail, NewRun, Parts, Post, Prune, Row, Rows, RunInfo, RunList, Store,
    StoreError, StoreFuture, Wanted,
};
use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use pleach_core::BoxFuture;
use std::fmt;
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Config, NoTls};

/// How many connections a store has, unless its pool was made by the user.
const CONNECTIONS_MAX: usize = 8;

/// How long a connection is waited for.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an answer is waited for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Every statement is a constant that finds its rows by a key or by an index made for it, whatever the parameters: to plan it anew each time, as the
/// server would for some, takes longer than to run it.
const PLAN_ONCE: &str = "SET plan_cache_mode = force_generic_plan";

/// Runs in a PostgreSQL database (13 or later). Cloning is cheap, and gives the same store. It needs a Tokio runtime.
///
/// The tables (`pleach_run`, `pleach_log`, `pleach_inbox`, `pleach_format`) are made in the first schema of the connection's `search_path`.
#[derive(Clone)]
pub struct PostgresStore(Arc<Inner>);

struct Inner {
    pool: Pool,
    nudge: Arc<Nudge>,
    listener: Option<tokio::task::AbortHandle>,
}

impl PostgresStore {
    /// Connects, without TLS, and makes the tables that are not there: `postgres://user:password@host/database`, or `host=.. user=..`.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let why =
            |error: tokio_postgres::Error| StoreError::Unusable { store: "of this address".into(), why: error.to_string() };
        let mut config = Config::from_str(url).map_err(why)?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        let manager = Manager::from_config(config.clone(), NoTls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
        let plan_once = Hook::async_fn(|client: &mut deadpool_postgres::ClientWrapper, _| {
            Box::pin(async move { client.batch_execute(PLAN_ONCE).await.map_err(HookError::Backend) })
        });
        let pool = Pool::builder(manager).max_size(CONNECTIONS_MAX).runtime(Runtime::Tokio1).post_create(plan_once);
        let pool = pool.wait_timeout(Some(CONNECT_TIMEOUT)).create_timeout(Some(CONNECT_TIMEOUT)).build();
        let pool = pool.map_err(StoreError::unavailable)?;
        schema::prepare(&mut client(&pool).await?).await?;
        let nudge = Arc::new(Nudge::default());
        let listener = tokio::spawn(listen::listen(config, Arc::clone(&nudge))).abort_handle();
        Ok(Self(Arc::new(Inner { pool, nudge, listener: Some(listener) })))
    }

    /// The same with a pool of your own, for TLS and other wishes. It hears no hints from other machines.
    pub async fn with_pool(pool: Pool) -> Result<Self, StoreError> {
        schema::prepare(&mut client(&pool).await?).await?;
        Ok(Self(Arc::new(Inner { pool, nudge: Arc::default(), listener: None })))
    }

    async fn client(&self) -> Result<Object, StoreError> {
        client(&self.0.pool).await
    }

    fn ring_if(&self, nudges: bool) {
        if nudges {
            self.0.nudge.ring();
        }
    }
}

async fn client(pool: &Pool) -> Result<Object, StoreError> {
    pool.get().await.map_err(StoreError::unavailable)
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            listener.abort();
        }
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("pool", &self.0.pool.status()).finish()
    }
}

/// Why a statement gave no answer: the store's own refusal, or an error of the database.
enum Failure {
    Refused(StoreError),
    Database(tokio_postgres::Error),
}

impl From<StoreError> for Failure {
    fn from(refused: StoreError) -> Self {
        Self::Refused(refused)
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(refused) => refused,
            Failure::Database(error) => Self::unavailable(error),
        }
    }
}

impl Failure {
    /// Whether the connection was lost, or the server asks for a repetition.
    fn may_pass(&self) -> bool {
        let Self::Database(error) = self else { return false };
        let passing = [
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
            SqlState::CANNOT_CONNECT_NOW,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::T_R_SERIALIZATION_FAILURE,
        ];
        error.is_closed() || error.code().is_some_and(|code| passing.contains(code))
    }
}

/// Does it with a connection; and once more with another if `$again` and the first was lost.
macro_rules! on_a_connection {
    ($store:expr, $again:expr, |$client:ident| $act:expr) => {{
        let mut again = $again;
        let answering = async {
            loop {
                #[allow(unused_mut)]
                let mut $client = $store.client().await?;
                match $act.await {
                    Err(failure) if again && failure.may_pass() => again = false,
                    answer => break answer.map_err(StoreError::from),
                }
            }
        };
        tokio::time::timeout(ANSWER_TIMEOUT, answering).await.unwrap_or_else(|late| Err(StoreError::unavailable(late)))
    }};
}

impl Store for PostgresStore {
    fn create(&self, run: NewRun, rows: Vec<Row>) -> StoreFuture<'_, Claim> {
        Box::pin(async move {
            run.check(&rows)?;
            // Without an owner a repetition cannot be told from another run with this id.
            let again = run.lease.is_some();
            let claim = on_a_connection!(self, again, |client| write::create(&mut client, &run, &rows))?;
            self.ring_if(run.lease.is_none());
            Ok(claim)
        })
    }

    fn claim(&self, wanted: Wanted, lease: Lease) -> StoreFuture<'_, Vec<Claim>> {
        Box::pin(async move {
            wanted.check(&lease)?;
            match &wanted {
                Wanted::One { run, force } => {
                    on_a_connection!(self, true, |client| write::claim_one(&mut client, run, *force, &lease))
                }
                Wanted::Ready { graphs, count } => {
                    on_a_connection!(self, true, |client| write::claim_ready(&client, graphs, *count, &lease))
                }
            }
        })
    }

    fn renew(&self, held: Vec<Held>, lease: Duration) -> StoreFuture<'_, Vec<Held>> {
        Box::pin(async move {
            // Once given up, a run counts as lost: that is not asked twice.
            let lost = on_a_connection!(self, !lease.is_zero(), |client| write::renew(&client, &held, lease))?;
            self.ring_if(lease.is_zero());
            Ok(lost)
        })
    }

    fn commit(&self, commit: Commit) -> StoreFuture<'_, Committed> {
        Box::pin(async move {
            let head = commit.check()?;
            let committed = on_a_connection!(self, true, |client| write::commit(&client, &commit, head))?;
            self.ring_if(commit.may_make_ready());
            Ok(committed)
        })
    }

    fn head<'a>(&'a self, run: &'a str) -> StoreFuture<'a, RunInfo> {
        Box::pin(async move { on_a_connection!(self, true, |client| read::head(&client, run)) })
    }

    fn read<'a>(&'a self, run: &'a str, which: Rows, parts: Parts) -> StoreFuture<'a, Vec<Row>> {
        Box::pin(async move { on_a_connection!(self, true, |client| read::rows(&client, run, which.clone(), parts)) })
    }

    fn list(&self, filters: Vec<Filter>, after: Option<u64>, count: usize) -> StoreFuture<'_, RunList> {
        Box::pin(async move { on_a_connection!(self, true, |client| read::list(&client, filters.clone(), after, count)) })
    }

    fn post<'a>(&'a self, run: &'a str, post: Post) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            post.check()?;
            let number = on_a_connection!(self, post.dedup.is_some(), |client| write::post(&mut client, run, &post))?;
            self.ring_if(true);
            Ok(number)
        })
    }

    fn inbox<'a>(&'a self, run: &'a str, after: u64) -> StoreFuture<'a, Vec<Mail>> {
        Box::pin(async move { on_a_connection!(self, true, |client| read::inbox(&client, run, after)) })
    }

    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            match &prune {
                Prune::Rows { held, before, keep } => {
                    on_a_connection!(self, true, |client| write::prune_rows(&mut client, held, *before, keep))
                }
                Prune::Ended { unchanged_for, count } => {
                    on_a_connection!(self, true, |client| write::prune_ended(&client, *unchanged_for, *count))
                }
            }
        })
    }

    fn delete<'a>(&'a self, run: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(async move { on_a_connection!(self, false, |client| write::delete(&mut client, run)) })
    }

    fn nudged(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.nudge.wait())
    }
}
