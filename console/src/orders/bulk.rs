//! One action on many runs: first a plan with a count and samples, then one run after the other, at
//! a limited rate, with a result for each and a way to stop.

use super::act::{Orders, check_reason, plan_alone, said};
use super::listed::Listed;
use super::plans::Plans;
use crate::action::{Action, Outcome, RunOrder, StoreAction};
use crate::failure::Failure;
use crate::server::guard::random_text;
use crate::source::Source;
use crate::sources::alone;
use crate::view::{Filters, Runs, View};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// The most runs of one bulk action.
const RUNS_MAX: usize = 1_000;

/// The runs on one page of the list, and the most pages: a page can have few runs that match.
const PAGE: u64 = 200;
const PAGES_MAX: usize = 100;

/// How many runs are planned in advance, to show what will happen.
const SAMPLES: usize = 3;

/// How many results are shown.
const RESULTS_MAX: usize = 200;

/// How many bulk actions are kept, the running ones included.
const KEPT_MAX: usize = 20;

/// How many bulk actions run at once.
const RUNNING_MAX: usize = 4;

/// How long one run may take.
const ONE_WITHIN: Duration = Duration::from_secs(60);

/// The body of `POST /api/bulk`.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum BulkRequest {
    Stop(StopRequest),
    Order(Box<OrderRequest>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StopRequest {
    stop: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OrderRequest {
    action: Value,
    #[serde(default)]
    filters: Filters,
    is_plan: bool,
    #[serde(default)]
    plan: Option<String>,
    /// The count that was shown.
    #[serde(default)]
    expected: Option<usize>,
    #[serde(default)]
    per_second: Option<u32>,
    #[serde(default)]
    reason: Option<String>,
}

/// A bulk action that waits to be started.
pub(super) struct PlannedBulk {
    action: Action,
    filters: Filters,
    runs: Vec<Listed>,
}

/// The bulk actions of a console.
pub(crate) struct Bulks {
    plans: Plans<PlannedBulk>,
    known: Mutex<BTreeMap<u64, Arc<Bulk>>>,
}

/// A bulk action that was started.
struct Bulk {
    id: String,
    action: Action,
    title: String,
    per_second: u32,
    progress: Mutex<Progress>,
    stop: Notify,
}

#[derive(Default)]
struct Progress {
    total: usize,
    done: usize,
    failed: usize,
    /// Without a result; the one in progress is among them.
    left: usize,
    is_acting: bool,
    /// The newest first.
    results: VecDeque<Value>,
    is_stopped: bool,
    is_ended: bool,
}

impl Orders {
    /// Answers `POST /api/bulk`. The answer is not redacted yet.
    pub(crate) async fn bulk(&self, request: BulkRequest) -> Result<Value, Failure> {
        match request {
            BulkRequest::Stop(StopRequest { stop }) => self.stop_bulk(&stop),
            BulkRequest::Order(request) if request.is_plan => self.plan_bulk(*request).await,
            BulkRequest::Order(request) => {
                let action = Action::parse(request.action.clone())?;
                let reason = request.reason.clone().unwrap_or_default();
                check_reason(&reason)?;
                let started = self.start_bulk(&action, *request);
                let said = started.as_ref().map(|bulk| done(format_args!("started with {} runs a second", bulk.per_second)));
                let title = started.as_ref().map_or("Bulk action", |bulk| &bulk.title);
                self.recorder()(&action, title, &reason, &said.map_err(Failure::clone));
                started.map(|bulk| json!({ "bulk": bulk.id, "runs": bulk.progress().total }))
            }
        }
    }

    fn stop_bulk(&self, id: &str) -> Result<Value, Failure> {
        let bulk = self.bulks.find(id)?;
        let text = {
            let mut progress = bulk.progress();
            if progress.is_ended || progress.is_stopped {
                return Ok(json!({}));
            }
            progress.is_stopped = true;
            let left = progress.left - usize::from(progress.is_acting);
            let last = if progress.is_acting { ", and one is still in progress" } else { "" };
            format!("stopped; {left} runs were left{last}")
        };
        bulk.stop.notify_one();
        let outcome = Ok(done(text));
        self.recorder()(&bulk.action, &format!("Stop: {}", bulk.title), "", &outcome);
        Ok(json!({}))
    }

    async fn plan_bulk(&self, request: OrderRequest) -> Result<Value, Failure> {
        let action = Action::parse(request.action)?;
        let Action::Store(order) = &action else {
            return Err(Failure::new("bad_request", "a bulk action needs a store"));
        };
        if matches!(order.order, RunOrder::Rewind { .. } | RunOrder::Fork { .. }) || !order.run.is_empty() {
            return Err(Failure::new("bad_request", "this action needs one run"));
        }
        let source = Arc::clone(self.sources.find(&order.store)?);
        self.resolve(&source, action.clone()).await?;
        let (runs, is_cut) = matching(&source, &order.store, &request.filters).await?;
        let mut samples = Vec::new();
        let mut is_destructive = false;
        for run in runs.iter().take(SAMPLES) {
            let plan = plan_alone(Arc::clone(&source), with_run(&action, &run.id)).await;
            samples.push(match plan {
                Ok(plan) => {
                    is_destructive |= plan.is_destructive;
                    json!({ "run": run.id, "title": plan.title, "will": plan.will, "refusal": plan.refusal })
                }
                Err(failure) => json!({ "run": run.id, "title": run.id, "will": [], "refusal": failure.text }),
            });
        }
        let (count, title) = (runs.len(), title(&action, runs.len()));
        let bytes = action.bytes() + runs.iter().map(Listed::bytes).sum::<usize>();
        let plan = self.bulks.plans.keep(PlannedBulk { action, filters: request.filters, runs }, bytes)?;
        Ok(json!({
            "plan": plan,
            "title": title,
            "runs": { "count": count, "is_cut": is_cut },
            "samples": samples,
            "is_destructive": is_destructive,
            "is_allowed": self.allows_actions && count > 0,
        }))
    }

    /// Starts what was planned, in a task of its own.
    fn start_bulk(&self, action: &Action, request: OrderRequest) -> Result<Arc<Bulk>, Failure> {
        let planned = self.may_act().and_then(|()| self.bulks.plans.take(request.plan.as_deref()))?;
        if planned.action != *action || planned.filters != request.filters {
            return Err(Failure::new("bad_request", "this plan is for another action or other runs").advice("plan it again"));
        }
        let count = planned.runs.len();
        if request.expected != Some(count) {
            return Err(Failure::new("bad_request", format_args!("{count} runs were planned; `expected` is another number")));
        }
        let per_second = request.per_second.unwrap_or(10);
        if !(1..=100).contains(&per_second) {
            return Err(Failure::new("bad_request", "`per_second` is 1 to 100"));
        }
        let source = Arc::clone(self.sources.find(action.source())?);
        let bulk = self.bulks.start(action.clone(), per_second, count)?;
        self.bulks.plans.note_used(request.plan);
        let (record, reason) = (self.recorder(), request.reason.unwrap_or_default());
        let begun = Arc::clone(&bulk);
        tokio::spawn(async move {
            let mut pace = interval(Duration::from_secs(1) / per_second);
            pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
            for run in planned.runs {
                tokio::select! {
                    biased;
                    () = begun.stop.notified() => break,
                    _ = pace.tick() => {}
                }
                if !begun.begin_run() {
                    break;
                }
                let action = with_run(&begun.action, &run.id);
                let (title, outcome) = one(&source, &action, &run, &planned.filters).await;
                record(&action, &title, &reason, &outcome);
                begun.note(&run.id, &outcome);
            }
            begun.progress().is_ended = true;
        });
        Ok(bulk)
    }
}

fn done(text: impl Display) -> Outcome {
    Outcome { outcome: "done".to_string(), text: text.to_string(), ..Outcome::default() }
}

/// Plans one run and carries it out, unless the plan refuses, or it is not the run that was listed.
async fn one(
    source: &Arc<dyn Source>,
    action: &Action,
    listed: &Listed,
    filters: &Filters,
) -> (String, Result<Outcome, Failure>) {
    let (source, ordered) = (Arc::clone(source), action.clone());
    let work = async move {
        let plan = plan_alone(Arc::clone(&source), ordered.clone()).await?;
        if let Some(refusal) = plan.refusal {
            return Ok((plan.title, Err(Failure::new("refused", refusal))));
        }
        if let Some(change) = plan.found.as_ref().and_then(|found| listed.change(found, filters)) {
            return Ok((plan.title, Err(change)));
        }
        Ok((plan.title, alone(async move { source.carry_out(&ordered, &plan.guard).await }).await))
    };
    match timeout(ONE_WITHIN, work).await {
        Ok(Ok(done)) => done,
        Ok(Err(failure)) => (action.title(), Err(failure)),
        Err(_) => {
            let limit = ONE_WITHIN.as_secs();
            (action.title(), Err(Failure::new("timed_out", format_args!("no result within {limit} s; it may have happened"))))
        }
    }
}

/// Returns the runs that match, at most [`RUNS_MAX`], and whether there are more.
async fn matching(source: &Arc<dyn Source>, store: &str, filters: &Filters) -> Result<(Vec<Listed>, bool), Failure> {
    let (mut runs, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        pages += 1;
        let view = View::Runs(Runs { store: store.to_string(), filters: filters.clone(), after, limit: Some(PAGE) });
        let source = Arc::clone(source);
        let page = alone(async move { source.view(&view).await }).await?;
        runs.extend(page["runs"].as_array().into_iter().flatten().filter_map(Listed::of));
        after = page["next"].as_str().map(str::to_string);
        if after.is_none() || runs.len() > RUNS_MAX || pages == PAGES_MAX {
            let is_cut = after.is_some() || runs.len() > RUNS_MAX;
            runs.truncate(RUNS_MAX);
            return Ok((runs, is_cut));
        }
    }
}

fn with_run(action: &Action, run: &str) -> Action {
    match action {
        Action::Store(order) => Action::Store(StoreAction { run: run.to_string(), ..order.clone() }),
        Action::Process(_) => action.clone(),
    }
}

fn title(action: &Action, runs: usize) -> String {
    format!("{} {runs} runs", action.verb())
}

impl Bulks {
    pub(super) fn new() -> Self {
        Self { plans: Plans::new(), known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Bulk>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, id: &str) -> Result<Arc<Bulk>, Failure> {
        let known = self.known();
        let found = known.values().find(|bulk| bulk.id == id);
        found.cloned().ok_or_else(|| Failure::new("not_found", "this bulk action is not known any more"))
    }

    fn start(&self, action: Action, per_second: u32, total: usize) -> Result<Arc<Bulk>, Failure> {
        let mut known = self.known();
        if known.values().filter(|bulk| !bulk.progress().is_ended).count() >= RUNNING_MAX {
            return Err(Failure::new("refused", format_args!("{RUNNING_MAX} bulk actions are running"))
                .advice("wait for one, or stop it"));
        }
        while known.len() >= KEPT_MAX {
            let ended = known.iter().find(|(_, bulk)| bulk.progress().is_ended).map(|(number, _)| *number);
            let Some(ended) = ended else { break };
            known.remove(&ended);
        }
        let id = random_text(8).map_err(|error| Failure::new("internal", error))?;
        let progress = Mutex::new(Progress { total, left: total, ..Progress::default() });
        let title = title(&action, total);
        let bulk = Arc::new(Bulk { id, action, title, per_second, progress, stop: Notify::new() });
        let number = known.last_key_value().map_or(0, |(number, _)| number + 1);
        known.insert(number, Arc::clone(&bulk));
        Ok(bulk)
    }

    /// Answers the view `bulk`.
    pub(crate) fn view(&self, id: &str) -> Result<Value, Failure> {
        let bulk = self.find(id)?;
        let progress = bulk.progress();
        Ok(json!({
            "bulk": bulk.id,
            "title": bulk.title,
            "per_second": bulk.per_second,
            "done": progress.done,
            "failed": progress.failed,
            "left": progress.left,
            "results": progress.results,
            "is_stopped": progress.is_stopped,
            "is_ended": progress.is_ended,
        }))
    }

    /// Stops all bulk actions.
    pub(crate) fn close(&self) {
        for bulk in self.known().values() {
            bulk.progress().is_stopped = true;
            bulk.stop.notify_one();
        }
    }
}

impl Bulk {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a run, unless the bulk action was stopped.
    fn begin_run(&self) -> bool {
        let mut progress = self.progress();
        progress.is_acting = !progress.is_stopped;
        progress.is_acting
    }

    fn note(&self, run: &str, outcome: &Result<Outcome, Failure>) {
        let (outcome, text) = said(outcome);
        let mut progress = self.progress();
        if matches!(outcome.as_str(), "refused" | "failed") {
            progress.failed += 1;
        } else {
            progress.done += 1;
        }
        progress.left -= 1;
        progress.is_acting = false;
        progress.results.push_front(json!({ "run": run, "outcome": outcome, "text": text }));
        progress.results.truncate(RESULTS_MAX);
    }
}
