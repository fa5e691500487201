//! Lists runs. Each combination of filters that has an index has its own statement.
//!
//! A statement reads runs in the order of the list, without a sort. The conditions that its index
//! does not have are checked here, for each run that is read.

use super::clock::Now;
use super::database::Done;
use super::read::{RunRow, columns};
use crate::store::error::StoreError;
use crate::store::limits::PREFIX_SORTED_MAX;
use crate::store::query::{Page, Query};
use crate::store::run_info::{DamagedRun, Filter, RunCursor, RunInfo, RunList, RunStatus};
use crate::store::time::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};

/// The column of a list statement, after those of the run's row, with the time by which the runs
/// are listed. With a tag it is that of the tag table, as the time in the run's own row may be
/// damaged.
const LISTED_AT: usize = 26;

pub(super) const OF_PREFIX: &str = concat!("SELECT ", columns!(), " FROM run WHERE id >= ?1 AND id < ?2 LIMIT ?3");

/// Lists runs, as [`Store::list`](crate::store::Store::list) describes.
pub(super) fn list(db: &Connection, now: Now, filters: Vec<Filter>, after: Option<RunCursor>, count: usize) -> Done<RunList> {
    let Some(query) = Query::new(filters) else { return Ok(Ok(RunList::default())) };
    if let Some(sorted) = of_prefix(db, now, &query)? {
        let before = query.before(after);
        let mut page = Page::new(query, count);
        let wanted = sorted.into_iter().filter(|row| before.is_none_or(|before| row.at < before));
        for row in wanted {
            match add(&mut page, row) {
                Ok(true) => {}
                Ok(false) => break,
                Err(rejected) => return Ok(Err(rejected)),
            }
        }
        return Ok(Ok(page.into_list()));
    }
    let (statement, values) = statement(&query, query.before(after));
    let mut statement = db.prepare_cached(&statement)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut page = Page::new(query, count);
    while let Some(row) = rows.next()? {
        let mut read = RunRow::read(row, now)?;
        if let Ok(created) = row.get_ref(LISTED_AT)?.as_i64() {
            read.at.created = Timestamp::from_millis(created);
        }
        match add(&mut page, read) {
            Ok(true) => {}
            Ok(false) => break,
            Err(rejected) => return Ok(Err(rejected)),
        }
    }
    Ok(Ok(page.into_list()))
}

/// Adds a row to the page. Returns false once the page is complete.
fn add(page: &mut Page, row: RunRow) -> Result<bool, StoreError> {
    let at = row.at;
    let run: Result<RunInfo, DamagedRun> = match row.checked() {
        Ok(run) => Ok(run.info),
        Err(StoreError::Damaged { run, reason, .. }) => Err(DamagedRun { run, reason }),
        Err(other) => return Err(other),
    };
    Ok(page.add(at, run))
}

/// Reads the runs with the wanted id prefix, the newest first. Returns `None` without a prefix, and
/// for a prefix of too many runs.
fn of_prefix(db: &Connection, now: Now, query: &Query) -> rusqlite::Result<Option<Vec<RunRow>>> {
    let Some((first, end)) = query.ids() else { return Ok(None) };
    let mut statement = db.prepare_cached(OF_PREFIX)?;
    let rows = statement.query_map(params![first, end, PREFIX_SORTED_MAX as i64 + 1], |row| RunRow::read(row, now))?;
    let mut rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    rows.sort_unstable_by_key(|row| std::cmp::Reverse(row.at));
    Ok((rows.len() <= PREFIX_SORTED_MAX).then_some(rows))
}

/// Returns the statement for these filters, and its values in order.
pub(super) fn statement(query: &Query, before: Option<RunCursor>) -> (String, Vec<Value>) {
    let text = |text: &str| Value::Text(text.to_string());
    let millis = |time: Timestamp| Value::Integer(time.as_millis());
    let (mut values, mut place, mut order) = (Vec::new(), Vec::new(), ("created", "no"));
    // The planner does not know how rare a status or a graph is, so the index is named.
    let mut from = match (&query.graph, query.status) {
        (None, None) => "run INDEXED BY run_created",
        (None, Some(_)) => "run INDEXED BY run_status",
        (Some(_), None) => "run INDEXED BY run_graph",
        (Some(_), Some(_)) => "run INDEXED BY run_graph_status",
    };
    if let Some((key, value)) = query.tags.iter().next() {
        // The planner keeps the order of a cross join.
        (from, order) = ("tag CROSS JOIN run ON run.no = tag.run", ("run_created", "run"));
        place.extend(["key = ?", "value = ?"]);
        values.extend([text(key), text(value)]);
    } else {
        if let Some(graph) = &query.graph {
            place.push("graph = ?");
            values.push(text(graph));
        }
        if let Some(status) = query.status {
            place.push("status = ?");
            values.push(text(RunStatus::as_str(status)));
        }
    }
    let (created, number) = order;
    // `created` alone bounds the index. The pair decides between runs of the same millisecond.
    let range = [format!("{created} <= ?"), format!("({created}, {number}) < (?, ?)"), format!("{created} >= ?")];
    if let Some(before) = before {
        place.extend([&*range[0], &*range[1]]);
        values.extend([millis(before.created), millis(before.created), Value::Integer(before.number)]);
    }
    if let Some(since) = query.created_since {
        place.push(&range[2]);
        values.push(millis(since));
    }
    let place = if place.is_empty() { String::new() } else { format!(" WHERE {}", place.join(" AND ")) };
    let columns = columns!();
    let statement = format!("SELECT {columns}, {created} FROM {from}{place} ORDER BY {created} DESC, {number} DESC");
    (statement, values)
}
