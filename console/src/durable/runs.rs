//! The views `runs` and `run_groups`: pages and counts of runs.
//!
//! A page is read with indexes, the newest runs first, and continues after a position and not after
//! a count, so that new runs do not shift it. A page can be short and still have a `next`.

use super::StoreSource;
use super::merged::{self, Positions};
use crate::failure::Failure;
use crate::report::groups::{self, CountLimits, GroupBy};
use crate::report::list::ListJson;
use crate::report::times::parse_since;
use crate::view::{Filters, RunGroups, Runs};
use pleach::store::{Filter, RunCursor, RunList, RunStatus, Store};
use serde_json::Value;

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
    let mut limit = asked.limit.unwrap_or(PAGE.0).clamp(1, PAGE.1) as usize;
    let store = source.store();
    // Rows with long reasons and tags make a shorter page.
    loop {
        let (list, next) = match statuses.as_slice() {
            [] | [_] => {
                let filters = filters.iter().cloned().chain(statuses.first().copied().map(Filter::Status)).collect();
                let after = asked.after.as_deref().map(str::parse::<RunCursor>).transpose()?;
                let list = one_list(&**store.store(), filters, after, limit).await?;
                let next = list.next.map(|next| next.to_string());
                (list, next)
            }
            statuses => {
                let from = asked.after.as_deref().map(str::parse).transpose()?;
                let from = from.unwrap_or_else(|| Positions::start(statuses));
                let (list, next) = merged::page(&**store.store(), &filters, from, limit).await?;
                (list, next.map(|next| next.to_string()))
            }
        };
        let answer = super::value_of(&ListJson::of(store.name(), &list, next))?;
        if limit == 1 || super::size_of(&answer) <= super::ANSWER_BYTES_MAX {
            return Ok(answer);
        }
        limit /= 2;
    }
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
    let mut counted = groups::count(source.store(), filters, by, COUNT_LIMITS).await?;
    // Long names leave room for fewer groups, the largest ones.
    loop {
        let answer = super::value_of(&counted)?;
        if super::size_of(&answer) <= super::ANSWER_BYTES_MAX {
            return Ok(answer);
        }
        counted.groups.truncate(counted.groups.len() / 2);
        counted.is_cut = true;
    }
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
