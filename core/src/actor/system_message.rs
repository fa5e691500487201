//! `SystemMessage` and `Signal`: the control lane, and what of it user code hears.

use crate::actor::actor_ref::AnyRef;
use crate::events::cause::Exit;
use crate::events::failure::FailureInfo;
use crate::ids::path::{ActorId, ActorPath};

/// Something for the control lane, which is served before user messages and never full.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SystemMessage {
    /// Finish the message in hand and end.
    Stop,
    /// Start afresh from the factory; the mailbox stays.
    Restart,
    /// Serve control only, until resumed.
    Suspend,
    /// Serve messages again.
    Resume,
    /// Tell this watcher when you end.
    Watch(AnyRef),
    /// Do not tell this watcher.
    Unwatch(AnyRef),
    /// Something you watch, or a child of yours, has ended.
    Terminated(Terminated),
    /// A child of yours failed; its supervision has dealt with it.
    Failure(FailureInfo),
    /// A failure below you was handed up.
    Escalate(FailureInfo),
}

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
