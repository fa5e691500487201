//! Watches between members: who is notified of a node's exit, and whose exits a node is notified
//! of.
//!
//! Each side references the other weakly, and entries of ended members are removed. Both sides have
//! their own lock; they are taken one after the other, never together.

use crate::base::sorted::SortedMap;
use crate::base::sync::{Arc, Weak};
use crate::events::signal::Signal;
use crate::ids::path::ActorId;
use crate::tree::member::Member;
use crate::tree::node::Node;
use alloc::vec::Vec;

/// The smallest number of entries at which ended members are searched for and removed.
const PRUNE_MIN: usize = 16;

/// The members on the other side of a watch, each once, referenced weakly. Ended ones are removed
/// whenever the number of entries has doubled.
#[derive(Default)]
pub(super) struct WatchRegistry {
    by_id: SortedMap<ActorId, Weak<dyn Member>>,
    living: usize,
}

impl WatchRegistry {
    fn add(&mut self, id: ActorId, member: &Arc<dyn Member>) {
        if self.by_id.len() >= PRUNE_MIN.max(self.living * 2) {
            self.by_id.retain(|_, known| known.strong_count() > 0);
            self.living = self.by_id.len();
        }
        self.by_id.insert(id, Arc::downgrade(member));
    }

    fn remove(&mut self, id: ActorId) {
        self.by_id.remove(&id);
    }

    /// Returns the members that still exist, for the caller to drop outside of its lock.
    pub(super) fn living(&self) -> Vec<Arc<dyn Member>> {
        self.by_id.values().filter_map(Weak::upgrade).collect()
    }
}

/// Notifies `watcher` when `watched` ends, or immediately if it has ended.
pub(crate) fn watch(watched: &Arc<dyn Member>, watcher: &Arc<dyn Member>) {
    let (node, watcher_id) = (watched.node(), watcher.node().id());
    let ended = node.state.with(|state| match state.exit() {
        Some(exit) => Some(exit),
        None => {
            state.rare_details().watchers.get_or_insert_default().add(watcher_id, watcher);
            None
        }
    });
    match ended {
        Some(exit) => watcher.notify(Signal::Terminated(node.terminated(exit))),
        None => {
            let id = node.id();
            watcher.node().state.with(|state| state.rare_details().watching.get_or_insert_default().add(id, watched));
        }
    }
}

/// Removes a watch.
pub(crate) fn unwatch(watched: &Node, watcher: &Node) {
    let (watched_id, watcher_id) = (watched.id(), watcher.id());
    watched.state.with(|state| {
        if let Some(watchers) = state.existing_rare_mut().and_then(|rare| rare.watchers.as_mut()) {
            watchers.remove(watcher_id);
        }
    });
    watcher.state.with(|state| {
        if let Some(watching) = state.existing_rare_mut().and_then(|rare| rare.watching.as_mut()) {
            watching.remove(watched_id);
        }
    });
}

impl Node {
    /// Returns the members that watch this node.
    pub(crate) fn watchers(&self) -> Vec<Arc<dyn Member>> {
        self.state.with(|state| state.existing_rare()?.watchers.as_ref().map(|watchers| watchers.living())).unwrap_or_default()
    }

    /// Returns the live members that this node watches.
    pub(crate) fn watching(&self) -> Vec<Arc<dyn Member>> {
        let watching = self.state.with(|state| state.existing_rare()?.watching.as_ref().map(|watching| watching.living()));
        let mut watching = watching.unwrap_or_default();
        watching.retain(|member| member.node().exit().is_none());
        watching
    }
}
