//! Counts the tasks of a run that were cancelled and have not ended yet.
//!
//! Only their number is kept: a wide fan-out can have very many.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// The cancelled tasks of one run that still exist.
#[derive(Default)]
pub(crate) struct CancelledTasks(Mutex<Remaining>);

#[derive(Default)]
struct Remaining {
    count: usize,
    /// Woken when the last task has ended.
    waker: Option<Waker>,
}

/// One cancelled task. It has ended when this is dropped.
pub(crate) struct CancelledTask(Arc<CancelledTasks>);

impl CancelledTasks {
    /// Adds one task.
    pub(super) fn add(self: &Arc<Self>) -> CancelledTask {
        self.lock().count += 1;
        CancelledTask(Arc::clone(self))
    }

    /// Returns true if none remains. If not, the waker is woken when the last one ends, in place of the earlier waker.
    pub(super) fn is_empty(&self, waker: Option<&Waker>) -> bool {
        // Wakers are cloned and dropped while the lock is not held.
        let mut waker = if self.lock().count > 0 { waker.cloned() } else { return true };
        let mut tasks = self.lock();
        if tasks.count > 0 && waker.is_some() {
            std::mem::swap(&mut tasks.waker, &mut waker);
        }
        tasks.count == 0
    }

    fn lock(&self) -> MutexGuard<'_, Remaining> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CancelledTask {
    fn drop(&mut self) {
        let waker = {
            let mut tasks = self.0.lock();
            tasks.count -= 1;
            if tasks.count == 0 { tasks.waker.take() } else { None }
        };
        waker.into_iter().for_each(Waker::wake);
    }
}
