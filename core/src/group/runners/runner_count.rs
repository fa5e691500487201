//! `RunnerCount`: which runners of a group are on their way, and how many more must be called.
//!
//! A runtime may put the task that was woken last into a place of the worker that nobody can steal it from, as Tokio does with its LIFO
//! slot. If that worker is busy with a long poll, a runner there is no help. So whoever is about to poll a task while others are ready
//! calls two: the second, a *reserve*, pushes the first out of that slot, to where an idle worker finds it, which then does the same. So
//! all workers come to help, one after the other, and a group that is always busy keeps few runners.

use core::task::Waker;

#[derive(Default)]
pub(super) struct RunnerCount {
    /// Runners on their way that any worker can take. A reserve is not among them.
    stealable: usize,
    /// Runners on their way that may lie where no other worker can take them.
    unstealable: usize,
    /// A runner that sleeps until it is called.
    idle: Option<Waker>,
}

/// Runners to be called, in this order.
#[must_use]
#[derive(Default)]
pub(super) struct RunnersToStart {
    pub(super) idle: Option<Waker>,
    pub(super) new: bool,
    pub(super) reserve: bool,
}

impl RunnerCount {
    /// Whether [`call`](Self::request) would call anybody: `backlog` tasks are ready, and whoever asks is about to poll another if `busy`.
    #[inline]
    pub(super) fn needs_runner(&self, backlog: usize, busy: bool) -> bool {
        backlog > 0 && self.stealable == 0 && (busy || self.unstealable == 0 || backlog > 1)
    }

    pub(super) fn request(&mut self, backlog: usize, busy: bool) -> RunnersToStart {
        if !self.needs_runner(backlog, busy) {
            return RunnersToStart::default();
        }
        if !busy && self.unstealable > 0 {
            // Whoever feeds the group called one before and is at it still: a reserve pushes that one out.
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

    /// The idle runner, which is to end.
    pub(super) fn take_idle(&mut self) -> Option<Waker> {
        let idle = self.idle.take();
        self.unstealable += usize::from(idle.is_some());
        idle
    }

    /// A runner that is no reserve begins.
    pub(super) fn begin(&mut self, waker: &Waker) {
        if self.idle.as_ref().is_some_and(|idle| idle.will_wake(waker)) {
            // Nobody called it, but here it is.
            self.idle = None;
        } else if self.stealable > 0 {
            // It may have been a unstealable one. Then one too many is called before long, which harms nobody.
            self.stealable -= 1;
        } else {
            self.unstealable = self.unstealable.saturating_sub(1);
        }
    }

    /// A runner lets others run and comes back. It goes to the end of its worker's queue, where any worker can take it.
    pub(super) fn note_yield(&mut self) {
        self.stealable += 1;
    }

    /// A runner found nothing to do. True if it is to sleep, false if another one does already.
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
    fn one_task_calls_one_runner_and_a_second_task_a_reserve() {
        let mut runners = RunnerCount::default();
        assert_eq!(requested(&runners.request(1, false)), (false, true, false));
        assert_eq!(requested(&runners.request(1, false)), (false, false, false));
        assert_eq!(requested(&runners.request(2, false)), (false, false, true));
        assert_eq!(requested(&runners.request(100, false)), (false, false, false));
        runners.begin(Waker::noop());
        assert_eq!(
            requested(&runners.request(98, true)),
            (false, true, true),
            "each runner that begins sees to it that another can"
        );
    }

    #[test]
    fn a_runner_about_to_poll_leaves_one_behind_that_any_worker_can_take() {
        let mut runners = RunnerCount::default();
        assert_eq!(requested(&runners.request(1, false)), (false, true, false));
        assert_eq!(requested(&runners.request(1, true)), (false, true, true), "the first may be unstealable");
        runners.begin(Waker::noop());
        runners.begin(Waker::noop());
        assert!(runners.park(Waker::noop()) && !runners.park(Waker::noop()));
        assert_eq!(requested(&runners.request(1, false)), (true, false, false), "the idle one goes before a new one");
    }
}
