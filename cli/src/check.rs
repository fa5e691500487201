//! `pleach check`: which stored runs the graphs of a new program would not serve.

use crate::args::CheckArgs;
use crate::failure::{Failure, Status};
use crate::output::escape::OneLine;
use crate::output::table::{Cell, Column, Table};
use crate::output::{Colour, Output, Report, Style};
use crate::store::Access;
use pleach::durable::{DeployCheck, DeployReport, GraphExport};
use pleach_console::report::check::{CheckJson, EXPORTS_BYTES_MAX, ExportError, parse_exports, unserved};
use serde::Serialize;
use std::io::Read as _;
use std::path::Path;

/// The largest file of exports.
const FILE_BYTES_MAX: u64 = EXPORTS_BYTES_MAX as u64;

pub async fn run(args: CheckArgs, output: &Output) -> Result<(), Failure> {
    let exports = read_exports(&args.graphs)?;
    let previous = args.previous.as_deref().map(read_exports).transpose()?.unwrap_or_default();
    let store = args.store.store.open(Access::Read).await?;
    let check = exports.into_iter().fold(DeployCheck::new(), DeployCheck::export);
    let check = previous.into_iter().fold(check, DeployCheck::previous);
    let report = check.run(&*store).await?;
    let unserved = unserved(&report);
    output.print(&CheckReport { store: args.store.store.name(), unserved, report })?;
    if unserved == 0 {
        Ok(())
    } else {
        Err(Failure::new(Status::Unhealthy, format_args!("{unserved} runs would not be served")))
    }
}

/// Reads one export or an array of them; `-` reads standard input.
pub fn read_exports(path: &Path) -> Result<Vec<GraphExport>, Failure> {
    let shown = OneLine(&path.display().to_string()).to_string();
    let text = read(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Failure::new(Status::NotFound, format_args!("there is no file {shown}")),
        _ => Failure::usage(format_args!("cannot read {shown}: {error}")),
    })?;
    parse_exports(&text).map_err(|error| {
        let text = format!("{shown} {error}");
        match error {
            ExportError::NewerFormat(_) => {
                Failure::new(Status::Unreachable, text).advice("use the pleach command of the version that exported it")
            }
            _ => Failure::usage(text).advice("write the JSON of `CompiledGraph::export` or `Worker::exports` to the file"),
        }
    })
}

fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let reader: Box<dyn std::io::Read> =
        if path.as_os_str() == "-" { Box::new(std::io::stdin()) } else { Box::new(std::fs::File::open(path)?) };
    reader.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX { Err(std::io::Error::other("it has more than 64 MiB")) } else { Ok(text) }
}

struct CheckReport {
    store: String,
    unserved: u64,
    report: DeployReport,
}

impl Serialize for CheckReport {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        CheckJson::of(&self.store, &self.report).serialize(serializer)
    }
}

impl Report for CheckReport {
    const ITEMS: Option<&'static str> = Some("groups");

    fn text(&self, style: &Style) -> String {
        let DeployReport { checked, groups, runs_in_other_groups, is_cut, .. } = &self.report;
        let mut text = String::new();
        if !groups.is_empty() {
            let mut table = Table::new([
                Column::number("RUNS"),
                Column::fixed("SERVED"),
                Column::shrinks("GRAPH"),
                Column::shrinks("NODE").may_hide(),
                Column::shrinks("SUCH AS").may_hide(),
                Column::shrinks("WHY"),
            ]);
            for group in groups {
                let (served, colour) = if group.fit.is_served() { ("yes", Colour::Green) } else { ("no", Colour::Red) };
                let version = format!("{} ({}, schema {})", group.graph, group.fingerprint, group.schema);
                table.row([
                    Cell::from(group.runs.to_string()),
                    Cell::painted(served, colour),
                    Cell::from(version),
                    Cell::from(group.node.clone().unwrap_or_default()),
                    Cell::from(group.samples.first().cloned().unwrap_or_default()),
                    Cell::from(group.fit.to_string()),
                ]);
            }
            text.push_str(&table.render(style));
        }
        if *runs_in_other_groups > 0 {
            text.push_str(&format!("{runs_in_other_groups} runs in further groups\n"));
        }
        let more = if *is_cut { " (more were not checked)" } else { "" };
        text + &format!("{checked} unfinished runs checked, {} not served{more}\n", self.unserved)
    }
}
