//! What jobs add and change, within the batch's transaction; `prune` has what they remove. A refusal comes before the first change, except for a run that becomes stuck.

use super::read::{self, MIN_DEADLINE, Run};
use super::writer::{Batch, Done};
use crate::store::error::StoreError;
use crate::store::message_kind::{CommandAction, InboxMessageKind, STRAY_MESSAGE};
use crate::store::row::{NewMessage, Row, STRAY_ROW};
use crate::store::run_info::RunInfo;
use crate::store::time::Timestamp;
use crate::store::{Claim, Commit, Committed, Held, NewRun};
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, named_params, params};

const CREATE: &str = "INSERT INTO run (no, id, graph, fingerprint, schema, status, epoch, head, oldest, owner, lease_end, holder, wake_at,
    takeovers, posted, from_run, from_seq, created, changed, instance, deadline, sum)
    VALUES (:no, :id, :graph, :fingerprint, :schema, :status, 1, :head, 1, :owner, :lease_end, :holder, :wake_at, 0, 0, :from_run, :from_seq,
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

const FIND: &str = "SELECT no, posted, ended IS NOT NULL, takeovers, trouble, changed FROM run WHERE id = ?1";

/// The fence, and all that a commit changes in the run's row if it only adds rows: no column of an index is touched. (`RETURNING` would spare `FIND`,
/// but makes a table for its answer each time.)
const ADVANCE: &str = concat!(
    "UPDATE run SET head = ?4, takeovers = 0, trouble = NULL, changed = ?6, sum = ",
    xor!("sum", "?5"),
    " WHERE no = ?1 AND epoch = ?2 AND head = ?3 AND instance = ?7 AND owner IS NOT NULL"
);

/// Takes `ADVANCE` back: every column that it changes.
const RETREAT: &str = concat!(
    "UPDATE run SET head = ?2, takeovers = ?4, trouble = ?5, changed = ?6, sum = ",
    xor!("sum", "?3"),
    " WHERE no = ?1"
);
const REMOVE_ROWS: &str = "DELETE FROM log WHERE run = ?1 AND seq BETWEEN ?2 AND ?3";

const HAS_LANDED: &str = "SELECT run.posted FROM run JOIN log ON log.run = run.no AND log.seq = run.head
    WHERE run.id = ?1 AND run.instance = ?2 AND run.epoch = ?3 AND run.head = ?4 AND log.header = ?5";

/// The key after the highest one that a run ever had. Keys of 2^62 and more are damage: after the highest number there is no next one.
const NEXT_KEY: &str = "SELECT 1 + max(
    ifnull((SELECT max(seq) FROM sqlite_sequence WHERE name = 'run' AND typeof(seq) = 'integer' AND seq < 4611686018427387904), 0),
    ifnull((SELECT max(no) FROM run WHERE no BETWEEN 0 AND 4611686018427387903), 0))";
/// Whether a log or an inbox has rows under a key.
const HAS_ROWS: &str = "SELECT EXISTS (SELECT 1 FROM log WHERE run = ?1) OR EXISTS (SELECT 1 FROM inbox WHERE run = ?1)";

/// The number of a message that is damaged need not be one.
const SAME_POST: &str = "SELECT n FROM inbox WHERE run = ?1 AND dedup = ?2 AND typeof(n) = 'integer' AND n > 0";
const UNTAKEN: &str =
    "SELECT count(*) FROM inbox WHERE run = ?1 AND taken_seq IS NULL AND (substr(name, 1, 7) = 'answer/') = ?2
    AND name NOT IN ('command/pause', 'command/resume', 'command/cancel')";
const COMMANDS: &str = "SELECT n, name FROM inbox WHERE run = ?1 AND taken_seq IS NULL AND typeof(n) = 'integer' AND n > 0
    AND name IN ('command/pause', 'command/resume', 'command/cancel') ORDER BY n";
const REMOVE: &str = "DELETE FROM inbox WHERE run = ?1 AND n = ?2";
const POST: &str = "INSERT INTO inbox (run, n, at, name, dedup, sum, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const POSTED: &str = "UPDATE run SET posted = ?2, wake_at = ?3, sum = ?4 WHERE no = ?1";
const TAKE: &str = "UPDATE inbox SET taken_seq = ?3, payload = x'' WHERE run = ?1 AND n = ?2 AND taken_seq IS NULL";

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
    let holder = info.owner.as_ref().map(|_| batch.holders.name(batch.now).into_owned());
    let run = Run { key: unused_key(batch.db)?, info, holder, read_wake: None };
    insert_run(batch, &run)?;
    insert(batch.db, run.key, rows)?;
    Ok(Ok(Claim { run: run.info, now }))
}

/// A key for a new run. Rows under a key that no run ever had belong to nobody: they are left alone, and such a key is passed over.
fn unused_key(db: &Connection) -> rusqlite::Result<i64> {
    let mut key = db.prepare_cached(NEXT_KEY)?.query_row([], |row| row.get(0))?;
    while db.prepare_cached(HAS_ROWS)?.query_row([key], |row| row.get(0))? {
        key += 1;
    }
    Ok(key)
}

fn insert_run(batch: &Batch<'_>, run: &Run) -> rusqlite::Result<()> {
    let info = &run.info;
    let values = named_params! {
        ":no": run.key,
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
        ":now": batch.now.wall.as_millis(),
        ":instance": info.instance as i64,
        ":deadline": info.deadline.map(Timestamp::as_millis),
        ":sum": run.sum(batch.now),
    };
    batch.db.prepare_cached(CREATE)?.execute(values).map(drop)
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
    let found = match batch.db.prepare_cached(FIND)?.query_row([&commit.run], FoundRun::read).optional() {
        Err(error) if read::is_conversion(&error) => FoundRun { posted: -1, ..FoundRun::default() },
        found => found?.unwrap_or_default(),
    };
    let FoundRun { key, posted, has_ended, .. } = found;
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
        Err(error) if is_constraint(&error) => return take_back(batch.db, &found, commit, head, moved),
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

/// What a commit needs of a run's row: who it is, and what `ADVANCE` overwrites.
#[derive(Default)]
struct FoundRun {
    key: i64,
    posted: i64,
    has_ended: bool,
    takeovers: i64,
    trouble: Option<String>,
    changed: i64,
}

impl FoundRun {
    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let (key, posted, has_ended) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Self { key, posted, has_ended, takeovers: row.get(3)?, trouble: row.get(4)?, changed: row.get(5)? })
    }
}

/// Whether a commit changes more of the run's row than `ADVANCE` does.
fn changes_more(commit: &Commit, has_ended: bool) -> bool {
    let changes = commit.status.is_some() || commit.wake.is_some() || commit.version.is_some() || commit.deadline.is_some();
    changes || commit.release || has_ended
}

/// Undoes a commit whose rows cannot be inserted, because the log of the run has rows that do not belong there. Others of the batch go on.
fn take_back(db: &Connection, found: &FoundRun, commit: &Commit, head: u64, moved: i64) -> Done<Committed> {
    let (key, mut sequence) = (found.key, head);
    // Those before the stray one were inserted.
    for row in &commit.rows {
        // `IS` also compares with NULL, which a damaged row may have.
        let is_ours = "SELECT sum IS ?3 AND header IS ?4 AND body IS ?5 FROM log WHERE run = ?1 AND seq = ?2";
        let wanted = params![key, row.sequence as i64, row.sum, row.header, row.body];
        if !db.prepare_cached(is_ours)?.query_row(wanted, |row| row.get(0)).optional()?.unwrap_or(false) {
            break;
        }
        sequence = row.sequence;
    }
    let stray = sequence + 1;
    db.prepare_cached(REMOVE_ROWS)?.execute(params![key, head as i64 + 1, sequence as i64])?;
    db.prepare_cached(RETREAT)?.execute(params![key, head as i64, moved, found.takeovers, found.trouble, found.changed])?;
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

pub(super) fn post(batch: &Batch<'_>, id: &str, post: &NewMessage) -> Done<u64> {
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
    if post.kind() == InboxMessageKind::Command {
        match post.among(&commands(db, run)?) {
            CommandAction::Known(number) => return Ok(Ok(number)),
            CommandAction::Instead(others) => replaced = others,
        }
    } else {
        let is_answer = post.kind() == InboxMessageKind::Answer;
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

pub(super) fn damaged_run(id: &str) -> StoreError {
    StoreError::Damaged { run: id.to_string(), sequence: 0, why: read::WRONG_COLUMN }
}

/// Whether a row cannot be written: there is another one in its place, or one of its values has the wrong type.
pub(super) fn is_constraint(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
}
