//! A task of a group: the user's future in a box, with an optional name, deadline and cancel grace.

use crate::base::reason::BoxError;
use crate::base::runtime::{BoxFuture, Runtime};
use crate::base::sync::Arc;
use crate::base::timeout::Elapsed;
use crate::ids::name::Name;
use crate::tree::cancel_grace::CancelGrace;
use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

/// The output of a task in a `Group<T>`: either `T` or a `Result<T, E>` whose error fails the task.
///
/// Implemented for every `T` and for `Result<T, E>` with any error that converts into [`BoxError`].
/// Users rarely implement it.
pub trait TaskOutput<T> {
    /// Converts the output into a value or an error.
    fn into_result(self) -> Result<T, BoxError>;
}

impl<T> TaskOutput<T> for T {
    fn into_result(self) -> Result<T, BoxError> {
        Ok(self)
    }
}

impl<T, E: Into<BoxError>> TaskOutput<T> for Result<T, E> {
    fn into_result(self) -> Result<T, BoxError> {
        self.map_err(Into::into)
    }
}

/// A task with its future type erased.
pub(super) trait DynTask<T>: Send {
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, BoxError>>;

    fn name(&self) -> Option<&Name>;

    /// Returns the cancel grace of the task. Default: the one of the `group`.
    fn grace(self: Pin<&mut Self>, group: Option<Duration>) -> Option<&CancelGrace>;
}

/// A task as the executors hold it.
pub(super) type BoxedTask<'env, T> = Pin<Box<dyn DynTask<T> + 'env>>;

pin_project_lite::pin_project! {
    /// A user's future with its options.
    pub(super) struct GroupTask<F> {
        #[pin]
        future: F,
        options: Option<Box<TaskOptions>>,
    }
}

/// The options that few tasks have.
#[derive(Default)]
pub(super) struct TaskOptions {
    pub(super) name: Option<Name>,
    pub(super) deadline: Option<Deadline>,
    pub(super) grace: Option<CancelGrace>,
}

/// The time limit of a task, counted from its first poll.
pub(super) struct Deadline {
    pub(super) length: Duration,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) sleep: Option<BoxFuture<'static, ()>>,
}

impl Deadline {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Elapsed> {
        let Self { length, runtime, sleep } = self;
        let sleep = sleep.get_or_insert_with(|| runtime.sleep_until(runtime.now() + *length));
        sleep.as_mut().poll(cx).map(|()| Elapsed(*length))
    }
}

impl<F> GroupTask<F> {
    /// Boxes the task before admission, so that nothing is allocated under the lock.
    pub(super) fn boxed(future: F, options: Option<Box<TaskOptions>>) -> Box<Self> {
        Box::new(Self { future, options })
    }

    pub(super) fn into_future(self) -> F {
        self.future
    }
}

impl<T, F> DynTask<T> for GroupTask<F>
where
    F: Future<Output: TaskOutput<T>> + Send,
{
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, BoxError>> {
        let this = self.project();
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(output.into_result());
        }
        match this.options.as_deref_mut().and_then(|options| options.deadline.as_mut()) {
            Some(deadline) => deadline.poll(cx).map(|elapsed| Err(elapsed.into())),
            None => Poll::Pending,
        }
    }

    fn name(&self) -> Option<&Name> {
        self.options.as_ref()?.name.as_ref()
    }

    fn grace(self: Pin<&mut Self>, group: Option<Duration>) -> Option<&CancelGrace> {
        let options = self.project().options;
        if let Some(group) = group {
            options.get_or_insert_default().grace.get_or_insert_with(|| CancelGrace::new(group));
        }
        options.as_ref()?.grace.as_ref()
    }
}
