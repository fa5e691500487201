//! Who is woken when many branches wait: with a few, all of them are polled; with many, each has a waker that puts it on a list.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// Up to this many lanes are all polled when the run is; polling one that is not ready is cheaper than a waker for each.
pub(super) const POLLED_ALL_MAX: usize = 32;

/// The lanes that were woken, and the task of the run.
#[derive(Default)]
pub(super) struct Wakeups(Mutex<Woken>);

#[derive(Default)]
struct Woken {
    lanes: Vec<usize>,
    task: Option<Waker>,
}

impl Wakeups {
    /// The lanes that were woken since, each once. From now on `task` is woken with them.
    pub(super) fn take(&self, task: &Waker) -> Vec<usize> {
        let mut woken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut woken.task {
            Some(known) => known.clone_from(task),
            none => *none = Some(task.clone()),
        }
        std::mem::take(&mut woken.lanes)
    }
}

/// The waker of one lane.
pub(super) struct LaneWaker {
    lane: usize,
    is_listed: AtomicBool,
    wakeups: Arc<Wakeups>,
}

impl LaneWaker {
    pub(super) fn new(lane: usize, wakeups: &Arc<Wakeups>) -> Arc<Self> {
        Arc::new(Self { lane, is_listed: AtomicBool::new(false), wakeups: Arc::clone(wakeups) })
    }

    /// Before the lane is polled: what wakes it from here on counts.
    pub(super) fn arm(&self) {
        // A swap, since it must see all that was written before a wake that found the lane listed already.
        self.is_listed.swap(false, Ordering::AcqRel);
    }
}

impl Wake for LaneWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_listed.swap(true, Ordering::AcqRel) {
            return;
        }
        let task = {
            let mut woken = self.wakeups.0.lock().unwrap_or_else(PoisonError::into_inner);
            woken.lanes.push(self.lane);
            woken.task.clone()
        };
        task.into_iter().for_each(Waker::wake);
    }
}
