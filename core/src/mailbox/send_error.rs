//! [`SendError`]: why a message was not accepted. It carries the message back.

use crate::events::cause::Cause;
use core::fmt;

/// A message that was not accepted, and why. The message comes back.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum SendError<M> {
    /// The mailbox is full. Use `send` to wait for room, or give the mailbox another capacity or overflow policy.
    Full(M),
    /// The actor has ended, or takes no more input.
    Closed(M),
    /// The token given to the send was cancelled while it waited for room.
    Cancelled(M, Cause),
    /// The message has a priority and the mailbox has none. Build it with `Mailbox::prioritised`.
    NoPriorities(M),
}

impl<M> SendError<M> {
    /// The message.
    pub fn into_message(self) -> M {
        match self {
            Self::Full(message) | Self::Closed(message) | Self::NoPriorities(message) | Self::Cancelled(message, _) => message,
        }
    }

    /// The same error without its message.
    pub fn without_message(self) -> SendError<()> {
        match self {
            Self::Full(_) => SendError::Full(()),
            Self::Closed(_) => SendError::Closed(()),
            Self::Cancelled(_, cause) => SendError::Cancelled((), cause),
            Self::NoPriorities(_) => SendError::NoPriorities(()),
        }
    }
}

impl SendError<()> {
    /// The same error with what was refused.
    pub(crate) fn with_message<M>(self, message: M) -> SendError<M> {
        match self {
            Self::Full(()) => SendError::Full(message),
            Self::Closed(()) => SendError::Closed(message),
            Self::Cancelled((), cause) => SendError::Cancelled(message, cause),
            Self::NoPriorities(()) => SendError::NoPriorities(message),
        }
    }
}

impl<M> fmt::Display for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(_) => f.write_str("the mailbox is full: wait with `send`, or give it more room or an overflow policy"),
            Self::Closed(_) => f.write_str("the actor has ended or takes no more input"),
            Self::Cancelled(_, cause) => write!(f, "cancelled while waiting for room: {cause}"),
            Self::NoPriorities(_) => f.write_str("the mailbox has no priorities: build it with `Mailbox::prioritised`"),
        }
    }
}

/// Without the message, which need not be `Debug`.
impl<M> fmt::Debug for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(_) => f.write_str("Full(..)"),
            Self::Closed(_) => f.write_str("Closed(..)"),
            Self::Cancelled(_, cause) => write!(f, "Cancelled(.., {cause:?})"),
            Self::NoPriorities(_) => f.write_str("NoPriorities(..)"),
        }
    }
}

impl<M> core::error::Error for SendError<M> {}
