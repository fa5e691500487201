//! Errors of groups: a task that failed, a task that was rejected, a group that was not built.

use crate::base::lock::Lock;
use crate::events::cause::Cause;
use crate::events::failure::FailureInfo;
use crate::ids::name::NameError;
use crate::ids::path::ActorPath;
use crate::tree::adopt::Refusal;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Why a task of a group has no value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TaskError {
    /// The task returned an error, or exceeded its deadline
    /// ([`Elapsed`](crate::base::timeout::Elapsed)).
    ///
    /// The path of the failure is the path of the group and the task's name, or `$n` for the n-th
    /// accepted task.
    Failed(FailureInfo),
    /// The task panicked. The failure has the panic's text and place.
    Panicked(FailureInfo),
    /// The task was dropped because the group was cancelled. Never the first error of a group.
    Cancelled(Cause),
    /// The group was cancelled, and the task returned within its [cancel
    /// grace](crate::group::builder::GroupBuilder::cancel_grace). Its value was dropped. Never the
    /// first error of a group.
    TidiedUp(Cause),
}

impl TaskError {
    /// Returns the failure, or `None` if the task was cancelled.
    pub fn failure(&self) -> Option<&FailureInfo> {
        match self {
            Self::Failed(failure) | Self::Panicked(failure) => Some(failure),
            Self::Cancelled(_) | Self::TidiedUp(_) => None,
        }
    }

    /// Returns the task's own error as an `E`, if it has that type.
    pub fn error<E: core::error::Error + 'static>(&self) -> Option<&E> {
        self.failure()?.error()
    }

    /// Returns whether the task was cancelled: dropped, or ended within its cancel grace.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled(_) | Self::TidiedUp(_))
    }
}

/// Equal if both have the same kind and the same cause, or the same failure instance.
impl PartialEq for TaskError {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Failed(a), Self::Failed(b)) | (Self::Panicked(a), Self::Panicked(b)) => a.is_same_as(b),
            (Self::Cancelled(a), Self::Cancelled(b)) | (Self::TidiedUp(a), Self::TidiedUp(b)) => a == b,
            _ => false,
        }
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(failure) | Self::Panicked(failure) => write!(f, "{failure}"),
            Self::Cancelled(cause) => write!(f, "the task was cancelled: {cause}"),
            Self::TidiedUp(cause) => write!(f, "the task was cancelled and tidied up within its cancel grace: {cause}"),
        }
    }
}

impl core::error::Error for TaskError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Failed(failure) | Self::Panicked(failure) => Some(failure),
            Self::Cancelled(cause) | Self::TidiedUp(cause) => Some(cause),
        }
    }
}

/// The errors of a group so far, in completion order; from `errors()`. Cancelled tasks are not
/// included.
#[derive(Clone, Debug, Default)]
pub struct Errors {
    /// The kept errors: the first 1,024, or as set by
    /// [`errors_kept`](crate::group::builder::GroupBuilder::errors_kept).
    pub errors: Vec<TaskError>,
    /// The number of further errors that were not kept.
    pub dropped: u64,
}

/// A group rejected a task because it is closed or cancelled. [`into_task`](Self::into_task)
/// returns the task.
pub struct GroupClosed<F> {
    /// The path of the group that rejected the task.
    pub group: ActorPath,
    /// The cause of the cancel; `None` if the group was closed.
    pub cause: Option<Cause>,
    // In a lock, so that the error is `Sync` although a future need not be.
    task: Lock<F>,
}

impl<F> GroupClosed<F> {
    pub(super) fn new(group: ActorPath, cause: Option<Cause>, task: F) -> Self {
        Self { group, cause, task: Lock::new(task) }
    }

    /// Returns the rejected task, which was never polled.
    pub fn into_task(self) -> F {
        self.task.into_inner()
    }
}

impl<F> fmt::Display for GroupClosed<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_closed(f, &self.group, self.cause.as_ref())
    }
}

impl<F> fmt::Debug for GroupClosed<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupClosed").field("group", &self.group).field("cause", &self.cause).finish_non_exhaustive()
    }
}

impl<F> core::error::Error for GroupClosed<F> {}

fn write_closed(f: &mut fmt::Formatter<'_>, group: &ActorPath, cause: Option<&Cause>) -> fmt::Result {
    match cause {
        None => write!(f, "group {group} rejected the task: the group is closed"),
        Some(cause) => write!(f, "group {group} rejected the task: the group was cancelled: {cause}"),
    }
}

/// The error text for tasks of a group that all wait for a slot of it.
pub(super) fn own_tasks(group: &ActorPath) -> String {
    format!(
        "deadlock: all tasks of group {group} wait for a slot of it, and none will be free; use `try_go` inside its tasks, or raise its limit"
    )
}

/// A group rejected a task. [`into_task`](Self::into_task) returns the task.
pub struct GoError<F> {
    /// The path of the group that rejected the task.
    pub group: ActorPath,
    /// The reason why the task was rejected.
    pub reason: GoRejection,
    task: Lock<F>,
}

/// The reason why a group rejected a task.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum GoRejection {
    /// The limit of tasks or the buffer of results is full. `go` waits instead.
    Full,
    /// The group is closed (`None`) or was cancelled with this cause.
    Closed(Option<Cause>),
    /// The token passed to `go_or` was cancelled while the call waited for a slot.
    Cancelled(Cause),
    /// A task of the group waited for a slot, and every slot is held by a task that does the same.
    /// No slot could become free.
    SlotDeadlock,
    /// The name of the task is not a valid path segment.
    Name(NameError),
}

impl<F> GoError<F> {
    pub(super) fn new(group: ActorPath, reason: GoRejection, task: F) -> Self {
        Self { group, reason, task: Lock::new(task) }
    }

    /// Returns the rejected task, which was never polled.
    pub fn into_task(self) -> F {
        self.task.into_inner()
    }

    /// Returns the same error without the task.
    pub fn without_task(self) -> GoError<()> {
        GoError::new(self.group, self.reason, ())
    }
}

impl<F> From<GroupClosed<F>> for GoError<F> {
    fn from(closed: GroupClosed<F>) -> Self {
        let GroupClosed { group, cause, task } = closed;
        Self { group, reason: GoRejection::Closed(cause), task }
    }
}

impl<F> fmt::Display for GoError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = &self.group;
        match &self.reason {
            GoRejection::Full => {
                write!(f, "group {group} has no free slot; wait with `go`, read results, or raise its limit or buffer")
            }
            GoRejection::Closed(cause) => write_closed(f, group, cause.as_ref()),
            GoRejection::SlotDeadlock => f.write_str(&own_tasks(group)),
            GoRejection::Cancelled(cause) => write!(f, "cancelled while waiting for a slot of group {group}: {cause}"),
            GoRejection::Name(error) => write!(f, "group {group} rejected the task: {error}"),
        }
    }
}

impl<F> fmt::Debug for GoError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GoError").field("group", &self.group).field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<F> core::error::Error for GoError<F> {}

/// The reason why a group could not be built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupError {
    /// The limit of tasks is 0.
    ZeroLimit,
    /// The buffer of unread results is 0.
    ZeroBuffer,
    /// A group in place cannot have a cancel grace.
    GraceInPlace,
    /// The parent did not accept the group.
    Refused(Refusal),
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroLimit => f.write_str("a group with a limit of 0 can never start a task; use at least 1, or no limit"),
            Self::ZeroBuffer => f.write_str("a group with a buffer of 0 can never start a task; use at least 1, or no buffer"),
            Self::GraceInPlace => f.write_str(
                "a group in place cannot have a cancel grace: it may never be polled after a cancel; make it with `build`",
            ),
            Self::Refused(reason) => write!(f, "cannot build the group: {reason}"),
        }
    }
}

impl core::error::Error for GroupError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Refused(reason) => Some(reason),
            Self::ZeroLimit | Self::ZeroBuffer | Self::GraceInPlace => None,
        }
    }
}

impl From<Refusal> for GroupError {
    fn from(reason: Refusal) -> Self {
        Self::Refused(reason)
    }
}
