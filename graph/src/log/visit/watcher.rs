//! `Watcher`: reports that the state of a visit has changed, so that the engine looks at its lane again.

use std::sync::{Arc, Mutex, PoisonError};

/// The numbers of lanes whose visit records changed.
#[derive(Default)]
pub(crate) struct ChangedLanes(Mutex<Vec<usize>>);

/// Lists a lane when its visit records change.
pub(crate) struct Watcher {
    pub(crate) changed: Arc<ChangedLanes>,
    pub(crate) lane: usize,
}

impl Watcher {
    /// The visit records have changed: nothing more is to be watched.
    pub(crate) fn tell(self) {
        self.changed.0.lock().unwrap_or_else(PoisonError::into_inner).push(self.lane);
    }
}

impl ChangedLanes {
    /// Takes the numbers that were listed since the last call.
    pub(crate) fn take(&self) -> Vec<usize> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
