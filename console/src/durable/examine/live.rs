//! Live runs that do not continue: unserved, with a lost driver, with trouble, past their deadline.

use super::{Report, runs, since};
use crate::durable::run::process_of;
use crate::durable::workers::{Live, OVERDUE, OVERDUE_RUNS, reason};
use crate::failure::Failure;
use crate::problem::{Advice, Problem, Severity};
use crate::report::groups::{GroupBy, name};
use crate::view::{StoreOnly, View};
use pleach::store::{RunInfo, TAKEOVERS_MAX, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a lease may have ended before that is a problem. Workers look every few seconds.
const LATE: Duration = Duration::from_secs(10);

impl Report<'_> {
    /// Due runs that no worker claims, by version.
    pub(super) async fn unserved(&mut self, live: &Live) -> Result<(), Failure> {
        let overdue = self.source.store().store().overdue(OVERDUE, OVERDUE_RUNS).await?;
        self.damaged_rows(overdue.iter().flat_map(|version| &version.damaged));
        let versions: Vec<_> = overdue.iter().filter(|version| !version.runs.is_empty()).collect();
        if versions.is_empty() {
            self.quiet("Every run that is due is served");
        }
        for version in versions {
            let (graph, fingerprint) = (&version.graph, &version.version.fingerprint);
            let named = format!("graph {graph} ({fingerprint}, schema {})", version.version.schema);
            let title = format!("No worker serves {} of {named}", runs(version.runs.len(), version.has_more));
            let first = &version.runs[0];
            let problem = Problem {
                cause: Some(reason(version, live)),
                so: vec!["they do not continue".into()],
                since: since(first.since),
                run: Some(first.id.clone()),
                count: version.runs.len() as u64,
                advice: vec![
                    Advice { text: format!("Start a worker that serves {named}"), view: Some(self.workers()), command: None },
                    Advice {
                        text: "Or check what the new program must accept".into(),
                        view: None,
                        command: self.command("check", "--graphs FILE.json"),
                    },
                    self.look_at("Look at the longest waiting one", &first.id),
                ],
                ..self.problem(Severity::Error, "unserved", &format!("{graph} {fingerprint}"), title)
            };
            self.add(problem);
        }
        Ok(())
    }

    /// Leases that ended and were not renewed, by driver.
    pub(super) async fn lost(&mut self, live: &Live) -> Result<(), Failure> {
        let mut drivers: BTreeMap<&str, Vec<&RunInfo>> = BTreeMap::new();
        let is_late = |run: &&RunInfo| run.lease_until.is_some_and(|until| live.now.since(until) >= LATE);
        for run in live.late().filter(is_late) {
            drivers.entry(run.owner.as_deref().unwrap_or_default()).or_default().push(run);
        }
        if drivers.is_empty() {
            self.quiet("No lease is late");
        }
        for (driver, held) in drivers {
            let cause = match self.source.store().is_holder_alive(&held[0].id).await? {
                Some(false) => "its process has ended",
                Some(true) => "its process still has the store open: it is stopped, or too busy to renew",
                None => "its process has ended, is stopped, or does not reach the store",
            };
            let ended = held.iter().filter_map(|run| run.lease_until).min().unwrap_or_default();
            let process = process_of(driver).map(|process| format!(" (process {process})")).unwrap_or_default();
            let count = runs(held.len(), false);
            let problem = Problem {
                cause: Some(cause.into()),
                so: vec![format!("{count} wait until another worker takes them over")],
                since: since(ended),
                run: Some(held[0].id.clone()),
                count: held.len() as u64,
                advice: vec![
                    Advice { text: "Look whether a worker can take over".into(), view: Some(self.workers()), command: None },
                    self.look_at("Look at one of its runs", &held[0].id),
                ],
                ..self.problem(
                    Severity::Error,
                    "lease_late",
                    driver,
                    format!("Driver {driver}{process} lost its leases on {count}"),
                )
            };
            self.add(problem);
        }
        Ok(())
    }

    /// Runs that could not be driven the last time, and runs past their deadline.
    pub(super) fn troubled(&mut self, live: &Live) {
        let mut groups: BTreeMap<String, Vec<&RunInfo>> = BTreeMap::new();
        for run in live.runs().filter(|run| run.trouble.is_some()) {
            groups.entry(name(run, GroupBy::Error).unwrap_or_default()).or_default().push(run);
        }
        if groups.is_empty() {
            self.quiet("Workers can drive every run that they claim");
        }
        for (trouble, group) in groups {
            let count = runs(group.len(), false);
            let title = format!("{count} could not be driven: {trouble}");
            let problem = Problem {
                cause: group[0].trouble.clone(),
                so: vec![format!("workers try again; after {TAKEOVERS_MAX} attempts without progress a run is stuck")],
                since: since(group.iter().map(|run| run.changed).min().unwrap_or_default()),
                run: Some(group[0].id.clone()),
                count: group.len() as u64,
                advice: vec![self.look_at("Look at one of them, and repair the cause", &group[0].id)],
                ..self.problem(Severity::Warning, "trouble", &trouble, title)
            };
            self.add(problem);
        }
        self.past_deadline(live);
    }

    fn past_deadline(&mut self, live: &Live) {
        let missed = |run: &RunInfo| -> Option<Timestamp> { run.deadline.filter(|at| live.now.since(*at) > OVERDUE) };
        let late: Vec<(&RunInfo, Timestamp)> = live.runs().filter_map(|run| Some((run, missed(run)?))).collect();
        let Some((first, at)) = late.iter().min_by_key(|(_, at)| *at) else { return };
        let problem = Problem {
            cause: Some("the deadline has passed, and no driver has ended them".into()),
            so: vec!["the next driver cancels them".into()],
            since: since(*at),
            run: Some(first.id.clone()),
            count: late.len() as u64,
            advice: vec![self.look_at("Look why no worker drives the oldest one", &first.id)],
            ..self.problem(Severity::Error, "past_deadline", "", format!("{} past the deadline", runs(late.len(), false)))
        };
        self.add(problem);
    }

    fn workers(&self) -> View {
        View::Workers(StoreOnly { store: self.source.key.clone() })
    }
}
