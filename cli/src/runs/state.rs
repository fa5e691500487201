//! States of a run: `pleach runs show --record` and `pleach runs diff`.

use super::FoundRun;
use crate::args::DiffArgs;
use crate::failure::Failure;
use crate::output::escape::{ManyLines, OneLine};
use crate::output::{Colour, Output, Report, Style};
use crate::store::Access;
use pleach::durable::PatchOperation;
use pleach_console::report::state::{StateDiff, StateJson};
use pleach_console::report::{ProgramValue, Values};
use serde::{Serialize, Serializer};

/// Prints the state at a record.
pub async fn show(run: &FoundRun, record: u64, output: &Output) -> Result<(), Failure> {
    let state = run.remote().state_at(record).await?;
    output.print(&StateReport { store: run.target.name(), id: run.id().to_string(), record, state })
}

/// Prints how the state changed between two records.
pub async fn diff(args: DiffArgs, output: &Output) -> Result<(), Failure> {
    let run = FoundRun::open(args.run, Access::Read).await?;
    let patch = run.remote().state_patch(args.from, args.to).await?;
    let (store, id) = (run.target.name(), run.id().to_string());
    output.print(&DiffReport(StateDiff { store, id, from: args.from, to: args.to, patch }))
}

struct StateReport {
    store: String,
    id: String,
    record: u64,
    state: String,
}

impl Serialize for StateReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let state = ProgramValue::new(&self.state, Values::Inline);
        StateJson::of(&self.store, &self.id, self.record, state).serialize(serializer)
    }
}

impl Report for StateReport {
    fn text(&self, _: &Style) -> String {
        format!("{}\n", ManyLines(&self.state))
    }
}

struct DiffReport(StateDiff);

impl Serialize for DiffReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.json(Values::Inline, usize::MAX).serialize(serializer)
    }
}

impl Report for DiffReport {
    fn text(&self, style: &Style) -> String {
        let StateDiff { from, to, patch, .. } = &self.0;
        if patch.is_empty() {
            return format!("the states at records {from} and {to} are equal\n");
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
        patch.operations.iter().map(|operation| line(operation) + "\n").collect()
    }
}
