//! The two clocks of a store: one for leases, one for everything else.
//!
//! Leases are measured by a clock that no step of the time of day moves and that counts suspended time: `CLOCK_BOOTTIME` on Linux and
//! `CLOCK_MONOTONIC` on other Unix systems. Elsewhere it is the time of day. All other times of a store are times of day.
//!
//! A lease is shown to callers as a time of day, so the distance between the two clocks must not flicker: it is measured with each reading, and
//! a new measurement counts only if it differs by more than the clocks' resolution.
//!
//! A time to wake is a time of day, but a run that is due stays due when the time of day is set back. So a time that has come when it is written is
//! stored as one long past: see [`Now::stored_wake`].

use crate::store::time::Timestamp;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::SystemTime;

/// Measurements of the distance that differ by fewer milliseconds are the same.
const JITTER_MILLIS: i64 = 3;

/// How many milliseconds a time to wake is moved back that has come when it is written. More than there are between any two times.
const LONG_PAST: i64 = 1 << 60;

/// One reading of both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    /// The time of day.
    pub(super) wall: Timestamp,
    /// The lease clock, in milliseconds. Only differences mean something.
    pub(super) lease: i64,
}

impl Now {
    /// The time of day at which a lease ends. Any number has one, and [`stored`](Self::stored) gives the number back.
    pub(super) fn shown(self, lease_end: i64) -> Timestamp {
        Timestamp::from_millis(lease_end.wrapping_sub(self.lease).wrapping_add(self.wall.as_millis()))
    }

    /// The end of a lease by the lease clock.
    pub(super) fn stored(self, until: Timestamp) -> i64 {
        until.as_millis().wrapping_sub(self.wall.as_millis()).wrapping_add(self.lease)
    }

    /// A time to wake as it is stored. One that has come is negative, and stays so whatever becomes of the time of day.
    pub(super) fn stored_wake(self, at: Timestamp) -> i64 {
        if at <= self.wall { stored_due(at) } else { at.as_millis() }
    }
}

/// A time to wake that has come, as it is stored. Times more than 30 million years ago are stored as the first there is.
pub(super) fn stored_due(at: Timestamp) -> i64 {
    at.as_millis().saturating_sub(LONG_PAST)
}

/// A time to wake as callers are shown it.
pub(super) fn shown_wake(stored: i64) -> Timestamp {
    Timestamp::from_millis(if stored < 0 { stored + LONG_PAST } else { stored })
}

/// Reads both clocks. Shared by the writer and the readers of a store.
pub(super) struct Clock {
    source: Source,
    /// The time of day less the lease clock, in milliseconds.
    distance: AtomicI64,
    /// The id of this start of the machine, with which the lease clock begins anew. Only Linux has one.
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
        // On a machine so busy that no measurement succeeds it is a little off.
        let distance = measured.unwrap_or_else(|| source.wall() - source.lease());
        Self { source, distance: distance.into(), boot_id }
    }

    pub(super) fn boot_id(&self) -> Option<&str> {
        self.boot_id.as_deref()
    }

    pub(super) fn now(&self) -> Now {
        let (lease, measured) = self.source.measure();
        let known = self.distance.load(Relaxed);
        let distance = measured.filter(|measured| (measured - known).abs() >= JITTER_MILLIS).unwrap_or(known);
        if distance != known {
            self.distance.store(distance, Relaxed);
        }
        Now { wall: Timestamp::from_millis(lease + distance), lease }
    }
}

impl Source {
    /// The lease clock, and the distance from it to the time of day; `None` if the thread was interrupted between the readings.
    fn measure(&self) -> (i64, Option<i64>) {
        let before = self.lease();
        let wall = self.wall();
        let lease = self.lease();
        (lease, (lease - before <= 1).then_some(wall - lease))
    }

    /// The time of day, in milliseconds.
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

/// Clocks that a test moves, in milliseconds.
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
    fn c6_lease_times_do_not_flicker_between_readings() {
        let manual = Arc::new(Manual { wall: 1_000_000.into(), lease: 500.into() });
        let clock = Clock::manual(Arc::clone(&manual), None);
        let until = clock.now().shown(800);
        assert_eq!(until, Timestamp::from_millis(1_000_300));
        // The two clocks are read one after the other, and each is cut to milliseconds.
        manual.wall.store(1_000_101, Relaxed);
        manual.lease.store(600, Relaxed);
        let now = clock.now();
        assert_eq!((now.wall, now.shown(800)), (Timestamp::from_millis(1_000_100), until));
        manual.wall.store(5_000_000, Relaxed);
        assert_eq!(clock.now().shown(800), Timestamp::from_millis(5_000_200), "a step of the time of day moves what is shown");
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
    fn c6_the_system_clocks_agree_with_the_time_of_day() {
        let before = Timestamp::from(SystemTime::now()).as_millis();
        let now = Clock::system().now();
        let after = Timestamp::from(SystemTime::now()).as_millis();
        assert!((before - JITTER_MILLIS..=after + JITTER_MILLIS).contains(&now.wall.as_millis()), "{before} {now:?} {after}");
    }
}
