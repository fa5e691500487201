//! [`ParkedLanes`]: which lanes only wait, and the earliest time at which one of them continues.
//!
//! Only lanes that may have changed are checked: lanes that the engine touched, and lanes whose
//! visit records changed. So a signal costs the same for any number of waiting branches.
//!
//! Invariants:
//! 1. Each lane is in `unchecked`, or it was parked at its last check and was not touched since.
//! 2. The visit records of a lane that is not in `unchecked` have a [`Watcher`], which lists the
//!    lane at the first change.

use crate::log::visit::watcher::{ChangedLanes, Watcher};
use crate::store::Timestamp;
use crate::util::work_count;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Until when parked lanes wait.
#[derive(Clone, Copy, Default)]
pub(super) struct WaitUntil {
    pub(super) due: Option<Timestamp>,
    /// A pause holds one of them. It continues after the resume.
    pub(super) is_paused: bool,
}

impl WaitUntil {
    /// Returns the earlier of two waits.
    pub(super) fn and(self, other: Self) -> Self {
        Self { due: self.due.into_iter().chain(other.due).min(), is_paused: self.is_paused || other.is_paused }
    }
}

#[derive(Default)]
pub(super) struct ParkedLanes {
    /// The lanes to check.
    unchecked: Vec<usize>,
    is_unchecked: Vec<bool>,
    /// The due times of the parked lanes, the earliest first.
    dues: BTreeSet<(Timestamp, usize)>,
    due_of: HashMap<usize, Timestamp>,
    /// The parked lanes that a pause holds.
    paused: HashSet<usize>,
    /// The lanes whose visit records changed.
    changed: Arc<ChangedLanes>,
    /// Whether the run was paused at the last check. During a pause more lanes count as parked.
    was_paused: bool,
}

impl ParkedLanes {
    /// Marks a lane for a check: it was added or may have moved.
    pub(super) fn touch(&mut self, lane: usize) {
        if self.is_unchecked.len() <= lane {
            self.is_unchecked.resize(lane + 1, false);
        }
        if !std::mem::replace(&mut self.is_unchecked[lane], true) {
            self.unchecked.push(lane);
            self.forget(lane);
        }
    }

    fn forget(&mut self, lane: usize) {
        self.paused.remove(&lane);
        if let Some(due) = self.due_of.remove(&lane) {
            self.dues.remove(&(due, lane));
        }
    }

    /// Collects the changed lanes before a check. After a pause or resume, all lanes are checked
    /// again.
    pub(super) fn refresh(&mut self, is_paused: bool, all: usize) {
        let changed = self.changed.take();
        changed.into_iter().for_each(|lane| self.touch(lane));
        if std::mem::replace(&mut self.was_paused, is_paused) != is_paused {
            (1..=all).for_each(|lane| self.touch(lane));
        }
    }

    /// Returns the next lane to check.
    pub(super) fn next_unchecked(&self) -> Option<usize> {
        work_count::count(1);
        self.unchecked.last().copied()
    }

    /// Records the result for the lane of `next_unchecked`: it is gone, or parked until then.
    pub(super) fn set_checked(&mut self, WaitUntil { due, is_paused }: WaitUntil) {
        let Some(lane) = self.unchecked.pop() else { return };
        self.is_unchecked[lane] = false;
        if let Some(due) = due {
            self.due_of.insert(lane, due);
            self.dues.insert((due, lane));
        }
        if is_paused {
            self.paused.insert(lane);
        }
    }

    /// Returns a watcher that reports changes of this lane's visit records.
    pub(super) fn watcher(&self, lane: usize) -> Watcher {
        Watcher { changed: Arc::clone(&self.changed), lane }
    }

    /// Returns until when the first parked lane waits.
    pub(super) fn until(&self) -> WaitUntil {
        WaitUntil { due: self.dues.first().map(|(due, _)| *due), is_paused: !self.paused.is_empty() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::visit::VisitRecords;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn c9_lane_whose_node_is_woken_is_looked_at_again() {
        let (records, mut parked, mut waker) = (Arc::new(VisitRecords::of_attempt(1)), ParkedLanes::default(), None);
        let polled = records.poll_node(1, 0, &mut Context::from_waker(Waker::noop()), |cx| {
            waker = Some(cx.waker().clone());
            Poll::<()>::Pending
        });
        assert!(polled.is_pending());
        records.set_watcher(parked.watcher(3));
        parked.refresh(false, 0);
        assert_eq!(parked.next_unchecked(), None);
        waker.unwrap().wake();
        parked.refresh(false, 0);
        assert_eq!(parked.next_unchecked(), Some(3));
    }
}
