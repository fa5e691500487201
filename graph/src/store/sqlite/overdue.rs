//! Finds overdue runs by the index of due runs: one step for each graph version, not for each run.

use super::clock::{Now, stored_due};
use super::database::Done;
use super::read::{OVERDUE, RunRow};
use crate::store::overdue::{Collector, before};
use crate::store::{DamagedRun, GraphVersion, LIST_MAX, OVERDUE_VERSIONS_MAX, OverdueRun, OverdueRuns, StoreError};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params, params_from_iter};
use std::time::Duration;

/// Finds the next graph version that has unclaimed runs with a wake time. Texts are read as bytes,
/// because a damaged one may not be text. One comparison of all three columns would not use the
/// index.
macro_rules! next_version {
    ($place:literal, $order:literal) => {
        concat!(
            "SELECT CAST(graph AS BLOB), CAST(fingerprint AS BLOB), schema FROM run WHERE wake_at IS NOT NULL AND holder IS NULL AND ",
            $place,
            " ORDER BY ",
            $order,
            " LIMIT 1"
        )
    };
}

/// By schema, then by fingerprint, then by graph.
const NEXT_VERSION: [&str; 3] = [
    next_version!("graph = CAST(?1 AS TEXT) AND fingerprint = CAST(?2 AS TEXT) AND schema > ?3", "schema"),
    next_version!("graph = CAST(?1 AS TEXT) AND fingerprint > CAST(?2 AS TEXT)", "fingerprint, schema"),
    next_version!("graph > CAST(?1 AS TEXT)", "graph, fingerprint, schema"),
];

/// A graph version as its columns have it.
type StoredVersion = (Vec<u8>, Vec<u8>, Value);

/// Returns the version that follows `last` in the index.
fn next_version(db: &Connection, last: &StoredVersion) -> rusqlite::Result<Option<StoredVersion>> {
    let values = [Value::Blob(last.0.clone()), Value::Blob(last.1.clone()), last.2.clone()];
    for query in NEXT_VERSION {
        let mut statement = db.prepare_cached(query)?;
        let values = params_from_iter(values.iter().take(statement.parameter_count()));
        let found = statement.query_row(values, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        // A damaged value that is not text is found again after all others.
        if let Some(found) = found.optional()?.filter(|found| found != last) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Returns overdue runs, as [`Store::overdue`](crate::store::Store::overdue) describes.
pub(super) fn overdue(db: &Connection, now: Now, due_for: Duration, count: usize) -> Done<Vec<OverdueRuns>> {
    let (latest, count) = (before(now.wall, due_for), count.min(LIST_MAX));
    let mut collector = Collector::new(count);
    let mut overdue = db.prepare_cached(OVERDUE)?;
    let mut last: StoredVersion = (Vec::new(), Vec::new(), Value::Integer(i64::MIN));
    for _ in 0..OVERDUE_VERSIONS_MAX {
        let Some(next) = next_version(db, &last)? else { break };
        last = next;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let schema = if let Value::Integer(schema) = last.2 { u32::try_from(schema).unwrap_or(u32::MAX) } else { u32::MAX };
        let (graph, version) = (text(&last.0), GraphVersion { fingerprint: text(&last.1), schema });
        // Runs that were due when they were written come first; see `clock`.
        for (from, to) in [(i64::MIN, stored_due(latest)), (0, latest.as_millis())] {
            let wanted = params![last.0, last.1, last.2, from, to, count as i64 + 1];
            for row in overdue.query_map(wanted, |row| RunRow::read(row, now))? {
                let found = match row?.checked() {
                    Ok(run) => match run.info.overdue_since(now.wall) {
                        Some(since) => Ok(OverdueRun { id: run.info.id, since }),
                        None => continue,
                    },
                    Err(StoreError::Damaged { run, reason, .. }) => Err(DamagedRun { run, reason }),
                    Err(other) => return Ok(Err(other)),
                };
                collector.add(graph.clone(), version.clone(), found);
            }
        }
    }
    Ok(Ok(collector.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o8_overdue_runs_are_found_by_an_index() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(super::super::schema::TABLES).unwrap();
        let plan = |query: &str| -> Vec<String> {
            let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
            let values = params_from_iter(vec![None::<i64>; statement.parameter_count()]);
            let steps = statement.query_map(values, |row| row.get(3)).unwrap();
            steps.collect::<rusqlite::Result<_>>().unwrap()
        };
        let places = ["graph=? AND fingerprint=? AND schema>?", "graph=? AND fingerprint>?", "graph>?"];
        for (query, place) in NEXT_VERSION.into_iter().zip(places) {
            assert_eq!(plan(query), [format!("SEARCH run USING INDEX run_due ({place})")]);
        }
        let due = "SEARCH run USING INDEX run_due (graph=? AND fingerprint=? AND schema=? AND wake_at>? AND wake_at<?)";
        assert_eq!(plan(OVERDUE), [due]);
    }
}
