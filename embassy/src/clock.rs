//! [`EmbassyClock`]: the clock and the timers of `embassy-time`.

use core::task::Waker;
use core::time::Duration;
use embassy_time::TICK_HZ;
use pleach_core::{Clock, Instant};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// The clock of `embassy-time`, as the clock of a [`Dispatcher`](pleach_core::Dispatcher).
///
/// A wake-up is scheduled with the time driver of the board, at the first tick that is not before
/// the wanted time. A tick earlier would make the task poll in vain until the time has come.
///
/// Embassy keeps one wake-up for each of its tasks, the earliest. So [`forget`](Clock::forget) has
/// nothing to cancel: at most one poll comes too early.
///
/// The driver of most boards accepts only wakers of Embassy's own tasks. Await the dispatcher
/// directly in such a task, not inside a combinator with wakers of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmbassyClock;

impl Clock for EmbassyClock {
    fn now(&self) -> Instant {
        let ticks = embassy_time::Instant::now().as_ticks();
        let nanos = (ticks % TICK_HZ) * NANOS_PER_SECOND / TICK_HZ;
        Instant::after_start(Duration::new(ticks / TICK_HZ, nanos as u32))
    }

    fn wake_at(&self, at: Instant, waker: &Waker) {
        if at != Instant::NEVER {
            embassy_time_driver::schedule_wake(first_tick_at(at), waker);
        }
    }
}

/// Returns the first tick that is not before `at`.
fn first_tick_at(at: Instant) -> u64 {
    let since_start = at.since_start();
    let part = (u64::from(since_start.subsec_nanos()) * TICK_HZ).div_ceil(NANOS_PER_SECOND);
    since_start.as_secs().saturating_mul(TICK_HZ).saturating_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d3_wake_up_is_at_the_first_tick_that_is_not_before_the_time() {
        let tick = Duration::from_nanos(NANOS_PER_SECOND.div_ceil(TICK_HZ));
        assert_eq!(first_tick_at(Instant::ZERO), 0);
        assert_eq!(first_tick_at(Instant::after_start(Duration::from_nanos(1))), 1);
        assert_eq!(first_tick_at(Instant::after_start(tick)), 1);
        assert_eq!(first_tick_at(Instant::after_start(tick + Duration::from_nanos(1))), 2);
        assert_eq!(first_tick_at(Instant::after_start(Duration::from_secs(3))), 3 * TICK_HZ);
        // The last times of the clock neither overflow nor come early.
        let late = Instant::after_start(Duration::from_nanos(u64::MAX - 1));
        assert!(u128::from(first_tick_at(late)) * 1_000_000_000 >= late.since_start().as_nanos() * u128::from(TICK_HZ));
    }
}
