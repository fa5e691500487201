//! Circles of waits: who waits for whom, and what happens when nobody in a circle could ever go on.
//!
//! A member waits for the next one in three ways: for an answer, for room in its mailbox, or for its end. The first two are edges that the
//! waiting member keeps while it waits in its own task; the third is what `Member::waits_for` says. Whoever adds an edge or begins to
//! wait for others looks for a circle afterwards, so of several that close one at once at least the last finds it.
//!
//! A circle is opened by a send: it is admitted beyond the capacity, and nothing is lost. Only where all wait for answers or ends an
//! ask fails, with the circle.

use crate::ask::AskError;
use crate::counted;
use crate::node::{Member, Node};
use crate::path::ActorPath;
use crate::{Event, EventKinds, Lint, current};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

/// A question that will get no answer from its `Reply`.
pub(crate) trait Unanswered: Send + Sync {
    fn answer(&self, why: AskError);

    /// Whether it has no answer yet.
    fn is_open(&self) -> bool;
}

/// What a member awaits in its own task, and from whom.
#[derive(Clone)]
pub(crate) struct Edge {
    pub(crate) target: Arc<dyn Member>,
    pub(crate) wait: Wait,
}

#[derive(Clone)]
pub(crate) enum Wait {
    /// The answer to an ask, and its place.
    Answer(Arc<dyn Unanswered>),
    /// Room in the target's mailbox, for the waiting send with this key.
    Room(u64),
}

impl Edge {
    /// Whether it still holds the member up: an answer may be there, or a send admitted, before the member has looked.
    fn is_open(&self) -> bool {
        match &self.wait {
            Wait::Answer(slot) => slot.is_open(),
            Wait::Room(key) => self.target.has_waiting_send(*key),
        }
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        match (&self.wait, &other.wait) {
            (Wait::Answer(one), Wait::Answer(other)) => Arc::ptr_eq(one, other),
            (Wait::Room(one), Wait::Room(key)) => one == key && place(&self.target) == place(&other.target),
            _ => false,
        }
    }
}

/// Members of which each waits for the next, and the last for the first.
pub(crate) struct Circle {
    members: Vec<Arc<dyn Member>>,
    /// By what they wait, as far as they do not wait for an end.
    edges: Vec<Edge>,
}

impl Circle {
    /// The circle from `first` over `edge` back to `first`; `None` if the edges lead elsewhere. A member may await several things at once.
    pub(crate) fn over(first: &Arc<dyn Member>, edge: &Edge) -> Option<Self> {
        // Breadth first, each with the place of whoever waits for it, and by what.
        let mut known = BTreeSet::from([place(&edge.target)]);
        let mut reached = vec![(Arc::clone(first), 0, None), (Arc::clone(&edge.target), 0, Some(edge.clone()))];
        let mut at = 1;
        while let Some((member, ..)) = reached.get(at) {
            counted::visit(1);
            if place(member) == place(first) {
                return Some(Self::back_from(at, &reached));
            }
            // A member that waits for its children waits for this one: no need to look at all the others.
            if member.waits_for_children() && first.node().parent().is_some_and(|parent| place(parent) == place(member)) {
                reached.push((Arc::clone(first), at, None));
                return Some(Self::back_from(reached.len() - 1, &reached));
            }
            let edges = member.edges().into_iter().filter(Edge::is_open);
            let awaited = edges.map(|edge| (Arc::clone(&edge.target), Some(edge)));
            let ends = member.waits_for().into_iter().map(|member| (member, None));
            // The first itself is what is looked for; any other needs to be reached once.
            let new: Vec<_> = awaited.chain(ends).filter(|(next, _)| known.insert(place(next))).collect();
            reached.extend(new.into_iter().map(|(next, by)| (next, at, by)));
            at += 1;
        }
        None
    }

    fn back_from(end: usize, reached: &[(Arc<dyn Member>, usize, Option<Edge>)]) -> Self {
        let mut circle = Self { members: Vec::new(), edges: Vec::new() };
        let mut at = end;
        while at != 0 {
            let (_, from, by) = &reached[at];
            circle.members.push(Arc::clone(&reached[*from].0));
            circle.edges.extend(by.clone());
            at = *from;
        }
        circle.members.reverse();
        circle.edges.reverse();
        circle
    }

    pub(crate) fn paths(&self) -> Vec<ActorPath> {
        self.members.iter().map(|member| member.node().path()).collect()
    }

    /// Admits the first send of the circle, with or without room, and so opens it. False if nobody in it waits for room.
    pub(crate) fn admit_send(&self) -> bool {
        let room = |edge: &Edge| match edge.wait {
            Wait::Room(key) => Some((Arc::clone(&edge.target), key)),
            Wait::Answer(_) => None,
        };
        let Some((target, key)) = self.edges.iter().find_map(room) else { return false };
        if target.admit_send(key) {
            target.node().events().emit(EventKinds::LINTS, || Event::Lint(Lint::SendCycle(self.paths())));
        }
        true
    }
}

/// Each member of `next` has to go on before somebody else can: whoever among them, or among those they wait for, closes a circle
/// gets its send admitted, or else is told that its ask is a cycle.
pub(crate) fn open_circles_of(mut next: Vec<Arc<dyn Member>>) {
    let mut known = BTreeSet::new();
    while let Some(one) = next.pop() {
        counted::visit(1);
        if !known.insert(place(&one)) {
            continue;
        }
        for edge in one.edges() {
            while edge.is_open() {
                let Some(circle) = Circle::over(&one, &edge) else {
                    next.push(Arc::clone(&edge.target));
                    break;
                };
                if !circle.admit_send()
                    && let Wait::Answer(slot) = &edge.wait
                {
                    slot.answer(AskError::Cycle(circle.paths()));
                }
            }
        }
        next.extend(one.waits_for());
    }
}

/// The edge of a send that waits for room, kept by the member in whose poll it began to wait. Dropping this ends it.
pub(crate) struct RoomEdge {
    sender: Arc<dyn Member>,
    edge: Edge,
}

impl RoomEdge {
    /// A send waits in the mailbox of `target`, under `key`. If that closes a circle, it is admitted; its sender is woken for that.
    #[cold]
    pub(crate) fn begin(target: Arc<dyn Member>, key: u64) -> Option<Box<Self>> {
        let sender = current::member()?;
        let edge = Edge { target, wait: Wait::Room(key) };
        sender.begin_wait(edge.clone());
        let begun = Box::new(Self { sender, edge });
        begun.open_circles();
        Some(begun)
    }

    /// Of several sends of one sender to one mailbox, the oldest is admitted first.
    fn open_circles(&self) {
        // Whether there is a circle depends on the target alone. Most sends close none, and need no look at the sender's other edges.
        if Circle::over(&self.sender, &self.edge).is_none() {
            return;
        }
        let oldest = || {
            let mut edges = self.sender.edges().into_iter();
            edges.find(|known| {
                matches!(known.wait, Wait::Room(_)) && place(&known.target) == place(&self.edge.target) && known.is_open()
            })
        };
        while let Some(edge) = oldest() {
            match Circle::over(&self.sender, &edge) {
                Some(circle) => drop(circle.admit_send()),
                None => return,
            }
        }
    }
}

impl Drop for RoomEdge {
    fn drop(&mut self) {
        self.sender.end_wait(&self.edge);
    }
}

/// What tells members apart: an id is one member's within a system only, and an ask may go from one system to another.
fn place(member: &Arc<dyn Member>) -> *const Node {
    member.node()
}
