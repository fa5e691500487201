//! Who hears of a node's end, and whose end a node hears of. Each side keeps the other weakly; one that has ended leaves nothing behind for
//! long. The two sides have a lock each, taken one after the other and never together.

use crate::events::signal::Signal;
use crate::ids::path::ActorId;
use crate::tree::member::Member;
use crate::tree::node::Node;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;

/// So many are kept before anybody looks whether they still live.
const UNLOOKED_MAX: usize = 16;

/// Members on the other side of a watch, each once. They are not kept alive, and those that are gone are cleared out whenever there are
/// twice as many as the last time.
#[derive(Default)]
pub(super) struct WatchRegistry {
    by_id: BTreeMap<ActorId, Weak<dyn Member>>,
    living: usize,
}

impl WatchRegistry {
    fn add(&mut self, id: ActorId, member: &Arc<dyn Member>) {
        if self.by_id.len() >= UNLOOKED_MAX.max(self.living * 2) {
            self.by_id.retain(|_, known| known.strong_count() > 0);
            self.living = self.by_id.len();
        }
        self.by_id.insert(id, Arc::downgrade(member));
    }

    fn remove(&mut self, id: ActorId) {
        self.by_id.remove(&id);
    }

    /// Those that are there, for the caller to drop outside its lock.
    pub(super) fn living(&self) -> Vec<Arc<dyn Member>> {
        self.by_id.values().filter_map(Weak::upgrade).collect()
    }
}

/// Tells `watcher` when `watched` ends; at once if it has.
pub(crate) fn watch(watched: &Arc<dyn Member>, watcher: &Arc<dyn Member>) {
    let (node, watcher_id) = (watched.node(), watcher.node().id());
    let ended = node.life.with(|life| match life.exit() {
        Some(exit) => Some(exit),
        None => {
            life.rare().watchers.get_or_insert_default().add(watcher_id, watcher);
            None
        }
    });
    match ended {
        Some(exit) => watcher.notify(Signal::Terminated(node.terminated(exit))),
        None => {
            let id = node.id();
            watcher.node().life.with(|life| life.rare().watching.get_or_insert_default().add(id, watched));
        }
    }
}

/// Takes a watch back.
pub(crate) fn unwatch(watched: &Node, watcher: &Node) {
    let (watched_id, watcher_id) = (watched.id(), watcher.id());
    watched.life.with(|life| {
        if let Some(watchers) = life.known_rare_mut().and_then(|rare| rare.watchers.as_mut()) {
            watchers.remove(watcher_id);
        }
    });
    watcher.life.with(|life| {
        if let Some(watching) = life.known_rare_mut().and_then(|rare| rare.watching.as_mut()) {
            watching.remove(watched_id);
        }
    });
}

impl Node {
    /// Who hears of this node's end.
    pub(crate) fn watchers(&self) -> Vec<Arc<dyn Member>> {
        self.life.with(|life| life.known_rare()?.watchers.as_ref().map(|watchers| watchers.living())).unwrap_or_default()
    }

    /// Whose end this node is to hear of.
    pub(crate) fn watching(&self) -> Vec<Arc<dyn Member>> {
        let watching = self.life.with(|life| life.known_rare()?.watching.as_ref().map(|watching| watching.living()));
        let mut watching = watching.unwrap_or_default();
        watching.retain(|member| member.node().exit().is_none());
        watching
    }
}
