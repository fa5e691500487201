//! The tables of a database: creates them, migrates them and checks their format.

use super::fault::Failure;
use super::{run_row, sql};
use crate::store::error::StoreError;
use deadpool_postgres::{ClientWrapper, Transaction};
use tokio_postgres::GenericClient;

/// The format of the tables that this version writes, stored in `pleach_format`.
///
/// - Format 2 added `pleach_run.sum`.
/// - Format 3 added `instance`, `trouble` and `deadline`, claims by schema, and indexes for lists.
/// - Format 4 added `tags`, `failure`, `pleach_inbox.refused`, the table `pleach_tag`, and indexes
///   for lists by time of creation.
/// - Format 5 added `pleach_inbox.cause`.
pub(super) const FORMAT: u32 = 5;

/// Lets only one process at a time create or migrate tables. Others wait without a limit; if that
/// process is suspended, the server ends its session.
const LOCK: &str = "SET LOCAL lock_timeout = 0; SELECT pg_advisory_xact_lock(8100126734)";

/// Limits how long a migration waits for a table, because all other clients wait behind it.
const LIMIT_LOCK_WAIT: &str = "SET LOCAL lock_timeout = '5s'";

/// Queries the catalog directly. A name lookup would cache a missing table, even while waiting for
/// the lock.
const EXISTS: &str =
    "SELECT EXISTS (SELECT FROM pg_catalog.pg_class WHERE relname = 'pleach_format' AND pg_catalog.pg_table_is_visible(oid))";

/// Returns the format of the tables; 0 without tables. Rejects tables of a later version.
pub(super) async fn known_format(client: &ClientWrapper) -> Result<u32, Failure> {
    Ok(check(format(&**client).await?)?)
}

/// Replaces the failure of a call by [`StoreError::NewerFormat`] if a later version has migrated
/// the tables meanwhile.
pub(super) async fn explain(client: &ClientWrapper, failure: Failure) -> Failure {
    let Failure::Database(error) = &failure else { return failure };
    let Some(report) = error.as_db_error() else { return failure };
    if let Some(format) = sql::later_format(report.message()) {
        return check(Some(format)).map_or_else(Failure::Rejected, |_| failure);
    }
    // A table or column is missing, or has another type.
    if report.code().code().starts_with("42")
        && let Err(Failure::Rejected(later @ StoreError::NewerFormat { .. })) = known_format(client).await
    {
        return later.into();
    }
    failure
}

/// Creates or migrates the tables in one transaction.
pub(super) async fn upgrade(client: &mut ClientWrapper) -> Result<(), Failure> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(LOCK).await?;
    // Another process may have migrated the tables meanwhile.
    let format = check(format(&*transaction).await?)?;
    if format == FORMAT {
        return Ok(());
    }
    transaction.batch_execute(LIMIT_LOCK_WAIT).await?;
    if format == 0 {
        transaction.batch_execute(sql::TABLES).await?;
    }
    if format == 1 {
        transaction.batch_execute(sql::UPGRADE_2).await?;
    }
    if (1..=2).contains(&format) {
        transaction.batch_execute(sql::UPGRADE_3).await?;
    }
    if (1..=3).contains(&format) {
        transaction.batch_execute(sql::UPGRADE_4).await?;
    }
    if (1..=4).contains(&format) {
        transaction.batch_execute(sql::UPGRADE_5).await?;
    }
    if format < 4 {
        transaction.batch_execute(sql::LISTS).await?;
    }
    if format == 1 {
        seal_runs(&transaction).await?;
    }
    Ok(transaction.commit().await?)
}

/// Adds the checksums that format 1 did not have. The migration has locked the table.
async fn seal_runs(transaction: &Transaction<'_>) -> Result<(), Failure> {
    let runs = transaction.query(sql::ALL_RUNS.as_str(), &[]).await?;
    let statement = transaction.prepare(&sql::SEAL_RUN).await?;
    for row in &runs {
        // An unreadable row gets no checksum, so later reads report its damage.
        match run_row::unchecked(row) {
            Ok((key, info)) => drop(transaction.execute(&statement, &[&info.sum(), &key]).await?),
            Err(Failure::Rejected(StoreError::Damaged { .. })) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

async fn format(client: &impl GenericClient) -> Result<Option<i64>, Failure> {
    let exists = client.query_one(EXISTS, &[]).await?;
    if !exists.try_get::<_, bool>(0)? {
        return Ok(None);
    }
    let row = client.query_one("SELECT max(format) FROM pleach_format", &[]).await?;
    Ok(Some(row.try_get::<_, Option<i64>>(0)?.unwrap_or(0)))
}

/// Returns the format if this version knows it; 0 without tables.
fn check(format: Option<i64>) -> Result<u32, StoreError> {
    let Some(format) = format else { return Ok(0) };
    match u32::try_from(format) {
        Ok(format) if (1..=FORMAT).contains(&format) => Ok(format),
        Ok(format) if format > FORMAT => Err(StoreError::NewerFormat { what: "the database".into(), format, known: FORMAT }),
        _ => {
            let reason = format!(
                "its table pleach_format has format {format}, which no version writes; restore the table from a backup"
            );
            Err(StoreError::Unusable { store: "in this database".into(), reason })
        }
    }
}
