//! `ParentLink`: how a node holds its parent and finds its tree.
//!
//! Only some nodes hold the tree themselves; the others climb to the nearest one that does. A root always holds it, and below a root
//! every node that would have to climb more than [`CLIMB_MAX`] steps. So finding the tree takes a bounded number of steps at any
//! depth, and a node near its root costs no second counted reference.

use crate::tree::Tree;
use crate::tree::member::Member;
use crate::tree::node::NodeParent;
use alloc::boxed::Box;
use alloc::sync::Arc;

/// The most steps from a node to one that holds the tree.
const CLIMB_MAX: u8 = 16;

/// Two words: the anchor is boxed because few nodes have one.
pub(super) enum ParentLink {
    Parent(Arc<dyn Member>),
    Anchor(Box<Anchor>),
}

/// The tree, and the parent unless this is a root.
pub(super) struct Anchor {
    tree: Arc<Tree>,
    parent: Option<Arc<dyn Member>>,
}

impl ParentLink {
    /// The link, and how many steps lie between its node and the nearest one that holds the tree.
    #[inline]
    pub(super) fn new(above: NodeParent) -> (Self, u8) {
        match above {
            NodeParent::Root(tree) => (Self::Anchor(Box::new(Anchor { tree, parent: None })), 0),
            NodeParent::Member(parent) => match parent.node().climb {
                climb @ 0..CLIMB_MAX => (Self::Parent(parent), climb + 1),
                _ => (Self::anchored(parent), 0),
            },
        }
    }

    #[cold]
    fn anchored(parent: Arc<dyn Member>) -> Self {
        let tree = Arc::clone(parent.node().tree());
        Self::Anchor(Box::new(Anchor { tree, parent: Some(parent) }))
    }

    #[inline]
    pub(super) fn parent(&self) -> Option<&Arc<dyn Member>> {
        match self {
            Self::Parent(parent) => Some(parent),
            Self::Anchor(anchor) => anchor.parent.as_ref(),
        }
    }

    /// The tree, or the parent that is nearer to it.
    #[inline]
    pub(super) fn tree(&self) -> Result<&Arc<Tree>, &Arc<dyn Member>> {
        match self {
            Self::Parent(parent) => Err(parent),
            Self::Anchor(anchor) => Ok(&anchor.tree),
        }
    }

    /// Takes the parent out and leaves a root's link to `tree`.
    #[cold]
    pub(super) fn take_parent(&mut self, tree: &Arc<Tree>) -> Option<Arc<dyn Member>> {
        let root = Self::Anchor(Box::new(Anchor { tree: Arc::clone(tree), parent: None }));
        match core::mem::replace(self, root) {
            Self::Parent(parent) => Some(parent),
            Self::Anchor(anchor) => anchor.parent,
        }
    }
}

#[cfg(all(test, feature = "std", not(loom)))]
mod tests {
    use super::*;
    use crate::dispatcher::Dispatcher;
    use crate::scope::Scope;
    use crate::tree::node::Node;
    use crate::tree::token::CancelToken;
    use alloc::vec::Vec;

    /// How many links lie between `node` and the nearest one that holds the tree.
    fn steps_to_world(mut node: &Node) -> u8 {
        let mut steps = 0;
        while let Err(parent) = node.link.tree() {
            node = parent.node();
            steps += 1;
        }
        steps
    }

    #[test]
    fn h3_any_depth_finds_the_world_in_a_bounded_number_of_steps() {
        let sim = Dispatcher::seeded(1);
        let mut scopes = Vec::from([Scope::under(&CancelToken::root(sim.runtime()))]);
        for _ in 0..1_000 {
            scopes.push(scopes[scopes.len() - 1].scope("inner").unwrap());
        }
        let steps = scopes.iter().map(|scope| steps_to_world(scope.any().member.node()));
        assert_eq!(steps.max(), Some(CLIMB_MAX));
        let anchors = scopes.iter().filter(|scope| scope.any().member.node().link.tree().is_ok()).count();
        assert!(anchors <= 2 + scopes.len() / usize::from(CLIMB_MAX), "{anchors} of {}", scopes.len());
    }

    #[test]
    fn h3_a_link_takes_two_words() {
        assert_eq!(size_of::<ParentLink>(), 2 * size_of::<usize>());
    }
}
