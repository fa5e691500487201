//! `WatchRegistry`: who hears of a node's end. A watcher that has ended itself leaves nothing behind for long.

use super::Member;
use crate::ActorId;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;

/// So many are kept before anybody looks whether they still live.
const UNLOOKED_MAX: usize = 16;

/// Those who asked to be told, each once. A watcher is not kept alive by what it watches, and those that are gone are cleared out
/// whenever there are twice as many as the last time.
#[derive(Default)]
pub(super) struct WatchRegistry {
    by_id: BTreeMap<ActorId, Weak<dyn Member>>,
    living: usize,
}

impl WatchRegistry {
    pub(super) fn add(&mut self, watcher: &Arc<dyn Member>) {
        if self.by_id.len() >= UNLOOKED_MAX.max(self.living * 2) {
            self.by_id.retain(|_, known| known.strong_count() > 0);
            self.living = self.by_id.len();
        }
        self.by_id.insert(watcher.node().id(), Arc::downgrade(watcher));
    }

    pub(super) fn remove(&mut self, watcher: ActorId) {
        self.by_id.remove(&watcher);
    }

    /// Those that are there, for the caller to drop outside its lock.
    pub(super) fn living(&self) -> Vec<Arc<dyn Member>> {
        self.by_id.values().filter_map(Weak::upgrade).collect()
    }
}
