//! [`DeployReport`]: the result of a deploy check, as plain values.

use crate::durable::deploy::RunFit;
use crate::store::{GraphVersion, StoreError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

/// The largest number of groups in a report. Runs of further groups are only counted.
pub const DEPLOY_GROUPS_MAX: usize = 1_000;

/// The largest number of sample ids in one group.
pub const DEPLOY_SAMPLES_MAX: usize = 10;

/// The result of a [deploy check](crate::DeployCheck): counts by graph version and fit.
///
/// `Display` prints one line for each group, the ones that are not served first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeployReport {
    /// The number of live and stuck runs that were checked.
    pub checked: u64,
    /// The groups of runs, the ones that are not served first.
    pub groups: Vec<DeployGroup>,
    /// The number of runs in groups beyond [`DEPLOY_GROUPS_MAX`].
    pub runs_in_other_groups: u64,
    /// Whether the check stopped at its limit before it had seen all runs.
    pub is_cut: bool,
}

/// Runs of one graph version with one fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeployGroup {
    /// What the program would do with these runs.
    pub fit: RunFit,
    /// The name of the graph; empty for damaged rows.
    pub graph: String,
    /// The fingerprint that the runs were stored with.
    pub fingerprint: String,
    /// The schema that the runs were stored with.
    pub schema: u32,
    /// The node that decided the fit, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The number of runs in this group.
    pub runs: u64,
    /// The ids of the first runs, at most [`DEPLOY_SAMPLES_MAX`].
    pub samples: Vec<String>,
}

/// What the runs of a group have in common: fit, graph, fingerprint, schema and node.
type GroupKey = (RunFit, String, String, u32, Option<String>);

/// Collects a report run by run.
#[derive(Default)]
pub(super) struct ReportBuilder {
    /// The number of runs of each group, and their sample ids.
    groups: BTreeMap<GroupKey, (u64, Vec<String>)>,
    checked: u64,
    others: u64,
}

impl ReportBuilder {
    pub(super) fn checked(&self) -> u64 {
        self.checked
    }

    pub(super) fn add(&mut self, run: String, graph: String, version: GraphVersion, (fit, node): (RunFit, Option<String>)) {
        self.checked += 1;
        let key = (fit, graph, version.fingerprint, version.schema, node);
        if self.groups.len() >= DEPLOY_GROUPS_MAX && !self.groups.contains_key(&key) {
            self.others += 1;
            return;
        }
        let (runs, samples) = self.groups.entry(key).or_default();
        *runs += 1;
        if samples.len() < DEPLOY_SAMPLES_MAX {
            samples.push(run);
        }
    }

    pub(super) fn finish(self, is_cut: bool) -> DeployReport {
        let group = |((fit, graph, fingerprint, schema, node), (runs, samples))| DeployGroup {
            fit,
            graph,
            fingerprint,
            schema,
            node,
            runs,
            samples,
        };
        let mut groups: Vec<DeployGroup> = self.groups.into_iter().map(group).collect();
        groups.sort_by_key(|group| group.fit.is_served());
        DeployReport { checked: self.checked, groups, runs_in_other_groups: self.others, is_cut }
    }
}

impl DeployReport {
    /// Returns the groups of runs that the program would not serve.
    pub fn unserved(&self) -> impl Iterator<Item = &DeployGroup> {
        self.groups.iter().filter(|group| !group.fit.is_served())
    }

    /// Returns the number of runs that the program would not serve.
    pub fn unserved_runs(&self) -> u64 {
        self.unserved().map(|group| group.runs).sum()
    }

    /// Returns the number of runs with this fit.
    pub fn count(&self, fit: RunFit) -> u64 {
        self.groups.iter().filter(|group| group.fit == fit).map(|group| group.runs).sum()
    }

    /// Fails if the program would not serve all runs.
    ///
    /// # Errors
    /// [`DeployError::Unserved`] with this report.
    pub fn require_served(self) -> Result<(), DeployError> {
        if self.unserved().next().is_none() && self.runs_in_other_groups == 0 {
            return Ok(());
        }
        Err(DeployError::Unserved(Box::new(self)))
    }
}

impl fmt::Display for DeployReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = if self.is_cut { " (more were not checked)" } else { "" };
        write!(f, "{} runs checked, {} not served{more}", self.checked, self.unserved_runs())?;
        for group in &self.groups {
            write!(f, "\n{group}")?;
        }
        if self.runs_in_other_groups > 0 {
            write!(f, "\n{} runs in further groups", self.runs_in_other_groups)?;
        }
        Ok(())
    }
}

impl fmt::Display for DeployGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fit, graph, fingerprint, schema, node, runs, samples } = self;
        write!(f, "{runs} runs of graph {graph:?} ({fingerprint}, schema {schema})")?;
        if let Some(node) = node {
            write!(f, " at node {node:?}")?;
        }
        write!(f, ": {fit} (such as {})", samples.join(", "))
    }
}

/// A deploy check failed, or found runs that the program would not serve.
#[derive(Debug)]
#[non_exhaustive]
pub enum DeployError {
    /// The store failed during the check.
    Store(StoreError),
    /// The program would not serve all runs. The report says which and why.
    Unserved(Box<DeployReport>),
}

impl fmt::Display for DeployError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => write!(f, "the deploy check could not read the store: {error}"),
            Self::Unserved(report) => write!(f, "this program would not serve all stored runs: {report}"),
        }
    }
}

impl Error for DeployError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Store(error) => Some(error),
            Self::Unserved(_) => None,
        }
    }
}

impl From<StoreError> for DeployError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
