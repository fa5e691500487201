//! `pleach runs list`: one page of runs, the newest first.

use super::groups;
use super::info::{InfoJson, status_colour};
use super::quoted;
use crate::args::ListArgs;
use crate::failure::Failure;
use crate::output::escape::OneLine;
use crate::output::table::{Cell, Column, Table};
use crate::output::{Output, Report, Style, Version};
use crate::store::{Access, OpenStore, Target};
use pleach::store::{Filter, RunCursor, RunInfo, RunList, RunStatus, Store as _};
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

pub async fn run(args: ListArgs, output: &Output) -> Result<(), Failure> {
    let store = args.store.store.open(Access::Read).await?;
    let filters = filters(&args);
    if let Some(by) = args.group_by {
        return output.print(&groups::count(&store, &args.store.store, filters, by).await?);
    }
    let after = args.after.as_deref().map(str::parse::<RunCursor>).transpose()?;
    let page = read(&store, filters, after, args.limit as usize).await?;
    output.print(&ListReport { target: &args.store.store, page })
}

fn filters(args: &ListArgs) -> Vec<Filter> {
    let status = if args.failed { Some(RunStatus::Failed) } else { args.status };
    let tags = args.tags.iter().map(|(key, value)| Filter::tag(key.clone(), value.clone()));
    let options = [
        status.map(Filter::Status),
        args.graph.clone().map(Filter::Graph),
        args.id_prefix.clone().map(Filter::IdPrefix),
        args.since.map(Filter::CreatedSince),
        args.before.map(Filter::CreatedBefore),
    ];
    options.into_iter().flatten().chain(tags).collect()
}

/// Reads up to `count` runs. One call of the store can return fewer.
async fn read(store: &OpenStore, filters: Vec<Filter>, mut after: Option<RunCursor>, count: usize) -> Result<RunList, Failure> {
    let mut all = RunList::default();
    loop {
        let page = store.list(filters.clone(), after, count - all.runs.len()).await?;
        all.runs.extend(page.runs);
        all.damaged.extend(page.damaged);
        (after, all.next) = (page.next, page.next);
        if after.is_none() || all.runs.len() >= count {
            return Ok(all);
        }
    }
}

struct ListReport<'a> {
    target: &'a Target,
    page: RunList,
}

#[derive(Serialize)]
struct DamagedJson<'a> {
    id: &'a str,
    reason: &'a str,
}

impl Serialize for ListReport<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let RunList { runs, damaged, next } = &self.page;
        let runs: Vec<InfoJson<'_>> = runs.iter().map(InfoJson::of).collect();
        let damaged: Vec<_> = damaged.iter().map(|run| DamagedJson { id: &run.run, reason: run.reason }).collect();
        let mut report = serializer.serialize_struct("List", 5)?;
        report.serialize_field("version", &Version)?;
        report.serialize_field("store", &self.target.name())?;
        report.serialize_field("runs", &runs)?;
        report.serialize_field("damaged", &damaged)?;
        report.serialize_field("next", &next.map(|next| next.to_string()))?;
        report.end()
    }
}

impl Report for ListReport<'_> {
    const ITEMS: Option<&'static str> = Some("runs");

    fn text(&self, style: &Style) -> String {
        let RunList { runs, damaged, next } = &self.page;
        let mut text = if runs.is_empty() { "no runs\n".to_string() } else { table(runs, style) };
        for run in damaged {
            text.push_str(&format!("damaged: {} ({})\n", OneLine(&run.run), run.reason));
        }
        if let Some(next) = next {
            text.push_str(&format!("more: pleach runs list {} --after {next}\n", quoted(&self.target.name())));
        }
        text
    }
}

fn table(runs: &[RunInfo], style: &Style) -> String {
    let mut table = Table::new([
        Column::fixed("RUN"),
        Column::fixed("STATUS"),
        Column::shrinks("GRAPH").may_hide(),
        Column::fixed("CHANGED"),
        Column::number("RECORD").may_hide(),
        Column::shrinks("FAILURE"),
    ]);
    for info in runs {
        let failure = info.trouble.clone().or_else(|| info.failure.as_ref().map(ToString::to_string)).unwrap_or_default();
        table.row([
            Cell::from(info.id.clone()),
            Cell::painted(info.status.as_str(), status_colour(info.status)),
            Cell::from(info.graph.clone()),
            Cell::from(style.times.relative(info.changed)),
            Cell::from(info.head.to_string()),
            Cell::from(failure),
        ]);
    }
    table.render(style)
}
