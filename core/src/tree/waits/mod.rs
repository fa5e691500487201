//! Circles of waits: who waits for whom, and what happens when nobody in a cycle could ever go on.
//!
//! A member waits for the next one in three ways: for an answer, for room in its mailbox, or for its end. The first two, and an end or a group
//! that user code awaits, are edges that the waiting member keeps while it waits in its own task; an end that the tree awaits is what
//! `Member::waits_for` says. Whoever adds an edge or begins to wait for others looks for a cycle afterwards, so of several that close one
//! at once at least the last finds it.
//!
//! A cycle is opened by a send: it is admitted beyond the capacity, and nothing is lost. Only where all wait for answers, or for ends that
//! the tree awaits, an ask fails, with the cycle. Code that awaits an end or a group may give that up, so no ask fails for it.

pub(crate) mod ask_error;
pub(crate) mod edges;
pub(crate) mod search;

pub(crate) use crate::tree::waits::edges::Awaited;

use crate::base::visits;
use crate::events::event::{Event, EventKinds, Lint};
use crate::ids::path::ActorPath;
use crate::tree::current;
use crate::tree::member::Member;
use crate::tree::node::Node;
use crate::tree::waits::ask_error::AskError;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
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
    /// An end that user code awaits, or something of a group.
    End(Awaited),
}

impl Edge {
    /// Whether it still holds the member up: an answer may be there, or a send admitted, before the member has looked.
    fn is_open(&self) -> bool {
        match &self.wait {
            Wait::Answer(slot) => slot.is_open(),
            Wait::Room(key) => self.target.has_waiting_send(*key),
            Wait::End(Awaited::Exit) => self.target.node().exit().is_none(),
            Wait::End(Awaited::Children) => self.target.node().has_children(),
            Wait::End(of_group) => self.target.holds_up(*of_group),
        }
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        match (&self.wait, &other.wait) {
            (Wait::Answer(one), Wait::Answer(other)) => Arc::ptr_eq(one, other),
            (Wait::Room(one), Wait::Room(key)) => one == key && place(&self.target) == place(&other.target),
            (Wait::End(one), Wait::End(awaited)) => one == awaited && place(&self.target) == place(&other.target),
            _ => false,
        }
    }
}

/// Members of which each waits for the next, and the last for the first.
pub(crate) struct WaitCycle {
    members: Vec<Arc<dyn Member>>,
    /// By what they wait, as far as it is not an end that the tree awaits.
    edges: Vec<Edge>,
}

impl WaitCycle {
    /// A cycle from `first` over `edge` back to `first`; `None` if the edges lead elsewhere. A member may await several things at once.
    pub(crate) fn over(first: &Arc<dyn Member>, edge: &Edge) -> Option<Self> {
        Self::over_if(first, edge, |_| true)
    }

    /// The same, if all in it wait for answers, or for ends that the tree awaits: nobody in it could ever go on.
    pub(crate) fn of_asks(first: &Arc<dyn Member>, edge: &Edge) -> Option<Self> {
        Self::over_if(first, edge, |cycle| cycle.edges.iter().all(|edge| matches!(edge.wait, Wait::Answer(_))))
    }

    fn over_if(first: &Arc<dyn Member>, edge: &Edge, is_sought: impl Fn(&Self) -> bool) -> Option<Self> {
        let mut found = None;
        search::cycles(first, edge, |cycle, _| {
            found = Some(cycle).filter(&is_sought);
            found.is_none()
        });
        found
    }

    /// Opens all cycles from `first` over `edge` in which somebody waits for room.
    pub(crate) fn admit_all(first: &Arc<dyn Member>, edge: &Edge) {
        // A search goes on after the send that closed its cycle was admitted: the way to it is the same. After any other, what it has
        // reached may no longer wait. Behind a send that was admitted there may be another one to the same target.
        let mut is_new = true;
        while core::mem::take(&mut is_new) && edge.is_open() {
            search::cycles(first, edge, |cycle, closing| {
                let admits = cycle.admit_send();
                is_new |= admits;
                !admits || closing.is_some_and(|edge| !edge.is_open())
            });
        }
    }

    pub(crate) fn paths(&self) -> Vec<ActorPath> {
        self.members.iter().map(|member| member.node().path()).collect()
    }

    /// Admits the first send of the cycle, with or without room, and so opens it. False if nobody in it waits for room.
    pub(crate) fn admit_send(&self) -> bool {
        let room = |edge: &Edge| match edge.wait {
            Wait::Room(key) => Some((Arc::clone(&edge.target), key)),
            Wait::Answer(_) | Wait::End(_) => None,
        };
        let Some((target, key)) = self.edges.iter().find_map(room) else { return false };
        if target.admit_send(key) {
            target.node().events().emit(EventKinds::LINTS, || Event::Lint(Lint::SendCycle(self.paths())));
        }
        true
    }
}

/// Each member of `next` has to go on before somebody else can: whoever among them, or among those they wait for, closes a cycle
/// gets its send admitted, or else is told that its ask is a cycle.
pub(crate) fn break_cycles_of(mut next: Vec<Arc<dyn Member>>) {
    let mut known = BTreeSet::new();
    while let Some(one) = next.pop() {
        visits::visit(1);
        if !known.insert(place(&one)) {
            continue;
        }
        break_cycles_over(&one, &mut next);
        next.extend(one.waits_for());
    }
}

/// Opens the cycles over all edges of `one`. Those it waits for after that are next.
fn break_cycles_over(one: &Arc<dyn Member>, next: &mut Vec<Arc<dyn Member>>) {
    let mut is_new = true;
    while core::mem::take(&mut is_new) {
        for edge in one.edges().into_iter().filter(Edge::is_open) {
            WaitCycle::admit_all(one, &edge);
            if let Wait::Answer(slot) = &edge.wait
                && edge.is_open()
                && let Some(cycle) = WaitCycle::of_asks(one, &edge)
            {
                slot.answer(AskError::Cycle(cycle.paths()));
            }
            if edge.is_open() {
                next.push(Arc::clone(&edge.target));
            } else {
                // Others may have waited behind it.
                is_new = true;
            }
        }
    }
}

/// The edge of a send that waits for room, kept by the member in whose poll it began to wait. Dropping this ends it.
pub(crate) struct RoomEdge {
    sender: Arc<dyn Member>,
    edge: Edge,
}

impl RoomEdge {
    /// A send waits in the mailbox of `target`, under `key`. If that closes a cycle, it is admitted; its sender is woken for that.
    #[cold]
    pub(crate) fn begin(target: Arc<dyn Member>, key: u64) -> Option<Box<Self>> {
        let sender = current::member()?;
        let edge = Edge { target, wait: Wait::Room(key) };
        sender.begin_wait(edge.clone());
        let begun = Box::new(Self { sender, edge });
        begun.break_cycles();
        begun.edge.is_open().then_some(begun)
    }

    /// Of several sends of one sender to one mailbox, the oldest is admitted first.
    fn break_cycles(&self) {
        // Whether there is a cycle depends on the target alone. Most sends close none, and need no look at the sender's other edges.
        if WaitCycle::over(&self.sender, &self.edge).is_none() {
            return;
        }
        let oldest = || {
            let mut edges = self.sender.edges().into_iter();
            edges.find(|known| {
                matches!(known.wait, Wait::Room(_)) && place(&known.target) == place(&self.edge.target) && known.is_open()
            })
        };
        while let Some(edge) = oldest() {
            match WaitCycle::over(&self.sender, &edge) {
                Some(cycle) => drop(cycle.admit_send()),
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
