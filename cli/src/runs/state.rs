//! States of a run: `pleach runs show --record` and `pleach runs diff`.

use super::FoundRun;
use crate::args::DiffArgs;
use crate::failure::Failure;
use crate::output::escape::{ManyLines, OneLine};
use crate::output::{Colour, Output, Report, Style, Version};
use crate::store::Access;
use pleach::durable::{JsonPatch, PatchOperation};
use serde::Serialize;
use serde_json::value::RawValue;

/// Prints the state at a record.
pub async fn show(run: &FoundRun, record: u64, output: &Output) -> Result<(), Failure> {
    let state = run.remote().state_at(record).await?;
    let state = RawValue::from_string(state).map_err(|error| Failure::new(crate::failure::Status::Failed, error))?;
    output.print(&StateReport { version: Version, store: run.target.name(), id: run.id().to_string(), record, state })
}

/// Prints how the state changed between two records.
pub async fn diff(args: DiffArgs, output: &Output) -> Result<(), Failure> {
    let run = FoundRun::open(args.run, Access::Read).await?;
    let patch = run.remote().state_patch(args.from, args.to).await?;
    let (store, id) = (run.target.name(), run.id().to_string());
    output.print(&DiffReport { version: Version, store, id, from: args.from, to: args.to, patch })
}

#[derive(Serialize)]
struct StateReport {
    version: Version,
    store: String,
    id: String,
    record: u64,
    state: Box<RawValue>,
}

impl Report for StateReport {
    fn text(&self, _: &Style) -> String {
        format!("{}\n", ManyLines(self.state.get()))
    }
}

#[derive(Serialize)]
struct DiffReport {
    version: Version,
    store: String,
    id: String,
    from: u64,
    to: u64,
    patch: JsonPatch,
}

impl Report for DiffReport {
    fn text(&self, style: &Style) -> String {
        if self.patch.is_empty() {
            return format!("the states at records {} and {} are equal\n", self.from, self.to);
        }
        let line = |operation: &PatchOperation| {
            let shown = |path: &str| OneLine(if path.is_empty() { "(all)" } else { path }).to_string();
            match operation {
                PatchOperation::Add { path, value } => {
                    style.paint(Colour::Green, &format!("+ {} {}", shown(path), OneLine(value.get())))
                }
                PatchOperation::Remove { path } => style.paint(Colour::Red, &format!("- {}", shown(path))),
                PatchOperation::Replace { path, value } => {
                    style.paint(Colour::Yellow, &format!("~ {} {}", shown(path), OneLine(value.get())))
                }
                other => OneLine(&format!("? {other:?}")).to_string(),
            }
        };
        self.patch.operations.iter().map(|operation| line(operation) + "\n").collect()
    }
}
