//! [`Runtime`]: the only interface between this crate and the outside world.
//!
//! An implementation spawns futures, tells the time, sleeps and returns random numbers. That is all
//! pleach needs to run.

#[cfg(feature = "std")]
use crate::base::handler_faults::HandlerFaults;
#[cfg(feature = "std")]
use crate::base::sync::Arc;
use crate::base::time::Instant;
use alloc::boxed::Box;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

/// A boxed, pinned future that can be sent between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The executor, clock and random source that a system runs on.
///
/// Implementations: Tokio (feature `tokio`), the built-in [`Dispatcher`](crate::Dispatcher) and its
/// simulator. The trait is object-safe and stored as `Arc<dyn Runtime>`, so no public type has a
/// runtime parameter. All scheduling, time and randomness of this crate go through it, so one seed
/// can replay a whole program.
///
/// # Examples
///
/// A runtime that adds a fixed offset to the clock of another one:
///
/// ```
/// use pleach::runtime::{BoxFuture, Dispatcher, Instant, Runtime};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// struct Shifted(Arc<dyn Runtime>, Duration);
///
/// impl Runtime for Shifted {
///     fn spawn(&self, task: BoxFuture<'static, ()>) {
///         self.0.spawn(task);
///     }
///     fn now(&self) -> Instant {
///         self.0.now() + self.1
///     }
///     fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
///         self.0.sleep_until(Instant::after_start(at.since_start().saturating_sub(self.1)))
///     }
///     fn random(&self) -> u64 {
///         self.0.random()
///     }
/// }
///
/// let dispatcher = Dispatcher::seeded(1);
/// let runtime = Shifted(dispatcher.runtime(), Duration::from_secs(60));
/// assert_eq!(runtime.now().since_start(), Duration::from_secs(60));
/// ```
pub trait Runtime: Send + Sync + 'static {
    /// Starts `task` and returns without waiting for it. A runtime that has shut down drops the
    /// task.
    fn spawn(&self, task: BoxFuture<'static, ()>);

    /// Runs `work`, which may block its thread for a long time. A runtime that has shut down drops
    /// it.
    ///
    /// The default implementation spawns it as an ordinary task, which blocks a worker. Runtimes
    /// with a thread pool for blocking work override it.
    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        self.spawn(Box::pin(async move { work() }));
    }

    /// Starts a task that only observes: it looks at the system and writes what it sees.
    ///
    /// The calling thread may be blocked for a long time after this call, so the task must not
    /// depend on it. Default: [`spawn`](Self::spawn). The simulator runs such a task outside of the
    /// schedule, so that the trace of a seed does not depend on what is observed or logged.
    fn spawn_observer(&self, task: BoxFuture<'static, ()>) {
        self.spawn(task);
    }

    /// Returns the current time on this runtime's clock, which never goes backwards.
    fn now(&self) -> Instant;

    /// Returns a future that completes once `now() >= at`.
    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()>;

    /// Polls a sleep that its owner keeps, and may set again. Default: keeps a box of
    /// [`sleep_until`](Self::sleep_until) in it.
    ///
    /// The built-in dispatcher overrides it, so that such a sleep allocates nothing.
    fn poll_sleep(&self, sleep: &mut SleepSlot, cx: &mut Context<'_>) -> Poll<()> {
        let at = sleep.at;
        sleep.boxed.get_or_insert_with(|| self.sleep_until(at)).as_mut().poll(cx)
    }

    /// Forgets what [`poll_sleep`](Self::poll_sleep) has left in the runtime. Default: nothing is
    /// left there.
    fn end_sleep(&self, sleep: &mut SleepSlot) {
        let _ = sleep;
    }

    /// Allocates what the present tasks will need to be woken and to sleep, because no further task
    /// is expected; see [`System::seal`](crate::System::seal). Default: nothing.
    fn reserve(&self) {}

    /// Returns a random number, from a source that a seed can fix.
    fn random(&self) -> u64;

    /// Seeds the random numbers, from which the jitter of backoffs comes. Default: nothing, for
    /// runtimes with a source of their own.
    ///
    /// The built-in dispatcher without a seed starts from the same numbers in every process.
    /// Devices that shall not restart in step call this with a number of their own, such as the
    /// serial number of the chip. The simulator ignores it: its seed replays the program.
    fn seed_random(&self, seed: u64) {
        let _ = seed;
    }

    /// Returns the time of day as the time since 1970-01-01 UTC. Default: `None`, which means the
    /// clock of the machine.
    ///
    /// The simulator overrides it: its virtual time of day starts in 1970.
    fn time_of_day(&self) -> Option<Duration> {
        None
    }

    /// Returns what decides which messages of actors fail, for tests. Default: `None`.
    ///
    /// Each tree asks once, when it is made. The simulator overrides it.
    #[cfg(feature = "std")]
    fn handler_faults(&self) -> Option<Arc<dyn HandlerFaults>> {
        None
    }

    /// Wakes a task that has control work to do: a stop, a cancel or a restart. Default:
    /// `waker.wake()`.
    ///
    /// A runtime with its own queue may put such a task before the others.
    fn wake_for_control(&self, waker: Waker) {
        waker.wake();
    }
}

/// The end of a sleep, and its place in a runtime; for [`Runtime::poll_sleep`].
///
/// A runtime that wraps another one passes it on.
pub struct SleepSlot {
    pub(crate) at: Instant,
    /// The key of its timer in a dispatcher. 0 without one.
    pub(crate) key: u64,
    boxed: Option<BoxFuture<'static, ()>>,
}

impl SleepSlot {
    pub(crate) const fn until(at: Instant) -> Self {
        Self { at, key: 0, boxed: None }
    }

    /// Returns the time at which the sleep ends.
    pub fn at(&self) -> Instant {
        self.at
    }
}

impl fmt::Debug for SleepSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SleepSlot").field("at", &self.at).finish_non_exhaustive()
    }
}

/// A small random number generator (SplitMix64). The same seed gives the same numbers on every
/// machine.
///
/// It serves scheduling decisions and jitter. It is not suitable for secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator that starts from `seed`.
    pub fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number of the sequence.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number in `0..end`, or 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        // The high half of a 128-bit product is uniform enough for scheduling and needs no
        // division.
        ((u128::from(self.next_u64()) * end as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_fixes_the_numbers_and_below_stays_below() {
        let numbers = |seed| {
            let mut random = Random::seeded(seed);
            [random.next_u64(), random.next_u64(), random.next_u64()]
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        let mut random = Random::seeded(1);
        assert!((0..1_000).all(|_| random.below(3) < 3));
        assert_eq!(random.below(0), 0);
    }
}
