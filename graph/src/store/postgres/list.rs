//! Lists runs. Each combination of filters that has its own index has its own statement.

use super::fault::Failure;
use super::{run_row, sql};
use crate::store::limits::LIST_MAX;
use crate::store::overdue::Collector;
use crate::store::query::{Query, last_key};
use crate::store::run_info::{Filter, GraphVersion, RunList, RunStatus};
use crate::store::time::{Timestamp, millis};
use crate::store::{OVERDUE_VERSIONS_MAX, OverdueRun, OverdueRuns};
use deadpool_postgres::ClientWrapper;
use std::time::Duration;
use tokio_postgres::types::ToSql;

/// Lists runs, as [`Store::list`](crate::store::Store::list) describes.
pub(super) async fn list(
    client: &ClientWrapper,
    filters: Vec<Filter>,
    after: Option<u64>,
    count: usize,
) -> Result<RunList, Failure> {
    let Some(query) = Query::new(filters) else { return Ok(RunList::default()) };
    let millis = |time: Option<Timestamp>| time.map(Timestamp::as_millis);
    let times = [query.created_since, query.created_before, query.changed_since, query.changed_before].map(millis);
    let last_key = last_key(after);
    let count = count.min(LIST_MAX);
    // One more row shows whether another page follows.
    let limit = count as i64 + 1;
    let status = query.status.map(RunStatus::as_str);
    let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&last_key, &times[0], &times[1], &times[2], &times[3], &limit];
    let statement = match (&status, &query.graph) {
        (None, None) => &sql::LIST,
        (Some(_), None) => &sql::LIST_STATUS,
        (None, Some(_)) => &sql::LIST_GRAPH,
        (Some(_), Some(_)) => &sql::LIST_BOTH,
    };
    parameters.extend(status.as_ref().map(|status| status as &(dyn ToSql + Sync)));
    parameters.extend(query.graph.as_ref().map(|graph| graph as &(dyn ToSql + Sync)));
    let found = client.query(&client.prepare_cached(statement).await?, &parameters).await?;
    let has_more = found.len() > count;
    let mut page = RunList::default();
    for row in found.iter().take(count) {
        match run_row::listed(row)? {
            Ok(info) => page.runs.push(info),
            Err(damaged) => page.damaged.push(damaged),
        }
        page.next = has_more.then_some(row.try_get::<_, i64>("no")? as u64);
    }
    Ok(page)
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
