//! [`RunFuture`]: a started run, in one of five places.

use crate::control::RunRef;
use crate::durable::drive::RunDriver;
use crate::engine::{Engine, PlainPoll, PlainRun, PlainStop};
use crate::error::{Outcome, RunError};
use crate::run::in_scope::ScopedRun;
use std::fmt;
use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A started run. It resolves to the last state, or to a [`RunError`] that says why the run has
/// none.
///
/// Create it by awaiting [`RunOptions`](crate::RunOptions) or with its `into_future`.
///
/// # Cancel safety
/// Dropping the future ends the run. A stored run can be [resumed](crate::CompiledGraph::resume)
/// after its last committed step.
#[must_use = "futures do nothing unless awaited"]
pub struct RunFuture<S>(pub(super) RunPlace<S>);

pub(super) enum RunPlace<S> {
    Plain(PlainRun<S>),
    Here(Engine<S>),
    Stored(Box<RunDriver<S>>),
    Scoped(ScopedRun<S>),
    NotStarted(Option<RunError<S>>),
}

impl<S> Unpin for RunFuture<S> {}

impl<S: Send + 'static> RunFuture<S> {
    /// Returns a reference for pause, resume and cancel commands, if the run is in a scope.
    pub fn control(&self) -> Option<&RunRef> {
        match &self.0 {
            RunPlace::Scoped(scoped) => scoped.control(),
            _ => None,
        }
    }

    /// Detaches the run from this handle. Calls `ended` with the outcome after the run has left the
    /// tree.
    pub(crate) fn detach(self, ended: impl FnOnce(Outcome<S>) + Send + 'static) -> Option<RunRef> {
        match self.0 {
            RunPlace::Scoped(scoped) => {
                let control = scoped.control().cloned();
                scoped.detach(ended);
                control
            }
            RunPlace::NotStarted(Some(error)) => {
                ended(Err(error));
                None
            }
            _ => unreachable!("a run outside of a scope cannot be detached from its handle"),
        }
    }
}

impl<S: Send + 'static> RunPlace<S> {
    /// Replaces a plain run by an engine that continues it.
    fn continue_in_engine(&mut self, stop: PlainStop<S>, cx: &mut Context<'_>) -> Poll<Outcome<S>> {
        match std::mem::replace(self, Self::NotStarted(None)) {
            Self::Plain(plain) => match plain.continue_in_engine(stop, cx) {
                ControlFlow::Continue(outcome) => return Poll::Ready(outcome),
                ControlFlow::Break(engine) => *self = Self::Here(engine),
            },
            other => *self = other,
        }
        Poll::Pending
    }
}

impl<S: Send + 'static> Future for RunFuture<S> {
    type Output = Outcome<S>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome<S>> {
        let place = &mut self.get_mut().0;
        match place {
            RunPlace::Plain(plain) => match plain.poll(cx) {
                PlainPoll::Ended(state) => Poll::Ready(Ok(state)),
                PlainPoll::Yields => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                PlainPoll::Stops(stop) => place.continue_in_engine(stop, cx),
            },
            RunPlace::Here(engine) => Pin::new(engine).poll(cx),
            RunPlace::Stored(drive) => drive.poll(cx),
            RunPlace::Scoped(scoped) => scoped.poll(cx),
            RunPlace::NotStarted(error) => Poll::Ready(Err(error.take().expect("polled after its end"))),
        }
    }
}

impl<S> fmt::Debug for RunFuture<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunFuture(..)")
    }
}
