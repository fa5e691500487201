//! `Spawned`: a node that runs as a task in the scope of its run, on whatever thread the runtime has for it.

use crate::node::NodeFuture;
use pleach_core::{BoxError, Cause, Reason, Refusal, Scope, Task, catch_panic};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// The near end of it. Dropping it cancels the task.
pub(super) struct Spawned<S> {
    slot: Arc<Slot<S>>,
    task: Task,
}

/// Where the result is left.
struct Slot<S>(Mutex<State<S>>);

struct State<S> {
    result: Option<Result<S, Reason>>,
    waker: Option<Waker>,
}

/// The far end. However the task ends, there is a result.
struct Far<S>(Arc<Slot<S>>);

impl<S: Send + 'static> Spawned<S> {
    /// `why_broken` says why a node that is pending fails all the same.
    pub(super) fn launch(
        scope: &Scope,
        mut work: NodeFuture<S>,
        why_broken: impl Fn() -> Option<BoxError> + Send + Sync + 'static,
    ) -> Result<Self, Refusal> {
        let slot = Arc::new(Slot(Mutex::new(State { result: None, waker: None })));
        let far = Far(Arc::clone(&slot));
        let future = async move {
            let polled = |cx: &mut Context<'_>| match catch_panic(|| Pin::new(&mut work).poll(cx)) {
                Ok(Poll::Pending) => why_broken().map_or(Poll::Pending, |why| Poll::Ready(Err(Reason::Error(why)))),
                Ok(polled) => polled.map_err(Reason::Error),
                Err(reason) => Poll::Ready(Err(reason)),
            };
            let result = poll_fn(polled).await;
            let result = catch_panic(|| drop(work)).and(result);
            far.0.set(result);
        };
        let task = scope.task().isolated().launch(future).map_err(|error| error.why)?;
        Ok(Self { slot, task })
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<S, Reason>> {
        let mut state = self.slot.lock();
        match state.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<S> Drop for Spawned<S> {
    fn drop(&mut self) {
        self.task.cancel(Cause::Dropped);
    }
}

impl<S> Slot<S> {
    fn lock(&self) -> std::sync::MutexGuard<'_, State<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, result: Result<S, Reason>) {
        let waker = {
            let mut state = self.lock();
            state.result.get_or_insert(result);
            state.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

/// The tree has dropped the task before the node was done.
#[derive(Debug)]
struct CutOff;

impl fmt::Display for CutOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("its task was cut off")
    }
}

impl std::error::Error for CutOff {}

/// Whether that is why a node has no result.
pub(super) fn is_cut_off(reason: &Reason) -> bool {
    matches!(reason, Reason::Error(error) if error.is::<CutOff>())
}

impl<S> Drop for Far<S> {
    fn drop(&mut self) {
        self.0.set(Err(Reason::Error(Box::new(CutOff))));
    }
}
