//! `Wakeups`: the list of woken lanes. With few lanes all are polled; with many each has a waker
//! that adds it to the list.

use crate::util::waker::set_waker;
use crate::util::work_count;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// Up to this many lanes are all polled when the run is; polling one that is not ready is cheaper than a waker for each.
pub(in crate::engine) const POLLED_ALL_MAX: usize = 32;

/// How many lanes may turn out to wait in one poll of the run, before others run.
///
/// Tokio's primitives wait when the task has used up its budget for one poll, and wake at once. A run that polled all its lanes then would
/// poll each of them again for every few that go on.
pub(in crate::engine) const WAITS_PER_POLL_MAX: u32 = 64;

/// The lanes that were woken, and the task of the run. All of it lies under one short lock, under which no waker is cloned, woken or dropped.
#[derive(Default)]
pub(in crate::engine) struct Wakeups(Mutex<WokenLanes>);

#[derive(Default)]
struct WokenLanes {
    lanes: Vec<usize>,
    is_listed: Vec<bool>,
    task: Option<Arc<Waker>>,
}

impl Wakeups {
    /// The lanes that were woken since, each once. From now on `task` is woken with them.
    pub(in crate::engine) fn take(&self, task: &Waker) -> Vec<usize> {
        self.set_task(task);
        let mut woken = self.lock();
        let lanes = std::mem::take(&mut woken.lanes);
        // One by one: there may be many more lanes than were woken.
        work_count::visit(lanes.len() as u64);
        lanes.iter().for_each(|lane| woken.is_listed[*lane] = false);
        lanes
    }

    fn set_task(&self, task: &Waker) {
        set_waker(|| self.lock(), |state| &mut state.task, task);
    }

    fn lock(&self) -> MutexGuard<'_, WokenLanes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a lane on the list. The task, if it was not there.
    fn list(&self, lane: usize) -> Option<Arc<Waker>> {
        let mut woken = self.lock();
        if woken.is_listed.len() <= lane {
            woken.is_listed.resize(lane + 1, false);
        }
        if std::mem::replace(&mut woken.is_listed[lane], true) {
            return None;
        }
        woken.lanes.push(lane);
        woken.task.clone()
    }
}

/// The waker of one lane.
pub(in crate::engine) struct LaneWaker {
    lane: usize,
    wakeups: Arc<Wakeups>,
}

impl LaneWaker {
    pub(in crate::engine) fn waker(lane: usize, wakeups: &Arc<Wakeups>) -> Waker {
        Arc::new(Self { lane, wakeups: Arc::clone(wakeups) }).into()
    }
}

impl Wake for LaneWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let task = self.wakeups.list(self.lane);
        task.iter().for_each(|task| task.wake_by_ref());
    }
}
