//! Removes rows of a log, ended runs and single runs, with one writing statement each.

use super::fault::{Failure, TRIES_MAX};
use super::read::find;
use super::sql;
use crate::store::Held;
use crate::store::decide::check_free;
use crate::store::error::StoreError;
use crate::store::limits::check_text;
use crate::store::retention::{EARLIEST, Neighbours, log_wrong_ends};
use crate::store::time::{Timestamp, millis};
use deadpool_postgres::ClientWrapper;
use std::time::Duration;
use tokio_postgres::types::ToSql;

/// The name of this store in log lines.
const STORE: &str = "PostgreSQL";

/// Removes rows of a log, as [`Prune::Rows`](crate::store::Prune::Rows) describes.
pub(super) async fn prune_rows(client: &ClientWrapper, held: &Held, before: u64, keep: &[u64]) -> Result<u64, Failure> {
    let fenced = || Failure::from(StoreError::Fenced { run: held.run.clone(), epoch: held.epoch });
    // A run with a damaged row keeps all its rows.
    match find(client, &held.run).await {
        Ok(found) if found.info.is_held_as(held) => {}
        Err(Failure::Rejected(damaged @ StoreError::Damaged { .. })) => return Err(damaged.into()),
        Ok(_) | Err(Failure::Rejected(_)) => return Err(fenced()),
        Err(failure) => return Err(failure),
    }
    let before = i64::try_from(before).unwrap_or(i64::MAX);
    let keep: Vec<i64> = keep.iter().filter_map(|sequence| i64::try_from(*sequence).ok()).collect();
    let parameters: [&(dyn ToSql + Sync); 5] = [&held.run, &(held.instance as i64), &(held.epoch as i64), &before, &keep];
    let pruned = client.query_opt(&client.prepare_cached(&sql::PRUNE_ROWS).await?, &parameters).await?;
    let Some(pruned) = pruned else { return Err(fenced()) };
    Ok(pruned.try_get::<_, i64>(0)? as u64)
}

/// Removes up to `count` ended runs that have not changed for `unchanged_for`.
pub(super) async fn prune_ended(client: &ClientWrapper, unchanged_for: Duration, count: usize) -> Result<u64, Failure> {
    let earliest = EARLIEST.as_millis();
    let statement = client.prepare_cached(&sql::ENDS_AROUND).await?;
    let ends = client.query_one(&statement, &[&millis(unchanged_for), &earliest]).await?;
    let time = |column| Ok::<_, Failure>(ends.try_get::<_, Option<i64>>(column)?.map(Timestamp::from_millis));
    let now = ends.try_get::<_, i64>("now")?;
    let around =
        Neighbours { now: Timestamp::from_millis(now), last_old: time("last_old")?, first_young: time("first_young")? };
    let (before, mut removed) = (now - millis(unchanged_for), 0);
    if around.allow_removal(STORE) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let statement = client.prepare_cached(&sql::PRUNE_ENDED).await?;
        removed = client.execute(&statement, &[&before, &count, &earliest]).await?;
    }
    // Counts only after the last call, not after each of many.
    if removed == 0 && around.allow_ages() {
        let wrong = client.query_one(&client.prepare_cached(&sql::WRONG_ENDS).await?, &[&before, &earliest]).await?;
        log_wrong_ends(STORE, wrong.try_get::<_, i64>(0)? as u64);
    }
    Ok(removed)
}

/// Deletes a run that is not held. Works for a run with a damaged row too.
pub(super) async fn delete(client: &ClientWrapper, id: &str) -> Result<(), Failure> {
    check_text("run id", id)?;
    for _ in 0..TRIES_MAX {
        if client.execute(&client.prepare_cached(&sql::DELETE).await?, &[&id]).await? > 0 {
            return Ok(());
        }
        let Some(row) = client.query_opt(&client.prepare_cached(&sql::HOLDER).await?, &[&id]).await? else {
            return Err(StoreError::RunNotFound { run: id.to_string() }.into());
        };
        let until = row.try_get::<_, Option<i64>>("lease_until")?.map(Timestamp::from_millis);
        // If this succeeds, the lease has expired in the meantime: try again.
        check_free(id, row.try_get("owner")?, until, Timestamp::from_millis(row.try_get("now")?))?;
    }
    Err(Failure::Contended)
}
