//! What is read. Each function runs within one transaction, and so sees one moment.

use super::clock::{Now, shown_wake};
use super::schema::counted;
use super::writer::Done;
use crate::store::error::StoreError;
use crate::store::limits::{LIST_MAX, READ_BYTES_MAX, READ_ROWS_MAX, check_text};
use crate::store::query::{Answer, Query, RowQuery, last_key};
use crate::store::row::{InboxMessage, NewMessage, Row};
use crate::store::run_info::{DamagedRun, Filter, GraphVersion, Origin, RunInfo, RunList, RunStatus};
use crate::store::time::Timestamp;
use crate::store::{Parts, Rows};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _, params};

/// The columns of a run's row, as [`found`] reads them.
macro_rules! columns {
    () => {
        "no, id, graph, fingerprint, schema, status, epoch, head, oldest, owner, lease_end, wake_at, takeovers, posted, from_run, \
         from_seq, created, changed, sum, instance, trouble, deadline, holder, \
         ended"
    };
}

const RUN: &str = concat!("SELECT ", columns!(), " FROM run WHERE id = ?1");
const RUN_BY_KEY: &str = concat!("SELECT ", columns!(), " FROM run WHERE no = ?1");
const ALL_RUNS: &str = concat!("SELECT ", columns!(), " FROM run");

/// The query for a list, with or without a status: SQLite chooses its index before it knows what is asked for.
macro_rules! list {
    ($status:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM run WHERE ",
            $status,
            " AND no <= ?1 AND (?3 IS NULL OR graph = ?3) AND (?4 IS NULL OR created >= ?4)
    AND (?5 IS NULL OR created < ?5) AND (?6 IS NULL OR changed >= ?6) AND (?7 IS NULL OR changed < ?7) ORDER BY no DESC LIMIT ?8"
        )
    };
}

const LIST: &str = list!("?2 IS NULL");
const LIST_OF_STATUS: &str = list!("status = ?2");

const ROW: &str = "SELECT sum, header, CASE WHEN ?3 THEN body ELSE x'' END FROM log WHERE run = ?1 AND seq = ?2";

/// Some records of a run below its head. The head ends the search: what comes after it in the index belongs to another run.
const SEQUENCES: &str = "SELECT seq FROM log WHERE run = ?1 AND seq > ?2 AND seq < ?3 ORDER BY seq LIMIT ?4";

const INBOX: &str =
    "SELECT n, at, name, dedup, sum, payload FROM inbox WHERE run = ?1 AND n > ?2 AND taken_seq IS NULL ORDER BY n LIMIT ?3";

pub(super) const WRONG_COLUMN: &str = "a column of its own row is of the wrong type or out of range";

/// What a run with a damaged page is told. Other pages may be sound.
pub(super) const CORRUPT_PAGE: &str = "a page of the SQLite file is damaged there";

/// The first deadline there is: 0 counts for none in the checksum of a row.
pub(super) const MIN_DEADLINE: Timestamp = Timestamp::from_millis(1);

/// A run's own row, checked.
pub(super) struct Run {
    pub(super) key: i64,
    /// Its lease ends by the time of day, as callers are shown it.
    pub(super) info: RunInfo,
    /// The store that holds the lease; see `schema`.
    pub(super) holder: Option<String>,
    /// The time to wake as it was read.
    pub(super) read_wake: Option<i64>,
}

impl Run {
    /// The end of the lease as it is stored.
    pub(super) fn lease_end(&self, now: Now) -> Option<i64> {
        self.info.lease_until.map(|until| now.stored(until))
    }

    /// The time to wake as it is stored. One that was not changed stays as it was: what is due stays due.
    pub(super) fn wake_at(&self, now: Now) -> Option<i64> {
        let at = self.info.wake_at?;
        self.read_wake.filter(|read| shown_wake(*read) == at && *read < 0).or_else(|| Some(now.stored_wake(at)))
    }

    /// The checksum of the row as it is stored.
    pub(super) fn sum(&self, now: Now) -> i64 {
        self.info.sum() ^ shown_less_stored(&self.info, self.lease_end(now), self.wake_at(now))
    }
}

/// By what the checksum of a row differs because times are shown otherwise than they are stored.
fn shown_less_stored(info: &RunInfo, lease_end: Option<i64>, wake_at: Option<i64>) -> i64 {
    let shown = |time: Option<Timestamp>| counted(time.map(Timestamp::as_millis));
    shown(info.lease_until) ^ counted(lease_end) ^ shown(info.wake_at) ^ counted(wake_at)
}

/// A run's row by its id.
pub(super) fn run(db: &Connection, now: Now, id: &str) -> Done<Run> {
    if let Err(refused) = check_text("run id", id) {
        return Ok(Err(refused));
    }
    let found = db.prepare_cached(RUN)?.query_row([id], |row| found(row, now)).optional()?;
    Ok(found.map_or_else(|| Err(StoreError::Unknown { run: id.to_string() }), Found::checked))
}

/// A run's row by its key.
pub(super) fn run_by_key(db: &Connection, now: Now, key: i64) -> Done<Run> {
    let found = db.prepare_cached(RUN_BY_KEY)?.query_row([key], |row| found(row, now)).optional()?;
    Ok(found.map_or_else(|| Err(StoreError::Unknown { run: key.to_string() }), Found::checked))
}

/// The keys of all runs that can be read, and what their rows come to.
pub(super) fn sums(db: &Connection, now: Now) -> rusqlite::Result<Vec<(i64, i64)>> {
    let mut statement = db.prepare(ALL_RUNS)?;
    let runs = statement.query_map([], |row| found(row, now))?.collect::<rusqlite::Result<Vec<_>>>()?;
    let sum = |run: &Run| run.info.sum() ^ shown_less_stored(&run.info, run.lease_end(now), run.read_wake);
    Ok(runs.into_iter().filter_map(|found| found.run.ok()).map(|(run, _)| (run.key, sum(&run))).collect())
}

pub(super) fn rows(db: &Connection, now: Now, id: &str, which: Rows, parts: Parts) -> Done<Vec<Row>> {
    let (key, info) = match run(db, now, id)? {
        Ok(run) => (run.key, run.info),
        Err(refused) => return Ok(Err(refused)),
    };
    let sequences = match RowQuery::new(which).and_then(|sought| sought.of_run(id, info.head, info.oldest)) {
        Ok(sequences) => sequences,
        Err(refused) => return Ok(Err(refused)),
    };
    let mut answer = Answer::new(id, info.oldest);
    let mut statement = db.prepare_cached(ROW)?;
    for sequence in sequences {
        let found = statement.query_row(params![key, sequence as i64, parts == Parts::Whole], |row| {
            Ok(Row { sequence, sum: row.get(0)?, header: row.get(1)?, body: row.get(2)? })
        });
        let why = match &found {
            Err(error) if is_conversion(error) => Some("its columns are not what this version writes"),
            Err(error) if is_corruption(error) => Some(CORRUPT_PAGE),
            _ => None,
        };
        if let Some(why) = why {
            return Ok(Err(StoreError::Damaged { run: id.to_string(), sequence, why }));
        }
        match answer.add(sequence, found.optional()?) {
            Ok(true) => {}
            Ok(false) => break,
            Err(refused) => return Ok(Err(refused)),
        }
    }
    Ok(Ok(answer.into_rows()))
}

/// Reads some records of a run whole, to meet what is damaged: those after `after`, also those kept below the oldest. Returns the last of them, unless
/// it is the head.
pub(super) fn look_through(db: &Connection, now: Now, id: &str, after: u64) -> Done<Option<u64>> {
    let (key, head) = match run(db, now, id)? {
        Ok(run) => (run.key, run.info.head),
        Err(refused) => return Ok(Err(refused)),
    };
    if after >= head {
        return Ok(Ok(None));
    }
    let mut statement = db.prepare_cached(SEQUENCES)?;
    let below = statement.query_map(params![key, after as i64, head as i64, READ_ROWS_MAX as i64], |row| number(row, 0));
    let mut sequences = match below.and_then(Iterator::collect::<rusqlite::Result<Vec<u64>>>) {
        Err(error) if is_corruption(&error) => {
            return Ok(Err(StoreError::Damaged { run: id.to_string(), sequence: 0, why: CORRUPT_PAGE }));
        }
        sequences => sequences?,
    };
    if sequences.len() < READ_ROWS_MAX {
        sequences.push(head);
    }
    let read = rows(db, now, id, Rows::Each(sequences), Parts::Whole)?;
    Ok(read.map(|rows| rows.last().map(|last| last.sequence).filter(|last| *last < head)))
}

pub(super) fn list(db: &Connection, now: Now, filters: Vec<Filter>, after: Option<u64>, count: usize) -> Done<RunList> {
    let Some(query) = Query::new(filters) else { return Ok(Ok(RunList::default())) };
    let millis = |time: Option<Timestamp>| time.map(Timestamp::as_millis);
    let count = count.min(LIST_MAX);
    let mut statement = db.prepare_cached(if query.status.is_some() { LIST_OF_STATUS } else { LIST })?;
    let found = statement.query_map(
        params![
            last_key(after),
            query.status.map(RunStatus::as_str),
            query.graph,
            millis(query.created_since),
            millis(query.created_before),
            millis(query.changed_since),
            millis(query.changed_before),
            count as i64 + 1,
        ],
        |row| found(row, now),
    )?;
    let mut found = found.collect::<rusqlite::Result<Vec<_>>>()?;
    let more = found.len() > count;
    found.truncate(count);
    let next = found.last().filter(|_| more).map(|last| last.key as u64);
    let mut list = RunList { next, ..RunList::default() };
    for found in found {
        match found.checked() {
            Ok(run) => list.runs.push(run.info),
            Err(StoreError::Damaged { run, why, .. }) => list.damaged.push(DamagedRun { run, why }),
            Err(other) => return Ok(Err(other)),
        }
    }
    Ok(Ok(list))
}

pub(super) fn inbox(db: &Connection, now: Now, id: &str, after: u64) -> Done<Vec<InboxMessage>> {
    let key = match run(db, now, id)? {
        Ok(run) => run.key,
        Err(refused) => return Ok(Err(refused)),
    };
    let mut statement = db.prepare_cached(INBOX)?;
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let mut found = statement.query(params![key, after, READ_ROWS_MAX as i64])?;
    let (mut mail, mut bytes) = (Vec::new(), 0);
    loop {
        let row = match found.next() {
            Ok(Some(row)) => row,
            Ok(None) => break,
            Err(error) if is_corruption(&error) => {
                return Ok(Err(StoreError::Damaged { run: id.to_string(), sequence: 0, why: CORRUPT_PAGE }));
            }
            Err(error) => return Err(error),
        };
        // Without its number a message cannot even be taken.
        let Ok(number) = number(row, 0) else { continue };
        let post = match post(row) {
            Err(error) if is_conversion(&error) => damaged_post(row, id)?,
            post => post?,
        };
        bytes += post.payload.len();
        if !mail.is_empty() && bytes > READ_BYTES_MAX {
            break;
        }
        let at = row.get_ref(1)?.as_i64().unwrap_or(0);
        mail.push(InboxMessage { number, at: Timestamp::from_millis(at), post });
    }
    Ok(Ok(mail))
}

fn post(row: &rusqlite::Row<'_>) -> rusqlite::Result<NewMessage> {
    Ok(NewMessage { name: row.get(2)?, dedup: row.get(3)?, sum: row.get(4)?, payload: row.get(5)? })
}

/// What can be read of a message, with a checksum that is wrong: whoever opens it is told that it is damaged.
fn damaged_post(row: &rusqlite::Row<'_>, id: &str) -> rusqlite::Result<NewMessage> {
    let mut post = NewMessage::seal(id, text(row, 2)?, None, Vec::new());
    post.sum = !post.sum;
    Ok(post)
}

/// A row of `run`: its key, and what is in it.
struct Found {
    key: i64,
    /// With its checksum, as it would be if times were stored as they are shown.
    run: Result<(Run, i64), StoreError>,
}

impl Found {
    fn checked(self) -> Result<Run, StoreError> {
        let (run, sum) = self.run?;
        Ok(Run { info: run.info.checked(sum)?, ..run })
    }
}

/// A row of `run`. Damage stays with it: only what fails for other reasons is an error.
fn found(row: &rusqlite::Row<'_>, now: Now) -> rusqlite::Result<Found> {
    let key = row.get(0)?;
    let run = match columns(row, key, now) {
        Ok(Some(found)) => Ok(found),
        Ok(None) => Err("its status is none"),
        Err(error) if is_conversion(&error) => Err(WRONG_COLUMN),
        Err(error) => return Err(error),
    };
    let run = match run {
        Ok(run) => Ok(run),
        Err(why) => Err(StoreError::Damaged { run: text(row, 1)?, sequence: 0, why }),
    };
    Ok(Found { key, run })
}

/// A row of `run` and its checksum, in the order of the columns; `None` if there is no such status.
fn columns(row: &rusqlite::Row<'_>, key: i64, now: Now) -> rusqlite::Result<Option<(Run, i64)>> {
    let (lease_end, wake_at): (Option<i64>, Option<i64>) = (row.get(10)?, row.get(11)?);
    let Some(status) = RunStatus::parse(row.get_ref(5)?.as_str()?) else { return Ok(None) };
    // Also what is not used now must be of its type: a row with a wrong one cannot be written again.
    let _: (Option<i64>, Option<i64>) = (row.get(15)?, row.get(23)?);
    let from =
        row.get::<_, Option<String>>(14)?.map(|run| Ok::<_, rusqlite::Error>(Origin { run, sequence: number(row, 15)? }));
    let info = RunInfo {
        id: row.get(1)?,
        graph: row.get(2)?,
        version: GraphVersion { fingerprint: row.get(3)?, schema: row.get(4)? },
        instance: number(row, 19)?,
        status,
        epoch: number(row, 6)?,
        head: number(row, 7)?,
        oldest: number(row, 8)?,
        owner: row.get(9)?,
        lease_until: lease_end.map(|lease_end| now.shown(lease_end)),
        wake_at: wake_at.map(shown_wake),
        takeovers: row.get(12)?,
        trouble: row.get(20)?,
        deadline: match row.get(21)? {
            // The checksum does not tell it from none, and nobody writes it: see `MIN_DEADLINE`.
            Some(0) => return Err(rusqlite::Error::IntegralValueOutOfRange(21, 0)),
            deadline => deadline.map(Timestamp::from_millis),
        },
        posted: number(row, 13)?,
        from: from.transpose()?,
        created: Timestamp::from_millis(row.get(16)?),
        changed: Timestamp::from_millis(row.get(17)?),
    };
    let sum = row.get::<_, i64>(18)? ^ shown_less_stored(&info, lease_end, wake_at);
    Ok(Some((Run { key, info, holder: row.get(22)?, read_wake: wake_at }, sum)))
}

/// A text, as far as it is one.
fn text(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<String> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => format!("{other:?}"),
    })
}

/// Whether a column holds what cannot have been written.
pub(super) fn is_conversion(error: &rusqlite::Error) -> bool {
    use rusqlite::Error;
    matches!(
        error,
        Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::InvalidColumnType(..)
            | Error::Utf8Error(..)
    )
}

/// Whether a page of the file is damaged.
pub(super) fn is_corruption(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseCorrupt)
}

fn number(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c11_a_rare_status_is_listed_without_a_look_at_all_runs() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(super::super::schema::TABLES).unwrap();
        let plan = |query: &str| -> Vec<String> {
            let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
            let steps = statement.query_map([None::<i64>; 8], |row| row.get(3)).unwrap();
            steps.collect::<rusqlite::Result<_>>().unwrap()
        };
        // Nothing is sorted, and a later page begins where the one before has ended.
        assert_eq!(plan(LIST_OF_STATUS), ["SEARCH run USING INDEX run_status (status=? AND rowid<?)"]);
        assert_eq!(plan(LIST), ["SEARCH run USING INTEGER PRIMARY KEY (rowid<?)"]);
    }
}
