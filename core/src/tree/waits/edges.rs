//! Waits for an end or a group, and the edges that a task or a group stores.

use crate::base::lock::Lock;
use crate::base::sorted::SortedMap;
use crate::base::sync::Arc;
use crate::ids::path::ActorId;
use crate::tree::current;
use crate::tree::member::Member;
use crate::tree::waits::{Edge, Wait, WaitCycle};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Bound;

/// What a member awaits of a target, besides an answer or room.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Awaited {
    /// The exit of the target.
    Exit,
    /// The end of all children of the target.
    Children,
    /// The end of all tasks of a group.
    Tasks,
    /// The next result of a group.
    Result,
    /// A free slot of a group with a limit.
    Slot,
}

/// The edge of a wait for an end or a group, stored by the member in whose poll it started.
/// Dropping it removes the edge.
pub(crate) struct EndEdge {
    waiter: Arc<dyn Member>,
    edge: Edge,
}

impl EndEdge {
    /// Adds an edge from the current member to `target`. Sends of a cycle that this closes are
    /// accepted. Returns `None` outside of a member.
    #[cold]
    pub(crate) fn begin(target: Arc<dyn Member>, awaited: Awaited) -> Option<Box<Self>> {
        let waiter = current::member()?;
        let edge = Edge { target, wait: Wait::End(awaited) };
        waiter.begin_wait(edge.clone());
        // Most targets wait for nothing, and need no search. A member that starts to wait later
        // searches itself.
        let target = &edge.target;
        if target.node().has_children() || !target.edges().is_empty() || !target.waits_for().is_empty() {
            WaitCycle::admit_sends(&waiter, &edge);
        }
        Some(Box::new(Self { waiter, edge }))
    }
}

impl Drop for EndEdge {
    fn drop(&mut self) {
        self.waiter.end_wait(&self.edge);
    }
}

/// The edges of a member in whose polls many futures may wait independently, most of them for few
/// targets. Equal edges are counted.
pub(crate) struct WaitEdges(Lock<SortedMap<EdgeKey, (Edge, usize)>>);

/// Sorts edges by target, then by kind with sends first, then by age. Targets are sorted by id, so
/// that a simulated run finds them in the same order again. Asks to one target have no order and
/// need none: the first open one represents all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct EdgeKey {
    target: ActorId,
    kind: u8,
    number: u64,
}

impl EdgeKey {
    fn of(edge: &Edge) -> Self {
        let (kind, number) = match &edge.wait {
            Wait::Room(key) => (0, *key),
            Wait::Answer(ask) => (1, Arc::as_ptr(ask).addr() as u64),
            Wait::End(awaited) => (2, *awaited as u64),
        };
        Self { target: edge.target.node().id(), kind, number }
    }

    /// Returns a key after all edges to the same target.
    fn last_of_target(self) -> Self {
        Self { kind: u8::MAX, ..self }
    }
}

impl WaitEdges {
    pub(crate) fn new() -> Self {
        Self(Lock::new(SortedMap::new()))
    }

    pub(crate) fn begin(&self, edge: Edge) {
        let key = EdgeKey::of(&edge);
        self.0.with(|edges| edges.entry(key).or_insert((edge, 0)).1 += 1);
    }

    /// Removes one edge equal to this one, if it still exists.
    pub(crate) fn end(&self, edge: &Edge) {
        let key = EdgeKey::of(edge);
        let ended = self.0.with(|edges| {
            let (_, count) = edges.get_mut(&key)?;
            *count -= 1;
            if *count == 0 { edges.remove(&key) } else { None }
        });
        // A member must not be dropped under the lock.
        drop(ended);
    }

    /// Returns the first open edge for each target. Removes accepted sends on the way, so that
    /// accepting many of them one by one does not pass all of them each time.
    pub(crate) fn open(&self) -> Vec<Edge> {
        let (mut open, mut behind) = (Vec::new(), None);
        while let Some((key, edge)) = self.next(behind) {
            if edge.is_open() {
                behind = Some(key.last_of_target());
                open.push(edge);
            } else {
                behind = Some(key);
                if matches!(edge.wait, Wait::Room(_)) {
                    self.end(&edge);
                }
            }
        }
        open
    }

    /// Returns the first edges, at most `max`, and how many there are.
    pub(crate) fn first(&self, max: usize) -> (Vec<Edge>, usize) {
        self.0.with(|edges| (edges.values().take(max).map(|(edge, _)| edge.clone()).collect(), edges.len()))
    }

    fn next(&self, behind: Option<EdgeKey>) -> Option<(EdgeKey, Edge)> {
        let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
        self.0.with(|edges| edges.range((from, Bound::Unbounded)).next().map(|(key, (edge, _))| (*key, edge.clone())))
    }
}
