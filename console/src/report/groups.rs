//! Counts of runs by group.

use super::text::cut;
use super::times::rfc3339;
use super::{NamedStore, Version};
use pleach::store::{Filter, RunInfo, StoreError, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most groups that are listed.
const GROUPS_MAX: usize = 1_000;

/// The longest name of a group, in columns. Longer reasons are cut, and then count together.
const NAME_MAX: usize = 200;

/// The runs that one call reads.
const PAGE: usize = 500;

/// What the runs of one group have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GroupBy {
    /// The reason of the failure. Runs without one are not counted.
    Error,
    /// The graph of the run.
    Graph,
    /// The status of the run.
    Status,
}

#[derive(Default)]
struct Group {
    runs: u64,
    first: Timestamp,
    last: Timestamp,
    newest: String,
}

/// The counts of all groups, the largest first: the object *list, grouped* of `docs/cli.md`.
#[derive(Debug, Serialize)]
pub struct Groups {
    version: Version,
    store: String,
    /// What the runs were grouped by.
    pub group_by: GroupBy,
    /// The groups, the largest first. At most 1,000.
    pub groups: Vec<RunGroup>,
    /// The runs that match.
    pub counted: u64,
    /// Whether more runs were not counted, or groups are missing.
    pub is_cut: bool,
}

/// One group of runs, with its count.
#[derive(Debug, Serialize)]
pub struct RunGroup {
    /// The status, the graph, or the first line of the failure.
    pub name: String,
    /// The number of runs in the group.
    pub runs: u64,
    first_changed: String,
    last_changed: String,
    /// The id of the run that was created last.
    pub newest_run: String,
    /// When a run of the group last changed.
    #[serde(skip)]
    pub last: Timestamp,
}

/// Where a count stops.
#[derive(Clone, Copy, Debug)]
pub struct CountLimits {
    /// The most runs that are counted. A page of 500 runs is counted whole.
    pub runs: u64,
    /// The most pages that are read. A page can have few runs that match.
    pub pages: u64,
}

/// Counts the matching runs by group, page by page.
///
/// # Errors
/// The store failed.
pub async fn count(store: &NamedStore, filters: Vec<Filter>, by: GroupBy, limits: CountLimits) -> Result<Groups, StoreError> {
    let (mut groups, mut after, mut counted, mut is_cut) = (BTreeMap::<String, Group>::new(), None, 0, false);
    for page_number in 1.. {
        let page = store.store().list(filters.clone(), after, PAGE).await?;
        for info in &page.runs {
            let Some(name) = name(info, by) else { continue };
            counted += 1;
            if groups.len() >= GROUPS_MAX && !groups.contains_key(&name) {
                is_cut = true;
                continue;
            }
            groups.entry(name).or_default().add(info);
        }
        after = page.next;
        let is_enough = counted >= limits.runs || page_number >= limits.pages;
        is_cut |= after.is_some() && is_enough;
        if after.is_none() || is_enough {
            break;
        }
    }
    let mut groups: Vec<RunGroup> = groups.into_iter().map(|(name, group)| group.named(name)).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.runs));
    Ok(Groups { version: Version, store: store.name().to_string(), group_by: by, groups, counted, is_cut })
}

/// Returns the group of a run; `None` if it has none, such as a run without a failure.
pub fn name(info: &RunInfo, by: GroupBy) -> Option<String> {
    match by {
        GroupBy::Graph => Some(info.graph.clone()),
        GroupBy::Status => Some(info.status.to_string()),
        GroupBy::Error => {
            let reason = info.trouble.clone().or_else(|| {
                let failure = info.failure.as_ref()?;
                Some(if failure.node.is_empty() {
                    failure.reason.clone()
                } else {
                    format!("{}: {}", failure.node, failure.reason)
                })
            })?;
            Some(cut(reason.lines().next().unwrap_or_default(), NAME_MAX))
        }
    }
}

impl Group {
    /// Adds a run. Runs come in the order of their creation, the newest first.
    fn add(&mut self, info: &RunInfo) {
        if self.runs == 0 {
            (self.first, self.newest) = (info.changed, info.id.clone());
        }
        self.runs += 1;
        (self.first, self.last) = (self.first.min(info.changed), self.last.max(info.changed));
    }

    fn named(self, name: String) -> RunGroup {
        RunGroup {
            name,
            runs: self.runs,
            first_changed: rfc3339(self.first),
            last_changed: rfc3339(self.last),
            newest_run: self.newest,
            last: self.last,
        }
    }
}
