//! [`LimitReached`]: what a sealed system refused, because nothing was reserved for it.
//!
//! Refusals are counted per member and limit, in a list that was allocated when the system was
//! sealed.

use crate::base::lock::Lock;
use crate::base::sync::{CoreAtomicUsize, Ordering};
use crate::base::time::Instant;
use crate::ids::path::ActorPath;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

/// How many kinds of refusals a system keeps, for [`System::refusals`](crate::System::refusals).
pub const REFUSALS_KEPT_MAX: usize = 16;

/// What a sealed system has only a reserved number of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// Members: actors, scopes, tasks and groups below one parent.
    Members,
    /// Timers that one actor has set.
    Timers,
    /// Asks of one answer type that one actor has not answered.
    Asks,
    /// Sends that wait for room in one mailbox.
    WaitingSends,
}

/// A member of a sealed system needs more than was reserved for it.
///
/// See [`System::seal`](crate::System::seal).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitReached {
    /// The member that has no more room.
    pub member: ActorPath,
    /// What it has no more room for.
    pub limit: Limit,
    /// How many of them were reserved.
    pub reserved: usize,
}

impl fmt::Display for LimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { member, limit, reserved } = self;
        write!(f, "the system is sealed, and {member} ")?;
        match limit {
            Limit::Members => write!(f, "starts no further member: start all members before `seal`"),
            Limit::Timers => write!(f, "has {reserved} timers: reserve more with `Props::reserve_timers`"),
            Limit::Asks => write!(f, "answers {reserved} asks of this type at a time: reserve more with `Props::reserve_asks`"),
            Limit::WaitingSends => write!(f, "has a full mailbox, and no send can wait for room: make it larger"),
        }
    }
}

impl core::error::Error for LimitReached {}

/// How often a sealed system refused the same thing; from
/// [`System::refusals`](crate::System::refusals).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// The limit that was reached, and the member that it belongs to.
    pub limit: LimitReached,
    /// How often it was refused since the seal.
    pub times: u64,
    /// When it was refused the last time.
    pub last: Instant,
}

/// Whether a system is sealed, and what it has refused since.
pub(crate) struct Seal {
    /// 0 or 1.
    is_sealed: CoreAtomicUsize,
    /// Allocated by `set`.
    refused: Lock<Option<Box<RefusedList>>>,
}

struct RefusedList {
    kept: Vec<Refused>,
    /// How many refusals did not fit.
    left_out: u64,
}

impl Seal {
    pub(crate) fn new() -> Self {
        Self { is_sealed: CoreAtomicUsize::new(0), refused: Lock::new(None) }
    }

    #[inline]
    pub(crate) fn is_sealed(&self) -> bool {
        self.is_sealed.load(Ordering::Relaxed) != 0
    }

    /// Seals. From now on members are refused.
    pub(crate) fn set(&self) {
        let list = Box::new(RefusedList { kept: Vec::with_capacity(REFUSALS_KEPT_MAX), left_out: 0 });
        let unused = self.refused.with(|refused| if refused.is_none() { refused.replace(list) } else { Some(list) });
        drop(unused);
        self.is_sealed.store(1, Ordering::Relaxed);
    }

    /// Counts a refusal. Returns true if it is the first of its kind.
    pub(crate) fn note(&self, limit: &LimitReached, now: Instant) -> bool {
        self.refused.with(|refused| {
            let Some(refused) = refused else { return false };
            if let Some(known) = refused.kept.iter_mut().find(|known| known.limit == *limit) {
                (known.times, known.last) = (known.times.saturating_add(1), now);
                false
            } else if refused.kept.len() < refused.kept.capacity() {
                refused.kept.push(Refused { limit: limit.clone(), times: 1, last: now });
                true
            } else {
                refused.left_out = refused.left_out.saturating_add(1);
                false
            }
        })
    }

    /// Returns what was refused, and how many further refusals did not fit.
    pub(crate) fn refused(&self) -> (Vec<Refused>, u64) {
        self.refused
            .with(|refused| refused.as_ref().map_or((Vec::new(), 0), |refused| (refused.kept.clone(), refused.left_out)))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn d3_refusals_are_counted_and_bounded() {
        let seal = Seal::new();
        let limit = |name: &str| LimitReached {
            member: alloc::format!("/user/{name}").parse().expect("a path"),
            limit: Limit::Timers,
            reserved: 2,
        };
        seal.set();
        for n in 0..=REFUSALS_KEPT_MAX {
            seal.note(&limit(&alloc::format!("a{n}")), Instant::ZERO);
        }
        seal.note(&limit("a0"), Instant::NEVER);
        let (kept, left_out) = seal.refused();
        assert_eq!((kept.len(), left_out), (REFUSALS_KEPT_MAX, 1));
        assert_eq!((kept[0].times, kept[0].last), (2, Instant::NEVER));
        assert!(alloc::format!("{}", kept[0].limit).contains("/user/a0 has 2 timers"));
    }
}
