//! A dispatcher as the runtime of a tree: how tasks and sleeps get into its queue.

use crate::base::lock::Lock;
use crate::base::runtime::{BoxFuture, Runtime};
use crate::base::sync::{AtomicBool, Ordering};
use crate::base::time::Instant;
use crate::base::wakers::{discard, wake_all};
use crate::dispatcher::job::{Job, Place};
use crate::dispatcher::queue::Timer;
use crate::dispatcher::{Inner, Ready};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

/// The dispatcher as a runtime.
pub(super) struct Handle(pub(super) Arc<Inner>);

impl Runtime for Handle {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        let inner = &self.0;
        let mut task = Some(task);
        let job = inner.queue.with(|queue| {
            if queue.is_shut {
                return None;
            }
            queue.last_job += 1;
            let future = Lock::new(task.take().map_or(Place::Gone, Place::Here));
            let job = Job { id: queue.last_job, queued: AtomicBool::new(true), future, inner: Arc::clone(inner) };
            let job = Arc::new(job);
            queue.jobs.insert(job.id, Arc::clone(&job));
            Some(job)
        });
        drop(task);
        if let Some(job) = job {
            inner.enqueue(Ready::Job(job));
        }
    }

    fn now(&self) -> Instant {
        self.0.now()
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        Box::pin(Sleep { inner: Arc::clone(&self.0), timer: Timer::at(at) })
    }

    fn time_of_day(&self) -> Option<Duration> {
        self.0.clock.is_none().then(|| self.0.now().since_start())
    }

    fn random(&self) -> u64 {
        self.0.queue.with(|queue| queue.random.next_u64())
    }

    fn wake_for_control(&self, waker: Waker) {
        // Another thread that wakes something in this moment gets ahead too, which harms nobody.
        self.0.waking_for_control.store(true, Ordering::Relaxed);
        waker.wake();
        self.0.waking_for_control.store(false, Ordering::Relaxed);
    }
}

struct Sleep {
    inner: Arc<Inner>,
    timer: Timer,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { inner, timer } = &mut *self;
        if timer.at <= inner.now() {
            return Poll::Ready(());
        }
        let waker = cx.waker().clone();
        let (replaced, drivers) = inner.queue.with(|queue| queue.set_timer(timer, waker));
        discard(replaced);
        wake_all(drivers);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let waker = self.inner.queue.with(|queue| queue.drop_timer(&self.timer));
        discard(waker);
    }
}
