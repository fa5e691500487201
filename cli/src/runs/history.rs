//! `pleach runs history`: the records of a run. `tail` prints the same records as they come.

use super::FoundRun;
use super::info::{branches, place_text};
use crate::args::HistoryArgs;
use crate::failure::Failure;
use crate::output::table::{Cell, Column, Table};
use crate::output::{Output, Report, Style};
use crate::store::Access;
use pleach::durable::Checkpoint;
use pleach::store::Kind;
use pleach_console::report::history::HistoryJson;
use serde::Serialize;

/// The width below which times are shown as distances from now.
const NARROW: usize = 90;

pub async fn run(args: HistoryArgs, output: &Output) -> Result<(), Failure> {
    let run = FoundRun::open(args.run, Access::Read).await?;
    let (remote, limit) = (run.remote(), args.limit as usize);
    let (mut records, mut next) = (Vec::new(), Some(args.from));
    while let Some(first) = next
        && records.len() < limit
    {
        let page = remote.history(first, limit - records.len()).await?;
        records.extend(page.checkpoints);
        next = page.next;
    }
    let (store, id) = (run.target.name(), run.id().to_string());
    let next_command = next.map(|next| run.command("history", &format!("--from {next}")));
    output.print(&HistoryReport { store, id, oldest: run.info.oldest, from: args.from, records, next, next_command })
}

struct HistoryReport {
    store: String,
    id: String,
    oldest: u64,
    from: u64,
    records: Vec<Checkpoint>,
    next: Option<u64>,
    next_command: Option<String>,
}

impl Serialize for HistoryReport {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { store, id, oldest, records, next, .. } = self;
        HistoryJson::of(store, id, *oldest, records, *next).serialize(serializer)
    }
}

impl Report for HistoryReport {
    const ITEMS: Option<&'static str> = Some("records");

    fn text(&self, style: &Style) -> String {
        let mut text = String::new();
        if self.from < self.oldest {
            text.push_str(&format!("records before {} were pruned\n", self.oldest));
        }
        if self.records.is_empty() {
            return text + "no records\n";
        }
        let mut table = Table::new([
            Column::number("RECORD"),
            Column::fixed("AT"),
            Column::fixed("KIND"),
            Column::shrinks("NODE"),
            Column::fixed("BRANCH").may_hide(),
            Column::shrinks("THEN"),
        ]);
        let is_narrow = style.width.is_some_and(|width| width < NARROW);
        for record in &self.records {
            let branch = branches(&record.path);
            table.row([
                Cell::from(record.sequence.to_string()),
                Cell::from(if is_narrow { style.times.relative(record.at) } else { style.times.exact(record.at) }),
                Cell::from(kind(record.kind)),
                Cell::from(record.node.clone()),
                Cell::from(if branch.is_empty() { String::new() } else { format!("{branch:?}") }),
                Cell::from(then(record)),
            ]);
        }
        text.push_str(&table.render(style));
        if let Some(next) = &self.next_command {
            text.push_str(&format!("more: {next}\n"));
        }
        text
    }
}

/// Returns the name of a kind, as JSON has it.
pub fn kind(kind: Kind) -> String {
    let json = serde_json::to_string(&kind).unwrap_or_default();
    json.trim_matches('"').to_string()
}

/// Returns what follows a record: its failure, or where its token continues.
pub fn then(record: &Checkpoint) -> String {
    match (&record.failure, &record.next, record.part_of) {
        (Some(failure), _, _) => failure.reason.clone(),
        (None, Some(next), _) => place_text(next),
        (None, None, Some(whole)) => format!("part of record {whole}"),
        (None, None, None) => String::new(),
    }
}
