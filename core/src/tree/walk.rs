//! [`Walk`]: visits a member and everything below it, parents first, in steps that can be continued
//! later from a [`Place`] list.
//!
//! Children are visited in the order of their places in the child table, which never change while a
//! member lives. So each member that exists during the whole walk is visited exactly once, however
//! many members start and end meanwhile. A member that starts or ends during the walk is visited at
//! most once.
//!
//! Costs: one step looks at one node, and at the free places before the next child. Continuing
//! costs one look per level, whatever the number of siblings before.

use crate::base::sync::Arc;
use crate::tree::member::Member;
use crate::tree::node::observe::NextChild;
use alloc::vec::Vec;

/// A member on the way from the start of a walk to its position: its place in the table of its
/// parent, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) place: u32,
    pub(crate) number: u64,
}

/// Where a walk continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WalkPosition {
    /// The number of the member where the walk started.
    pub(crate) start: u64,
    /// The members below the start, down to the position.
    pub(crate) way: Vec<Place>,
    /// The place in the last member's table to look at next.
    pub(crate) next: u32,
}

/// A level of the walk: a member, its place, and the place in its table to look at next.
struct Level {
    member: Arc<dyn Member>,
    place: u32,
    next: u32,
}

/// One step of a walk.
pub(crate) enum Step {
    /// The next member, and how many levels below the start it is.
    Visit(Arc<dyn Member>, usize),
    /// A part of a table had no children. Continue.
    Nothing,
    End,
}

/// A walk below one member.
pub(crate) struct Walk {
    levels: Vec<Level>,
    depth_max: usize,
    /// The start was not visited yet.
    is_new: bool,
}

impl Walk {
    /// Begins at `start`, and visits at most `depth_max` levels below it.
    pub(crate) fn new(start: Arc<dyn Member>, depth_max: usize) -> Self {
        Self { levels: Vec::from([Level { member: start, place: 0, next: 0 }]), depth_max, is_new: true }
    }

    /// Continues an earlier walk. Members on the way that have ended are passed over. If `start` is
    /// another member than before, nothing is left to visit.
    pub(crate) fn resume(start: Arc<dyn Member>, depth_max: usize, position: &WalkPosition) -> Self {
        let mut walk = Self::new(start, depth_max);
        walk.is_new = false;
        if walk.levels[0].member.node().number() != position.start {
            walk.levels.clear();
            return walk;
        }
        for at in &position.way {
            let Some(top) = walk.levels.last_mut() else { return walk };
            top.next = at.place.saturating_add(1);
            match top.member.node().child_at(at.place, at.number) {
                Some(member) => walk.levels.push(Level { member, place: at.place, next: 0 }),
                None => return walk,
            }
        }
        if let Some(top) = walk.levels.last_mut() {
            top.next = position.next;
        }
        walk
    }

    /// Returns where to continue, or `None` at the end.
    pub(crate) fn position(&self) -> Option<WalkPosition> {
        let (start, top) = (self.levels.first()?, self.levels.last()?);
        let below = self.levels[1..].iter();
        let way = below.map(|level| Place { place: level.place, number: level.member.node().number() }).collect();
        Some(WalkPosition { start: start.member.node().number(), way, next: top.next })
    }

    /// Takes one step.
    pub(crate) fn step(&mut self) -> Step {
        if core::mem::take(&mut self.is_new) {
            return Step::Visit(Arc::clone(&self.levels[0].member), 0);
        }
        loop {
            let depth = self.levels.len();
            let Some(top) = self.levels.last_mut() else { return Step::End };
            // The top is `depth - 1` levels below the start.
            let found = if depth > self.depth_max { NextChild::End } else { top.member.node().next_child(top.next) };
            match found {
                NextChild::Found(place, member) => {
                    top.next = place.saturating_add(1);
                    self.levels.push(Level { member: Arc::clone(&member), place, next: 0 });
                    return Step::Visit(member, depth);
                }
                NextChild::NoneBefore(next) => {
                    top.next = next;
                    return Step::Nothing;
                }
                NextChild::End => drop(self.levels.pop()),
            }
        }
    }
}
