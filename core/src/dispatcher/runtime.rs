//! The [`Runtime`] of a dispatcher: puts tasks and sleeps into its queue.

use crate::base::lock::Lock;
use crate::base::runtime::{BoxFuture, Runtime};
use crate::base::sync::{Arc, AtomicBool, Ordering};
use crate::base::time::Instant;
use crate::base::wakers::{discard, wake_all};
use crate::dispatcher::run_queue::SleepTimer;
use crate::dispatcher::spawned_task::{FutureSlot, SpawnedTask};
use crate::dispatcher::{Ready, Scheduler};
use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

/// The runtime handle that [`Dispatcher::runtime`](crate::Dispatcher::runtime) returns.
pub(super) struct DispatcherRuntime(pub(super) Arc<Scheduler>);

impl Runtime for DispatcherRuntime {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        Scheduler::spawn(&self.0, task, false);
    }

    fn spawn_observer(&self, task: BoxFuture<'static, ()>) {
        // With a clock the schedule is not fixed by a seed.
        Scheduler::spawn(&self.0, task, self.0.clock.is_none());
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

impl Scheduler {
    fn spawn(this: &Arc<Self>, task: BoxFuture<'static, ()>, is_observer: bool) {
        let mut future = Some(task);
        let spawned = this.queue.with(|queue| {
            if queue.is_closed {
                return None;
            }
            let slot = Lock::new(future.take().map_or(FutureSlot::Gone, FutureSlot::Idle));
            let (id, scheduler) = (queue.next_id(is_observer), Arc::clone(this));
            let task = Arc::new(SpawnedTask { id, is_observer, queued: AtomicBool::new(true), future: slot, scheduler });
            queue.tasks.insert(id, Arc::clone(&task));
            Some(task)
        });
        // The future of a closed dispatcher is dropped outside of the lock.
        drop(future);
        if let Some(task) = spawned {
            this.enqueue(Ready::Task(task));
        }
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
