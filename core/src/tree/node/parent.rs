//! [`ParentLink`]: how a node holds its parent and finds its tree.
//!
//! Only some nodes hold the tree: each root, and each node that is otherwise more than
//! [`TREE_DISTANCE_MAX`] links away from one. All other nodes walk up to the nearest one that holds
//! it. So finding the tree takes a bounded number of steps at any depth, and most nodes save a
//! second counted reference.

use crate::base::sync::Arc;
use crate::tree::Tree;
use crate::tree::member::Member;
use crate::tree::node::NodeParent;
use alloc::boxed::Box;

/// The maximum number of links from a node to one that holds the tree.
const TREE_DISTANCE_MAX: u8 = 16;

/// The link to the parent. Two words: the tree is boxed, because few nodes hold it.
pub(super) enum ParentLink {
    Parent(Arc<dyn Member>),
    WithTree(Box<TreeAndParent>),
}

/// The tree, and the parent unless this is a root.
pub(super) struct TreeAndParent {
    tree: Arc<Tree>,
    parent: Option<Arc<dyn Member>>,
}

impl ParentLink {
    /// Creates the link, and returns it with its distance to the nearest node that holds the tree.
    #[inline]
    pub(super) fn new(parent: NodeParent) -> (Self, u8) {
        match parent {
            NodeParent::Root(tree) => (Self::WithTree(Box::new(TreeAndParent { tree, parent: None })), 0),
            NodeParent::Member(parent) => match parent.node().tree_distance {
                tree_distance @ 0..TREE_DISTANCE_MAX => (Self::Parent(parent), tree_distance + 1),
                _ => (Self::with_tree(parent), 0),
            },
        }
    }

    #[cold]
    fn with_tree(parent: Arc<dyn Member>) -> Self {
        let tree = Arc::clone(parent.node().tree());
        Self::WithTree(Box::new(TreeAndParent { tree, parent: Some(parent) }))
    }

    #[inline]
    pub(super) fn parent(&self) -> Option<&Arc<dyn Member>> {
        match self {
            Self::Parent(parent) => Some(parent),
            Self::WithTree(link) => link.parent.as_ref(),
        }
    }

    /// Returns the tree, or the parent to continue the search with.
    #[inline]
    pub(super) fn tree(&self) -> Result<&Arc<Tree>, &Arc<dyn Member>> {
        match self {
            Self::Parent(parent) => Err(parent),
            Self::WithTree(link) => Ok(&link.tree),
        }
    }

    /// Takes the parent and leaves the link of a root of `tree`.
    #[cold]
    pub(super) fn take_parent(&mut self, tree: &Arc<Tree>) -> Option<Arc<dyn Member>> {
        let root = Self::WithTree(Box::new(TreeAndParent { tree: Arc::clone(tree), parent: None }));
        match core::mem::replace(self, root) {
            Self::Parent(parent) => Some(parent),
            Self::WithTree(link) => link.parent,
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

    /// Returns the number of links between `node` and the nearest one that holds the tree.
    fn steps_to_tree(mut node: &Node) -> u8 {
        let mut steps = 0;
        while let Err(parent) = node.link.tree() {
            node = parent.node();
            steps += 1;
        }
        steps
    }

    #[test]
    fn tree_is_found_in_bounded_steps_at_any_depth() {
        let sim = Dispatcher::seeded(1);
        let mut scopes = Vec::from([Scope::under(&CancelToken::root(sim.runtime()))]);
        for _ in 0..1_000 {
            scopes.push(scopes[scopes.len() - 1].scope("inner").unwrap());
        }
        let steps = scopes.iter().map(|scope| steps_to_tree(scope.any().member.node()));
        assert_eq!(steps.max(), Some(TREE_DISTANCE_MAX));
        let with_tree = scopes.iter().filter(|scope| scope.any().member.node().link.tree().is_ok()).count();
        assert!(with_tree <= 2 + scopes.len() / usize::from(TREE_DISTANCE_MAX), "{with_tree} of {}", scopes.len());
    }

    #[test]
    fn parent_link_takes_two_words() {
        assert_eq!(size_of::<ParentLink>(), 2 * size_of::<usize>());
    }
}
