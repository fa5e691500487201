//! The children of a member in the order of the tree, from any of them on.

use crate::tree::any_ref::AnyRef;
use crate::tree::node::observe::NextChild;
use core::fmt;

impl AnyRef {
    /// Returns how many children the member has now.
    pub fn children_count(&self) -> u64 {
        self.member.node().children_count() as u64
    }

    /// Lists the children from the one with the number `first` on, which counts from 0.
    ///
    /// The order is that of a [snapshot](crate::RootContext::snapshot): start order, except that a
    /// new child may take the place of one that has ended. Of a million children the first call
    /// counts all, in about 10 ms; [`index_children`](Self::index_children) does that in parts.
    /// Further calls cost about 1 µs, wherever they begin.
    ///
    /// ```
    /// use pleach::BoxError;
    /// use pleach::prelude::*;
    /// use pleach::runtime::Dispatcher;
    /// use pleach::system::System;
    ///
    /// let sim = Dispatcher::seeded(1);
    /// let system = System::builder("shop", sim.runtime()).build().unwrap();
    /// let names = ["till", "stock", "mail"];
    /// for name in names {
    ///     system.spawn(name, Props::from_fn(|| (), |_, _: u32| Ok::<(), BoxError>(()))).unwrap();
    /// }
    /// let user = system.root().lookup_any(&"/user".parse().unwrap()).unwrap();
    /// let listed: Vec<_> = user.children_from(1).map(|child| child.path().to_string()).collect();
    /// assert_eq!(listed, ["/user/stock", "/user/mail"]);
    /// assert_eq!(user.children_from(2).next().unwrap().index_in_parent(), Some(2));
    /// ```
    pub fn children_from(&self, first: u64) -> Children {
        let place = match first {
            0 => Some(0),
            first => self.member.node().place_of(first),
        };
        Children { parent: self.clone(), place: place.unwrap_or(u32::MAX) }
    }

    /// Counts the children for [`children_from`](Self::children_from), with at most `looks` looks
    /// at 256 of them each. Returns true once nothing is left to count.
    pub fn index_children(&self, looks: usize) -> bool {
        self.member.node().index_children(looks)
    }

    /// Returns how many siblings are before this member, in the order of
    /// [`children_from`](Self::children_from). `None` for the root, and for a member that has left
    /// the tree.
    pub fn index_in_parent(&self) -> Option<u64> {
        self.member.node().index_in_parent()
    }
}

/// The children of a member in the order of the tree; returned by [`AnyRef::children_from`].
///
/// Each child that lives until the iterator has passed it is returned once. The lock of the parent
/// is held for one look at a time.
pub struct Children {
    parent: AnyRef,
    /// The place to look at next.
    place: u32,
}

impl Iterator for Children {
    type Item = AnyRef;

    fn next(&mut self) -> Option<AnyRef> {
        loop {
            match self.parent.member.node().next_child(self.place) {
                NextChild::Found(place, member) => {
                    self.place = place.saturating_add(1);
                    return Some(AnyRef { member });
                }
                NextChild::NoneBefore(next) => self.place = next,
                NextChild::End => {
                    self.place = u32::MAX;
                    return None;
                }
            }
        }
    }
}

impl fmt::Debug for Children {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Children").field("parent", &self.parent).finish_non_exhaustive()
    }
}
