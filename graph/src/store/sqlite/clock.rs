//! The two clocks of a store: the lease clock, and the time of day for everything else.
//!
//! - **Lease clock.** It counts suspended time, and changes of the time of day do not move it:
//!   `CLOCK_BOOTTIME` on Linux, `CLOCK_MONOTONIC` on other Unix systems, the time of day elsewhere.
//! - **Lease times for callers.** Callers see a lease end as a time of day. So the offset between
//!   the two clocks must be stable: it is measured with each reading, and a new value replaces the
//!   old one only if it differs by more than the resolution of the clocks.
//! - **Wake times.** A wake time is a time of day, but a run that is due stays due when the time of
//!   day is set back. So a wake time that has come when it is written is stored as a time in the
//!   distant past; see [`Now::stored_wake`].

use crate::store::time::Timestamp;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::SystemTime;

/// Two measurements of the offset are equal if they differ by fewer milliseconds than this.
const JITTER_MILLIS: i64 = 3;

/// The milliseconds by which a wake time that has come is moved into the past. It is larger than
/// the difference of any two times.
const LONG_PAST: i64 = 1 << 60;

/// One reading of both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    /// The time of day.
    pub(super) wall: Timestamp,
    /// The lease clock in milliseconds. Only differences have a meaning.
    pub(super) lease: i64,
}

impl Now {
    /// Converts a stored lease end to a time of day. Every number converts, and
    /// [`stored`](Self::stored) converts it back.
    pub(super) fn shown(self, lease_end: i64) -> Timestamp {
        Timestamp::from_millis(lease_end.wrapping_sub(self.lease).wrapping_add(self.wall.as_millis()))
    }

    /// Converts a lease end to the lease clock.
    pub(super) fn stored(self, until: Timestamp) -> i64 {
        until.as_millis().wrapping_sub(self.wall.as_millis()).wrapping_add(self.lease)
    }

    /// Returns the stored form of a wake time. It is negative for a time that has come, and stays
    /// negative if the time of day changes.
    pub(super) fn stored_wake(self, at: Timestamp) -> i64 {
        if at <= self.wall { stored_due(at) } else { at.as_millis() }
    }
}

/// Returns the stored form of a wake time that has come. Times more than 30 million years ago are
/// stored as the earliest one.
pub(super) fn stored_due(at: Timestamp) -> i64 {
    at.as_millis().saturating_sub(LONG_PAST)
}

/// Converts a stored wake time to a time of day.
pub(super) fn shown_wake(stored: i64) -> Timestamp {
    Timestamp::from_millis(if stored < 0 { stored + LONG_PAST } else { stored })
}

/// Reads both clocks. The writer and the readers of a store share it.
pub(super) struct Clock {
    source: Source,
    /// The time of day minus the lease clock, in milliseconds.
    offset: AtomicI64,
    /// The id of this boot of the machine. The lease clock restarts with each boot. Only Linux has
    /// such an id.
    boot_id: Option<String>,
}

enum Source {
    System,
    #[cfg(test)]
    Manual(std::sync::Arc<Manual>),
}

impl Clock {
    pub(super) fn system() -> Self {
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        Self::new(Source::System, boot_id.map(|id| id.trim().to_string()))
    }

    #[cfg(test)]
    pub(super) fn manual(manual: std::sync::Arc<Manual>, boot_id: Option<&str>) -> Self {
        Self::new(Source::Manual(manual), boot_id.map(String::from))
    }

    fn new(source: Source, boot_id: Option<String>) -> Self {
        let measured = (0..100).find_map(|_| source.measure().1);
        // If no measurement succeeds on a busy machine, the offset is slightly wrong.
        let offset = measured.unwrap_or_else(|| source.wall() - source.lease());
        Self { source, offset: offset.into(), boot_id }
    }

    pub(super) fn boot_id(&self) -> Option<&str> {
        self.boot_id.as_deref()
    }

    pub(super) fn now(&self) -> Now {
        let (lease, measured) = self.source.measure();
        let known = self.offset.load(Relaxed);
        let offset = measured.filter(|measured| (measured - known).abs() >= JITTER_MILLIS).unwrap_or(known);
        if offset != known {
            self.offset.store(offset, Relaxed);
        }
        Now { wall: Timestamp::from_millis(lease + offset), lease }
    }
}

impl Source {
    /// Returns the lease clock, and the offset to the time of day; `None` if the thread was
    /// interrupted between the readings.
    fn measure(&self) -> (i64, Option<i64>) {
        let before = self.lease();
        let wall = self.wall();
        let lease = self.lease();
        (lease, (lease - before <= 1).then_some(wall - lease))
    }

    /// Returns the time of day in milliseconds.
    fn wall(&self) -> i64 {
        match self {
            Self::System => Timestamp::from(SystemTime::now()).as_millis(),
            #[cfg(test)]
            Self::Manual(manual) => manual.wall.load(Relaxed),
        }
    }

    fn lease(&self) -> i64 {
        match self {
            #[cfg(unix)]
            Self::System => {
                let time = rustix::time::clock_gettime(LEASE_CLOCK);
                time.tv_sec * 1_000 + time.tv_nsec / 1_000_000
            }
            #[cfg(not(unix))]
            Self::System => self.wall(),
            #[cfg(test)]
            Self::Manual(manual) => manual.lease.load(Relaxed),
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const LEASE_CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;

#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
const LEASE_CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

/// Two clocks that a test sets, in milliseconds.
#[cfg(test)]
#[derive(Default)]
pub(super) struct Manual {
    pub(super) wall: AtomicI64,
    pub(super) lease: AtomicI64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn c6_lease_times_are_stable_between_readings() {
        let manual = Arc::new(Manual { wall: 1_000_000.into(), lease: 500.into() });
        let clock = Clock::manual(Arc::clone(&manual), None);
        let until = clock.now().shown(800);
        assert_eq!(until, Timestamp::from_millis(1_000_300));
        // The two clocks are read one after the other, and each is rounded to milliseconds.
        manual.wall.store(1_000_101, Relaxed);
        manual.lease.store(600, Relaxed);
        let now = clock.now();
        assert_eq!((now.wall, now.shown(800)), (Timestamp::from_millis(1_000_100), until));
        manual.wall.store(5_000_000, Relaxed);
        assert_eq!(clock.now().shown(800), Timestamp::from_millis(5_000_200), "a step of the time of day moves the shown time");
    }

    #[test]
    fn c6_shown_lease_times_convert_back_exactly() {
        let now = Now { wall: Timestamp::from_millis(1_700_000_000_123), lease: 77 };
        for lease_end in [0, -1, 77, 1 << 40, i64::MAX, i64::MIN] {
            assert_eq!(now.stored(now.shown(lease_end)), lease_end);
        }
    }

    #[test]
    fn c12_any_time_that_has_come_is_stored_as_due() {
        let now = Now { wall: Timestamp::from_millis(1_700_000_000_123), lease: 77 };
        for at in [i64::MIN, i64::MIN + 1, -LONG_PAST, -1, 0, now.wall.as_millis()].map(Timestamp::from_millis) {
            assert!(now.stored_wake(at) < 0 && shown_wake(now.stored_wake(at)) <= now.wall, "{at:?}");
        }
    }

    #[test]
    fn c6_system_clocks_agree_with_the_time_of_day() {
        let before = Timestamp::from(SystemTime::now()).as_millis();
        let now = Clock::system().now();
        let after = Timestamp::from(SystemTime::now()).as_millis();
        assert!((before - JITTER_MILLIS..=after + JITTER_MILLIS).contains(&now.wall.as_millis()), "{before} {now:?} {after}");
    }
}
