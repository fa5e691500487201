//! [`RunLease`]: the lease of one run, as its driver knows it.
//!
//! The parts that share it: the renewal (the run's own, or a worker's for all its runs), the
//! engine, and the nodes and effects that check it before they start.
//!
//! Flags, with the functions that set and clear them:
//!
//! | flag | set by | cleared by |
//! |---|---|---|
//! | `is_wanted` | `poll_valid`, `poll_driver` | `renewed` |
//! | `is_lost` | `lost` | never |
//! | `is_releasing` | `releasing` | never |
//! | `is_released` | `released` | never |
//! | `has_stopped` | `stop_driving` | never |
//!
//! Invariants:
//! 1. The lease is counted from before the request, so it never lasts longer here than in the
//!    store.
//! 2. Elapsed time is the larger of the runtime's clock and the time of day, so that suspended time
//!    counts. A step of the time of day costs at most one extra renewal.
//! 3. While a commit that releases the run is in flight, its answer decides who holds the run,
//!    never the answer to a renewal.
//! 4. Nothing starts after the driver has stopped (`stop_driving`), even if the lease has not
//!    expired.
//! 5. No foreign code runs under the lock, and no waker is woken, cloned or dropped there.

use crate::lease::LEASE_PARTS;
use crate::lease::clock::{Moment, StoreClock};
use crate::store::{StoreError, Timestamp};
use crate::util::waker::set_waker;
use pleach_core::{BoxFuture, Instant, Runtime};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The lease of one run, shared by its renewal, its engine and its nodes.
pub(crate) struct RunLease {
    runtime: Arc<dyn Runtime>,
    pub(crate) length: Duration,
    pub(crate) clock: Arc<StoreClock>,
    /// Asks the worker to renew the lease now; `None` if the run renews its own lease.
    ask_worker: Option<Box<dyn Fn() + Send + Sync>>,
    state: Mutex<LeaseState>,
}

struct LeaseState {
    /// When the last successful renewal was requested.
    renewed_at: Moment,
    /// When the run's task was last polled.
    polled_at: Moment,
    /// How long the run's task was not polled, if that was long and `take_silence` has not reported
    /// it yet.
    silence: Option<Duration>,
    is_lost: bool,
    /// A commit that releases the run is in flight or has succeeded.
    is_releasing: bool,
    is_released: bool,
    /// The driver was dropped or has ended. Nothing of this run may start any more.
    has_stopped: bool,
    /// A node, an effect or the engine waits for a renewal.
    is_wanted: bool,
    last_error: Option<StoreError>,
    release_work: Option<ReleaseWork>,
    driver: Option<Arc<Waker>>,
    /// The wakers of nodes and effects that wait for a renewal.
    waiting: Vec<Waker>,
}

/// The remaining work to release a run that was interrupted.
pub(crate) struct ReleaseWork {
    /// Waits for the answer to the commit in flight, or gives it up.
    pub(crate) commit: BoxFuture<'static, ()>,
    /// Releases the run in its present condition.
    pub(crate) release: BoxFuture<'static, ()>,
}

impl ReleaseWork {
    /// Waits for the commit, then releases the run.
    pub(crate) fn all(self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.commit.await;
            self.release.await;
        })
    }
}

/// The state of a lease that its renewal checks at each poll.
pub(crate) struct LeaseStatus {
    pub(crate) is_lost: bool,
    pub(crate) is_wanted: bool,
    pub(crate) was_silent: bool,
}

impl RunLease {
    /// Creates a lease that the run itself renews. It was requested at `asked_at`, and the store's
    /// time is `now`.
    pub(crate) fn own(runtime: Arc<dyn Runtime>, length: Duration, asked_at: Moment, now: Timestamp) -> Self {
        Self::new(runtime, length, (asked_at, now), None)
    }

    /// Creates a lease that a worker renews. `ask_worker` must not block.
    pub(crate) fn renewed_by_worker(
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
            has_stopped: false,
            is_wanted: false,
            last_error: None,
            release_work: None,
            driver: None,
            waiting: Vec::new(),
        };
        let clock = StoreClock::new(Arc::clone(&runtime), now);
        Self { runtime, length, clock, ask_worker, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, LeaseState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the part of the lease after which it is renewed. Nothing starts when less than this
    /// is left.
    pub(crate) fn part(&self) -> Duration {
        self.length / LEASE_PARTS
    }

    /// Returns whether a worker renews the lease.
    pub(crate) fn is_renewed_by_worker(&self) -> bool {
        self.ask_worker.is_some()
    }

    /// Returns the remaining time of the lease. While a commit releases the run, it is counted
    /// twice as long, because nothing else happens meanwhile.
    pub(crate) fn left(&self, now: Moment) -> Duration {
        let state = self.lock();
        let length = if state.is_releasing { self.length * 2 } else { self.length };
        length.saturating_sub(now.since(state.renewed_at))
    }

    /// Returns ready if the lease is valid and will not expire soon.
    ///
    /// Otherwise it asks for a renewal, and wakes the task when the renewal has succeeded. If the
    /// driver gave the run up, it stays pending and stores no waker.
    pub(crate) fn poll_valid(&self, cx: &Context<'_>) -> Poll<()> {
        let now = Moment::now(&*self.runtime);
        if self.is_valid(&self.lock(), now) {
            return Poll::Ready(());
        }
        let mut waker = Some(cx.waker().clone());
        {
            let mut state = self.lock();
            // The lease may have been renewed between the two locks.
            if self.is_valid(&state, now) {
                return Poll::Ready(());
            }
            if state.has_stopped {
                return Poll::Pending;
            }
            if !state.waiting.last().is_some_and(|known| known.will_wake(cx.waker())) {
                state.waiting.extend(waker.take());
            }
        }
        self.want();
        Poll::Pending
    }

    /// As [`poll_valid`](Self::poll_valid), for the run's own task. Also records how long the task
    /// was not polled.
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

    /// Returns whether this driver surely holds the run, and will for at least one part of the
    /// lease.
    fn is_valid(&self, state: &LeaseState, now: Moment) -> bool {
        let is_long = now.since(state.renewed_at) + self.part() < self.length;
        is_long && !state.is_lost && !state.has_stopped
    }

    /// Records a poll of the run's task, and how long the task was not polled before.
    fn note_poll(&self, state: &mut LeaseState, now: Moment) {
        let silence = now.since(state.polled_at);
        state.polled_at = now;
        // The timer of the renewal polls the task at least once in each part.
        if silence > self.part() * 2 {
            state.silence = Some(state.silence.unwrap_or_default().max(silence));
        }
    }

    /// Asks the worker or the run's own task for a renewal.
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

    /// Returns the flags that the renewal checks. Wakes `driver` when they change.
    pub(crate) fn status(&self, driver: &Waker) -> LeaseStatus {
        self.set_driver(driver);
        let state = self.lock();
        let is_wanted = state.is_wanted && !state.is_releasing;
        LeaseStatus { is_lost: state.is_lost, is_wanted, was_silent: state.silence.is_some() }
    }

    /// Records a poll of the run's task. Returns how long the task was not polled, if that was
    /// long.
    pub(crate) fn take_silence(&self, now: Moment) -> Option<Duration> {
        let mut state = self.lock();
        self.note_poll(&mut state, now);
        state.silence.take()
    }

    /// Returns when the last successful renewal was requested.
    pub(crate) fn renewed_at(&self) -> Instant {
        self.lock().renewed_at.at
    }

    /// Records a successful renewal that was requested at `asked_at`. The store's time is `now`.
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

    /// Records the error of a renewal.
    pub(crate) fn failed(&self, error: StoreError) {
        self.lock().last_error = Some(error);
    }

    /// Records that the run's row was locked, so that its lease could not be renewed.
    pub(crate) fn busy(&self) {
        let reason = "the lease could not be renewed, because another client keeps its row locked";
        self.failed(StoreError::unreachable(reason));
    }

    /// Returns the error of the last renewal, once.
    pub(crate) fn take_error(&self) -> Option<StoreError> {
        self.lock().last_error.take()
    }

    /// Records that the store answered a renewal with "not held". Ignored while a commit releases
    /// the run, because that commit may be the cause and decides.
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

    /// Wakes everything that waits for the lease. The run continues without its store.
    pub(crate) fn wake_all(&self) {
        let woken = self.lock().wakers();
        woken.wake();
    }

    /// Records that a commit which releases the run has started.
    pub(crate) fn releasing(&self) {
        self.lock().is_releasing = true;
    }

    /// Records that the last commit has released the run.
    pub(crate) fn released(&self) {
        self.lock().is_released = true;
    }

    /// Stops driving the run. Nothing starts from now on, and tasks that wait for a renewal stay
    /// pending.
    pub(crate) fn stop_driving(&self) {
        let _waiting = {
            let mut state = self.lock();
            state.has_stopped = true;
            std::mem::take(&mut state.waiting)
        };
    }

    pub(crate) fn has_stopped(&self) -> bool {
        self.lock().has_stopped
    }

    /// Returns whether the run still has to be released.
    pub(crate) fn is_held(&self) -> bool {
        let state = self.lock();
        !state.is_lost && !state.is_released
    }

    pub(crate) fn is_released(&self) -> bool {
        self.lock().is_released
    }

    /// Stores the remaining work of an interrupted run, for its worker or the drop of the lease.
    pub(crate) fn set_release_work(&self, work: ReleaseWork) {
        self.lock().release_work = Some(work);
    }

    pub(crate) fn take_release_work(&self) -> Option<ReleaseWork> {
        self.lock().release_work.take()
    }
}

impl LeaseState {
    fn wakers(&mut self) -> LeaseWakers {
        LeaseWakers { waiting: std::mem::take(&mut self.waiting), driver: self.driver.clone() }
    }
}

/// The tasks to wake after the lock is released.
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

/// Spawns the remaining release work, if no worker has taken it.
impl Drop for RunLease {
    fn drop(&mut self) {
        if let Some(work) = self.take_release_work() {
            self.runtime.spawn(work.all());
        }
    }
}
