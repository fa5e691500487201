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

/// One supervisor that gave up, and which life of its child exceeded the limit.
#[derive(Clone)]
pub(crate) struct GiveUp {
    pub(crate) at: Instant,
    pub(crate) gave_up: GaveUp,
    /// The number of the child in its tree.
    pub(crate) child: u64,
    pub(crate) incarnation: u32,
}

#[derive(Default)]
struct Kept {
    newest: VecDeque<GiveUp>,
    dropped: u64,
}

impl GiveUps {
    pub(crate) fn new() -> Self {
        Self { state: Lock::new(Kept::default()) }
    }

    /// Keeps one more, and drops the oldest if there are too many.
    pub(crate) fn record(&self, give_up: GiveUp) {
        let oldest = self.state.with(|kept| {
            let oldest = if kept.newest.len() >= GIVE_UPS_KEPT_MAX { kept.newest.pop_front() } else { None };
            kept.dropped += u64::from(oldest.is_some());
            kept.newest.push_back(give_up);
            oldest
        });
        drop(oldest);
    }

    /// Returns the kept ones, oldest first, and how many older ones were dropped.
    pub(crate) fn list(&self) -> (Vec<GiveUp>, u64) {
        self.state.with(|kept| (kept.newest.iter().cloned().collect(), kept.dropped))
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        let forgotten = self.state.with(core::mem::take);
        drop(forgotten);
    }

    /// Forgets each one for which `is_over` is true. It is called without the lock.
    pub(crate) fn forget(&self, is_over: impl Fn(&GiveUp) -> bool) {
        let (listed, _) = self.list();
        let over: Vec<_> = listed.into_iter().filter(is_over).collect();
        if over.is_empty() {
            return;
        }
        let before = self.state.with(|kept| {
            let before = core::mem::take(&mut kept.newest);
            let is_same = |one: &GiveUp, other: &GiveUp| (one.child, one.incarnation) == (other.child, other.incarnation);
            kept.newest = before.iter().filter(|one| !over.iter().any(|other| is_same(one, other))).cloned().collect();
            before
        });
        drop(before);
    }
}
