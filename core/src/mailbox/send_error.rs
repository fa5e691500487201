//! [`SendError`]: why a message was not accepted. It returns the message.

use crate::events::cause::Cause;
use crate::ids::path::ActorId;
use core::fmt;

/// The error of a send: the message was not accepted, and this returns it.
///
/// # Examples
/// ```
/// use pleach::BoxError;
/// use pleach::prelude::*;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), pleach::Error> {
/// let system = ActorSystem::new("shop")?;
/// let props = Props::from_fn(|| (), |(), _order: u32| Ok::<(), BoxError>(()));
/// let kitchen = system.spawn("kitchen", props)?;
/// kitchen.close();
/// match kitchen.tell(7) {
///     Err(SendError::Closed(order)) => assert_eq!(order, 7),
///     other => panic!("a closed actor accepts nothing, but: {other:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum SendError<M> {
    /// The mailbox is full. Wait for room with `send`, or choose another capacity or overflow rule.
    Full(M),
    /// The actor has ended, or it was closed and accepts no more messages.
    Closed(M),
    /// The mailbox of this actor is full, and its system is sealed: no send can wait for room.
    CannotWait(M, ActorId),
    /// The token passed to `or_cancel` was cancelled while the send waited for room.
    Cancelled(M, Cause),
    /// The message has a priority, but the mailbox has none. Enable them with
    /// `Mailbox::prioritised`.
    NoPriorities(M),
}

impl<M> SendError<M> {
    /// Returns the message that was not accepted.
    pub fn into_message(self) -> M {
        match self {
            Self::Full(message)
            | Self::Closed(message)
            | Self::NoPriorities(message)
            | Self::Cancelled(message, _)
            | Self::CannotWait(message, _) => message,
        }
    }

    /// Returns the same error without its message.
    pub fn without_message(self) -> SendError<()> {
        match self {
            Self::Full(_) => SendError::Full(()),
            Self::Closed(_) => SendError::Closed(()),
            Self::Cancelled(_, cause) => SendError::Cancelled((), cause),
            Self::NoPriorities(_) => SendError::NoPriorities(()),
            Self::CannotWait(_, actor) => SendError::CannotWait((), actor),
        }
    }
}

impl SendError<()> {
    /// Returns the same error with the message that was rejected.
    pub(crate) fn with_message<M>(self, message: M) -> SendError<M> {
        match self {
            Self::Full(()) => SendError::Full(message),
            Self::Closed(()) => SendError::Closed(message),
            Self::Cancelled((), cause) => SendError::Cancelled(message, cause),
            Self::NoPriorities(()) => SendError::NoPriorities(message),
            Self::CannotWait((), actor) => SendError::CannotWait(message, actor),
        }
    }
}

impl<M> fmt::Display for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(_) => f.write_str("the mailbox is full: wait with `send`, or set a larger capacity or an overflow rule"),
            Self::Closed(_) => f.write_str("the actor has ended or accepts no more messages"),
            Self::CannotWait(_, actor) => {
                write!(
                    f,
                    "the mailbox of actor {actor} is full, and the system is sealed, so no send can wait: try again later"
                )
            }
            Self::Cancelled(_, cause) => write!(f, "the send was cancelled while it waited for room: {cause}"),
            Self::NoPriorities(_) => f.write_str("the mailbox has no priorities: enable them with `Mailbox::prioritised`"),
        }
    }
}

/// Leaves out the message, which need not implement `Debug`.
impl<M> fmt::Debug for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(_) => f.write_str("Full(..)"),
            Self::Closed(_) => f.write_str("Closed(..)"),
            Self::CannotWait(_, actor) => write!(f, "CannotWait(.., {actor:?})"),
            Self::Cancelled(_, cause) => write!(f, "Cancelled(.., {cause:?})"),
            Self::NoPriorities(_) => f.write_str("NoPriorities(..)"),
        }
    }
}

impl<M> core::error::Error for SendError<M> {}
