//! Adds a member to the tree: a new node below a parent, or a [`Refusal`].

use crate::base::sync::Arc;
use crate::events::limit::{Limit, LimitReached};
use crate::ids::name::{Name, NameError};
use crate::ids::path::ActorPath;
use crate::tree::Tree;
use crate::tree::member::Member;
use crate::tree::node::children::AdoptError;
use crate::tree::node::{Node, NodeParent};
use alloc::string::{String, ToString};
use core::fmt;

/// Why a member was not started.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The name is not valid in a path.
    Name(NameError),
    /// A sibling has this name and has not ended yet.
    NameTaken {
        /// The name that is in use.
        name: String,
        /// The path of the parent.
        parent: ActorPath,
    },
    /// The mailbox has capacity 0, so it could never accept a message.
    ZeroCapacity,
    /// The system is sealed: it starts no further member.
    LimitReached(LimitReached),
    /// The parent is shutting down or has ended.
    ShuttingDown {
        /// The path of the parent.
        parent: ActorPath,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(error) => write!(f, "{error}"),
            Self::NameTaken { name, parent } => {
                write!(
                    f,
                    "name {name:?} is taken: {parent} has a live child with this name; choose another name, or wait for its exit"
                )
            }
            Self::LimitReached(reached) => write!(f, "{reached}"),
            Self::ZeroCapacity => f.write_str("mailbox capacity is 0: set it to at least 1"),
            Self::ShuttingDown { parent } => write!(f, "{parent} is shutting down or has ended, so it starts no further child"),
        }
    }
}

impl core::error::Error for Refusal {}

impl From<NameError> for Refusal {
    fn from(error: NameError) -> Self {
        Self::Name(error)
    }
}

/// Creates a node below `parent` that is not in the parent's child table yet.
#[inline(always)]
pub(crate) fn new_node(tree: &Tree, parent: &Arc<dyn Member>, name: Option<&str>) -> Result<Node, Refusal> {
    name.map_or(Ok(()), Name::check)?;
    if tree.seal.is_sealed() {
        return Err(Refusal::LimitReached(parent.node().refuse(Limit::Members, 0)));
    }
    let id = tree.next_id();
    let parent = NodeParent::Member(Arc::clone(parent));
    Ok(Node::new(parent, id, name.map_or(Name::generated(id), Name::unchecked)))
}

/// Adds a member to its parent's child table. Returns true if the parent has a strategy, whose
/// `before_start` hook is due.
#[inline]
pub(crate) fn adopt(parent: &Arc<dyn Member>, child: Arc<dyn Member>) -> Result<bool, Refusal> {
    let node = parent.node();
    node.adopt(child).map_err(|(error, child)| refusal(node, error, &child))
}

#[cold]
fn refusal(parent: &Node, error: AdoptError, child: &Arc<dyn Member>) -> Refusal {
    let parent = parent.path();
    match error {
        AdoptError::ShuttingDown => Refusal::ShuttingDown { parent },
        AdoptError::NameTaken => Refusal::NameTaken { name: child.node().name.to_string(), parent },
    }
}
