//! [`Observed`]: what observers of a tree have seen before, so that they can say since when.
//!
//! An actor does not note when a handler begins: that would cost every message. An observer that
//! finds an actor in a handler notes the message and the time here. If the next observer finds the
//! same message, it knows that the handler has run at least since then.
//!
//! Nothing is noted without an observer, and the memory is bounded: entries live in two
//! generations of at most [`GENERATION_LEN_MAX`]. A full young generation replaces the old one, so
//! entries that are seen again and again stay, and others vanish.

use crate::base::lock::Lock;
use crate::base::sorted::SortedMap;
use crate::base::sync::Weak;
use crate::base::time::Instant;
use crate::tree::facts::Progress;
use crate::tree::member::Member;
use crate::tree::walk::WalkPosition;
use alloc::boxed::Box;
use core::time::Duration;
use hashbrown::HashMap;

/// The number of entries in one generation.
const GENERATION_LEN_MAX: usize = 8_192;

/// From when on a condition of a member counts as a problem in [`Health`](crate::Health).
///
/// The durations are measured between two looks at the system: see
/// [`System::health`](crate::System::health).
///
/// ```
/// use pleach::inspect::HealthLimits;
/// use std::time::Duration;
///
/// let limits = HealthLimits::default().handler_stuck(Duration::from_secs(5));
/// assert_eq!(limits.mailbox_full, Duration::from_secs(10));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HealthLimits {
    /// How long a mailbox may be full. Default: 10 s.
    pub mailbox_full: Duration,
    /// How long a handler may work on one message. Default: 30 s.
    pub handler_stuck: Duration,
}

impl Default for HealthLimits {
    fn default() -> Self {
        Self { mailbox_full: Duration::from_secs(10), handler_stuck: Duration::from_secs(30) }
    }
}

impl HealthLimits {
    /// Sets how long a mailbox may be full.
    #[must_use]
    pub fn mailbox_full(mut self, limit: Duration) -> Self {
        self.mailbox_full = limit;
        self
    }

    /// Sets how long a handler may work on one message.
    #[must_use]
    pub fn handler_stuck(mut self, limit: Duration) -> Self {
        self.handler_stuck = limit;
        self
    }
}

/// What an observer saw of a member.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// It worked on this message.
    Handling(Progress),
    /// Its mailbox was full.
    Full,
}

/// A member and a condition of it.
type Key = (u64, bool);

/// What observers of one tree have seen. Allocated for the first observer.
pub(crate) struct Observed {
    generations: Lock<Option<Box<Generations>>>,
    /// The state of the health check. Its lock is held for a few instructions only.
    pub(crate) sweep: Lock<Option<Box<Sweep>>>,
}

#[derive(Default)]
struct Generations {
    young: HashMap<Key, (Seen, Instant)>,
    old: HashMap<Key, (Seen, Instant)>,
}

/// Where the health check continues, and the members that were not well when it last looked.
#[derive(Default)]
pub(crate) struct Sweep {
    pub(crate) position: Option<WalkPosition>,
    /// By the number of the member.
    pub(crate) suspects: SortedMap<u64, Weak<dyn Member>>,
}

impl Observed {
    pub(crate) fn new() -> Self {
        Self { generations: Lock::new(None), sweep: Lock::new(None) }
    }

    /// Returns since when the member with this number has been known to handle this message.
    pub(crate) fn handling_since(&self, number: u64, progress: Progress, now: Instant) -> Instant {
        let key = Progress { since: None, stuck_since: None, ..progress };
        self.since((number, false), Seen::Handling(key), now)
    }

    /// Returns since when every observer has found the mailbox of this member full.
    pub(crate) fn full_since(&self, number: u64, now: Instant) -> Instant {
        self.since((number, true), Seen::Full, now)
    }

    /// Notes that the mailbox of this member is not full.
    pub(crate) fn not_full(&self, number: u64) {
        self.generations.with(|generations| {
            if let Some(generations) = generations {
                generations.young.remove(&(number, true));
                generations.old.remove(&(number, true));
            }
        });
    }

    fn since(&self, key: Key, seen: Seen, now: Instant) -> Instant {
        self.generations.with(|generations| generations.get_or_insert_default().note(key, seen, now))
    }
}

impl Generations {
    fn note(&mut self, key: Key, seen: Seen, now: Instant) -> Instant {
        if let Some(known) = self.young.get_mut(&key) {
            if known.0 != seen {
                *known = (seen, now);
            }
            return known.1;
        }
        let since = self.old.remove(&key).filter(|known| known.0 == seen).map_or(now, |known| known.1);
        if self.young.len() >= GENERATION_LEN_MAX {
            self.old = core::mem::take(&mut self.young);
        }
        self.young.insert(key, (seen, since));
        since
    }
}

#[cfg(all(test, feature = "std", not(loom)))]
mod tests {
    use super::*;

    fn progress(taken: usize) -> Progress {
        Progress { taken, handled: taken as u64 - 1, incarnation: 0, since: None, stuck_since: None }
    }

    fn at(seconds: u64) -> Instant {
        Instant::after_start(Duration::from_secs(seconds))
    }

    #[test]
    fn o1_same_message_counts_from_its_first_observation() {
        let observed = Observed::new();
        assert_eq!(observed.handling_since(1, progress(1), at(1)), at(1));
        assert_eq!(observed.handling_since(1, progress(1), at(5)), at(1));
        assert_eq!(observed.handling_since(1, progress(2), at(6)), at(6), "another message");
        assert_eq!(observed.handling_since(2, progress(1), at(7)), at(7), "another actor");
    }

    #[test]
    fn o2_full_mailbox_counts_from_its_first_observation() {
        let observed = Observed::new();
        assert_eq!(observed.full_since(1, at(1)), at(1));
        assert_eq!(observed.full_since(1, at(5)), at(1));
        observed.not_full(1);
        assert_eq!(observed.full_since(1, at(6)), at(6));
    }

    #[test]
    fn o1_observations_are_bounded_and_repeated_ones_stay() {
        let observed = Observed::new();
        for round in 0..10 {
            assert_eq!(observed.handling_since(0, progress(1), at(round)), at(0));
            for number in 0..GENERATION_LEN_MAX as u64 - 1 {
                observed.handling_since(1 + number + round * 1_000_000, progress(1), at(round));
            }
        }
        let len = observed.generations.with(|generations| {
            let generations = generations.get_or_insert_default();
            generations.young.len() + generations.old.len()
        });
        assert!(len <= 2 * GENERATION_LEN_MAX, "{len}");
    }
}
