//! [`StoreClock`]: the driver's estimate of the store's clock.
//!
//! Each claim, commit and renewal returns the store's time. Between two answers the clock of the
//! runtime counts. That clock can stand still while the machine is suspended, so the next answer
//! corrects the estimate and wakes all sleepers.
//!
//! Invariants:
//! 1. The store read its clock between the request and the answer. An estimate within that range is
//!    not changed.
//! 2. A corrected estimate can be late by the travel time of the answer. It is never early.
//! 3. No waker is woken, cloned or dropped under the lock.

use crate::store::Timestamp;
use pleach_core::{BoxFuture, Instant, Runtime};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The rounding error of store times, which are in milliseconds. Some stores round up, some down.
const RESOLUTION: Duration = Duration::from_millis(1);

/// A moment by two clocks: the runtime's clock, which can stop while the machine is suspended, and
/// the time of day.
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

    /// Returns the time since `earlier`: the larger of the two clocks' differences.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        self.at.since(earlier.at).max(self.time_of_day.saturating_sub(earlier.time_of_day))
    }
}

/// Estimates the clock of one store from its last answer.
pub(crate) struct StoreClock {
    runtime: Arc<dyn Runtime>,
    state: Mutex<ClockState>,
}

struct ClockState {
    /// The store's time in its last correcting answer, and when that answer arrived.
    reading: (Timestamp, Instant),
    /// The tasks to wake when the estimate is corrected, by the number of their sleep.
    sleepers: BTreeMap<u64, Waker>,
    /// The number of the last sleep.
    last_sleep: u64,
}

impl StoreClock {
    /// Creates a clock from an answer of the store that has just arrived.
    pub(crate) fn new(runtime: Arc<dyn Runtime>, now: Timestamp) -> Arc<Self> {
        let state = ClockState { reading: (now, runtime.now()), sleepers: BTreeMap::new(), last_sleep: 0 };
        Arc::new(Self { runtime, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, ClockState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the estimated time of the store.
    pub(crate) fn now(&self) -> Timestamp {
        let (time, at) = self.lock().reading;
        time.after(self.runtime.now().since(at))
    }

    /// Returns when the store's clock will show `time`, unless the estimate is corrected before.
    pub(crate) fn instant_of(&self, time: Timestamp) -> Instant {
        self.lock().instant_of(time)
    }

    /// Corrects the estimate with an answer of the store that has just arrived; the request was
    /// sent at `asked_at`.
    pub(crate) fn correct(&self, now: Timestamp, asked_at: Instant) {
        let answered_at = self.runtime.now();
        let sleepers = {
            let mut state = self.lock();
            let (time, at) = state.reading;
            let estimate = time.after(answered_at.since(at));
            let latest = now.after(answered_at.since(asked_at) + RESOLUTION);
            if estimate.after(RESOLUTION) >= now && estimate <= latest {
                return;
            }
            state.reading = (now, answered_at);
            std::mem::take(&mut state.sleepers)
        };
        sleepers.into_values().for_each(Waker::wake);
    }

    /// Waits until the store's clock shows `time`, even if the estimate is corrected meanwhile.
    /// Cancel safe.
    pub(crate) fn sleep_until(self: &Arc<Self>, time: Timestamp) -> BoxFuture<'static, ()> {
        Box::pin(Sleep { clock: Arc::clone(self), time, number: None, timer: None })
    }
}

impl ClockState {
    fn instant_of(&self, time: Timestamp) -> Instant {
        let (reading, at) = self.reading;
        at + time.since(reading)
    }
}

/// The future of [`StoreClock::sleep_until`].
struct Sleep {
    clock: Arc<StoreClock>,
    time: Timestamp,
    /// The number of this sleep, assigned by the first poll.
    number: Option<u64>,
    timer: Option<(Instant, BoxFuture<'static, ()>)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let waker = cx.waker().clone();
        let (_replaced, until) = {
            let mut state = this.clock.lock();
            let number = *this.number.get_or_insert_with(|| {
                state.last_sleep += 1;
                state.last_sleep
            });
            (state.sleepers.insert(number, waker), state.instant_of(this.time))
        };
        let timer = match &mut this.timer {
            Some((set_to, timer)) if *set_to == until => timer,
            timer => &mut timer.insert((until, this.clock.runtime.sleep_until(until))).1,
        };
        timer.as_mut().poll(cx)
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let waker = self.number.and_then(|number| self.clock.lock().sleepers.remove(&number));
        drop(waker);
    }
}
