//! [`GiveUps`]: the supervisors that gave up, kept for the health of the system.
//!
//! The newest ones are kept, up to [`GIVE_UPS_KEPT_MAX`]; of older ones only the number is known.

use crate::base::lock::Lock;
use crate::base::time::Instant;
use crate::events::event::GaveUp;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// How many supervisors that gave up are kept for the health of a system.
pub const GIVE_UPS_KEPT_MAX: usize = 64;

/// The supervisors of one system that gave up.
pub(crate) struct GiveUps {
    state: Lock<Kept>,
}

#[derive(Default)]
struct Kept {
    newest: VecDeque<(Instant, GaveUp)>,
    dropped: u64,
}

impl GiveUps {
    pub(crate) fn new() -> Self {
        Self { state: Lock::new(Kept::default()) }
    }

    /// Keeps one more, and drops the oldest if there are too many.
    pub(crate) fn record(&self, at: Instant, gave_up: GaveUp) {
        let oldest = self.state.with(|kept| {
            let oldest = if kept.newest.len() >= GIVE_UPS_KEPT_MAX { kept.newest.pop_front() } else { None };
            kept.dropped += u64::from(oldest.is_some());
            kept.newest.push_back((at, gave_up));
            oldest
        });
        drop(oldest);
    }

    /// Returns the kept ones, oldest first, and how many older ones were dropped.
    pub(crate) fn list(&self) -> (Vec<(Instant, GaveUp)>, u64) {
        self.state.with(|kept| (kept.newest.iter().cloned().collect(), kept.dropped))
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        let forgotten = self.state.with(core::mem::take);
        drop(forgotten);
    }

    /// Forgets those for which `is_over` is true. It is called without the lock.
    pub(crate) fn forget(&self, is_over: impl Fn(&GaveUp) -> bool) {
        let (listed, _) = self.list();
        let over: Vec<_> = listed.into_iter().filter(|(_, gave_up)| is_over(gave_up)).collect();
        if over.is_empty() {
            return;
        }
        let before = self.state.with(|kept| {
            let before = core::mem::take(&mut kept.newest);
            let is_over =
                |one: &(Instant, GaveUp)| over.iter().any(|(at, gave_up)| *at == one.0 && gave_up.child == one.1.child);
            kept.newest = before.iter().filter(|one| !is_over(one)).cloned().collect();
            before
        });
        drop(before);
    }
}
