//! `StoreClock`: the driver's estimate of the store's clock.
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
use std::time::Duration;

/// Stores round their times to milliseconds, some up and some down.
const RESOLUTION: Duration = Duration::from_millis(1);

pub(crate) struct StoreClock {
    runtime: Arc<dyn Runtime>,
    state: Mutex<ClockState>,
}

struct ClockState {
    /// What the store said, and when.
    said: (Timestamp, Instant),
    /// The tasks to wake when the estimate is corrected, by the number of their sleep.
    sleepers: BTreeMap<u64, Waker>,
    /// The number of the last sleep.
    last_sleep: u64,
}

impl StoreClock {
    /// The store has just said that it is `now`.
    pub(crate) fn new(runtime: Arc<dyn Runtime>, now: Timestamp) -> Arc<Self> {
        let state = ClockState { said: (now, runtime.now()), sleepers: BTreeMap::new(), last_sleep: 0 };
        Arc::new(Self { runtime, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, ClockState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time by the store's clock.
    pub(crate) fn now(&self) -> Timestamp {
        let (said, at) = self.lock().said;
        said.after(self.runtime.now().since(at))
    }

    /// When it is `time` by the store's clock, unless the estimate is corrected before.
    pub(crate) fn instant_of(&self, time: Timestamp) -> Instant {
        self.lock().instant_of(time)
    }

    /// The store has just answered a question of `asked_at`, and said that it is `now`.
    pub(crate) fn correct(&self, now: Timestamp, asked_at: Instant) {
        let answered_at = self.runtime.now();
        let sleepers = {
            let mut state = self.lock();
            let (said, at) = state.said;
            let known = said.after(answered_at.since(at));
            let latest = now.after(answered_at.since(asked_at) + RESOLUTION);
            if known.after(RESOLUTION) >= now && known <= latest {
                return;
            }
            state.said = (now, answered_at);
            std::mem::take(&mut state.sleepers)
        };
        sleepers.into_values().for_each(Waker::wake);
    }

    /// Waits until it is `time` by the store's clock, however that is corrected meanwhile.
    pub(crate) fn sleep_until(self: &Arc<Self>, time: Timestamp) -> BoxFuture<'static, ()> {
        Box::pin(Sleep { clock: Arc::clone(self), time, number: None, timer: None })
    }
}

impl ClockState {
    fn instant_of(&self, time: Timestamp) -> Instant {
        let (said, at) = self.said;
        at + time.since(said)
    }
}

struct Sleep {
    clock: Arc<StoreClock>,
    time: Timestamp,
    /// Given by the first poll.
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
        let known = self.number.and_then(|number| self.clock.lock().sleepers.remove(&number));
        drop(known);
    }
}
