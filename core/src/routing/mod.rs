//! Routing: one address for several actors.
//!
//! - [`pool`]: each message goes to one worker.
//! - [`topic`]: each message goes to every subscriber.
//!
//! Neither has a task or a queue of its own: a message goes directly into the mailbox of its
//! receiver.

pub(crate) mod pool;
pub(crate) mod topic;
