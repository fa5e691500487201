//! Lists runs. Each combination of filters that has its own index has its own statement.
//!
//! A statement reads runs in the order of the list. The conditions that its index does not have are
//! checked here. If they leave a page unfilled, the next runs are read, up to the limit of one
//! call.

use super::fault::Failure;
use super::{run_row, sql};
use crate::store::limits::{LIST_MAX, PREFIX_SORTED_MAX};
use crate::store::overdue::Collector;
use crate::store::query::{Page, Query};
use crate::store::run_info::{Filter, GraphVersion, RunCursor, RunList, RunStatus};
use crate::store::time::{Timestamp, millis};
use crate::store::{OVERDUE_VERSIONS_MAX, OverdueRun, OverdueRuns};
use deadpool_postgres::ClientWrapper;
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// The number of runs that a statement after the first one reads.
const READ_MORE: usize = 1_000;

/// The position before which all runs are.
const NEWEST: RunCursor = RunCursor { created: Timestamp::from_millis(i64::MAX), number: i64::MAX };

/// Lists runs, as [`Store::list`](crate::store::Store::list) describes.
pub(super) async fn list(
    client: &ClientWrapper,
    filters: Vec<Filter>,
    after: Option<RunCursor>,
    count: usize,
) -> Result<RunList, Failure> {
    let Some(query) = Query::new(filters) else { return Ok(RunList::default()) };
    let mut before = query.before(after).unwrap_or(NEWEST);
    if let Some(found) = of_prefix(client, &query).await? {
        let mut page = Page::new(query, count);
        for (at, row) in found.iter().filter(|(at, _)| *at < before) {
            if !page.add(*at, run_row::listed(row)?) {
                break;
            }
        }
        return Ok(page.into_list());
    }
    let place = Place::of(&query);
    let mut page = Page::new(query, count);
    // One more row shows whether another page follows.
    let mut limit = count.min(READ_MORE - 1) + 1;
    loop {
        let found = place.read(client, before, limit).await?;
        for row in &found {
            before = cursor(row, place.column())?;
            if !page.add(before, run_row::listed(row)?) {
                return Ok(page.into_list());
            }
        }
        if found.len() < limit {
            return Ok(page.into_list());
        }
        limit = READ_MORE;
    }
}

/// The part of the filters that an index finds.
struct Place {
    since: i64,
    tag: Option<(String, String)>,
    status: Option<&'static str>,
    graph: Option<String>,
}

impl Place {
    fn of(query: &Query) -> Self {
        Self {
            since: query.created_since.map_or(i64::MIN, Timestamp::as_millis),
            tag: query.tags.iter().next().map(|(key, value)| (key.to_string(), value.to_string())),
            status: query.status.map(RunStatus::as_str),
            graph: query.graph.clone(),
        }
    }

    /// Returns the column with the time by which the runs are listed.
    fn column(&self) -> &'static str {
        if self.tag.is_some() { "listed_at" } else { "created" }
    }

    /// Reads the next runs before this position, the newest first.
    async fn read(&self, client: &ClientWrapper, before: RunCursor, limit: usize) -> Result<Vec<Row>, Failure> {
        let (created, number, limit) = (before.created.as_millis(), before.number, limit as i64);
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&created, &number, &self.since, &limit];
        let statement = match (&self.tag, &self.status, &self.graph) {
            (Some((key, value)), ..) => {
                parameters.extend([key as &(dyn ToSql + Sync), value]);
                &sql::LIST_TAG
            }
            (None, None, None) => &sql::LIST,
            (None, Some(status), None) => {
                parameters.push(status);
                &sql::LIST_STATUS
            }
            (None, None, Some(graph)) => {
                parameters.push(graph);
                &sql::LIST_GRAPH
            }
            (None, Some(status), Some(graph)) => {
                parameters.extend([status as &(dyn ToSql + Sync), graph]);
                &sql::LIST_BOTH
            }
        };
        Ok(client.query(&client.prepare_cached(statement).await?, &parameters).await?)
    }
}

/// Reads the runs with the wanted id prefix, the newest first. Returns `None` without a prefix, and
/// for a prefix of too many runs.
async fn of_prefix(client: &ClientWrapper, query: &Query) -> Result<Option<Vec<(RunCursor, Row)>>, Failure> {
    let Some((first, end)) = query.ids() else { return Ok(None) };
    let statement = client.prepare_cached(&sql::LIST_PREFIX).await?;
    let found = client.query(&statement, &[&first, &end, &(PREFIX_SORTED_MAX as i64 + 1)]).await?;
    if found.len() > PREFIX_SORTED_MAX {
        return Ok(None);
    }
    let mut runs = found.into_iter().map(|row| Ok((cursor(&row, "created")?, row))).collect::<Result<Vec<_>, Failure>>()?;
    runs.sort_unstable_by_key(|(at, _)| std::cmp::Reverse(*at));
    Ok(Some(runs))
}

/// Returns the place of a run in lists.
fn cursor(row: &Row, time: &str) -> Result<RunCursor, Failure> {
    Ok(RunCursor { created: Timestamp::from_millis(row.try_get(time)?), number: row.try_get("no")? })
}

/// Returns overdue runs, as [`Store::overdue`](crate::store::Store::overdue) describes.
pub(super) async fn overdue(client: &ClientWrapper, due_for: Duration, count: usize) -> Result<Vec<OverdueRuns>, Failure> {
    let statement = client.prepare_cached(&sql::OVERDUE).await?;
    let count = count.min(LIST_MAX);
    // One more row of each version shows whether it has more.
    let parameters: [&(dyn ToSql + Sync); 3] = [&millis(due_for), &(count as i64 + 1), &(OVERDUE_VERSIONS_MAX as i64)];
    let mut collector = Collector::new(count);
    for row in client.query(&statement, &parameters).await? {
        let schema: i64 = row.try_get("schema")?;
        let version =
            GraphVersion { fingerprint: row.try_get("fingerprint")?, schema: u32::try_from(schema).unwrap_or(u32::MAX) };
        let since = Timestamp::from_millis(row.try_get("due")?);
        let found = run_row::listed(&row)?.map(|info| OverdueRun { id: info.id, since });
        collector.add(row.try_get("graph")?, version, found);
    }
    Ok(collector.finish())
}
