//! [`Spawned`]: a node that runs as a task in the scope of its run.
//!
//! The handle and the task share a slot. Invariants:
//! 1. However the task ends, it first drops the node and then stores a result.
//! 2. No waker is woken or dropped under the lock of the slot.

use crate::context::cancelled_tasks::CancelledTask;
use crate::context::run_context::RunContext;
use crate::define::node::NodeFuture;
use crate::util::waker::set_waker;
use pleach_core::{BoxError, Cause, Reason, Refusal, Scope, Task, catch_panic};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The handle of a spawned node. Dropping it cancels the task.
pub(super) struct Spawned<S> {
    slot: Arc<ResultSlot<S>>,
    task: Task,
}

/// The slot for the result of the node.
struct ResultSlot<S>(Mutex<SlotState<S>>);

struct SlotState<S> {
    result: Option<Result<S, Reason>>,
    waker: Option<Waker>,
    /// The handle was dropped: the node is dropped at its next poll, even during its grace.
    is_abandoned: bool,
    /// The node was dropped. Unlike the result, this flag stays.
    is_node_dropped: bool,
    /// Present while the run waits for the drop of the node.
    cancelled_task: Option<CancelledTask>,
}

/// The task that runs the node.
struct SpawnedTask<S: Send + 'static> {
    work: Option<NodeFuture<S>>,
    slot: Arc<ResultSlot<S>>,
}

impl<S: Send + 'static> Spawned<S> {
    /// Starts the task. A cancel from the tree drops the node after `grace`. `why_broken` returns
    /// why a pending node must fail.
    pub(super) fn launch(
        scope: &Scope,
        grace: Option<Duration>,
        work: NodeFuture<S>,
        why_broken: impl Fn() -> Option<BoxError> + Send + Sync + 'static,
    ) -> Result<Self, Refusal> {
        let (result, waker, cancelled_task) = (None, None, None);
        let slot = Arc::new(ResultSlot(Mutex::new(SlotState {
            result,
            waker,
            is_abandoned: false,
            is_node_dropped: false,
            cancelled_task,
        })));
        let mut spawned = SpawnedTask { work: Some(work), slot: Arc::clone(&slot) };
        let future = async move {
            let result = poll_fn(|cx| spawned.poll(cx, &why_broken)).await;
            let work = spawned.work.take();
            let result = catch_panic(|| drop(work)).and(result);
            spawned.slot.set(result);
        };
        let task = scope.task().isolated();
        let task = if let Some(grace) = grace { task.cancel_grace(grace) } else { task };
        let task = task.launch(future).map_err(|error| error.reason)?;
        Ok(Self { slot, task })
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<S, Reason>> {
        if let Some(result) = self.slot.lock().result.take() {
            return Poll::Ready(result);
        }
        self.slot.set_waker(cx.waker());
        // The result may have arrived before the waker was registered.
        self.slot.lock().result.take().map_or(Poll::Pending, Poll::Ready)
    }
}

impl<S: Send + 'static> Spawned<S> {
    /// Makes the run wait for the drop of this node before it undoes anything.
    pub(super) fn await_task_end(&self, run: &RunContext) {
        if self.slot.lock().is_node_dropped {
            return;
        }
        let mut cancelled_task = Some(run.cancelled_task());
        let mut state = self.slot.lock();
        if !state.is_node_dropped && state.cancelled_task.is_none() {
            state.cancelled_task = cancelled_task.take();
        }
        // An unused guard is dropped after the lock, because that may wake the run.
        drop(state);
    }
}

impl<S: Send + 'static> SpawnedTask<S> {
    fn poll(&mut self, cx: &mut Context<'_>, why_broken: impl Fn() -> Option<BoxError>) -> Poll<Result<S, Reason>> {
        let Some(work) = &mut self.work else { return Poll::Pending };
        if self.slot.lock().is_abandoned {
            return Poll::Ready(Err(Reason::Error(Box::new(TaskCancelled))));
        }
        match catch_panic(|| Pin::new(work).poll(cx)) {
            Ok(Poll::Pending) => why_broken().map_or(Poll::Pending, |reason| Poll::Ready(Err(Reason::Error(reason)))),
            Ok(polled) => polled.map_err(Reason::Error),
            Err(reason) => Poll::Ready(Err(reason)),
        }
    }
}

impl<S> Drop for Spawned<S> {
    fn drop(&mut self) {
        self.slot.lock().is_abandoned = true;
        self.task.cancel(Cause::Dropped);
    }
}

impl<S> ResultSlot<S> {
    fn lock(&self) -> std::sync::MutexGuard<'_, SlotState<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers the waker for the result. Wakers are cloned and dropped outside of the lock.
    fn set_waker(&self, waker: &Waker) {
        set_waker(|| self.lock(), |state| &mut state.waker, waker);
    }

    /// Stores the result after the node was dropped. The first result wins.
    fn set(&self, result: Result<S, Reason>) {
        let (waker, cancelled_task) = {
            let mut state = self.lock();
            if std::mem::replace(&mut state.is_node_dropped, true) {
                return;
            }
            state.result = Some(result);
            (state.waker.take(), state.cancelled_task.take())
        };
        drop(cancelled_task);
        waker.into_iter().for_each(Waker::wake);
    }
}

/// The tree dropped the task before the node returned.
#[derive(Debug)]
struct TaskCancelled;

impl fmt::Display for TaskCancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the task of the node was cancelled before the node returned")
    }
}

impl std::error::Error for TaskCancelled {}

/// Returns whether the tree dropped the task of the node.
pub(super) fn is_task_cancelled(reason: &Reason) -> bool {
    matches!(reason, Reason::Error(error) if error.is::<TaskCancelled>())
}

impl<S: Send + 'static> Drop for SpawnedTask<S> {
    fn drop(&mut self) {
        let work = self.work.take();
        drop(catch_panic(|| drop(work)));
        self.slot.set(Err(Reason::Error(Box::new(TaskCancelled))));
    }
}
