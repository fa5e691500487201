//! Which stored runs the graphs of a new program would not serve.

use super::Version;
use pleach::durable::{DeployGroup, DeployReport, EXPORT_FORMAT, GraphExport, RunFit};
use serde::Serialize;
use std::fmt;

/// The largest text of exports in bytes: 64 MiB.
pub const EXPORTS_BYTES_MAX: usize = 64 << 20;

/// Why a text was not accepted as exported graphs.
#[derive(Debug)]
#[non_exhaustive]
pub enum ExportError {
    /// The text is not the JSON of exported graphs.
    NotExport(serde_json::Error),
    /// A later version of pleach exported the graphs, with this format.
    NewerFormat(u32),
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotExport(error) => write!(f, "is not an exported graph: {error}"),
            Self::NewerFormat(format) => {
                write!(f, "has format {format} of exported graphs, but this version reads {EXPORT_FORMAT}")
            }
        }
    }
}

impl std::error::Error for ExportError {}

/// Parses one exported graph, or an array of them.
///
/// # Errors
/// [`ExportError`] if the text is something else, or of a later version. Its text continues a
/// sentence that begins with the name of the file.
pub fn parse_exports(text: &str) -> Result<Vec<GraphExport>, ExportError> {
    let is_array = text.trim_start().starts_with('[');
    let read = if is_array { serde_json::from_str(text) } else { serde_json::from_str(text).map(|export| vec![export]) };
    let exports: Vec<GraphExport> = read.map_err(ExportError::NotExport)?;
    match exports.iter().find(|export| export.format > EXPORT_FORMAT) {
        Some(newer) => Err(ExportError::NewerFormat(newer.format)),
        None => Ok(exports),
    }
}

/// Returns the number of runs that the program would not serve.
pub fn unserved(report: &DeployReport) -> u64 {
    report.unserved_runs() + report.runs_in_other_groups
}

/// The result of a check: the object *check* of `docs/cli.md`.
#[derive(Debug, Serialize)]
pub struct CheckJson<'a> {
    version: Version,
    store: &'a str,
    unserved: u64,
    checked: u64,
    groups: Vec<GroupJson<'a>>,
    runs_in_other_groups: u64,
    is_cut: bool,
}

#[derive(Debug, Serialize)]
struct GroupJson<'a> {
    fit: RunFit,
    graph: &'a str,
    fingerprint: &'a str,
    schema: u32,
    node: Option<&'a str>,
    runs: u64,
    samples: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl<'a> CheckJson<'a> {
    /// Builds the object from the report of a check.
    pub fn of(store: &'a str, report: &'a DeployReport) -> Self {
        let DeployReport { checked, groups, runs_in_other_groups, is_cut, .. } = report;
        Self {
            version: Version,
            store,
            unserved: unserved(report),
            checked: *checked,
            groups: groups.iter().map(GroupJson::of).collect(),
            runs_in_other_groups: *runs_in_other_groups,
            is_cut: *is_cut,
        }
    }

    /// Adds to each group the sentence that says what to do.
    #[must_use]
    pub fn with_advice(mut self) -> Self {
        self.groups.iter_mut().for_each(|group| group.advice = Some(group.fit.to_string()));
        self
    }
}

impl<'a> GroupJson<'a> {
    fn of(group: &'a DeployGroup) -> Self {
        Self {
            fit: group.fit,
            graph: &group.graph,
            fingerprint: &group.fingerprint,
            schema: group.schema,
            node: group.node.as_deref(),
            runs: group.runs,
            samples: &group.samples,
            advice: None,
        }
    }
}
