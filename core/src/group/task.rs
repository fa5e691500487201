//! A task as a group holds it: the user's future in a box, with the name, the deadline and the cancel grace that few have.

use crate::base::reason::BoxError;
use crate::base::runtime::{BoxFuture, Runtime};
use crate::base::timeout::Elapsed;
use crate::ids::name::Name;
use crate::tree::cancel_grace::CancelGrace;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

/// What a task of a `Group<T>` may return: the value, or a `Result` with it whose error fails the task.
pub trait TaskOutput<T> {
    /// The value, or the error.
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

/// A task whatever its future is.
pub(super) trait DynTask<T>: Send {
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, BoxError>>;

    fn name(&self) -> Option<&Name>;

    /// Its cancel grace: its own, else one as long as that of all tasks of its `group`.
    fn grace(self: Pin<&mut Self>, group: Option<Duration>) -> Option<&CancelGrace>;
}

/// A task on its way through a group.
pub(super) type BoxedTask<'env, T> = Pin<Box<dyn DynTask<T> + 'env>>;

pin_project_lite::pin_project! {
    /// A user's future as a task.
    pub(super) struct GroupTask<F> {
        #[pin]
        future: F,
        options: Option<Box<TaskOptions>>,
    }
}

/// What few tasks have.
#[derive(Default)]
pub(super) struct TaskOptions {
    pub(super) name: Option<Name>,
    pub(super) deadline: Option<Deadline>,
    pub(super) grace: Option<CancelGrace>,
}

/// How long a task may take, counted from its first poll.
pub(super) struct Deadline {
    pub(super) within: Duration,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) sleep: Option<BoxFuture<'static, ()>>,
}

impl Deadline {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Elapsed> {
        let Self { within, runtime, sleep } = self;
        let sleep = sleep.get_or_insert_with(|| runtime.sleep_until(runtime.now() + *within));
        sleep.as_mut().poll(cx).map(|()| Elapsed(*within))
    }
}

impl<F> GroupTask<F> {
    /// Boxed here, before anybody knows whether it will be taken, so that nothing is allocated under a lock.
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
