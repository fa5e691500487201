//! The jobs for leases: claim, renew, release, and marking expired leases.
//!
//! A lease ends by its time, or with its holder. Each claim of ready runs looks for both cases and
//! marks the expired leases: it sets `holder` to NULL, which adds the run to the index of due runs.
//! A run that was due before its lease expired is due from the expiry on, so that the run that has
//! been due longest comes first.

use super::clock::{Now, shown_wake, stored_due};
use super::database::{Done, WriteTransaction};
use super::read::{self, Run};
use super::write::{damaged_run, is_constraint, save_run};
use crate::store::error::StoreError;
use crate::store::run_info::GraphVersion;
use crate::store::time::Timestamp;
use crate::store::{Claim, Held, Lease, Release, Renewed};
use rusqlite::types::ValueRef;
use rusqlite::{OptionalExtension as _, params};
use std::collections::HashSet;
use std::time::Duration;

/// Selects runs with a wake time in a range. Runs that were due when they were written and runs
/// that became due later are two ranges, each in order.
const READY: &str = "SELECT no, wake_at FROM run WHERE graph = ?1 AND fingerprint = ?2 AND schema = ?3 AND wake_at IS NOT NULL
    AND holder IS NULL AND wake_at BETWEEN ?4 AND ?5 ORDER BY wake_at, no LIMIT ?6";

/// Finds the next holder by name, as bytes, because a damaged name may not be text.
const NEXT_HOLDER: &str = "SELECT CAST(min(holder) AS BLOB) FROM run WHERE holder > CAST(?1 AS TEXT)";

const EXPIRED: &str = "SELECT no, lease_end, wake_at, sum FROM run WHERE holder = CAST(?1 AS TEXT) AND lease_end <= ?2";
const MARK_EXPIRED: &str = "UPDATE run SET holder = NULL, lease_end = ?2, wake_at = ?3, sum = ?4 WHERE no = ?1";

const RENEW: &str = concat!(
    "UPDATE run SET lease_end = ?4, holder = ?5, sum = ",
    xor!("sum", xor!("ifnull(lease_end, -1)", "?4")),
    " WHERE id = ?1 AND instance = ?2 AND epoch = ?3 AND owner IS NOT NULL"
);
const RELEASE: &str = concat!(
    "UPDATE run SET owner = NULL, lease_end = NULL, holder = NULL, sum = ",
    xor!("sum", xor!("ifnull(lease_end, -1)", "-1")),
    " WHERE id = ?1 AND instance = ?2 AND epoch = ?3 AND owner IS NOT NULL"
);

/// The statements of claims, for tests that count their work.
#[cfg(test)]
pub(super) const COUNTED: [&str; 4] = [READY, NEXT_HOLDER, EXPIRED, MARK_EXPIRED];

/// Claims one run by its id.
pub(super) fn claim_one(batch: &WriteTransaction<'_>, run: &str, force: bool, lease: &Lease) -> Done<Vec<Claim>> {
    let run = match read::run(batch.db, batch.now, run)? {
        Ok(run) => run,
        Err(rejected) => return Ok(Err(rejected)),
    };
    Ok(claim(batch, run, force, lease)?.map(|claim| vec![claim]))
}

/// Claims up to `count` ready runs. Damaged runs are skipped.
pub(super) fn claim_ready(
    batch: &WriteTransaction<'_>,
    graphs: &[(String, GraphVersion)],
    count: usize,
    lease: &Lease,
) -> Done<Vec<Claim>> {
    mark_expired_leases(batch, batch.holders.is_check_due())?;
    let (mut claims, mut damaged) = (Vec::new(), HashSet::new());
    while claims.len() < count {
        let mut due = due_runs(batch, graphs, (count - claims.len()).saturating_add(damaged.len()))?;
        due.retain(|run| !damaged.contains(run));
        if due.is_empty() {
            break;
        }
        // A run that becomes stuck is no longer due: the next round finds another one.
        for key in due.into_iter().take(count - claims.len()) {
            let claimed = match read::run_by_key(batch.db, batch.now, key)? {
                Ok(run) => claim(batch, run, false, lease)?,
                Err(rejected) => Err(rejected),
            };
            match claimed {
                Ok(claim) => claims.push(claim),
                Err(StoreError::Stuck { .. }) => {}
                // A damaged run must not delay others. The damage is reported to callers that read
                // the run.
                Err(_) => drop(damaged.insert(key)),
            }
        }
    }
    Ok(Ok(claims))
}

/// Returns the keys of up to `count` due runs of these graphs, the longest due first.
fn due_runs(batch: &WriteTransaction<'_>, graphs: &[(String, GraphVersion)], count: usize) -> rusqlite::Result<Vec<i64>> {
    let (count, wall) = (i64::try_from(count).unwrap_or(i64::MAX), batch.now.wall);
    let mut due: Vec<(Timestamp, i64)> = Vec::new();
    for ((graph, version), range) in graphs.iter().flat_map(|graph| [(graph, (i64::MIN, -1)), (graph, (0, wall.as_millis()))]) {
        let mut statement = batch.db.prepare_cached(READY)?;
        let wanted = params![graph, version.fingerprint, version.schema, range.0, range.1, count];
        let found = statement.query_map(wanted, |row| Ok((shown_wake(row.get_ref(1)?.as_i64().unwrap_or(0)), row.get(0)?)))?;
        due.extend(found.collect::<rusqlite::Result<Vec<_>>>()?);
    }
    due.sort_unstable();
    // The caller may have named a graph twice.
    due.dedup();
    Ok(due.into_iter().map(|(_, key)| key).collect())
}

fn claim(batch: &WriteTransaction<'_>, mut run: Run, force: bool, lease: &Lease) -> Done<Claim> {
    expire_if_unheld(batch, &mut run);
    let claimed = run.info.claim(lease, force, batch.now.wall);
    if !matches!(claimed, Err(StoreError::Held { .. })) {
        run.holder = run.info.owner.as_ref().map(|_| batch.holders.name(batch.now).into_owned());
        match save_run(batch, &run) {
            Err(error) if is_constraint(&error) => return Ok(Err(damaged_run(&run.info.id))),
            saved => drop(saved?),
        }
    }
    Ok(claimed.map(|()| Claim { run: run.info, now: batch.now.wall }))
}

/// Expires a lease in memory if its holder is dead or the lease is marked as expired. The end of a
/// marked lease can be a reading of the lease clock before a reboot.
fn expire_if_unheld(batch: &WriteTransaction<'_>, run: &mut Run) {
    let is_leased = run.info.lease_until.is_some_and(|until| until > batch.now.wall);
    if is_leased && run.holder.as_ref().is_none_or(|holder| batch.holders.is_dead(holder.as_bytes(), batch.now)) {
        run.info.lease_until = Some(batch.now.wall);
    }
}

/// Marks leases that have expired by time, and with `check_holders` also the leases of dead
/// holders.
pub(super) fn mark_expired_leases(batch: &WriteTransaction<'_>, check_holders: bool) -> rusqlite::Result<()> {
    let mut holder: Vec<u8> = Vec::new();
    loop {
        let next = batch.db.prepare_cached(NEXT_HOLDER)?.query_row([&holder], |row| row.get::<_, Option<Vec<u8>>>(0))?;
        let Some(next) = next else { return Ok(()) };
        if next == holder {
            // A damaged name that is not text sorts after all texts and is found again. All names
            // before it are done.
            return Ok(());
        }
        let is_dead = check_holders && batch.holders.is_dead(&next, batch.now);
        mark_expired_leases_of(batch, &next, if is_dead { i64::MAX } else { batch.now.lease })?;
        holder = next;
    }
}

/// Marks the leases of one holder that end at `end_max` or earlier.
fn mark_expired_leases_of(batch: &WriteTransaction<'_>, holder: &[u8], end_max: i64) -> rusqlite::Result<()> {
    let Now { wall, lease } = batch.now;
    let mut statement = batch.db.prepare_cached(EXPIRED)?;
    let mut expired: Vec<(i64, i64, Option<i64>, i64)> = Vec::new();
    let mut rows = statement.query(params![holder, end_max])?;
    while let Some(row) = rows.next()? {
        let columns = || Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
        match columns() {
            // A run with a damaged row cannot be claimed, so its lease has no effect.
            Err(error) if read::is_conversion(&error) => {}
            columns => expired.push(columns?),
        }
    }
    for (key, lease_end, wake_at, sum) in expired {
        let end = lease_end.min(lease);
        let expired_at = batch.now.shown(end).min(wall);
        // A wake time in the future stays unchanged.
        let is_due = |at: i64| at < 0 || shown_wake(at) <= wall;
        let wake = wake_at.map(|at| if is_due(at) { stored_due(shown_wake(at).max(expired_at)) } else { at });
        let changed = lease_end ^ end ^ wake_at.unwrap_or(0) ^ wake.unwrap_or(0);
        match batch.db.prepare_cached(MARK_EXPIRED)?.execute(params![key, end, wake, sum ^ changed]) {
            Err(error) if is_constraint(&error) => {}
            marked => drop(marked?),
        }
    }
    Ok(())
}

/// Renews leases, including expired ones that no other owner has claimed.
pub(super) fn renew(batch: &WriteTransaction<'_>, held: Vec<Held>, lease: Duration) -> Done<Renewed> {
    let lease_end = batch.now.stored(batch.now.wall.after(lease));
    let holder = batch.holders.name(batch.now);
    let mut statement = batch.db.prepare_cached(RENEW)?;
    let lost =
        change_each(held, |one, instance, epoch| statement.execute(params![one.run, instance, epoch, lease_end, holder]))?;
    Ok(Ok(Renewed { lost, busy: Vec::new(), now: batch.now.wall }))
}

/// Releases runs. Returns the runs that the caller did not hold.
pub(super) fn release(batch: &WriteTransaction<'_>, held: Vec<Held>, how: &Release) -> Done<Vec<Held>> {
    let mut statement = batch.db.prepare_cached(RELEASE)?;
    let lost = change_each(held, |one, instance, epoch| {
        if *how != Release::AsIs
            && let Ok(mut run) = read::run(batch.db, batch.now, &one.run)?
        {
            if !run.info.is_held_as(one) {
                return Ok(0);
            }
            run.info.apply_release(how, batch.now.wall);
            run.holder = None;
            return save_run(batch, &run);
        }
        // This statement updates the checksum without confirming the other columns, so it is safe
        // for a damaged row.
        statement.execute(params![one.run, instance, epoch])
    })?;
    Ok(Ok(lost))
}

/// Calls `change` for each run, and returns the runs for which it changed no row.
fn change_each(
    held: Vec<Held>,
    mut change: impl FnMut(&Held, i64, i64) -> rusqlite::Result<usize>,
) -> rusqlite::Result<Vec<Held>> {
    let mut lost = Vec::new();
    for one in held {
        let changed = match (i64::try_from(one.instance), i64::try_from(one.epoch)) {
            (Ok(instance), Ok(epoch)) => match change(&one, instance, epoch) {
                // A row with a value of the wrong type cannot be updated. The next commit reports
                // the damage to the driver.
                Err(error) if is_constraint(&error) => 1,
                changed => changed?,
            },
            _ => 0,
        };
        if changed == 0 {
            lost.push(one);
        }
    }
    Ok(lost)
}

/// Returns the key of a run, or fails if the run is held. An unreadable lease does not hold a run.
pub(super) fn check_free(batch: &WriteTransaction<'_>, id: &str) -> Done<Option<i64>> {
    const HOLDER: &str = "SELECT no, owner, lease_end, holder FROM run WHERE id = ?1";
    let found = batch.db.prepare_cached(HOLDER)?.query_row([id], |row| {
        let owner = row.get::<_, Option<String>>(1).unwrap_or_default();
        let until = row.get_ref(2)?.as_i64().ok().map(|end| batch.now.shown(end));
        let holder = row.get_ref(3)?;
        // A lease without a holder is marked as expired.
        let is_over =
            holder == ValueRef::Null || holder.as_bytes().is_ok_and(|holder| batch.holders.is_dead(holder, batch.now));
        Ok((row.get(0)?, owner, until.filter(|_| !is_over)))
    });
    let Some((key, owner, until)) = found.optional()? else { return Ok(Ok(None)) };
    Ok(crate::store::decide::check_free(id, owner.as_deref(), until, batch.now.wall).map(|()| Some(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c15_claims_read_only_due_runs() {
        let db = rusqlite::Connection::open_in_memory().unwrap();
        db.execute_batch(super::super::schema::TABLES).unwrap();
        let plan = |query: &str, count: usize| -> Vec<String> {
            let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
            let steps = statement.query_map(rusqlite::params_from_iter(vec![None::<i64>; count]), |row| row.get(3)).unwrap();
            steps.collect::<rusqlite::Result<_>>().unwrap()
        };
        // Nothing is sorted, so the number of rows read equals the number of runs claimed.
        let due = plan(READY, 6);
        let is_range = due[0].starts_with("SEARCH run USING INDEX run_due (graph=? AND fingerprint=? AND schema=? AND wake_at");
        assert!(due.len() == 1 && is_range, "{due:?}");
        assert_eq!(plan(NEXT_HOLDER, 1), ["SEARCH run USING COVERING INDEX run_leased (holder>?)"]);
        assert_eq!(plan(EXPIRED, 2), ["SEARCH run USING INDEX run_leased (holder=? AND lease_end<?)"]);
    }
}
