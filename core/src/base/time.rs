//! [`Instant`]: a point in time on the clock of one runtime.

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;

/// A point in time on the clock of a [`Runtime`](crate::Runtime), stored as the time since that
/// clock started.
///
/// This crate has no clock. Instants of two runtimes cannot be compared. Nanoseconds are stored in
/// 64 bits; arithmetic saturates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The instant at which the clock started.
    pub const ZERO: Self = Self(0);
    /// An instant that is never reached.
    pub const NEVER: Self = Self(u64::MAX);

    /// Returns the instant `elapsed` after the clock started. More than 584 years give
    /// [`Instant::NEVER`].
    pub fn after_start(elapsed: Duration) -> Self {
        Self(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns the time between the start of the clock and this instant.
    pub fn since_start(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// Returns the time from `earlier` to this instant, or zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.since_start())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_saturates_and_subtracting_never_goes_below_zero() {
        let one = Instant::after_start(Duration::from_secs(1));
        assert_eq!(one + Duration::MAX, Instant::NEVER);
        assert_eq!(Instant::ZERO - one, Duration::ZERO);
        assert_eq!((one + Duration::from_millis(5)) - one, Duration::from_millis(5));
    }
}
