//! [`ExponentialBackoff`]: the wait before a restart, which doubles with each failure in a row.

use crate::base::time::Instant;
use core::time::Duration;

/// Waits before each restart: `min` at first, twice as long after each further failure, at most
/// `max`. A random part is subtracted (jitter).
///
/// A child that has run for longer than `max` (or [`reset_after`](Self::reset_after)) without a
/// failure starts again at `min`.
///
/// As a strategy it restarts the failed child only and has no restart limit, because the wait
/// already limits the restarts. It can also be part of another strategy:
/// `OneForAll::new().backoff(ExponentialBackoff::new(min, max))`.
///
/// # Examples
///
/// ```
/// use pleach::supervise::ExponentialBackoff;
/// use std::time::Duration;
///
/// let (min, max) = (Duration::from_millis(100), Duration::from_secs(1));
/// let backoff = ExponentialBackoff::new(min, max).jitter(0.0);
/// let waits: Vec<u128> = (1..=5).map(|nth| backoff.delay(nth, 0).as_millis()).collect();
/// assert_eq!(waits, [100, 200, 400, 800, 1000]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExponentialBackoff {
    min: Duration,
    max: Duration,
    jitter: f32,
    reset_after: Option<Duration>,
}

/// How often a child has failed in a row, and the time of its last failure.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FailureStreak {
    failures: u32,
    last: Option<Instant>,
}

impl ExponentialBackoff {
    /// Creates a backoff from `min` to `max` with a jitter of 0.2. A `max` below `min` is replaced
    /// by `min`.
    pub fn new(min: Duration, max: Duration) -> Self {
        Self { min, max: max.max(min), jitter: 0.2, reset_after: None }
    }

    /// Sets which part of each wait (0 to 1) may be subtracted at random. Default: 0.2.
    ///
    /// Jitter keeps many children from restarting at the same instant. Values outside the range are
    /// clamped; NaN counts as 0.
    #[must_use]
    pub fn jitter(mut self, part: f32) -> Self {
        self.jitter = if part.is_nan() { 0.0 } else { part.clamp(0.0, 1.0) };
        self
    }

    /// Sets how long a child must run without a failure before the wait starts at `min` again.
    /// Default: `max`.
    #[must_use]
    pub fn reset_after(mut self, calm: Duration) -> Self {
        self.reset_after = Some(calm);
        self
    }

    /// Returns the wait after the `nth` failure in a row (the first is 1). `random` chooses the
    /// jitter.
    pub fn delay(&self, nth: u32, random: u64) -> Duration {
        let doubled = 1_u32.checked_shl(nth.saturating_sub(1)).and_then(|factor| self.min.checked_mul(factor));
        let full = doubled.unwrap_or(self.max).min(self.max);
        // An `f32` holds 24 random bits exactly.
        let chance = (random >> 40) as f32 / (1_u32 << 24) as f32;
        full.saturating_sub(full.mul_f32(self.jitter * chance))
    }

    /// Counts one more failure at `now` and returns the wait before the restart.
    pub(crate) fn next(&self, streak: &mut FailureStreak, now: Instant, random: u64) -> Duration {
        let calm = self.reset_after.unwrap_or(self.max);
        // The wait does not count as a run without failure: it ends before the child starts.
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
    fn s1_backoff_doubles_up_to_the_maximum() {
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
    fn s1_long_run_resets_the_backoff() {
        let backoff = ExponentialBackoff::new(MS(10), MS(80)).jitter(0.0).reset_after(MS(500));
        let mut streak = FailureStreak::default();
        let mut fail = |ms| backoff.next(&mut streak, Instant::after_start(MS(ms)), 0);
        assert_eq!([fail(0), fail(100), fail(200), fail(300), fail(400)], [10, 20, 40, 80, 80].map(MS));
        // It waited for 80 ms and then ran for 500 ms, which is not longer than `reset_after`.
        assert_eq!(fail(980), MS(80));
        assert_eq!(fail(980 + 581), MS(10));
    }
}
