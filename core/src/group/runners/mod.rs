//! `RunnerExecutor`: a group whose tasks run on the runtime. It stands in the tree, and runners work through its queue.
//!
//! Owned here, behind one lock: the state, the queue of tasks that are to be polled, the tasks that wait to be woken, and how many
//! runners there are to do it. A task:
//!
//! ```text
//!   admit                begin, finish_poll           finish_poll                    wake                 (sweep, after a cancel)
//!  ───────► ready: Fresh ────────────► in hand ────────► index: Parked ────────► index: Queued, ready: Woken ──► in hand …
//!                                        │ finish_poll, with its result
//!                                        └────────► state
//! ```
//!
//! Invariants:
//! 1. A task is in exactly one place: in `ready` (its first poll is to come), in a index, or in the hand of one runner.
//! 2. While a task is ready there is a runner on its way to it that is not inside another task's poll (`runners`). So a task that blocks its
//!    thread holds up nobody else.
//! 3. Ending one task and taking the next is one holding of the lock. Under it nothing of a user's is called, woken or dropped.
//! 4. After a cancel what had not begun was dropped by whoever cancelled, and all started are sweep_position by runners once: a task that may not run on
//!    is dropped, and one that may is marked `in_grace`. From then on only these are ready or in started, and only they are polled.

pub(crate) mod member;
pub(crate) mod runner;
pub(crate) mod runner_count;
pub(crate) mod sweep;

use crate::base::lock::Lock;
use crate::base::{catch, wakers};
use crate::events::cause::Cause;
use crate::group::executor;
use crate::group::executor::Executor;
use crate::group::runners::runner::Runner;
use crate::group::runners::runner_count::{RunnerCount, RunnersToStart};
use crate::group::state::{Admission, Discarded, Entry, GroupState, Settings, TaskResult};
use crate::group::task::BoxedTask;
use crate::group::task_waker::{TaskWaker, WakeTask};
use crate::group::wait_queue::WakeList;
use crate::tree::member::Member;
use crate::tree::node;
use crate::tree::node::Node;
use crate::tree::waits::edges::KeptEdges;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::task::Waker;
use slab::Slab;

/// Queues that grew beyond this are given back when they are empty.
const RETAINED_CAPACITY_MAX: usize = 1_024;

pub(in crate::group) struct RunnerExecutor<T> {
    node: Node,
    settings: Settings,
    /// What its tasks wait for.
    edges: KeptEdges,
    scheduler: Lock<Scheduler<T>>,
}

struct Scheduler<T> {
    group: GroupState<T>,
    ready: VecDeque<Ready<T>>,
    started: Slab<StartedTask<T>>,
    /// How many tasks are in started that do not run on after a cancel, and up to which index a sweep has come.
    unswept: usize,
    sweep_position: usize,
    polling: usize,
    runners: RunnerCount,
    /// The runtime goes away: nobody runs on.
    abandoned: bool,
}

/// A task to be polled.
enum Ready<T> {
    New(BoxedTask<'static, T>, u64),
    Woken(usize),
}

/// The place of a task that has had its first poll.
enum StartedTask<T> {
    Parked(RunnerTask<T>),
    Queued(RunnerTask<T>),
    /// A runner has it.
    Polling,
}

/// A task with a runner.
pub(in crate::group) struct RunnerTask<T> {
    pub(in crate::group) work: BoxedTask<'static, T>,
    pub(in crate::group) number: u64,
    /// How it is woken; `None` before its first poll.
    pub(in crate::group) waker: Option<TaskWaker<RunnerExecutor<T>>>,
    /// It has been polled within its cancel grace.
    pub(in crate::group) in_grace: bool,
}

/// What a runner brings back.
pub(in crate::group) enum PollOutcome<T> {
    TaskResult(TaskResult<T>, Option<TaskWaker<RunnerExecutor<T>>>),
    Pending(RunnerTask<T>),
}

/// What a runner does next.
pub(in crate::group) enum NextAction<T> {
    Poll(RunnerTask<T>),
    /// It was cancelled: it is polled while its grace lasts, if it has one. Boxed, because it is rare and every task would make way for it.
    PollInGrace(Box<(RunnerTask<T>, Cause)>),
    Drop(Box<(RunnerTask<T>, Cause)>),
    /// Lets others run, and comes back.
    Yield,
    /// Sleeps until there is work.
    Park,
    Exit,
}

impl<T: Send + 'static> RunnerExecutor<T> {
    pub(in crate::group) fn new(node: Node, settings: Settings) -> Self {
        let scheduler = Scheduler {
            group: GroupState::new(settings),
            ready: VecDeque::new(),
            started: Slab::new(),
            unswept: 0,
            sweep_position: 0,
            polling: 0,
            runners: RunnerCount::default(),
            abandoned: false,
        };
        Self { node, settings, edges: KeptEdges::new(), scheduler: Lock::new(scheduler) }
    }

    fn as_member(self: &Arc<Self>) -> Arc<dyn Member> {
        Arc::clone(self) as Arc<dyn Member>
    }

    /// Runs `f` under the lock, and does outside it what that led to. A runner is `busy` if it is about to poll a task.
    #[inline]
    fn with<R>(self: &Arc<Self>, busy: bool, f: impl FnOnce(&mut Scheduler<T>, &mut WakeList) -> R) -> R {
        let mut wakes = WakeList::default();
        // Beside the answer and not with it: an answer is large, and would be moved once more.
        let mut is_more = false;
        let answer = self.scheduler.with(|scheduler| {
            let answer = f(scheduler, &mut wakes);
            is_more = scheduler.needs_follow_up(busy);
            answer
        });
        if is_more {
            self.follow_up(busy);
        }
        wakes.wake();
        answer
    }

    /// Calls runners if too few are on their way, and the idle one if it is to end; leaves the tree in the end.
    #[cold]
    fn follow_up(self: &Arc<Self>, busy: bool) {
        let (to_start, exit, exiting) = self.scheduler.with(|scheduler| {
            let to_start = scheduler.runners.request(scheduler.backlog(), busy);
            let exit = scheduler.group.should_exit().then(|| scheduler.group.take_exit());
            let exiting = exit.as_ref().and_then(|_| scheduler.runners.take_idle());
            (to_start, exit, exiting)
        });
        let RunnersToStart { idle, new, reserve } = to_start;
        wakers::wake_each(idle.into_iter().chain(exiting));
        if new {
            self.spawn_runner(false);
        }
        if reserve {
            self.spawn_runner(true);
        }
        if let Some(exit) = exit {
            node::leave(&self.as_member(), &exit);
        }
    }

    fn spawn_runner(self: &Arc<Self>, is_reserve: bool) {
        self.node.runtime().spawn(Box::pin(Runner::new(Arc::clone(self), is_reserve)));
    }

    /// A runner begins.
    pub(in crate::group) fn begin(self: &Arc<Self>, is_reserve: bool, waker: &Waker) -> NextAction<T> {
        self.with(true, |scheduler, _| {
            if !is_reserve {
                scheduler.runners.begin(waker);
            }
            scheduler.next_action(false, waker)
        })
    }

    /// A runner brings a task back and takes the next, if it has polls `left` for now.
    #[inline]
    pub(in crate::group) fn finish_poll(
        self: &Arc<Self>,
        outcome: PollOutcome<T>,
        left: &mut u32,
        waker: &Waker,
    ) -> NextAction<T> {
        let mut discarded = None;
        let next = self.with(true, |scheduler, wakes| {
            match outcome {
                PollOutcome::TaskResult(ended, waker) => discarded = scheduler.end(ended, waker, wakes),
                PollOutcome::Pending(task) => {
                    if let Some(cause) = scheduler.group.cause().filter(|_| !task.in_grace || scheduler.abandoned) {
                        return scheduler.cancelled(task, cause.clone());
                    }
                    if scheduler.park(task) {
                        // It stepped aside: whoever is before it in the queue has its turn, and then the rest of the runtime.
                        *left = (*left).min(scheduler.ready.len() as u32 - 1);
                    }
                }
            }
            scheduler.next_action(*left == 0, waker)
        });
        executor::discard(discarded);
        next
    }

    /// The runtime dropped a runner: it runs nothing any more, so what is left ends here.
    pub(in crate::group) fn abandon(self: &Arc<Self>) {
        node::cancel(&self.as_member(), &Cause::Dropped);
        self.scheduler.with(Scheduler::sweep_all_again);
        while let Some((task, cause)) = self.scheduler.with(Scheduler::take_swept) {
            let ended = executor::drop_cancelled(self, task.work, task.number, cause);
            executor::discard(self.with(false, |scheduler, wakes| scheduler.end(ended, task.waker, wakes)));
        }
    }

    /// Drops what nobody will read any more.
    pub(in crate::group) fn drop_results(&self) {
        let (unread, payloads) = self.scheduler.with(|scheduler| scheduler.group.take_unread_and_payloads());
        unread.into_iter().for_each(|ended| drop(catch::catch(|| drop(ended))));
        payloads.into_iter().for_each(|(_, payload)| payload.discard());
    }
}

impl<T> Scheduler<T> {
    /// How many tasks a runner could take now.
    fn backlog(&self) -> usize {
        self.ready.len() + if self.group.cause().is_some() { self.unswept } else { 0 }
    }

    #[inline]
    fn needs_follow_up(&self, busy: bool) -> bool {
        self.runners.needs_runner(self.backlog(), busy) || self.group.should_exit()
    }

    /// The next task for a runner, or what it does without.
    #[inline]
    fn next_action(&mut self, last: bool, waker: &Waker) -> NextAction<T> {
        if !last {
            if let Some(ready) = self.ready.pop_front() {
                self.polling += 1;
                let task = self.take_ready(ready);
                return match self.group.cause().filter(|_| task.in_grace) {
                    Some(cause) => self.cancelled(task, cause.clone()),
                    None => NextAction::Poll(task),
                };
            }
            if let Some((task, cause)) = self.take_swept() {
                return self.cancelled(task, cause);
            }
        }
        if self.backlog() > 0 {
            self.runners.note_yield();
            return NextAction::Yield;
        }
        if self.ready.capacity() > RETAINED_CAPACITY_MAX {
            self.ready = VecDeque::new();
        }
        if self.started.is_empty() && self.started.capacity() > RETAINED_CAPACITY_MAX {
            self.started = Slab::new();
        }
        if self.group.has_ended() || !self.runners.park(waker) { NextAction::Exit } else { NextAction::Park }
    }

    #[inline]
    fn take_ready(&mut self, ready: Ready<T>) -> RunnerTask<T> {
        let index = match ready {
            Ready::New(work, number) => return RunnerTask { work, number, waker: None, in_grace: false },
            Ready::Woken(index) => index,
        };
        match core::mem::replace(&mut self.started[index], StartedTask::Polling) {
            StartedTask::Queued(task) | StartedTask::Parked(task) => {
                self.unswept -= usize::from(!task.in_grace);
                task.waker.iter().for_each(TaskWaker::begin_poll);
                task
            }
            StartedTask::Polling => unreachable!("a index is queued once, while its task is in it"),
        }
    }

    /// Puts a task that waits into its index; back into the queue if it was woken meanwhile: true then.
    fn park(&mut self, task: RunnerTask<T>) -> bool {
        self.polling -= 1;
        let Some(waker) = &task.waker else { unreachable!("a task is waker to its waker by its first poll") };
        let known = waker.index();
        let index = known.unwrap_or_else(|| self.started.vacant_key());
        let woken = waker.park_at(index);
        self.unswept += usize::from(!task.in_grace);
        let place = if woken { StartedTask::Queued(task) } else { StartedTask::Parked(task) };
        match known {
            Some(index) => self.started[index] = place,
            None => drop(self.started.insert(place)),
        }
        if woken {
            self.ready.push_back(Ready::Woken(index));
        }
        woken
    }

    /// Puts a parked task into the queue. After a cancel the sweep comes for one that does not run on.
    fn enqueue_woken(&mut self, index: usize) {
        let is_cancelled = self.group.cause().is_some();
        let Some(place) = self.started.get_mut(index) else { return };
        match core::mem::replace(place, StartedTask::Polling) {
            StartedTask::Parked(task) if task.in_grace || !is_cancelled => {
                *place = StartedTask::Queued(task);
                self.ready.push_back(Ready::Woken(index));
            }
            other => *place = other,
        }
    }

    #[inline]
    fn end(&mut self, ended: TaskResult<T>, waker: Option<TaskWaker<RunnerExecutor<T>>>, wakes: &mut WakeList) -> Discarded<T> {
        self.polling -= 1;
        if let Some(waker) = waker {
            if let Some(index) = waker.index() {
                self.started.remove(index);
            }
            waker.retire();
            // Others may hold the waker too; the group itself is held by whoever called this.
            drop(waker);
        }
        self.group.complete(ended, wakes)
    }
}

impl<T: Send + 'static> WakeTask for RunnerExecutor<T> {
    fn wake_task(self: &Arc<Self>, index: usize) {
        self.with(false, |scheduler, _| scheduler.enqueue_woken(index));
    }
}

impl<T: Send + 'static> Executor for Arc<RunnerExecutor<T>> {
    type Value = T;
    type Task = BoxedTask<'static, T>;

    fn member(&self) -> Arc<dyn Member> {
        self.as_member()
    }

    fn settings(&self) -> Settings {
        self.settings
    }

    #[inline]
    fn address(&self) -> usize {
        Self::as_ptr(self).addr()
    }

    #[inline]
    fn with_state<R>(&self, f: impl FnOnce(&mut GroupState<T>, &mut WakeList) -> R) -> R {
        self.with(false, |scheduler, wakes| f(&mut scheduler.group, wakes))
    }

    #[inline]
    fn admit(&self, entry: Entry<'_>, work: impl FnOnce() -> BoxedTask<'static, T>) -> Admission {
        self.with(false, |scheduler, wakes| {
            let admission = scheduler.group.admit(entry, wakes);
            if let Admission::Admitted(number) = admission {
                scheduler.ready.push_back(Ready::New(work(), number));
            }
            admission
        })
    }
}
