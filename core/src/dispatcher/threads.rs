//! With `std`: a dispatcher driven by a thread that parks, on the machine's clock.

use crate::base::block_on::thread_waker;
use crate::base::time::Instant;
use crate::dispatcher::{Clock, Dispatcher, Driver};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The machine's monotonic clock.
///
/// Its [`wake_at`](Clock::wake_at) starts one thread when it is first called, which waits for the times it is given and ends with the
/// clock. Whoever never calls it, as a dispatcher driven by a blocked thread, has no such thread.
#[derive(Debug)]
pub struct StdClock {
    start: std::time::Instant,
    alarms: Arc<Alarms>,
}

/// The wakers that wait for a time, and the thread that wakes them.
#[derive(Debug, Default)]
struct Alarms {
    set: Mutex<AlarmsSet>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct AlarmsSet {
    /// Each waker once, with the earliest time it was set for.
    wakers: Vec<(std::time::Instant, Waker)>,
    has_thread: bool,
    is_over: bool,
}

impl StdClock {
    /// A clock that begins now.
    pub fn new() -> Self {
        Self { start: std::time::Instant::now(), alarms: Arc::default() }
    }
}

impl Default for StdClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for StdClock {
    fn now(&self) -> Instant {
        Instant::after_start(self.start.elapsed())
    }

    fn wake_at(&self, at: Instant, waker: &Waker) {
        // A time that the machine cannot tell never comes.
        if let Some(at) = self.start.checked_add(at.since_start()) {
            self.alarms.add(at, waker);
        }
    }

    fn forget(&self, waker: &Waker) {
        let forgotten: Vec<_> = self.alarms.lock().wakers.extract_if(.., |(_, known)| known.will_wake(waker)).collect();
        drop(forgotten);
    }
}

impl Drop for StdClock {
    fn drop(&mut self) {
        let mut set = self.alarms.lock();
        set.is_over = true;
        let wakers = core::mem::take(&mut set.wakers);
        drop(set);
        self.alarms.changed.notify_all();
        drop(wakers);
    }
}

impl Alarms {
    fn lock(&self) -> MutexGuard<'_, AlarmsSet> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(self: &Arc<Self>, at: std::time::Instant, waker: &Waker) {
        // A waker is foreign code: it is cloned before the lock, and dropped after it if it is known already.
        let mut new = Some(waker.clone());
        let mut set = self.lock();
        match set.wakers.iter_mut().find(|(_, known)| known.will_wake(waker)) {
            Some((known, _)) => *known = at.min(*known),
            None => set.wakers.extend(new.take().map(|new| (at, new))),
        }
        if !set.has_thread {
            let alarms = Arc::clone(self);
            // Without the thread nothing would be woken; the next call tries again.
            set.has_thread = thread::Builder::new().name("pleach-clock".into()).spawn(move || alarms.run()).is_ok();
        }
        drop(set);
        crate::base::wakers::discard(new);
        self.changed.notify_all();
    }

    /// The thread: wakes what is due, and waits for the next time or for a change.
    fn run(&self) {
        let mut set = self.lock();
        while !set.is_over {
            let now = std::time::Instant::now();
            let due: Vec<_> = set.wakers.extract_if(.., |(at, _)| *at <= now).collect();
            if !due.is_empty() {
                drop(set);
                // A waker is foreign code: one that panics harms no other.
                due.into_iter().for_each(|(_, waker)| drop(crate::base::catch::catch(|| waker.wake())));
                set = self.lock();
                continue;
            }
            let next = set.wakers.iter().map(|(at, _)| *at).min();
            set = match next {
                Some(at) => self.changed.wait_timeout(set, at - now).unwrap_or_else(PoisonError::into_inner).0,
                None => self.changed.wait(set).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

impl Dispatcher {
    /// A dispatcher on the machine's clock, [`StdClock`]. Driven by [`blocking_dispatch_loop`](Self::blocking_dispatch_loop) it has no
    /// thread of its own. Awaited, as in [`run_until`](Self::run_until), the clock keeps one thread for its timers.
    pub fn on_std() -> Self {
        Self::new(StdClock::new())
    }

    /// Drives everything from this thread until `future` is done. While nothing is ready the thread is parked, until the next timer at
    /// the latest.
    pub fn blocking_run_until<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let waker = thread_waker();
        let mut output = None;
        self.blocking_dispatch_loop(|| {
            if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                output = Some(done);
            }
            output.is_some()
        });
        output.expect("the loop ends when the future is done")
    }

    /// Drives everything from this thread until `done` says so, which is asked after every poll and every wake-up. While nothing is
    /// ready the thread is parked, until the next timer at the latest; it never spins.
    pub fn blocking_dispatch_loop(&self, mut done: impl FnMut() -> bool) {
        let waker = thread_waker();
        let mut driver = Driver::of(&self.inner);
        while !done() {
            if self.inner.step(None).is_some() {
                continue;
            }
            match driver.register(&waker) {
                Some(at) => thread::park_timeout(at.since(self.inner.now())),
                None => thread::park(),
            }
        }
        self.inner.hand_over();
    }
}
