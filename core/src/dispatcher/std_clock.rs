//! A dispatcher on the clock of the machine, driven by a thread that parks. Needs `std`.

use crate::base::block_on::thread_waker;
use crate::base::time::Instant;
use crate::dispatcher::driver::Driver;
use crate::dispatcher::{Clock, Dispatcher};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The monotonic clock of the machine.
///
/// The first call of [`wake_at`](Clock::wake_at) starts one thread, which wakes the registered
/// wakers and ends with the clock. A dispatcher that is driven by a blocked thread never calls it
/// and has no such thread.
#[derive(Debug)]
pub struct StdClock {
    start: std::time::Instant,
    alarms: Arc<Alarms>,
}

/// The registered wakers, and the condition variable of the thread that wakes them.
#[derive(Debug, Default)]
struct Alarms {
    set: Mutex<AlarmState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct AlarmState {
    /// Each waker once, with the earliest time that it was registered for.
    wakers: Vec<(std::time::Instant, Waker)>,
    has_thread: bool,
    is_over: bool,
}

impl StdClock {
    /// Creates a clock that starts at zero now.
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
        // A time beyond the range of the machine's clock is never reached.
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
    fn lock(&self) -> MutexGuard<'_, AlarmState> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(self: &Arc<Self>, at: std::time::Instant, waker: &Waker) {
        // A waker is user code: it is cloned before the lock, and dropped after it if it is already
        // registered.
        let mut new = Some(waker.clone());
        let mut set = self.lock();
        match set.wakers.iter_mut().find(|(_, known)| known.will_wake(waker)) {
            Some((known, _)) => *known = at.min(*known),
            None => set.wakers.extend(new.take().map(|new| (at, new))),
        }
        if !set.has_thread {
            let alarms = Arc::clone(self);
            // If the thread cannot be started, the next call tries again.
            set.has_thread = thread::Builder::new().name("pleach-clock".into()).spawn(move || alarms.run()).is_ok();
        }
        drop(set);
        crate::base::wakers::discard(new);
        self.changed.notify_all();
    }

    /// The thread: wakes what is due, then waits for the next time or for a change.
    fn run(&self) {
        let mut set = self.lock();
        while !set.is_over {
            let now = std::time::Instant::now();
            let due: Vec<_> = set.wakers.extract_if(.., |(at, _)| *at <= now).collect();
            if !due.is_empty() {
                drop(set);
                // A waker is user code: a panic in one does not affect the others.
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
    /// Creates a dispatcher on the clock of the machine, [`StdClock`].
    ///
    /// Driven by [`blocking_dispatch_loop`](Self::blocking_dispatch_loop) it needs no extra thread.
    /// Driven by [`run_until`](Self::run_until) and other async methods, the clock keeps one thread
    /// for its timers.
    pub fn on_std() -> Self {
        Self::new(StdClock::new())
    }

    /// Drives all tasks on this thread until `future` is done, and returns its output.
    ///
    /// While nothing is ready the thread parks, at most until the next timer.
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

    /// Drives all tasks on this thread until `done` returns true. It is called after every poll and
    /// every wake-up.
    ///
    /// While nothing is ready the thread parks, at most until the next timer. It never spins.
    pub fn blocking_dispatch_loop(&self, mut done: impl FnMut() -> bool) {
        let waker = thread_waker();
        let mut driver = Driver::new(&self.scheduler);
        while !done() {
            if self.scheduler.step(None).is_some() {
                continue;
            }
            match driver.register(&waker) {
                Some(at) => thread::park_timeout(at.since(self.scheduler.now())),
                None => thread::park(),
            }
        }
        self.scheduler.wake_drivers();
    }
}
