//! [`Signal`]: what happens around an actor, as its `signal` hook sees it.

use crate::events::cause::Exit;
use crate::events::failure::FailureInfo;
use crate::ids::path::{ActorId, ActorPath};

/// The part of the control lane that an actor's `signal` hears.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Signal {
    /// Something it watches, or a child of its own, has ended.
    Terminated(Terminated),
    /// A child failed, and its supervision has dealt with it.
    Failure(FailureInfo),
    /// A failure below was handed up.
    Escalate(FailureInfo),
}

/// Something has ended for good. A restart is no end.
#[derive(Clone, Debug)]
pub struct Terminated {
    /// Who.
    pub id: ActorId,
    /// Where it stood.
    pub path: ActorPath,
    /// How it ended.
    pub exit: Exit,
}
