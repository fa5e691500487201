//! [`Schedule`]: when the timers of an actor are due. It knows no message type, so it is compiled
//! once for all actors.

use crate::base::runtime::Runtime;
use crate::base::sleep::Sleep;
use crate::base::sorted;
use crate::base::sorted::SortedMap;
use crate::base::sync::Arc;
use crate::base::time::Instant;
use crate::base::work_count;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

/// The key of a timer, for [`Context::cancel_timer`](crate::Context::cancel_timer).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerKey(pub(super) u64);

impl TimerKey {
    /// The key of a timer that was not set.
    pub(super) const NEVER: Self = Self(0);
}

/// When timers, and the receive timeout, are due.
#[derive(Default)]
pub(super) struct Schedule {
    /// All timers in order. A repeated timer has a period.
    waiting: SortedMap<(Instant, TimerKey), Option<Duration>>,
    /// The due time of each timer, to find it by its key.
    due_at: SortedMap<TimerKey, Instant>,
    receive_timeout: Option<ReceiveTimeout>,
    sleep: Option<Sleep>,
}

/// The receive timeout: due when no message has arrived for a while.
struct ReceiveTimeout {
    wait: Duration,
    /// When it is due, and how many messages had been taken when that was set.
    due: Option<(Instant, usize)>,
}

impl Schedule {
    /// Adds a timer with a new key.
    pub(super) fn add(&mut self, key: TimerKey, at: Instant, period: Option<Duration>) {
        self.due_at.insert(key, at);
        self.waiting.insert((at, key), period);
    }

    /// Reserves room for `timers` timers altogether.
    pub(super) fn reserve(&mut self, timers: usize) {
        // A repeated timer that is due is in the tables twice for a moment.
        sorted::reserve(&mut self.waiting, timers + 1);
        sorted::reserve(&mut self.due_at, timers + 1);
    }

    /// Removes all timers and the receive timeout.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.due_at.clear();
        (self.receive_timeout, self.sleep) = (None, None);
    }

    /// Removes a timer. Returns false if it has fired for the last time.
    pub(super) fn cancel(&mut self, key: TimerKey) -> bool {
        work_count::count(1);
        self.due_at.remove(&key).is_some_and(|at| self.waiting.remove(&(at, key)).is_some())
    }

    /// Sets or clears the receive timeout.
    pub(super) fn set_receive_timeout(&mut self, wait: Option<Duration>) {
        self.receive_timeout = wait.map(|wait| ReceiveTimeout { wait, due: None });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.receive_timeout.is_none()
    }

    /// Takes the earliest timer that is due and returns its key. A repeated timer is scheduled
    /// again first, so it is kept even if its closure panics.
    pub(super) fn next_due(&mut self, now: Instant) -> Option<TimerKey> {
        let entry = self.waiting.first_entry().filter(|entry| entry.key().0 <= now)?;
        let ((_, key), period) = entry.remove_entry();
        match period {
            // The next due time is relative to now, not to the last due time: an actor that was
            // busy does not get all missed messages at once.
            Some(wait) => self.add(key, now + wait, period),
            None => drop(self.due_at.remove(&key)),
        }
        Some(key)
    }

    /// Returns true, once, if the receive timeout has passed and no message has arrived since it
    /// was set. Otherwise sets it if a message has arrived.
    pub(super) fn receive_timeout_is_due(&mut self, now: Instant, taken: usize) -> bool {
        let Some(timeout) = &mut self.receive_timeout else { return false };
        match timeout.due {
            Some((at, then)) if then == taken && at <= now => {
                timeout.due = None;
                true
            }
            Some((_, then)) if then == taken => false,
            _ => {
                timeout.due = Some((now + timeout.wait, taken));
                false
            }
        }
    }

    /// Sleeps until the next due time. `Pending` without a waker if no timer is left.
    pub(super) fn poll_sleep(&mut self, runtime: &Arc<dyn Runtime>, cx: &mut Context<'_>) -> Poll<()> {
        let idle = self.receive_timeout.as_ref().and_then(|timeout| timeout.due).map(|(at, _)| at);
        let next = self.waiting.keys().next().map(|(at, _)| *at).into_iter().chain(idle).min();
        let Some(next) = next else { return Poll::Pending };
        let sleep = self.sleep.get_or_insert_with(|| Sleep::until(runtime, next));
        if sleep.at() != next {
            *sleep = Sleep::until(runtime, next);
        }
        let polled = Pin::new(sleep).poll(cx);
        if polled.is_ready() {
            self.sleep = None;
        }
        polled
    }
}
