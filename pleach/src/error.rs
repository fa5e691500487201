//! [`Error`]: one error type for `main` and `?`. Every error of pleach converts into it.

#[cfg(all(feature = "inspect", unix))]
use crate::inspect::{ClientError, InspectError};
use pleach_core::{
    ActionError, Actor, AskError, BlockingError, BuildError, Cause, ChildError, DispatchError, Elapsed, Exit, FailureInfo,
    GoError, GroupClosed, GroupError, LaunchError, LookupError, MapError, MountError, NameError, PathError, PoolError,
    RaceError, Refusal, SendError, ShutdownError, SnapshotError, SpawnError, SpawnStartedError, Stalled, StashFull, TaskError,
    UnexpectedExit, Unreceived, Unsent, WaitError,
};
#[cfg(feature = "graph")]
use pleach_graph::{
    CheckpointError, CompileError, DeployError, EffectError, FanOutTimeout, MergeError, MismatchError, NodeError, PanicError,
    PatchError, ResumeError, RouterError, RunControlError, RunError, RunFault, StartError, store::StoreError,
};
use std::fmt;

/// Any error of pleach, for `main` and `?`.
///
/// Every specific error converts into it. The conversion drops what the specific error returns to
/// its caller: a message, props or a future. `Debug` prints the same text as `Display`, because
/// that is what `main` shows.
#[non_exhaustive]
pub enum Error {
    /// An actor, task, scope or system was not started.
    Refused(Refusal),
    /// A pool was not built or not resized.
    Pool(PoolError),
    /// A group was not built by its builder.
    Group(GroupError),
    /// A group did not accept a task.
    Go(GoError<()>),
    /// A task of a group ended without a value.
    Task(TaskError),
    /// `try_map_all` or `try_map_all_in_order` stopped before all items were mapped.
    Map(MapError),
    /// No task of a race succeeded.
    Race(RaceError),
    /// A mailbox did not accept a message.
    Send(SendError<()>),
    /// An ask ended without a reply.
    Ask(AskError),
    /// A wait for a scope failed or timed out.
    Wait(WaitError),
    /// A shutdown timed out or found a failure.
    Shutdown(ShutdownError),
    /// A child was not found, or cannot be restarted.
    Child(ChildError),
    /// A lookup by path found no matching actor.
    Lookup(LookupError),
    /// A snapshot found no member at its path.
    Snapshot(SnapshotError),
    /// A member cannot follow an order, such as a restart.
    Action(ActionError),
    /// A text does not parse as an actor path.
    Path(PathError),
    /// A member of the tree failed.
    Failed(FailureInfo),
    /// A member of the tree was cancelled.
    Cancelled(Cause),
    /// The stash of an actor is full.
    Stash(StashFull<()>),
    /// The receiver of a producer has gone.
    Unreceived(Unreceived<()>),
    /// A timeout passed before a future was ready.
    Elapsed(Elapsed),
    /// A permanent child ended without an order of its supervisor.
    UnexpectedExit(UnexpectedExit),
    /// A simulation stalled: nothing was ready and no timer was set.
    Stalled(Stalled),
    /// A graph has faults and did not compile.
    #[cfg(feature = "graph")]
    Compile(CompileError),
    /// A run of a graph failed, or a worker was not started.
    #[cfg(feature = "graph")]
    Run(RunFault),
    /// A signal, answer or command did not reach its run.
    #[cfg(feature = "graph")]
    RunControl(RunControlError),
    /// An effect or a wait inside a node was rejected.
    #[cfg(feature = "graph")]
    Effect(EffectError),
    /// A store rejected or failed an operation.
    #[cfg(feature = "graph")]
    Store(StoreError),
    /// The inspection socket was not opened.
    #[cfg(all(feature = "inspect", unix))]
    Inspect(InspectError),
    /// A request to an inspection socket failed.
    #[cfg(all(feature = "inspect", unix))]
    InspectClient(ClientError),
    /// A deploy check failed, or found runs that the program would not serve.
    #[cfg(feature = "graph")]
    Deploy(DeployError),
    /// A JSON patch does not fit its text.
    #[cfg(feature = "graph")]
    Patch(PatchError),
    /// An input or output operation of the program failed.
    Io(std::io::Error),
    /// No runtime was found: call this inside Tokio, or pass a runtime to the builder.
    NoRuntime,
    /// The Tokio runtime has no timers: build it with `enable_time` or `enable_all`.
    #[cfg(feature = "tokio")]
    WithoutTime,
}

impl Error {
    /// The specific error inside.
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
            Self::Snapshot(error) => error,
            Self::Action(error) => error,
            Self::Path(error) => error,
            Self::Failed(error) => error,
            Self::Cancelled(error) => error,
            Self::Stash(error) => error,
            Self::Unreceived(error) => error,
            Self::Elapsed(error) => error,
            Self::UnexpectedExit(error) => error,
            Self::Stalled(error) => error,
            #[cfg(all(feature = "inspect", unix))]
            Self::Inspect(error) => error,
            #[cfg(all(feature = "inspect", unix))]
            Self::InspectClient(error) => error,
            Self::Io(error) => error,
            #[cfg(feature = "graph")]
            Self::Compile(error) => error,
            #[cfg(feature = "graph")]
            Self::Run(error) => error,
            #[cfg(feature = "graph")]
            Self::RunControl(error) => error,
            #[cfg(feature = "graph")]
            Self::Effect(error) => error,
            #[cfg(feature = "graph")]
            Self::Store(error) => error,
            #[cfg(feature = "graph")]
            Self::Deploy(error) => error,
            #[cfg(feature = "graph")]
            Self::Patch(error) => error,
            #[cfg(feature = "tokio")]
            Self::WithoutTime => &crate::runtime::NoRuntime::WithoutTime,
            Self::NoRuntime => return None,
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.precise() {
            Some(error) => write!(f, "{error}"),
            None => {
                f.write_str("no runtime found: call this inside a Tokio runtime, or pass one to the builder with `runtime`")
            }
        }
    }
}

/// Prints the same text as `Display`, because `main` shows `Debug`.
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
    SnapshotError => Snapshot,
    ActionError => Action,
    PathError => Path,
    FailureInfo => Failed,
    Cause => Cancelled,
    Elapsed => Elapsed,
    UnexpectedExit => UnexpectedExit,
    Stalled => Stalled,
    std::io::Error => Io,
);

#[cfg(all(feature = "inspect", unix))]
from!(
    InspectError => Inspect,
    ClientError => InspectClient,
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
    RunControlError => RunControl,
    EffectError => Effect,
    StoreError => Store,
    DeployError => Deploy,
    PatchError => Patch,
);

impl From<BuildError> for Error {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Name(error) => error.into(),
            _ => Self::NoRuntime,
        }
    }
}

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

impl<I: Iterator> From<Unsent<I>> for Error {
    fn from(error: Unsent<I>) -> Self {
        Self::Send(error.into_error().without_message())
    }
}

impl<M> From<DispatchError<M>> for Error {
    fn from(error: DispatchError<M>) -> Self {
        match error {
            DispatchError::Send(error) => error.into(),
            DispatchError::Lookup { reason, .. } => reason.into(),
        }
    }
}

impl<A: Actor> From<SpawnError<A>> for Error {
    fn from(error: SpawnError<A>) -> Self {
        Self::Refused(error.reason)
    }
}

impl<A: Actor> From<SpawnStartedError<A>> for Error {
    fn from(error: SpawnStartedError<A>) -> Self {
        match error {
            SpawnStartedError::Refused(error) => error.into(),
            SpawnStartedError::Ended { exit, .. } => Self::of_exit(exit),
            _ => Self::Cancelled(Cause::Cancelled),
        }
    }
}

impl From<MountError> for Error {
    fn from(error: MountError) -> Self {
        Self::Refused(error.reason)
    }
}

impl From<BlockingError> for Error {
    fn from(error: BlockingError) -> Self {
        match error {
            BlockingError::Refused(reason) => reason.into(),
            BlockingError::Ended(exit) => Self::of_exit(exit),
            _ => Self::Cancelled(Cause::Cancelled),
        }
    }
}

impl Error {
    /// The error for a member that ended before it produced what was awaited.
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
        Self::Refused(error.reason)
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
impl From<crate::runtime::NoRuntime> for Error {
    fn from(error: crate::runtime::NoRuntime) -> Self {
        match error {
            crate::runtime::NoRuntime::WithoutTime => Self::WithoutTime,
            _ => Self::NoRuntime,
        }
    }
}
