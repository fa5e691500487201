//! The runs of a store: stuck, unserved, paused, waiting for long, damaged, without a living
//! driver, and old.

use super::{Findings, Level, some_of};
use crate::failure::Failure;
use crate::output::counted;
use crate::output::progress::Progress;
use crate::output::times::short;
use crate::runs::quoted;
use crate::store::{OpenStore, Target};
use pleach::durable::RunRemote;
use pleach::store::{Filter, LIST_MAX, RunInfo, RunStatus, Store as _, Timestamp};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// The most runs of one status that are examined without `--full`.
const RUNS_MAX: usize = 5_000;

/// The most runs whose position is read without `--full`.
const VIEWS_MAX: usize = 200;

/// How long a run may be due before it counts as unserved.
const OVERDUE: Duration = Duration::from_secs(60);

/// How long a run may wait for a person before that is reported.
const LONG_WAIT: Duration = Duration::from_secs(24 * 3_600);

/// The age of ended runs that are counted as old, and the number from which that is reported.
const OLD: Duration = Duration::from_secs(30 * 24 * 3_600);
const OLD_MANY: u64 = 10_000;

/// What the live runs of a store show.
#[derive(Default)]
struct Live {
    counts: BTreeMap<&'static str, usize>,
    is_cut: bool,
    stuck: Vec<String>,
    troubled: Vec<String>,
    suspects: Vec<String>,
    expired: Vec<String>,
    past_deadline: Vec<String>,
    from_the_future: Vec<String>,
    drivers: BTreeMap<String, usize>,
    /// Runs with messages, which may be paused.
    with_messages: Vec<String>,
    /// Runs that wait for long without a time at which they continue.
    waiting: Vec<RunInfo>,
}

pub async fn examine(store: &OpenStore, target: &Target, is_full: bool, findings: &mut Findings) -> Result<(), Failure> {
    let now = Timestamp::from(SystemTime::now());
    let progress = Progress::new("runs examined");
    let (mut live, mut damaged) = (Live::default(), Vec::new());
    for status in [RunStatus::Running, RunStatus::Waiting, RunStatus::Stuck] {
        let (mut after, mut count) = (None, 0);
        loop {
            let page = store.list(vec![Filter::Status(status)], after, LIST_MAX).await?;
            damaged.extend(page.damaged.into_iter().map(|run| run.run));
            count += page.runs.len();
            progress.add(page.runs.len() as u64);
            page.runs.into_iter().for_each(|run| live.add(run, now));
            after = page.next;
            if after.is_none() || (!is_full && count >= RUNS_MAX) {
                break;
            }
        }
        live.is_cut |= after.is_some();
        live.counts.insert(status.as_str(), count);
    }
    // Rows with a damaged status are in no list of a status.
    damaged.extend(store.list(Vec::new(), None, LIST_MAX).await?.damaged.into_iter().map(|run| run.run));
    damaged.sort();
    damaged.dedup();
    live.report(target, findings);
    report_damaged(&damaged, target, findings);
    unserved(store, target, findings).await?;
    paused(store, &live, target, is_full, findings).await?;
    waiting(store, &live, target, is_full, findings).await?;
    old(store, target, now, findings).await
}

impl Live {
    fn add(&mut self, run: RunInfo, now: Timestamp) {
        let until = run.lease_until.unwrap_or_default();
        match &run.owner {
            Some(owner) if until > now => *self.drivers.entry(owner.clone()).or_default() += 1,
            Some(_) => self.expired.push(run.id.clone()),
            None => {}
        }
        if run.status == RunStatus::Stuck {
            self.stuck.push(run.id);
            return;
        }
        if run.trouble.is_some() {
            self.troubled.push(run.id.clone());
        } else if run.takeovers >= 2 {
            self.suspects.push(run.id.clone());
        }
        if run.deadline.is_some_and(|at| now.since(at) > OVERDUE) {
            self.past_deadline.push(run.id.clone());
        }
        if run.changed.since(now) > OVERDUE {
            self.from_the_future.push(run.id.clone());
        }
        if run.last_message > 0 {
            self.with_messages.push(run.id.clone());
        }
        if run.status == RunStatus::Waiting && run.wake_at.is_none() && now.since(run.changed) > LONG_WAIT {
            self.waiting.push(run);
        }
    }

    fn report(&self, target: &Target, findings: &mut Findings) {
        let name = quoted(&target.name());
        let why = |ids: &[String]| format!("pleach why {name} {}", quoted(&ids[0]));
        let counts: Vec<String> = self.counts.iter().map(|(status, count)| format!("{count} {status}")).collect();
        let cut = if self.is_cut { " (more were not examined; --full does)" } else { "" };
        findings.ok("runs", format!("{}{cut}", counts.join(", ")));
        let held: usize = self.drivers.values().sum();
        findings.ok("drivers", format!("{}, with leases on {}", counted(self.drivers.len(), "driver"), counted(held, "run")));
        let lists: [(&[String], Level, &'static str, &str, &str); 6] = [
            (
                &self.stuck,
                Level::Problem,
                "stuck",
                "stuck: no worker claims them any more",
                "repair the cause, then unstick them",
            ),
            (
                &self.troubled,
                Level::Warning,
                "trouble",
                "that could not be driven the last time",
                "look why; after 5 attempts a run is stuck",
            ),
            (
                &self.suspects,
                Level::Warning,
                "suspects",
                "taken over twice or more without a commit",
                "their nodes may crash the process; after 5 takeovers a run is stuck",
            ),
            (
                &self.expired,
                Level::Warning,
                "leases",
                "with an expired lease: the driver has ended, or is stopped",
                "workers that serve their version take them over; start one if none runs",
            ),
            (
                &self.past_deadline,
                Level::Problem,
                "deadlines",
                "past the deadline for more than a minute",
                "a worker that serves their version ends them; start one",
            ),
            (
                &self.from_the_future,
                Level::Warning,
                "future",
                "changed in the future: a clock was, or is, wrong",
                "correct the clock of the machine that has the store",
            ),
        ];
        for (ids, level, subject, what, advice) in lists {
            match ids {
                [] if subject == "stuck" => findings.ok(subject, "no run is stuck"),
                [] => {}
                ids => findings.bad_with(
                    level,
                    subject,
                    format!("{} {what}: {}", counted(ids.len(), "run"), some_of(ids)),
                    advice,
                    why(ids),
                ),
            }
        }
    }
}

fn report_damaged(ids: &[String], target: &Target, findings: &mut Findings) {
    let Some(first) = ids.first() else { return };
    let text = format!("{} with a damaged row, which no worker can claim: {}", counted(ids.len(), "run"), some_of(ids));
    let advice = "restore the store from a backup, or delete the runs";
    let command = format!("pleach why {} {}", quoted(&target.name()), quoted(first));
    findings.bad_with(Level::Problem, "damaged", text, advice, command);
}

/// Due runs that no worker claims, by version.
async fn unserved(store: &OpenStore, target: &Target, findings: &mut Findings) -> Result<(), Failure> {
    let overdue = store.overdue(OVERDUE, 10).await?;
    if overdue.is_empty() {
        findings.ok("unserved", format!("no run is due for more than {}", short(OVERDUE)));
    }
    for version in overdue.iter().filter(|version| !version.runs.is_empty()) {
        let ids: Vec<String> = version.runs.iter().map(|run| run.id.clone()).collect();
        let more = if version.has_more { " or more" } else { "" };
        let text = format!(
            "{}{more} of graph {:?} ({}, schema {}) due, and no worker claims them: {}",
            counted(ids.len(), "run"),
            version.graph,
            version.version.fingerprint,
            version.version.schema,
            some_of(&ids)
        );
        let advice = "start a worker that serves this version, or accept or migrate it in the new program";
        let command = format!("pleach why {} {}", quoted(&target.name()), quoted(&ids[0]));
        findings.bad_with(Level::Problem, "unserved", text, advice, command);
    }
    Ok(())
}

/// Runs that a command paused. Only a run with messages can be paused.
async fn paused(
    store: &OpenStore,
    live: &Live,
    target: &Target,
    is_full: bool,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let mut paused = Vec::new();
    let progress = Progress::new("inboxes read");
    for id in live.with_messages.iter().take(if is_full { usize::MAX } else { VIEWS_MAX }) {
        progress.add(1);
        // A run that ended or was damaged meanwhile is not paused.
        if RunRemote::new(store, id.as_str()).view().await.is_ok_and(|view| view.is_paused) {
            paused.push(id.clone());
        }
    }
    if let Some(first) = paused.first() {
        let text = format!("{} paused by a command: {}", counted(paused.len(), "run"), some_of(&paused));
        let command = format!("pleach runs resume {} {}", quoted(&target.name()), quoted(first));
        findings.bad_with(Level::Warning, "paused", text, "they continue after a resume", command);
    }
    Ok(())
}

/// Runs that wait for a person or a signal for long.
async fn waiting(
    store: &OpenStore,
    live: &Live,
    target: &Target,
    is_full: bool,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let mut waiting = Vec::new();
    for run in live.waiting.iter().take(if is_full { usize::MAX } else { VIEWS_MAX }) {
        let Ok(view) = RunRemote::new(store, run.id.as_str()).view().await else { continue };
        if !view.is_paused && view.waits().next().is_some() {
            waiting.push(run.id.clone());
        }
    }
    if let Some(first) = waiting.first() {
        let hours = short(LONG_WAIT);
        let text = format!(
            "{} waiting for an answer or a signal for more than {hours}: {}",
            counted(waiting.len(), "run"),
            some_of(&waiting)
        );
        let command = format!("pleach why {} {}", quoted(&target.name()), quoted(first));
        findings.bad_with(Level::Warning, "waiting", text, "answer them, or cancel the ones that are not needed", command);
    }
    Ok(())
}

/// Ended runs that are kept for long.
async fn old(store: &OpenStore, target: &Target, now: Timestamp, findings: &mut Findings) -> Result<(), Failure> {
    let before = Timestamp::from_millis(now.as_millis().saturating_sub(OLD.as_millis() as i64));
    let mut count = 0;
    for status in RunStatus::ALL.into_iter().filter(|status| status.has_ended()) {
        let mut after = None;
        while count < OLD_MANY {
            let page = store.list(vec![Filter::Status(status), Filter::ChangedBefore(before)], after, LIST_MAX).await?;
            count += page.runs.len() as u64;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    let days = OLD.as_secs() / 86_400;
    if count >= OLD_MANY {
        let text = format!("{count} or more ended runs are older than {days} days");
        let command = format!("pleach runs prune {} --older-than {days}d --dry-run", quoted(&target.name()));
        findings.bad_with(Level::Warning, "retention", text, "remove the ones that are not needed", command);
    } else {
        findings.ok("retention", format!("{count} ended runs are older than {days} days"));
    }
    Ok(())
}
