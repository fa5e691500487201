//! The search for wait cycles: breadth first from one edge, along edges and along ends that the
//! tree awaits.

use crate::base::sorted::SortedSet;
use crate::base::sync::Arc;
use crate::base::work_count;
use crate::tree::member::Member;
use crate::tree::node::Node;
use crate::tree::waits::{Edge, Wait, WaitCycle, address};
use alloc::vec;
use alloc::vec::Vec;

/// A member that was found by the search.
struct VisitedMember {
    member: Arc<dyn Member>,
    /// The index of the visited member that waits for it.
    from: usize,
    /// The edge by which it waits, unless the tree awaits the end.
    by: Option<Edge>,
    /// User code awaits its end, and therefore the end of everything below it.
    ends: bool,
}

struct Search<'a, F> {
    first: &'a Arc<dyn Member>,
    known: SortedSet<*const Node>,
    visited: Vec<VisitedMember>,
    /// Called with each cycle, and with the edge that closes it, if any. Returning false ends the
    /// search.
    found: F,
}

/// Calls `found` with each cycle from `first` over `edge` back to `first`, until it returns false.
pub(super) fn cycles<F>(first: &Arc<dyn Member>, edge: &Edge, found: F)
where
    F: FnMut(WaitCycle, Option<&Edge>) -> bool,
{
    let start = VisitedMember { member: Arc::clone(first), from: 0, by: None, ends: false };
    let mut search = Search { first, known: SortedSet::new(), visited: vec![start], found };
    let mut continues = search.follow(0, edge);
    let mut at = 1;
    while continues && at < search.visited.len() {
        continues = search.expand(at);
        at += 1;
    }
}

impl<F: FnMut(WaitCycle, Option<&Edge>) -> bool> Search<'_, F> {
    /// Follows everything that the member at index `at` waits for. Returns false to end the search.
    fn expand(&mut self, at: usize) -> bool {
        work_count::count(1);
        let VisitedMember { member, ends, .. } = &self.visited[at];
        let (member, ends) = (Arc::clone(member), *ends);
        if !member.edges().iter().filter(|edge| edge.is_open()).all(|edge| self.follow(at, edge)) {
            return false;
        }
        // A member that waits for all its children also waits for `first`, if `first` is one of
        // them. That cycle alone blocks both, so the other children need no search.
        if member.waits_for_children() && self.first.node().parent().is_some_and(|parent| address(parent) == address(&member)) {
            let cycle = self.cycle(at, None);
            return (self.found)(cycle, None);
        }
        let below = if ends { member.node().children() } else { Vec::new() };
        member.waits_for().into_iter().all(|awaited| self.wait_for(at, &awaited, false))
            && below.iter().all(|child| self.wait_for(at, child, true))
    }

    fn follow(&mut self, at: usize, edge: &Edge) -> bool {
        if address(&edge.target) == address(self.first) {
            let cycle = self.cycle(at, Some(edge));
            return (self.found)(cycle, Some(edge));
        }
        let ends = matches!(edge.wait, Wait::End(_));
        let is_new = self.reach(&edge.target, at, Some(edge), ends);
        // Everything below must end first. If `first` is below, that is a cycle, and the rest needs
        // no search.
        if is_new && ends && self.first.node().is_within(edge.target.node()) {
            let cycle = self.cycle(self.visited.len() - 1, None);
            return (self.found)(cycle, None);
        }
        true
    }

    fn wait_for(&mut self, at: usize, awaited: &Arc<dyn Member>, ends: bool) -> bool {
        if address(awaited) == address(self.first) {
            let cycle = self.cycle(at, None);
            return (self.found)(cycle, None);
        }
        self.reach(awaited, at, None, ends);
        true
    }

    /// Visits a member, unless it was visited before. Returns true if it is new.
    fn reach(&mut self, member: &Arc<dyn Member>, from: usize, by: Option<&Edge>, ends: bool) -> bool {
        let is_new = self.known.insert(address(member));
        if is_new {
            self.visited.push(VisitedMember { member: Arc::clone(member), from, by: by.cloned(), ends });
        }
        is_new
    }

    /// Builds the cycle from the first member to the one at `end`, which waits for the first by
    /// `closing`.
    fn cycle(&self, end: usize, closing: Option<&Edge>) -> WaitCycle {
        let mut cycle = WaitCycle { members: Vec::new(), edges: closing.cloned().into_iter().collect() };
        let mut at = end;
        loop {
            let VisitedMember { member, from, by, .. } = &self.visited[at];
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
