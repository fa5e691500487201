//! The queries of a store. Each function runs within one transaction, so it sees one snapshot.
//!
//! A result has two levels ([`Done`]): the outer error is a failure of the database, the inner one
//! is an answer for the caller, such as `RunNotFound` or `Damaged`.

use super::clock::{Now, shown_wake};
use super::database::Done;
use super::schema::sum_value;
use crate::store::error::StoreError;
use crate::store::limits::{READ_BYTES_MAX, READ_ROWS_MAX, check_text};
use crate::store::query::{Answer, RowQuery};
use crate::store::row::{InboxMessage, NewMessage, Row};
use crate::store::run_info::{GraphVersion, Origin, RunCursor, RunInfo, RunStatus};
use crate::store::time::Timestamp;
use crate::store::{Parts, RefusedMessage, Rows, RunFailure, Tags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _, params};

/// The columns of a run's row, in the order in which [`read_columns`] reads them.
macro_rules! columns {
    () => {
        "no, id, graph, fingerprint, schema, status, epoch, head, oldest, owner, lease_end, wake_at, takeovers, posted, from_run, \
         from_seq, created, changed, sum, instance, trouble, deadline, holder, \
         ended, tags, failure"
    };
}

pub(super) use columns;

const RUN: &str = concat!("SELECT ", columns!(), " FROM run WHERE id = ?1");
/// Selects unclaimed runs of one version with a wake time in a range.
pub(super) const OVERDUE: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM run WHERE graph = CAST(?1 AS TEXT) AND fingerprint = CAST(?2 AS TEXT) AND schema = ?3
    AND wake_at IS NOT NULL AND holder IS NULL AND wake_at BETWEEN ?4 AND ?5 ORDER BY wake_at, no LIMIT ?6"
);
const RUN_BY_KEY: &str = concat!("SELECT ", columns!(), " FROM run WHERE no = ?1");
const ALL_RUNS: &str = concat!("SELECT ", columns!(), " FROM run");

const ROW: &str = "SELECT sum, header, CASE WHEN ?3 THEN body ELSE x'' END FROM log WHERE run = ?1 AND seq = ?2";

/// Selects records of a run below its head. Without the head as a bound, the search would read into
/// the rows of another run.
const SEQUENCES: &str = "SELECT seq FROM log WHERE run = ?1 AND seq > ?2 AND seq < ?3 ORDER BY seq LIMIT ?4";

const INBOX: &str =
    "SELECT n, at, name, dedup, sum, payload FROM inbox WHERE run = ?1 AND n > ?2 AND taken_seq IS NULL ORDER BY n LIMIT ?3";

pub(super) const UNTAKEN: &str = "SELECT EXISTS (SELECT 1 FROM inbox WHERE run = ?1 AND n = ?2 AND taken_seq IS NULL)";

const REFUSED: &str = "SELECT n, at, name, refused, cause FROM inbox WHERE run = ?1 AND refused IS NOT NULL ORDER BY n";

/// The damage of a run whose own row has an invalid column.
pub(super) const WRONG_COLUMN: &str = "a column of the run's row has the wrong type or is out of range";

/// The damage of a run with a corrupt page. Other pages can be intact.
pub(super) const CORRUPT_PAGE: &str = "a page of the SQLite file is corrupt there";

/// The earliest deadline. 0 is not possible, because a missing deadline counts as 0 in the checksum
/// of a row.
pub(super) const MIN_DEADLINE: Timestamp = Timestamp::from_millis(1);

/// The statements that read one run, for tests that count their work.
#[cfg(test)]
pub(super) const COUNTED: [&str; 2] = [RUN, RUN_BY_KEY];

/// A run's own row after its checksum was verified.
pub(super) struct Run {
    pub(super) key: i64,
    /// The row as callers see it: the lease ends by the time of day.
    pub(super) info: RunInfo,
    /// The store that holds the lease; see `schema`.
    pub(super) holder: Option<String>,
    /// The wake time as it was read.
    pub(super) read_wake: Option<i64>,
}

impl Run {
    /// Returns the stored form of the lease end.
    pub(super) fn lease_end(&self, now: Now) -> Option<i64> {
        self.info.lease_until.map(|until| now.stored(until))
    }

    /// Returns the stored form of the wake time. An unchanged time keeps its stored form, so a due
    /// run stays due.
    pub(super) fn wake_at(&self, now: Now) -> Option<i64> {
        let at = self.info.wake_at?;
        self.read_wake.filter(|read| shown_wake(*read) == at && *read < 0).or_else(|| Some(now.stored_wake(at)))
    }

    /// Returns the checksum of the stored row.
    pub(super) fn sum(&self, now: Now) -> i64 {
        self.info.sum() ^ shown_xor_stored(&self.info, self.lease_end(now), self.wake_at(now))
    }
}

/// Returns the difference between the checksums of the shown and the stored row. Their times
/// differ.
fn shown_xor_stored(info: &RunInfo, lease_end: Option<i64>, wake_at: Option<i64>) -> i64 {
    let shown = |time: Option<Timestamp>| sum_value(time.map(Timestamp::as_millis));
    shown(info.lease_until) ^ sum_value(lease_end) ^ shown(info.wake_at) ^ sum_value(wake_at)
}

/// Reads a run's row by its id.
pub(super) fn run(db: &Connection, now: Now, id: &str) -> Done<Run> {
    if let Err(rejected) = check_text("run id", id) {
        return Ok(Err(rejected));
    }
    let row = db.prepare_cached(RUN)?.query_row([id], |row| RunRow::read(row, now)).optional()?;
    Ok(row.map_or_else(|| Err(StoreError::RunNotFound { run: id.to_string() }), RunRow::checked))
}

/// Reads a run's row by its key.
pub(super) fn run_by_key(db: &Connection, now: Now, key: i64) -> Done<Run> {
    let row = db.prepare_cached(RUN_BY_KEY)?.query_row([key], |row| RunRow::read(row, now)).optional()?;
    Ok(row.map_or_else(|| Err(StoreError::RunNotFound { run: key.to_string() }), RunRow::checked))
}

/// Returns the keys of all readable runs, and the checksums of their rows.
pub(super) fn sums(db: &Connection, now: Now) -> rusqlite::Result<Vec<(i64, i64)>> {
    let mut statement = db.prepare(ALL_RUNS)?;
    let rows = statement.query_map([], |row| RunRow::read(row, now))?.collect::<rusqlite::Result<Vec<_>>>()?;
    let sum = |run: &Run| run.info.sum() ^ shown_xor_stored(&run.info, run.lease_end(now), run.read_wake);
    Ok(rows.into_iter().filter_map(|row| row.run.ok()).map(|(run, _)| (run.key, sum(&run))).collect())
}

/// Reads rows of a log, as [`Store::read`](crate::store::Store::read) describes.
pub(super) fn rows(db: &Connection, now: Now, id: &str, which: Rows, parts: Parts) -> Done<Vec<Row>> {
    let (key, info) = match run(db, now, id)? {
        Ok(run) => (run.key, run.info),
        Err(rejected) => return Ok(Err(rejected)),
    };
    let sequences = match RowQuery::new(which).and_then(|query| query.of_run(id, info.head, info.oldest)) {
        Ok(sequences) => sequences,
        Err(rejected) => return Ok(Err(rejected)),
    };
    let mut answer = Answer::new(id, info.oldest);
    let mut statement = db.prepare_cached(ROW)?;
    for sequence in sequences {
        let found = statement.query_row(params![key, sequence as i64, parts == Parts::Whole], |row| {
            Ok(Row { sequence, sum: row.get(0)?, header: row.get(1)?, body: row.get(2)? })
        });
        let reason = match &found {
            Err(error) if is_conversion(error) => Some("its columns are not what this version writes"),
            Err(error) if is_corruption(error) => Some(CORRUPT_PAGE),
            _ => None,
        };
        if let Some(reason) = reason {
            return Ok(Err(StoreError::Damaged { run: id.to_string(), sequence, reason }));
        }
        match answer.add(sequence, found.optional()?) {
            Ok(true) => {}
            Ok(false) => break,
            Err(rejected) => return Ok(Err(rejected)),
        }
    }
    Ok(Ok(answer.into_rows()))
}

/// Reads some whole records of a run after `after` to find damage, including records kept below the
/// oldest.
///
/// Returns the last sequence that was read, or `None` at the head.
pub(super) fn scan(db: &Connection, now: Now, id: &str, after: u64) -> Done<Option<u64>> {
    let (key, head) = match run(db, now, id)? {
        Ok(run) => (run.key, run.info.head),
        Err(rejected) => return Ok(Err(rejected)),
    };
    if after >= head {
        return Ok(Ok(None));
    }
    let mut statement = db.prepare_cached(SEQUENCES)?;
    let below = statement.query_map(params![key, after as i64, head as i64, READ_ROWS_MAX as i64], |row| number(row, 0));
    let mut sequences = match below.and_then(Iterator::collect::<rusqlite::Result<Vec<u64>>>) {
        Err(error) if is_corruption(&error) => {
            return Ok(Err(StoreError::Damaged { run: id.to_string(), sequence: 0, reason: CORRUPT_PAGE }));
        }
        sequences => sequences?,
    };
    if sequences.len() < READ_ROWS_MAX {
        sequences.push(head);
    }
    let read = rows(db, now, id, Rows::Each(sequences), Parts::Whole)?;
    Ok(read.map(|rows| rows.last().map(|last| last.sequence).filter(|last| *last < head)))
}

/// Reads the refused messages, as [`Store::refused`](crate::store::Store::refused) describes.
pub(super) fn refused(db: &Connection, now: Now, id: &str) -> Done<Vec<RefusedMessage>> {
    let key = match run(db, now, id)? {
        Ok(run) => run.key,
        Err(rejected) => return Ok(Err(rejected)),
    };
    let mut statement = db.prepare_cached(REFUSED)?;
    let refused = statement.query_map([key], |row| {
        let at = Timestamp::from_millis(row.get_ref(1)?.as_i64().unwrap_or(0));
        let refused = RefusedMessage::new(number(row, 0).unwrap_or(0), text(row, 2)?, text(row, 3)?, at);
        Ok(refused.with_stored_cause(row.get(4).unwrap_or_default()))
    })?;
    Ok(Ok(refused.collect::<rusqlite::Result<_>>()?))
}

/// Reads untaken messages, as [`Store::inbox`](crate::store::Store::inbox) describes.
pub(super) fn inbox(db: &Connection, now: Now, id: &str, after: u64) -> Done<Vec<InboxMessage>> {
    let key = match run(db, now, id)? {
        Ok(run) => run.key,
        Err(rejected) => return Ok(Err(rejected)),
    };
    let mut statement = db.prepare_cached(INBOX)?;
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![key, after, READ_ROWS_MAX as i64])?;
    let (mut messages, mut bytes) = (Vec::new(), 0);
    loop {
        let row = match rows.next() {
            Ok(Some(row)) => row,
            Ok(None) => break,
            Err(error) if is_corruption(&error) => {
                return Ok(Err(StoreError::Damaged { run: id.to_string(), sequence: 0, reason: CORRUPT_PAGE }));
            }
            Err(error) => return Err(error),
        };
        // A message without a valid number cannot be taken, so it is skipped.
        let Ok(number) = number(row, 0) else { continue };
        let message = match new_message(row) {
            Err(error) if is_conversion(&error) => damaged_message(row, id)?,
            message => message?,
        };
        bytes += message.payload.len();
        if !messages.is_empty() && bytes > READ_BYTES_MAX {
            break;
        }
        let at = row.get_ref(1)?.as_i64().unwrap_or(0);
        messages.push(InboxMessage { number, at: Timestamp::from_millis(at), message });
    }
    Ok(Ok(messages))
}

/// Returns whether a message waits, as [`Store::is_untaken`](crate::store::Store::is_untaken)
/// describes.
pub(super) fn is_untaken(db: &Connection, now: Now, id: &str, number: u64) -> Done<bool> {
    let key = match run(db, now, id)? {
        Ok(run) => run.key,
        Err(rejected) => return Ok(Err(rejected)),
    };
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    db.prepare_cached(UNTAKEN)?.query_row([key, number], |row| row.get(0)).map(Ok)
}

fn new_message(row: &rusqlite::Row<'_>) -> rusqlite::Result<NewMessage> {
    Ok(NewMessage { name: row.get(2)?, dedup: row.get(3)?, sum: row.get(4)?, payload: row.get(5)? })
}

/// Returns the readable part of a damaged message with a wrong checksum, so that opening it reports
/// the damage.
fn damaged_message(row: &rusqlite::Row<'_>, id: &str) -> rusqlite::Result<NewMessage> {
    let mut message = NewMessage::seal(id, text(row, 2)?, None, Vec::new());
    message.sum = !message.sum;
    Ok(message)
}

/// A row of the table `run` before its checksum is verified.
pub(super) struct RunRow {
    /// The place of the run in lists.
    pub(super) at: RunCursor,
    /// The row with its checksum, converted to the shown times; or the damage of the row.
    run: Result<(Run, i64), StoreError>,
}

impl RunRow {
    pub(super) fn checked(self) -> Result<Run, StoreError> {
        let (run, sum) = self.run?;
        Ok(Run { info: run.info.checked(sum)?, ..run })
    }

    /// Reads a row. Damage is stored in the result; only other failures are errors.
    pub(super) fn read(row: &rusqlite::Row<'_>, now: Now) -> rusqlite::Result<Self> {
        let key = row.get(0)?;
        // A damaged time of another type is above all numbers in the order of the index.
        let created = Timestamp::from_millis(row.get_ref(16)?.as_i64().unwrap_or(i64::MAX));
        let run = match read_columns(row, key, now) {
            Ok(Some(run)) => Ok(run),
            Ok(None) => Err("its status is unknown"),
            Err(error) if is_conversion(&error) => Err(WRONG_COLUMN),
            Err(error) => return Err(error),
        };
        let run = match run {
            Ok(run) => Ok(run),
            Err(reason) => Err(StoreError::Damaged { run: text(row, 1)?, sequence: 0, reason }),
        };
        Ok(Self { at: RunCursor { created, number: key }, run })
    }
}

/// Reads a row of `run` and its checksum, in the order of the columns; `None` for an unknown
/// status.
fn read_columns(row: &rusqlite::Row<'_>, key: i64, now: Now) -> rusqlite::Result<Option<(Run, i64)>> {
    let (lease_end, wake_at): (Option<i64>, Option<i64>) = (row.get(10)?, row.get(11)?);
    let Some(status) = RunStatus::parse(row.get_ref(5)?.as_str()?) else { return Ok(None) };
    // Unused columns must have the right type too. Otherwise the row cannot be updated.
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
            // The checksum cannot tell 0 from a missing deadline, so 0 is never written; see
            // `MIN_DEADLINE`.
            Some(0) => return Err(rusqlite::Error::IntegralValueOutOfRange(21, 0)),
            deadline => deadline.map(Timestamp::from_millis),
        },
        last_message: number(row, 13)?,
        from: from.transpose()?,
        created: Timestamp::from_millis(row.get(16)?),
        changed: Timestamp::from_millis(row.get(17)?),
        tags: match Tags::of_stored(row.get::<_, Option<String>>(24)?.as_deref()) {
            Some(tags) => tags,
            None => return Err(rusqlite::Error::IntegralValueOutOfRange(24, 0)),
        },
        failure: RunFailure::of_stored(row.get(25)?),
    };
    let sum = row.get::<_, i64>(18)? ^ shown_xor_stored(&info, lease_end, wake_at);
    Ok(Some((Run { key, info, holder: row.get(22)?, read_wake: wake_at }, sum)))
}

/// Reads a column as text, even if it has another type.
pub(super) fn text(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<String> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => format!("{other:?}"),
    })
}

/// Returns whether a column has a value that no version has written.
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

/// Returns whether a page of the file is corrupt.
pub(super) fn is_corruption(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseCorrupt)
}

fn number(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}
