//! Seals a tree: everything that its members will need is allocated now, and later members are
//! refused.
//!
//! Each member reserves its own memory ([`Member::reserve`]), and `node::reserve` that of its node.

use crate::base::sync::Arc;
use crate::ids::path::ActorPath;
use crate::tree::member::Member;
use crate::tree::supervision::judge;
use core::fmt;

/// Why a system was not sealed. It names the first member that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SealError {
    /// The mailbox has no capacity limit.
    UnboundedMailbox {
        /// The actor that owns the mailbox.
        path: ActorPath,
    },
    /// The mailbox is larger than one piece of memory that a mailbox uses.
    MailboxTooLarge {
        /// The actor that owns the mailbox.
        path: ActorPath,
        /// Its capacity.
        capacity: usize,
        /// The largest capacity for its message type.
        capacity_max: usize,
    },
}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnboundedMailbox { path } => {
                write!(f, "the system was not sealed: the mailbox of {path} is unbounded; give it a capacity")
            }
            Self::MailboxTooLarge { path, capacity, capacity_max } => write!(
                f,
                "the system was not sealed: the mailbox of {path} holds {capacity} messages, and at most {capacity_max} can \
                 be reserved; give it a smaller capacity"
            ),
        }
    }
}

impl core::error::Error for SealError {}

/// Checks all members from `top` down, and then reserves their memory. If one of them cannot be
/// reserved, none is.
pub(crate) fn reserve_all(top: &Arc<dyn Member>) -> Result<(), SealError> {
    let mut members = alloc::vec![Arc::clone(top)];
    let mut at = 0;
    while at < members.len() {
        members[at].check_reserve()?;
        let children = members[at].node().children();
        members.extend(children);
        at += 1;
    }
    for member in members {
        let node = member.node();
        node.reserve(&judge::rules_of(node), &node.children());
        member.reserve();
    }
    Ok(())
}
