//! The [`Runtime`] of a dispatcher: puts tasks and sleeps into its queue.

use crate::base::lock::Lock;
use crate::base::runtime::{BoxFuture, Random, Runtime, SleepSlot};
use crate::base::sync::{Arc, AtomicBool, Ordering};
use crate::base::time::Instant;
use crate::base::wakers::{discard, wake_all};
use crate::dispatcher::run_queue::RunQueue;
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
        Box::pin(Sleep { scheduler: Arc::clone(&self.0), slot: SleepSlot::until(at) })
    }

    fn poll_sleep(&self, sleep: &mut SleepSlot, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll_sleep(sleep, cx)
    }

    fn reserve(&self) {
        self.0.queue.with(RunQueue::reserve);
    }

    fn end_sleep(&self, sleep: &mut SleepSlot) {
        self.0.end_sleep(sleep);
    }

    fn time_of_day(&self) -> Option<Duration> {
        self.0.clock.is_none().then(|| self.0.now().since_start())
    }

    fn random(&self) -> u64 {
        self.0.queue.with(|queue| queue.random.next_u64())
    }

    fn seed_random(&self, seed: u64) {
        if self.0.clock.is_some() {
            self.0.queue.with(|queue| queue.random = Random::seeded(seed));
        }
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

impl Scheduler {
    fn poll_sleep(&self, sleep: &mut SleepSlot, cx: &mut Context<'_>) -> Poll<()> {
        if sleep.at <= self.now() {
            return Poll::Ready(());
        }
        let waker = cx.waker().clone();
        let (replaced, drivers) = self.queue.with(|queue| queue.set_timer(sleep, waker));
        discard(replaced);
        wake_all(drivers);
        Poll::Pending
    }

    fn end_sleep(&self, sleep: &SleepSlot) {
        if sleep.key != 0 {
            discard(self.queue.with(|queue| queue.drop_timer(sleep)));
        }
    }
}

/// A boxed sleep of this dispatcher.
struct Sleep {
    scheduler: Arc<Scheduler>,
    slot: SleepSlot,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { scheduler, slot } = &mut *self;
        scheduler.poll_sleep(slot, cx)
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.scheduler.end_sleep(&self.slot);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::base::time::Instant;
    use crate::dispatcher::{Clock, Dispatcher};
    use alloc::vec::Vec;

    struct Still;

    impl Clock for Still {
        fn now(&self) -> Instant {
            Instant::ZERO
        }
    }

    fn numbers(dispatcher: &Dispatcher, seed: Option<u64>) -> Vec<u64> {
        let runtime = dispatcher.runtime();
        seed.into_iter().for_each(|seed| runtime.seed_random(seed));
        (0..3).map(|_| runtime.random()).collect()
    }

    #[test]
    fn d3_each_device_has_the_jitter_of_its_seed() {
        let numbers_on_a_board = |seed| numbers(&Dispatcher::new(Still), seed);
        assert_eq!(numbers_on_a_board(None), numbers_on_a_board(None));
        assert_ne!(numbers_on_a_board(Some(1)), numbers_on_a_board(Some(2)));
        assert_eq!(numbers_on_a_board(Some(2)), numbers_on_a_board(Some(2)));
        let simulated = |seed| numbers(&Dispatcher::seeded(7), seed);
        assert_eq!(simulated(Some(1)), simulated(None), "the seed of the simulator stays");
    }
}
