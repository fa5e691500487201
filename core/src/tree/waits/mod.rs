//! The wait-for graph: which member waits for which, and what happens when they wait in a cycle.
//!
//! A member waits for another one in three ways:
//! - for the answer to an ask ([`Wait::Answer`]),
//! - for room in a mailbox ([`Wait::Room`]),
//! - for an end ([`Wait::End`], or an end that the tree awaits, see `Member::waits_for`).
//!
//! The waiting member stores the first two, and an end or a group that user code awaits, as edges
//! for the time of the wait. After adding an edge, or starting to wait in the tree, the member
//! searches for a cycle. If several members close one at the same time, at least the last one finds
//! it.
//!
//! How a cycle is resolved:
//! 1. If a send in it waits for room, that send is accepted above the capacity. No message is lost.
//! 2. If all wait for answers, or for ends that the tree awaits, one ask fails with
//!    [`AskError::Cycle`].
//! 3. Code that awaits an end or a group may stop waiting, so no ask fails because of it.

pub(crate) mod ask_error;
pub(crate) mod edges;
pub(crate) mod search;

pub(crate) use crate::tree::waits::edges::Awaited;

use crate::base::sorted::SortedSet;
use crate::base::sync::Arc;
use crate::base::wakers;
use crate::base::work_count;
use crate::events::event::{Event, EventKinds, Lint};
use crate::ids::path::ActorPath;
use crate::tree::current;
use crate::tree::member::Member;
use crate::tree::node::Node;
use crate::tree::waits::ask_error::AskError;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::task::Waker;

/// An ask whose `Reply` was dropped without an answer.
pub(crate) trait Unanswered: Send + Sync {
    /// Completes the ask with this error. Returns the waker of the asker, to be woken.
    fn answer(&self, why: AskError) -> Option<Waker>;

    /// Returns whether the ask is still unanswered.
    fn is_open(&self) -> bool;
}

/// Ends an ask without an answer. Its slot is free before the asker runs.
pub(crate) fn end_ask(ask: Arc<dyn Unanswered>, why: AskError) {
    let asker = ask.answer(why);
    drop(ask);
    wakers::wake_each(asker);
}

/// A wait of a member for `target`.
#[derive(Clone)]
pub(crate) struct Edge {
    pub(crate) target: Arc<dyn Member>,
    pub(crate) wait: Wait,
}

/// What a member waits for.
#[derive(Clone)]
pub(crate) enum Wait {
    /// The answer to an ask.
    Answer(Arc<dyn Unanswered>),
    /// Room in the target's mailbox, for the waiting send with this key.
    Room(u64),
    /// An end or a result of a group that user code awaits.
    End(Awaited),
}

impl Edge {
    /// Returns whether the wait is still pending. An answer may have arrived, or a send may have
    /// been accepted, before the member is polled again.
    fn is_open(&self) -> bool {
        match &self.wait {
            Wait::Answer(ask) => ask.is_open(),
            Wait::Room(key) => self.target.has_waiting_send(*key),
            Wait::End(Awaited::Exit) => self.target.node().exit().is_none(),
            Wait::End(Awaited::Children) => self.target.node().has_children(),
            Wait::End(group_wait) => self.target.is_wait_pending(*group_wait),
        }
    }

    /// Returns whether no cycle from `first` can contain this edge, because its target waits for
    /// nothing. That is so for most asks, which then need no search and no memory.
    fn ends_at_once(&self, first: &Arc<dyn Member>) -> bool {
        let target = &self.target;
        !matches!(self.wait, Wait::End(_))
            && address(target) != address(first)
            && !target.waits_for_children()
            && target.edges().is_empty()
            && target.waits_for().is_empty()
    }

    /// Returns whether both are the same wait.
    pub(crate) fn is_same_wait(&self, other: &Self) -> bool {
        match (&self.wait, &other.wait) {
            (Wait::Answer(one), Wait::Answer(other)) => Arc::ptr_eq(one, other),
            (Wait::Room(one), Wait::Room(key)) => one == key && address(&self.target) == address(&other.target),
            (Wait::End(one), Wait::End(awaited)) => one == awaited && address(&self.target) == address(&other.target),
            _ => false,
        }
    }
}

/// A cycle of waits: each member waits for the next one, and the last for the first.
pub(crate) struct WaitCycle {
    members: Vec<Arc<dyn Member>>,
    /// The edges of the cycle. Ends that the tree awaits have none.
    edges: Vec<Edge>,
}

impl WaitCycle {
    /// Searches for a cycle from `first` over `edge` back to `first`. A member may await several
    /// things at once.
    pub(crate) fn find(first: &Arc<dyn Member>, edge: &Edge) -> Option<Self> {
        Self::find_if(first, edge, |_| true)
    }

    /// Searches for a cycle in which all members wait for answers, or for ends that the tree
    /// awaits. Such a cycle can never resolve.
    pub(crate) fn find_ask_cycle(first: &Arc<dyn Member>, edge: &Edge) -> Option<Self> {
        Self::find_if(first, edge, |cycle| cycle.edges.iter().all(|edge| matches!(edge.wait, Wait::Answer(_))))
    }

    fn find_if(first: &Arc<dyn Member>, edge: &Edge, is_sought: impl Fn(&Self) -> bool) -> Option<Self> {
        if edge.ends_at_once(first) {
            return None;
        }
        let mut found = None;
        search::cycles(first, edge, |cycle, _| {
            found = Some(cycle).filter(&is_sought);
            found.is_none()
        });
        found
    }

    /// Resolves all cycles from `first` over `edge` that contain a send.
    pub(crate) fn admit_sends(first: &Arc<dyn Member>, edge: &Edge) {
        // A search may continue after it accepted the send that closed its cycle: the path to it is
        // unchanged. After any other accepted send, visited members may no longer wait, so the
        // search starts again. Behind an accepted send another one to the same target may wait.
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

    /// Accepts the first send of the cycle, with or without room, which resolves it. Returns false
    /// if no member waits for room.
    pub(crate) fn admit_send(&self) -> bool {
        let room = |edge: &Edge| match edge.wait {
            Wait::Room(key) => Some((Arc::clone(&edge.target), key)),
            Wait::Answer(_) | Wait::End(_) => None,
        };
        let Some((target, key)) = self.edges.iter().find_map(room) else { return false };
        if target.admit_send(key) {
            target.node().events().emit(EventKinds::WAIT_CYCLES, || Event::Lint(Lint::SendCycle(self.paths())));
        }
        true
    }
}

/// Resolves the cycles of the members in `next`, and of all members that they wait for. A send in a
/// cycle is accepted; otherwise an ask in it fails.
///
/// Called for members that must make progress before others can.
pub(crate) fn break_cycles_of(mut next: Vec<Arc<dyn Member>>) {
    let mut known = SortedSet::new();
    while let Some(one) = next.pop() {
        work_count::count(1);
        if !known.insert(address(&one)) {
            continue;
        }
        break_cycles_at(&one, &mut next);
        next.extend(one.waits_for());
    }
}

/// Resolves the cycles over all edges of `one`, and adds the members it still waits for to `next`.
fn break_cycles_at(one: &Arc<dyn Member>, next: &mut Vec<Arc<dyn Member>>) {
    let mut is_new = true;
    while core::mem::take(&mut is_new) {
        for edge in one.edges().into_iter().filter(Edge::is_open) {
            WaitCycle::admit_sends(one, &edge);
            if let Wait::Answer(ask) = &edge.wait
                && edge.is_open()
                && let Some(cycle) = WaitCycle::find_ask_cycle(one, &edge)
            {
                wakers::wake_each(ask.answer(AskError::Cycle(cycle.paths())));
            }
            if edge.is_open() {
                next.push(Arc::clone(&edge.target));
            } else {
                // Other waits may have been hidden behind this one.
                is_new = true;
            }
        }
    }
}

/// The edge of a send that waits for room, stored by the member in whose poll the send started.
/// Dropping it removes the edge.
pub(crate) struct RoomEdge {
    sender: Arc<dyn Member>,
    edge: Edge,
}

impl RoomEdge {
    /// Adds the edge of a send that waits in the mailbox of `target` under `key`. If it closes a
    /// cycle, a send of the cycle is accepted and its sender is woken.
    #[cold]
    pub(crate) fn begin(target: Arc<dyn Member>, key: u64) -> Option<Box<Self>> {
        let sender = current::member()?;
        let edge = Edge { target, wait: Wait::Room(key) };
        sender.begin_wait(edge.clone());
        let begun = Box::new(Self { sender, edge });
        begun.break_cycles();
        begun.edge.is_open().then_some(begun)
    }

    /// Resolves cycles. Of several sends of one sender to one mailbox, the oldest is accepted
    /// first.
    fn break_cycles(&self) {
        // Whether a cycle exists depends only on the target. Most sends close none, and skip the
        // search of the sender's other edges.
        if WaitCycle::find(&self.sender, &self.edge).is_none() {
            return;
        }
        let oldest = || {
            let mut edges = self.sender.edges().into_iter();
            edges.find(|known| {
                matches!(known.wait, Wait::Room(_)) && address(&known.target) == address(&self.edge.target) && known.is_open()
            })
        };
        while let Some(edge) = oldest() {
            match WaitCycle::find(&self.sender, &edge) {
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

/// Returns the address of a member's node, as its identity. Unlike the id it needs no walk up to
/// the tree.
fn address(member: &Arc<dyn Member>) -> *const Node {
    member.node()
}
