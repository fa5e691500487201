//! Removes rows of a log, ended runs and single runs, within the transaction of the batch.

use super::database::{Done, WriteTransaction};
use super::lease::{check_free, mark_expired_leases};
use super::read;
use crate::store::Held;
use crate::store::error::StoreError;
use crate::store::limits::check_text;
use crate::store::retention::{EARLIEST, Neighbours, log_wrong_ends};
use crate::store::time::{Timestamp, millis};
use rusqlite::{OptionalExtension as _, params};
use std::time::Duration;

/// The SQL condition that the end of a run is plausible; `retention` explains it, and the 60
/// seconds. Damaged columns can have any type.
macro_rules! plausible_end {
    () => {
        "typeof(ended) = 'integer' AND typeof(created) = 'integer' AND ended >= created - 60000 AND status NOT IN ('running', 'waiting', 'stuck')"
    };
}

const PRUNE_ROWS: &str = "DELETE FROM log WHERE run = ?1 AND seq < ?2 AND seq NOT IN (SELECT value FROM json_each(?3))";
const PRUNE_INBOX: &str = "DELETE FROM inbox WHERE run = ?1 AND taken_seq < ?2 AND dedup IS NULL AND refused IS NULL";
const UPDATE_OLDEST: &str = "UPDATE run SET oldest = ?2, sum = ?3 WHERE no = ?1";
/// The last end before a time and the first end after it. Both use the index.
const ENDS_AROUND: &str = concat!(
    "SELECT (SELECT max(ended) FROM run WHERE ended BETWEEN ?2 AND ?1 AND ",
    plausible_end!(),
    "), (SELECT min(ended) FROM run WHERE ended > ?1 AND ",
    plausible_end!(),
    ")"
);
/// The SQL condition that a run ended long enough ago and is not held.
macro_rules! removable {
    () => {
        concat!("ended BETWEEN ?3 AND ?1 AND ", plausible_end!(), " AND (holder IS NULL OR lease_end <= ?2)")
    };
}
const PRUNE_ENDED: &str =
    concat!("DELETE FROM run WHERE no IN (SELECT no FROM run WHERE ", removable!(), " ORDER BY ended, no LIMIT ?4)");
const PRUNE_ONE: &str = concat!("DELETE FROM run WHERE no = ?4 AND ", removable!());
const OLDEST_ENDED: &str = concat!(
    "SELECT no, id FROM run WHERE ",
    removable!(),
    " AND no NOT IN (SELECT value FROM json_each(?4)) ORDER BY ended, no LIMIT 1"
);
/// Counts old runs that stay because their ends are not plausible.
const WRONG_ENDS: &str =
    concat!("SELECT count(*) FROM run WHERE ended BETWEEN ?2 AND ?1 AND (", plausible_end!(), ") IS NOT TRUE");

const DELETE: &str = "DELETE FROM run WHERE no = ?1";

/// Returns the latest end of a run that may be removed.
fn last_end(batch: &WriteTransaction<'_>, unchanged_for: Duration) -> i64 {
    batch.now.wall.as_millis() - millis(unchanged_for)
}

/// Removes up to `count` ended runs that have not changed for `unchanged_for`.
pub(super) fn prune_ended(batch: &WriteTransaction<'_>, unchanged_for: Duration, count: usize) -> Done<u64> {
    mark_expired_leases(batch, true)?;
    let (old, count) = (last_end(batch, unchanged_for), i64::try_from(count).unwrap_or(i64::MAX));
    let wanted = params![old, batch.now.lease, EARLIEST.as_millis(), count];
    let ends = ends_around(batch, old)?;
    let is_allowed = ends.allow_removal(store_name(batch));
    let removed = if is_allowed { batch.db.prepare_cached(PRUNE_ENDED)?.execute(wanted)? } else { 0 };
    // Counts only after the last batch, not after each of many.
    if removed == 0 && ends.allow_ages() {
        let wrong = params![old, EARLIEST.as_millis()];
        let count: i64 = batch.db.prepare_cached(WRONG_ENDS)?.query_row(wrong, |row| row.get(0))?;
        log_wrong_ends(store_name(batch), count as u64);
    }
    Ok(Ok(removed as u64))
}

/// Returns the key and the id of the next run that [`prune_ended`] would remove, except the given
/// ones.
pub(super) fn oldest_ended(
    batch: &WriteTransaction<'_>,
    unchanged_for: Duration,
    except: &[i64],
) -> Done<Option<(i64, String)>> {
    let old = last_end(batch, unchanged_for);
    if !ends_around(batch, old)?.allow_removal(store_name(batch)) {
        return Ok(Ok(None));
    }
    let except = format!("[{}]", except.iter().map(i64::to_string).collect::<Vec<_>>().join(","));
    let wanted = params![old, batch.now.lease, EARLIEST.as_millis(), except];
    let oldest =
        batch.db.prepare_cached(OLDEST_ENDED)?.query_row(wanted, |row| Ok((row.get(0)?, read::text(row, 1)?))).optional();
    Ok(Ok(oldest?))
}

/// Removes one run, if [`prune_ended`] would still remove it.
pub(super) fn prune_one(batch: &WriteTransaction<'_>, unchanged_for: Duration, key: i64) -> Done<bool> {
    let wanted = params![last_end(batch, unchanged_for), batch.now.lease, EARLIEST.as_millis(), key];
    Ok(Ok(batch.db.prepare_cached(PRUNE_ONE)?.execute(wanted)? == 1))
}

/// Reads the recorded ends on both sides of the age limit `old`.
fn ends_around(batch: &WriteTransaction<'_>, old: i64) -> rusqlite::Result<Neighbours> {
    let time = |time: Option<i64>| time.map(Timestamp::from_millis);
    batch.db.prepare_cached(ENDS_AROUND)?.query_row(params![old, EARLIEST.as_millis()], |row| {
        Ok(Neighbours { now: batch.now.wall, last_old: time(row.get(0)?), first_young: time(row.get(1)?) })
    })
}

fn store_name<'a>(batch: &WriteTransaction<'a>) -> &'a str {
    batch.db.path().unwrap_or_default()
}

/// Removes rows of a log, as [`Prune::Rows`](crate::store::Prune::Rows) describes.
pub(super) fn prune_rows(batch: &WriteTransaction<'_>, held: &Held, before: u64, keep: &[u64]) -> Done<u64> {
    let mut run = match read::run(batch.db, batch.now, &held.run)? {
        Ok(run) if run.info.is_held_as(held) => run,
        Err(damaged @ StoreError::Damaged { .. }) => return Ok(Err(damaged)),
        _ => return Ok(Err(StoreError::Fenced { run: held.run.clone(), epoch: held.epoch })),
    };
    let before = before.min(run.info.head);
    run.info.oldest = run.info.oldest.max(before);
    let before = before as i64;
    let keep: Vec<String> = keep.iter().map(u64::to_string).collect();
    let keep = format!("[{}]", keep.join(","));
    let removed = batch.db.prepare_cached(PRUNE_ROWS)?.execute(params![run.key, before, keep])?;
    batch.db.prepare_cached(PRUNE_INBOX)?.execute(params![run.key, before])?;
    batch.db.prepare_cached(UPDATE_OLDEST)?.execute(params![run.key, run.info.oldest as i64, run.sum(batch.now)])?;
    Ok(Ok(removed as u64))
}

/// Deletes a run that is not held. Works for a run with a damaged row too.
pub(super) fn delete(batch: &WriteTransaction<'_>, id: &str) -> Done<()> {
    if let Err(rejected) = check_text("run id", id) {
        return Ok(Err(rejected));
    }
    let run = match check_free(batch, id)? {
        Ok(Some(run)) => run,
        Ok(None) => return Ok(Err(StoreError::RunNotFound { run: id.to_string() })),
        Err(held) => return Ok(Err(held)),
    };
    batch.db.prepare_cached(DELETE)?.execute([run])?;
    Ok(Ok(()))
}
