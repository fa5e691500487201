//! Finds, stops and restarts a child by its name.

use crate::base::sync::Arc;
use crate::ids::name::Name;
use crate::ids::path::ActorPath;
use crate::tree::any_ref::AnyRef;
use crate::tree::member::{Member, StopMode};
use crate::tree::node::Node;
use alloc::string::{String, ToString};
use core::fmt;

pub(crate) fn child(parent: &Node, name: &str) -> Result<AnyRef, ChildError> {
    let found = Name::new(name).ok().and_then(|name| parent.child(&name));
    found.map(|member| AnyRef { member }).ok_or_else(|| ChildError::NotFound { name: name.to_string(), parent: parent.path() })
}

/// Returns the live member at `path` below `root`, whatever its kind. `None` for a path on another
/// machine.
pub(crate) fn descend(root: &Arc<dyn Member>, path: &ActorPath) -> Option<Arc<dyn Member>> {
    if path.node().is_some() {
        return None;
    }
    path.segments().iter().try_fold(Arc::clone(root), |member, name| member.node().child(name))
}

pub(crate) fn stop_child(parent: &Node, name: &str) -> Result<AnyRef, ChildError> {
    let child = child(parent, name)?;
    child.member.stop_with(&child.member, StopMode::Stop);
    Ok(child)
}

pub(crate) fn restart_child(parent: &Node, name: &str) -> Result<(), ChildError> {
    let child = child(parent, name)?;
    let path = child.path();
    if child.member.request_restart(&child.member) { Ok(()) } else { Err(ChildError::CannotRestart(path)) }
}

/// Why an operation on a child failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChildError {
    /// No live child has this name.
    NotFound {
        /// The name that was searched for.
        name: String,
        /// The path of the parent.
        parent: ActorPath,
    },
    /// The child has no props to restart from: it is a task or a scope.
    CannotRestart(ActorPath),
}

impl fmt::Display for ChildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { name, parent } => {
                write!(f, "{parent} has no live child called {name:?}: `children()` lists its children")
            }
            Self::CannotRestart(path) => {
                write!(f, "cannot restart {path}: only actors and supervisors have props to restart from")
            }
        }
    }
}

impl core::error::Error for ChildError {}
