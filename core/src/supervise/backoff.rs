//! `ExponentialBackoff`: how long a child waits before it starts again, the longer the more often it failed in a row.

use crate::base::time::Instant;
use core::time::Duration;

/// Waits before each restart: `min` the first time, twice as long each time in a row, at most `max`, minus a random part of it.
///
/// A child that has run for longer than `max` (or [`reset_after`](Self::reset_after)) without failing begins at `min` again. It is a
/// strategy by itself, one-for-one and without a limit on restarts, since the wait limits them; or a part of another:
/// `OneForAll::new().backoff(ExponentialBackoff::new(min, max))`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExponentialBackoff {
    min: Duration,
    max: Duration,
    jitter: f32,
    reset_after: Option<Duration>,
}

/// How often a child has failed in a row, and when last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Streak {
    failures: u32,
    last: Option<Instant>,
}

impl ExponentialBackoff {
    /// From `min` up to `max`, with a fifth of each wait left to chance. A `max` below `min` counts as `min`.
    pub fn new(min: Duration, max: Duration) -> Self {
        Self { min, max: max.max(min), jitter: 0.2, reset_after: None }
    }

    /// Takes up to this part (0 to 1) of each wait off at random, so that many children do not all start at once.
    #[must_use]
    pub fn jitter(mut self, part: f32) -> Self {
        self.jitter = if part.is_nan() { 0.0 } else { part.clamp(0.0, 1.0) };
        self
    }

    /// Begins at `min` again after a child has run this long without failing.
    #[must_use]
    pub fn reset_after(mut self, calm: Duration) -> Self {
        self.reset_after = Some(calm);
        self
    }

    /// How long to wait after the `nth` failure in a row (the first is 1), with `random` for the jitter.
    pub fn delay(&self, nth: u32, random: u64) -> Duration {
        let doubled = 1_u32.checked_shl(nth.saturating_sub(1)).and_then(|factor| self.min.checked_mul(factor));
        let full = doubled.unwrap_or(self.max).min(self.max);
        // 24 bits of chance are what an `f32` holds.
        let chance = (random >> 40) as f32 / (1_u32 << 24) as f32;
        full.saturating_sub(full.mul_f32(self.jitter * chance))
    }

    /// Counts one more failure at `now`, and says how long to wait.
    pub(crate) fn next(&self, streak: &mut Streak, now: Instant, random: u64) -> Duration {
        let calm = self.reset_after.unwrap_or(self.max);
        // The wait itself is no calm: it is over before the child runs.
        let waited = self.delay(streak.failures, 0);
        if streak.last.is_some_and(|last| now.since(last) > calm.saturating_add(waited)) {
            streak.failures = 0;
        }
        streak.failures = streak.failures.saturating_add(1);
        streak.last = Some(now);
        self.delay(streak.failures, random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::runtime::Random;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn s1_each_wait_is_twice_the_last_up_to_the_most() {
        let backoff = ExponentialBackoff::new(MS(10), MS(100)).jitter(0.0);
        let waits: [Duration; 6] = core::array::from_fn(|n| backoff.delay(n as u32 + 1, 7));
        assert_eq!(waits, [10, 20, 40, 80, 100, 100].map(MS));
        assert_eq!(backoff.delay(u32::MAX, 0), MS(100));
        assert_eq!(ExponentialBackoff::new(MS(10), MS(1)).delay(9, 0), MS(10));
        assert_eq!(ExponentialBackoff::new(Duration::MAX, Duration::MAX).delay(40, 0), Duration::MAX);
    }

    #[test]
    fn s1_jitter_only_shortens_and_spreads() {
        let (backoff, mut random) = (ExponentialBackoff::new(MS(100), MS(100)).jitter(0.5), Random::seeded(1));
        let mut shortest = MS(100);
        for _ in 0..1_000 {
            let wait = backoff.delay(1, random.next_u64());
            assert!(wait >= MS(50) && wait <= MS(100), "{wait:?}");
            shortest = shortest.min(wait);
        }
        assert!(shortest < MS(52));
        assert_eq!(backoff.jitter(f32::NAN).delay(1, u64::MAX), MS(100));
        assert!(backoff.jitter(9.0).delay(1, u64::MAX) < MS(1));
    }

    #[test]
    fn s1_a_calm_run_begins_at_the_shortest_wait_again() {
        let backoff = ExponentialBackoff::new(MS(10), MS(80)).jitter(0.0).reset_after(MS(500));
        let mut streak = Streak::default();
        let mut fail = |ms| backoff.next(&mut streak, Instant::after_start(MS(ms)), 0);
        assert_eq!([fail(0), fail(100), fail(200), fail(300), fail(400)], [10, 20, 40, 80, 80].map(MS));
        // It waited 80 ms and then ran for 500: not yet longer.
        assert_eq!(fail(980), MS(80));
        assert_eq!(fail(980 + 581), MS(10));
    }
}
