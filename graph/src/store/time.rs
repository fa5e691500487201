//! `Timestamp`: a time of day by a store's clock.

use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970, UTC. Stores make them by their own clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// So many milliseconds after the start of 1970.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the start of 1970.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// This long after it, or the last there is.
    pub fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(millis(time)))
    }

    /// How long it is from `earlier` to this; nothing if it is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// A time of day; before 1970 it is the start of 1970.
impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        Self(millis(time.duration_since(UNIX_EPOCH).unwrap_or_default()))
    }
}

/// By how much a run may seem to have ended before it was made: clocks are set right now and then, and those of several machines differ a little.
/// The statements of the databases have it as a number.
pub(super) const EARLY_END_MAX: Duration = Duration::from_secs(60);

/// Whole milliseconds, upwards: a lease of a nanosecond is no lease of zero, which would give a run up.
pub(super) fn millis(time: Duration) -> i64 {
    // About 3,000 years: added to a time of day it stays far from overflowing, in every database.
    const MILLIS_MAX: u128 = 100_000_000_000_000;
    time.as_nanos().div_ceil(1_000_000).min(MILLIS_MAX) as i64
}
