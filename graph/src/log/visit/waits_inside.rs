//! `WaitsInside`: the open waits of the lanes of a subgraph.
//!
//! The inner engine updates a lane when it has checked it. The outer graph reads the list only for
//! a query. So the cost of a wait does not depend on the number of waits or on the depth of the
//! subgraph.

use crate::log::visit::OpenWait;
use crate::util::work_count;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The open waits of one subgraph, by lane.
#[derive(Default)]
pub(crate) struct WaitsInside(Mutex<WaitsByLane>);

#[derive(Default)]
struct WaitsByLane {
    by_lane: BTreeMap<usize, LaneWaits>,
    /// The number of changes of the list.
    changes: u64,
}

/// The waits of one lane.
pub(crate) enum LaneWaits {
    /// The waits of the node itself.
    Own(Vec<OpenWait>),
    /// The waits of a nested subgraph, and the number of changes of its list when the lane was
    /// checked.
    Inside(Arc<WaitsInside>, u64),
}

impl LaneWaits {
    pub(crate) fn list(self, show: &mut impl FnMut(&OpenWait)) {
        match self {
            Self::Own(waits) => waits.iter().for_each(show),
            Self::Inside(inside, _) => inside.list(show),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Own(one), Self::Own(other)) => one == other,
            (Self::Inside(one, changes), Self::Inside(other, known)) => Arc::ptr_eq(one, other) && changes == known,
            _ => false,
        }
    }
}

impl WaitsInside {
    fn lock(&self) -> MutexGuard<'_, WaitsByLane> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the waits of a lane; `None` if the lane is gone.
    pub(crate) fn set(&self, lane: usize, waits: Option<LaneWaits>) {
        work_count::count(1);
        let mut lanes = self.lock();
        let is_same = match (lanes.by_lane.get(&lane), &waits) {
            (Some(known), Some(waits)) => known.is_same(waits),
            (known, waits) => known.is_none() && waits.is_none(),
        };
        if !is_same {
            lanes.changes += 1;
            match waits {
                Some(waits) => drop(lanes.by_lane.insert(lane, waits)),
                None => drop(lanes.by_lane.remove(&lane)),
            }
        }
    }

    /// Returns the number of changes of the list.
    pub(crate) fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// Calls `show` with all waits, including those of nested subgraphs.
    pub(crate) fn list(self: &Arc<Self>, show: &mut impl FnMut(&OpenWait)) {
        let mut to_list = vec![Arc::clone(self)];
        while let Some(inside) = to_list.pop() {
            for waits in inside.lock().by_lane.values() {
                work_count::count(1);
                match waits {
                    LaneWaits::Own(waits) => waits.iter().for_each(&mut *show),
                    LaneWaits::Inside(below, _) => to_list.push(Arc::clone(below)),
                }
            }
        }
    }
}
