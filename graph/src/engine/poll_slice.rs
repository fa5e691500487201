//! [`PollSlice`]: how long a run may continue in one poll before it yields.
//!
//! A yield costs as much as hundreds of short nodes: the runtime wakes another thread, which may
//! take the task. So at the step limit a run continues for as long as its clock says that the poll
//! is short. A clock that stands still, like that of a simulation, never says so.

use crate::engine::STEPS_PER_POLL_MAX;
use crate::util::runtime;
use pleach_core::{Instant, Runtime};
use std::sync::Arc;
use std::time::Duration;

/// A poll that took less than this is short.
const SHORT_POLL: Duration = Duration::from_micros(100);

/// The steps between two looks at the clock.
const STEPS_PER_LOOK: u32 = STEPS_PER_POLL_MAX / 2;

pub(super) struct PollSlice {
    steps_per_poll: u32,
    first_look: Option<FirstLook>,
}

/// The clock and its time at the first look of a poll. Without a clock the step limit holds.
type FirstLook = Option<(Arc<dyn Runtime>, Instant)>;

impl PollSlice {
    #[inline]
    pub(super) fn new(steps_per_poll: u32) -> Self {
        Self { steps_per_poll, first_look: None }
    }

    /// Begins a poll. Returns the steps until the first call of [`extend`](Self::extend).
    #[inline]
    pub(super) fn begin(&mut self) -> u32 {
        self.first_look = None;
        self.steps_per_poll.min(STEPS_PER_LOOK)
    }

    /// Returns how many more steps the poll may take; 0 if the run must yield.
    #[cold]
    pub(super) fn extend(&mut self, known: Option<&Arc<dyn Runtime>>) -> u32 {
        match &self.first_look {
            None if self.steps_per_poll > STEPS_PER_LOOK => {
                let clock = known.cloned().or_else(runtime::find);
                self.first_look = Some(clock.map(|clock| (Arc::clone(&clock), clock.now())));
                self.steps_per_poll - STEPS_PER_LOOK
            }
            Some(Some((clock, begun))) => {
                let took = clock.now() - *begun;
                if took.is_zero() || took >= SHORT_POLL { 0 } else { STEPS_PER_LOOK }
            }
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pleach_core::BoxFuture;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// A clock that a test sets, in microseconds.
    struct Clock(AtomicU64);

    impl Runtime for Clock {
        fn spawn(&self, _: BoxFuture<'static, ()>) {}

        fn now(&self) -> Instant {
            Instant::after_start(Duration::from_micros(self.0.load(Relaxed)))
        }

        fn sleep_until(&self, _: Instant) -> BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }

        fn random(&self) -> u64 {
            1
        }
    }

    /// The steps of one poll if `micros` pass between two looks at the clock.
    fn steps(steps_per_poll: u32, micros: Option<u64>) -> u32 {
        let clock = Arc::new(Clock(5.into()));
        let known = micros.map(|_| Arc::clone(&clock) as Arc<dyn Runtime>);
        let mut slice = PollSlice::new(steps_per_poll);
        let mut more = slice.begin();
        let mut steps = 0;
        while more > 0 && steps < 1_000_000 {
            steps += more;
            clock.0.fetch_add(micros.unwrap_or(0), Relaxed);
            more = slice.extend(known.as_ref());
        }
        assert_eq!(slice.begin(), steps_per_poll.min(STEPS_PER_LOOK), "the next poll begins anew");
        steps
    }

    #[test]
    fn f4_run_yields_at_the_step_limit_unless_its_clock_shows_a_short_poll() {
        let limit = STEPS_PER_POLL_MAX;
        assert_eq!(steps(limit, None), limit, "without a clock");
        assert_eq!(steps(limit, Some(0)), limit, "with a clock that stands still");
        assert_eq!(steps(limit, Some(100)), limit, "after a long poll");
        assert_eq!(steps(limit, Some(10)), STEPS_PER_LOOK * 11, "until 100 µs have passed since the first look");
        assert_eq!(steps(1, Some(10)), 1, "each event of a stream is read before the next step");
    }
}
