//! [`PostgresDiagnosis`]: the condition of a server and a database, for operators. Nothing is
//! written.

use super::fault::Failure;
use super::{PostgresStore, sql};
use crate::store::StoreError;
use crate::store::diagnosis::index_names;
use crate::store::time::{Timestamp, millis};
use deadpool_postgres::ClientWrapper;
use std::time::{Duration, Instant, SystemTime};
use tokio_postgres::Row;

/// The tables that this version needs.
const TABLES: [&str; 5] = ["pleach_format", "pleach_inbox", "pleach_log", "pleach_run", "pleach_tag"];

/// How long a transaction is open before it is listed.
const LONG_TRANSACTION: Duration = Duration::from_secs(60);

/// The most transactions that are listed.
const TRANSACTIONS_MAX: i64 = 20;

/// The condition of a PostgreSQL server and database. Returned by [`PostgresStore::diagnose`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PostgresDiagnosis {
    /// The version of the server, as it names it.
    pub version: String,
    /// The role with which this store is connected.
    pub role: String,
    /// Whether the server is a standby, which accepts no writes.
    pub is_in_recovery: bool,
    /// Whether transactions of this role are read-only by default.
    pub is_read_only: bool,
    /// Whether the server syncs what it confirms: `fsync` and `full_page_writes`. Without them a
    /// power failure can lose or damage confirmed commits.
    pub is_durable: bool,
    /// Whether the connection to the server is encrypted.
    pub has_tls: bool,
    /// By how many milliseconds the clock of the server is ahead of the clock of this machine;
    /// negative if it is behind. Exact to half of [`round_trip`](Self::round_trip).
    pub clock_ahead: i64,
    /// The time that the server needed to answer a small statement.
    pub round_trip: Duration,
    /// The connections of clients that the server has, and that it allows for this role.
    pub connections: u64,
    /// The most connections that it allows for roles without special rights.
    pub connections_max: u64,
    /// The size of the database in bytes, with all tables in it.
    pub bytes: u64,
    /// The tables of the store, by name.
    pub tables: Vec<PostgresTable>,
    /// Indexes that this version creates and the database does not have, or has invalid.
    pub missing_indexes: Vec<String>,
    /// Transactions in this database that are open for more than a minute, the oldest first, at
    /// most 20. Without the role `pg_read_all_stats` only those of the own role are listed.
    pub long_transactions: Vec<PostgresTransaction>,
    /// Whether this role sees the transactions of all roles.
    pub sees_all_transactions: bool,
}

/// A table of a store, with its size.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PostgresTable {
    /// The name of the table, without its schema.
    pub name: String,
    /// The size in bytes, with indexes and large values.
    pub bytes: u64,
    /// The number of live rows, as the server estimates it.
    pub live_rows: u64,
    /// The number of dead rows that vacuum has not removed, as the server estimates it.
    pub dead_rows: u64,
    /// The privileges that a program of this role needs and does not have, such as `UPDATE`.
    pub missing_privileges: Vec<String>,
}

/// A transaction that is open for long. It keeps vacuum from removing dead rows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PostgresTransaction {
    /// The process of the session, for `pg_terminate_backend`.
    pub pid: i32,
    /// The role with which the session is connected.
    pub role: String,
    /// The name that its program gave itself.
    pub application: String,
    /// The state of the session, such as `idle in transaction`.
    pub state: String,
    /// For how long the transaction is open.
    pub open_for: Duration,
}

impl PostgresStore {
    /// Examines the server and the database: clock, rights, sizes, indexes, long transactions.
    /// Writes nothing.
    ///
    /// # Errors
    /// As all calls: [`Unreachable`](StoreError::Unreachable) or
    /// [`Unavailable`](StoreError::Unavailable) if the server does not answer.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn look() -> Result<(), pleach::store::StoreError> {
    /// use pleach::store::PostgresStore;
    ///
    /// let url = "postgres://app:secret@db.internal/app";
    /// let store = PostgresStore::builder(url).migrate(false).connect().await?;
    /// let found = store.diagnose().await?;
    /// println!("clock ahead by {} ms, indexes missing: {:?}", found.clock_ahead, found.missing_indexes);
    /// # Ok(()) }
    /// ```
    pub async fn diagnose(&self) -> Result<PostgresDiagnosis, StoreError> {
        let parts = &self.0;
        let connections = &parts.connections;
        let connection = connections.take().await?;
        let answer = connections.answer(examine(&connection)).await;
        connection.give_back(&answer);
        answer.map_err(|failure| failure.into_store_error(&connections.target))
    }
}

async fn examine(client: &ClientWrapper) -> Result<PostgresDiagnosis, Failure> {
    let clock = client.prepare_cached(&sql::CLOCK).await?;
    let (begun, before) = (Instant::now(), Timestamp::from(SystemTime::now()));
    let now = Timestamp::from_millis(client.query_one(&clock, &[]).await?.try_get("now")?);
    let round_trip = begun.elapsed();
    let here = before.after(round_trip / 2);
    let indexes: Vec<&str> = index_names(sql::TABLES).chain(index_names(sql::LISTS)).collect();
    let row = client.query_one(&client.prepare_cached(&sql::DIAGNOSE).await?, &[&indexes]).await?;
    let tables = client.query(&client.prepare_cached(&sql::DIAGNOSE_TABLES).await?, &[&TABLES.as_slice()]).await?;
    let transactions = client.prepare_cached(&sql::DIAGNOSE_TRANSACTIONS).await?;
    let transactions = client.query(&transactions, &[&millis(LONG_TRANSACTION), &TRANSACTIONS_MAX]).await?;
    Ok(PostgresDiagnosis {
        version: row.try_get("version")?,
        role: row.try_get("role")?,
        is_in_recovery: row.try_get("is_in_recovery")?,
        is_read_only: row.try_get("is_read_only")?,
        is_durable: row.try_get("is_durable")?,
        has_tls: row.try_get("has_tls")?,
        clock_ahead: now.as_millis().saturating_sub(here.as_millis()),
        round_trip,
        connections: count(&row, "connections")?,
        connections_max: count(&row, "connections_max")?,
        bytes: count(&row, "bytes")?,
        tables: tables.iter().map(table).collect::<Result<_, _>>()?,
        missing_indexes: row.try_get("missing_indexes")?,
        long_transactions: transactions.iter().map(transaction).collect::<Result<_, _>>()?,
        sees_all_transactions: row.try_get("sees_all_transactions")?,
    })
}

fn count(row: &Row, column: &str) -> Result<u64, tokio_postgres::Error> {
    Ok(u64::try_from(row.try_get::<_, i64>(column)?).unwrap_or(0))
}

fn table(row: &Row) -> Result<PostgresTable, tokio_postgres::Error> {
    Ok(PostgresTable {
        name: row.try_get("name")?,
        bytes: count(row, "bytes")?,
        live_rows: count(row, "live_rows")?,
        dead_rows: count(row, "dead_rows")?,
        missing_privileges: row.try_get("missing_privileges")?,
    })
}

fn transaction(row: &Row) -> Result<PostgresTransaction, tokio_postgres::Error> {
    Ok(PostgresTransaction {
        pid: row.try_get("pid")?,
        role: row.try_get("role")?,
        application: row.try_get("application")?,
        state: row.try_get("state")?,
        open_for: Duration::from_millis(count(row, "open_for")?),
    })
}
