//! `Runtime`: the one way out of core. Whoever can spawn a future, tell the time, sleep and give a random number can run pleach.

use crate::base::time::Instant;
use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;
use core::task::Waker;
use core::time::Duration;

/// A boxed future that can move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a system runs on: Tokio, the [`Dispatcher`](crate::Dispatcher) or the simulator; anything else can implement it.
///
/// The trait is object-safe and held behind an `Arc`, so that no public type carries a runtime parameter. Everything core does
/// about scheduling, time and chance goes through it, which is why one seed can replay a whole program.
pub trait Runtime: Send + Sync + 'static {
    /// Runs `task` to its end, from now on, without waiting for it. If the runtime has shut down it drops the task.
    fn spawn(&self, task: BoxFuture<'static, ()>);

    /// Runs `work`, which may block its thread for long, on a thread for that. Unless a runtime says otherwise it is a task like any other
    /// and holds up a worker, as in the simulator. A runtime that has shut down drops it.
    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        self.spawn(Box::pin(async move { work() }));
    }

    /// The time now, on this runtime's clock. It never goes back.
    fn now(&self) -> Instant;

    /// A future that is ready once `now() >= at`.
    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()>;

    /// A random number, from a source that a seed can fix.
    fn random(&self) -> u64;

    /// The time of day, as the time since the start of 1970 (UTC), if this runtime has one of its own: a simulation's begins in 1970. `None` is
    /// that of the machine.
    fn time_of_day(&self) -> Option<Duration> {
        None
    }

    /// Wakes a task that has control work to do (a stop, a cancel, a restart). A runtime with a queue of its own lets it go first.
    fn wake_for_control(&self, waker: Waker) {
        waker.wake();
    }
}

/// A small generator of random numbers (SplitMix64): the same seed gives the same numbers on every machine.
///
/// It is for scheduling settings and jitter, not for secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator that begins at `seed`.
    pub fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..end`, or 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        // The high half of a 128-bit product spreads evenly enough for settings, without a division.
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
