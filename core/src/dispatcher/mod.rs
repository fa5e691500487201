//! `Dispatcher`: a runtime in one value, for wherever there is no other: no thread of its own, no global, `no_std`.
//!
//! Whoever drives it decides when something runs: one step at a time ([`Dispatcher::dispatch_next`]), all that is ready
//! ([`Dispatcher::drain_ready`]), or for good ([`Dispatcher::run_forever`], [`Dispatcher::blocking_dispatch_loop`]). Tasks woken for
//! control go first. With a seed it is the simulator: virtual time that jumps to the next timer, and a seeded choice of what runs next,
//! so that one seed gives one trace ([`Dispatcher::seeded`]).
//!
//! Owned here: the tasks, the ready queue, the timers. Invariants:
//! 1. A task is in the ready queue at most once; waking it while it runs puts it back.
//! 2. A task's future is polled by one thread at a time: whoever steps takes it out of the task and puts it back. A second driver
//!    that comes upon it meanwhile leaves word, so no wake-up is lost.
//! 3. Nothing is polled, woken or dropped under the lock.
//! 4. A driver that waits is registered, and knows the earliest timer: whoever makes something ready, or sets an earlier timer, wakes
//!    all that wait. A driver that is dropped leaves nothing behind.

pub(crate) mod handle;
pub(crate) mod job;
pub(crate) mod queue;
#[cfg(feature = "std")]
pub(crate) mod threads;

use crate::base::lock::Lock;
use crate::base::runtime::Runtime;
use crate::base::sync::{AtomicBool, Ordering};
use crate::base::time::Instant;
use crate::base::wakers::{Key, Spare, discard, wake_all, wake_each};
use crate::dispatcher::handle::Handle;
use crate::dispatcher::job::{Job, Place};
use crate::dispatcher::queue::Queue;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::fmt;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::{Context, Poll, Waker};

/// After this many polls [`Dispatcher::run_until`] and [`Dispatcher::run_forever`] let the executor around them run others.
const POLLS_PER_TURN_MAX: usize = 64;

/// Where a dispatcher gets its time from.
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Instant;

    /// Wakes `waker` at `at`, or earlier. A dispatcher that is driven by a blocked thread does not need it.
    fn wake_at(&self, at: Instant, waker: &Waker) {
        let _ = (at, waker);
    }

    /// Nobody needs `waker` to be woken any more: whoever gave it to [`wake_at`](Self::wake_at) is gone. Waking it does no harm.
    fn forget(&self, waker: &Waker) {
        let _ = waker;
    }
}

/// A runtime that is driven by hand, from an executor or from a thread. Dropping it drops every task in it.
pub struct Dispatcher {
    inner: Arc<Inner>,
}

struct Inner {
    queue: Lock<Queue>,
    clock: Option<Arc<dyn Clock>>,
    waking_for_control: AtomicBool,
}

/// Something ready to run.
#[derive(Clone)]
enum Ready {
    Job(Arc<Job>),
    Main,
}

/// One poll of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The task, by the order in which tasks were spawned; 0 is the future the simulation runs for.
    pub task: u64,
    /// When.
    pub at: Instant,
}

/// Nothing is ready and no timer is set, so what was awaited can never come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stalled;

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing is ready and no timer is set: what is awaited can never come")
    }
}

impl core::error::Error for Stalled {}

impl Dispatcher {
    /// A dispatcher that tells time by `clock` and runs what is ready in order, control first.
    pub fn new(clock: impl Clock) -> Self {
        Self::with(Some(Arc::new(clock)), Queue::in_order())
    }

    /// The simulator: virtual time that begins at zero and jumps, and a choice of what runs next that `seed` fixes.
    pub fn seeded(seed: u64) -> Self {
        Self::with(None, Queue::seeded(seed))
    }

    fn with(clock: Option<Arc<dyn Clock>>, queue: Queue) -> Self {
        let waking_for_control = AtomicBool::new(false);
        Self { inner: Arc::new(Inner { queue: Lock::new(queue), clock, waking_for_control }) }
    }

    /// The runtime to give to a system or a token.
    pub fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::new(Handle(Arc::clone(&self.inner)))
    }

    /// Waits until something is ready, and runs it for one poll.
    pub async fn dispatch_next(&self) {
        let mut driver = Driver::of(&self.inner);
        poll_fn(|cx| {
            if self.inner.step(None).is_some() {
                return Poll::Ready(());
            }
            driver.wait(cx.waker());
            Poll::Pending
        })
        .await;
    }

    /// Runs what is ready, and what that makes ready, until nothing is. How many polls that took.
    pub fn drain_ready(&self) -> usize {
        let mut polls = 0;
        while self.inner.step(None).is_some() {
            polls += 1;
        }
        polls
    }

    /// Drives everything until `future` is done. After 64 polls in a row it lets the executor around it run others.
    pub async fn run_until<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let mut driver = Driver::of(&self.inner);
        poll_fn(|cx| driver.take_turn(cx, |cx| future.as_mut().poll(cx))).await
    }

    /// Drives everything for good. After 64 polls in a row it lets the executor around it run others.
    pub async fn run_forever(&self) -> core::convert::Infallible {
        let mut driver = Driver::of(&self.inner);
        poll_fn(|cx| driver.take_turn(cx, |_| Poll::Pending)).await
    }

    /// Runs `future` and everything else in virtual time, from here, until `future` is done. For a dispatcher with a seed.
    pub fn simulate<T>(&self, future: impl Future<Output = T>) -> Result<T, Stalled> {
        let mut future = pin!(future);
        let main = Arc::new(Main { queued: AtomicBool::new(false), inner: Arc::clone(&self.inner) });
        let waker = Waker::from(Arc::clone(&main));
        waker.wake_by_ref();
        let mut output = None;
        loop {
            let mut poll_main = || {
                main.queued.swap(false, Ordering::AcqRel);
                if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                    output = Some(done);
                }
            };
            let stepped = self.inner.step(Some(&mut poll_main));
            if let Some(output) = output {
                self.inner.queue.with(|queue| queue.main = false);
                return Ok(output);
            }
            if stepped.is_none() && !self.inner.jump(Instant::NEVER) {
                return Err(Stalled);
            }
        }
    }

    /// Runs everything in virtual time until `at`, which is then the time.
    pub fn run_until_time(&self, at: Instant) {
        loop {
            self.drain_ready();
            if !self.inner.jump(at) {
                break;
            }
        }
        self.inner.queue.with(|queue| queue.now = queue.now.max(at));
    }

    /// How many tasks have not ended.
    pub fn tasks_alive(&self) -> usize {
        self.inner.queue.with(|queue| queue.jobs.len())
    }

    /// How many polls there were so far.
    pub fn polls(&self) -> u64 {
        self.inner.queue.with(|queue| queue.polls)
    }

    /// A hash over what ran, in which order and at what time: with a seed it is the same in every process.
    pub fn trace_hash(&self) -> u64 {
        self.inner.queue.with(|queue| queue.trace)
    }

    /// Keeps every step from now on, for [`steps`](Self::steps).
    pub fn record(&self) {
        self.inner.queue.with(|queue| queue.steps = Some(Default::default()));
    }

    /// What ran so far, in order, since [`record`](Self::record).
    pub fn steps(&self) -> alloc::vec::Vec<Step> {
        self.inner.queue.with(|queue| queue.steps.clone().unwrap_or_default())
    }

    /// Mixes something the program did into the trace.
    pub fn note(&self, what: u64) {
        self.inner.queue.with(|queue| queue.mix(what));
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        // Each task holds the queue and the queue holds each task: whoever owns the dispatcher unties the knot.
        let (jobs, ready, timers) = self.inner.queue.with(Queue::shut);
        drop((ready, timers));
        for job in jobs.into_values() {
            let future = job.future.with(|place| core::mem::replace(place, Place::Gone));
            drop(future);
        }
    }
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatcher").field("tasks", &self.tasks_alive()).field("polls", &self.polls()).finish()
    }
}

impl Inner {
    fn now(&self) -> Instant {
        match &self.clock {
            Some(clock) => clock.now(),
            None => self.queue.with(|queue| queue.now),
        }
    }

    /// Runs one ready thing for one poll. `None` if nothing is ready.
    fn step(&self, main: Option<&mut dyn FnMut()>) -> Option<()> {
        if let Some(clock) = &self.clock {
            self.fire(clock.now());
        }
        let with_main = main.is_some();
        match self.queue.with(|queue| queue.pick(with_main))? {
            Ready::Main => {
                if let Some(main) = main {
                    main();
                }
            }
            Ready::Job(job) => job.run(),
        }
        Some(())
    }

    /// Wakes every timer that is due at `now`.
    fn fire(&self, now: Instant) -> bool {
        let due = self.queue.with(|queue| queue.take_due(now));
        let any = !due.is_empty();
        wake_each(due);
        any
    }

    /// Virtual time jumps to the next timer, at most to `until`. False if there is none.
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

    /// A driver leaves: the others look for themselves, at timers too, which it may have been the only one to know.
    fn hand_over(&self) {
        wake_all(self.queue.with(|queue| queue.drivers.take()));
    }
}

/// Somebody who drives a dispatcher: its place among those that wait for more to do.
struct Driver<'a> {
    inner: &'a Inner,
    key: Key,
    /// The waker that the clock has.
    alarm: Option<Waker>,
}

impl<'a> Driver<'a> {
    fn of(inner: &'a Inner) -> Self {
        Self { inner, key: None, alarm: None }
    }

    /// Runs what is ready until `done` is, for one turn at most. A driver that still has something to do comes back by itself.
    fn take_turn<T>(&mut self, cx: &mut Context<'_>, mut done: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        for _ in 0..POLLS_PER_TURN_MAX {
            if let Poll::Ready(output) = done(cx) {
                self.inner.hand_over();
                return Poll::Ready(output);
            }
            if self.inner.step(None).is_none() {
                self.wait(cx.waker());
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Leaves `waker` for whatever becomes ready, and for the next timer.
    fn wait(&mut self, waker: &Waker) {
        let next_timer = self.register(waker);
        if let (Some(clock), Some(at)) = (&self.inner.clock, next_timer) {
            self.forget_alarm_but(Some(waker));
            clock.wake_at(at, waker);
            self.alarm = Some(waker.clone());
        }
    }

    /// Takes the waker back from the clock, unless it is `kept`. Another driver in the same task may have given the same one: all that
    /// wait look for themselves.
    fn forget_alarm_but(&mut self, kept: Option<&Waker>) {
        let Some(alarm) = self.alarm.take().filter(|alarm| !kept.is_some_and(|kept| kept.will_wake(alarm))) else { return };
        if let Some(clock) = &self.inner.clock {
            clock.forget(&alarm);
        }
        self.inner.hand_over();
    }

    /// Leaves `waker` for whatever becomes ready, and wakes it at once if something has, meanwhile. Else gives the next timer.
    fn register(&mut self, waker: &Waker) -> Option<Instant> {
        let mut spare = Spare::of(waker);
        let (more, next_timer) = self.inner.queue.with(|queue| {
            queue.drivers.register(&mut self.key, &mut spare);
            (queue.is_ready(), queue.next_timer())
        });
        if more {
            waker.wake_by_ref();
            return None;
        }
        next_timer
    }
}

impl Drop for Driver<'_> {
    fn drop(&mut self) {
        let waker = self.inner.queue.with(|queue| queue.drivers.remove(&mut self.key));
        discard(waker);
        self.forget_alarm_but(None);
    }
}

/// Wakes the future that a simulation runs for.
struct Main {
    queued: AtomicBool,
    inner: Arc<Inner>,
}

impl Wake for Main {
    fn wake(self: Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.inner.enqueue(Ready::Main);
        }
    }
}
