//! How a group whose tasks are polled in task is driven: its tasks, and the polls that whoever waits gives them.
//!
//! Invariants:
//! 1. A task is in exactly one task: `new_tasks`, its index, or the hand of one driver.
//! 2. Whoever waits for anything of the group has polled all that was ready, and left a waker with the [`InPlaceMember`]; a task that comes later
//!    wakes those in line.

use crate::base::catch;
use crate::base::wakers::{Key, Spare};
use crate::events::cause::Cause;
use crate::group::executor;
use crate::group::executor::{Executor, POLLS_IN_A_ROW_MAX, PollState};
use crate::group::in_place::InPlace;
use crate::group::in_place::member::{CANCEL, InPlaceMember};
use crate::group::state::{Admission, Discarded, Entry, GroupState, Settings, TaskResult};
use crate::group::task::BoxedTask;
use crate::group::task_waker::{TaskWaker, WakeTask};
use crate::group::wait_queue::WakeList;
use crate::tree::member::Member;
use crate::tree::{current, node};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::task::{Context, Poll};
use slab::Slab;

pub(in crate::group) struct InPlaceScheduler<'env, T> {
    group: GroupState<T>,
    new_tasks: VecDeque<(BoxedTask<'env, T>, u64)>,
    /// `None` while a driver has the task.
    started: Slab<Option<InPlaceTask<'env, T>>>,
    spare_waker: Option<TaskWaker<InPlaceMember>>,
    /// Fresh tasks and woken ones take turns.
    new_first: bool,
}

/// A task of this group.
struct InPlaceTask<'env, T> {
    work: BoxedTask<'env, T>,
    number: u64,
    /// `None` before its first poll, unless it was lent the spare_waker.
    waker: Option<TaskWaker<InPlaceMember>>,
}

/// What a driver brings back.
enum PollOutcome<'env, T> {
    Nothing,
    /// A result, and the bell of its task, unless it is retired.
    Ended(TaskResult<T>, Option<TaskWaker<InPlaceMember>>),
    Pending(InPlaceTask<'env, T>),
}

/// What a driver does next.
enum NextAction<'env, T, R> {
    Answer(R),
    Poll(InPlaceTask<'env, T>),
    /// It is the turn of those that were woken.
    Woken,
}

impl<'env, T> InPlace<'env, T> {
    /// Runs `f` under the lock, after what the tree has requests the group, and does outside it what that led to.
    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut InPlaceScheduler<'env, T>, &mut WakeList) -> R) -> R {
        if self.member.requests() != 0 {
            self.apply_requests();
        }
        let mut wakes = WakeList::default();
        // Beside the answer and not with it: an answer is large, and would be moved once more.
        let mut should_exit = false;
        let answer = self.scheduler.with(|scheduler| {
            let answer = f(scheduler, &mut wakes);
            should_exit = scheduler.group.should_exit();
            answer
        });
        if should_exit {
            self.leave();
        }
        wakes.wake();
        answer
    }

    #[cold]
    fn leave(&self) {
        let exit = self.scheduler.with(|scheduler| scheduler.group.should_exit().then(|| scheduler.group.take_exit()));
        if let Some(exit) = exit {
            node::leave(&self.member(), &exit);
        }
    }

    /// Enters in the state what the tree has requests the group.
    #[cold]
    fn apply_requests(&self) {
        let mut wakes = WakeList::default();
        let cause = self.member.node().cause();
        self.scheduler.with(|scheduler| match &cause {
            Some(cause) => scheduler.group.cancel(cause, &mut wakes),
            None => scheduler.group.close(&mut wakes),
        });
        wakes.wake();
    }

    /// The task that was woken first, if there is one.
    fn take_woken(&self) -> Option<InPlaceTask<'env, T>> {
        while let Some(index) = self.member.take_woken() {
            let task = self.scheduler.with(|scheduler| scheduler.started.get_mut(index)?.take());
            if let Some(task) = task {
                task.waker.iter().for_each(TaskWaker::begin_poll);
                return Some(task);
            }
        }
        None
    }

    /// Polls a task once.
    #[inline]
    fn run(&self, task: InPlaceTask<'env, T>) -> PollOutcome<'env, T> {
        let InPlaceTask { work, number, waker } = task;
        let waker = waker.unwrap_or_else(|| TaskWaker::new(&self.member));
        let outer = current::enter_task(self.address(), waker.waker());
        let polled = executor::poll_task(self, work, number, &mut Context::from_waker(waker.waker()));
        current::leave_task(outer);
        match polled {
            Err(work) => PollOutcome::Pending(InPlaceTask { work, number, waker: Some(waker) }),
            Ok(ended) if waker.index().is_none() => PollOutcome::Ended(ended, waker.reuse()),
            Ok(ended) => PollOutcome::Ended(ended, Some(waker)),
        }
    }

    /// Brings back a task that was polled, asks, and if there is no answer takes a new_tasks task, all under one lock.
    #[inline]
    fn finish_poll<R>(
        &self,
        outcome: PollOutcome<'env, T>,
        left: &mut u32,
        poll_state: &mut impl PollState<T, R>,
    ) -> NextAction<'env, T, R> {
        let (mut woken, mut discarded) = (None, None);
        let next = self.with(|scheduler, wakes| {
            match outcome {
                PollOutcome::Nothing => {}
                PollOutcome::Ended(ended, waker) => discarded = self.complete(scheduler, ended, waker, wakes),
                PollOutcome::Pending(task) => {
                    woken = scheduler.park(task);
                    if woken.is_some() {
                        // It stepped aside: the others have their turn, and then whatever else runs in this task.
                        *left = (*left).min(scheduler.group.in_flight() as u32 - 1);
                    }
                }
            }
            match poll_state(&mut scheduler.group, None, wakes) {
                Poll::Ready(answer) => NextAction::Answer(answer),
                Poll::Pending if *left == 0 => NextAction::Woken,
                Poll::Pending => scheduler.take_in_turn(),
            }
        });
        executor::discard(discarded);
        if let Some(index) = woken {
            // Other pollers may have looked for it and gone to sleep, and this one may leave before it comes back to it.
            self.member.wake_task(index);
        }
        next
    }

    /// Enters a result. A bell that has no index can be lent again.
    #[inline]
    fn complete(
        &self,
        scheduler: &mut InPlaceScheduler<'env, T>,
        ended: TaskResult<T>,
        waker: Option<TaskWaker<InPlaceMember>>,
        wakes: &mut WakeList,
    ) -> Discarded<T> {
        match waker.as_ref().and_then(TaskWaker::index) {
            Some(index) => {
                scheduler.started.remove(index);
                waker.iter().for_each(TaskWaker::retire);
            }
            // Bells are ours: one that is dropped here takes nothing of a user's with it.
            None => scheduler.spare_waker = waker,
        }
        let discarded = scheduler.group.complete(ended, wakes);
        if scheduler.group.in_flight() == 0 {
            self.member.clear_busy();
        }
        discarded
    }

    /// Any task at all, after a cancel.
    fn take_any(&self) -> Option<InPlaceTask<'env, T>> {
        self.scheduler.with(|scheduler| {
            let parked =
                |scheduler: &mut InPlaceScheduler<'env, T>| scheduler.started.iter_mut().find_map(|(_, task)| task.take());
            scheduler.take_new().or_else(|| parked(scheduler))
        })
    }

    /// Drops every task that is not in somebody's hand. True if there was one.
    fn drop_all_tasks(&self) -> bool {
        let mut any = false;
        while let Some(task) = self.take_any() {
            let cause = self.member.node().cause().unwrap_or(Cause::Cancelled);
            let ended = executor::drop_cancelled(self, task.work, task.number, cause);
            executor::discard(self.with(|scheduler, wakes| self.complete(scheduler, ended, task.waker, wakes)));
            any = true;
        }
        any
    }

    /// Drops all that is left, with the handle.
    pub(super) fn clear(&self) {
        node::cancel(&self.member(), &Cause::Dropped);
        self.drop_all_tasks();
        let (unread, payloads) = self.with_state(|state, _| state.take_unread_and_payloads());
        unread.into_iter().for_each(|ended| drop(catch::catch(|| drop(ended))));
        payloads.into_iter().for_each(|(_, payload)| payload.discard());
    }
}

impl<'env, T> InPlaceScheduler<'env, T> {
    pub(super) fn new(settings: Settings) -> Self {
        let group = GroupState::new(settings);
        Self { group, new_tasks: VecDeque::new(), started: Slab::new(), spare_waker: None, new_first: true }
    }

    /// A task that has not been polled, with the spare_waker bell if there is one.
    #[inline]
    fn take_new(&mut self) -> Option<InPlaceTask<'env, T>> {
        let (work, number) = self.new_tasks.pop_front()?;
        Some(InPlaceTask { work, number, waker: self.spare_waker.take() })
    }

    /// Fresh tasks and woken ones take turns.
    #[inline]
    fn take_in_turn<R>(&mut self) -> NextAction<'env, T, R> {
        self.new_first = !self.new_first;
        match self.new_first.then(|| self.take_new()).flatten() {
            Some(task) => NextAction::Poll(task),
            None => NextAction::Woken,
        }
    }

    /// Puts a task that waits into its index. Gives the index if it was woken meanwhile.
    fn park(&mut self, task: InPlaceTask<'env, T>) -> Option<usize> {
        let Some(waker) = &task.waker else { unreachable!("a task gets its waker before its first poll") };
        let index = waker.index().unwrap_or_else(|| self.started.insert(None));
        let woken = waker.park_at(index);
        self.started[index] = Some(task);
        woken.then_some(index)
    }
}

impl<'env, T> Executor for InPlace<'env, T> {
    type Value = T;
    type Task = BoxedTask<'env, T>;

    const POLLS_IN_PLACE: bool = true;

    fn member(&self) -> Arc<dyn Member> {
        Arc::clone(&self.member) as Arc<dyn Member>
    }

    fn settings(&self) -> Settings {
        self.settings
    }

    #[inline]
    fn address(&self) -> usize {
        Arc::as_ptr(&self.member).addr()
    }

    #[inline]
    fn with_state<R>(&self, f: impl FnOnce(&mut GroupState<T>, &mut WakeList) -> R) -> R {
        self.with(|scheduler, wakes| f(&mut scheduler.group, wakes))
    }

    #[inline]
    fn admit(&self, entry: Entry<'_>, work: impl FnOnce() -> BoxedTask<'env, T>) -> Admission {
        let mut offered = (entry, work);
        // Fast path: tasks are in flight already, and no waiter has to be woken for one more.
        if self.member.requests() == 0 {
            let (entry, work) = offered;
            let taken = self.scheduler.with(|scheduler| {
                if scheduler.group.in_flight() == 0 || !scheduler.group.has_no_waiters() {
                    return Err(work);
                }
                match scheduler.group.admit_fast(&entry) {
                    Some(number) => {
                        scheduler.new_tasks.push_back((work(), number));
                        Ok(number)
                    }
                    None => Err(work),
                }
            });
            match taken {
                Ok(number) => return Admission::Admitted(number),
                Err(work) => offered = (entry, work),
            }
        }
        loop {
            let (entry, work) = offered;
            let admission = self.with(|scheduler, wakes| {
                let is_first = scheduler.group.in_flight() == 0;
                if is_first && self.member.set_busy() != 0 && !scheduler.group.is_closed() {
                    // The tree requests it something since it was looked at. That is heeded first.
                    self.member.clear_busy();
                    return Err((entry, work));
                }
                let admission = scheduler.group.admit(entry, wakes);
                if let Admission::Admitted(number) = admission {
                    scheduler.new_tasks.push_back((work(), number));
                    scheduler.group.wake_all_waiters(wakes);
                } else if is_first {
                    self.member.clear_busy();
                }
                Ok(admission)
            });
            match admission {
                Ok(admission) => return admission,
                Err(again) => offered = again,
            }
        }
    }

    fn poll_call<R>(&self, cx: &mut Context<'_>, key: &mut Key, mut poll_state: impl PollState<T, R>) -> Poll<R> {
        let (mut outcome, mut left) = (PollOutcome::Nothing, POLLS_IN_A_ROW_MAX);
        while left > 0 {
            let requests = self.member.requests();
            if requests & CANCEL != 0 {
                self.drop_all_tasks();
            }
            let task =
                match self.finish_poll(core::mem::replace(&mut outcome, PollOutcome::Nothing), &mut left, &mut poll_state) {
                    NextAction::Answer(answer) => return Poll::Ready(answer),
                    NextAction::Poll(task) => Some(task),
                    NextAction::Woken if left == 0 => break,
                    NextAction::Woken => self.take_woken().or_else(|| self.scheduler.with(InPlaceScheduler::take_new)),
                };
            match task {
                Some(task) => outcome = self.run(task),
                None if self.member.park(requests, key, cx.waker()) => break,
                None => {}
            }
            left = left.saturating_sub(1);
        }
        if left == 0 {
            cx.waker().wake_by_ref();
        }
        // Nothing is left to poll, or others are to run first: whoever asks gets in line.
        let (mut answer, mut waker) = (Poll::Pending, Spare::of(cx.waker()));
        let asked = self.finish_poll(
            outcome,
            &mut left,
            &mut |state: &mut GroupState<T>, _: Option<&mut Spare>, wakes: &mut WakeList| {
                answer = poll_state(state, Some(&mut waker), wakes);
                Poll::Ready(())
            },
        );
        drop(asked);
        // A task that came before this one was in line woke nobody; one that comes from now on does.
        if answer.is_pending() && left > 0 && self.scheduler.with(|scheduler| !scheduler.new_tasks.is_empty()) {
            cx.waker().wake_by_ref();
        }
        answer
    }

    /// The usual case in one go: nobody else waits for anything, and a new_tasks task is ready at its first poll. Its result enters no queue.
    #[inline]
    fn read_fast(&self) -> Option<TaskResult<T>> {
        if self.member.requests() != 0 || self.member.may_have_woken() {
            return None;
        }
        let task =
            self.scheduler.with(|scheduler| if scheduler.group.is_uncontended() { scheduler.take_new() } else { None })?;
        match self.run(task) {
            PollOutcome::Ended(ended, waker) => {
                let mut ended = Some(ended);
                let is_done = self.scheduler.with(|scheduler| {
                    scheduler.spare_waker = waker;
                    scheduler.group.complete_fast()
                });
                if !is_done && let Some(ended) = ended.take() {
                    executor::discard(self.with(|scheduler, wakes| self.complete(scheduler, ended, None, wakes)));
                }
                ended
            }
            pending => {
                drop(self.finish_poll(
                    pending,
                    &mut 1,
                    &mut |_: &mut GroupState<T>, _: Option<&mut Spare>, _: &mut WakeList| Poll::Ready(()),
                ));
                None
            }
        }
    }

    fn unregister_poller(&self, key: &mut Key) {
        if key.is_some() {
            self.member.unpark(key);
        }
    }
}
