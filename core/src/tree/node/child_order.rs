//! The order of the children of a node: which child is the n-th one, and the number of a child.
//!
//! The order is that of the places in the child table. Each look holds the lock of the node for one
//! block of places. A table of more than [`UNINDEXED_MAX`] places gets an index
//! ([`place_index`](super::place_index)), so that a look far inside costs no more than one at the
//! beginning.

use crate::base::sync::Ordering;
use crate::base::work_count;
use crate::tree::node::Node;
use crate::tree::node::children::ChildTable;
use crate::tree::node::place_index::{BLOCK_LEN, PlaceIndex};

/// The largest table that is walked without an index, in places.
const UNINDEXED_MAX: usize = 4 * BLOCK_LEN;

/// What one look found.
enum Look {
    Found(u64),
    /// The children up to this place are counted: look again.
    Continue(usize, u64),
    Missing,
}

impl Node {
    /// Counts further blocks for the index, with at most `looks` looks at the table. Returns true
    /// if nothing is left to count.
    pub(crate) fn index_children(&self, looks: usize) -> bool {
        (0..=looks).any(|look| {
            self.state.with(|state| {
                let Some(table) = state.existing_children_mut() else { return true };
                table.index_block(look < looks)
            })
        })
    }

    /// Returns the place of the child with the number `index`, from 0 on, in the order of the
    /// places.
    pub(crate) fn place_of(&self, index: u64) -> Option<u32> {
        while !self.index_children(usize::MAX) {}
        let (mut from, mut before) = (0, 0);
        loop {
            let look = self.state.with(|state| state.existing_children_mut().map(|table| table.look_for(index, from, before)));
            match look.unwrap_or(Look::Missing) {
                Look::Found(place) => return Some(place as u32),
                Look::Continue(place, children) => (from, before) = (place, children),
                Look::Missing => return None,
            }
        }
    }

    /// Returns how many siblings of this node have a place before it. `None` if it is no child of
    /// its parent any more.
    pub(crate) fn index_in_parent(&self) -> Option<u64> {
        let parent = self.parent()?.node();
        while !parent.index_children(usize::MAX) {}
        let (mut from, mut before) = (0, 0);
        loop {
            let look =
                parent.state.with(|state| state.existing_children_mut().map(|table| table.look_before(self, from, before)));
            match look.unwrap_or(Look::Missing) {
                Look::Found(index) => return Some(index),
                Look::Continue(place, children) => (from, before) = (place, children),
                Look::Missing => return None,
            }
        }
    }
}

impl ChildTable {
    /// Counts the next block, if one is left and `may_count`. Returns true if none is left.
    fn index_block(&mut self, may_count: bool) -> bool {
        let places = self.children.capacity();
        let counted = self.index.as_ref().map_or(0, |index| index.places());
        if places <= UNINDEXED_MAX || counted >= places {
            return true;
        }
        if may_count {
            let children = self.occupied(counted, counted + BLOCK_LEN);
            let index = self.index.get_or_insert_default();
            index.use_it();
            index.add_block(children as u32);
        }
        false
    }

    /// Looks for the child number `index`. Without an index, at one block from `from` on, with
    /// `before` children before it.
    fn look_for(&mut self, index: u64, from: usize, before: u64) -> Look {
        let (from, before) = match self.index.as_mut() {
            Some(sums) if from < sums.places() => {
                sums.use_it();
                match sums.block_of(index) {
                    Some((block, before)) => (block * BLOCK_LEN, before),
                    None => (sums.places(), sums.before(usize::MAX)),
                }
            }
            _ => (from, before),
        };
        let (mut seen, end) = (before, self.children.capacity());
        for place in from..end.min(from + BLOCK_LEN) {
            if self.children.contains(place) {
                if seen == index {
                    work_count::count(place - from + 1);
                    return Look::Found(place as u64);
                }
                seen += 1;
            }
        }
        work_count::count(BLOCK_LEN);
        if from + BLOCK_LEN < end { Look::Continue(from + BLOCK_LEN, seen) } else { Look::Missing }
    }

    /// Counts the children before `child`, like [`look_for`](Self::look_for).
    fn look_before(&mut self, child: &Node, from: usize, before: u64) -> Look {
        let place = child.slot.load(Ordering::Relaxed) as usize;
        if self.children.get(place).is_none_or(|found| found.node().number() != child.number()) {
            return Look::Missing;
        }
        let (from, before) = match self.index.as_mut() {
            Some(sums) if from < sums.places() => {
                sums.use_it();
                let block = (place / BLOCK_LEN).min(sums.places() / BLOCK_LEN);
                (block * BLOCK_LEN, sums.before(block))
            }
            _ => (from, before),
        };
        let end = place.min(from + BLOCK_LEN);
        let seen = before + self.occupied(from, end) as u64;
        if end == place { Look::Found(seen) } else { Look::Continue(end, seen) }
    }

    fn occupied(&self, from: usize, end: usize) -> usize {
        let end = end.min(self.children.capacity());
        work_count::count(end.saturating_sub(from));
        (from..end).filter(|place| self.children.contains(*place)).count()
    }

    /// Keeps the index, if there is one, in step with the table.
    #[inline]
    pub(super) fn note_place(&mut self, place: usize, is_added: bool) {
        if self.index.is_some() {
            self.note_place_in_index(place, is_added);
        }
    }

    #[cold]
    fn note_place_in_index(&mut self, place: usize, is_added: bool) {
        if self.index.as_mut().is_some_and(|index| !index.note(place, is_added)) {
            self.index = None;
        }
    }
}

/// The index of a table, behind one pointer: most tables have none.
pub(super) type OptionalIndex = Option<alloc::boxed::Box<PlaceIndex>>;
