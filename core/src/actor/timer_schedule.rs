//! [`Schedule`]: when the timers of an actor are due. It knows no message type, so it is compiled
//! once for all actors.
//!
//! A timer has a key, which users keep, and a slot: the index under which `Timers` keeps what the
//! timer sends. A slot is used again after its timer has fired for the last time.

use crate::base::runtime::{BoxFuture, Runtime};
use crate::base::time::Instant;
use crate::base::work_count;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::task::{Context, Poll};
use core::time::Duration;

/// The key of a timer, for [`Context::cancel_timer`](crate::Context::cancel_timer).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerKey(u64);

/// When timers, and the receive timeout, are due.
#[derive(Default)]
pub(super) struct Schedule {
    waiting: BTreeMap<(Instant, TimerKey), Entry>,
    /// The due time of each timer, to find it by its key.
    due_at: BTreeMap<TimerKey, Instant>,
    free_slots: Vec<usize>,
    /// The number of slots, free or in use.
    slots: usize,
    last_key: u64,
    receive_timeout: Option<ReceiveTimeout>,
    sleep: Option<(Instant, BoxFuture<'static, ()>)>,
}

#[derive(Clone, Copy)]
struct Entry {
    slot: usize,
    /// The period of a repeated timer.
    period: Option<Duration>,
}

/// The receive timeout: due when no message has arrived for a while.
struct ReceiveTimeout {
    wait: Duration,
    /// When it is due, and how many messages had been taken when that was set.
    due: Option<(Instant, usize)>,
}

impl Schedule {
    /// Adds a timer. Returns its key and its slot, which is at most the number of slots so far.
    pub(super) fn add(&mut self, at: Instant, period: Option<Duration>) -> (TimerKey, usize) {
        self.last_key += 1;
        let key = TimerKey(self.last_key);
        let slot = self.free_slots.pop().unwrap_or(self.slots);
        self.slots = self.slots.max(slot + 1);
        self.insert(at, key, Entry { slot, period });
        (key, slot)
    }

    fn insert(&mut self, at: Instant, key: TimerKey, entry: Entry) {
        self.due_at.insert(key, at);
        self.waiting.insert((at, key), entry);
    }

    /// Removes a timer. Returns its slot, or `None` if it has fired for the last time.
    pub(super) fn cancel(&mut self, key: TimerKey) -> Option<usize> {
        work_count::count(1);
        let at = self.due_at.remove(&key)?;
        let entry = self.waiting.remove(&(at, key))?;
        self.free_slots.push(entry.slot);
        Some(entry.slot)
    }

    /// Sets or clears the receive timeout.
    pub(super) fn set_receive_timeout(&mut self, wait: Option<Duration>) {
        self.receive_timeout = wait.map(|wait| ReceiveTimeout { wait, due: None });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.receive_timeout.is_none()
    }

    /// Takes the earliest timer that is due and returns its slot. A repeated timer is scheduled
    /// again first, so it is kept even if its closure panics.
    pub(super) fn next_due(&mut self, now: Instant) -> Option<usize> {
        let entry = self.waiting.first_entry().filter(|entry| entry.key().0 <= now)?;
        let ((_, key), entry) = entry.remove_entry();
        match entry.period {
            // The next due time is relative to now, not to the last due time: an actor that was
            // busy does not get all missed messages at once.
            Some(period) => self.insert(now + period, key, entry),
            None => {
                self.due_at.remove(&key);
                self.free_slots.push(entry.slot);
            }
        }
        Some(entry.slot)
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
    pub(super) fn poll_sleep(&mut self, runtime: &dyn Runtime, cx: &mut Context<'_>) -> Poll<()> {
        let idle = self.receive_timeout.as_ref().and_then(|timeout| timeout.due).map(|(at, _)| at);
        let next = self.waiting.keys().next().map(|(at, _)| *at).into_iter().chain(idle).min();
        let Some(next) = next else { return Poll::Pending };
        let (at, sleep) = self.sleep.get_or_insert_with(|| (next, runtime.sleep_until(next)));
        if *at != next {
            (*at, *sleep) = (next, runtime.sleep_until(next));
        }
        let polled = sleep.as_mut().poll(cx);
        if polled.is_ready() {
            self.sleep = None;
        }
        polled
    }
}
