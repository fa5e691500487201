//! Circles of asks: who waits for whom, and who is told when nobody in a circle could ever answer.

use crate::ask::AskError;
use crate::counted;
use crate::node::{Member, Node};
use crate::path::ActorPath;
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

/// An ask that an actor awaits in its own task: whom it asked, and the place for the answer.
#[derive(Clone)]
pub(crate) struct Edge {
    pub(crate) target: Arc<dyn Member>,
    pub(crate) slot: Arc<dyn Unanswered>,
}

/// The actors from `asker` over `target` back to `asker`, each waiting for the next; `None` if the edges lead elsewhere. An actor may
/// await several asks at once; an ask that is answered holds nobody up, even if its asker has not looked yet.
pub(crate) fn cycle(asker: &Arc<dyn Member>, target: Arc<dyn Member>) -> Option<Vec<ActorPath>> {
    // Breadth first, each with the place of whoever asks it.
    let mut known = BTreeSet::from([place(&target)]);
    let mut reached = vec![(Arc::clone(asker), 0), (target, 0)];
    let mut at = 1;
    while let Some((member, from)) = reached.get(at).cloned() {
        if place(&member) == place(asker) {
            let mut paths = vec![];
            let mut step = from;
            while step != 0 {
                paths.push(reached[step].0.node().path());
                step = reached[step].1;
            }
            paths.push(asker.node().path());
            paths.reverse();
            return Some(paths);
        }
        let asked = member.asking().into_iter().filter(|edge| edge.slot.is_open()).map(|edge| edge.target);
        for next in asked.chain(member.waits_for()) {
            // The asker itself is what is looked for; any other needs to be reached once.
            if known.insert(place(&next)) {
                reached.push((next, at));
            }
        }
        at += 1;
    }
    None
}

/// `member` has begun to wait for others, and answers nobody until they are done: whoever among those waits for it, by an ask over however
/// many, is told that this is a cycle.
pub(crate) fn release_askers_of(member: &Arc<dyn Member>) {
    release_askers_among(member.waits_for());
}

/// As [`release_askers_of`], for whoever waits for all of `next`.
pub(crate) fn release_askers_among(mut next: Vec<Arc<dyn Member>>) {
    let mut known = BTreeSet::new();
    while let Some(one) = next.pop() {
        counted::visit(1);
        if !known.insert(place(&one)) {
            continue;
        }
        for edge in one.asking().into_iter().filter(|edge| edge.slot.is_open()) {
            match cycle(&one, Arc::clone(&edge.target)) {
                Some(paths) => edge.slot.answer(AskError::Cycle(paths)),
                None => next.push(edge.target),
            }
        }
        next.extend(one.waits_for());
    }
}

/// What tells members apart: an id is one member's within a system only, and an ask may go from one system to another.
fn place(member: &Arc<dyn Member>) -> *const Node {
    member.node()
}
