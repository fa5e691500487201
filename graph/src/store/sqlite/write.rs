//! The jobs that add and change rows, within the transaction of the batch. `prune` removes rows.
//!
//! A job rejects its arguments before it changes anything. One exception: a claim can be rejected
//! and make the run stuck.

use super::database::{Done, WriteTransaction};
use super::inbox::{refuse, take};
use super::read::{self, MIN_DEADLINE, Run};
use crate::store::error::StoreError;
use crate::store::row::{Row, STRAY_ROW};
use crate::store::run_info::RunInfo;
use crate::store::time::Timestamp;
use crate::store::{Claim, Commit, Committed, Held, NewRun, RunFailure};
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, named_params, params};

const CREATE: &str = "INSERT INTO run (no, id, graph, fingerprint, schema, status, epoch, head, oldest, owner, lease_end, holder, wake_at,
    takeovers, posted, from_run, from_seq, created, changed, instance, deadline, tags, sum)
    VALUES (:no, :id, :graph, :fingerprint, :schema, :status, 1, :head, 1, :owner, :lease_end, :holder, :wake_at, 0, 0, :from_run, :from_seq,
    :now, :now, :instance, :deadline, :tags, :sum)";

/// Updates every column that claims and releases may change.
const SAVE_RUN: &str = "UPDATE run SET status = :status, epoch = :epoch, owner = :owner, lease_end = :lease_end, holder = :holder,
    wake_at = :wake_at, takeovers = :takeovers, trouble = :trouble, deadline = :deadline, fingerprint = :fingerprint, schema = :schema,
    changed = :changed, ended = iif(:has_ended, :changed, NULL), tags = :tags, failure = :failure, sum = :sum WHERE no = :no";

/// Updates the columns of a commit that also changes status, wake time, deadline, version, tags or
/// failure and does not release the run. The index of leases is not changed.
const APPLY_COMMIT: &str =
    "UPDATE run SET status = ?2, wake_at = ?3, deadline = ?4, fingerprint = ?5, schema = ?6, ended = iif(?7, ?8, NULL),
    sum = ?9, tags = ?10, failure = ?11 WHERE no = ?1";

const INSERT: &str = "INSERT INTO log (run, seq, sum, header, body) VALUES (?1, ?2, ?3, ?4, ?5)";

const FIND: &str = "SELECT no, posted, ended IS NOT NULL, takeovers, trouble, changed FROM run WHERE id = ?1";

/// Checks the fence and updates the columns that a commit of rows alone changes. No indexed column
/// is changed. (`RETURNING` would save `FIND`, but creates a table for its result each time.)
const ADVANCE: &str = concat!(
    "UPDATE run SET head = ?4, takeovers = 0, trouble = NULL, changed = ?6, sum = ",
    xor!("sum", "?5"),
    " WHERE no = ?1 AND epoch = ?2 AND head = ?3 AND instance = ?7 AND owner IS NOT NULL"
);

/// Reverts every column that `ADVANCE` changes.
const UNDO_ADVANCE: &str = concat!(
    "UPDATE run SET head = ?2, takeovers = ?4, trouble = ?5, changed = ?6, sum = ",
    xor!("sum", "?3"),
    " WHERE no = ?1"
);
const REMOVE_ROWS: &str = "DELETE FROM log WHERE run = ?1 AND seq BETWEEN ?2 AND ?3";

const FIND_COMMITTED: &str = "SELECT run.posted FROM run JOIN log ON log.run = run.no AND log.seq = run.head
    WHERE run.id = ?1 AND run.instance = ?2 AND run.epoch = ?3 AND run.head = ?4 AND log.header = ?5";

/// The key after the highest key of any run so far. Keys from 2^62 are damage: the highest number
/// has no successor.
const NEXT_KEY: &str = "SELECT 1 + max(
    ifnull((SELECT max(seq) FROM sqlite_sequence WHERE name = 'run' AND typeof(seq) = 'integer' AND seq < 4611686018427387904), 0),
    ifnull((SELECT max(no) FROM run WHERE no BETWEEN 0 AND 4611686018427387903), 0))";
/// Whether the log, the inbox or the tags have rows under a key.
const HAS_ROWS: &str = "SELECT EXISTS (SELECT 1 FROM log WHERE run = ?1) OR EXISTS (SELECT 1 FROM inbox WHERE run = ?1)
    OR EXISTS (SELECT 1 FROM tag WHERE run = ?1)";

const REMOVE_TAGS: &str = "DELETE FROM tag WHERE run = ?1";
const INSERT_TAG: &str = "INSERT OR IGNORE INTO tag (key, value, run_created, run) VALUES (?1, ?2, ?3, ?4)";

/// The statements of creates and commits, for tests that count their work.
#[cfg(test)]
pub(super) const COUNTED: [&str; 10] =
    [CREATE, SAVE_RUN, APPLY_COMMIT, INSERT, FIND, ADVANCE, NEXT_KEY, HAS_ROWS, REMOVE_TAGS, INSERT_TAG];

/// Creates a run with its first rows.
pub(super) fn create(batch: &WriteTransaction<'_>, new: NewRun, rows: &[Row]) -> Done<Claim> {
    let now = batch.now.wall;
    match read::run(batch.db, batch.now, &new.id)? {
        Err(StoreError::RunNotFound { .. }) => {}
        Err(rejected) => return Ok(Err(rejected)),
        Ok(Run { info, .. }) => {
            let same_owner = new.lease.as_ref().is_some_and(|lease| info.owner.as_ref() == Some(&lease.owner));
            let repeated = same_owner && find_committed(batch.db, &Held { epoch: 1, ..Held::of(&info) }, rows)?.is_some();
            let is_same = repeated && info.instance == new.instance;
            return Ok(if is_same { Ok(Claim { run: info, now }) } else { Err(StoreError::Exists { run: new.id }) });
        }
    }
    let info = RunInfo::new(new, rows.len() as u64, now);
    let holder = info.owner.as_ref().map(|_| batch.holders.name(batch.now).into_owned());
    let run = Run { key: unused_key(batch.db)?, info, holder, read_wake: None };
    insert_run(batch, &run)?;
    insert_rows(batch.db, run.key, rows)?;
    insert_tags(batch.db, &run)?;
    Ok(Ok(Claim { run: run.info, now }))
}

/// Returns a key for a new run. Skips keys under which rows exist without a run; those rows stay
/// unchanged.
fn unused_key(db: &Connection) -> rusqlite::Result<i64> {
    let mut key = db.prepare_cached(NEXT_KEY)?.query_row([], |row| row.get(0))?;
    while db.prepare_cached(HAS_ROWS)?.query_row([key], |row| row.get(0))? {
        key += 1;
    }
    Ok(key)
}

fn insert_run(batch: &WriteTransaction<'_>, run: &Run) -> rusqlite::Result<()> {
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
        ":tags": info.tags.stored(),
        ":sum": run.sum(batch.now),
    };
    batch.db.prepare_cached(CREATE)?.execute(values).map(drop)
}

/// Stores a run's row after a claim, a release or a commit has changed it.
pub(super) fn save_run(batch: &WriteTransaction<'_>, run: &Run) -> rusqlite::Result<usize> {
    let info = &run.info;
    batch.db.prepare_cached(SAVE_RUN)?.execute(named_params! {
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
        ":tags": info.tags.stored(),
        ":failure": info.failure.as_ref().map(RunFailure::stored),
        ":sum": run.sum(batch.now),
    })
}

/// Appends the rows of a commit and updates the run's row, if the fence allows it.
///
/// A commit of rows alone takes the short way: one `FIND`, one `ADVANCE`, one insert per row. Any
/// other commit also reads the whole row of the run before and stores it after.
pub(super) fn commit(batch: &WriteTransaction<'_>, commit: &Commit, head: u64) -> Done<Committed> {
    let new_head = head + commit.rows.len() as u64;
    let found = match batch.db.prepare_cached(FIND)?.query_row([&commit.run], FoundRun::read).optional() {
        Err(error) if read::is_conversion(&error) => FoundRun { last_message: -1, ..FoundRun::default() },
        found => found?.unwrap_or_default(),
    };
    let FoundRun { key, last_message, has_ended, .. } = found;
    let before =
        match (last_message < 0 || changes_more(commit, has_ended)).then(|| read::run(batch.db, batch.now, &commit.run)) {
            Some(before) => match before? {
                Err(damaged @ StoreError::Damaged { .. }) => return Ok(Err(damaged)),
                before => before.ok(),
            },
            None => None,
        };
    let (head_change, now) = ((head ^ new_head) as i64, batch.now.wall.as_millis());
    let fence = params![key, commit.epoch as i64, head as i64, new_head as i64, head_change, now, commit.instance as i64];
    let advanced = match batch.db.prepare_cached(ADVANCE)?.execute(fence) {
        // A row with a value of the wrong type cannot be updated at all.
        Err(error) if is_constraint(&error) => return Ok(Err(damaged_run(&commit.run))),
        advanced => advanced?,
    };
    if advanced == 0 {
        let last_message = find_committed(batch.db, &commit.held(), &commit.rows)?;
        let committed = last_message.map(|last_message| Committed { last_message, now: batch.now.wall });
        return Ok(committed.ok_or_else(|| StoreError::Fenced { run: commit.run.clone(), epoch: commit.epoch }));
    }
    match insert_rows(batch.db, key, &commit.rows) {
        Err(error) if is_constraint(&error) => return revert_commit(batch.db, &found, commit, head, head_change),
        inserted => inserted?,
    }
    for number in &commit.takes {
        take(batch.db, key, i64::try_from(*number).unwrap_or(i64::MAX), new_head as i64)?;
    }
    refuse(batch.db, key, &commit.refuses, new_head as i64)?;
    if let Some(mut run) = before {
        (run.info.head, run.info.takeovers, run.info.trouble, run.info.changed) = (new_head, 0, None, batch.now.wall);
        apply_commit(batch, commit, run)?;
    }
    Ok(Ok(Committed { last_message: last_message as u64, now: batch.now.wall }))
}

/// The columns that a commit needs from a run's row: its key, and the values that `ADVANCE`
/// overwrites.
#[derive(Default)]
struct FoundRun {
    key: i64,
    last_message: i64,
    has_ended: bool,
    takeovers: i64,
    trouble: Option<String>,
    changed: i64,
}

impl FoundRun {
    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let (key, last_message, has_ended) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Self { key, last_message, has_ended, takeovers: row.get(3)?, trouble: row.get(4)?, changed: row.get(5)? })
    }
}

/// Returns whether a commit changes more of the run's row than `ADVANCE` does.
fn changes_more(commit: &Commit, has_ended: bool) -> bool {
    let changes = commit.status.is_some() || commit.wake.is_some() || commit.version.is_some() || commit.deadline.is_some();
    changes || commit.release || has_ended || commit.tags.is_some() || commit.failure.is_some()
}

/// Reverts a commit whose rows cannot be inserted, because the log has a stray row in their place.
/// The other jobs of the batch continue.
fn revert_commit(db: &Connection, found: &FoundRun, commit: &Commit, head: u64, head_change: i64) -> Done<Committed> {
    let (key, mut sequence) = (found.key, head);
    // The rows before the stray row were inserted.
    for row in &commit.rows {
        // `IS` also compares with NULL, which a damaged row can have.
        let is_ours = "SELECT sum IS ?3 AND header IS ?4 AND body IS ?5 FROM log WHERE run = ?1 AND seq = ?2";
        let wanted = params![key, row.sequence as i64, row.sum, row.header, row.body];
        if !db.prepare_cached(is_ours)?.query_row(wanted, |row| row.get(0)).optional()?.unwrap_or(false) {
            break;
        }
        sequence = row.sequence;
    }
    let stray = sequence + 1;
    db.prepare_cached(REMOVE_ROWS)?.execute(params![key, head as i64 + 1, sequence as i64])?;
    db.prepare_cached(UNDO_ADVANCE)?.execute(params![
        key,
        head as i64,
        head_change,
        found.takeovers,
        found.trouble,
        found.changed
    ])?;
    Ok(Err(StoreError::Damaged { run: commit.run.clone(), sequence: stray, reason: STRAY_ROW }))
}

fn insert_tags(db: &Connection, run: &Run) -> rusqlite::Result<()> {
    for (key, value) in run.info.tags.iter() {
        db.prepare_cached(INSERT_TAG)?.execute(params![key, value, run.info.created.as_millis(), run.key])?;
    }
    Ok(())
}

/// Stores the status, wake time, deadline, version, tags and failure of a commit, and releases the
/// run if asked.
fn apply_commit(batch: &WriteTransaction<'_>, commit: &Commit, mut run: Run) -> rusqlite::Result<()> {
    run.info.apply_commit(commit, batch.now.wall);
    run.info.deadline = run.info.deadline.map(|at| at.max(MIN_DEADLINE));
    if let Some(version) = &commit.version {
        run.info.version.clone_from(version);
    }
    if commit.tags.is_some() {
        batch.db.prepare_cached(REMOVE_TAGS)?.execute([run.key])?;
        insert_tags(batch.db, &run)?;
    }
    if commit.release {
        run.info.release();
        run.holder = None;
        return save_run(batch, &run).map(drop);
    }
    let info = &run.info;
    let values = params![
        run.key,
        info.status.as_str(),
        run.wake_at(batch.now),
        info.deadline.map(Timestamp::as_millis),
        info.version.fingerprint,
        info.version.schema,
        info.status.has_ended(),
        info.changed.as_millis(),
        run.sum(batch.now),
        info.tags.stored(),
        info.failure.as_ref().map(RunFailure::stored),
    ];
    batch.db.prepare_cached(APPLY_COMMIT)?.execute(values).map(drop)
}

fn insert_rows(db: &Connection, run: i64, rows: &[Row]) -> rusqlite::Result<()> {
    let mut statement = db.prepare_cached(INSERT)?;
    rows.iter()
        .try_for_each(|row| statement.execute(params![run, row.sequence as i64, row.sum, row.header, row.body]).map(drop))
}

/// Returns the highest message number, if these rows are the last of the run and this claim wrote
/// them.
fn find_committed(db: &Connection, held: &Held, rows: &[Row]) -> rusqlite::Result<Option<u64>> {
    let Some(last) = rows.last() else { return Ok(None) };
    let mut statement = db.prepare_cached(FIND_COMMITTED)?;
    let last = params![held.run, held.instance as i64, held.epoch as i64, last.sequence as i64, last.header];
    match statement.query_row(last, |row| row.get::<_, i64>(0)).optional() {
        Err(error) if read::is_conversion(&error) => Ok(None),
        last_message => Ok(last_message?.map(|last_message| last_message as u64)),
    }
}

/// Returns the error for a run whose own row is damaged.
pub(super) fn damaged_run(id: &str) -> StoreError {
    StoreError::Damaged { run: id.to_string(), sequence: 0, reason: read::WRONG_COLUMN }
}

/// Returns whether a row cannot be written: its place is taken, or a value has the wrong type.
pub(super) fn is_constraint(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
}
