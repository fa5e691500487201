//! The search for cycles of waits: breadth first from one edge, along edges and along ends that others wait for.

use crate::base::visits;
use crate::tree::member::Member;
use crate::tree::node::Node;
use crate::tree::waits::{Edge, Wait, WaitCycle, place};
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

/// A member that somebody waits for.
struct Reached {
    member: Arc<dyn Member>,
    /// Who waits for it, as an index of what was reached, and by which edge.
    from: usize,
    by: Option<Edge>,
    /// Its end is awaited by user code, and so is the end of all that is below it.
    ends: bool,
}

struct Search<'a, F> {
    first: &'a Arc<dyn Member>,
    known: BTreeSet<*const Node>,
    reached: Vec<Reached>,
    /// Called with each cycle, and with the edge that closes it if there is one. False ends the search.
    found: F,
}

/// Calls `found` with cycles from `first` over `edge` back to `first`, until it says no.
pub(super) fn cycles<F>(first: &Arc<dyn Member>, edge: &Edge, found: F)
where
    F: FnMut(WaitCycle, Option<&Edge>) -> bool,
{
    let start = Reached { member: Arc::clone(first), from: 0, by: None, ends: false };
    let mut search = Search { first, known: BTreeSet::new(), reached: vec![start], found };
    let mut goes_on = search.follow(0, edge);
    let mut at = 1;
    while goes_on && at < search.reached.len() {
        goes_on = search.expand(at);
        at += 1;
    }
}

impl<F: FnMut(WaitCycle, Option<&Edge>) -> bool> Search<'_, F> {
    /// Looks at all that the member at `at` waits for. False ends the search.
    fn expand(&mut self, at: usize) -> bool {
        visits::visit(1);
        let Reached { member, ends, .. } = &self.reached[at];
        let (member, ends) = (Arc::clone(member), *ends);
        if !member.edges().iter().filter(|edge| edge.is_open()).all(|edge| self.follow(at, edge)) {
            return false;
        }
        // A member that waits for its children waits for the first among them. That cycle alone holds both up, so there is no need to look at
        // all the others.
        if member.waits_for_children() && self.first.node().parent().is_some_and(|parent| place(parent) == place(&member)) {
            let cycle = self.cycle(at, None);
            return (self.found)(cycle, None);
        }
        let below = if ends { member.node().children() } else { Vec::new() };
        member.waits_for().into_iter().all(|awaited| self.wait_for(at, &awaited, false))
            && below.iter().all(|child| self.wait_for(at, child, true))
    }

    fn follow(&mut self, at: usize, edge: &Edge) -> bool {
        if place(&edge.target) == place(self.first) {
            let cycle = self.cycle(at, Some(edge));
            return (self.found)(cycle, Some(edge));
        }
        let ends = matches!(edge.wait, Wait::End(_));
        let is_new = self.reach(&edge.target, at, Some(edge), ends);
        // What is below ends first: no need to look at all of it to find the first among them.
        if is_new && ends && self.first.node().is_within(edge.target.node()) {
            let cycle = self.cycle(self.reached.len() - 1, None);
            return (self.found)(cycle, None);
        }
        true
    }

    fn wait_for(&mut self, at: usize, awaited: &Arc<dyn Member>, ends: bool) -> bool {
        if place(awaited) == place(self.first) {
            let cycle = self.cycle(at, None);
            return (self.found)(cycle, None);
        }
        self.reach(awaited, at, None, ends);
        true
    }

    /// Any member but the first needs to be reached once.
    fn reach(&mut self, member: &Arc<dyn Member>, from: usize, by: Option<&Edge>, ends: bool) -> bool {
        let is_new = self.known.insert(place(member));
        if is_new {
            self.reached.push(Reached { member: Arc::clone(member), from, by: by.cloned(), ends });
        }
        is_new
    }

    /// The way from the first to the one at `end`, which waits for the first by `closing`.
    fn cycle(&self, end: usize, closing: Option<&Edge>) -> WaitCycle {
        let mut cycle = WaitCycle { members: Vec::new(), edges: closing.cloned().into_iter().collect() };
        let mut at = end;
        loop {
            let Reached { member, from, by, .. } = &self.reached[at];
            cycle.members.push(Arc::clone(member));
            cycle.edges.extend(by.clone());
            if at == 0 {
                break;
            }
            at = *from;
        }
        cycle.members.reverse();
        cycle.edges.reverse();
        cycle
    }
}
