//! `pleach runs list --group-by`: counts of runs instead of a list.

use crate::args::GroupBy;
use crate::failure::Failure;
use crate::output::table::{Cell, Column, Table, cut};
use crate::output::times::rfc3339;
use crate::output::{Report, Style, Version};
use crate::store::{OpenStore, Target};
use pleach::store::{Filter, RunInfo, Store as _, Timestamp};
use serde::Serialize;
use std::collections::BTreeMap;

/// The most runs that are counted, and the most groups that are listed.
const RUNS_MAX: u64 = 1_000_000;
const GROUPS_MAX: usize = 1_000;

/// The longest name of a group, in columns. Longer reasons are cut, and then count together.
const NAME_MAX: usize = 200;

/// The runs that one call reads.
const PAGE: usize = 500;

#[derive(Default)]
struct Group {
    runs: u64,
    first: Timestamp,
    last: Timestamp,
    newest: String,
}

/// The counts of all groups, the largest first.
#[derive(Serialize)]
pub struct Groups {
    version: Version,
    store: String,
    group_by: &'static str,
    groups: Vec<GroupJson>,
    /// The runs that match, and whether more were not counted or groups are missing.
    counted: u64,
    is_cut: bool,
}

#[derive(Serialize)]
struct GroupJson {
    name: String,
    runs: u64,
    first_changed: String,
    last_changed: String,
    newest_run: String,
    #[serde(skip)]
    last: Timestamp,
}

/// Counts the matching runs, page by page.
pub async fn count(store: &OpenStore, target: &Target, filters: Vec<Filter>, by: GroupBy) -> Result<Groups, Failure> {
    let (mut groups, mut after, mut counted, mut is_cut) = (BTreeMap::<String, Group>::new(), None, 0, false);
    loop {
        let page = store.list(filters.clone(), after, PAGE).await?;
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
        is_cut |= after.is_some() && counted >= RUNS_MAX;
        if after.is_none() || counted >= RUNS_MAX {
            break;
        }
    }
    let group = |(name, group): (String, Group)| GroupJson {
        name,
        runs: group.runs,
        first_changed: rfc3339(group.first),
        last_changed: rfc3339(group.last),
        newest_run: group.newest,
        last: group.last,
    };
    let mut groups: Vec<GroupJson> = groups.into_iter().map(group).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.runs));
    let group_by = match by {
        GroupBy::Error => "error",
        GroupBy::Graph => "graph",
        GroupBy::Status => "status",
    };
    Ok(Groups { version: Version, store: target.name(), group_by, groups, counted, is_cut })
}

/// Returns the group of a run; `None` if it has none, such as a run without a failure.
fn name(info: &RunInfo, by: GroupBy) -> Option<String> {
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
}

impl Report for Groups {
    const ITEMS: Option<&'static str> = Some("groups");

    fn text(&self, style: &Style) -> String {
        if self.groups.is_empty() {
            return "no runs\n".into();
        }
        let title = match self.group_by {
            "error" => "FAILURE",
            "graph" => "GRAPH",
            _ => "STATUS",
        };
        let columns = [Column::number("RUNS"), Column::fixed("LAST"), Column::shrinks(title), Column::shrinks("NEWEST RUN")];
        let mut table = Table::new(columns);
        for group in &self.groups {
            let cells =
                [group.runs.to_string(), style.times.relative(group.last), group.name.clone(), group.newest_run.clone()];
            table.row(cells.map(Cell::from));
        }
        let cut = if self.is_cut { "some runs were not counted\n" } else { "" };
        format!("{}{cut}", table.render(style))
    }
}
