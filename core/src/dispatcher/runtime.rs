//! The [`Runtime`] of a dispatcher: puts tasks and sleeps into its queue.

use crate::base::lock::Lock;
use crate::base::runtime::{BoxFuture, Runtime};
use crate::base::sync::{AtomicBool, Ordering};
use crate::base::time::Instant;
use crate::base::wakers::{discard, wake_all};
use crate::dispatcher::run_queue::SleepTimer;
use crate::dispatcher::spawned_task::{FutureSlot, SpawnedTask};
use crate::dispatcher::{Ready, Scheduler};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

/// The runtime handle that [`Dispatcher::runtime`](crate::Dispatcher::runtime) returns.
pub(super) struct DispatcherRuntime(pub(super) Arc<Scheduler>);

impl Runtime for DispatcherRuntime {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        let scheduler = &self.0;
        let mut future = Some(task);
        let spawned = scheduler.queue.with(|queue| {
            if queue.is_closed {
                return None;
            }
            queue.last_task += 1;
            let slot = Lock::new(future.take().map_or(FutureSlot::Gone, FutureSlot::Idle));
            let task = SpawnedTask {
                id: queue.last_task,
                queued: AtomicBool::new(true),
                future: slot,
                scheduler: Arc::clone(scheduler),
            };
            let task = Arc::new(task);
            queue.tasks.insert(task.id, Arc::clone(&task));
            Some(task)
        });
        // The future of a closed dispatcher is dropped outside of the lock.
        drop(future);
        if let Some(task) = spawned {
            scheduler.enqueue(Ready::Task(task));
        }
    }

    fn now(&self) -> Instant {
        self.0.now()
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        Box::pin(Sleep { scheduler: Arc::clone(&self.0), timer: SleepTimer::at(at) })
    }

    fn time_of_day(&self) -> Option<Duration> {
        self.0.clock.is_none().then(|| self.0.now().since_start())
    }

    fn random(&self) -> u64 {
        self.0.queue.with(|queue| queue.random.next_u64())
    }

    fn wake_for_control(&self, waker: Waker) {
        // A task that another thread wakes at this moment also goes first, which is harmless.
        self.0.waking_for_control.store(true, Ordering::Relaxed);
        waker.wake();
        self.0.waking_for_control.store(false, Ordering::Relaxed);
    }
}

struct Sleep {
    scheduler: Arc<Scheduler>,
    timer: SleepTimer,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { scheduler, timer } = &mut *self;
        if timer.at <= scheduler.now() {
            return Poll::Ready(());
        }
        let waker = cx.waker().clone();
        let (replaced, drivers) = scheduler.queue.with(|queue| queue.set_timer(timer, waker));
        discard(replaced);
        wake_all(drivers);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let waker = self.scheduler.queue.with(|queue| queue.drop_timer(&self.timer));
        discard(waker);
    }
}
