//! [`AskError`]: why an ask got no answer.

use crate::base::sync::Arc;
use crate::events::cause::{Cause, Exit};
use crate::events::failure::FailureInfo;
use crate::events::limit::LimitReached;
use crate::ids::path::ActorPath;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

/// Why an ask got no answer.
///
/// # Examples
/// ```
/// use pleach::prelude::*;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), pleach::Error> {
/// let system = ActorSystem::new("shop")?;
/// let props = Props::from_fn(|| (), |(), _: Reply<u32>| Err("no change left"));
/// let till = system.spawn("till", props)?;
/// match till.ask(|reply| reply).await {
///     Err(AskError::Failed(failure)) => assert_eq!(failure.reason().to_string(), "no change left"),
///     other => panic!("the handler fails, but: {other:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AskError {
    /// The actor has ended, or accepts no more messages.
    Closed,
    /// The handler finished and dropped the `Reply` without an answer.
    Dropped,
    /// The timeout of the ask passed.
    TimedOut(Duration),
    /// The actor was cancelled before it answered.
    Cancelled(Cause),
    /// The actor failed before or while it handled the question.
    Failed(FailureInfo),
    /// The system is sealed, and the actor has no room for a further ask.
    LimitReached(Arc<LimitReached>),
    /// The ask closed a wait cycle: each of these actors waits for the next, and the last waits for
    /// the first.
    Cycle(Vec<ActorPath>),
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("no answer: the actor has ended or accepts no more messages"),
            Self::Dropped => f.write_str("no answer: the handler dropped the reply"),
            Self::TimedOut(after) => write!(f, "no answer within {after:?}"),
            Self::Cancelled(cause) => write!(f, "no answer: the actor was cancelled: {cause}"),
            Self::Failed(failure) => write!(f, "no answer: {failure}"),
            Self::LimitReached(reached) => write!(f, "no answer: {reached}"),
            Self::Cycle(paths) => {
                f.write_str("no answer: the ask waits for itself (")?;
                for path in paths {
                    write!(f, "{path} → ")?;
                }
                match paths.first() {
                    Some(first) => write!(f, "{first}); answer from another task, or set a timeout"),
                    None => f.write_str(")"),
                }
            }
        }
    }
}

impl core::error::Error for AskError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Failed(failure) => Some(failure),
            Self::Cancelled(cause) => Some(cause),
            _ => None,
        }
    }
}

impl From<Exit> for AskError {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Stopped | Exit::Closed => Self::Closed,
            Exit::Cancelled(cause) | Exit::TidiedUp(cause) => Self::Cancelled(cause),
            Exit::Failed(failure) => Self::Failed(failure),
        }
    }
}
