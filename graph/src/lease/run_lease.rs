//! `RunLease`: the lease of one run, as its driver knows it.
//!
//! It is shared by the party that renews it (the run, or its worker for all runs at once), the
//! engine, and the nodes and effects that check it before they start.
//!
//! Invariants:
//! 1. The lease is counted from before the request: it never lasts longer here than in the store.
//! 2. Elapsed time is the larger of the runtime's clock and the time of day, so that suspended time
//!    counts. A step of the time of day costs at most one extra renewal.
//! 3. While a commit that releases the run is in flight, its answer decides who holds the run,
//!    never the answer to a renewal.
//! 4. Nothing starts after the driver gave the run up (`give_up`), even if the lease has not
//!    expired.
//! 5. No foreign code runs under the lock, and no waker is woken, cloned or dropped there.

use crate::lease::LEASE_PARTS;
use crate::lease::clock::StoreClock;
use crate::store::{StoreError, Timestamp};
use crate::util::waker::set_waker;
use pleach_core::{BoxFuture, Instant, Runtime};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A moment by two clocks: that of the runtime, which may stand still while the machine is suspended, and the time of day.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) at: Instant,
    time_of_day: Duration,
}

impl Moment {
    pub(crate) fn now(runtime: &dyn Runtime) -> Self {
        let of_machine = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { at: runtime.now(), time_of_day: runtime.time_of_day().unwrap_or_else(of_machine) }
    }

    /// The time since `earlier`: the larger of what the two clocks say.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        self.at.since(earlier.at).max(self.time_of_day.saturating_sub(earlier.time_of_day))
    }
}

/// The lease of one run.
pub(crate) struct RunLease {
    runtime: Arc<dyn Runtime>,
    pub(crate) length: Duration,
    pub(crate) clock: Arc<StoreClock>,
    /// Asks the worker that renews the lease to do so now; `None` if the run renews its lease itself.
    ask_worker: Option<Box<dyn Fn() + Send + Sync>>,
    state: Mutex<LeaseState>,
}

struct LeaseState {
    /// When the last renewal that succeeded was asked for.
    renewed_at: Moment,
    /// When the run's task was polled last.
    polled_at: Moment,
    /// For how long the run's task was not polled, if that was long and nobody has looked at it yet.
    silence: Option<Duration>,
    is_lost: bool,
    /// A commit that gives the run up is under way, or has landed.
    is_releasing: bool,
    is_released: bool,
    /// The driver is gone, or has ended: nothing of this run may start here any more.
    is_given_up: bool,
    /// Something waits for a renewal.
    is_wanted: bool,
    last_error: Option<StoreError>,
    leaving: Option<ReleaseWork>,
    driver: Option<Arc<Waker>>,
    /// Nodes and effects that wait for a renewal.
    waiting: Vec<Waker>,
}

/// The remaining work of giving up a run that was cut off.
pub(crate) struct ReleaseWork {
    /// The commit that was under way is answered, or given up.
    pub(crate) commit: BoxFuture<'static, ()>,
    /// The run is given up as it is.
    pub(crate) release: BoxFuture<'static, ()>,
}

impl ReleaseWork {
    pub(crate) fn all(self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.commit.await;
            self.release.await;
        })
    }
}

/// What the run's lease renewal has to know at each poll.
pub(crate) struct LeaseStatus {
    pub(crate) is_lost: bool,
    pub(crate) is_wanted: bool,
    pub(crate) was_silent: bool,
}

impl RunLease {
    /// A lease that the run renews itself. It was asked for at `asked_at`, and the store answered that it is `now`.
    pub(crate) fn own(runtime: Arc<dyn Runtime>, length: Duration, asked_at: Moment, now: Timestamp) -> Self {
        Self::new(runtime, length, (asked_at, now), None)
    }

    /// A lease that a worker renews.
    pub(crate) fn kept(
        runtime: Arc<dyn Runtime>,
        length: Duration,
        (asked_at, now): (Moment, Timestamp),
        ask_worker: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self::new(runtime, length, (asked_at, now), Some(Box::new(ask_worker)))
    }

    fn new(
        runtime: Arc<dyn Runtime>,
        length: Duration,
        (asked_at, now): (Moment, Timestamp),
        ask_worker: Option<Box<dyn Fn() + Send + Sync>>,
    ) -> Self {
        let state = LeaseState {
            renewed_at: asked_at,
            polled_at: asked_at,
            silence: None,
            is_lost: false,
            is_releasing: false,
            is_released: false,
            is_given_up: false,
            is_wanted: false,
            last_error: None,
            leaving: None,
            driver: None,
            waiting: Vec::new(),
        };
        let clock = StoreClock::new(Arc::clone(&runtime), now);
        Self { runtime, length, clock, ask_worker, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, LeaseState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The part of the lease after which it is renewed. Nothing starts when less than this part is left.
    pub(crate) fn part(&self) -> Duration {
        self.length / LEASE_PARTS
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.ask_worker.is_some()
    }

    /// How much of the lease is left. The answer to a commit that gives the run up is waited for twice as long: nothing else happens meanwhile.
    pub(crate) fn left(&self, now: Moment) -> Duration {
        let state = self.lock();
        let length = if state.is_releasing { self.length * 2 } else { self.length };
        length.saturating_sub(now.since(state.renewed_at))
    }

    /// Ready if the lease has not ended and will not end soon. Otherwise a renewal is asked for, and the task is woken once it has succeeded.
    /// Pending for ever, with no waker kept, if the driver gave the run up.
    pub(crate) fn poll_valid(&self, cx: &Context<'_>) -> Poll<()> {
        let now = Moment::now(&*self.runtime);
        if self.is_valid(&self.lock(), now) {
            return Poll::Ready(());
        }
        let mut waker = Some(cx.waker().clone());
        {
            let mut state = self.lock();
            // It may have been renewed meanwhile.
            if self.is_valid(&state, now) {
                return Poll::Ready(());
            }
            if state.is_given_up {
                return Poll::Pending;
            }
            if !state.waiting.last().is_some_and(|known| known.will_wake(cx.waker())) {
                state.waiting.extend(waker.take());
            }
        }
        self.want();
        Poll::Pending
    }

    /// The same for the run's own task, whose silences are noted.
    pub(crate) fn poll_driver(&self, cx: &Context<'_>) -> Poll<()> {
        let now = Moment::now(&*self.runtime);
        {
            let mut state = self.lock();
            self.note_poll(&mut state, now);
            if self.is_valid(&state, now) {
                return Poll::Ready(());
            }
        }
        self.set_driver(cx.waker());
        if self.is_valid(&self.lock(), now) {
            return Poll::Ready(());
        }
        self.want();
        Poll::Pending
    }

    fn set_driver(&self, waker: &Waker) {
        set_waker(|| self.lock(), |state| &mut state.driver, waker);
    }

    /// Whether this driver holds the run for certain, and will for a while.
    fn is_valid(&self, state: &LeaseState, now: Moment) -> bool {
        let is_long = now.since(state.renewed_at) + self.part() < self.length;
        is_long && !state.is_lost && !state.is_given_up
    }

    fn note_poll(&self, state: &mut LeaseState, now: Moment) {
        let silence = now.since(state.polled_at);
        state.polled_at = now;
        // The lease renewal's timer polls the task at least once in each part.
        if silence > self.part() * 2 {
            state.silence = Some(state.silence.unwrap_or_default().max(silence));
        }
    }

    fn want(&self) {
        let driver = {
            let mut state = self.lock();
            if std::mem::replace(&mut state.is_wanted, true) || state.is_lost {
                return;
            }
            state.driver.clone()
        };
        match &self.ask_worker {
            Some(ask_worker) => ask_worker(),
            None => driver.iter().for_each(|driver| driver.wake_by_ref()),
        }
    }

    /// What the lease renewal has to know. `driver` is woken when that changes.
    pub(crate) fn look(&self, driver: &Waker) -> LeaseStatus {
        self.set_driver(driver);
        let state = self.lock();
        let is_wanted = state.is_wanted && !state.is_releasing;
        LeaseStatus { is_lost: state.is_lost, is_wanted, was_silent: state.silence.is_some() }
    }

    /// The run's task is polled now. How long it was not before, if that was long.
    pub(crate) fn take_silence(&self, now: Moment) -> Option<Duration> {
        let mut state = self.lock();
        self.note_poll(&mut state, now);
        state.silence.take()
    }

    /// When the last renewal that succeeded was asked for.
    pub(crate) fn renewed_at(&self) -> Instant {
        self.lock().renewed_at.at
    }

    /// A renewal that was asked for at `asked_at` has succeeded, and the store said that it is `now`.
    pub(crate) fn renewed(&self, asked_at: Moment, now: Timestamp) {
        self.clock.correct(now, asked_at.at);
        let woken = {
            let mut state = self.lock();
            if asked_at.at >= state.renewed_at.at {
                state.renewed_at = asked_at;
            }
            state.last_error = None;
            if !std::mem::take(&mut state.is_wanted) {
                return;
            }
            state.wakers()
        };
        woken.wake();
    }

    pub(crate) fn failed(&self, error: StoreError) {
        self.lock().last_error = Some(error);
    }

    /// The run's row was in use when its lease was to be renewed.
    pub(crate) fn busy(&self) {
        let why = "the lease could not be renewed, because another client keeps its row locked";
        self.failed(StoreError::unreachable(why));
    }

    pub(crate) fn take_error(&self) -> Option<StoreError> {
        self.lock().last_error.take()
    }

    /// A renewal was answered: the run is not held any more. If a commit gives it up at this moment, that commit may be why, and decides.
    pub(crate) fn lost(&self) {
        let woken = {
            let mut state = self.lock();
            if state.is_releasing {
                return;
            }
            state.is_lost = true;
            state.wakers()
        };
        woken.wake();
    }

    /// The run goes on without its store: nothing waits for the lease any more.
    pub(crate) fn let_all_go(&self) {
        let woken = self.lock().wakers();
        woken.wake();
    }

    /// A commit that gives the run up begins.
    pub(crate) fn releasing(&self) {
        self.lock().is_releasing = true;
    }

    /// The last commit of the run gave it up.
    pub(crate) fn released(&self) {
        self.lock().is_released = true;
    }

    /// The driver gives the run up. From now on nothing starts; what waited for a renewal waits for ever.
    pub(crate) fn give_up(&self) {
        let _waiting = {
            let mut state = self.lock();
            state.is_given_up = true;
            std::mem::take(&mut state.waiting)
        };
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.lock().is_given_up
    }

    /// Whether there is still something to give up.
    pub(crate) fn is_held(&self) -> bool {
        let state = self.lock();
        !state.is_lost && !state.is_released
    }

    pub(crate) fn is_released(&self) -> bool {
        self.lock().is_released
    }

    /// The run was cut off, and this is left to do.
    pub(crate) fn leave(&self, leaving: ReleaseWork) {
        self.lock().leaving = Some(leaving);
    }

    pub(crate) fn take_leaving(&self) -> Option<ReleaseWork> {
        self.lock().leaving.take()
    }
}

impl LeaseState {
    fn wakers(&mut self) -> LeaseWakers {
        LeaseWakers { waiting: std::mem::take(&mut self.waiting), driver: self.driver.clone() }
    }
}

/// Those who wait, to be woken after the lock.
struct LeaseWakers {
    waiting: Vec<Waker>,
    driver: Option<Arc<Waker>>,
}

impl LeaseWakers {
    fn wake(self) {
        self.waiting.into_iter().for_each(Waker::wake);
        self.driver.iter().for_each(|driver| driver.wake_by_ref());
    }
}

/// If nobody took over the work of giving the run up, it is done all the same.
impl Drop for RunLease {
    fn drop(&mut self) {
        if let Some(leaving) = self.take_leaving() {
            self.runtime.spawn(leaving.all());
        }
    }
}
