//! [`RunRefusals`]: the health reports of one run about messages that it refused.
//!
//! The member that drives the run reports each wait that refused a message, until the wait ends.
//! The sender of an answer may be gone by the time at which the run refuses it.
//!
//! | state of a report | entered by | left by |
//! |---|---|---|
//! | open | [`RunRefusals::add`], [`RunRefusals::restore`] | `wait_ended`, `received`, drop |
//! | dropped: withdrawn for now | [`RunRefusals::wait_dropped`] | `wait_again`, `wait_ended` |
//! | kept: the run waits without a driver | [`RunRefusals::keep`] | `reopen`, drop |
//!
//! Invariants:
//! 1. A run has at most [`REPORTS_MAX`] reports, and one that counts the rest. A worker has reports
//!    of at most [`RUNS_MAX`] runs, and one that counts the rest.
//! 2. A report has no content of a message.
//!
//! Locks: `RunRefusals`, then `WorkerRefusals`, then the list of reports in the tree. No waker is
//! called under them.

use crate::control::delivery::Described;
use crate::log::message_waits::MessageWaits;
use crate::store::{RefusalCause, RefusedMessage};
use pleach_core::{AnyRef, HealthReport, Problem};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The kind of these problems, as health reports name it.
const KEY: &str = "message-refused";

/// The most waits of one run that have a report each.
const REPORTS_MAX: usize = 4;

/// The most waits of one run that are known. Further refusals are only counted.
const WAITS_MAX: usize = 64;

/// The most runs of one worker that have reports.
const RUNS_MAX: usize = 32;

/// What refused a message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Refuser {
    /// A wait: its record, or its number in an in-memory run.
    Wait(u64),
    /// The run itself, by the name of the message.
    Run(String),
}

/// The refusals of one run that still matter.
pub(crate) struct RunRefusals {
    run: Arc<str>,
    member: AnyRef,
    /// For a run of a worker: limits how many of its runs have reports.
    worker: Option<Arc<WorkerRefusals>>,
    state: Mutex<RefusalState>,
}

#[derive(Default)]
struct RefusalState {
    open: BTreeMap<Refuser, OpenRefusal>,
    /// Refusals of waits that their nodes dropped, by record. They open again if the node waits for
    /// the same key again. At most [`WAITS_MAX`].
    dropped: BTreeMap<u64, OpenRefusal>,
    /// The refusals of waits that did not fit into `open`.
    further: u64,
    /// Counts what has no report of its own.
    more: Option<HealthReport>,
    /// The run has no driver: a wait that is dropped now has not been answered.
    is_kept: bool,
    /// Another driver may have refused messages since the reports were kept.
    is_outdated: bool,
    /// Whether the run may have reports, if the worker was asked.
    is_listed: Option<bool>,
}

/// The last message that one wait refused.
struct OpenRefusal {
    name: String,
    cause: RefusalCause,
    count: u64,
    report: Option<HealthReport>,
}

impl RunRefusals {
    /// Creates the reports of a run that `member` drives.
    pub(crate) fn new(run: Arc<str>, member: AnyRef, worker: Option<Arc<WorkerRefusals>>) -> Self {
        Self { run, member, worker, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, RefusalState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports a refused message.
    pub(crate) fn add(&self, refuser: Refuser, name: &str, cause: &RefusalCause) {
        let mut state = self.lock();
        self.add_to(&mut state, refuser, name, cause);
        self.report(&mut state);
    }

    /// Reports messages that an earlier driver refused, for the waits that are still open and have
    /// no report yet.
    pub(crate) fn restore(&self, refused: &[RefusedMessage], open: &MessageWaits) {
        let mut state = self.lock();
        let known: Vec<Refuser> = state.open.keys().cloned().collect();
        let is_missing = |wait: &u64| open.contains_key(wait) && !known.contains(&Refuser::Wait(*wait));
        for RefusedMessage { name, cause, wait, .. } in refused {
            if let Some(wait) = wait.filter(is_missing) {
                self.add_to(&mut state, Refuser::Wait(wait), name, cause);
            }
        }
        self.report(&mut state);
    }

    /// Withdraws the report of a wait that its node dropped, until it waits again.
    pub(crate) fn wait_dropped(&self, wait: u64) {
        let mut state = self.lock();
        if state.is_kept {
            return;
        }
        if let Some(refusal) = state.open.remove(&Refuser::Wait(wait)) {
            if state.dropped.len() < WAITS_MAX {
                state.dropped.insert(wait, OpenRefusal { report: None, ..refusal });
            }
            self.report(&mut state);
        }
    }

    /// Reports again what a wait refused before its node dropped it.
    pub(crate) fn wait_again(&self, wait: u64) {
        let mut state = self.lock();
        if let Some(refusal) = state.dropped.remove(&wait) {
            state.open.entry(Refuser::Wait(wait)).or_insert(refusal);
            self.report(&mut state);
        }
    }

    /// Withdraws the report of a wait that has ended.
    pub(crate) fn wait_ended(&self, wait: u64) {
        let mut state = self.lock();
        state.dropped.remove(&wait);
        if !state.is_kept && state.open.remove(&Refuser::Wait(wait)).is_some() {
            self.report(&mut state);
        }
    }

    /// Withdraws the report of a message that no wait refused: another one of its name was good.
    pub(crate) fn received(&self, name: &str) {
        let mut state = self.lock();
        if !state.open.is_empty() && state.open.remove(&Refuser::Run(name.to_string())).is_some() {
            self.report(&mut state);
        }
    }

    /// Keeps the reports from now on: the run waits without a driver.
    pub(crate) fn keep(&self) {
        self.lock().is_kept = true;
    }

    /// Notes that another driver had the run since the reports were kept.
    pub(crate) fn outdate(&self) {
        self.lock().is_outdated = true;
    }

    /// Continues with a run that is driven again. Only the reports of these waits stay. Returns
    /// whether they are all, because no other driver had the run.
    pub(crate) fn reopen(&self, open: &MessageWaits) -> bool {
        let mut state = self.lock();
        (state.is_kept, state.further) = (false, 0);
        state.open.retain(|refuser, _| matches!(refuser, Refuser::Wait(wait) if open.contains_key(wait)));
        state.dropped.retain(|wait, _| open.contains_key(wait));
        self.report(&mut state);
        !std::mem::take(&mut state.is_outdated)
    }

    /// Returns whether the run waited when its last driver here released it.
    pub(crate) fn is_kept(&self) -> bool {
        self.lock().is_kept
    }

    /// Returns whether nothing is reported.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().open.is_empty()
    }

    fn add_to(&self, state: &mut RefusalState, refuser: Refuser, name: &str, cause: &RefusalCause) {
        if let Some(known) = state.open.get_mut(&refuser) {
            (known.cause, known.count) = (cause.clone(), known.count + 1);
            if let Some(report) = &known.report {
                report.update(problem(&self.run, known));
            }
        } else if state.open.len() < WAITS_MAX {
            let refusal = OpenRefusal { name: name.to_string(), cause: cause.clone(), count: 1, report: None };
            state.open.insert(refuser, refusal);
        } else {
            state.further += 1;
        }
    }

    /// Opens and withdraws reports, so that they fit the open refusals.
    fn report(&self, state: &mut RefusalState) {
        if state.open.is_empty() {
            (state.more, state.further) = (None, 0);
            self.leave_worker(state);
            return;
        }
        let worker = self.worker.as_ref();
        if !*state.is_listed.get_or_insert_with(|| worker.is_none_or(|worker| worker.begin())) {
            return;
        }
        let reported = state.open.values().filter(|refusal| refusal.report.is_some()).count();
        let unreported = state.open.values_mut().filter(|refusal| refusal.report.is_none());
        for refusal in unreported.take(REPORTS_MAX.saturating_sub(reported)) {
            refusal.report = Some(self.member.report_health(problem(&self.run, refusal)));
        }
        let beyond = state.open.values().filter(|refusal| refusal.report.is_none()).map(|refusal| refusal.count).sum::<u64>();
        let beyond = beyond + state.further;
        state.more = (beyond > 0).then(|| {
            let problem = further(&self.run, beyond);
            match state.more.take() {
                Some(more) => {
                    more.update(problem);
                    more
                }
                None => self.member.report_health(problem),
            }
        });
    }

    fn leave_worker(&self, state: &mut RefusalState) {
        if let (Some(worker), Some(was_listed)) = (&self.worker, state.is_listed.take()) {
            worker.end(was_listed);
        }
    }
}

/// Waits of one visit that an earlier driver recorded. Dropping it ends them: the visit is over.
pub(crate) struct RestoredWaits {
    refusals: Arc<RunRefusals>,
    waits: Vec<u64>,
}

impl RestoredWaits {
    /// Returns the guard for these records of a visit, if one of their waits may have a report.
    pub(crate) fn of(refusals: &Arc<RunRefusals>, records: &[u64]) -> Option<Self> {
        let state = refusals.lock();
        let is_reported =
            |record: &&u64| state.open.contains_key(&Refuser::Wait(**record)) || state.dropped.contains_key(record);
        let waits: Vec<u64> = records.iter().filter(is_reported).copied().collect();
        drop(state);
        (!waits.is_empty()).then(|| Self { refusals: Arc::clone(refusals), waits })
    }
}

impl Drop for RestoredWaits {
    fn drop(&mut self) {
        self.waits.iter().for_each(|wait| self.refusals.wait_ended(*wait));
    }
}

impl Drop for RunRefusals {
    fn drop(&mut self) {
        let mut state = std::mem::take(self.state.get_mut().unwrap_or_else(PoisonError::into_inner));
        self.leave_worker(&mut state);
    }
}

fn problem(run: &str, refusal: &OpenRefusal) -> Problem {
    let OpenRefusal { name, cause, count, .. } = refusal;
    let what = Described(name);
    let so_far = if *count > 1 { format!(" ({count} messages so far)") } else { String::new() };
    let follows = if *cause == RefusalCause::TooLate { "" } else { "; the run keeps waiting" };
    Problem::new(KEY, format!("run {run:?} refused {what}: {cause}{so_far}{follows}")).advice(cause.advice(name))
}

fn further(run: &str, count: u64) -> Problem {
    let text = format!("run {run:?} refused {count} further messages; it keeps waiting");
    Problem::new(KEY, text).advice("read the refused messages in the view of the run, then send corrected ones")
}

/// The runs of one worker that refused messages.
pub(crate) struct WorkerRefusals {
    member: AnyRef,
    state: Mutex<RunCounts>,
}

#[derive(Default)]
struct RunCounts {
    /// The number of runs with reports.
    listed: usize,
    /// The number of runs without, and the report that counts them.
    beyond: usize,
    more: Option<HealthReport>,
}

impl WorkerRefusals {
    pub(crate) fn new(member: AnyRef) -> Self {
        Self { member, state: Mutex::default() }
    }

    /// Counts a run that refused a message. Returns whether it may have reports.
    fn begin(&self) -> bool {
        self.change(|counts| {
            let is_listed = counts.listed < RUNS_MAX;
            if is_listed {
                counts.listed += 1;
            } else {
                counts.beyond += 1;
            }
            is_listed
        })
    }

    fn end(&self, was_listed: bool) {
        self.change(|counts| if was_listed { counts.listed -= 1 } else { counts.beyond -= 1 });
    }

    fn change<T>(&self, change: impl FnOnce(&mut RunCounts) -> T) -> T {
        let mut counts = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, answer) = (counts.beyond, change(&mut counts));
        if counts.beyond != before {
            let problem = |count| {
                let text = format!("{count} further runs refused messages; they keep waiting");
                Problem::new(KEY, text).advice("list the waiting runs and read their refused messages")
            };
            let more = counts.more.take();
            counts.more = (counts.beyond > 0).then(|| match more {
                Some(more) => {
                    more.update(problem(counts.beyond));
                    more
                }
                None => self.member.report_health(problem(counts.beyond)),
            });
        }
        answer
    }
}
