//! The view `deploy`: which unfinished runs a new program would not serve.

use super::StoreSource;
use crate::failure::Failure;
use crate::report::check::{CheckJson, parse_exports};
use crate::view::Deploy;
use pleach::durable::{DeployCheck, GraphExport};
use serde_json::Value;

/// The most runs that are checked: the newest waiting ones, then running, then stuck. The command
/// `pleach check` checks all.
const RUNS_MAX: u64 = 5_000;

pub(super) async fn view(source: &StoreSource, asked: &Deploy) -> Result<Value, Failure> {
    let graphs = match &asked.graphs {
        Some(text) => parse(text, "the graphs")?,
        None => source.exports().to_vec(),
    };
    if graphs.is_empty() {
        return Err(Failure::new("bad_request", "the exported graphs of the new program are needed")
            .advice("write the JSON of `Worker::exports` to a file, and open it here"));
    }
    let previous = asked.previous.as_deref().map(|text| parse(text, "the previous graphs")).transpose()?;
    let check = graphs.into_iter().fold(DeployCheck::new().limit(RUNS_MAX), DeployCheck::export);
    let check = previous.unwrap_or_default().into_iter().fold(check, DeployCheck::previous);
    let report = check.run(&**source.store().store()).await?;
    super::value_of(&CheckJson::of(source.store().name(), &report).with_advice())
}

/// Parses exported graphs. `name` begins the sentence of an error.
pub(super) fn parse(text: &str, name: &str) -> Result<Vec<GraphExport>, Failure> {
    parse_exports(text).map_err(|error| {
        Failure::new("bad_request", format_args!("{name}: it {error}"))
            .advice("give the JSON of `CompiledGraph::export` or `Worker::exports`")
    })
}
