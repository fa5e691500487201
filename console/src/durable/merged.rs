//! Pages of runs of several statuses, the newest first.
//!
//! A store lists the runs of one status in the order of their creation. A page merges these lists.
//! A run can change its status between two pages, so a cursor has two parts:
//!
//! 1. the time of creation down to which runs were listed: later pages have no newer run,
//! 2. the position in each list: after the runs of it that were listed.
//!
//! So no run is listed twice, and none is missed that was there all the time. Only if several runs
//! were created in the millisecond at which a page ends, one that changes its status is in doubt.

use crate::failure::Failure;
use pleach::store::{Filter, RunCursor, RunInfo, RunList, RunStatus, Store, Timestamp};
use std::cmp::Reverse;
use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

/// How often a position is looked for while runs leave the list.
const TRIES_MAX: usize = 4;

/// Where a page of several statuses continues. Its text form is a cursor: `MILLIS,failed:1-2,stuck:`
/// with nothing after the colon for the start of a list.
pub(super) struct Positions {
    /// Newer runs were listed already.
    until: Option<Timestamp>,
    lists: Vec<(RunStatus, Option<RunCursor>)>,
}

/// The list of one status: where it started, and what was read.
struct List {
    status: RunStatus,
    after: Option<RunCursor>,
    page: RunList,
}

impl Positions {
    pub(super) fn start(statuses: &[RunStatus]) -> Self {
        Self { until: None, lists: statuses.iter().map(|status| (*status, None)).collect() }
    }
}

impl fmt::Display for Positions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.until.map(|until| until.as_millis().to_string()).unwrap_or_default())?;
        self.lists.iter().try_for_each(|(status, after)| match after {
            Some(after) => write!(f, ",{}:{after}", status.as_str()),
            None => write!(f, ",{}:", status.as_str()),
        })
    }
}

impl FromStr for Positions {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let wrong = || Failure::new("bad_request", format_args!("{text:?} is not a cursor of this list"));
        let one = |part: &str| {
            let (status, after) = part.split_once(':').ok_or_else(wrong)?;
            let after = if after.is_empty() { None } else { Some(after.parse()?) };
            Ok((RunStatus::parse(status).ok_or_else(wrong)?, after))
        };
        let mut parts = text.split(',');
        let until = parts.next().filter(|until| !until.is_empty());
        let until = until.map(str::parse).transpose().map_err(|_| wrong())?.map(Timestamp::from_millis);
        let lists: Vec<_> = parts.map(one).collect::<Result<_, Failure>>()?;
        let is_known = !lists.is_empty() && lists.len() <= RunStatus::ALL.len();
        if is_known { Ok(Self { until, lists }) } else { Err(wrong()) }
    }
}

/// Reads up to `limit` runs, the newest first, and where the next page starts.
pub(super) async fn page(
    store: &dyn Store,
    filters: &[Filter],
    from: Positions,
    limit: usize,
) -> Result<(RunList, Option<Positions>), Failure> {
    let until = from.until.map(|until| Filter::CreatedBefore(Timestamp::from_millis(until.as_millis().saturating_add(1))));
    let filters: Vec<Filter> = filters.iter().cloned().chain(until).collect();
    let mut lists = Vec::new();
    for (status, after) in from.lists {
        let page = store.list(of_status(&filters, status), after, limit).await?;
        lists.push(List { status, after, page });
    }
    // Below this time, a list may have runs that were not read yet.
    let known_until = lists.iter().filter_map(|list| list.page.next).map(|next| next.created).max();
    let mut all = RunList::default();
    for List { page, .. } in &mut lists {
        all.damaged.append(&mut page.damaged);
        all.runs.extend(page.runs.iter().filter(|run| known_until.is_none_or(|until| run.created >= until)).cloned());
    }
    all.runs.sort_by_key(|run| Reverse(run.created));
    all.runs.truncate(limit);
    let taken: HashSet<&str> = all.runs.iter().map(|run| run.id.as_str()).collect();
    let is_whole = |list: &List| list.page.next.is_none() && list.page.runs.iter().all(|run| taken.contains(run.id.as_str()));
    if lists.iter().all(is_whole) {
        return Ok((all, None));
    }
    let until = all.runs.last().map(|run| run.created).or(known_until).or(from.until).unwrap_or_default();
    let mut next = Vec::new();
    for list in &lists {
        next.push((list.status, Some(position(store, &filters, list, &taken, until).await?)));
    }
    Ok((all, Some(Positions { until: Some(until), lists: next })))
}

/// Returns where a list continues. If all its runs of the time `until` were taken, that is after this
/// time: the last run of a page can get another status, and must not be listed again.
async fn position(
    store: &dyn Store,
    filters: &[Filter],
    list: &List,
    taken: &HashSet<&str>,
    until: Timestamp,
) -> Result<RunCursor, Failure> {
    let is_left = |run: &&RunInfo| run.created >= until && !taken.contains(run.id.as_str());
    let is_unread = list.page.next.is_some_and(|next| next.created >= until);
    let exact = match (list.page.runs.iter().any(|run| is_left(&run)), is_unread) {
        (true, _) => position_in(store, filters, list, taken).await?,
        (false, true) => list.page.next,
        (false, false) => None,
    };
    Ok(not_beyond(exact, until))
}

/// Returns a position in a list, or that after all runs of a time if the position is beyond it.
///
/// A store may say that it examined more than it returned, or that nothing is left. Runs that get
/// the status later can be there.
fn not_beyond(position: Option<RunCursor>, until: Timestamp) -> RunCursor {
    let until = RunCursor { created: until, number: i64::MIN };
    let order = |cursor: &RunCursor| (cursor.created, cursor.number);
    position.into_iter().chain([until]).max_by_key(order).unwrap_or(until)
}

fn of_status(filters: &[Filter], status: RunStatus) -> Vec<Filter> {
    filters.iter().cloned().chain([Filter::Status(status)]).collect()
}

/// Returns the position after the runs of a list that were taken, the first ones. `None` if it cannot
/// be known, because the list has changed too much.
async fn position_in(
    store: &dyn Store,
    filters: &[Filter],
    list: &List,
    taken: &HashSet<&str>,
) -> Result<Option<RunCursor>, Failure> {
    let is_taken = |run: &&RunInfo| taken.contains(run.id.as_str());
    let count = list.page.runs.iter().filter(is_taken).count();
    if count == 0 {
        // The start of a list is before every run.
        return Ok(list.after.or(Some(RunCursor { created: Timestamp::from_millis(i64::MAX), number: i64::MAX })));
    }
    let mut wanted = count;
    // A damaged row takes the place of a run. A run that has left the list since makes room for one
    // that was not taken.
    for _ in 0..TRIES_MAX {
        let page = store.list(of_status(filters, list.status), list.after, wanted).await?;
        let known = page.runs.iter().take_while(is_taken).count();
        if known == 0 {
            return Ok(None);
        } else if known < page.runs.len() {
            wanted = known;
        } else if known >= count || page.next.is_none() {
            return Ok(page.next);
        } else {
            wanted += count - known;
        }
    }
    Ok(None)
}
