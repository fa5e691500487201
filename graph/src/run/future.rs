//! `RunFuture`: a run that has started.

use crate::control::RunRef;
use crate::durable::drive::RunDriver;
use crate::engine::Engine;
use crate::error::{Outcome, RunError};
use crate::run::in_scope::ScopedRun;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A run on its way: ready with the last state, or with why there is none. Dropping it ends it.
#[must_use = "futures do nothing unless awaited"]
pub struct RunFuture<S>(pub(super) RunPlace<S>);

pub(super) enum RunPlace<S> {
    Here(Engine<S>),
    Stored(Box<RunDriver<S>>),
    Elsewhere(ScopedRun<S>),
    NotStarted(Option<RunError<S>>),
}

impl<S> Unpin for RunFuture<S> {}

impl<S: Send + 'static> RunFuture<S> {
    /// The run as something to be told, if it stands in a scope.
    pub fn control(&self) -> Option<&RunRef> {
        match &self.0 {
            RunPlace::Elsewhere(elsewhere) => elsewhere.control(),
            _ => None,
        }
    }

    /// Lets the run go on without this handle, and calls `ended` with the outcome once it has left the tree.
    pub(crate) fn attend(self, ended: impl FnOnce(Outcome<S>) + Send + 'static) -> Option<RunRef> {
        match self.0 {
            RunPlace::Elsewhere(elsewhere) => {
                let control = elsewhere.control().cloned();
                elsewhere.attend(ended);
                control
            }
            RunPlace::NotStarted(Some(error)) => {
                ended(Err(error));
                None
            }
            _ => unreachable!("only a run that stands in a scope goes on without its handle"),
        }
    }
}

impl<S: Send + 'static> Future for RunFuture<S> {
    type Output = Outcome<S>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome<S>> {
        match &mut self.get_mut().0 {
            RunPlace::Here(engine) => Pin::new(engine).poll(cx),
            RunPlace::Stored(drive) => drive.poll(cx),
            RunPlace::Elsewhere(elsewhere) => elsewhere.poll(cx),
            RunPlace::NotStarted(error) => Poll::Ready(Err(error.take().expect("polled after its end"))),
        }
    }
}

impl<S> fmt::Debug for RunFuture<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunFuture(..)")
    }
}
