//! Finds overdue runs by the index of due runs: one step for each graph version, not for each run.

use super::clock::{Now, stored_due};
use super::read::{OVERDUE, RunRow};
use super::writer::Done;
use crate::store::overdue::{Collector, before};
use crate::store::{DamagedRun, GraphVersion, LIST_MAX, OVERDUE_VERSIONS_MAX, OverdueRun, OverdueRuns, StoreError};
use rusqlite::{Connection, OptionalExtension as _, params};
use std::time::Duration;

/// Finds the next graph version that has unclaimed runs with a wake time.
const NEXT_VERSION: &str = "SELECT graph, fingerprint, schema FROM run WHERE wake_at IS NOT NULL AND holder IS NULL
    AND (graph, fingerprint, schema) > (?1, ?2, ?3) ORDER BY graph, fingerprint, schema LIMIT 1";

/// Returns overdue runs, as [`Store::overdue`](crate::store::Store::overdue) describes.
pub(super) fn overdue(db: &Connection, now: Now, due_for: Duration, count: usize) -> Done<Vec<OverdueRuns>> {
    let (latest, count) = (before(now.wall, due_for), count.min(LIST_MAX));
    let mut collector = Collector::new(count);
    let mut versions = db.prepare_cached(NEXT_VERSION)?;
    let mut overdue = db.prepare_cached(OVERDUE)?;
    let mut last = (String::new(), String::new(), i64::MIN);
    for _ in 0..OVERDUE_VERSIONS_MAX {
        let next = versions.query_row(params![last.0, last.1, last.2], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        let Some(next) = next.optional()? else { break };
        last = next;
        let (graph, fingerprint) = (last.0.clone(), last.1.clone());
        let version = GraphVersion { fingerprint, schema: u32::try_from(last.2).unwrap_or(u32::MAX) };
        // Runs that were due when they were written come first; see `clock`.
        for (from, to) in [(i64::MIN, stored_due(latest)), (0, latest.as_millis())] {
            let rows =
                overdue.query_map(params![last.0, last.1, last.2, from, to, count as i64 + 1], |row| RunRow::read(row, now))?;
            for row in rows {
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
        let plan = |query: &str, count: usize| -> Vec<String> {
            let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
            let values = rusqlite::params_from_iter(vec![None::<i64>; count]);
            let steps = statement.query_map(values, |row| row.get(3)).unwrap();
            steps.collect::<rusqlite::Result<_>>().unwrap()
        };
        let version = "SEARCH run USING INDEX run_due ((graph,fingerprint,schema)>(?,?,?))";
        assert_eq!(plan(NEXT_VERSION, 3), [version]);
        let due = "SEARCH run USING INDEX run_due (graph=? AND fingerprint=? AND schema=? AND wake_at>? AND wake_at<?)";
        assert_eq!(plan(OVERDUE, 6), [due]);
    }
}
