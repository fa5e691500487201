//! What jobs do, within the batch's transaction. A refusal comes before the first change, except for a run that becomes stuck.

use super::read::{self, now};
use super::writer::Done;
use crate::store::decide::check_free;
use crate::store::limits::check_text;
use crate::store::time::millis;
use crate::store::{
    Claim, CommandPost, Commit, Committed, Held, Lease, NewRun, Post, PostKind, Prune, Row, RunInfo, StoreError, Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, params};
use std::collections::HashSet;
use std::time::Duration;

const CREATE: &str =
    "INSERT INTO run (id, graph, fingerprint, schema, status, epoch, head, oldest, owner, lease_until, wake_at, takeovers,
    posted, from_run, from_seq, created, changed, sum) VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, 1, ?7, ?8, ?9, 0, 0, ?10, ?11, ?12, ?12, ?13)";

const INSERT: &str = "INSERT INTO log (run, seq, sum, header, body) VALUES (?1, ?2, ?3, ?4, ?5)";

const FIND: &str = "SELECT no, posted, ended IS NOT NULL FROM run WHERE id = ?1";

/// SQLite has no XOR.
macro_rules! xor {
    ($one:expr, $other:expr) => {
        concat!("((", $one, " & ~", $other, ") | (~", $one, " & ", $other, "))")
    };
}

/// The fence, and all that a commit changes in the run's row if it only adds rows: no column of an index is touched. (`RETURNING` would spare `FIND`,
/// but makes a table for its answer each time.)
const ADVANCE: &str = concat!(
    "UPDATE run SET head = ?4, takeovers = 0, changed = CAST(round(unixepoch('subsec') * 1000) AS INTEGER), sum = ",
    xor!("sum", "?5"),
    " WHERE no = ?1 AND epoch = ?2 AND head = ?3 AND owner IS NOT NULL"
);

/// What a commit changes besides.
const SETTLE: &str =
    "UPDATE run SET status = ?2, wake_at = ?3, owner = ?4, lease_until = ?5, fingerprint = ?6, schema = ?7, changed = ?8,
    ended = iif(?9, ?8, NULL), sum = ?10 WHERE no = ?1";

const HAS_LANDED: &str = "SELECT run.posted FROM run JOIN log ON log.run = run.no AND log.seq = run.head
    WHERE run.id = ?1 AND run.epoch = ?2 AND run.head = ?3 AND log.header = ?4";

const KEEP_CLAIM: &str = "UPDATE run SET status = ?2, epoch = ?3, owner = ?4, lease_until = ?5, wake_at = ?6, takeovers = ?7, sum = ?8 WHERE no = ?1";

const READY: &str = "SELECT id, max(wake_at, ifnull(lease_until, wake_at)) AS due FROM run
    WHERE graph = ?1 AND fingerprint = ?2 AND wake_at IS NOT NULL AND due <= ?3 ORDER BY due, no LIMIT ?4";

const RENEW: &str = concat!(
    "UPDATE run SET lease_until = ?3, sum = ",
    xor!("sum", xor!("ifnull(lease_until, -1)", "?3")),
    " WHERE id = ?1 AND epoch = ?2 AND owner IS NOT NULL"
);
const GIVE_UP: &str = concat!(
    "UPDATE run SET owner = NULL, lease_until = NULL, sum = ",
    xor!("sum", xor!("ifnull(lease_until, -1)", "-1")),
    " WHERE id = ?1 AND epoch = ?2 AND owner IS NOT NULL"
);

const SAME_POST: &str = "SELECT n FROM inbox WHERE run = ?1 AND dedup = ?2";
const UNTAKEN: &str =
    "SELECT count(*) FROM inbox WHERE run = ?1 AND taken_seq IS NULL AND (substr(name, 1, 7) = 'answer/') = ?2
    AND name NOT IN ('command/pause', 'command/resume', 'command/cancel')";
const COMMANDS: &str = "SELECT n, name FROM inbox WHERE run = ?1 AND taken_seq IS NULL
    AND name IN ('command/pause', 'command/resume', 'command/cancel') ORDER BY n";
const REMOVE: &str = "DELETE FROM inbox WHERE run = ?1 AND n = ?2";
const POST: &str = "INSERT INTO inbox (run, n, at, name, dedup, sum, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const POSTED: &str = "UPDATE run SET posted = ?2, wake_at = ?3, sum = ?4 WHERE no = ?1";
const TAKE: &str = "UPDATE inbox SET taken_seq = ?3, payload = x'' WHERE run = ?1 AND n = ?2 AND taken_seq IS NULL";

const PRUNE_ROWS: &str = "DELETE FROM log WHERE run = ?1 AND seq < ?2 AND seq NOT IN (SELECT value FROM json_each(?3))";
const PRUNE_INBOX: &str = "DELETE FROM inbox WHERE run = ?1 AND taken_seq < ?2";
const PRUNED: &str = "UPDATE run SET oldest = ?2, sum = ?3 WHERE no = ?1";
const PRUNE_ENDED: &str = "DELETE FROM run WHERE no IN (SELECT no FROM run WHERE ended <= ?1
    AND (lease_until IS NULL OR lease_until <= ?2) ORDER BY ended, no LIMIT ?3)";

const HOLDER: &str = "SELECT no, owner, lease_until FROM run WHERE id = ?1";
const DELETE: &str = "DELETE FROM run WHERE no = ?1";

const SEAL: &str = "UPDATE run SET sum = ?2 WHERE no = ?1";

pub(super) fn create(db: &Connection, run: NewRun, rows: &[Row]) -> Done<Claim> {
    let now = now(db)?;
    if let Ok((_, info)) = read::run(db, &run.id)? {
        let same_owner = run.lease.as_ref().is_some_and(|lease| info.owner.as_ref() == Some(&lease.owner));
        let repeated = same_owner && has_landed(db, &run.id, 1, rows)?.is_some();
        return Ok(if repeated { Ok(Claim { run: info, now }) } else { Err(StoreError::Exists { run: run.id }) });
    }
    let info = RunInfo::new(run, rows.len() as u64, now);
    db.prepare_cached(CREATE)?.execute(params![
        info.id,
        info.graph,
        info.version.fingerprint,
        info.version.schema,
        info.status.as_str(),
        info.head as i64,
        info.owner,
        info.lease_until.map(Timestamp::as_millis),
        info.wake_at.map(Timestamp::as_millis),
        info.from.as_ref().map(|from| &from.run),
        info.from.as_ref().map(|from| from.sequence as i64),
        now.as_millis(),
        info.sum(),
    ])?;
    insert(db, db.last_insert_rowid(), rows)?;
    Ok(Ok(Claim { run: info, now }))
}

pub(super) fn commit(db: &Connection, commit: &Commit, head: u64) -> Done<Committed> {
    let new_head = head + commit.rows.len() as u64;
    let found = db.prepare_cached(FIND)?.query_row([&commit.run], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    let (run, posted, has_ended): (i64, i64, bool) = found.optional()?.unwrap_or_default();
    let settles = has_ended || commit.status.is_some() || commit.wake.is_some() || commit.release || commit.version.is_some();
    let before = match settles.then(|| read::run(db, &commit.run)).transpose()? {
        Some(Err(damaged @ StoreError::Damaged { .. })) => return Ok(Err(damaged)),
        before => before.and_then(Result::ok),
    };
    let moved = (head ^ new_head) as i64;
    if db.prepare_cached(ADVANCE)?.execute(params![run, commit.epoch as i64, head as i64, new_head as i64, moved])? == 0 {
        let landed = has_landed(db, &commit.run, commit.epoch, &commit.rows)?;
        return Ok(landed.ok_or_else(|| StoreError::Fenced { run: commit.run.clone(), epoch: commit.epoch }));
    }
    insert(db, run, &commit.rows)?;
    for number in &commit.takes {
        db.prepare_cached(TAKE)?.execute(params![run, i64::try_from(*number).unwrap_or(i64::MAX), new_head as i64])?;
    }
    if let Some((_, before)) = before {
        settle(db, run, commit, RunInfo { head: new_head, ..before })?;
    }
    Ok(Ok(Committed { posted: posted as u64 }))
}

fn settle(db: &Connection, run: i64, commit: &Commit, mut info: RunInfo) -> rusqlite::Result<()> {
    let now = now(db)?;
    info.settle(commit, now);
    if let Some(version) = &commit.version {
        info.version.clone_from(version);
    }
    if commit.release {
        info.release();
    }
    let settled = params![
        run,
        info.status.as_str(),
        info.wake_at.map(Timestamp::as_millis),
        info.owner,
        info.lease_until.map(Timestamp::as_millis),
        info.version.fingerprint,
        info.version.schema,
        now.as_millis(),
        info.status.has_ended(),
        info.sum(),
    ];
    db.prepare_cached(SETTLE)?.execute(settled).map(drop)
}

fn insert(db: &Connection, run: i64, rows: &[Row]) -> rusqlite::Result<()> {
    let mut statement = db.prepare_cached(INSERT)?;
    rows.iter()
        .try_for_each(|row| statement.execute(params![run, row.sequence as i64, row.sum, row.header, row.body]).map(drop))
}

/// Whether these rows are the last of the run, written under this epoch.
fn has_landed(db: &Connection, run: &str, epoch: u64, rows: &[Row]) -> rusqlite::Result<Option<Committed>> {
    let Some(last) = rows.last() else { return Ok(None) };
    let mut statement = db.prepare_cached(HAS_LANDED)?;
    let last = params![run, epoch as i64, last.sequence as i64, last.header];
    let posted = statement.query_row(last, |row| row.get::<_, i64>(0)).optional()?;
    Ok(posted.map(|posted| Committed { posted: posted as u64 }))
}

pub(super) fn claim_one(db: &Connection, run: &str, force: bool, lease: &Lease) -> Done<Vec<Claim>> {
    Ok(claim(db, run, force, lease, now(db)?)?.map(|claim| vec![claim]))
}

pub(super) fn claim_ready(db: &Connection, graphs: &[(String, String)], count: usize, lease: &Lease) -> Done<Vec<Claim>> {
    let now = now(db)?;
    let (mut claims, mut damaged) = (Vec::new(), HashSet::new());
    while claims.len() < count {
        let left = i64::try_from(count - claims.len() + damaged.len()).unwrap_or(i64::MAX);
        let mut due: Vec<(i64, String)> = Vec::new();
        for (graph, fingerprint) in graphs {
            let mut statement = db.prepare_cached(READY)?;
            let found = statement
                .query_map(params![graph, fingerprint, now.as_millis(), left], |row| Ok((row.get(1)?, row.get(0)?)))?;
            due.extend(found.collect::<rusqlite::Result<Vec<_>>>()?);
        }
        due.retain(|(_, run)| !damaged.contains(run));
        due.sort_unstable();
        due.dedup();
        if due.is_empty() {
            break;
        }
        // One that turns out to be stuck is no longer due: the next round finds others in its place.
        for (_, run) in due.into_iter().take(count - claims.len()) {
            match claim(db, &run, false, lease, now)? {
                Ok(claim) => claims.push(claim),
                Err(StoreError::Stuck { .. }) => {}
                // It is left alone, and does not keep others waiting. Whoever looks at it is told.
                Err(_) => drop(damaged.insert(run)),
            }
        }
    }
    Ok(Ok(claims))
}

fn claim(db: &Connection, id: &str, force: bool, lease: &Lease, now: Timestamp) -> Done<Claim> {
    let (run, mut info) = match read::run(db, id)? {
        Ok(run) => run,
        Err(refused) => return Ok(Err(refused)),
    };
    let claimed = info.claim(lease, force, now);
    if !matches!(claimed, Err(StoreError::Held { .. })) {
        db.prepare_cached(KEEP_CLAIM)?.execute(params![
            run,
            info.status.as_str(),
            info.epoch as i64,
            info.owner,
            info.lease_until.map(Timestamp::as_millis),
            info.wake_at.map(Timestamp::as_millis),
            info.takeovers,
            info.sum(),
        ])?;
    }
    Ok(claimed.map(|()| Claim { run: info, now }))
}

pub(super) fn renew(db: &Connection, held: Vec<Held>, lease: Duration) -> Done<Vec<Held>> {
    let until = now(db)?.after(lease).as_millis();
    let mut lost = Vec::new();
    for one in held {
        let epoch = i64::try_from(one.epoch).unwrap_or(i64::MAX);
        let changed = match lease.is_zero() {
            true => db.prepare_cached(GIVE_UP)?.execute(params![one.run, epoch])?,
            false => db.prepare_cached(RENEW)?.execute(params![one.run, epoch, until])?,
        };
        if changed == 0 {
            lost.push(one);
        }
    }
    Ok(Ok(lost))
}

/// The commands that nobody took.
fn commands(db: &Connection, run: i64) -> rusqlite::Result<Vec<(u64, String)>> {
    let mut statement = db.prepare_cached(COMMANDS)?;
    let commands = statement.query_map([run], |row| Ok((row.get::<_, i64>(0)? as u64, row.get(1)?)))?;
    commands.collect()
}

pub(super) fn post(db: &Connection, id: &str, post: &Post) -> Done<u64> {
    let (run, mut info) = match read::run(db, id)? {
        Ok(run) => run,
        Err(refused) => return Ok(Err(refused)),
    };
    if let Some(dedup) = &post.dedup
        && let Some(first) =
            db.prepare_cached(SAME_POST)?.query_row(params![run, dedup], |row| row.get::<_, i64>(0)).optional()?
    {
        return Ok(Ok(first as u64));
    }
    let now = now(db)?;
    if let Err(refused) = info.check_open() {
        return Ok(Err(refused));
    }
    if post.kind() == PostKind::Command {
        match post.among(&commands(db, run)?) {
            CommandPost::Known(number) => return Ok(Ok(number)),
            CommandPost::Instead(others) => {
                for number in others {
                    db.prepare_cached(REMOVE)?.execute(params![run, number as i64])?;
                }
            }
        }
    } else {
        let is_answer = post.kind() == PostKind::Answer;
        let untaken: i64 = db.prepare_cached(UNTAKEN)?.query_row(params![run, is_answer], |row| row.get(0))?;
        if let Err(full) = info.check_room(untaken as usize) {
            return Ok(Err(full));
        }
    }
    if let Err(refused) = info.post(now) {
        return Ok(Err(refused));
    }
    let number = info.posted as i64;
    db.prepare_cached(POSTED)?.execute(params![run, number, info.wake_at.map(Timestamp::as_millis), info.sum()])?;
    db.prepare_cached(POST)?.execute(params![run, number, now.as_millis(), post.name, post.dedup, post.sum, post.payload])?;
    Ok(Ok(info.posted))
}

pub(super) fn prune(db: &Connection, prune: Prune) -> Done<u64> {
    let removed = match prune {
        Prune::Rows { held: Held { run: id, epoch }, before, keep } => {
            let (run, mut info) = match read::run(db, &id)? {
                Ok((run, info)) if info.is_held_with(epoch) => (run, info),
                Err(damaged @ StoreError::Damaged { .. }) => return Ok(Err(damaged)),
                _ => return Ok(Err(StoreError::Fenced { run: id, epoch })),
            };
            let before = before.min(info.head);
            info.oldest = info.oldest.max(before);
            let before = before as i64;
            let keep: Vec<String> = keep.iter().map(u64::to_string).collect();
            let removed = db.prepare_cached(PRUNE_ROWS)?.execute(params![run, before, format!("[{}]", keep.join(","))])?;
            db.prepare_cached(PRUNE_INBOX)?.execute(params![run, before])?;
            db.prepare_cached(PRUNED)?.execute(params![run, info.oldest as i64, info.sum()])?;
            removed
        }
        Prune::Ended { unchanged_for, count } => {
            let now = now(db)?.as_millis();
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            db.prepare_cached(PRUNE_ENDED)?.execute(params![now - millis(unchanged_for), now, count])?
        }
    };
    Ok(Ok(removed as u64))
}

/// Also a run whose row is damaged can be deleted.
pub(super) fn delete(db: &Connection, id: &str) -> Done<()> {
    if let Err(refused) = check_text("run id", id) {
        return Ok(Err(refused));
    }
    let holder = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let found: Option<(i64, Option<String>, Option<i64>)> = db.prepare_cached(HOLDER)?.query_row([id], holder).optional()?;
    let Some((run, owner, until)) = found else { return Ok(Err(StoreError::Unknown { run: id.to_string() })) };
    if let Err(held) = check_free(id, owner.as_deref(), until.map(Timestamp::from_millis), now(db)?) {
        return Ok(Err(held));
    }
    db.prepare_cached(DELETE)?.execute([run])?;
    Ok(Ok(()))
}

/// Gives the rows of all runs the checksums that an earlier format had not.
pub(super) fn seal_runs(db: &Connection) -> rusqlite::Result<()> {
    let mut statement = db.prepare(SEAL)?;
    read::sums(db)?.into_iter().try_for_each(|(run, sum)| statement.execute([run, sum]).map(drop))
}
