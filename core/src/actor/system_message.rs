//! `SystemMessage` and `Signal`: the control lane, and what of it user code hears.

use crate::events::failure::FailureInfo;
use crate::events::signal::Terminated;
use crate::tree::any_ref::AnyRef;

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
