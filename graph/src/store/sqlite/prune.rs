//! Removing rows of a log, runs that have ended, and single runs, within the batch's transaction.

use super::lease::{check_free, end_leases};
use super::read;
use super::writer::{Batch, Done};
use crate::store::Held;
use crate::store::error::StoreError;
use crate::store::limits::check_text;
use crate::store::retention::{EARLIEST, Neighbours, tell_untrue_ends};
use crate::store::time::{Timestamp, millis};
use rusqlite::{OptionalExtension as _, params};
use std::time::Duration;

/// Whether a run's end can be true: see `retention`, also for the minute. What is damaged may be of any type.
macro_rules! true_end {
    () => {
        "typeof(ended) = 'integer' AND typeof(created) = 'integer' AND ended >= created - 60000 AND status NOT IN ('running', 'waiting', 'stuck')"
    };
}

const PRUNE_ROWS: &str = "DELETE FROM log WHERE run = ?1 AND seq < ?2 AND seq NOT IN (SELECT value FROM json_each(?3))";
const PRUNE_INBOX: &str = "DELETE FROM inbox WHERE run = ?1 AND taken_seq < ?2 AND dedup IS NULL";
const PRUNED: &str = "UPDATE run SET oldest = ?2, sum = ?3 WHERE no = ?1";
/// The last end before a time and the first after it, each by the index.
const ENDS_AROUND: &str = concat!(
    "SELECT (SELECT max(ended) FROM run WHERE ended BETWEEN ?2 AND ?1 AND ",
    true_end!(),
    "), (SELECT min(ended) FROM run WHERE ended > ?1 AND ",
    true_end!(),
    ")"
);
/// Runs that ended so long ago, and that nobody holds.
macro_rules! removable {
    () => {
        concat!("ended BETWEEN ?3 AND ?1 AND ", true_end!(), " AND (holder IS NULL OR lease_end <= ?2)")
    };
}
const PRUNE_ENDED: &str =
    concat!("DELETE FROM run WHERE no IN (SELECT no FROM run WHERE ", removable!(), " ORDER BY ended, no LIMIT ?4)");
const PRUNE_ONE: &str = concat!("DELETE FROM run WHERE no = ?4 AND ", removable!());
const OLDEST_ENDED: &str = concat!(
    "SELECT no FROM run WHERE ",
    removable!(),
    " AND no NOT IN (SELECT value FROM json_each(?4)) ORDER BY ended, no LIMIT 1"
);
/// Old runs that stay because their ends cannot be true.
const UNTRUE_ENDS: &str = concat!("SELECT count(*) FROM run WHERE ended BETWEEN ?2 AND ?1 AND (", true_end!(), ") IS NOT TRUE");

const DELETE: &str = "DELETE FROM run WHERE no = ?1";

/// The last time at which a run may have ended that is to be removed.
fn last_end(batch: &Batch<'_>, unchanged_for: Duration) -> i64 {
    batch.now.wall.as_millis() - millis(unchanged_for)
}

/// Removes so many runs that have ended and were not changed for this long.
pub(super) fn prune_ended(batch: &Batch<'_>, unchanged_for: Duration, count: usize) -> Done<u64> {
    end_leases(batch, true)?;
    let (old, count) = (last_end(batch, unchanged_for), i64::try_from(count).unwrap_or(i64::MAX));
    let wanted = params![old, batch.now.lease, EARLIEST.as_millis(), count];
    let ends = ends_around(batch, old)?;
    let is_allowed = ends.allow_removal(store_name(batch));
    let removed = if is_allowed { batch.db.prepare_cached(PRUNE_ENDED)?.execute(wanted)? } else { 0 };
    // Once all others are gone, and not after each of many batches.
    if removed == 0 && ends.allow_ages() {
        let untrue = params![old, EARLIEST.as_millis()];
        let kept: i64 = batch.db.prepare_cached(UNTRUE_ENDS)?.query_row(untrue, |row| row.get(0))?;
        tell_untrue_ends(store_name(batch), kept as u64);
    }
    Ok(Ok(removed as u64))
}

/// The key of the next run that [`prune_ended`] would remove, except for these.
pub(super) fn oldest_ended(batch: &Batch<'_>, unchanged_for: Duration, except: &[i64]) -> Done<Option<i64>> {
    let old = last_end(batch, unchanged_for);
    if !ends_around(batch, old)?.allow_removal(store_name(batch)) {
        return Ok(Ok(None));
    }
    let except = format!("[{}]", except.iter().map(i64::to_string).collect::<Vec<_>>().join(","));
    let wanted = params![old, batch.now.lease, EARLIEST.as_millis(), except];
    Ok(Ok(batch.db.prepare_cached(OLDEST_ENDED)?.query_row(wanted, |row| row.get(0)).optional()?))
}

/// Removes one run, if it is still one that [`prune_ended`] would remove.
pub(super) fn prune_one(batch: &Batch<'_>, unchanged_for: Duration, key: i64) -> Done<bool> {
    let wanted = params![last_end(batch, unchanged_for), batch.now.lease, EARLIEST.as_millis(), key];
    Ok(Ok(batch.db.prepare_cached(PRUNE_ONE)?.execute(wanted)? == 1))
}

/// What tells whether runs that ended before this time are as old as they seem.
fn ends_around(batch: &Batch<'_>, old: i64) -> rusqlite::Result<Neighbours> {
    let time = |time: Option<i64>| time.map(Timestamp::from_millis);
    batch.db.prepare_cached(ENDS_AROUND)?.query_row(params![old, EARLIEST.as_millis()], |row| {
        Ok(Neighbours { now: batch.now.wall, last_old: time(row.get(0)?), first_young: time(row.get(1)?) })
    })
}

fn store_name<'a>(batch: &Batch<'a>) -> &'a str {
    batch.db.path().unwrap_or_default()
}

/// Removes rows of a log.
pub(super) fn prune_rows(batch: &Batch<'_>, held: &Held, before: u64, keep: &[u64]) -> Done<u64> {
    let mut run = match read::run(batch.db, batch.now, &held.run)? {
        Ok(run) if run.info.is_held_as(held) => run,
        Err(damaged @ StoreError::Damaged { .. }) => return Ok(Err(damaged)),
        _ => return Ok(Err(StoreError::Fenced { run: held.run.clone(), epoch: held.epoch })),
    };
    let before = before.min(run.info.head);
    run.info.oldest = run.info.oldest.max(before);
    let before = before as i64;
    let keep: Vec<String> = keep.iter().map(u64::to_string).collect();
    let kept = format!("[{}]", keep.join(","));
    let removed = batch.db.prepare_cached(PRUNE_ROWS)?.execute(params![run.key, before, kept])?;
    batch.db.prepare_cached(PRUNE_INBOX)?.execute(params![run.key, before])?;
    batch.db.prepare_cached(PRUNED)?.execute(params![run.key, run.info.oldest as i64, run.sum(batch.now)])?;
    Ok(Ok(removed as u64))
}

/// Also a run whose row is damaged can be deleted.
pub(super) fn delete(batch: &Batch<'_>, id: &str) -> Done<()> {
    if let Err(refused) = check_text("run id", id) {
        return Ok(Err(refused));
    }
    let run = match check_free(batch, id)? {
        Ok(Some(run)) => run,
        Ok(None) => return Ok(Err(StoreError::Unknown { run: id.to_string() })),
        Err(held) => return Ok(Err(held)),
    };
    batch.db.prepare_cached(DELETE)?.execute([run])?;
    Ok(Ok(()))
}
