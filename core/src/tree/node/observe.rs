//! What an observer reads of a node. Every look holds the lock for one node, or for a bounded part
//! of the child table, and has no effect.

use crate::base::sync::Arc;
use crate::base::time::Instant;
use crate::base::work_count;
use crate::events::cause::Exit;
use crate::events::counts::Counts;
use crate::events::failure::FailureInfo;
use crate::ids::path::ActorId;
use crate::tree::member::Member;
use crate::tree::node::children::ChildTable;
use crate::tree::node::{Node, NodePhase};
use core::time::Duration;

/// How many places of a child table one look examines. Few of them are free in most tables.
const PLACES_PER_LOOK: usize = 256;

/// The state of a node at one moment.
pub(crate) struct NodeFacts {
    pub(crate) exit: Option<Exit>,
    /// It accepts children and was not cancelled.
    pub(crate) is_open: bool,
    pub(crate) cancelled_for: Option<Duration>,
    pub(crate) children: usize,
    /// How many workers a pool should have.
    pub(crate) pool_size: Option<usize>,
    pub(crate) last_failure: Option<FailureInfo>,
}

/// What a look into the child table found.
pub(crate) enum NextChild {
    /// The child in this place.
    Found(u32, Arc<dyn Member>),
    /// No child before this place. The caller looks again from there.
    NoneBefore(u32),
    /// No child in this place or after it.
    End,
}

impl Node {
    /// Reads the state of the node.
    pub(crate) fn facts(&self, now: Instant) -> NodeFacts {
        self.state.with(|state| {
            let table = state.existing_children();
            NodeFacts {
                exit: state.exit(),
                is_open: state.status().phase == NodePhase::Open && state.cancel().is_none(),
                cancelled_for: state.cancel().map(|cancel| now.since(cancel.at)),
                children: table.map_or(0, |table| table.children.len()),
                pool_size: table.and_then(|table| table.supervision.pool_size),
                last_failure: state.existing_rare().and_then(|rare| rare.last_failure.clone()),
            }
        })
    }

    /// Returns the counts of all children that have ended.
    pub(crate) fn ended_counts(&self) -> Counts {
        self.state.with(|state| state.existing_children().map_or_else(Counts::default, |table| table.ended))
    }

    /// Keeps the last failure of the member, for observers.
    pub(crate) fn note_failure(&self, failure: &FailureInfo) {
        let replaced = self.state.with(|state| {
            let rare = state.rare_details();
            let replaced = rare.last_failure.replace(failure.clone());
            if rare.unused_failures.len() < rare.unused_failures.capacity() {
                rare.unused_failures.extend(replaced);
                return None;
            }
            replaced
        });
        drop(replaced);
    }

    /// Returns the first child in the place `from` of the child table or after it.
    pub(crate) fn next_child(&self, from: u32) -> NextChild {
        self.state.with(|state| {
            let Some(table) = state.existing_children() else { return NextChild::End };
            let (from, end) = (from as usize, table.children.capacity());
            let stop = end.min(from.saturating_add(PLACES_PER_LOOK));
            let found = (from..stop).find_map(|place| table.children.get(place).map(|child| (place, child)));
            work_count::count(found.map_or(stop.saturating_sub(from), |(place, _)| place - from + 1));
            match found {
                Some((place, child)) => NextChild::Found(place as u32, Arc::clone(child)),
                None if stop < end => NextChild::NoneBefore(stop as u32),
                None => NextChild::End,
            }
        })
    }

    /// Returns the child in this place of the child table, if it is the member with this number.
    pub(crate) fn child_at(&self, place: u32, number: u64) -> Option<Arc<dyn Member>> {
        self.state.with(|state| {
            let child = state.existing_children()?.children.get(place as usize)?;
            (child.node().number == number).then(|| Arc::clone(child))
        })
    }

    /// Returns whether this node has given up on a child that has not left yet, or on all of them.
    pub(crate) fn has_given_up_on(&self, child: ActorId) -> bool {
        let has_given_up = |table: &ChildTable| table.given_up.contains(&child) || table.supervision.has_given_up();
        self.state.with(|state| state.existing_children().is_some_and(has_given_up))
    }

    /// Returns the number of this member in its tree.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}
