//! What jobs do, within the batch's transaction. A refusal comes before the first change, except for a run that becomes stuck.

use super::lease::{check_free, end_leases};
use super::read::{self, MIN_DEADLINE, Run};
use super::writer::{Batch, Done};
use crate::store::limits::check_text;
use crate::store::post_kind::STRAY_MESSAGE;
use crate::store::retention::{EARLIEST, Neighbours};
use crate::store::row::STRAY_ROW;
use crate::store::time::millis;
use crate::store::{
    Claim, CommandPost, Commit, Committed, Held, NewRun, Post, PostKind, Prune, Row, RunInfo, StoreError, Timestamp,
};
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, named_params, params};

const CREATE: &str = "INSERT INTO run (id, graph, fingerprint, schema, status, epoch, head, oldest, owner, lease_end, holder, wake_at,
    takeovers, posted, from_run, from_seq, created, changed, instance, deadline, sum)
    VALUES (:id, :graph, :fingerprint, :schema, :status, 1, :head, 1, :owner, :lease_end, :holder, :wake_at, 0, 0, :from_run, :from_seq,
    :now, :now, :instance, :deadline, :sum)";

/// All that claims and releases may change.
const KEEP: &str = "UPDATE run SET status = :status, epoch = :epoch, owner = :owner, lease_end = :lease_end, holder = :holder,
    wake_at = :wake_at, takeovers = :takeovers, trouble = :trouble, deadline = :deadline, fingerprint = :fingerprint, schema = :schema,
    changed = :changed, ended = iif(:has_ended, :changed, NULL), sum = :sum WHERE no = :no";

/// What a commit with more than rows changes if the run stays with its holder: the index of leases is not touched.
const SETTLE: &str =
    "UPDATE run SET status = ?2, wake_at = ?3, deadline = ?4, fingerprint = ?5, schema = ?6, ended = iif(?7, ?8, NULL),
    sum = ?9 WHERE no = ?1";

const INSERT: &str = "INSERT INTO log (run, seq, sum, header, body) VALUES (?1, ?2, ?3, ?4, ?5)";

const FIND: &str = "SELECT no, posted, ended IS NOT NULL FROM run WHERE id = ?1";

/// The fence, and all that a commit changes in the run's row if it only adds rows: no column of an index is touched. (`RETURNING` would spare `FIND`,
/// but makes a table for its answer each time.)
const ADVANCE: &str = concat!(
    "UPDATE run SET head = ?4, takeovers = 0, trouble = NULL, changed = ?6, sum = ",
    xor!("sum", "?5"),
    " WHERE no = ?1 AND epoch = ?2 AND head = ?3 AND instance = ?7 AND owner IS NOT NULL"
);

/// Takes `ADVANCE` back.
const RETREAT: &str = concat!("UPDATE run SET head = ?2, sum = ", xor!("sum", "?3"), " WHERE no = ?1");
const REMOVE_ROWS: &str = "DELETE FROM log WHERE run = ?1 AND seq BETWEEN ?2 AND ?3";

const HAS_LANDED: &str = "SELECT run.posted FROM run JOIN log ON log.run = run.no AND log.seq = run.head
    WHERE run.id = ?1 AND run.instance = ?2 AND run.epoch = ?3 AND run.head = ?4 AND log.header = ?5";

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
const PRUNE_INBOX: &str = "DELETE FROM inbox WHERE run = ?1 AND taken_seq < ?2 AND dedup IS NULL";
const PRUNED: &str = "UPDATE run SET oldest = ?2, sum = ?3 WHERE no = ?1";
/// The last end before a time and the first after it, each by the index.
const ENDS_AROUND: &str =
    "SELECT (SELECT max(ended) FROM run WHERE ended BETWEEN ?2 AND ?1), (SELECT min(ended) FROM run WHERE ended > ?1)";
const PRUNE_ENDED: &str = "DELETE FROM run WHERE no IN (SELECT no FROM run WHERE ended BETWEEN ?4 AND ?1
    AND (holder IS NULL OR lease_end <= ?2) ORDER BY ended, no LIMIT ?3)";

const DELETE: &str = "DELETE FROM run WHERE no = ?1";

pub(super) fn create(batch: &Batch<'_>, new: NewRun, rows: &[Row]) -> Done<Claim> {
    let now = batch.now.wall;
    match read::run(batch.db, batch.now, &new.id)? {
        Err(StoreError::Unknown { .. }) => {}
        Err(refused) => return Ok(Err(refused)),
        Ok(Run { info, .. }) => {
            let same_owner = new.lease.as_ref().is_some_and(|lease| info.owner.as_ref() == Some(&lease.owner));
            let repeated = same_owner && has_landed(batch.db, &Held { epoch: 1, ..Held::of(&info) }, rows)?.is_some();
            let is_same = repeated && info.instance == new.instance;
            return Ok(if is_same { Ok(Claim { run: info, now }) } else { Err(StoreError::Exists { run: new.id }) });
        }
    }
    let info = RunInfo::new(new, rows.len() as u64, now);
    let holder = info.owner.as_ref().map(|_| batch.holders.name().to_string());
    let run = Run { key: 0, info, holder, read_wake: None };
    let info = &run.info;
    batch.db.prepare_cached(CREATE)?.execute(named_params! {
        ":id": info.id,
        ":graph": info.graph,
        ":fingerprint": info.version.fingerprint,
        ":schema": info.version.schema,
        ":status": info.status.as_str(),
        ":head": info.head as i64,
        ":owner": info.owner,
        ":lease_end": run.lease_end(batch.now),
        ":holder": run.holder,
        ":wake_at": run.wake_at(batch.now),
        ":from_run": info.from.as_ref().map(|from| &from.run),
        ":from_seq": info.from.as_ref().map(|from| from.sequence as i64),
        ":now": now.as_millis(),
        ":instance": info.instance as i64,
        ":deadline": info.deadline.map(Timestamp::as_millis),
        ":sum": run.sum(batch.now),
    })?;
    insert(batch.db, batch.db.last_insert_rowid(), rows)?;
    Ok(Ok(Claim { run: run.info, now }))
}

/// Writes down what a claim, a release or a commit has made of a run's row.
pub(super) fn keep(batch: &Batch<'_>, run: &Run) -> rusqlite::Result<usize> {
    let info = &run.info;
    batch.db.prepare_cached(KEEP)?.execute(named_params! {
        ":no": run.key,
        ":status": info.status.as_str(),
        ":epoch": info.epoch as i64,
        ":owner": info.owner,
        ":lease_end": run.lease_end(batch.now),
        ":holder": run.holder,
        ":wake_at": run.wake_at(batch.now),
        ":takeovers": info.takeovers,
        ":trouble": info.trouble,
        ":deadline": info.deadline.map(Timestamp::as_millis),
        ":fingerprint": info.version.fingerprint,
        ":schema": info.version.schema,
        ":changed": info.changed.as_millis(),
        ":has_ended": info.status.has_ended(),
        ":sum": run.sum(batch.now),
    })
}

pub(super) fn commit(batch: &Batch<'_>, commit: &Commit, head: u64) -> Done<Committed> {
    let new_head = head + commit.rows.len() as u64;
    let found = batch.db.prepare_cached(FIND)?.query_row([&commit.run], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    let (key, posted, has_ended): (i64, i64, bool) = match found.optional() {
        Err(error) if read::is_conversion(&error) => (0, -1, true),
        found => found?.unwrap_or_default(),
    };
    let before = match (posted < 0 || changes_more(commit, has_ended)).then(|| read::run(batch.db, batch.now, &commit.run)) {
        Some(before) => match before? {
            Err(damaged @ StoreError::Damaged { .. }) => return Ok(Err(damaged)),
            before => before.ok(),
        },
        None => None,
    };
    let (moved, now) = ((head ^ new_head) as i64, batch.now.wall.as_millis());
    let fence = params![key, commit.epoch as i64, head as i64, new_head as i64, moved, now, commit.instance as i64];
    let advanced = match batch.db.prepare_cached(ADVANCE)?.execute(fence) {
        // A row with a value of the wrong type cannot be changed at all.
        Err(error) if is_constraint(&error) => return Ok(Err(damaged_run(&commit.run))),
        advanced => advanced?,
    };
    if advanced == 0 {
        let landed = has_landed(batch.db, &commit.held(), &commit.rows)?;
        let landed = landed.map(|posted| Committed { posted, now: batch.now.wall });
        return Ok(landed.ok_or_else(|| StoreError::Fenced { run: commit.run.clone(), epoch: commit.epoch }));
    }
    match insert(batch.db, key, &commit.rows) {
        Err(error) if is_constraint(&error) => return take_back(batch.db, key, commit, head, moved),
        inserted => inserted?,
    }
    for number in &commit.takes {
        take(batch.db, key, i64::try_from(*number).unwrap_or(i64::MAX), new_head as i64)?;
    }
    if let Some(mut run) = before {
        (run.info.head, run.info.takeovers, run.info.trouble, run.info.changed) = (new_head, 0, None, batch.now.wall);
        settle(batch, commit, run)?;
    }
    Ok(Ok(Committed { posted: posted as u64, now: batch.now.wall }))
}

/// Whether a commit changes more of the run's row than `ADVANCE` does.
fn changes_more(commit: &Commit, has_ended: bool) -> bool {
    let changes = commit.status.is_some() || commit.wake.is_some() || commit.version.is_some() || commit.deadline.is_some();
    changes || commit.release || has_ended
}

/// Undoes a commit whose rows cannot be inserted, because the log of the run has rows that do not belong there. Others of the batch go on.
fn take_back(db: &Connection, key: i64, commit: &Commit, head: u64, moved: i64) -> Done<Committed> {
    let mut sequence = head;
    // Those before the stray one were inserted.
    for row in &commit.rows {
        let is_ours = "SELECT sum = ?3 AND header = ?4 AND body = ?5 FROM log WHERE run = ?1 AND seq = ?2";
        let found = params![key, row.sequence as i64, row.sum, row.header, row.body];
        if !db.prepare_cached(is_ours)?.query_row(found, |row| row.get(0)).optional()?.unwrap_or(false) {
            break;
        }
        sequence = row.sequence;
    }
    let stray = sequence + 1;
    db.prepare_cached(REMOVE_ROWS)?.execute(params![key, head as i64 + 1, sequence as i64])?;
    db.prepare_cached(RETREAT)?.execute(params![key, head as i64, moved])?;
    Ok(Err(StoreError::Damaged { run: commit.run.clone(), sequence: stray, why: STRAY_ROW }))
}

/// Marks a message as taken. One that cannot be changed because it is damaged goes.
fn take(db: &Connection, key: i64, number: i64, sequence: i64) -> rusqlite::Result<()> {
    match db.prepare_cached(TAKE)?.execute([key, number, sequence]) {
        Err(error) if is_constraint(&error) => db.prepare_cached(REMOVE)?.execute([key, number]).map(drop),
        taken => taken.map(drop),
    }
}

fn settle(batch: &Batch<'_>, commit: &Commit, mut run: Run) -> rusqlite::Result<()> {
    run.info.settle(commit, batch.now.wall);
    run.info.deadline = run.info.deadline.map(|at| at.max(MIN_DEADLINE));
    if let Some(version) = &commit.version {
        run.info.version.clone_from(version);
    }
    if commit.release {
        run.info.release();
        run.holder = None;
        return keep(batch, &run).map(drop);
    }
    let info = &run.info;
    let settled = params![
        run.key,
        info.status.as_str(),
        run.wake_at(batch.now),
        info.deadline.map(Timestamp::as_millis),
        info.version.fingerprint,
        info.version.schema,
        info.status.has_ended(),
        info.changed.as_millis(),
        run.sum(batch.now),
    ];
    batch.db.prepare_cached(SETTLE)?.execute(settled).map(drop)
}

fn insert(db: &Connection, run: i64, rows: &[Row]) -> rusqlite::Result<()> {
    let mut statement = db.prepare_cached(INSERT)?;
    rows.iter()
        .try_for_each(|row| statement.execute(params![run, row.sequence as i64, row.sum, row.header, row.body]).map(drop))
}

/// If these rows are the last of the run, written by this claim: the highest number in the inbox.
fn has_landed(db: &Connection, held: &Held, rows: &[Row]) -> rusqlite::Result<Option<u64>> {
    let Some(last) = rows.last() else { return Ok(None) };
    let mut statement = db.prepare_cached(HAS_LANDED)?;
    let last = params![held.run, held.instance as i64, held.epoch as i64, last.sequence as i64, last.header];
    match statement.query_row(last, |row| row.get::<_, i64>(0)).optional() {
        Err(error) if read::is_conversion(&error) => Ok(None),
        posted => Ok(posted?.map(|posted| posted as u64)),
    }
}

/// The commands that nobody took.
fn commands(db: &Connection, run: i64) -> rusqlite::Result<Vec<(u64, String)>> {
    let mut statement = db.prepare_cached(COMMANDS)?;
    let commands = statement.query_map([run], |row| Ok((row.get::<_, i64>(0)? as u64, row.get(1)?)))?;
    commands.collect()
}

pub(super) fn post(batch: &Batch<'_>, id: &str, post: &Post) -> Done<u64> {
    let db = batch.db;
    let Run { key: run, mut info, read_wake, holder } = match read::run(db, batch.now, id)? {
        Ok(run) => run,
        Err(refused) => return Ok(Err(refused)),
    };
    if let Some(dedup) = &post.dedup
        && let Some(first) =
            db.prepare_cached(SAME_POST)?.query_row(params![run, dedup], |row| row.get::<_, i64>(0)).optional()?
    {
        return Ok(Ok(first as u64));
    }
    if let Err(refused) = info.check_open() {
        return Ok(Err(refused));
    }
    let mut replaced = Vec::new();
    if post.kind() == PostKind::Command {
        match post.among(&commands(db, run)?) {
            CommandPost::Known(number) => return Ok(Ok(number)),
            CommandPost::Instead(others) => replaced = others,
        }
    } else {
        let is_answer = post.kind() == PostKind::Answer;
        let untaken: i64 = db.prepare_cached(UNTAKEN)?.query_row(params![run, is_answer], |row| row.get(0))?;
        if let Err(full) = info.check_room(untaken as usize) {
            return Ok(Err(full));
        }
    }
    let now = batch.now;
    if let Err(refused) = info.post(now.wall) {
        return Ok(Err(refused));
    }
    let number = info.posted as i64;
    let message = params![run, number, now.wall.as_millis(), post.name, post.dedup, post.sum, post.payload];
    match db.prepare_cached(POST)?.execute(message) {
        Err(error) if is_constraint(&error) => {
            return Ok(Err(StoreError::Damaged { run: id.to_string(), sequence: 0, why: STRAY_MESSAGE }));
        }
        posted => posted?,
    };
    for number in replaced {
        db.prepare_cached(REMOVE)?.execute(params![run, number as i64])?;
    }
    let (posted, run) = (info.posted, Run { key: run, info, holder, read_wake });
    db.prepare_cached(POSTED)?.execute(params![run.key, number, run.wake_at(now), run.sum(now)])?;
    Ok(Ok(posted))
}

pub(super) fn prune(batch: &Batch<'_>, prune: Prune) -> Done<u64> {
    match prune {
        Prune::Rows { held, before, keep } => prune_rows(batch, &held, before, &keep),
        Prune::Ended { unchanged_for, count } => {
            end_leases(batch, true)?;
            let old = batch.now.wall.as_millis() - millis(unchanged_for);
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            if !is_clock_right(batch, old)? {
                return Ok(Ok(0));
            }
            let old = params![old, batch.now.lease, count, EARLIEST.as_millis()];
            let removed = batch.db.prepare_cached(PRUNE_ENDED)?.execute(old)?;
            Ok(Ok(removed as u64))
        }
    }
}

/// Whether runs that ended before this time are as old as they seem.
fn is_clock_right(batch: &Batch<'_>, old: i64) -> rusqlite::Result<bool> {
    let time = |time: Option<i64>| time.map(Timestamp::from_millis);
    let ends = batch.db.prepare_cached(ENDS_AROUND)?.query_row(params![old, EARLIEST.as_millis()], |row| {
        Ok(Neighbours { now: batch.now.wall, last_old: time(row.get(0)?), first_young: time(row.get(1)?) })
    })?;
    Ok(ends.allow_removal(batch.db.path().unwrap_or_default()))
}

fn prune_rows(batch: &Batch<'_>, held: &Held, before: u64, keep: &[u64]) -> Done<u64> {
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

fn damaged_run(id: &str) -> StoreError {
    StoreError::Damaged { run: id.to_string(), sequence: 0, why: read::WRONG_COLUMN }
}

/// Whether a row cannot be written: there is another one in its place, or one of its values has the wrong type.
pub(super) fn is_constraint(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
}
