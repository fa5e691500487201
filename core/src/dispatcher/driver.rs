//! [`Driver`]: a caller that runs the tasks of a dispatcher, and how it is woken for more work.

use crate::base::time::Instant;
use crate::base::wakers::{ClonedWaker, WakerKey, discard};
use crate::dispatcher::Scheduler;
use core::task::{Context, Poll, Waker};

/// How many polls `Dispatcher::run_until` and `Dispatcher::run_forever` do before they yield to
/// the executor around them.
const POLLS_PER_TURN_MAX: usize = 64;

/// A caller that drives the dispatcher, registered while it waits for work.
pub(super) struct Driver<'a> {
    scheduler: &'a Scheduler,
    key: WakerKey,
    /// The waker that was passed to the clock.
    alarm: Option<Waker>,
}

impl<'a> Driver<'a> {
    pub(super) fn new(scheduler: &'a Scheduler) -> Self {
        Self { scheduler, key: None, alarm: None }
    }

    /// Runs ready tasks until `done` is ready, for at most one turn. A driver with remaining work
    /// wakes itself.
    pub(super) fn take_turn<T>(&mut self, cx: &mut Context<'_>, mut done: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        for _ in 0..POLLS_PER_TURN_MAX {
            if let Poll::Ready(output) = done(cx) {
                self.scheduler.wake_drivers();
                return Poll::Ready(output);
            }
            if self.scheduler.step(None).is_none() {
                self.wait(cx.waker());
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Registers `waker` for the next ready task and the next timer.
    pub(super) fn wait(&mut self, waker: &Waker) {
        let next_timer = self.register(waker);
        if let (Some(clock), Some(at)) = (&self.scheduler.clock, next_timer) {
            self.cancel_alarm_unless(Some(waker));
            clock.wake_at(at, waker);
            self.alarm = Some(waker.clone());
        }
    }

    /// Cancels the clock's waker, unless it equals `kept`. Another driver in the same task may have
    /// passed the same waker, so all waiting drivers check for themselves.
    fn cancel_alarm_unless(&mut self, kept: Option<&Waker>) {
        let Some(alarm) = self.alarm.take().filter(|alarm| !kept.is_some_and(|kept| kept.will_wake(alarm))) else { return };
        if let Some(clock) = &self.scheduler.clock {
            clock.forget(&alarm);
        }
        self.scheduler.wake_drivers();
    }

    /// Registers `waker` for the next ready task. Wakes it at once if a task became ready
    /// meanwhile; otherwise returns the time of the next timer.
    pub(super) fn register(&mut self, waker: &Waker) -> Option<Instant> {
        let mut waker_slot = ClonedWaker::of(waker);
        let (more, next_timer) = self.scheduler.queue.with(|queue| {
            queue.drivers.register(&mut self.key, &mut waker_slot);
            (queue.is_ready(), queue.next_timer())
        });
        if more {
            waker.wake_by_ref();
            return None;
        }
        next_timer
    }
}

impl Drop for Driver<'_> {
    fn drop(&mut self) {
        let waker = self.scheduler.queue.with(|queue| queue.drivers.remove(&mut self.key));
        discard(waker);
        self.cancel_alarm_unless(None);
    }
}
