//! The views `runs` and `run_groups`: pages and counts of runs.
//!
//! A page is read with indexes, the newest runs first, and continues after a position and not after
//! a count, so that new runs do not shift it. A page can be short and still have a `next`.

use super::StoreSource;
use crate::failure::Failure;
use crate::report::groups::{self, CountLimits, GroupBy};
use crate::report::list::ListJson;
use crate::report::times::parse_since;
use crate::view::{Filters, RunGroups, Runs};
use pleach::store::{Filter, RunCursor, RunInfo, RunList, RunStatus, Store};
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::HashSet;

/// The runs of a page: default and limit.
const PAGE: (u64, u64) = (50, 200);

/// The most calls of the store for one page. Each examines at most 10,000 runs.
const CALLS_MAX: usize = 3;

/// Counts of runs end at this number.
pub(super) const COUNT_MAX: u64 = 1_000;

/// Where counts of runs by group stop.
const COUNT_LIMITS: CountLimits = CountLimits { runs: COUNT_MAX, pages: 3 };

pub(super) async fn page(source: &StoreSource, asked: &Runs) -> Result<Value, Failure> {
    let (statuses, filters) = parse(&asked.filters)?;
    let limit = asked.limit.unwrap_or(PAGE.0).clamp(1, PAGE.1) as usize;
    let store = source.store();
    let (list, next) = match statuses.as_slice() {
        [] | [_] => {
            let filters = filters.into_iter().chain(statuses.first().copied().map(Filter::Status)).collect();
            let after = asked.after.as_deref().map(str::parse::<RunCursor>).transpose()?;
            let list = one_list(&**store.store(), filters, after, limit).await?;
            let next = list.next.map(|next| next.to_string());
            (list, next)
        }
        statuses => merged(&**store.store(), statuses, &filters, asked.after.as_deref(), limit).await?,
    };
    super::value_of(&ListJson::of(store.name(), &list, next))
}

pub(super) async fn count(source: &StoreSource, asked: &RunGroups) -> Result<Value, Failure> {
    let by = match asked.group_by.as_str() {
        "error" => GroupBy::Error,
        "graph" => GroupBy::Graph,
        "status" => GroupBy::Status,
        other => {
            return Err(Failure::new("bad_request", format_args!("runs cannot be grouped by {other:?}"))
                .advice("group by status, graph or error"));
        }
    };
    let (statuses, filters) = parse(&asked.filters)?;
    if statuses.len() > 1 {
        return Err(Failure::new("bad_request", "runs of several statuses cannot be counted together")
            .advice("choose one status, or group by status"));
    }
    let filters = filters.into_iter().chain(statuses.first().copied().map(Filter::Status)).collect();
    super::value_of(&groups::count(source.store(), filters, by, COUNT_LIMITS).await?)
}

/// Parses filters: the statuses, and the conditions that all runs must meet.
pub(super) fn parse(filters: &Filters) -> Result<(Vec<RunStatus>, Vec<Filter>), Failure> {
    let wrong = |text: String| Failure::new("bad_request", text);
    let mut statuses = Vec::new();
    for name in &filters.status {
        let known = RunStatus::parse(&name.replace(['-', '_'], " "));
        let status = known.ok_or_else(|| wrong(format!("no run has the status {name:?}")))?;
        if !statuses.contains(&status) {
            statuses.push(status);
        }
    }
    if filters.failed {
        if !statuses.is_empty() {
            return Err(wrong("the filters `failed` and `status` exclude each other".into()));
        }
        statuses.push(RunStatus::Failed);
    }
    let tag = match &filters.tag {
        Some(tag) => {
            let (key, value) = tag.split_once('=').ok_or_else(|| wrong(format!("{tag:?} is not KEY=VALUE")))?;
            Some(Filter::tag(key, value))
        }
        None => None,
    };
    let time = |text: &Option<String>| text.as_deref().map(parse_since).transpose().map_err(wrong);
    let conditions = [
        filters.graph.clone().map(Filter::Graph),
        filters.id_prefix.clone().map(Filter::IdPrefix),
        time(&filters.since)?.map(Filter::CreatedSince),
        time(&filters.before)?.map(Filter::CreatedBefore),
        tag,
    ];
    Ok((statuses, conditions.into_iter().flatten().collect()))
}

/// Reads up to `limit` runs, with a bounded number of calls.
pub(super) async fn one_list(
    store: &dyn Store,
    filters: Vec<Filter>,
    mut after: Option<RunCursor>,
    limit: usize,
) -> Result<RunList, Failure> {
    let mut all = RunList::default();
    for _ in 0..CALLS_MAX {
        let page = store.list(filters.clone(), after, limit - all.runs.len()).await?;
        all.runs.extend(page.runs);
        all.damaged.extend(page.damaged);
        (after, all.next) = (page.next, page.next);
        if after.is_none() || all.runs.len() >= limit {
            break;
        }
    }
    Ok(all)
}

/// Merges the lists of several statuses, the newest runs first. The cursor has the position in each
/// list: `failed:CURSOR,stuck:` with nothing after the colon for the start of a list.
async fn merged(
    store: &dyn Store,
    statuses: &[RunStatus],
    filters: &[Filter],
    after: Option<&str>,
    limit: usize,
) -> Result<(RunList, Option<String>), Failure> {
    let starts = match after {
        Some(text) => positions(text)?,
        None => statuses.iter().map(|status| (*status, None)).collect(),
    };
    let of_status = |status| filters.iter().cloned().chain([Filter::Status(status)]).collect::<Vec<_>>();
    let mut lists = Vec::new();
    for (status, after) in starts {
        lists.push((status, after, store.list(of_status(status), after, limit).await?));
    }
    // Below this time, a list may have runs that were not read yet.
    let known_until = lists.iter().filter_map(|(_, _, list)| list.next).map(|next| next.created).max();
    let mut all = RunList::default();
    for (_, _, list) in &mut lists {
        all.damaged.append(&mut list.damaged);
        all.runs.extend(list.runs.iter().filter(|run| known_until.is_none_or(|until| run.created >= until)).cloned());
    }
    all.runs.sort_by_key(|run| Reverse(run.created));
    all.runs.truncate(limit);
    let taken: HashSet<&str> = all.runs.iter().map(|run| run.id.as_str()).collect();
    let mut next = Vec::new();
    for (status, after, list) in lists {
        let count = list.runs.iter().filter(|run| taken.contains(run.id.as_str())).count();
        let is_whole = count == list.runs.len();
        let position = match is_whole {
            true => list.next,
            false => position_after(store, of_status(status), after, &taken, count).await?,
        };
        if !is_whole || position.is_some() {
            let position = position.map(|position| position.to_string()).unwrap_or_default();
            next.push(format!("{}:{position}", status.as_str()));
        }
    }
    Ok((all, (!next.is_empty()).then(|| next.join(","))))
}

fn positions(text: &str) -> Result<Vec<(RunStatus, Option<RunCursor>)>, Failure> {
    let wrong = || Failure::new("bad_request", format_args!("{text:?} is not a cursor of this list"));
    let one = |part: &str| {
        let (status, cursor) = part.split_once(':').ok_or_else(wrong)?;
        let cursor = if cursor.is_empty() { None } else { Some(cursor.parse()?) };
        Ok((RunStatus::parse(status).ok_or_else(wrong)?, cursor))
    };
    text.split(',').map(one).collect()
}

/// Returns the position after the first `count` runs of a list, all of which were taken.
async fn position_after(
    store: &dyn Store,
    filters: Vec<Filter>,
    after: Option<RunCursor>,
    taken: &HashSet<&str>,
    count: usize,
) -> Result<Option<RunCursor>, Failure> {
    let mut wanted = count;
    // A damaged row takes the place of a run. A run that has left the list since makes room for one
    // that was not taken.
    for _ in 0..4 {
        if wanted == 0 {
            return Ok(after);
        }
        let page = store.list(filters.clone(), after, wanted).await?;
        let is_taken = |run: &&RunInfo| taken.contains(run.id.as_str());
        let known = page.runs.iter().take_while(is_taken).count();
        if known < page.runs.len() {
            wanted = known;
        } else if known >= count || page.next.is_none() {
            return Ok(page.next.or(after));
        } else {
            wanted += count - known;
        }
    }
    Ok(after)
}
