//! `Watcher`: tells the engine which lanes to check again, because the state of their visit has
//! changed.

use std::sync::{Arc, Mutex, PoisonError};

/// The lanes whose visit has changed.
#[derive(Default)]
pub(crate) struct ChangedLanes(Mutex<Vec<usize>>);

/// Adds a lane to the list when its visit changes.
pub(crate) struct Watcher {
    pub(crate) changed: Arc<ChangedLanes>,
    pub(crate) lane: usize,
}

impl Watcher {
    /// Adds the lane to the list. The watcher is used up.
    pub(crate) fn notify(self) {
        self.changed.0.lock().unwrap_or_else(PoisonError::into_inner).push(self.lane);
    }
}

impl ChangedLanes {
    /// Takes the lanes added since the last call.
    pub(crate) fn take(&self) -> Vec<usize> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
