//! Decides whether recorded times can be trusted when old runs are removed.
//!
//! The age of a run is a difference of the store's clock, and that clock can be wrong: a machine
//! may start in 1970 or far in the future. Then a run that has just ended looks old. The recorded
//! times reveal this:
//!
//! 1. A time before [`EARLIEST`] comes from a wrong clock. Runs that ended then are not removed.
//! 2. A store in use records ends regularly. If no run ended for [`GAP_MAX`] around the age limit,
//!    the clock has jumped, and nothing is removed. Later ends do not change that.
//! 3. A run cannot end before its creation. If its times say so by more than
//!    [`EARLY_END_MAX`](super::time::EARLY_END_MAX), the clock was wrong at one of them. Such a run
//!    is not removed, and its end is ignored for rule 2. The number of such runs is logged, unless
//!    the clock has jumped: then they may not be old.
//! 4. An end in the future is ignored for rule 2.

use super::Timestamp;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The start of 2024. This library did not exist before.
pub(super) const EARLIEST: Timestamp = Timestamp::from_millis(1_704_067_200_000);

/// The longest time without an ended run in a store whose clock is right.
const GAP_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The recorded ends on both sides of the age limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Neighbours {
    pub(super) now: Timestamp,
    /// The last end before the age limit, not before [`EARLIEST`].
    pub(super) last_old: Option<Timestamp>,
    /// The first end after the age limit.
    pub(super) first_young: Option<Timestamp>,
}

impl Neighbours {
    /// Returns the jump of the clock, if the times show one: the last end before it and the next
    /// time after it.
    fn jump(self) -> Option<(Timestamp, Timestamp)> {
        let next = self.first_young.unwrap_or(self.now).min(self.now);
        self.last_old.map(|last_old| (last_old, next)).filter(|(last_old, next)| next.since(*last_old) > GAP_MAX)
    }

    /// Returns whether ages can be trusted: the times show no jump.
    pub(super) fn allow_ages(self) -> bool {
        self.jump().is_none()
    }

    /// Returns whether runs can be removed by age. Logs a jump of the clock.
    pub(super) fn allow_removal(self, store: &str) -> bool {
        let Some((last_old, next)) = self.jump() else { return self.last_old.is_some() };
        tracing::warn!(
            store,
            last_end = last_old.as_millis(),
            next_end = next.as_millis(),
            now = self.now.as_millis(),
            "no run was removed by age: the clock has jumped by more than a year since the last run ended, or no run ended for so long; \
             check the clock, and `delete` old runs by hand"
        );
        false
    }
}

/// Logs that old runs are not removed because their recorded ends are wrong. Logs again only if the
/// number is higher than before.
pub(super) fn log_wrong_ends(store: &str, count: u64) {
    static LOGGED: AtomicU64 = AtomicU64::new(0);
    if count > LOGGED.fetch_max(count, Relaxed) {
        tracing::warn!(
            store,
            runs = count,
            "ended runs were not removed because their recorded end is before their creation: the clock was wrong then; \
             find them with `list`, and `delete` them by hand"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn is_allowed(last_old: Timestamp, first_young: Option<Timestamp>, now: Timestamp) -> bool {
        Neighbours { now, last_old: Some(last_old), first_young }.allow_removal("test")
    }

    #[test]
    fn c11_jump_of_the_clock_stops_removal_by_age() {
        let today = EARLIEST.after(DAY * 1_000);
        let (then, later) = (today.after(DAY * 40), today.after(DAY * 27_000));
        assert!(is_allowed(today, None, then), "an idle store");
        assert!(is_allowed(today, Some(today.after(DAY)), then));
        assert!(!is_allowed(today, None, later), "nothing ended since the jump");
        assert!(!is_allowed(today, Some(later), later.after(DAY)), "runs ended after the jump");
        assert!(is_allowed(today, Some(later), then), "one end in the future is no jump");
        let none_old = Neighbours { now: later, last_old: None, first_young: None };
        assert!(!none_old.allow_removal("test"));
        assert!(none_old.allow_ages(), "no recorded time shows a jump");
        assert!(!Neighbours { last_old: Some(today), ..none_old }.allow_ages());
    }
}
