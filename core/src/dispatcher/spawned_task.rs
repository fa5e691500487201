//! [`SpawnedTask`]: a task of a dispatcher. A driver takes its future out, polls it and puts it
//! back.
//!
//! | slot | meaning | next |
//! |---|---|---|
//! | `Idle(future)` | no driver polls it | `Polling` in `take` |
//! | `Polling { again }` | a driver polls it; `again`: poll once more | `Idle`, or `Gone` |
//! | `Gone` | the dispatcher was dropped | |

use crate::base::lock::Lock;
use crate::base::runtime::BoxFuture;
use crate::base::sync::{Arc, AtomicBool, Ordering, WakeArc, impl_wake, waker_of};
use crate::dispatcher::{Ready, Scheduler};
use core::task::Context;

/// A spawned task and its entry in the queue.
pub(super) struct SpawnedTask {
    pub(super) id: u64,
    /// It only observes, so the simulator runs it outside of the schedule.
    pub(super) is_observer: bool,
    pub(super) queued: AtomicBool,
    pub(super) future: Lock<FutureSlot>,
    pub(super) scheduler: Arc<Scheduler>,
}

/// The future of a task, or the reason why it is not here.
pub(super) enum FutureSlot {
    Idle(BoxFuture<'static, ()>),
    /// A driver polls it. `again`: another driver found it meanwhile, so it is polled once more.
    Polling {
        again: bool,
    },
    Gone,
}

impl SpawnedTask {
    pub(super) fn run(this: Arc<Self>) {
        let Some(mut future) = this.future.with(FutureSlot::take) else { return };
        // A swap, not a store: a wake-up that found the task still queued did nothing else, and
        // this poll must see the state that it announced.
        this.queued.swap(false, Ordering::AcqRel);
        let waker = waker_of(Arc::clone(&this));
        // Tasks of this crate contain their panics. If one escapes, the task is removed and the
        // panic reaches the driver.
        let remove = RemoveOnDrop(&this);
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            core::mem::forget(remove);
            let (again, orphaned) = this.future.with(|slot| match slot {
                FutureSlot::Polling { again } => {
                    let again = *again;
                    *slot = FutureSlot::Idle(future);
                    (again, None)
                }
                _ => (false, Some(future)),
            });
            drop(orphaned);
            if again {
                let scheduler = Arc::clone(&this.scheduler);
                scheduler.enqueue(Ready::Task(this));
            }
        }
    }
}

/// Removes an ended task from the queue, also when its future panicked.
struct RemoveOnDrop<'a>(&'a Arc<SpawnedTask>);

impl Drop for RemoveOnDrop<'_> {
    fn drop(&mut self) {
        let ended = self.0.scheduler.queue.with(|queue| queue.tasks.remove(&self.0.id));
        drop(ended);
    }
}

impl FutureSlot {
    /// Takes the future to poll it. If another driver polls it, sets `again` and returns `None`.
    pub(super) fn take(&mut self) -> Option<BoxFuture<'static, ()>> {
        if let Self::Polling { again } = self {
            *again = true;
            return None;
        }
        match core::mem::replace(self, Self::Polling { again: false }) {
            Self::Idle(future) => Some(future),
            other => {
                *self = other;
                None
            }
        }
    }
}

impl_wake!([] SpawnedTask);

impl WakeArc for SpawnedTask {
    fn wake(this: Arc<Self>) {
        if !this.queued.swap(true, Ordering::AcqRel) {
            let scheduler = Arc::clone(&this.scheduler);
            scheduler.enqueue(Ready::Task(this));
        }
    }
}
