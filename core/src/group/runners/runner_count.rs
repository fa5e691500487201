//! `RunnerCount`: which runners are scheduled, and how many more have to be started.
//!
//! A runtime may put the task that was woken last into a slot of the worker that other workers
//! cannot steal from, as Tokio does with its LIFO slot. A runner in that slot does not help while
//! its worker is busy with a long poll. A runner that is about to poll a task while others are
//! ready therefore starts two: the second, a *reserve*, pushes the first out of the slot, to where
//! an idle worker finds it. That worker does the same. All workers join one after the other, and a
//! busy group keeps few runners.

use core::task::Waker;

/// The scheduled and idle runners of a group.
#[derive(Default)]
pub(super) struct RunnerCount {
    /// Scheduled runners that any worker can take. Reserves are not counted.
    stealable: usize,
    /// Scheduled runners that may lie in a slot which no other worker can steal from.
    unstealable: usize,
    /// A runner that sleeps until a task is ready.
    idle: Option<Waker>,
}

/// The runners to start, in this order.
#[must_use]
#[derive(Default)]
pub(super) struct RunnersToStart {
    pub(super) idle: Option<Waker>,
    pub(super) new: bool,
    pub(super) reserve: bool,
}

impl RunnerCount {
    /// Returns whether [`request`](Self::request) would start a runner. `backlog` is the number of
    /// ready tasks; `busy` says that the caller is about to poll another task.
    #[inline]
    pub(super) fn needs_runner(&self, backlog: usize, busy: bool) -> bool {
        backlog > 0 && self.stealable == 0 && (busy || self.unstealable == 0 || backlog > 1)
    }

    /// Counts and returns the runners to start for `backlog` ready tasks.
    pub(super) fn request(&mut self, backlog: usize, busy: bool) -> RunnersToStart {
        if !self.needs_runner(backlog, busy) {
            return RunnersToStart::default();
        }
        if !busy && self.unstealable > 0 {
            // The caller adds tasks and has started a runner on its own worker: a reserve pushes it
            // out.
            self.unstealable -= 1;
            self.stealable += 1;
            return RunnersToStart { reserve: true, ..RunnersToStart::default() };
        }
        let reserve = busy || backlog > 1;
        if reserve {
            self.stealable += 1;
        } else {
            self.unstealable += 1;
        }
        let idle = self.idle.take();
        RunnersToStart { new: idle.is_none(), idle, reserve }
    }

    /// Takes the idle runner, which has to exit.
    pub(super) fn take_idle(&mut self) -> Option<Waker> {
        let idle = self.idle.take();
        self.unstealable += usize::from(idle.is_some());
        idle
    }

    /// Counts a runner that begins to run and is not a reserve.
    pub(super) fn begin(&mut self, waker: &Waker) {
        if self.idle.as_ref().is_some_and(|idle| idle.will_wake(waker)) {
            // It was polled without having been woken.
            self.idle = None;
        } else if self.stealable > 0 {
            // It may have been an unstealable one. Then one runner too many is started later, which
            // is harmless.
            self.stealable -= 1;
        } else {
            self.unstealable = self.unstealable.saturating_sub(1);
        }
    }

    /// Counts a runner that yields. It goes to the end of its worker's queue, where any worker can
    /// take it.
    pub(super) fn note_yield(&mut self) {
        self.stealable += 1;
    }

    /// Stores an idle runner. Returns false if another one is idle already, and this one has to
    /// exit.
    pub(super) fn park(&mut self, waker: &Waker) -> bool {
        if self.idle.is_some() {
            return false;
        }
        self.idle = Some(waker.clone());
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn requested(request: &RunnersToStart) -> (bool, bool, bool) {
        (request.idle.is_some(), request.new, request.reserve)
    }

    #[test]
    fn one_task_starts_one_runner_and_a_second_task_a_reserve() {
        let mut runners = RunnerCount::default();
        assert_eq!(requested(&runners.request(1, false)), (false, true, false));
        assert_eq!(requested(&runners.request(1, false)), (false, false, false));
        assert_eq!(requested(&runners.request(2, false)), (false, false, true));
        assert_eq!(requested(&runners.request(100, false)), (false, false, false));
        runners.begin(Waker::noop());
        assert_eq!(requested(&runners.request(98, true)), (false, true, true), "each runner that begins starts another one");
    }

    #[test]
    fn a_runner_about_to_poll_keeps_one_stealable_runner() {
        let mut runners = RunnerCount::default();
        assert_eq!(requested(&runners.request(1, false)), (false, true, false));
        assert_eq!(requested(&runners.request(1, true)), (false, true, true), "the first may be unstealable");
        runners.begin(Waker::noop());
        runners.begin(Waker::noop());
        assert!(runners.park(Waker::noop()) && !runners.park(Waker::noop()));
        assert_eq!(
            requested(&runners.request(1, false)),
            (true, false, false),
            "the idle runner is woken before a new one is spawned"
        );
    }
}
