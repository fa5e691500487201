//! `Error`: one type for `main` and for `?`, made from every error here. Payloads (messages, props, futures) are dropped.

use pleach_core::{
    Actor, AskError, BlockingError, Cause, ChildError, DispatchError, Elapsed, EndedUnasked, Exit, FailureInfo, GoError,
    GroupClosed, GroupError, LaunchError, LookupError, MapError, MountError, NameError, NotStarted, PathError, PoolError,
    RaceError, Refusal, SendError, ShutdownError, SpawnError, Stalled, StashFull, TaskError, Unreceived, WaitError,
};
#[cfg(feature = "graph")]
use pleach_graph::{
    CheckpointError, CompileError, EffectError, FanOutTimeout, MergeError, MismatchError, NodeError, PanicError, ResumeError,
    RouterError, RunError, RunFault, StartError, TellError, store::StoreError,
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
    /// A message was not put aside.
    Stash(StashFull<()>),
    /// An item that was produced was not received.
    Unreceived(Unreceived<()>),
    /// A task took too long.
    Elapsed(Elapsed),
    /// A permanent child ended unasked.
    EndedUnasked(EndedUnasked),
    /// A simulation could not go on.
    Stalled(Stalled),
    /// A graph did not compile.
    #[cfg(feature = "graph")]
    Compile(CompileError),
    /// A run of a graph did not come to its end, or a worker was not started.
    #[cfg(feature = "graph")]
    Run(RunFault),
    /// A run was not told something.
    #[cfg(feature = "graph")]
    Tell(TellError),
    /// An effect or a wait of a node was refused.
    #[cfg(feature = "graph")]
    Effect(EffectError),
    /// A store did not do what it was asked.
    #[cfg(feature = "graph")]
    Store(StoreError),
    /// There is no runtime to run on: call this inside Tokio, or give the builder a runtime.
    NoRuntime,
    /// The Tokio runtime has no timers: build it with `enable_time` or `enable_all`.
    #[cfg(feature = "tokio")]
    WithoutTime,
}

impl Error {
    /// The error that it was made of.
    fn precise(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(match self {
            Self::Refused(error) => error,
            Self::Pool(error) => error,
            Self::Group(error) => error,
            Self::Go(error) => error,
            Self::Task(error) => error,
            Self::Map(error) => error,
            Self::Race(error) => error,
            Self::Send(error) => error,
            Self::Ask(error) => error,
            Self::Wait(error) => error,
            Self::Shutdown(error) => error,
            Self::Child(error) => error,
            Self::Lookup(error) => error,
            Self::Path(error) => error,
            Self::Failed(error) => error,
            Self::Cancelled(error) => error,
            Self::Stash(error) => error,
            Self::Unreceived(error) => error,
            Self::Elapsed(error) => error,
            Self::EndedUnasked(error) => error,
            Self::Stalled(error) => error,
            #[cfg(feature = "graph")]
            Self::Compile(error) => error,
            #[cfg(feature = "graph")]
            Self::Run(error) => error,
            #[cfg(feature = "graph")]
            Self::Tell(error) => error,
            #[cfg(feature = "graph")]
            Self::Effect(error) => error,
            #[cfg(feature = "graph")]
            Self::Store(error) => error,
            #[cfg(feature = "tokio")]
            Self::WithoutTime => &crate::NoRuntime::WithoutTime,
            Self::NoRuntime => return None,
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.precise() {
            Some(error) => write!(f, "{error}"),
            None => f.write_str("there is no runtime to run on: call this inside Tokio, or give the builder one"),
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
        self.precise()
    }
}

macro_rules! from {
    ($($source:ty => $variant:ident $(($inner:path))?),* $(,)?) => {
        $(impl From<$source> for Error {
            fn from(error: $source) -> Self {
                Self::$variant($($inner)?(error))
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
    Elapsed => Elapsed,
    EndedUnasked => EndedUnasked,
    Stalled => Stalled,
);

#[cfg(feature = "graph")]
from!(
    CompileError => Compile,
    RunFault => Run,
    NodeError => Run(RunFault::Node),
    PanicError => Run(RunFault::Panic),
    RouterError => Run(RunFault::Router),
    MergeError => Run(RunFault::Merge),
    FanOutTimeout => Run(RunFault::FanOutTimeout),
    StartError => Run(RunFault::Start),
    CheckpointError => Run(RunFault::Checkpoint),
    MismatchError => Run(RunFault::Mismatch),
    ResumeError => Run(RunFault::Resume),
    TellError => Tell,
    EffectError => Effect,
    StoreError => Store,
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

impl<M> From<DispatchError<M>> for Error {
    fn from(error: DispatchError<M>) -> Self {
        match error {
            DispatchError::Send(error) => error.into(),
            DispatchError::Lookup { why, .. } => why.into(),
        }
    }
}

impl<A: Actor> From<SpawnError<A>> for Error {
    fn from(error: SpawnError<A>) -> Self {
        Self::Refused(error.why)
    }
}

impl<A: Actor> From<NotStarted<A>> for Error {
    fn from(error: NotStarted<A>) -> Self {
        match error {
            NotStarted::Refused(error) => error.into(),
            NotStarted::Ended { exit, .. } => Self::of_exit(exit),
            _ => Self::Cancelled(Cause::Cancelled),
        }
    }
}

impl From<MountError> for Error {
    fn from(error: MountError) -> Self {
        Self::Refused(error.why)
    }
}

impl From<BlockingError> for Error {
    fn from(error: BlockingError) -> Self {
        match error {
            BlockingError::Refused(why) => why.into(),
            BlockingError::Ended(exit) => Self::of_exit(exit),
            _ => Self::Cancelled(Cause::Cancelled),
        }
    }
}

impl Error {
    /// Something ended before it gave what was awaited: why.
    fn of_exit(exit: Exit) -> Self {
        match exit {
            Exit::Failed(failure) => Self::Failed(failure),
            Exit::Cancelled(cause) | Exit::TidiedUp(cause) => Self::Cancelled(cause),
            _ => Self::Cancelled(Cause::Cancelled),
        }
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

impl<M> From<StashFull<M>> for Error {
    fn from(_: StashFull<M>) -> Self {
        Self::Stash(StashFull(()))
    }
}

impl<T> From<Unreceived<T>> for Error {
    fn from(_: Unreceived<T>) -> Self {
        Self::Unreceived(Unreceived(()))
    }
}

#[cfg(feature = "graph")]
impl<S> From<RunError<S>> for Error {
    fn from(error: RunError<S>) -> Self {
        Self::Run(error.into_fault())
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
