//! The view `workers`: who holds runs, who lost them, and which runs nobody serves.
//!
//! [`Live`] reads the newest live runs once, for this view and for the home page. A store keeps no
//! list of workers: a worker is known while it holds a run.

use super::StoreSource;
use super::run::process_of;
use crate::failure::Failure;
use crate::report::Version;
use crate::report::times::{rfc3339, short};
use pleach::store::{DamagedRun, Filter, GraphVersion, LIST_MAX, OverdueRuns, RunInfo, RunStatus, Timestamp};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// How long a run may be due before it counts as unserved.
pub(super) const OVERDUE: Duration = Duration::from_secs(60);

/// The overdue runs that are read of each version.
pub(super) const OVERDUE_RUNS: usize = 10;

/// The most workers and takeovers that are listed.
const LISTED_MAX: usize = 100;

/// The live runs of a store: the newest of each status.
#[derive(Default)]
pub(super) struct Live {
    pub(super) running: Vec<RunInfo>,
    pub(super) waiting: Vec<RunInfo>,
    pub(super) damaged: Vec<DamagedRun>,
    /// Whether there are more runs of a status.
    pub(super) is_running_cut: bool,
    pub(super) is_waiting_cut: bool,
    /// The clock of the store.
    pub(super) now: Timestamp,
}

impl Live {
    /// Reads one page of each status.
    pub(super) async fn read(source: &StoreSource) -> Result<Self, Failure> {
        let list = |status| source.store().store().list(vec![Filter::Status(status)], None, LIST_MAX);
        let (running, waiting) = (list(RunStatus::Running).await?, list(RunStatus::Waiting).await?);
        Ok(Self {
            is_running_cut: running.next.is_some(),
            is_waiting_cut: waiting.next.is_some(),
            damaged: running.damaged.into_iter().chain(waiting.damaged).collect(),
            running: running.runs,
            waiting: waiting.runs,
            now: source.now().await,
        })
    }

    pub(super) fn runs(&self) -> impl Iterator<Item = &RunInfo> {
        self.running.iter().chain(&self.waiting)
    }

    /// Returns the runs whose lease has ended and whose driver has not released them.
    pub(super) fn late(&self) -> impl Iterator<Item = &RunInfo> {
        self.runs().filter(|run| run.owner.is_some() && run.lease_until.is_some_and(|until| until <= self.now))
    }

    /// Returns the versions that workers drive now.
    pub(super) fn versions(&self) -> Vec<(&str, &GraphVersion)> {
        let is_held = |run: &&RunInfo| run.owner.is_some() && run.lease_until.is_some_and(|until| until > self.now);
        let mut versions: Vec<(&str, &GraphVersion)> = Vec::new();
        for run in self.runs().filter(is_held) {
            if !versions.contains(&(&run.graph, &run.version)) {
                versions.push((&run.graph, &run.version));
            }
        }
        versions
    }
}

#[derive(Serialize)]
struct WorkersJson<'a> {
    version: Version,
    store: &'a str,
    workers: Vec<WorkerJson<'a>>,
    takeovers: Vec<TakeoverJson<'a>>,
    unserved: Vec<UnservedJson>,
    clock: ClockJson,
    is_cut: bool,
}

#[derive(Serialize)]
struct WorkerJson<'a> {
    name: &'a str,
    process: Option<u32>,
    runs: u64,
    soonest_end: Option<String>,
    late: u64,
    /// Whether its process has the store open; null if that cannot be known.
    is_alive: Option<bool>,
}

#[derive(Serialize)]
struct TakeoverJson<'a> {
    run: &'a str,
    graph: &'a str,
    takeovers: u32,
    driver: Option<&'a str>,
    changed: String,
}

#[derive(Serialize)]
struct UnservedJson {
    graph: String,
    fingerprint: String,
    schema: u32,
    runs: usize,
    /// Whether there are more runs than counted.
    is_cut: bool,
    samples: Vec<String>,
    since: Option<String>,
    reason: String,
}

#[derive(Serialize)]
struct ClockJson {
    store: String,
    console: String,
    difference_us: i64,
}

/// What one worker holds.
#[derive(Default)]
struct Holdings<'a> {
    runs: u64,
    late: u64,
    soonest: Option<Timestamp>,
    sample: &'a str,
}

pub(super) async fn view(source: &StoreSource) -> Result<Value, Failure> {
    let live = Live::read(source).await?;
    let mut holdings: BTreeMap<&str, Holdings<'_>> = BTreeMap::new();
    for run in live.runs() {
        let (Some(owner), Some(until)) = (run.owner.as_deref(), run.lease_until) else { continue };
        let held = holdings.entry(owner).or_default();
        held.runs += 1;
        held.late += u64::from(until <= live.now);
        held.soonest = Some(held.soonest.map_or(until, |soonest| soonest.min(until)));
        held.sample = &run.id;
    }
    let is_workers_cut = holdings.len() > LISTED_MAX;
    let mut workers = Vec::new();
    for (name, held) in holdings.into_iter().take(LISTED_MAX) {
        let is_alive = source.store().is_holder_alive(held.sample).await.ok().flatten();
        let (soonest_end, process) = (held.soonest.map(rfc3339), process_of(name));
        workers.push(WorkerJson { name, process, runs: held.runs, soonest_end, late: held.late, is_alive });
    }
    let mut suspects: Vec<&RunInfo> = live.runs().filter(|run| run.takeovers > 0).collect();
    suspects.sort_by_key(|run| std::cmp::Reverse(run.takeovers));
    let is_takeovers_cut = suspects.len() > LISTED_MAX;
    let takeovers = suspects.into_iter().take(LISTED_MAX).map(|run| TakeoverJson {
        run: &run.id,
        graph: &run.graph,
        takeovers: run.takeovers,
        driver: run.owner.as_deref(),
        changed: rfc3339(run.changed),
    });
    let overdue = source.store().store().overdue(OVERDUE, OVERDUE_RUNS).await?;
    let unserved = overdue.iter().filter(|version| !version.runs.is_empty()).map(|version| UnservedJson::of(version, &live));
    let here = Timestamp::from(SystemTime::now());
    super::value_of(&WorkersJson {
        version: Version,
        store: source.store().name(),
        workers,
        takeovers: takeovers.collect(),
        unserved: unserved.collect(),
        clock: ClockJson {
            store: rfc3339(live.now),
            console: rfc3339(here),
            difference_us: live.now.as_millis().saturating_sub(here.as_millis()).saturating_mul(1_000),
        },
        is_cut: live.is_running_cut || live.is_waiting_cut || is_workers_cut || is_takeovers_cut,
    })
}

impl UnservedJson {
    fn of(version: &OverdueRuns, live: &Live) -> Self {
        let since = version.runs.first().map(|run| run.since);
        Self {
            graph: version.graph.clone(),
            fingerprint: version.version.fingerprint.clone(),
            schema: version.version.schema,
            runs: version.runs.len(),
            is_cut: version.has_more,
            samples: version.runs.iter().map(|run| run.id.clone()).collect(),
            since: since.map(rfc3339),
            reason: reason(version, live),
        }
    }
}

/// Says why nobody claims runs of a version, as far as the store shows it.
pub(super) fn reason(version: &OverdueRuns, live: &Live) -> String {
    let known = live.versions();
    let waited = version.runs.first().map_or(Duration::ZERO, |run| live.now.since(run.since));
    let waited = short(waited);
    if known.is_empty() {
        return format!("due for {waited}, and no worker drives any run of this store now");
    }
    if known.iter().any(|(graph, known)| *graph == version.graph && **known == version.version) {
        return format!("due for {waited}, and the workers that serve this version have not claimed them: they may be full");
    }
    if known.iter().any(|(graph, _)| *graph == version.graph) {
        return format!("due for {waited}, and the workers of this graph have another version: a deploy changed it");
    }
    format!("due for {waited}, and no worker that drives runs now has this graph")
}
