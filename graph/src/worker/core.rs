//! [`WorkerCore`]: the state that the parts of a running worker share.
//!
//! It owns the held runs, starts a claimed run, and decides what follows when one ends. The lock
//! guards only `CoreState`. Wakers, listeners, dropped runs and store calls come after unlock.

use crate::control::RunRef;
use crate::durable::options::RECORDS_KEPT_DEFAULT;
use crate::lease::{LEASE_PARTS, Moment, ReleaseWork, RunLease};
use crate::log::LogOptions;
use crate::log::committer::COMMIT_ROWS_MAX;
use crate::log::deadline::Timeout;
use crate::store::{BODY_BYTES_MAX, Claim, Held, Release, Store, StoreError, StoreFuture, TAKEOVERS_MAX};
use crate::worker::event::{DriveResult, ReleaseResult, RunEnd, WorkerEvent};
use crate::worker::graphs::{Assignment, KnownGraph};
use crate::worker::refused::KeptRefusals;
use crate::worker::suspects::Suspect;
use crate::worker::watch::Watch;
use crate::worker::{Listener, Settings};
use pleach_core::{AnyRef, BoxFuture, Cause, ExponentialBackoff, Runtime, Scope, catch_panic};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

/// The first and the longest delay of a run that could not be driven. Each takeover makes it four
/// times as long.
pub(super) const DELAY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// The part of a wait that may be subtracted at random.
const JITTER: f32 = 0.25;

/// The time limit of one store call.
pub(super) const CALL_MAX: Duration = Duration::from_secs(30);

pub(super) struct WorkerCore {
    pub(super) store: Arc<dyn Store>,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) settings: Settings,
    owner: String,
    /// The number of claims so far.
    claims: AtomicU64,
    pub(super) graphs: Vec<KnownGraph>,
    listener: Option<Listener>,
    runs: Scope,
    /// The scope of the worker, as the source of health reports.
    pub(super) member: AnyRef,
    pub(super) watch: Watch,
    pub(super) refusals: KeptRefusals,
    state: Mutex<CoreState>,
}

#[derive(Default)]
struct CoreState {
    /// Ordered, so that a simulation with one seed always gives the same trace.
    held: BTreeMap<Held, HeldRun>,
    /// A run waits for its lease to be renewed.
    is_renewal_wanted: bool,
    /// No more runs are claimed.
    is_closing: bool,
    /// A claim is in progress, and its runs are not yet in `held`.
    is_claiming: bool,
    /// The last suspect that was driven.
    suspect: Option<Suspect>,
    /// The last store call failed.
    is_store_down: bool,
    wakers: Vec<Waker>,
}

/// Marks a claim in progress until it is dropped. By then its runs are in `held`.
pub(super) struct ClaimInProgress(Arc<WorkerCore>);

impl Drop for ClaimInProgress {
    fn drop(&mut self) {
        self.0.change(|state| state.is_claiming = false);
    }
}

/// A run that the worker holds.
struct HeldRun {
    lease: Arc<RunLease>,
    control: Option<RunRef>,
}

impl WorkerCore {
    pub(super) fn new(worker: crate::worker::Worker, runtime: Arc<dyn Runtime>, member: AnyRef, runs: Scope) -> Self {
        let crate::worker::Worker { store, graphs, settings, listener, .. } = worker;
        let owner = crate::lease::owner(&runtime);
        Self {
            store,
            runtime,
            settings,
            owner,
            claims: AtomicU64::new(0),
            graphs,
            listener,
            runs,
            refusals: KeptRefusals::new(member.clone()),
            member,
            watch: Watch::default(),
            state: Mutex::default(),
        }
    }

    /// Returns the lease owner for the next claim. Each claim has a different one: stores count
    /// takeovers by owner, and a new claim of an expired run is a takeover even by the same worker.
    pub(super) fn next_owner(&self) -> String {
        format!("{}-{}", self.owner, self.claims.fetch_add(1, Relaxed) + 1)
    }

    fn lock(&self) -> MutexGuard<'_, CoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, then wakes all waiting tasks.
    fn change<T>(&self, change: impl FnOnce(&mut CoreState) -> T) -> T {
        let (answer, wakers) = {
            let mut state = self.lock();
            (change(&mut state), std::mem::take(&mut state.wakers))
        };
        wakers.into_iter().for_each(Waker::wake);
        answer
    }

    /// Waits until `is_so` returns a value for the state.
    async fn until<T>(&self, mut is_so: impl FnMut(&CoreState) -> Option<T>) -> T {
        poll_fn(|cx| {
            // Cloned before the lock; an unused clone is dropped after it.
            let mut waker = Some(cx.waker().clone());
            let mut state = self.lock();
            match is_so(&state) {
                Some(answer) => Poll::Ready(answer),
                None => {
                    if !state.wakers.iter().any(|known| known.will_wake(cx.waker())) {
                        state.wakers.extend(waker.take());
                    }
                    Poll::Pending
                }
            }
        })
        .await
    }

    pub(super) fn report(&self, event: &WorkerEvent) {
        if let Some(listener) = &self.listener {
            // A panic of the listener must not end the worker.
            drop(catch_panic(|| listener(event)));
        }
    }

    /// Waits until the limit has room for `wanted` runs. Returns the room, or `None` if the worker
    /// is closing.
    pub(super) async fn room(&self, wanted: usize) -> Option<usize> {
        self.until(|state| match self.settings.limit.saturating_sub(state.held.len()) {
            _ if state.is_closing => Some(None),
            room if room < wanted => None,
            room => Some(Some(room)),
        })
        .await
    }

    /// Waits until the worker is closing.
    pub(super) async fn closing(&self) {
        self.until(|state| state.is_closing.then_some(())).await;
    }

    /// Waits until the worker is closing, holds no run and has no claim in progress.
    pub(super) async fn all_ended(&self) {
        self.until(|state| (state.is_closing && !state.is_claiming && state.held.is_empty()).then_some(())).await;
    }

    /// Starts a claim, unless the worker is closing.
    pub(super) fn begin_claim(self: &Arc<Self>) -> Option<ClaimInProgress> {
        let mut state = self.lock();
        state.is_claiming = !state.is_closing;
        state.is_claiming.then(|| ClaimInProgress(Arc::clone(self)))
    }

    pub(super) fn begin_closing(&self) {
        self.change(|state| state.is_closing = true);
    }

    /// Cancels all driven runs, which releases them.
    pub(super) fn cancel_runs(&self) {
        self.runs.cancel(Cause::Because("the worker shuts down".into()));
    }

    /// Removes a run from `held`.
    pub(super) fn remove_held(&self, held: &Held) {
        drop(self.change(|state| state.held.remove(held)));
    }

    /// Returns the held runs with their leases.
    pub(super) fn held(&self) -> Vec<(Held, Arc<RunLease>)> {
        self.lock().held.iter().map(|(held, held_run)| (held.clone(), Arc::clone(&held_run.lease))).collect()
    }

    /// Returns the held runs for a renewal, and clears the request for one.
    pub(super) fn held_to_renew(&self) -> Vec<(Held, Arc<RunLease>)> {
        self.lock().is_renewal_wanted = false;
        self.held()
    }

    /// Requests a renewal: a run waits for it.
    fn want_renewal(&self) {
        self.change(|state| state.is_renewal_wanted = true);
    }

    pub(super) async fn renewal_wanted(&self) {
        self.until(|state| state.is_renewal_wanted.then_some(())).await;
    }

    pub(super) fn set_suspect(&self, suspect: Suspect) {
        self.lock().suspect = Some(suspect);
    }

    /// Returns the suspect that is still held, if any.
    pub(super) fn suspect(&self) -> Option<Suspect> {
        let state = self.lock();
        state.suspect.clone().filter(|suspect| state.held.contains_key(&suspect.held))
    }

    /// Returns a reference to a driven run.
    pub(super) fn run(&self, id: &str) -> Option<RunRef> {
        self.lock().held.iter().find(|(held, _)| held.run == id).and_then(|(_, held_run)| held_run.control.clone())
    }

    /// Takes a claimed run into `held` and starts to drive it.
    pub(super) fn take(self: &Arc<Self>, claim: Claim, asked_at: Moment) {
        let held = Held::of(&claim.run);
        let worker = Arc::downgrade(self);
        let ask_worker = move || worker.upgrade().into_iter().for_each(|worker| worker.want_renewal());
        let lease =
            RunLease::renewed_by_worker(Arc::clone(&self.runtime), self.settings.lease, (asked_at, claim.now), ask_worker);
        let lease = Arc::new(lease);
        let head = claim.run.head;
        let is_closing = self.change(|state| {
            state.held.insert(held.clone(), HeldRun { lease: Arc::clone(&lease), control: None });
            state.is_closing
        });
        let known = self.graphs.iter().find(|known| known.drives(&claim.run.graph, &claim.run.version));
        let (Some(known), false) = (known, is_closing) else {
            // The store returned a run of an unknown graph, or the worker is closing.
            let release = self.release_future(&lease, &held);
            self.finish(held, RunEnd::Released, release);
            return;
        };
        let Held { run, epoch, .. } = held.clone();
        self.report(&WorkerEvent::Claimed { run, epoch, head, graph: claim.run.graph.clone() });
        let (core, ended_run, run_lease) = (Arc::clone(self), held.clone(), Arc::clone(&lease));
        let log_options = LogOptions {
            store: Arc::clone(&self.store),
            lease: self.settings.lease,
            body_bytes_max: BODY_BYTES_MAX,
            rows_kept: RECORDS_KEPT_DEFAULT,
            commit_rows_max: COMMIT_ROWS_MAX,
            is_best_effort: false,
            worker_lease: Some(lease),
            hold_waiting_for: Some(self.settings.hold_waiting_for),
            monitor: Arc::default(),
            timeout: Timeout::default(),
        };
        if Moment::now(&*self.runtime).since(asked_at) >= self.settings.lease / LEASE_PARTS {
            // The store took long to answer, so part of the lease is already over.
            self.want_renewal();
        }
        let refusals = self.refusals.claimed(&held);
        let kept = Arc::clone(&refusals);
        let ended = Box::new(move |result| {
            if matches!(result, DriveResult::Over(RunEnd::Waits { .. })) {
                core.refusals.keep(&ended_run, kept);
            }
            core.ended(ended_run, &run_lease, result);
        });
        let control = known.launch(Assignment { scope: &self.runs, claimed: (claim, asked_at), log_options, refusals, ended });
        if let Some(held_run) = self.lock().held.get_mut(&held) {
            held_run.control = control;
        }
    }
}

/// The end of runs.
impl WorkerCore {
    /// Handles the end of a driven run.
    fn ended(self: &Arc<Self>, held: Held, lease: &Arc<RunLease>, result: DriveResult) {
        let end = match result {
            DriveResult::Trouble(reason) => return self.handle_trouble(held, lease, reason),
            DriveResult::Undriven(undriven) => return self.handle_undriven(held, lease, undriven),
            DriveResult::TooNew(reason) => return self.handle_too_new(held, lease, reason),
            DriveResult::Over(end) => end,
            // The last commit ended the run and released the lease.
            DriveResult::Cancelled if lease.is_released() => RunEnd::Cancelled,
            DriveResult::Cancelled => RunEnd::Released,
        };
        let released = if end == RunEnd::Lost { None } else { self.release_future(lease, &held) };
        self.finish(held, end, released);
    }

    /// Releases a run that itself could not be driven. The store counts it and delays the run.
    fn handle_trouble(self: &Arc<Self>, held: Held, lease: &Arc<RunLease>, reason: String) {
        let (core, release_work) = (Arc::clone(self), lease.take_release_work());
        self.runtime.spawn(Box::pin(async move {
            if let Some(ReleaseWork { commit, .. }) = release_work {
                commit.await;
            }
            let (wait, follows) = match core.release_troubled(&held, &reason).await {
                Ok(result) => (result.delay(), result.event(&held.run, &reason)),
                Err(error) => {
                    // The lease will expire.
                    core.store_failed("release", &error, Duration::ZERO);
                    (core.settings.lease, None)
                }
            };
            let end = RunEnd::Trouble { error: reason, wait };
            core.report(&WorkerEvent::Ended { run: held.run.clone(), end });
            follows.iter().for_each(|event| core.report(event));
            core.remove_held(&held);
        }));
    }

    /// Releases a run that could not be driven, with a delay that grows with its takeovers.
    pub(super) async fn release_troubled(&self, held: &Held, reason: &str) -> Result<ReleaseResult, StoreError> {
        // A commit since the claim has reset the count.
        let takeovers = self.bounded(CALL_MAX, self.store.head(&held.run)).await?.takeovers;
        // Two doublings for each takeover.
        let delay = self.backoff(DELAY, takeovers.saturating_mul(2).saturating_add(1));
        let how = Release::Failed { reason: reason.to_string(), delay };
        let lost = self.bounded(CALL_MAX, self.store.release(vec![held.clone()], how)).await?;
        Ok(match lost.is_empty() {
            false => ReleaseResult::Lost,
            true if takeovers + 1 < TAKEOVERS_MAX => ReleaseResult::Delayed(delay),
            true => ReleaseResult::Stuck,
        })
    }

    /// Reports the end of a run, completes its release, and removes it from `held`.
    pub(super) fn finish(self: &Arc<Self>, held: Held, end: RunEnd, release: Option<BoxFuture<'static, ()>>) {
        self.report(&WorkerEvent::Ended { run: held.run.clone(), end });
        let Some(release) = release else {
            self.remove_held(&held);
            return;
        };
        let core = Arc::clone(self);
        self.runtime.spawn(Box::pin(async move {
            release.await;
            core.remove_held(&held);
        }));
    }

    /// Returns the future that releases a run, unless it is already released.
    fn release_future(self: &Arc<Self>, lease: &Arc<RunLease>, held: &Held) -> Option<BoxFuture<'static, ()>> {
        if let Some(release_work) = lease.take_release_work() {
            return Some(release_work.all());
        }
        let (core, lease, held) = (Arc::clone(self), Arc::clone(lease), vec![held.clone()]);
        let release = async move {
            if lease.is_held()
                && let Err(error) = core.bounded(CALL_MAX, core.store.release(held, Release::AsIs)).await
            {
                // The lease will expire.
                core.store_failed("release", &error, Duration::ZERO);
            }
        };
        Some(Box::pin(release))
    }
}

/// Store calls and time.
impl WorkerCore {
    /// Runs a store call with a time limit.
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

    /// Reports a failed store call. Only the first one in a row is logged.
    pub(super) fn store_failed(&self, op: &'static str, error: &StoreError, wait: Duration) {
        if !std::mem::replace(&mut self.lock().is_store_down, true) {
            tracing::warn!(runs = %self.runs.path(), op, %error, "the store of this worker failed; its calls are retried with backoff until it answers");
        }
        self.report(&WorkerEvent::StoreFailed { op, error: error.to_string(), wait });
    }

    pub(super) fn store_answered(&self) {
        if std::mem::take(&mut self.lock().is_store_down) {
            tracing::warn!(runs = %self.runs.path(), "the store of this worker answers again");
            self.report(&WorkerEvent::StoreRecovered);
        }
    }

    /// Shortens `wait` by up to a quarter at random, so that workers do not act at the same time.
    pub(super) fn jitter(&self, wait: Duration) -> Duration {
        self.backoff((wait, wait), 1)
    }

    /// Returns the wait after `failures` in a row: from `first` to `max`, with jitter.
    pub(super) fn backoff(&self, (first, max): (Duration, Duration), failures: u32) -> Duration {
        ExponentialBackoff::new(first, max).jitter(JITTER).delay(failures, self.runtime.random())
    }

    pub(super) async fn sleep(&self, wait: Duration) {
        self.runtime.sleep_until(self.runtime.now() + wait).await;
    }
}
