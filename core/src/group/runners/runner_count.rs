//! `RunnerCount`: which runners are scheduled, and how many more have to be started.
//!
//! A runtime may put the task that was woken last into a slot of the worker that other workers
//! cannot steal from, as Tokio does with its LIFO slot. A runner in that slot does not help while
//! its worker is busy with a long poll. A runner that is about to poll a task while others are
//! ready therefore starts two: the second, a *reserve*, pushes the first out of the slot, to where
//! an idle worker finds it. That worker does the same. All workers join one after the other, and a
//! busy group keeps few runners.
//!
//! A few runners without work sleep instead of exiting. Waking one costs a tenth of spawning one,
//! and a group with a limit runs out of work again and again. Each of them has an entry:
//!
//! | from | to | by |
//! |---|---|---|
//! | `Free` | `Asleep` | `park` |
//! | `Asleep` | `Woken` | `request`; `take_idle` after the end of the group |
//! | `Asleep`, `Woken` | `Free` | `begin`, when the runner is polled |

use core::task::Waker;

/// The number of runners that may be idle: two that are started together, and two that a runner
/// starts before it polls. Any other exits when it finds no work.
const IDLE_MAX: usize = 4;

/// The scheduled and idle runners of a group.
#[derive(Default)]
pub(super) struct RunnerCount {
    /// Scheduled runners that any worker can take. Reserves are not counted.
    stealable: usize,
    /// Scheduled runners that may lie in a slot which no other worker can steal from.
    unstealable: usize,
    idle: [IdleEntry; IDLE_MAX],
}

/// An entry for a runner that sleeps until a task is ready. The runner keeps it until it is polled.
#[derive(Default)]
enum IdleEntry {
    #[default]
    Free,
    Asleep(Waker),
    Woken(Role),
}

/// Why a runner was scheduled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// To poll tasks. It is counted until it begins.
    Counted,
    /// To push another runner out of a slot, or to exit. It polls tasks too, but is not counted.
    Uncounted,
}

/// How to start a runner.
pub(super) enum Start {
    Wake(Waker),
    Spawn(Role),
}

/// The runners to start: a counted one, then a reserve.
#[must_use]
#[derive(Default)]
pub(super) struct RunnersToStart {
    pub(super) counted: Option<Start>,
    pub(super) reserve: Option<Start>,
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
            return RunnersToStart { counted: None, reserve: Some(self.start(Role::Uncounted)) };
        }
        let has_reserve = busy || backlog > 1;
        if has_reserve {
            self.stealable += 1;
        } else {
            self.unstealable += 1;
        }
        let counted = Some(self.start(Role::Counted));
        let reserve = has_reserve.then(|| self.start(Role::Uncounted));
        RunnersToStart { counted, reserve }
    }

    /// Takes a sleeping runner, or has one spawned.
    fn start(&mut self, role: Role) -> Start {
        let woken = self.idle.iter_mut().find_map(|entry| entry.wake(role));
        woken.map_or(Start::Spawn(role), Start::Wake)
    }

    /// Takes a sleeping runner, which has to exit. There may be more.
    pub(super) fn take_idle(&mut self) -> Option<Waker> {
        self.idle.iter_mut().find_map(|entry| entry.wake(Role::Uncounted))
    }

    /// Counts a runner that begins to run, after it was spawned or idle.
    pub(super) fn begin(&mut self, origin: Origin) {
        let role = match origin {
            Origin::Spawned(role) => role,
            Origin::Idle(at) => match core::mem::take(&mut self.idle[at]) {
                IdleEntry::Woken(role) => role,
                // It was polled without having been woken.
                IdleEntry::Asleep(_) | IdleEntry::Free => Role::Uncounted,
            },
        };
        if role == Role::Uncounted {
            return;
        }
        if self.stealable > 0 {
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

    /// Stores an idle runner and returns its index. Returns `None` if there are enough, and it has
    /// to exit.
    pub(super) fn park(&mut self, waker: &Waker) -> Option<usize> {
        let at = self.idle.iter().position(|entry| matches!(entry, IdleEntry::Free))?;
        self.idle[at] = IdleEntry::Asleep(waker.clone());
        Some(at)
    }
}

/// Where a runner was before it began to run.
#[derive(Clone, Copy)]
pub(super) enum Origin {
    Spawned(Role),
    /// At this index of the idle runners.
    Idle(usize),
}

impl IdleEntry {
    fn wake(&mut self, role: Role) -> Option<Waker> {
        if !matches!(self, Self::Asleep(_)) {
            return None;
        }
        match core::mem::replace(self, Self::Woken(role)) {
            Self::Asleep(waker) => Some(waker),
            Self::Free | Self::Woken(_) => None,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// What is started, as text: the counted runner, then the reserve.
    fn requested(request: &RunnersToStart) -> (&'static str, &'static str) {
        let of = |start: &Option<Start>| match start {
            None => "none",
            Some(Start::Wake(_)) => "woken",
            Some(Start::Spawn(_)) => "new",
        };
        (of(&request.counted), of(&request.reserve))
    }

    #[test]
    fn one_task_starts_one_runner_and_a_second_task_a_reserve() {
        let mut runners = RunnerCount::default();
        assert_eq!(requested(&runners.request(1, false)), ("new", "none"));
        assert_eq!(requested(&runners.request(1, false)), ("none", "none"));
        assert_eq!(requested(&runners.request(2, false)), ("none", "new"));
        assert_eq!(requested(&runners.request(100, false)), ("none", "none"));
        runners.begin(Origin::Spawned(Role::Uncounted));
        assert_eq!(requested(&runners.request(98, true)), ("none", "none"), "a reserve is not counted");
        runners.begin(Origin::Spawned(Role::Counted));
        assert_eq!(requested(&runners.request(98, true)), ("new", "new"), "each runner that begins starts another one");
    }

    #[test]
    fn a_runner_about_to_poll_keeps_one_stealable_runner() {
        let mut runners = RunnerCount::default();
        assert_eq!(requested(&runners.request(1, false)), ("new", "none"));
        assert_eq!(requested(&runners.request(1, true)), ("new", "new"), "the first may be unstealable");
        runners.begin(Origin::Spawned(Role::Counted));
        runners.begin(Origin::Spawned(Role::Counted));
        assert_eq!(runners.park(Waker::noop()), Some(0));
        assert_eq!(requested(&runners.request(2, false)), ("woken", "new"), "a sleeping runner is woken before one is spawned");
    }

    #[test]
    fn few_runners_are_idle_and_keep_their_entries_until_they_are_polled() {
        let mut runners = RunnerCount::default();
        let entries: Vec<_> = (0..=IDLE_MAX).map(|_| runners.park(Waker::noop())).collect();
        assert_eq!(entries, [Some(0), Some(1), Some(2), Some(3), None], "a fifth runner exits");
        assert_eq!(requested(&runners.request(2, false)), ("woken", "woken"));
        assert_eq!(runners.park(Waker::noop()), None, "two runners are woken and were not polled yet");
        runners.begin(Origin::Idle(1));
        assert!(!runners.needs_runner(1, true), "the reserve is not counted, so the other can still be stolen");
        runners.begin(Origin::Idle(0));
        assert!(runners.needs_runner(1, true));
        runners.begin(Origin::Idle(2));
        assert_eq!(requested(&runners.request(1, false)), ("woken", "none"), "one was polled without a wake, one sleeps");
        assert!(runners.take_idle().is_none());
    }
}
