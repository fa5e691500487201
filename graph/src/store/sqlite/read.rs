//! What is read. Each function runs within one transaction, and so sees one moment.

use super::writer::Done;
use crate::store::asked::{Answer, Query, Sought};
use crate::store::limits::{LIST_MAX, READ_BYTES_MAX, READ_ROWS_MAX, check_text};
use crate::store::{
    Filter, GraphVersion, Mail, Origin, Parts, Post, Row, Rows, RunInfo, RunList, RunStatus, StoreError, Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, params};

/// The columns of a run's row, as [`info`] reads them.
macro_rules! columns {
    () => {
        "no, id, graph, fingerprint, schema, status, epoch, head, oldest, owner, lease_until, wake_at, takeovers, posted, from_run, \
         from_seq, created, changed, sum"
    };
}

const RUN: &str = concat!("SELECT ", columns!(), " FROM run WHERE id = ?1");
const ALL_RUNS: &str = concat!("SELECT ", columns!(), " FROM run");

/// The query for a list, with or without a status: SQLite chooses its index before it knows what is asked for.
macro_rules! list {
    ($status:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM run WHERE ",
            $status,
            " AND no < ifnull(?1, 9223372036854775807) AND (?3 IS NULL OR graph = ?3) AND (?4 IS NULL OR created >= ?4)
    AND (?5 IS NULL OR created < ?5) AND (?6 IS NULL OR changed >= ?6) AND (?7 IS NULL OR changed < ?7) ORDER BY no DESC LIMIT ?8"
        )
    };
}

const LIST: &str = list!("?2 IS NULL");
const LIST_OF_STATUS: &str = list!("status = ?2");

const ROW: &str = "SELECT sum, header, CASE WHEN ?3 THEN body ELSE x'' END FROM log WHERE run = ?1 AND seq = ?2";

const INBOX: &str =
    "SELECT n, at, name, dedup, sum, payload FROM inbox WHERE run = ?1 AND n > ?2 AND taken_seq IS NULL ORDER BY n LIMIT ?3";

/// The store's clock, in milliseconds.
pub(super) fn now(db: &Connection) -> rusqlite::Result<Timestamp> {
    let mut statement = db.prepare_cached("SELECT CAST(round(unixepoch('subsec') * 1000) AS INTEGER)")?;
    statement.query_row([], |row| row.get(0)).map(Timestamp::from_millis)
}

/// A run's key and its row.
pub(super) fn run(db: &Connection, id: &str) -> Done<(i64, RunInfo)> {
    if let Err(refused) = check_text("run id", id) {
        return Ok(Err(refused));
    }
    let found = db.prepare_cached(RUN)?.query_row([id], info).optional()?;
    Ok(found.unwrap_or_else(|| Err(StoreError::Unknown { run: id.to_string() })).and_then(Found::checked))
}

/// The keys of all runs, and what their rows come to.
pub(super) fn sums(db: &Connection) -> rusqlite::Result<Vec<(i64, i64)>> {
    let mut statement = db.prepare(ALL_RUNS)?;
    let runs = statement.query_map([], info)?.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(runs.into_iter().flatten().map(|found| (found.key, found.info.sum())).collect())
}

pub(super) fn rows(db: &Connection, id: &str, which: Rows, parts: Parts) -> Done<Vec<Row>> {
    let (key, info) = match run(db, id)? {
        Ok(run) => run,
        Err(refused) => return Ok(Err(refused)),
    };
    let sequences = match Sought::new(which).and_then(|sought| sought.of_run(id, info.head, info.oldest)) {
        Ok(sequences) => sequences,
        Err(refused) => return Ok(Err(refused)),
    };
    let mut answer = Answer::new(id, info.oldest);
    let mut statement = db.prepare_cached(ROW)?;
    for sequence in sequences {
        let found = statement.query_row(params![key, sequence as i64, parts == Parts::Whole], |row| {
            Ok(Row { sequence, sum: row.get(0)?, header: row.get(1)?, body: row.get(2)? })
        });
        if found.as_ref().is_err_and(is_conversion) {
            let why = "its columns are not what this version writes";
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

pub(super) fn list(db: &Connection, filters: Vec<Filter>, after: Option<u64>, count: usize) -> Done<RunList> {
    let Some(query) = Query::new(filters) else { return Ok(Ok(RunList::default())) };
    let millis = |time: Option<Timestamp>| time.map(Timestamp::as_millis);
    let count = count.min(LIST_MAX);
    let mut statement = db.prepare_cached(if query.status.is_some() { LIST_OF_STATUS } else { LIST })?;
    let found = statement.query_map(
        params![
            after.map(|after| i64::try_from(after).unwrap_or(i64::MAX)),
            query.status.map(RunStatus::as_str),
            query.graph,
            millis(query.created_since),
            millis(query.created_before),
            millis(query.changed_since),
            millis(query.changed_before),
            count as i64 + 1,
        ],
        info,
    )?;
    let found = found.collect::<rusqlite::Result<Result<Vec<_>, _>>>()?;
    Ok(found.and_then(|mut found| {
        let more = found.len() > count;
        found.truncate(count);
        let next = found.last().filter(|_| more).map(|last| last.key as u64);
        let runs: Result<_, _> = found.into_iter().map(|found| found.checked().map(|(_, info)| info)).collect();
        Ok(RunList { runs: runs?, next })
    }))
}

pub(super) fn inbox(db: &Connection, id: &str, after: u64) -> Done<Vec<Mail>> {
    let key = match run(db, id)? {
        Ok((key, _)) => key,
        Err(refused) => return Ok(Err(refused)),
    };
    let mut statement = db.prepare_cached(INBOX)?;
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let mut found = statement.query(params![key, after, READ_ROWS_MAX as i64])?;
    let (mut mail, mut bytes) = (Vec::new(), 0);
    while let Some(row) = found.next()? {
        let post = Post { name: row.get(2)?, dedup: row.get(3)?, sum: row.get(4)?, payload: row.get(5)? };
        bytes += post.payload.len();
        if !mail.is_empty() && bytes > READ_BYTES_MAX {
            break;
        }
        mail.push(Mail { number: number(row, 0)?, at: Timestamp::from_millis(row.get(1)?), post });
    }
    Ok(Ok(mail))
}

/// A row of `run`, with its key and its checksum.
struct Found {
    key: i64,
    info: RunInfo,
    sum: i64,
}

impl Found {
    fn checked(self) -> Result<(i64, RunInfo), StoreError> {
        Ok((self.key, self.info.checked(self.sum)?))
    }
}

/// A row of `run`, in the order of the columns.
fn info(row: &rusqlite::Row<'_>) -> Done<Found> {
    let time = |column| row.get::<_, Option<i64>>(column).map(|millis| millis.map(Timestamp::from_millis));
    let Some(status) = RunStatus::parse(row.get_ref(5)?.as_str()?) else {
        return Ok(Err(StoreError::Damaged { run: row.get(1)?, sequence: 0, why: "its status is none" }));
    };
    let from =
        row.get::<_, Option<String>>(14)?.map(|run| Ok::<_, rusqlite::Error>(Origin { run, sequence: number(row, 15)? }));
    let info = RunInfo {
        id: row.get(1)?,
        graph: row.get(2)?,
        version: GraphVersion { fingerprint: row.get(3)?, schema: row.get(4)? },
        status,
        epoch: number(row, 6)?,
        head: number(row, 7)?,
        oldest: number(row, 8)?,
        owner: row.get(9)?,
        lease_until: time(10)?,
        wake_at: time(11)?,
        takeovers: row.get(12)?,
        posted: number(row, 13)?,
        from: from.transpose()?,
        created: Timestamp::from_millis(row.get(16)?),
        changed: Timestamp::from_millis(row.get(17)?),
    };
    Ok(Ok(Found { key: row.get(0)?, info, sum: row.get(18)? }))
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
        db.execute_batch(super::super::file::TABLES).unwrap();
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
