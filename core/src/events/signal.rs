//! [`Signal`]: what an actor's `signal` hook receives.

use crate::events::cause::Exit;
use crate::events::failure::FailureInfo;
use crate::ids::path::{ActorId, ActorPath};

/// A notification that an actor receives in its `signal` hook, outside of its mailbox.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Signal {
    /// A watched member or a child has ended.
    Terminated(Terminated),
    /// A child failed, and its supervision has handled the failure.
    Failure(FailureInfo),
    /// A failure of a descendant was escalated to this actor.
    Escalate(FailureInfo),
}

/// The end of a watched member or a child. A restart is not an end.
#[derive(Clone, Debug)]
pub struct Terminated {
    /// The id of the member that ended.
    pub id: ActorId,
    /// The path of the member that ended.
    pub path: ActorPath,
    /// How the member came to its end.
    pub exit: Exit,
}
