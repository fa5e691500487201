//! Adding a member to the tree: a new node below a parent, or the [`Refusal`] that says why not.

use crate::ids::name::{Name, NameError};
use crate::ids::path::ActorPath;
use crate::tree::Tree;
use crate::tree::member::Member;
use crate::tree::node::children::Refused;
use crate::tree::node::{Node, NodeParent};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;

/// Why something was not started.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The name cannot stand in a path.
    Name(NameError),
    /// A live sibling has this name, or one that has not quite ended.
    NameTaken {
        /// The name.
        name: String,
        /// Under whom.
        parent: ActorPath,
    },
    /// The mailbox was given a capacity of 0, so it could never take a message.
    NoCapacity,
    /// Its parent has begun to shut down, or has ended.
    ShuttingDown {
        /// The parent.
        parent: ActorPath,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(error) => write!(f, "{error}"),
            Self::NameTaken { name, parent } => {
                write!(f, "{parent} has a live child called {name:?}: choose another name, or wait for its exit")
            }
            Self::NoCapacity => f.write_str("a mailbox with a capacity of 0 takes no message: give it at least 1"),
            Self::ShuttingDown { parent } => write!(f, "{parent} is shutting down or has ended, and starts nothing more"),
        }
    }
}

impl core::error::Error for Refusal {}

impl From<NameError> for Refusal {
    fn from(error: NameError) -> Self {
        Self::Name(error)
    }
}

/// A node below `parent`, in its tree and not yet in its table.
#[inline(always)]
pub(crate) fn new_node(tree: &Tree, parent: &Arc<dyn Member>, name: Option<&str>) -> Result<Node, Refusal> {
    name.map_or(Ok(()), Name::check)?;
    let id = tree.next_id();
    let above = NodeParent::Member(Arc::clone(parent));
    Ok(Node::new(above, id, name.map_or(Name::made(id), Name::unchecked)))
}

/// Puts a member into its parent's table. True if the parent has a strategy that may want to hear of it.
#[inline]
pub(crate) fn adopt(parent: &Arc<dyn Member>, child: Arc<dyn Member>) -> Result<bool, Refusal> {
    let above = parent.node();
    above.adopt(child).map_err(|(refused, child)| refusal(above, refused, &child))
}

#[cold]
fn refusal(parent: &Node, refused: Refused, child: &Arc<dyn Member>) -> Refusal {
    let parent = parent.path();
    match refused {
        Refused::ShuttingDown => Refusal::ShuttingDown { parent },
        Refused::NameTaken => Refusal::NameTaken { name: child.node().name.to_string(), parent },
    }
}
