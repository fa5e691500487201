//! The watch of a worker: finds runs that no worker serves, and reports them.
//!
//! 1. At its start it checks the stored runs against the graphs of the worker, from their own rows
//!    only. It logs one warning with counts.
//! 2. Then it asks the store now and then for overdue runs: runs that are due and that no worker
//!    has claimed for longer than a limit. A run that another worker serves is claimed within the
//!    limit, so it is not reported.
//!
//! A report is logged and sent as an event when it contains something new, and once when all is
//! served again. The store is asked by one indexed query and one short list for each graph, not for
//! each run. A store that fails is asked again later; the claims report the failure.

use crate::durable::deploy::{DeployCheck, DeployReport, GraphExport, RunFit};
use crate::store::{Filter, OverdueRuns, RunStatus, StoreError};
use crate::util::future::either;
use crate::worker::claims::RETRY_WAIT;
use crate::worker::core::{CALL_MAX, WorkerCore};
use crate::worker::event::WorkerEvent;
use crate::worker::unserved::{StuckRun, UnservedProblem, UnservedRuns, UnservedVersion};
use pleach_core::{ActorPath, HealthReport, Instant, Problem};
use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The shortest and the longest time between two queries. It is half of the limit within these.
const WATCH_EVERY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// The most runs that the check at the start reads.
pub(super) const CHECKED_AT_START_MAX: u64 = 10_000;

/// The most runs of one version that are listed.
const LISTED_MAX: usize = 10;

/// The most stuck runs, and the most runs of a newer version, that are listed.
const STUCK_MAX: usize = 100;

/// How long a run of a newer version is listed after this worker released it last.
const TOO_NEW_FOR: Duration = Duration::from_secs(5 * 60);

/// What the watch of a worker knows.
#[derive(Default)]
pub(super) struct Watch(Mutex<WatchState>);

#[derive(Default)]
struct WatchState {
    unserved: UnservedRuns,
    /// The runs that this worker is too old for, and when it released them.
    too_new: BTreeMap<String, Instant>,
    /// The open health reports, by kind of problem. Dropping one withdraws it.
    health: BTreeMap<&'static str, HealthReport>,
}

impl Watch {
    fn lock(&self) -> MutexGuard<'_, WatchState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the last report.
    pub(super) fn unserved(&self) -> UnservedRuns {
        self.lock().unserved.clone()
    }

    /// Notes a run that a newer version wrote.
    pub(super) fn note_too_new(&self, run: &str, now: Instant) {
        let mut state = self.lock();
        if state.too_new.len() < STUCK_MAX || state.too_new.contains_key(run) {
            state.too_new.insert(run.to_string(), now);
        }
    }

    /// Withdraws all health reports: the worker no longer looks.
    pub(super) fn withdraw_health(&self) {
        let reports = std::mem::take(&mut self.lock().health);
        drop(reports);
    }

    /// Returns the runs that were noted recently, and forgets the others.
    fn recent_too_new(&self, now: Instant) -> Vec<String> {
        let mut state = self.lock();
        state.too_new.retain(|_, at| now.since(*at) < TOO_NEW_FOR);
        state.too_new.keys().cloned().collect()
    }
}

/// Watches the store until the worker is closing.
pub(super) async fn watch_runs(core: Arc<WorkerCore>) {
    let watching = async {
        check_at_start(&core).await;
        // The rest of the watch does not wait for a run whose refused messages cannot be read.
        let adopting = async {
            adopt_at_start(&core).await;
            pending::<()>().await;
        };
        either(Box::pin(watch_unserved(&core)), Box::pin(adopting)).await;
    };
    either(Box::pin(watching), Box::pin(core.closing())).await;
    core.watch.withdraw_health();
    core.refusals.withdraw();
}

/// Checks the stored runs once, and retries while the store fails.
async fn check_at_start(core: &WorkerCore) {
    let mut failures = 0;
    loop {
        match core.bounded(CALL_MAX, Box::pin(core.check_deploy())).await {
            Ok(report) => return core.report_deploy(report),
            Err(_) => failures += 1,
        }
        core.sleep(core.backoff(RETRY_WAIT, failures)).await;
    }
}

/// Reports the refused messages of waiting runs, and continues later while the store fails.
async fn adopt_at_start(core: &WorkerCore) {
    let (mut adoption, mut failures) = (core.adoption(), 0);
    while core.adopt_refusals(&mut adoption).await.is_err() {
        failures += 1;
        core.sleep(core.backoff(RETRY_WAIT, failures)).await;
    }
}

/// Looks now and then for runs that no worker serves, and at the runs with refused messages.
async fn watch_unserved(core: &WorkerCore) {
    let every = (core.settings.unserved_after / 2).clamp(WATCH_EVERY.0, WATCH_EVERY.1);
    let mut failures = 0;
    loop {
        let after_failures = if failures == 0 { Duration::ZERO } else { core.backoff(RETRY_WAIT, failures) };
        core.sleep(core.jitter(every) + after_failures).await;
        match core.find_unserved().await {
            Ok(found) => {
                failures = 0;
                core.report_unserved(found);
            }
            Err(_) => failures += 1,
        }
        core.look_at_kept_refusals().await;
    }
}

impl WorkerCore {
    /// Returns the path of the worker, which names it in logs.
    fn path(&self) -> ActorPath {
        self.member.path()
    }

    fn exports(&self) -> Vec<GraphExport> {
        self.graphs.iter().map(|known| known.export.clone()).collect()
    }

    async fn check_deploy(&self) -> Result<DeployReport, StoreError> {
        let check = DeployCheck::of(self.exports()).read_logs(false).limit(CHECKED_AT_START_MAX);
        check.run(&*self.store).await
    }

    /// Reports the check at the start, if it found anything to say.
    fn report_deploy(&self, report: DeployReport) {
        if report.groups.iter().all(|group| group.fit == RunFit::Served) {
            return;
        }
        // Runs of other graphs are usually served by other workers. They are reported once they are
        // overdue.
        let of_its_graphs = report.unserved().filter(|group| group.fit != RunFit::UnknownGraph);
        let unserved: u64 = of_its_graphs.map(|group| group.runs).sum();
        if unserved > 0 {
            tracing::warn!(worker = %self.path(), unserved, %report, "stored runs of this worker's graphs are not served by it; unless another worker serves them, they wait for ever");
        } else {
            tracing::info!(worker = %self.path(), %report, "checked the stored runs against the graphs of this worker");
        }
        self.report(&WorkerEvent::DeployChecked { report });
    }

    /// Asks the store for runs that no worker serves.
    async fn find_unserved(&self) -> Result<UnservedRuns, StoreError> {
        let overdue = self.bounded(CALL_MAX, self.store.overdue(self.settings.unserved_after, LISTED_MAX)).await?;
        let mut found = UnservedRuns::default();
        let names: BTreeSet<&str> = self.graphs.iter().map(|known| known.export.graph.name.as_str()).collect();
        for name in names {
            let filters = vec![Filter::Status(RunStatus::Stuck), Filter::Graph(name.to_string())];
            let count = STUCK_MAX - found.stuck.len();
            let stuck = self.bounded(CALL_MAX, self.store.list(filters, None, count)).await?;
            found.has_more_stuck |= stuck.next.is_some();
            found.stuck.extend(stuck.runs.into_iter().map(|run| StuckRun { id: run.id, reason: run.trouble }));
            if found.stuck.len() >= STUCK_MAX {
                break;
            }
        }
        let exports = self.exports();
        for OverdueRuns { graph, version, runs, damaged, has_more } in overdue {
            found.damaged.extend(damaged);
            if !runs.is_empty() && !self.graphs.iter().any(|known| known.drives(&graph, &version)) {
                let fit = RunFit::of(&exports, &graph, &version);
                found.overdue.push(UnservedVersion { graph, version, fit, runs, has_more });
            }
        }
        found.too_new = self.watch.recent_too_new(self.runtime.now());
        Ok(found)
    }

    /// Stores the report. Logs and reports it if it has something new, or is the first empty one.
    fn report_unserved(&self, found: UnservedRuns) {
        let before = std::mem::replace(&mut self.watch.lock().unserved, found.clone());
        self.report_health(&found);
        if found.is_empty() {
            if !before.is_empty() {
                tracing::info!(worker = %self.path(), "every due run is served again");
                self.report(&WorkerEvent::AllServed);
            }
        } else if found.is_news_after(&before) {
            let (limit, count) = (self.settings.unserved_after, found.count());
            tracing::warn!(worker = %self.path(), ?limit, count, unserved = %found, "no worker serves these runs");
            self.report(&WorkerEvent::Unserved { runs: found });
        }
    }

    /// Opens, updates and withdraws the health reports of the worker.
    fn report_health(&self, found: &UnservedRuns) {
        let mut before = std::mem::take(&mut self.watch.lock().health);
        let mut now = BTreeMap::new();
        for UnservedProblem { key, text, advice } in found.problems() {
            let problem = Problem::new(key, text).advice(advice);
            let report = match before.remove(key) {
                Some(report) => {
                    report.update(problem);
                    report
                }
                None => self.member.report_health(problem),
            };
            now.insert(key, report);
        }
        // The reports that are left in `before` are withdrawn after unlock.
        self.watch.lock().health = now;
    }
}
