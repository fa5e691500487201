//! `Error`: one type for `main` and for `?`, made from every error here. Payloads (messages, props, futures) are dropped.

use pleach_core::{
    Actor, AskError, Cause, ChildError, FailureInfo, GoError, GroupClosed, GroupError, LaunchError, LookupError, MapError,
    NameError, PathError, PoolError, RaceError, Refusal, SendError, ShutdownError, SpawnError, TaskError, WaitError,
};
use std::fmt;

/// Anything that can go wrong here, without the payload that the precise error gives back.
#[non_exhaustive]
pub enum Error {
    /// Something was not started.
    Refused(Refusal),
    /// A pool was not made, or not resized.
    Pool(PoolError),
    /// A group was not made.
    Group(GroupError),
    /// A task was not taken by a group.
    Go(GoError<()>),
    /// A task of a group gave no value.
    Task(TaskError),
    /// Not all items were mapped.
    Map(MapError),
    /// Nobody won a race.
    Race(RaceError),
    /// A message was not accepted.
    Send(SendError<()>),
    /// An ask got no answer.
    Ask(AskError),
    /// A wait for a scope did not end well.
    Wait(WaitError),
    /// A shutdown was not clean.
    Shutdown(ShutdownError),
    /// Nothing was done to a child.
    Child(ChildError),
    /// A lookup gave no actor.
    Lookup(LookupError),
    /// A text is no path.
    Path(PathError),
    /// Something failed.
    Failed(FailureInfo),
    /// Something was cancelled.
    Cancelled(Cause),
    /// A graph did not compile.
    #[cfg(feature = "graph")]
    Compile(pleach_graph::CompileError),
    /// A run of a graph did not come to its end.
    #[cfg(feature = "graph")]
    Run(pleach_graph::RunFault),
    /// A store did not do what it was asked.
    #[cfg(feature = "graph")]
    Store(pleach_graph::store::StoreError),
    /// There is no runtime to run on: call this inside Tokio, or give the builder a runtime.
    NoRuntime,
    /// The Tokio runtime has no timers: build it with `enable_time` or `enable_all`.
    #[cfg(feature = "tokio")]
    WithoutTime,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => write!(f, "{error}"),
            Self::Pool(error) => write!(f, "{error}"),
            Self::Group(error) => write!(f, "{error}"),
            Self::Go(error) => write!(f, "{error}"),
            Self::Task(error) => write!(f, "{error}"),
            Self::Map(error) => write!(f, "{error}"),
            Self::Race(error) => write!(f, "{error}"),
            Self::Send(error) => write!(f, "{error}"),
            Self::Ask(error) => write!(f, "{error}"),
            Self::Wait(error) => write!(f, "{error}"),
            Self::Shutdown(error) => write!(f, "{error}"),
            Self::Child(error) => write!(f, "{error}"),
            Self::Lookup(error) => write!(f, "{error}"),
            Self::Path(error) => write!(f, "{error}"),
            Self::Failed(error) => write!(f, "{error}"),
            Self::Cancelled(error) => write!(f, "{error}"),
            #[cfg(feature = "graph")]
            Self::Compile(error) => write!(f, "{error}"),
            #[cfg(feature = "graph")]
            Self::Run(error) => write!(f, "{error}"),
            #[cfg(feature = "graph")]
            Self::Store(error) => write!(f, "{error}"),
            Self::NoRuntime => f.write_str("there is no runtime to run on: call this inside Tokio, or give the builder one"),
            #[cfg(feature = "tokio")]
            Self::WithoutTime => write!(f, "{}", crate::NoRuntime::WithoutTime),
        }
    }
}

/// The same text as `Display`: it is what a `main` that returns this error shows.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Refused(error) => Some(error),
            Self::Pool(error) => Some(error),
            Self::Group(error) => Some(error),
            Self::Go(error) => Some(error),
            Self::Task(error) => Some(error),
            Self::Map(error) => Some(error),
            Self::Race(error) => Some(error),
            Self::Send(error) => Some(error),
            Self::Ask(error) => Some(error),
            Self::Wait(error) => Some(error),
            Self::Shutdown(error) => Some(error),
            Self::Child(error) => Some(error),
            Self::Lookup(error) => Some(error),
            Self::Path(error) => Some(error),
            Self::Failed(error) => Some(error),
            Self::Cancelled(error) => Some(error),
            #[cfg(feature = "graph")]
            Self::Compile(error) => Some(error),
            #[cfg(feature = "graph")]
            Self::Run(error) => Some(error),
            #[cfg(feature = "graph")]
            Self::Store(error) => Some(error),
            Self::NoRuntime => None,
            #[cfg(feature = "tokio")]
            Self::WithoutTime => None,
        }
    }
}

macro_rules! from {
    ($($source:ty => $variant:ident),* $(,)?) => {
        $(impl From<$source> for Error {
            fn from(error: $source) -> Self {
                Self::$variant(error)
            }
        })*
    };
}

from!(
    Refusal => Refused,
    PoolError => Pool,
    GroupError => Group,
    TaskError => Task,
    MapError => Map,
    RaceError => Race,
    AskError => Ask,
    ChildError => Child,
    WaitError => Wait,
    ShutdownError => Shutdown,
    LookupError => Lookup,
    PathError => Path,
    FailureInfo => Failed,
    Cause => Cancelled,
);

impl From<NameError> for Error {
    fn from(error: NameError) -> Self {
        Self::Refused(error.into())
    }
}

impl<M> From<SendError<M>> for Error {
    fn from(error: SendError<M>) -> Self {
        Self::Send(error.without_message())
    }
}

impl<A: Actor> From<SpawnError<A>> for Error {
    fn from(error: SpawnError<A>) -> Self {
        Self::Refused(error.why)
    }
}

impl<F> From<LaunchError<F>> for Error {
    fn from(error: LaunchError<F>) -> Self {
        Self::Refused(error.why)
    }
}

impl<F> From<GroupClosed<F>> for Error {
    fn from(closed: GroupClosed<F>) -> Self {
        Self::from(GoError::from(closed))
    }
}

impl<F> From<GoError<F>> for Error {
    fn from(error: GoError<F>) -> Self {
        Self::Go(error.without_task())
    }
}

#[cfg(feature = "graph")]
impl From<pleach_graph::CompileError> for Error {
    fn from(error: pleach_graph::CompileError) -> Self {
        Self::Compile(error)
    }
}

#[cfg(feature = "graph")]
impl<S> From<pleach_graph::RunError<S>> for Error {
    fn from(error: pleach_graph::RunError<S>) -> Self {
        Self::Run(error.into_fault())
    }
}

#[cfg(feature = "graph")]
impl From<pleach_graph::store::StoreError> for Error {
    fn from(error: pleach_graph::store::StoreError) -> Self {
        Self::Store(error)
    }
}

#[cfg(feature = "tokio")]
impl From<crate::NoRuntime> for Error {
    fn from(error: crate::NoRuntime) -> Self {
        match error {
            crate::NoRuntime::NotHere => Self::NoRuntime,
            crate::NoRuntime::WithoutTime => Self::WithoutTime,
        }
    }
}
