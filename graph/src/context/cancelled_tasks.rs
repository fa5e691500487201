//! Counts the tasks of a run that were cancelled and have not ended yet.
//!
//! Only the number is stored, because a wide fan-out can have very many tasks.
//!
//! Invariant: wakers are cloned, dropped and called while the lock is not held.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// The number of cancelled tasks of one run that still exist.
#[derive(Default)]
pub(crate) struct CancelledTasks(Mutex<Remaining>);

#[derive(Default)]
struct Remaining {
    count: usize,
    /// Woken when the last cancelled task has ended.
    waker: Option<Waker>,
}

/// A cancelled task. It counts until this value is dropped.
pub(crate) struct CancelledTask(Arc<CancelledTasks>);

impl CancelledTasks {
    /// Counts one more task until the returned value is dropped.
    pub(super) fn add(self: &Arc<Self>) -> CancelledTask {
        self.lock().count += 1;
        CancelledTask(Arc::clone(self))
    }

    /// Returns true if no cancelled task remains. If not, stores `waker`, replacing the previous
    /// one, and wakes it when the last task ends.
    pub(super) fn is_empty(&self, waker: Option<&Waker>) -> bool {
        // Clone and drop wakers while the lock is not held.
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
