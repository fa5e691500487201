//! A run within a scope.
//!
//! The run gets a child scope with two members: the task `driver`, which polls the engine, and the
//! actor `control`. [`ScopedRun`] is the handle that waits for the outcome.
//!
//! Invariants:
//! 1. The task stores the outcome exactly once: at its end, or in `drop` if the tree cancels it.
//! 2. The handle returns the outcome only after the scope has left the tree.
//! 3. No waker is woken under the lock of the slot.

use crate::control::{CONTROL, MessageTarget, RunControl, RunRef, control};
use crate::durable::drive::RunDriver;
use crate::error::{Outcome, RunError, RunFault};
use pleach_core::{Cause, Exit, Exited, Scope};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The handle of a run in a scope. Dropping it cancels the run unless it was detached.
pub(crate) struct ScopedRun<S> {
    scope: Arc<Scope>,
    control: Option<RunRef>,
    slot: Arc<OutcomeSlot<S>>,
    /// A callback gets the outcome, so the run continues without this handle.
    is_detached: bool,
    /// The outcome, held until the run has left the tree.
    exited: Option<(Outcome<S>, Exited)>,
}

/// The task that drives the run.
struct ScopedRunTask<S: Send + 'static> {
    engine: Option<RunDriver<S>>,
    run_control: Arc<RunControl>,
    scope: Arc<Scope>,
    slot: Arc<OutcomeSlot<S>>,
}

struct OutcomeSlot<S>(Mutex<(Option<Outcome<S>>, Option<Waker>)>);

/// Starts the task. `grace` is how long it may continue after a cancel from the tree.
pub(crate) fn launch<S: Send + 'static>(
    scope: Arc<Scope>,
    (run_control, inbox): (Arc<RunControl>, MessageTarget),
    grace: Option<Duration>,
    engine: RunDriver<S>,
) -> ScopedRun<S> {
    // The actor ends with the scope.
    let control = scope.spawn(CONTROL, control(Arc::clone(&run_control), inbox)).ok().map(RunRef::new);
    let slot = Arc::new(OutcomeSlot(Mutex::new((None, None))));
    let driven = ScopedRunTask { engine: Some(engine), run_control, scope: Arc::clone(&scope), slot: Arc::clone(&slot) };
    // A scope that refuses the task was cancelled meanwhile. Dropping the task stores that outcome.
    let task = scope.task().named("driver").isolated();
    let task = if let Some(grace) = grace { task.cancel_grace(grace) } else { task };
    drop(task.launch(driven).map_err(|error| error.into_future()));
    ScopedRun { scope, control, slot, exited: None, is_detached: false }
}

impl<S: Send + 'static> ScopedRun<S> {
    pub(crate) fn control(&self) -> Option<&RunRef> {
        self.control.as_ref()
    }

    /// Calls `ended` with the outcome after the run has left the tree. Replaces `poll`.
    pub(crate) fn detach(mut self, ended: impl FnOnce(Outcome<S>) + Send + 'static) {
        self.is_detached = true;
        // Holds the scope until then: dropping it earlier would cancel the run.
        let (slot, scope) = (Arc::clone(&self.slot), Arc::clone(&self.scope));
        self.scope.on_done(move |exit| {
            drop(scope);
            let outcome = slot.lock().0.take();
            let cause = || match exit {
                Exit::Cancelled(cause) | Exit::TidiedUp(cause) => cause.clone(),
                _ => Cause::Dropped,
            };
            let cancelled = || RunFault::Cancelled { node: String::new(), cause: cause(), was_executing: false, grace: None };
            ended(outcome.unwrap_or_else(|| Err(RunError::new(cancelled(), None))));
        });
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome<S>> {
        if self.exited.is_none() {
            let mut slot = self.slot.lock();
            let Some(outcome) = slot.0.take() else {
                slot.1 = Some(cx.waker().clone());
                return Poll::Pending;
            };
            self.exited = Some((outcome, self.scope.exited()));
        }
        if let Some((_, exited)) = &mut self.exited {
            std::task::ready!(Pin::new(exited).poll(cx));
        }
        Poll::Ready(self.exited.take().expect("polled after its end").0)
    }
}

impl<S> Drop for ScopedRun<S> {
    fn drop(&mut self) {
        if !self.is_detached {
            self.scope.cancel(Cause::Dropped);
        }
    }
}

impl<S> OutcomeSlot<S> {
    fn lock(&self) -> std::sync::MutexGuard<'_, (Option<Outcome<S>>, Option<Waker>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Send + 'static> ScopedRunTask<S> {
    fn store_outcome(&self, outcome: Outcome<S>) {
        // If the run never opened: releases the callers that wait for it to open.
        self.run_control.open();
        let waker = {
            let mut slot = self.slot.lock();
            slot.0 = Some(outcome);
            slot.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<S: Send + 'static> Unpin for ScopedRunTask<S> {}

impl<S: Send + 'static> Future for ScopedRunTask<S> {
    type Output = Result<(), RunFailed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let Some(engine) = &mut this.engine else { return Poll::Ready(Ok(())) };
        let outcome = std::task::ready!(engine.poll(cx));
        this.engine = None;
        // A cancel from the tree is not a failure of the task.
        let is_cancelled = this.scope.token().cause().is_some();
        let is_failure = |error: &&RunError<S>| !(is_cancelled && matches!(error.fault(), RunFault::Cancelled { .. }));
        let failed = outcome.as_ref().err().filter(is_failure).map(|error| RunFailed(error.to_string()));
        if let Some(failed) = failed.clone().filter(|_| outcome.as_ref().is_err_and(RunError::escalates)) {
            // A task that fails also fails its scope and the scope above.
            drop(this.scope.launch(async move { Err(failed) }));
        }
        this.scope.close();
        this.store_outcome(outcome);
        Poll::Ready(failed.map_or(Ok(()), Err))
    }
}

/// Runs when the tree cancels the task.
impl<S: Send + 'static> Drop for ScopedRunTask<S> {
    fn drop(&mut self) {
        if let Some(mut engine) = self.engine.take() {
            let cause = self.scope.token().cause().unwrap_or(Cause::Dropped);
            let error = engine.cancel(cause);
            self.store_outcome(Err(error));
        }
    }
}

/// The failure that the tree sees when a run fails.
#[derive(Clone, Debug)]
struct RunFailed(String);

impl fmt::Display for RunFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the run failed: {}", self.0)
    }
}

impl std::error::Error for RunFailed {}
