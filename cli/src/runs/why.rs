//! `pleach why STORE RUN`: why a run does not continue, and what to do.

use super::find;
use crate::failure::Failure;
use crate::output::escape::OneLine;
use crate::output::{Colour, Output, Report, Style, explanation};
use crate::runs::info::{status_text, time_text};
use crate::store::{Access, Target};
use pleach::durable::RunControlError;
use pleach::store::StoreError;
use pleach_console::report::why::{Line, WhyReport, explain, explain_run};

pub async fn run(target: Target, name: &str, output: &Output) -> Result<(), Failure> {
    let store = target.open_named(Access::Read).await?;
    let report = match explain(&store, name).await {
        Err(RunControlError::Store(StoreError::RunNotFound { .. })) => {
            explain_run(&store, find(store.store(), &target, name).await?).await?
        }
        found => found?,
    };
    output.print(&report)
}

impl Report for WhyReport {
    fn text(&self, style: &Style) -> String {
        let graph = self.graph.as_ref().map(|graph| format!(" of graph {}", OneLine(graph))).unwrap_or_default();
        let status = self.status.map_or_else(|| style.paint(Colour::Red, "damaged"), |status| status_text(style, status));
        let line = |line: &Line| {
            let since = if line.is_event { "" } else { "since " };
            let since = line.since.map(|at| format!(", {since}{}", time_text(style, at))).unwrap_or_default();
            let due = line.due.map(|at| format!(", until {}", time_text(style, at))).unwrap_or_default();
            format!("{}{since}{due}", line.text)
        };
        format!("run {}{graph}: {status}\n{}", OneLine(&self.id), explanation::text(&self.explanation.sentences(line), style))
    }
}
