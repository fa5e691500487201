//! The tables, and how a database gets them.

use super::fault::Failure;
use super::{run_row, sql};
use crate::store::error::StoreError;
use deadpool_postgres::{ClientWrapper, Transaction};
use tokio_postgres::GenericClient;

/// The format of the tables that this version writes, in `pleach_format`.
///
/// 1: as it began. 2: `pleach_run.sum`. 3: `instance`, `trouble` and `deadline`, claims by schema, indexes for lists.
pub(super) const FORMAT: u32 = 3;

/// Only one process at a time makes or upgrades tables. It is waited for as long as it takes: should it freeze, the server ends its session.
const LOCK: &str = "SET LOCAL lock_timeout = 0; SELECT pg_advisory_xact_lock(8100126734)";

/// While an upgrade waits for a table, everybody else waits behind it.
const HURRY: &str = "SET LOCAL lock_timeout = '5s'";

/// A look into the catalogue itself: a name that was looked up in vain is remembered as missing, also while waiting for the lock.
const EXISTS: &str =
    "SELECT EXISTS (SELECT FROM pg_catalog.pg_class WHERE relname = 'pleach_format' AND pg_catalog.pg_table_is_visible(oid))";

/// Whether the tables have to be made or upgraded. Tables of a later version are refused.
pub(super) async fn is_old(client: &ClientWrapper) -> Result<bool, Failure> {
    Ok(check(format(&**client).await?)? != FORMAT)
}

/// Why a call failed: if the tables were upgraded by a later version meanwhile, that is why.
pub(super) async fn explain(client: &ClientWrapper, failure: Failure) -> Failure {
    let Failure::Database(error) = &failure else { return failure };
    let Some(said) = error.as_db_error() else { return failure };
    if let Some(format) = sql::later_format(said.message()) {
        return check(Some(format)).map_or_else(Failure::Refused, |_| failure);
    }
    // A table or column is not there any more, or is another.
    if said.code().code().starts_with("42")
        && let Err(Failure::Refused(later @ StoreError::Future { .. })) = is_old(client).await
    {
        return later.into();
    }
    failure
}

/// Makes the tables, or upgrades them.
pub(super) async fn upgrade(client: &mut ClientWrapper) -> Result<(), Failure> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(LOCK).await?;
    // Another process may have done it meanwhile.
    let format = check(format(&*transaction).await?)?;
    if format == FORMAT {
        return Ok(());
    }
    transaction.batch_execute(HURRY).await?;
    if format == 0 {
        transaction.batch_execute(sql::TABLES).await?;
    }
    if format == 1 {
        transaction.batch_execute(sql::UPGRADE_2).await?;
    }
    if (1..=2).contains(&format) {
        transaction.batch_execute(sql::UPGRADE_3).await?;
    }
    transaction.batch_execute(sql::INDEXES_3).await?;
    if format == 1 {
        seal_runs(&transaction).await?;
    }
    Ok(transaction.commit().await?)
}

/// Gives all runs the checksums that format 1 had not. The table is locked by the upgrade.
async fn seal_runs(transaction: &Transaction<'_>) -> Result<(), Failure> {
    let runs = transaction.query(sql::ALL_RUNS.as_str(), &[]).await?;
    let statement = transaction.prepare(&sql::SEAL_RUN).await?;
    for row in &runs {
        // A row that cannot be read gets no checksum, and is found to be damaged later.
        match run_row::unchecked(row) {
            Ok((key, info)) => drop(transaction.execute(&statement, &[&info.sum(), &key]).await?),
            Err(Failure::Refused(StoreError::Damaged { .. })) => {}
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

/// The format, if this version knows it; 0 if there are no tables.
fn check(format: Option<i64>) -> Result<u32, StoreError> {
    let Some(format) = format else { return Ok(0) };
    match u32::try_from(format) {
        Ok(format) if (1..=FORMAT).contains(&format) => Ok(format),
        Ok(format) if format > FORMAT => Err(StoreError::Future { what: "the database".into(), format, known: FORMAT }),
        _ => {
            let why = format!("its table pleach_format says {format}, which no version has written");
            Err(StoreError::Unusable { store: "in this database".into(), why })
        }
    }
}
