//! `pleach runs list --group-by`: counts of runs instead of a list.

use crate::args::GroupBy as GroupByArg;
use crate::failure::Failure;
use crate::output::table::{Cell, Column, Table};
use crate::output::{Report, Style};
use pleach::store::Filter;
use pleach_console::report::NamedStore;
use pleach_console::report::groups::{self, CountLimits, GroupBy, Groups};
use serde::Serialize;

/// Where a count stops.
const LIMITS: CountLimits = CountLimits { runs: 1_000_000, pages: u64::MAX };

/// The counts of all groups.
#[derive(Serialize)]
#[serde(transparent)]
pub struct Counts(Groups);

/// Counts the matching runs by group.
pub async fn count(store: &NamedStore, filters: Vec<Filter>, by: GroupByArg) -> Result<Counts, Failure> {
    let by = match by {
        GroupByArg::Error => GroupBy::Error,
        GroupByArg::Graph => GroupBy::Graph,
        GroupByArg::Status => GroupBy::Status,
    };
    Ok(Counts(groups::count(store, filters, by, LIMITS).await?))
}

impl Report for Counts {
    const ITEMS: Option<&'static str> = Some("groups");

    fn text(&self, style: &Style) -> String {
        if self.0.groups.is_empty() {
            return "no runs\n".into();
        }
        let title = match self.0.group_by {
            GroupBy::Error => "FAILURE",
            GroupBy::Graph => "GRAPH",
            _ => "STATUS",
        };
        let columns = [Column::number("RUNS"), Column::fixed("LAST"), Column::shrinks(title), Column::shrinks("NEWEST RUN")];
        let mut table = Table::new(columns);
        for group in &self.0.groups {
            let cells =
                [group.runs.to_string(), style.times.relative(group.last), group.name.clone(), group.newest_run.clone()];
            table.row(cells.map(Cell::from));
        }
        let cut = if self.0.is_cut { "some runs were not counted\n" } else { "" };
        format!("{}{cut}", table.render(style))
    }
}
