//! [`UnservedRuns`]: the runs that no worker serves, as one worker knows them.

use crate::durable::deploy::RunFit;
use crate::store::{DamagedRun, GraphVersion, OverdueRun};
use std::fmt;

/// The most ids that one text names.
const SAMPLES_SHOWN_MAX: usize = 10;

/// Runs that need an operator, because no worker serves them.
///
/// Returned by [`RunningWorker::unserved`](crate::RunningWorker::unserved) and reported by
/// [`WorkerEvent::Unserved`](crate::WorkerEvent::Unserved). Each list is bounded. `Display` says
/// what to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnservedRuns {
    /// Runs that are due and unclaimed for longer than the
    /// [limit](crate::Worker::report_unserved_after), and that this worker does not serve either.
    pub overdue: Vec<UnservedVersion>,
    /// Due runs whose own rows are damaged, so that no worker can claim them.
    pub damaged: Vec<DamagedRun>,
    /// Stuck runs of this worker's graphs, at most 100.
    pub stuck: Vec<StuckRun>,
    /// Whether the store has more stuck runs than the ones listed.
    pub has_more_stuck: bool,
    /// Runs that this worker released in the last minutes because a newer version wrote them.
    pub too_new: Vec<String>,
}

/// Overdue runs of one graph version that a worker does not serve.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnservedVersion {
    /// The name of the graph of these runs.
    pub graph: String,
    /// The fingerprint and schema that the runs were stored with.
    pub version: GraphVersion,
    /// Why this worker does not serve them.
    pub fit: RunFit,
    /// The runs that have been due longest, at most 10.
    pub runs: Vec<OverdueRun>,
    /// Whether the version has more overdue runs than the ones listed.
    pub has_more: bool,
}

/// A stuck run, with the reason that its row has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StuckRun {
    /// The id of the stuck run.
    pub id: String,
    /// Why it could not be driven the last time, if a worker said so.
    pub reason: Option<String>,
}

impl UnservedRuns {
    /// Returns whether every run is served, as far as this worker knows.
    pub fn is_empty(&self) -> bool {
        let Self { overdue, damaged, stuck, too_new, .. } = self;
        overdue.is_empty() && damaged.is_empty() && stuck.is_empty() && too_new.is_empty()
    }

    /// Returns the number of listed runs. The store may have more.
    pub fn count(&self) -> usize {
        let overdue: usize = self.overdue.iter().map(|of| of.runs.len()).sum();
        overdue + self.damaged.len() + self.stuck.len() + self.too_new.len()
    }

    /// Returns whether this has a version or a run that `before` did not have.
    pub(super) fn is_news_after(&self, before: &Self) -> bool {
        let has_version = |of: &UnservedVersion| before.overdue.iter().any(|known| known.is_same_version(of));
        self.overdue.iter().any(|of| !has_version(of))
            || self.damaged.iter().any(|run| !before.damaged.contains(run))
            || self.stuck.iter().any(|run| !before.stuck.contains(run))
            || self.too_new.iter().any(|run| !before.too_new.contains(run))
    }
}

impl UnservedVersion {
    fn is_same_version(&self, other: &Self) -> bool {
        (&self.graph, &self.version, self.fit) == (&other.graph, &other.version, other.fit)
    }
}

/// One kind of unserved runs, as text for an operator.
pub(super) struct UnservedProblem {
    /// The kind, as health reports name it.
    pub(super) key: &'static str,
    /// What is wrong, with the consequence.
    pub(super) text: String,
    /// What to do about it.
    pub(super) advice: &'static str,
}

impl UnservedRuns {
    /// Returns the kinds of unserved runs, each as one text.
    pub(super) fn problems(&self) -> Vec<UnservedProblem> {
        let Self { overdue, damaged, stuck, has_more_stuck, too_new } = self;
        let list = |what: &str, ids: Vec<&str>, has_more: bool| {
            let or_more = if has_more { " or more" } else { "" };
            let samples = ids.iter().take(SAMPLES_SHOWN_MAX).copied().collect::<Vec<_>>().join(", ");
            format!("{}{or_more} {what}, such as {samples}", ids.len())
        };
        let mut problems = Vec::new();
        let mut add = |key, text, advice| problems.push(UnservedProblem { key, text, advice });
        if !overdue.is_empty() {
            let text = overdue.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            add("runs-unserved", text, "start a worker that serves their version, or deploy a migration");
        }
        if !damaged.is_empty() {
            let ids = damaged.iter().map(|run| run.run.as_str()).collect();
            let text = list("due runs have damaged rows and cannot be claimed", ids, false);
            add("runs-damaged", text, "restore the store from a backup, or delete the runs");
        }
        if !stuck.is_empty() {
            let ids = stuck.iter().map(|run| run.id.as_str()).collect();
            let text = list("runs are stuck and wait for an operator", ids, *has_more_stuck);
            add("runs-stuck", text, "remove the cause, then resume them with `take_over`");
        }
        if !too_new.is_empty() {
            let ids = too_new.iter().map(String::as_str).collect();
            let text = list("runs were written by a newer version of pleach and wait for a newer worker", ids, false);
            add("runs-too-new", text, "upgrade this worker");
        }
        problems
    }
}

impl fmt::Display for UnservedRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> =
            self.problems().into_iter().map(|UnservedProblem { text, advice, .. }| format!("{text}: {advice}")).collect();
        f.write_str(&texts.join("; "))
    }
}

impl fmt::Display for UnservedVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { graph, version: GraphVersion { fingerprint, schema }, fit, runs, has_more } = self;
        let or_more = if *has_more { " or more" } else { "" };
        let samples = runs.iter().map(|run| run.id.as_str()).collect::<Vec<_>>().join(", ");
        let count = runs.len();
        write!(f, "{count}{or_more} due runs of graph {graph:?} ({fingerprint}, schema {schema}): {fit} (such as {samples})")
    }
}
