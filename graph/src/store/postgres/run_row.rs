//! Decodes a run's own row of the database.

use super::fault::Failure;
use crate::store::error::StoreError;
use crate::store::run_info::{DamagedRun, GraphVersion, Origin, RunInfo, RunStatus};
use crate::store::time::Timestamp;
use crate::store::{Claim, RunFailure, Tags};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

/// Returns a run's key and its row after a check. A changed row is
/// [`Damaged`](StoreError::Damaged).
pub(super) fn info(row: &Row) -> Result<(i64, RunInfo), Failure> {
    let (key, info) = unchecked(row)?;
    let sum = column(row, &info.id, "sum")?;
    Ok((key, info.checked(sum)?))
}

/// Decodes a row of a list, where damage must not hide other runs.
pub(super) fn listed(row: &Row) -> Result<Result<RunInfo, DamagedRun>, Failure> {
    match info(row) {
        Ok((_, info)) => Ok(Ok(info)),
        Err(Failure::Rejected(StoreError::Damaged { run, reason, .. })) => Ok(Err(DamagedRun { run, reason })),
        Err(failure) => Err(failure),
    }
}

/// Decodes a claimed run, with the time of the database.
pub(super) fn claim(row: &Row) -> Result<Claim, Failure> {
    Ok(Claim { run: info(row)?.1, now: Timestamp::from_millis(row.try_get("now")?) })
}

/// Returns a run's key and its row. Does not check the checksum.
pub(super) fn unchecked(row: &Row) -> Result<(i64, RunInfo), Failure> {
    let id: String = row.try_get("id")?;
    let number = |name| -> Result<u64, StoreError> {
        u64::try_from(column::<i64>(row, &id, name)?).map_err(|_| damaged(&id, "a number of the run's row is negative"))
    };
    let small = |name| -> Result<u32, StoreError> {
        u32::try_from(column::<i64>(row, &id, name)?).map_err(|_| damaged(&id, "a number of the run's row is out of range"))
    };
    let time = |name| -> Result<Option<Timestamp>, StoreError> {
        Ok(column::<Option<i64>>(row, &id, name)?.map(Timestamp::from_millis))
    };
    let status = RunStatus::parse(column(row, &id, "status")?).ok_or_else(|| damaged(&id, "its status is unknown"))?;
    let from = match column::<Option<String>>(row, &id, "from_run")? {
        Some(run) => Some(Origin { run, sequence: number("from_seq")? }),
        None => None,
    };
    let info = RunInfo {
        graph: column(row, &id, "graph")?,
        version: GraphVersion { fingerprint: column(row, &id, "fingerprint")?, schema: small("schema")? },
        instance: number("instance")?,
        status,
        epoch: number("epoch")?,
        head: number("head")?,
        oldest: number("oldest")?,
        owner: column(row, &id, "owner")?,
        lease_until: time("lease_until")?,
        wake_at: time("wake_at")?,
        takeovers: small("takeovers")?,
        trouble: column(row, &id, "trouble")?,
        deadline: time("deadline")?,
        last_message: number("posted")?,
        from,
        created: Timestamp::from_millis(column(row, &id, "created")?),
        changed: Timestamp::from_millis(column(row, &id, "changed")?),
        tags: Tags::of_stored(column::<Option<&str>>(row, &id, "tags")?)
            .ok_or_else(|| damaged(&id, "its tags cannot be read"))?,
        failure: RunFailure::of_stored(column(row, &id, "failure")?),
        id,
    };
    Ok((row.try_get("no")?, info))
}

/// Reads a column. An unreadable value is damage to this run, not a failure of the database.
fn column<'a, T: FromSql<'a>>(row: &'a Row, id: &str, name: &str) -> Result<T, StoreError> {
    row.try_get(name).map_err(|_| damaged(id, "a column of the run's row cannot be read"))
}

fn damaged(id: &str, reason: &'static str) -> StoreError {
    StoreError::Damaged { run: id.to_string(), sequence: 0, reason }
}
