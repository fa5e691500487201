//! [`Dispatcher`]: the built-in runtime. It has no threads and no globals, and works without `std`.
//!
//! The caller drives it: one step at a time ([`Dispatcher::dispatch_next`]), until nothing is ready
//! ([`Dispatcher::drain_ready`]), or without end ([`Dispatcher::run_forever`],
//! [`Dispatcher::blocking_dispatch_loop`]). Tasks that were woken for control run first.
//!
//! With a seed it is the simulator ([`Dispatcher::seeded`]): virtual time jumps to the next timer,
//! and a seeded random choice picks the next task. One seed always gives the same trace.
//!
//! | file | owns |
//! |---|---|
//! | `mod` | the public handle and the scheduler |
//! | `driver` | a caller that drives the scheduler, and its wake-ups |
//! | `run_queue` | the tasks, the ready queue and the timers, behind one lock |
//! | `spawned_task` | one task: its future and its waker |
//! | `runtime` | the [`Runtime`] implementation: spawning and sleeping |
//! | `std_clock` | the clock of the machine, and driving from a thread (`std`) |
//! | `tokio_runtime` | [`TokioRuntime`](crate::TokioRuntime): another runtime, on Tokio (`tokio`) |
//!
//! Invariants:
//! 1. A task is in the ready queue at most once. Waking it while it runs puts it back.
//! 2. One thread at a time polls the future of a task. It takes the future out of the task and puts
//!    it back. A second driver that finds the future taken sets `again`, so no wake-up is lost.
//! 3. Nothing is polled, woken or dropped while the queue's lock is held.
//! 4. In the simulator a task that only observes takes no part in the random choice, and is not in
//!    the trace. So the trace of a seed does not depend on the log level.
//! 5. A waiting driver is registered and knows the earliest timer. Code that makes a task ready or
//!    sets an earlier timer wakes all waiting drivers. A dropped driver removes its registration.

mod driver;
pub(crate) mod run_queue;
pub(crate) mod runtime;
pub(crate) mod spawned_task;
#[cfg(feature = "std")]
pub(crate) mod std_clock;
#[cfg(feature = "tokio")]
pub(crate) mod tokio_runtime;

use crate::base::lock::Lock;
use crate::base::runtime::Runtime;
use crate::base::sync::{Arc, AtomicBool, Ordering, WakeArc, impl_wake, unsize, waker_of};
use crate::base::time::Instant;
use crate::base::wakers::{wake_all, wake_each};
use crate::dispatcher::driver::Driver;
use crate::dispatcher::run_queue::RunQueue;
use crate::dispatcher::runtime::DispatcherRuntime;
use crate::dispatcher::spawned_task::{FutureSlot, SpawnedTask};
use core::fmt;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::{Context, Poll, Waker};

/// The clock of a [`Dispatcher`]. Implement it for boards without `std`.
pub trait Clock: Send + Sync + 'static {
    /// Returns the current time, which must never go backwards.
    fn now(&self) -> Instant;

    /// Wakes `waker` at `at`, or earlier. Default: does nothing.
    ///
    /// A dispatcher that is driven by a blocked thread does not need it.
    fn wake_at(&self, at: Instant, waker: &Waker) {
        let _ = (at, waker);
    }

    /// Cancels what [`wake_at`](Self::wake_at) was called for with this `waker`. Default: does
    /// nothing.
    ///
    /// Waking the waker anyway is allowed.
    fn forget(&self, waker: &Waker) {
        let _ = waker;
    }
}

/// A runtime that the caller drives, from an executor or from a thread. Dropping it drops all its
/// tasks.
///
/// # Examples
///
/// The simulator runs a program in virtual time. A sleep of one hour takes no real time:
///
/// ```
/// use pleach::runtime::{Dispatcher, Instant};
/// use std::time::Duration;
///
/// let sim = Dispatcher::seeded(7);
/// let runtime = sim.runtime();
/// let wake_up = Instant::after_start(Duration::from_secs(3600));
/// let woke_at = sim.simulate(async {
///     runtime.sleep_until(wake_up).await;
///     runtime.now()
/// });
/// assert_eq!(woke_at, Ok(wake_up));
/// ```
///
/// On the clock of the machine, driven by the current thread:
///
/// ```
/// use pleach::runtime::Dispatcher;
///
/// let dispatcher = Dispatcher::on_std();
/// let sum = dispatcher.blocking_run_until(async { 1 + 1 });
/// assert_eq!(sum, 2);
/// ```
pub struct Dispatcher {
    scheduler: Arc<Scheduler>,
}

struct Scheduler {
    queue: Lock<RunQueue>,
    clock: Option<Arc<dyn Clock>>,
    waking_for_control: AtomicBool,
}

/// An entry of the ready queue.
#[derive(Clone)]
enum Ready {
    Task(Arc<SpawnedTask>),
    Main,
}

/// One poll of one task, as recorded by [`Dispatcher::record`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The number of the task, in spawn order. 0 is the future passed to [`Dispatcher::simulate`].
    pub task: u64,
    /// The virtual time of the poll.
    pub at: Instant,
}

/// The simulation cannot continue: no task is ready and no timer is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stalled;

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("simulation stalled: no task is ready and no timer is set, so the awaited event can never come")
    }
}

impl core::error::Error for Stalled {}

impl Dispatcher {
    /// Creates a dispatcher with this clock. It runs ready tasks in order, control first.
    pub fn new(clock: impl Clock) -> Self {
        Self::with(Some(unsize!(Arc::new(clock) => dyn Clock)), RunQueue::fifo())
    }

    /// Creates the simulator. Its virtual time starts at zero, and `seed` fixes the order in which
    /// tasks run.
    pub fn seeded(seed: u64) -> Self {
        Self::with(None, RunQueue::seeded(seed))
    }

    fn with(clock: Option<Arc<dyn Clock>>, queue: RunQueue) -> Self {
        let waking_for_control = AtomicBool::new(false);
        Self { scheduler: Arc::new(Scheduler { queue: Lock::new(queue), clock, waking_for_control }) }
    }

    /// Returns the runtime to pass to a system or a token.
    pub fn runtime(&self) -> Arc<dyn Runtime> {
        unsize!(Arc::new(DispatcherRuntime(Arc::clone(&self.scheduler))) => dyn Runtime)
    }

    /// Waits until a task is ready and polls it once.
    ///
    /// Cancel safe: dropping the future loses no task.
    pub async fn dispatch_next(&self) {
        let mut driver = Driver::new(&self.scheduler);
        poll_fn(|cx| {
            if self.scheduler.step(None).is_some() {
                return Poll::Ready(());
            }
            driver.wait(cx.waker());
            Poll::Pending
        })
        .await;
    }

    /// Runs ready tasks, including tasks that become ready meanwhile, until none is left. Returns
    /// the number of polls.
    pub fn drain_ready(&self) -> usize {
        let mut polls = 0;
        while self.scheduler.step(None).is_some() {
            polls += 1;
        }
        polls
    }

    /// Drives all tasks until `future` is done, and returns its output.
    ///
    /// Yields to the executor around it after 64 polls in a row.
    pub async fn run_until<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let mut driver = Driver::new(&self.scheduler);
        poll_fn(|cx| driver.take_turn(cx, |cx| future.as_mut().poll(cx))).await
    }

    /// Drives all tasks without end. Yields to the executor around it after 64 polls in a row.
    pub async fn run_forever(&self) -> core::convert::Infallible {
        let mut driver = Driver::new(&self.scheduler);
        poll_fn(|cx| driver.take_turn(cx, |_| Poll::Pending)).await
    }

    /// Runs `future` and all tasks in virtual time, until `future` is done. Use it on a dispatcher
    /// with a seed.
    ///
    /// # Errors
    /// Returns [`Stalled`] if no task is ready and no timer is set before `future` is done.
    pub fn simulate<T>(&self, future: impl Future<Output = T>) -> Result<T, Stalled> {
        let mut future = pin!(future);
        let main = Arc::new(MainWaker { queued: AtomicBool::new(false), scheduler: Arc::clone(&self.scheduler) });
        let waker = waker_of(Arc::clone(&main));
        waker.wake_by_ref();
        let mut output = None;
        loop {
            let mut poll_main = || {
                main.queued.swap(false, Ordering::AcqRel);
                if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                    output = Some(done);
                }
            };
            let stepped = self.scheduler.step(Some(&mut poll_main));
            if let Some(output) = output {
                self.scheduler.queue.with(|queue| queue.main = false);
                return Ok(output);
            }
            if stepped.is_none() && !self.scheduler.jump(Instant::NEVER) {
                return Err(Stalled);
            }
        }
    }

    /// Runs all tasks in virtual time until `at`, and sets the virtual time to `at`.
    pub fn run_until_time(&self, at: Instant) {
        loop {
            self.drain_ready();
            if !self.scheduler.jump(at) {
                break;
            }
        }
        self.scheduler.queue.with(|queue| queue.now = queue.now.max(at));
    }

    /// Runs all tasks in virtual time until nothing is ready and no timer is set, but not beyond
    /// `limit`. Returns whether nothing is left to run.
    ///
    /// Virtual time stops at the last timer that ran.
    pub fn run_until_idle(&self, limit: Instant) -> bool {
        loop {
            self.drain_ready();
            if !self.scheduler.jump(limit) {
                break;
            }
        }
        self.scheduler.queue.with(|queue| queue.next_timer().is_none_or(|at| at == Instant::NEVER))
    }

    /// Returns the number of tasks that have not ended.
    pub fn tasks_alive(&self) -> usize {
        self.scheduler.queue.with(|queue| queue.tasks.len())
    }

    /// Returns the number of polls so far.
    pub fn polls(&self) -> u64 {
        self.scheduler.queue.with(|queue| queue.polls)
    }

    /// Returns a hash of which tasks ran, in which order and at what time. A seed gives the same
    /// hash in every process.
    pub fn trace_hash(&self) -> u64 {
        self.scheduler.queue.with(|queue| queue.trace)
    }

    /// Starts recording every poll, for [`steps`](Self::steps). Clears earlier records.
    pub fn record(&self) {
        self.scheduler.queue.with(|queue| queue.steps = Some(Default::default()));
    }

    /// Returns the polls since [`record`](Self::record), in order. Empty without a call of
    /// `record`.
    pub fn steps(&self) -> alloc::vec::Vec<Step> {
        self.scheduler.queue.with(|queue| queue.steps.clone().unwrap_or_default())
    }

    /// Mixes a value of the program into the trace hash.
    pub fn mix_into_trace(&self, value: u64) {
        self.scheduler.queue.with(|queue| queue.mix(value));
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        // Each task references the scheduler and the scheduler references each task. The owner
        // breaks this reference cycle.
        let (tasks, ready, timers) = self.scheduler.queue.with(RunQueue::close);
        drop((ready, timers));
        for task in tasks.into_values() {
            let future = task.future.with(|slot| core::mem::replace(slot, FutureSlot::Gone));
            drop(future);
        }
    }
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatcher").field("tasks", &self.tasks_alive()).field("polls", &self.polls()).finish()
    }
}

impl Scheduler {
    fn now(&self) -> Instant {
        match &self.clock {
            Some(clock) => clock.now(),
            None => self.queue.with(|queue| queue.now),
        }
    }

    /// Polls one ready task once. Returns `None` if nothing is ready.
    fn step(&self, main: Option<&mut dyn FnMut()>) -> Option<()> {
        if let Some(clock) = &self.clock {
            self.fire(clock.now());
        }
        self.run_observers();
        let with_main = main.is_some();
        match self.queue.with(|queue| queue.pick(with_main))? {
            Ready::Main => {
                if let Some(main) = main {
                    main();
                }
            }
            Ready::Task(task) => SpawnedTask::run(task),
        }
        Some(())
    }

    /// Polls all ready observers of a simulation. This is no step of it.
    fn run_observers(&self) {
        while let Some(Ready::Task(observer)) = self.queue.with(RunQueue::pop_observer) {
            SpawnedTask::run(observer);
        }
    }

    /// Wakes every timer that is due at `now`. Returns whether any was due.
    fn fire(&self, now: Instant) -> bool {
        let mut any = false;
        while let Some(waker) = self.queue.with(|queue| queue.take_due(now)) {
            any = true;
            wake_each([waker]);
        }
        any
    }

    /// Moves virtual time to the next timer, at most to `until`. Returns false if no timer is left.
    fn jump(&self, until: Instant) -> bool {
        let next = self.queue.with(|queue| {
            let next = queue.next_timer().filter(|at| *at <= until && *at != Instant::NEVER)?;
            queue.now = queue.now.max(next);
            Some(queue.now)
        });
        next.is_some_and(|now| self.fire(now))
    }

    fn enqueue(&self, ready: Ready) {
        let control = self.waking_for_control.load(Ordering::Relaxed);
        let drivers = self.queue.with(|queue| {
            queue.push(ready, control);
            queue.drivers.take()
        });
        wake_all(drivers);
    }

    /// Wakes all other drivers because one leaves. They check the queue and also the timers, which
    /// the leaving driver may have been the only one to know.
    fn wake_drivers(&self) {
        wake_all(self.queue.with(|queue| queue.drivers.take()));
    }
}

/// The waker of the future that [`Dispatcher::simulate`] runs.
struct MainWaker {
    queued: AtomicBool,
    scheduler: Arc<Scheduler>,
}

impl_wake!([] MainWaker);

impl WakeArc for MainWaker {
    fn wake(this: Arc<Self>) {
        if !this.queued.swap(true, Ordering::AcqRel) {
            this.scheduler.enqueue(Ready::Main);
        }
    }
}
