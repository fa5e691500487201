//! [`Timestamp`]: a time of day of a store's clock.

use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A time in milliseconds since the start of 1970 UTC, by the clock of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Creates a timestamp from milliseconds since the start of 1970.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Returns the milliseconds since the start of 1970.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Adds a duration. The result saturates at the latest timestamp.
    pub fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(millis(time)))
    }

    /// Returns the time from `earlier` to this timestamp, or zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// Converts a time of day. Times before 1970 become the start of 1970.
impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        Self(millis(time.duration_since(UNIX_EPOCH).unwrap_or_default()))
    }
}

/// How long before its creation a run may seem to have ended. Clocks are corrected now and then,
/// and the clocks of several machines differ slightly. The SQL statements contain the same number.
pub(super) const EARLY_END_MAX: Duration = Duration::from_secs(60);

/// Converts to whole milliseconds and rounds up, so that a lease of a nanosecond does not become a
/// zero lease.
pub(super) fn millis(time: Duration) -> i64 {
    // About 3,000 years. Added to a time of day it cannot overflow in any database.
    const MILLIS_MAX: u128 = 100_000_000_000_000;
    time.as_nanos().div_ceil(1_000_000).min(MILLIS_MAX) as i64
}
