//! Waits of a member for an end or for a group, and where a task or a group keeps its edges.

use crate::base::lock::Lock;
use crate::ids::path::ActorId;
use crate::tree::current;
use crate::tree::member::Member;
use crate::tree::waits::{Edge, Wait, WaitCycle};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;

/// What a member awaits of a target, other than an answer and room.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Awaited {
    /// Its exit.
    Exit,
    /// The end of all its children.
    Children,
    /// The end of all tasks of a group.
    Tasks,
    /// A result of a group.
    Result,
    /// A slot of a group.
    Slot,
}

/// The edge of a wait for an end or for a group, kept by the member in whose poll it began. Dropping this ends it.
pub(crate) struct EndEdge {
    waiter: Arc<dyn Member>,
    edge: Edge,
}

impl EndEdge {
    /// Whoever is being polled awaits this of `target`. Sends with which that closes a cycle are admitted.
    #[cold]
    pub(crate) fn begin(target: Arc<dyn Member>, awaited: Awaited) -> Option<Box<Self>> {
        let waiter = current::member()?;
        let edge = Edge { target, wait: Wait::End(awaited) };
        waiter.begin_wait(edge.clone());
        // Most wait for somebody who waits for nobody. Whoever begins to wait later looks for a cycle itself.
        let target = &edge.target;
        if target.node().has_children() || !target.edges().is_empty() || !target.waits_for().is_empty() {
            WaitCycle::admit_all(&waiter, &edge);
        }
        Some(Box::new(Self { waiter, edge }))
    }
}

impl Drop for EndEdge {
    fn drop(&mut self) {
        self.waiter.end_wait(&self.edge);
    }
}

/// The edges of a member in whose polls many futures may wait independently of each other, most of them for few targets.
pub(crate) struct KeptEdges(Lock<BTreeMap<Key, (Edge, usize)>>);

/// Sorted by target; for one target by kind, sends first, in their order. Targets are sorted by their ids, so that a simulated run finds them in the
/// same order again. Asks of one target lie in no such order, and need none: the first that is open stands for all of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    target: ActorId,
    kind: u8,
    number: u64,
}

impl Key {
    fn of(edge: &Edge) -> Self {
        let (kind, number) = match &edge.wait {
            Wait::Room(key) => (0, *key),
            Wait::Answer(slot) => (1, Arc::as_ptr(slot).addr() as u64),
            Wait::End(awaited) => (2, *awaited as u64),
        };
        Self { target: edge.target.node().id(), kind, number }
    }

    /// Behind all edges to the same target.
    fn last_of_target(self) -> Self {
        Self { kind: u8::MAX, ..self }
    }
}

impl KeptEdges {
    pub(crate) fn new() -> Self {
        Self(Lock::new(BTreeMap::new()))
    }

    pub(crate) fn begin(&self, edge: Edge) {
        let key = Key::of(&edge);
        self.0.with(|edges| edges.entry(key).or_insert((edge, 0)).1 += 1);
    }

    /// Takes out one of the edges like this, if it is still there.
    pub(crate) fn end(&self, edge: &Edge) {
        let key = Key::of(edge);
        let ended = self.0.with(|edges| {
            let (_, count) = edges.get_mut(&key)?;
            *count -= 1;
            if *count == 0 { edges.remove(&key) } else { None }
        });
        // A member is not dropped under a lock.
        drop(ended);
    }

    /// For each target the first edge that holds the member up. Sends that were admitted are forgotten on the way, so that whoever admits
    /// many of them one by one does not pass all of them each time.
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

    fn next(&self, behind: Option<Key>) -> Option<(Key, Edge)> {
        let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
        self.0.with(|edges| edges.range((from, Bound::Unbounded)).next().map(|(key, (edge, _))| (*key, edge.clone())))
    }
}
