//! Failed and stuck runs, grouped by their error.

use super::{Report, runs, since};
use crate::failure::Failure;
use crate::problem::{Advice, Problem, Severity};
use crate::report::command::of_run;
use crate::report::groups::{GroupBy, name};
use crate::view::{Filters, Runs, View};
use pleach::store::{Filter, LIST_MAX, RunInfo, RunStatus};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a failure counts as an error. An older one is a warning.
const RECENT: Duration = Duration::from_secs(24 * 3_600);

/// The statuses of runs that need a person, with what the console calls them.
const KINDS: [Kind; 3] = [
    Kind {
        status: RunStatus::Failed,
        name: "run_failed",
        what: "failed{at}",
        so: "no worker continues it until it is retried",
        word: "retry",
        advice: "Repair the cause, then retry",
        quiet: "No run has failed",
    },
    Kind {
        status: RunStatus::CompensationFailed,
        name: "undo_failed",
        what: "failed{at}, and an undo failed too",
        so: "the work of earlier nodes is still done",
        word: "retry",
        advice: "Repair the cause, then retry: the undos continue",
        quiet: "No undo has failed",
    },
    Kind {
        status: RunStatus::Stuck,
        name: "run_stuck",
        what: "stuck{at}",
        so: "no worker claims it any more",
        word: "unstick",
        advice: "Repair the cause, then unstick",
        quiet: "No run is stuck",
    },
];

struct Kind {
    status: RunStatus,
    name: &'static str,
    what: &'static str,
    so: &'static str,
    /// The word of the command that continues one run.
    word: &'static str,
    advice: &'static str,
    quiet: &'static str,
}

impl Report<'_> {
    pub(super) async fn failed(&mut self) -> Result<(), Failure> {
        for kind in &KINDS {
            let page = self.source.store().store().list(vec![Filter::Status(kind.status)], None, LIST_MAX).await?;
            self.damaged_rows(page.damaged.iter());
            self.findings.is_cut |= page.next.is_some();
            if page.runs.is_empty() {
                self.quiet(kind.quiet);
            }
            let mut groups: BTreeMap<String, Vec<&RunInfo>> = BTreeMap::new();
            for run in &page.runs {
                let error = name(run, GroupBy::Error).unwrap_or_else(|| "without a known reason".into());
                groups.entry(error).or_default().push(run);
            }
            let mut groups: Vec<_> = groups.into_iter().collect();
            groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.len()));
            for (error, group) in groups {
                let problem = self.group(kind, &error, &group, page.next.is_some());
                self.add(problem);
            }
        }
        Ok(())
    }

    /// Returns the problem of runs with one error, the newest first.
    fn group(&self, kind: &Kind, error: &str, group: &[&RunInfo], is_cut: bool) -> Problem {
        let (newest, count) = (group[0], group.len());
        let (first, last) = group
            .iter()
            .fold((newest.changed, newest.changed), |(first, last), run| (first.min(run.changed), last.max(run.changed)));
        let is_recent = self.now.since(last) < RECENT;
        let severity = if is_recent || kind.status == RunStatus::Stuck { Severity::Error } else { Severity::Warning };
        let who = if count == 1 { format!("Run {}", newest.id) } else { runs(count, is_cut) };
        let is = match (kind.status, count) {
            (RunStatus::Stuck, 1) => "is ",
            (RunStatus::Stuck, _) => "are ",
            _ => "",
        };
        let at = newest.failure.as_ref().map(|failure| &failure.node).filter(|node| !node.is_empty());
        let at = at.map(|node| format!(" at node {node}")).unwrap_or_default();
        let cause = newest.trouble.clone().or_else(|| newest.failure.as_ref().map(|failure| failure.reason.clone()));
        let store = self.source.store().target();
        let command = store.filter(|_| count == 1).map(|store| of_run(store, &newest.id, kind.word, ""));
        let filters = Filters { status: vec![kind.status.to_string()], ..Filters::default() };
        let all = View::Runs(Runs { store: self.source.key.clone(), filters, ..Runs::default() });
        let mut advice = vec![
            self.look_at("Look at the newest one", &newest.id),
            Advice { text: kind.advice.into(), view: Some(all), command },
        ];
        if count == 1 {
            advice[0].text = "Look at the run".into();
        }
        Problem {
            cause,
            so: vec![kind.so.to_string()],
            since: since(first),
            run: Some(newest.id.clone()),
            count: count as u64,
            advice,
            ..self.problem(severity, kind.name, error, format!("{who} {is}{}", kind.what.replace("{at}", &at)))
        }
    }
}
