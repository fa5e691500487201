//! [`Cause`] and [`Exit`]: why a member was cancelled, and how a member ended.

use crate::base::reason::BoxError;
use crate::base::sync::{Arc, unsize};
use crate::events::failure::FailureInfo;
use alloc::string::String;
use core::error::Error;
use core::fmt;

/// Why a member or token was cancelled.
///
/// The first cause wins. It travels down the tree unchanged and never changes afterwards.
///
/// # Examples
///
/// ```
/// use pleach::prelude::*;
/// use pleach::runtime::Dispatcher;
///
/// let sim = Dispatcher::seeded(1);
/// let token = CancelToken::root(sim.runtime());
/// token.cancel("disk full");
/// token.cancel("too late: the first cause wins");
/// assert_eq!(token.cause(), Some(Cause::from("disk full")));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// A cancel without a reason, such as `token.cancel(())`.
    Cancelled,
    /// A deadline passed before the work was done.
    DeadlineExceeded,
    /// The owner, such as a scope handle, was dropped.
    Dropped,
    /// A related member failed; the failure has the details.
    Failed(FailureInfo),
    /// A cancel with a text as the reason.
    Because(Arc<str>),
    /// A cancel with an error as the reason; [`Cause::error`] returns it by its type.
    Error(Arc<dyn Error + Send + Sync>),
}

impl Cause {
    /// Creates a cause that carries `error`.
    ///
    /// ```
    /// use pleach::Cause;
    ///
    /// #[derive(Debug, PartialEq)]
    /// struct QuotaExceeded { tenant: u32 }
    /// # impl std::fmt::Display for QuotaExceeded {
    /// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { write!(f, "quota of {}", self.tenant) }
    /// # }
    /// # impl std::error::Error for QuotaExceeded {}
    ///
    /// // Passed to `scope.cancel(..)`, it is the cause in every exit below that scope.
    /// let cause = Cause::from_error(QuotaExceeded { tenant: 7 });
    /// assert_eq!(cause.error::<QuotaExceeded>(), Some(&QuotaExceeded { tenant: 7 }));
    /// ```
    pub fn from_error(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Error(unsize!(Arc::new(error) => dyn Error + Send + Sync))
    }

    /// Returns the error behind this cause if it is a `T`: the error passed to the cancel, or the
    /// error of the failure.
    pub fn error<T: Error + 'static>(&self) -> Option<&T> {
        match self {
            Self::Error(error) => error.downcast_ref(),
            Self::Failed(failure) => failure.error(),
            _ => None,
        }
    }

    /// Returns the failure behind this cause, if it is [`Cause::Failed`].
    pub fn failure(&self) -> Option<&FailureInfo> {
        match self {
            Self::Failed(failure) => Some(failure),
            _ => None,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("cancelled"),
            Self::DeadlineExceeded => f.write_str("deadline exceeded"),
            Self::Dropped => f.write_str("its owner was dropped"),
            Self::Failed(failure) => write!(f, "{failure}"),
            Self::Because(reason) => f.write_str(reason),
            Self::Error(error) => write!(f, "{error}"),
        }
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Failed(failure) => Some(failure),
            Self::Error(error) => Some(&**error),
            _ => None,
        }
    }
}

/// Two causes are equal if they are of the same kind and carry the same text, or the identical
/// failure or error.
impl PartialEq for Cause {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cancelled, Self::Cancelled)
            | (Self::DeadlineExceeded, Self::DeadlineExceeded)
            | (Self::Dropped, Self::Dropped) => true,
            (Self::Failed(a), Self::Failed(b)) => a.is_same_as(b),
            (Self::Because(a), Self::Because(b)) => a == b,
            (Self::Error(a), Self::Error(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// A cancel without a reason: `token.cancel(())`.
impl From<()> for Cause {
    fn from((): ()) -> Self {
        Self::Cancelled
    }
}

impl From<&str> for Cause {
    fn from(reason: &str) -> Self {
        Self::Because(reason.into())
    }
}

impl From<String> for Cause {
    fn from(reason: String) -> Self {
        Self::Because(reason.into())
    }
}

impl From<FailureInfo> for Cause {
    fn from(failure: FailureInfo) -> Self {
        Self::Failed(failure)
    }
}

impl From<BoxError> for Cause {
    fn from(error: BoxError) -> Self {
        Self::Error(error.into())
    }
}

/// How a member of the tree ended.
///
/// # Examples
///
/// ```
/// use pleach::prelude::*;
/// use pleach::BoxError;
/// use pleach::runtime::Dispatcher;
/// use pleach::system::System;
///
/// let sim = Dispatcher::seeded(1);
/// let system = System::builder("shop", sim.runtime()).build().unwrap();
/// let props = Props::from_fn(|| (), |_, _: u32| Ok::<(), BoxError>(()));
/// let actor = system.spawn("till", props).unwrap();
/// actor.stop();
/// let exit = sim.simulate(actor.exited()).unwrap();
/// assert_eq!(exit, Exit::Stopped);
/// assert!(exit.is_clean());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Exit {
    /// It was stopped: it finished the current message and took no further one. A task that returns
    /// on its own ends with [`Exit::Closed`].
    Stopped,
    /// Its input ended and all of it was handled.
    Closed,
    /// It was cancelled and dropped at its next await, or at the end of its cancel grace.
    Cancelled(Cause),
    /// It was cancelled and returned within its cancel grace
    /// ([`Launch::cancel_grace`](crate::Launch::cancel_grace)).
    TidiedUp(Cause),
    /// It failed, and its supervisor did not restart it.
    Failed(FailureInfo),
}

impl Exit {
    /// Returns whether the member ended normally: stopped or closed.
    pub fn is_clean(&self) -> bool {
        matches!(self, Self::Stopped | Self::Closed)
    }

    /// Returns the failure, if the member failed.
    pub fn failure(&self) -> Option<&FailureInfo> {
        match self {
            Self::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    /// Returns the cause with which the tokens below this member are cancelled.
    pub(crate) fn cause(&self) -> Cause {
        match self {
            Self::Stopped | Self::Closed => Cause::Cancelled,
            Self::Cancelled(cause) | Self::TidiedUp(cause) => cause.clone(),
            Self::Failed(failure) => Cause::Failed(failure.clone()),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("stopped"),
            Self::Closed => f.write_str("closed"),
            Self::Cancelled(cause) => write!(f, "cancelled: {cause}"),
            Self::TidiedUp(cause) => write!(f, "cancelled, and tidied up: {cause}"),
            Self::Failed(failure) => write!(f, "failed: {failure}"),
        }
    }
}

impl PartialEq for Exit {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Stopped, Self::Stopped) | (Self::Closed, Self::Closed) => true,
            (Self::Cancelled(a), Self::Cancelled(b)) | (Self::TidiedUp(a), Self::TidiedUp(b)) => a == b,
            (Self::Failed(a), Self::Failed(b)) => a.is_same_as(b),
            _ => false,
        }
    }
}
