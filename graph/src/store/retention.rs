//! Whether times can be trusted by which runs are removed that ended long ago.
//!
//! Ages are differences of the store's clock, and that clock may be wrong: a machine may start in 1970, or far in the future. Then a run that has just
//! ended seems to be old. What is recorded tells:
//!
//! 1. A time before [`EARLIEST`] was written by a wrong clock. Runs that ended then are left alone.
//! 2. A store that is in use records times all along. If nothing ended for [`GAP_MAX`] around the time before which runs are old, the clock has
//!    jumped meanwhile, and nothing is removed. That stays so, whatever ends after the jump.
//! 3. A run cannot end before it was made. If its times say so by more than [`EARLY_END_MAX`](super::time::EARLY_END_MAX), the clock was wrong at one of them: such a run is left
//!    alone, and its end says nothing about others. How many there are is logged, unless the clock has jumped: then they need not be old.
//! 4. An end in the future says nothing either: it counts as if nothing had ended since.

use super::Timestamp;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The start of 2024, before there was this library.
pub(super) const EARLIEST: Timestamp = Timestamp::from_millis(1_704_067_200_000);

/// For how long at most no run ends in a store whose clock is right.
const GAP_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The recorded times next to the time before which runs are old.
#[derive(Clone, Copy, Debug)]
pub(super) struct Neighbours {
    pub(super) now: Timestamp,
    /// The last end that is old, not before [`EARLIEST`].
    pub(super) last_old: Option<Timestamp>,
    /// The first end that is not old.
    pub(super) first_young: Option<Timestamp>,
}

impl Neighbours {
    /// Whether the clock seems to have jumped since the last end that is old: that end, and the next time after it.
    fn jump(self) -> Option<(Timestamp, Timestamp)> {
        let next = self.first_young.unwrap_or(self.now).min(self.now);
        self.last_old.map(|last_old| (last_old, next)).filter(|(last_old, next)| next.since(*last_old) > GAP_MAX)
    }

    /// Whether ages can be trusted, as far as is known.
    pub(super) fn allow_ages(self) -> bool {
        self.jump().is_none()
    }

    /// Whether there are runs that can be removed by age. A jump of the clock is logged.
    pub(super) fn allow_removal(self, store: &str) -> bool {
        let Some((last_old, next)) = self.jump() else { return self.last_old.is_some() };
        tracing::warn!(
            store,
            last_end = last_old.as_millis(),
            next_end = next.as_millis(),
            now = self.now.as_millis(),
            "the clock has jumped by more than a year since the last run ended, or nothing ended for so long; no run is removed by its age; \
             check the clock, and `delete` old runs by hand"
        );
        false
    }
}

/// Logs that old runs stay because their recorded ends cannot be true. It is said again only if there are more than ever before.
pub(super) fn tell_untrue_ends(store: &str, kept: u64) {
    static TOLD: AtomicU64 = AtomicU64::new(0);
    if kept > TOLD.fetch_max(kept, Relaxed) {
        tracing::warn!(
            store,
            kept,
            "ended runs are kept whose recorded end lies before their creation: the clock was wrong then; look at them with `list`, and \
             `delete` them by hand"
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
        assert!(is_allowed(today, Some(later), then), "one run that ends in the future is no jump");
        let none_old = Neighbours { now: later, last_old: None, first_young: None };
        assert!(!none_old.allow_removal("test"));
        assert!(none_old.allow_ages(), "nothing tells of a jump");
        assert!(!Neighbours { last_old: Some(today), ..none_old }.allow_ages());
    }
}
