//! What can go wrong with a group: a task that ended badly, a task that was not taken, a group that was not made.

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

/// How a task ended that gave no value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TaskError {
    /// It reuse an error, or passed its deadline ([`Elapsed`](crate::base::timeout::Elapsed)). The failure's path is that of the group and the
    /// task's name, or `$n` for the n-th task that the group took.
    Failed(FailureInfo),
    /// It panicked. The failure has the text and the place.
    Panicked(FailureInfo),
    /// It was drop_cancelled off because the group was cancelled. This is never the first error of a group.
    Cancelled(Cause),
    /// The group was cancelled, and the task came to its own end within its [cancel grace](crate::group::builder::GroupBuilder::cancel_grace). The value
    /// that it gave was dropped. This is never the first error of a group.
    TidiedUp(Cause),
}

impl TaskError {
    /// The failure behind it; `None` for a task that was cancelled.
    pub fn failure(&self) -> Option<&FailureInfo> {
        match self {
            Self::Failed(failure) | Self::Panicked(failure) => Some(failure),
            Self::Cancelled(_) | Self::TidiedUp(_) => None,
        }
    }

    /// The error the task reuse as an `E`, if it was one.
    pub fn error<E: core::error::Error + 'static>(&self) -> Option<&E> {
        self.failure()?.error()
    }

    /// Whether the group was cancelled before the task had ended: it was drop_cancelled off, or tidied up.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled(_) | Self::TidiedUp(_))
    }
}

/// Two are equal when they are of the same kind with the same cause or the very same failure.
impl PartialEq for TaskError {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Failed(a), Self::Failed(b)) | (Self::Panicked(a), Self::Panicked(b)) => a.same(b),
            (Self::Cancelled(a), Self::Cancelled(b)) | (Self::TidiedUp(a), Self::TidiedUp(b)) => a == b,
            _ => false,
        }
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(failure) | Self::Panicked(failure) => write!(f, "{failure}"),
            Self::Cancelled(cause) => write!(f, "the task was drop_cancelled off: {cause}"),
            Self::TidiedUp(cause) => write!(f, "the task was cancelled, and tidied up: {cause}"),
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

/// The errors of a group so far, the first one first; from `errors()`. Tasks that were cancelled are not among them.
#[derive(Clone, Debug, Default)]
pub struct Errors {
    /// As many as the group keeps: 1,024 unless [`errors_kept`](crate::group::builder::GroupBuilder::errors_kept) says otherwise.
    pub errors: Vec<TaskError>,
    /// How many more there were.
    pub dropped: u64,
}

/// A task that a group did not take, because it is closed or cancelled. The task comes back: [`into_task`](Self::into_task).
pub struct GroupClosed<F> {
    /// The group.
    pub group: ActorPath,
    /// Why it was cancelled; `None` if it was closed.
    pub cause: Option<Cause>,
    // Behind the lock, so that the error can be shared between threads although a future need not be.
    task: Lock<F>,
}

impl<F> GroupClosed<F> {
    pub(super) fn new(group: ActorPath, cause: Option<Cause>, task: F) -> Self {
        Self { group, cause, task: Lock::new(task) }
    }

    /// The task, unpolled.
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
        None => write!(f, "{group} is closed and takes no more tasks"),
        Some(cause) => write!(f, "{group} takes no more tasks, it was cancelled: {cause}"),
    }
}

/// What is wrong when all tasks of a group wait for a slot of it.
pub(super) fn own_tasks(group: &ActorPath) -> String {
    format!(
        "all tasks of {group} wait for a slot of it, and none will be free: use `try_go` inside its tasks, or raise its limit"
    )
}

/// A task that a group did not take. The task comes back: [`into_task`](Self::into_task).
pub struct GoError<F> {
    /// The group.
    pub group: ActorPath,
    /// Why.
    pub why: NotTaken,
    task: Lock<F>,
}

/// Why a group did not take a task.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum NotTaken {
    /// As many tasks as its limit run, or as many results as its buffer are unread. `go` waits for a slot.
    Full,
    /// It is closed, or was cancelled for this cause.
    Closed(Option<Cause>),
    /// The token given to `go_or` was cancelled while it waited for a slot.
    Cancelled(Cause),
    /// It was to wait for a slot in a task of this group, and all slots are held by tasks that wait so: none would ever be free.
    OwnTasks,
    /// The task's name cannot stand in a path.
    Name(NameError),
}

impl<F> GoError<F> {
    pub(super) fn new(group: ActorPath, why: NotTaken, task: F) -> Self {
        Self { group, why, task: Lock::new(task) }
    }

    /// The task, unpolled.
    pub fn into_task(self) -> F {
        self.task.into_inner()
    }

    /// The same error without its task.
    pub fn without_task(self) -> GoError<()> {
        GoError::new(self.group, self.why, ())
    }
}

impl<F> From<GroupClosed<F>> for GoError<F> {
    fn from(closed: GroupClosed<F>) -> Self {
        let GroupClosed { group, cause, task } = closed;
        Self { group, why: NotTaken::Closed(cause), task }
    }
}

impl<F> fmt::Display for GoError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = &self.group;
        match &self.why {
            NotTaken::Full => write!(f, "{group} has no free slot: wait with `go`, read results, or raise its limit or buffer"),
            NotTaken::Closed(cause) => write_closed(f, group, cause.as_ref()),
            NotTaken::OwnTasks => f.write_str(&own_tasks(group)),
            NotTaken::Cancelled(cause) => write!(f, "cancelled while waiting for a slot of {group}: {cause}"),
            NotTaken::Name(error) => write!(f, "{group} did not take the task: {error}"),
        }
    }
}

impl<F> fmt::Debug for GoError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GoError").field("group", &self.group).field("why", &self.why).finish_non_exhaustive()
    }
}

impl<F> core::error::Error for GoError<F> {}

/// Why a group was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupError {
    /// A limit of 0 was asked for.
    NoLimit,
    /// A buffer of 0 was asked for.
    NoBuffer,
    /// A cancel grace was asked for a group in place.
    GraceInPlace,
    /// Its parent did not take it.
    Refused(Refusal),
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLimit => f.write_str("a group with a limit of 0 never starts a task: give it at least 1, or no limit"),
            Self::NoBuffer => f.write_str("a group with a buffer of 0 never starts a task: give it at least 1, or no buffer"),
            Self::GraceInPlace => f.write_str(
                "a group in place has no cancel grace, since nobody need poll it after a cancel: make it with `build`",
            ),
            Self::Refused(why) => write!(f, "the group was not made: {why}"),
        }
    }
}

impl core::error::Error for GroupError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Refused(why) => Some(why),
            Self::NoLimit | Self::NoBuffer | Self::GraceInPlace => None,
        }
    }
}

impl From<Refusal> for GroupError {
    fn from(why: Refusal) -> Self {
        Self::Refused(why)
    }
}
