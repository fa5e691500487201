//! `pleach runs list`: one page of runs, the newest first.

use super::groups;
use super::info::status_colour;
use super::quoted;
use crate::args::ListArgs;
use crate::failure::Failure;
use crate::output::escape::OneLine;
use crate::output::table::{Cell, Column, Table};
use crate::output::{Output, Report, Style};
use crate::store::Access;
use pleach::store::{Filter, RunCursor, RunInfo, RunList, RunStatus};
use pleach_console::report::NamedStore;
use pleach_console::report::list::{ListJson, read};
use serde::{Serialize, Serializer};

pub async fn run(args: ListArgs, output: &Output) -> Result<(), Failure> {
    let store = args.store.store.open_named(Access::Read).await?;
    let filters = filters(&args);
    if let Some(by) = args.group_by {
        return output.print(&groups::count(&store, filters, by).await?);
    }
    let after = args.after.as_deref().map(str::parse::<RunCursor>).transpose()?;
    let page = read(&store, filters, after, args.limit as usize).await?;
    output.print(&ListReport { store, page })
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

struct ListReport {
    store: NamedStore,
    page: RunList,
}

impl Serialize for ListReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let next = self.page.next.map(|next| next.to_string());
        ListJson::of(self.store.name(), &self.page, next).serialize(serializer)
    }
}

impl Report for ListReport {
    const ITEMS: Option<&'static str> = Some("runs");

    fn text(&self, style: &Style) -> String {
        let RunList { runs, damaged, next } = &self.page;
        let mut text = if runs.is_empty() { "no runs\n".to_string() } else { table(runs, style) };
        for run in damaged {
            text.push_str(&format!("damaged: {} ({})\n", OneLine(&run.run), run.reason));
        }
        if let Some(next) = next {
            text.push_str(&format!("more: pleach runs list {} --after {next}\n", quoted(self.store.name())));
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
