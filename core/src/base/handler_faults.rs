//! [`HandlerFaults`]: decides which messages of actors fail, for tests. The simulator provides it.

use alloc::string::String;
use core::fmt;

/// Decides which messages of actors fail, for tests of what happens after a failure.
///
/// A runtime provides it ([`Runtime::handler_faults`](crate::Runtime::handler_faults)) to each tree
/// that is made on it. The simulator does so if a test asks for faults; no other runtime does. In a
/// tree with it, each message takes a slower path. In all other trees a message costs nothing more.
pub trait HandlerFaults: Send + Sync + 'static {
    /// Called before the handler of each message, with the path of the actor and the name of its
    /// message type. Returns the fault of this message, or `None`.
    ///
    /// It runs inside of the actor's task and must return quickly. A panic in it is a failure of
    /// the actor.
    fn next_fault(&self, actor: &dyn fmt::Display, message_type: &'static str) -> Option<HandlerFault>;
}

/// How the handler of one message fails; returned by [`HandlerFaults::next_fault`]. The text is the
/// reason of the failure.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandlerFault {
    /// The handler is not run. The message fails as if it had returned an error with this text.
    Fail(String),
    /// The handler is not run. The actor panics with this text.
    CrashBefore(String),
    /// The handler runs to its end. If it returns `Ok`, the actor panics with this text.
    CrashAfter(String),
}
