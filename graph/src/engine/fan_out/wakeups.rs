//! [`Wakeups`]: the list of woken lanes.
//!
//! With few lanes all are polled. With many, each has a waker that adds it to the list.

use crate::util::waker::set_waker;
use crate::util::work_count;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// Up to this many lanes are all polled with the run: polling one that is not ready is cheaper than
/// a separate waker.
pub(in crate::engine) const POLLED_ALL_MAX: usize = 32;

/// The number of lanes that may be pending in one poll of the run before it yields.
///
/// Tokio's primitives return pending and wake at once when the task has used up its budget. Without
/// this limit, a run would then poll all its lanes again for every few that continue.
pub(in crate::engine) const WAITS_PER_POLL_MAX: u32 = 64;

/// The woken lanes and the task of the run, under one short lock. No waker is cloned, woken or
/// dropped under it.
#[derive(Default)]
pub(in crate::engine) struct Wakeups(Mutex<WokenLanes>);

#[derive(Default)]
struct WokenLanes {
    lanes: Vec<usize>,
    is_listed: Vec<bool>,
    task: Option<Arc<Waker>>,
}

impl Wakeups {
    /// Takes the woken lanes, each once, and registers `task` for the next wakeup.
    pub(in crate::engine) fn take(&self, task: &Waker) -> Vec<usize> {
        self.set_task(task);
        let mut woken = self.lock();
        let lanes = std::mem::take(&mut woken.lanes);
        // One by one, because there may be many more lanes than were woken.
        work_count::count(lanes.len() as u64);
        lanes.iter().for_each(|lane| woken.is_listed[*lane] = false);
        lanes
    }

    fn set_task(&self, task: &Waker) {
        set_waker(|| self.lock(), |state| &mut state.task, task);
    }

    fn lock(&self) -> MutexGuard<'_, WokenLanes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a lane to the list. Returns the task to wake, if the lane was not listed.
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
