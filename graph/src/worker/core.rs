//! `WorkerCore`: what the parts of a running worker share: the runs it holds, and what happens when
//! one ends.

use crate::control::RunRef;
use crate::durable::options::RECORDS_KEPT_DEFAULT;
use crate::lease::{LEASE_PARTS, Moment, ReleaseWork, RunLease};
use crate::log::LogOptions;
use crate::log::committer::COMMIT_ROWS_MAX;
use crate::log::deadline::Timeout;
use crate::store::{BODY_BYTES_MAX, Claim, Held, Release, Store, StoreError, StoreFuture, TAKEOVERS_MAX};
use crate::worker::event::{DriveResult, ReleaseResult, RunEnd, WorkerEvent};
use crate::worker::graphs::{Assignment, KnownGraph};
use crate::worker::suspects::Suspect;
use crate::worker::{Listener, Settings};
use pleach_core::{BoxFuture, Cause, Runtime, Scope, catch_panic};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

/// How long a run that could not be driven is left alone, at first and at most, and by how much longer each time.
pub(super) const REST: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
const REST_FACTOR: u32 = 4;

/// How long a call of the store may take.
pub(super) const CALL_MAX: Duration = Duration::from_secs(30);

pub(super) struct WorkerCore {
    pub(super) store: Arc<dyn Store>,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) settings: Settings,
    owner: String,
    /// How many claims there were.
    claims: AtomicU64,
    pub(super) graphs: Vec<KnownGraph>,
    listener: Option<Listener>,
    runs: Scope,
    state: Mutex<CoreState>,
}

#[derive(Default)]
struct CoreState {
    /// In one order whatever the process: one seed gives one trace.
    held: BTreeMap<Held, HeldRun>,
    /// A run waits for its lease to be renewed.
    is_renewal_wanted: bool,
    /// It takes no more runs.
    is_closing: bool,
    /// A claim is under way: its runs are not among `held` yet.
    is_claiming: bool,
    /// The last suspect that was driven.
    suspect: Option<Suspect>,
    /// The store has not answered since.
    is_store_down: bool,
    waiting: Vec<Waker>,
}

/// A claim is under way, until this is dropped: its runs are among those held then.
pub(super) struct ClaimInProgress(Arc<WorkerCore>);

impl Drop for ClaimInProgress {
    fn drop(&mut self) {
        self.0.change(|state| state.is_claiming = false);
    }
}

/// A run that is held.
struct HeldRun {
    lease: Arc<RunLease>,
    control: Option<RunRef>,
}

impl WorkerCore {
    pub(super) fn new(worker: crate::worker::Worker, runtime: Arc<dyn Runtime>, runs: Scope) -> Self {
        let crate::worker::Worker { store, graphs, settings, listener, .. } = worker;
        let owner = crate::lease::owner(&runtime);
        Self { store, runtime, settings, owner, claims: AtomicU64::new(0), graphs, listener, runs, state: Mutex::default() }
    }

    /// Who holds the runs of the next claim. Each claim has an owner of its own: a run whose lease has ended, and that this worker claims again, was taken
    /// over, and stores count that by the owner.
    pub(super) fn next_owner(&self) -> String {
        format!("{}-{}", self.owner, self.claims.fetch_add(1, Relaxed) + 1)
    }

    fn lock(&self) -> MutexGuard<'_, CoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes whoever waits for a change.
    fn change<T>(&self, change: impl FnOnce(&mut CoreState) -> T) -> T {
        let (answer, waiting) = {
            let mut state = self.lock();
            (change(&mut state), std::mem::take(&mut state.waiting))
        };
        waiting.into_iter().for_each(Waker::wake);
        answer
    }

    /// Waits until the state is so.
    async fn until<T>(&self, mut is_so: impl FnMut(&CoreState) -> Option<T>) -> T {
        poll_fn(|cx| {
            // Before the lock, and what is left of it is dropped after.
            let mut waker = Some(cx.waker().clone());
            let mut state = self.lock();
            match is_so(&state) {
                Some(answer) => Poll::Ready(answer),
                None => {
                    if !state.waiting.iter().any(|known| known.will_wake(cx.waker())) {
                        state.waiting.extend(waker.take());
                    }
                    Poll::Pending
                }
            }
        })
        .await
    }

    pub(super) fn tell(&self, event: &WorkerEvent) {
        if let Some(listener) = &self.listener {
            // A listener that panics harms nobody.
            drop(catch_panic(|| listener(event)));
        }
    }

    /// Waits until there is room for so many runs: for how many; `None` if no more are taken.
    pub(super) async fn room(&self, wanted: usize) -> Option<usize> {
        self.until(|state| match self.settings.limit.saturating_sub(state.held.len()) {
            _ if state.is_closing => Some(None),
            room if room < wanted => None,
            room => Some(Some(room)),
        })
        .await
    }

    /// Waits until no more runs are taken.
    pub(super) async fn closing(&self) {
        self.until(|state| state.is_closing.then_some(())).await;
    }

    /// Waits until it is closing, holds nothing and claims nothing.
    pub(super) async fn all_ended(&self) {
        self.until(|state| (state.is_closing && !state.is_claiming && state.held.is_empty()).then_some(())).await;
    }

    /// Begins a claim, unless it is closing.
    pub(super) fn begin_claim(self: &Arc<Self>) -> Option<ClaimInProgress> {
        let mut state = self.lock();
        state.is_claiming = !state.is_closing;
        state.is_claiming.then(|| ClaimInProgress(Arc::clone(self)))
    }

    pub(super) fn begin_closing(&self) {
        self.change(|state| state.is_closing = true);
    }

    /// Cuts off what runs: it is given up.
    pub(super) fn cut_off(&self) {
        self.runs.cancel(Cause::Because("the worker shuts down".into()));
    }

    /// A run is no longer held.
    pub(super) fn let_go(&self, held: &Held) {
        drop(self.change(|state| state.held.remove(held)));
    }

    /// The runs that are held, and their leases.
    pub(super) fn held(&self) -> Vec<(Held, Arc<RunLease>)> {
        self.lock().held.iter().map(|(held, holding)| (held.clone(), Arc::clone(&holding.lease))).collect()
    }

    /// The same, to be renewed now.
    pub(super) fn held_to_renew(&self) -> Vec<(Held, Arc<RunLease>)> {
        self.lock().is_renewal_wanted = false;
        self.held()
    }

    /// A run waits for its lease to be renewed, before it goes on.
    fn want_renewal(&self) {
        self.change(|state| state.is_renewal_wanted = true);
    }

    pub(super) async fn renewal_wanted(&self) {
        self.until(|state| state.is_renewal_wanted.then_some(())).await;
    }

    pub(super) fn set_suspect(&self, suspect: Suspect) {
        self.lock().suspect = Some(suspect);
    }

    /// The suspect that is driven, if there is one.
    pub(super) fn suspect(&self) -> Option<Suspect> {
        let state = self.lock();
        state.suspect.clone().filter(|suspect| state.held.contains_key(&suspect.held))
    }

    /// A run that is driven.
    pub(super) fn run(&self, id: &str) -> Option<RunRef> {
        self.lock().held.iter().find(|(held, _)| held.run == id).and_then(|(_, holding)| holding.control.clone())
    }

    /// Drives a run that was claimed.
    pub(super) fn take(self: &Arc<Self>, claim: Claim, asked_at: Moment) {
        let held = Held::of(&claim.run);
        let worker = Arc::downgrade(self);
        let ask_worker = move || worker.upgrade().into_iter().for_each(|worker| worker.want_renewal());
        let lease = RunLease::kept(Arc::clone(&self.runtime), self.settings.lease, (asked_at, claim.now), ask_worker);
        let lease = Arc::new(lease);
        let head = claim.run.head;
        let is_closing = self.change(|state| {
            state.held.insert(held.clone(), HeldRun { lease: Arc::clone(&lease), control: None });
            state.is_closing
        });
        let known = self.graphs.iter().find(|known| known.drives(&claim));
        let (Some(known), false) = (known, is_closing) else {
            // The store gave what was not asked for, or too late.
            let release = self.releasing(&lease, &held);
            self.settle(held, RunEnd::GivenUp, release);
            return;
        };
        let Held { run, epoch, .. } = held.clone();
        self.tell(&WorkerEvent::Claimed { run, epoch, head, graph: claim.run.graph.clone() });
        let (core, ending, kept) = (Arc::clone(self), held.clone(), Arc::clone(&lease));
        let log_options = LogOptions {
            store: Arc::clone(&self.store),
            lease: self.settings.lease,
            body_bytes_max: BODY_BYTES_MAX,
            rows_kept: RECORDS_KEPT_DEFAULT,
            commit_rows_max: COMMIT_ROWS_MAX,
            is_best_effort: false,
            kept_lease: Some(lease),
            patience: Some(self.settings.patience),
            watch: Arc::default(),
            timeout: Timeout::default(),
        };
        if Moment::now(&*self.runtime).since(asked_at) >= self.settings.lease / LEASE_PARTS {
            // The claim was answered late.
            self.want_renewal();
        }
        let ended = Box::new(move |verdict| core.ended(ending, &kept, verdict));
        let control = known.launch(Assignment { scope: &self.runs, claimed: (claim, asked_at), log_options, ended });
        if let Some(holding) = self.lock().held.get_mut(&held) {
            holding.control = control;
        }
    }
}

/// What becomes of runs.
impl WorkerCore {
    /// A run is not driven any more.
    fn ended(self: &Arc<Self>, held: Held, lease: &Arc<RunLease>, verdict: DriveResult) {
        let end = match verdict {
            DriveResult::Trouble(reason) => return self.leave_alone(held, lease, reason),
            DriveResult::Prevented(why) => return self.give_back(held, lease, why),
            DriveResult::TooNew(reason) => return self.leave_to_newer(held, lease, reason),
            DriveResult::Over(end) => end,
            // Its last commit said so.
            DriveResult::CutOff if lease.is_released() => RunEnd::Cancelled,
            DriveResult::CutOff => RunEnd::GivenUp,
        };
        let released = if end == RunEnd::Lost { None } else { self.releasing(lease, &held) };
        self.settle(held, end, released);
    }

    /// Gives a run up that could not be driven because of itself. It rests in the store, and takes no place here; the store counts how often.
    fn leave_alone(self: &Arc<Self>, held: Held, lease: &Arc<RunLease>, reason: String) {
        let (core, leaving) = (Arc::clone(self), lease.take_leaving());
        self.runtime.spawn(Box::pin(async move {
            if let Some(ReleaseWork { commit, .. }) = leaving {
                commit.await;
            }
            let (wait, follows) = match core.release_troubled(&held, &reason).await {
                Ok(left) => (left.rest(), left.event(&held.run, &reason)),
                Err(error) => {
                    // Its lease will end.
                    core.store_failed("release", &error, Duration::ZERO);
                    (core.settings.lease, None)
                }
            };
            let end = RunEnd::Trouble { error: reason, wait };
            core.tell(&WorkerEvent::Ended { run: held.run.clone(), end });
            follows.iter().for_each(|event| core.tell(event));
            core.let_go(&held);
        }));
    }

    /// Gives a run up that could not be driven.
    pub(super) async fn release_troubled(&self, held: &Held, reason: &str) -> Result<ReleaseResult, StoreError> {
        // A commit since the claim has set the count back.
        let takeovers = self.bounded(CALL_MAX, self.store.head(&held.run)).await?.takeovers;
        let (first, most) = REST;
        let rest = self.jitter((first * REST_FACTOR.saturating_pow(takeovers)).min(most));
        let how = Release::Troubled { reason: reason.to_string(), rest };
        let lost = self.bounded(CALL_MAX, self.store.release(vec![held.clone()], how)).await?;
        Ok(match lost.is_empty() {
            false => ReleaseResult::Lost,
            true if takeovers + 1 < TAKEOVERS_MAX => ReleaseResult::Rests(rest),
            true => ReleaseResult::Stuck,
        })
    }

    /// Tells of the end of a run, does what is left to do for it, and lets go of it.
    pub(super) fn settle(self: &Arc<Self>, held: Held, end: RunEnd, left: Option<BoxFuture<'static, ()>>) {
        self.tell(&WorkerEvent::Ended { run: held.run.clone(), end });
        let Some(left) = left else {
            self.let_go(&held);
            return;
        };
        let core = Arc::clone(self);
        self.runtime.spawn(Box::pin(async move {
            left.await;
            core.let_go(&held);
        }));
    }

    /// What gives a run up, unless it is.
    fn releasing(self: &Arc<Self>, lease: &Arc<RunLease>, held: &Held) -> Option<BoxFuture<'static, ()>> {
        if let Some(leaving) = lease.take_leaving() {
            return Some(leaving.all());
        }
        let (core, lease, held) = (Arc::clone(self), Arc::clone(lease), vec![held.clone()]);
        let release = async move {
            if lease.is_held()
                && let Err(error) = core.bounded(CALL_MAX, core.store.release(held, Release::AsIs)).await
            {
                // Its lease will end.
                core.store_failed("release", &error, Duration::ZERO);
            }
        };
        Some(Box::pin(release))
    }
}

/// The store, and time.
impl WorkerCore {
    /// What a call of the store comes to, within this time.
    pub(super) async fn bounded<T>(&self, time: Duration, mut call: StoreFuture<'_, T>) -> Result<T, StoreError> {
        let mut timer = self.runtime.sleep_until(self.runtime.now() + time);
        poll_fn(|cx| match call.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(answer),
            Poll::Pending => {
                timer.as_mut().poll(cx).map(|()| Err(StoreError::unavailable(format!("no answer within {time:?}"))))
            }
        })
        .await
    }

    /// Logs only the first failure: a store that is down fails again and again.
    pub(super) fn store_failed(&self, op: &'static str, error: &StoreError, wait: Duration) {
        if !std::mem::replace(&mut self.lock().is_store_down, true) {
            tracing::warn!(runs = %self.runs.path(), op, %error, "the store of this worker failed; it is asked again until it answers");
        }
        self.tell(&WorkerEvent::StoreFailed { op, error: error.to_string(), wait });
    }

    pub(super) fn store_answered(&self) {
        if std::mem::take(&mut self.lock().is_store_down) {
            tracing::warn!(runs = %self.runs.path(), "the store of this worker answers again");
            self.tell(&WorkerEvent::StoreAnswers);
        }
    }

    /// A little less than `wait`, so that not all do it at the same time.
    pub(super) fn jitter(&self, wait: Duration) -> Duration {
        let quarter = (wait / 4).as_nanos() as u64;
        wait - Duration::from_nanos(if quarter == 0 { 0 } else { self.runtime.random() % quarter })
    }

    /// The wait after so many failures in a row, at first and at most this long.
    pub(super) fn backoff(&self, (first, most): (Duration, Duration), times: u32) -> Duration {
        let doubled = first.saturating_mul(1u32.checked_shl(times.saturating_sub(1)).unwrap_or(u32::MAX));
        self.jitter(doubled.min(most))
    }

    pub(super) async fn sleep(&self, wait: Duration) {
        self.runtime.sleep_until(self.runtime.now() + wait).await;
    }
}
