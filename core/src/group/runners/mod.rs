//! `RunnerExecutor`: a group whose tasks are polled by runners on the runtime.
//!
//! One lock guards the [`Scheduler`]: the group state, the queue of ready tasks, the started tasks,
//! and the number of runners. States of a task:
//!
//! ```text
//!   admit
//!  ───────► ready: New ──next_action──► polled by a runner ──finish_poll──► started: Parked
//!                                         ▲     │                                │ wake
//!                                         │     └─finish_poll, with result──►    ▼
//!                                         │                 GroupState        started: Queued
//!                                         └─────────next_action─────────────  ready: Woken
//! ```
//!
//! | from | to | by |
//! |---|---|---|
//! | none | `Ready::New` | `admit` |
//! | `Ready::New`, `Queued` | polled | `next_action`, `take_ready` |
//! | polled | `Parked` | `park`, if it was not woken during the poll |
//! | polled | `Queued` | `park`, if it was woken during the poll |
//! | `Parked` | `Queued` | `enqueue_woken` |
//! | `Parked`, `Queued` | polled or dropped | `take_swept`, after a cancel |
//! | polled | ended | `complete` |
//!
//! Invariants:
//! 1. A task is in exactly one place: in `ready` before its first poll, in `started`, or with one
//!    runner.
//! 2. While a task is ready, a runner is scheduled that is not inside another task's poll
//!    (`runner_count`). A task that blocks its thread therefore does not delay the others.
//! 3. Completing one task and taking the next happen under one lock. No user code runs, and nothing
//!    is woken or dropped, under the lock.
//! 4. On a cancel, the canceller drops the tasks that have not started. Runners sweep the started
//!    tasks once: a task without a cancel grace is dropped, and one with a grace is marked
//!    `in_grace`. After that, only tasks in grace are ready, started or polled.

pub(crate) mod member;
pub(crate) mod runner;
pub(crate) mod runner_count;
pub(crate) mod scheduler;
pub(crate) mod sweep;

use crate::base::lock::Lock;
use crate::base::sync::{Arc, unsize};
use crate::base::wakers;
use crate::events::cause::Cause;
use crate::group::executor;
use crate::group::executor::Executor;
use crate::group::runners::runner::Runner;
use crate::group::runners::runner_count::{Origin, RunnersToStart, Start};
use crate::group::runners::scheduler::{NextAction, PollOutcome, Ready, Scheduler};
use crate::group::state::{Admission, Entry, GroupSettings, GroupState};
use crate::group::task::BoxedTask;
use crate::group::task_waker::WakeTask;
use crate::group::wait_queue::WakeList;
use crate::tree::member::Member;
use crate::tree::node;
use crate::tree::node::Node;
use crate::tree::waits::edges::WaitEdges;
use alloc::boxed::Box;
use core::any::Any;
use core::task::Waker;

/// A group on the runtime: its node, its options and its scheduler.
pub(in crate::group) struct RunnerExecutor<T> {
    node: Node,
    settings: GroupSettings,
    /// The wait-for edges of its tasks.
    edges: WaitEdges,
    scheduler: Lock<Scheduler<T>>,
}

impl<T: Send + 'static> RunnerExecutor<T> {
    pub(in crate::group) fn new(node: Node, settings: GroupSettings) -> Self {
        Self { node, settings, edges: WaitEdges::new(), scheduler: Lock::new(Scheduler::new(settings)) }
    }

    fn as_member(this: &Arc<Self>) -> Arc<dyn Member> {
        unsize!(Arc::clone(this) => dyn Member)
    }

    /// Returns the pointer with the type of this group.
    fn pointed_by(this: &Arc<dyn Member>) -> Arc<Self> {
        let any = unsize!(Arc::clone(this) => dyn Any + Send + Sync);
        Arc::downcast(any).expect("a member is called with its own pointer")
    }

    /// Runs `f` under the lock, then follows up outside it. `busy` says that the caller is a runner
    /// about to poll a task.
    #[inline]
    fn with<R>(this: &Arc<Self>, busy: bool, f: impl FnOnce(&mut Scheduler<T>, &mut WakeList) -> R) -> R {
        let mut wakes = WakeList::default();
        // Not part of the answer: the answer is large, and wrapping it would cost one more move.
        let mut needs_follow_up = false;
        let answer = this.scheduler.with(|scheduler| {
            let answer = f(scheduler, &mut wakes);
            needs_follow_up = scheduler.needs_follow_up(busy);
            answer
        });
        if needs_follow_up {
            Self::follow_up(this, busy);
        }
        wakes.wake();
        answer
    }

    /// Starts missing runners. After the end of the group, ends the sleeping ones and leaves the
    /// tree.
    #[cold]
    fn follow_up(this: &Arc<Self>, busy: bool) {
        let (RunnersToStart { counted, reserve }, exit) = this.scheduler.with(|scheduler| {
            let to_start = scheduler.runners.request(scheduler.backlog(), busy);
            let exit = scheduler.group.should_exit().then(|| scheduler.group.take_exit());
            (to_start, exit)
        });
        for start in counted.into_iter().chain(reserve) {
            match start {
                Start::Wake(waker) => wakers::wake_each([waker]),
                Start::Spawn(role) => this.node.runtime().spawn(Box::pin(Runner::new(Arc::clone(this), role))),
            }
        }
        if let Some(exit) = exit {
            Self::wake_idle(this);
            node::leave(&Self::as_member(this), &exit);
        }
    }

    /// Wakes the sleeping runners of a group that has ended, so that they exit.
    fn wake_idle(this: &Arc<Self>) {
        wakers::wake_each(core::iter::from_fn(|| this.scheduler.with(|scheduler| scheduler.runners.take_idle())));
    }

    /// Registers a runner that begins to run, and returns its first action.
    fn begin(this: &Arc<Self>, origin: Origin, waker: &Waker) -> NextAction<T> {
        Self::with(this, true, |scheduler, _| {
            scheduler.runners.begin(origin);
            scheduler.next_action(false, waker)
        })
    }

    /// Returns a polled task and takes the next one. `left` is the runner's remaining number of
    /// polls.
    #[inline]
    fn finish_poll(this: &Arc<Self>, outcome: PollOutcome<T>, left: &mut u32, waker: &Waker) -> NextAction<T> {
        let mut discarded = None;
        let next = Self::with(this, true, |scheduler, wakes| {
            match outcome {
                PollOutcome::Ended(result, waker) => discarded = scheduler.complete(result, waker, wakes),
                PollOutcome::Pending(task) => {
                    if let Some(cause) = scheduler.group.cause().filter(|_| !task.in_grace || scheduler.abandoned) {
                        return scheduler.cancelled(task, cause.clone());
                    }
                    if scheduler.park(task) {
                        // The task yielded: the tasks queued before it run first, then the rest of
                        // the runtime.
                        *left = (*left).min(scheduler.ready.len() as u32 - 1);
                    }
                }
            }
            scheduler.next_action(*left == 0, waker)
        });
        executor::discard(discarded);
        next
    }

    /// Ends all remaining tasks after the runtime has dropped a runner.
    fn abandon(this: &Arc<Self>) {
        node::cancel(&Self::as_member(this), &Cause::Dropped);
        this.scheduler.with(Scheduler::sweep_all_again);
        while let Some((task, cause)) = this.scheduler.with(Scheduler::take_swept) {
            let result = executor::drop_cancelled(this, task.future, task.number, cause);
            executor::discard(Self::with(this, false, |scheduler, wakes| scheduler.complete(result, task.waker, wakes)));
        }
    }

    /// Drops the unread results, when the group is dropped.
    pub(in crate::group) fn drop_results(&self) {
        executor::discard_leftovers(self.scheduler.with(|scheduler| scheduler.group.take_leftovers()));
    }
}

impl<T: Send + 'static> WakeTask for RunnerExecutor<T> {
    fn wake_task(this: &Arc<Self>, index: usize) {
        Self::with(this, false, |scheduler, _| scheduler.enqueue_woken(index));
    }
}

impl<T: Send + 'static> Executor for Arc<RunnerExecutor<T>> {
    type Value = T;
    type Task = BoxedTask<'static, T>;

    fn member(&self) -> Arc<dyn Member> {
        RunnerExecutor::as_member(self)
    }

    fn settings(&self) -> GroupSettings {
        self.settings
    }

    #[inline]
    fn address(&self) -> usize {
        Self::as_ptr(self).addr()
    }

    #[inline]
    fn with_state<R>(&self, f: impl FnOnce(&mut GroupState<T>, &mut WakeList) -> R) -> R {
        RunnerExecutor::with(self, false, |scheduler, wakes| f(&mut scheduler.group, wakes))
    }

    #[inline]
    fn admit(&self, entry: Entry<'_>, make_task: impl FnOnce() -> BoxedTask<'static, T>) -> Admission {
        RunnerExecutor::with(self, false, |scheduler, wakes| {
            let admission = scheduler.group.admit(entry, wakes);
            if let Admission::Admitted(number) = admission {
                scheduler.ready.push_back(Ready::New(make_task(), number));
            }
            admission
        })
    }
}
