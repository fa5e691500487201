//! `Cause` and `Exit`: why something was cancelled, and how it ended.

use crate::base::reason::BoxError;
use crate::events::failure::FailureInfo;
use alloc::string::String;
use alloc::sync::Arc;
use core::error::Error;
use core::fmt;

/// Why something was cancelled. The first cause wins, goes down the tree unchanged, and never changes afterwards.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// Somebody asked for it and gave no reason.
    Cancelled,
    /// A deadline passed.
    DeadlineExceeded,
    /// Whoever owned it was dropped.
    Dropped,
    /// Something that it belonged with failed; the failure says what and where.
    Failed(FailureInfo),
    /// Somebody asked for it, in words.
    Because(Arc<str>),
    /// Somebody asked for it and gave an error as the reason; [`Cause::error`] gives it back by its type.
    Error(Arc<dyn Error + Send + Sync>),
}

impl Cause {
    /// A cause that carries `error`.
    ///
    /// ```
    /// use pleach::Cause;
    ///
    /// #[derive(Debug, PartialEq)]
    /// struct QuotaExceeded { tenant: u32 }
    /// # impl std::fmt::Display for QuotaExceeded {
    /// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { write!(f, "quota of tenant {} exceeded", self.tenant) }
    /// # }
    /// # impl std::error::Error for QuotaExceeded {}
    ///
    /// // As given to `scope.cancel(..)` and found again in every exit below that scope:
    /// let cause = Cause::from_error(QuotaExceeded { tenant: 7 });
    /// assert_eq!(cause.error::<QuotaExceeded>(), Some(&QuotaExceeded { tenant: 7 }));
    /// ```
    pub fn from_error(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Error(Arc::new(error))
    }

    /// The error behind this cause as a `T`: the one that a cancel was given, or that something failed with.
    pub fn error<T: Error + 'static>(&self) -> Option<&T> {
        match self {
            Self::Error(error) => error.downcast_ref(),
            Self::Failed(failure) => failure.error(),
            _ => None,
        }
    }

    /// The failure behind this cause, if it was one.
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

/// Two causes are equal when they are of the same kind and carry the same words, or the very same failure or error.
impl PartialEq for Cause {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cancelled, Self::Cancelled)
            | (Self::DeadlineExceeded, Self::DeadlineExceeded)
            | (Self::Dropped, Self::Dropped) => true,
            (Self::Failed(a), Self::Failed(b)) => a.same(b),
            (Self::Because(a), Self::Because(b)) => a == b,
            (Self::Error(a), Self::Error(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// No cause given: `token.cancel(())`.
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

/// How something in the tree ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Exit {
    /// It was told to stop: the message in hand was finished and nothing further taken. A task that returns by itself ends
    /// [`Exit::Closed`].
    Stopped,
    /// Its input ended and all of it was handled.
    Closed,
    /// It was cancelled, and dropped at its next await, or at the end of its grace if it had one.
    Cancelled(Cause),
    /// It was cancelled, had a grace to tidy up in ([`Launch::cancel_grace`](crate::Launch::cancel_grace)), and came to its own end
    /// within it.
    TidiedUp(Cause),
    /// It failed, and its supervisor did not restart it.
    Failed(FailureInfo),
}

impl Exit {
    /// Whether it ended as it was meant to: stopped or closed.
    pub fn is_clean(&self) -> bool {
        matches!(self, Self::Stopped | Self::Closed)
    }

    /// The failure it ended with, if it failed.
    pub fn failure(&self) -> Option<&FailureInfo> {
        match self {
            Self::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    /// Why whatever hangs below its token is cancelled with it.
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
            (Self::Failed(a), Self::Failed(b)) => a.same(b),
            _ => false,
        }
    }
}
