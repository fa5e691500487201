//! `Job`: a task of a dispatcher, and how it is polled: its future is taken out, polled by one thread, and put back.

use crate::base::lock::Lock;
use crate::base::runtime::BoxFuture;
use crate::base::sync::{AtomicBool, Ordering};
use crate::dispatcher::{Inner, Ready};
use alloc::sync::Arc;
use alloc::task::Wake;
use core::task::{Context, Waker};

/// A task and its place in the queue.
pub(super) struct Job {
    pub(super) id: u64,
    pub(super) queued: AtomicBool,
    pub(super) future: Lock<Place>,
    pub(super) inner: Arc<Inner>,
}

/// Where the future of a task is.
pub(super) enum Place {
    Here(BoxFuture<'static, ()>),
    /// Somebody polls it; another driver came upon it meanwhile if `again`.
    Away {
        again: bool,
    },
    Gone,
}

impl Job {
    pub(super) fn run(self: Arc<Self>) {
        let Some(mut future) = self.future.with(Place::take) else { return };
        // A swap and not a store: a wake-up that found it still queued has done nothing but this, and the poll must see what it was for.
        self.queued.swap(false, Ordering::AcqRel);
        let waker = Waker::from(Arc::clone(&self));
        // A task of ours contains its own panics; should one get out, the task is gone and the panic is the driver's.
        let ending = Ending(&self);
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            core::mem::forget(ending);
            let (again, shut) = self.future.with(|place| match place {
                Place::Away { again } => {
                    let again = *again;
                    *place = Place::Here(future);
                    (again, None)
                }
                _ => (false, Some(future)),
            });
            drop(shut);
            if again {
                let inner = Arc::clone(&self.inner);
                inner.enqueue(Ready::Job(self));
            }
        }
    }
}

/// Takes a job that has ended out of the queue, also when its future panicked.
struct Ending<'a>(&'a Arc<Job>);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let ended = self.0.inner.queue.with(|queue| queue.jobs.remove(&self.0.id));
        drop(ended);
    }
}

impl Place {
    /// The future to poll. Whoever finds it away leaves word, so that it is polled once more.
    pub(super) fn take(&mut self) -> Option<BoxFuture<'static, ()>> {
        if let Self::Away { again } = self {
            *again = true;
            return None;
        }
        match core::mem::replace(self, Self::Away { again: false }) {
            Self::Here(future) => Some(future),
            other => {
                *self = other;
                None
            }
        }
    }
}

impl Wake for Job {
    fn wake(self: Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            let inner = Arc::clone(&self.inner);
            inner.enqueue(Ready::Job(self));
        }
    }
}
