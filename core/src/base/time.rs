//! `Instant`: a point on the clock of one runtime, whatever that clock is.

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;

/// A point in time on the clock of a [`Runtime`](crate::Runtime): the time since that clock began.
///
/// Core has no clock of its own. Instants of two runtimes have nothing to do with each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The moment the clock began.
    pub const ZERO: Self = Self(0);
    /// A moment that never comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// The instant this long after the clock began; what does not fit (584 years) is [`Instant::NEVER`].
    pub fn after_start(elapsed: Duration) -> Self {
        Self(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The time since the clock began.
    pub fn since_start(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// The time from `earlier` to this instant, zero if `earlier` is later.
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
