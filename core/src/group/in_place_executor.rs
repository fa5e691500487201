//! How a group whose tasks are polled in place is driven: its tasks, and the polls that whoever waits gives them.
//!
//! Invariants:
//! 1. A task is in exactly one place: `fresh`, its slot, or the hand of one driver.
//! 2. Whoever waits for anything of the group has polled all that was ready, and left a waker with the [`Spot`]; a task that comes later
//!    wakes those in line.

use crate::base::catch;
use crate::base::wakers::{Key, Spare};
use crate::events::cause::Cause;
use crate::group::executor;
use crate::group::executor::{Ask, Engine, POLLS_IN_A_ROW_MAX};
use crate::group::in_place::InPlace;
use crate::group::in_place_node::{CANCEL, Spot};
use crate::group::state::{Admission, Books, Ended, Entry, Settings, Unwanted};
use crate::group::task::Work;
use crate::group::task_waker::{Bound, Ringing};
use crate::group::wait_queue::Wakes;
use crate::tree::member::Member;
use crate::tree::{current, node};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::task::{Context, Poll};
use slab::Slab;

pub(super) struct State<'env, T> {
    books: Books<T>,
    fresh: VecDeque<(Work<'env, T>, u64)>,
    /// `None` while a driver has the task.
    slots: Slab<Option<Seated<'env, T>>>,
    spare: Option<Bound<Spot>>,
    /// Fresh tasks and woken ones take turns.
    fresh_first: bool,
}

/// A task of this group.
struct Seated<'env, T> {
    work: Work<'env, T>,
    number: u64,
    /// `None` before its first poll, unless it was lent the spare.
    bound: Option<Bound<Spot>>,
}

/// What a driver brings back.
enum Settled<'env, T> {
    Nothing,
    /// A result, and the bell of its task, unless it is retired.
    Ended(Ended<T>, Option<Bound<Spot>>),
    Pending(Seated<'env, T>),
}

/// What a driver does next.
enum Next<'env, T, R> {
    Answer(R),
    Poll(Seated<'env, T>),
    /// It is the turn of those that were woken.
    Woken,
}

impl<'env, T> InPlace<'env, T> {
    /// Runs `f` under the lock, after what the tree has told the group, and does outside it what that led to.
    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut State<'env, T>, &mut Wakes) -> R) -> R {
        if self.spot.told() != 0 {
            self.heed();
        }
        let mut wakes = Wakes::default();
        // Beside the answer and not with it: an answer is large, and would be moved once more.
        let mut is_leaving = false;
        let answer = self.state.with(|state| {
            let answer = f(state, &mut wakes);
            is_leaving = state.books.is_leaving();
            answer
        });
        if is_leaving {
            self.leave();
        }
        wakes.wake();
        answer
    }

    #[cold]
    fn leave(&self) {
        let exit = self.state.with(|state| state.books.is_leaving().then(|| state.books.leave()));
        if let Some(exit) = exit {
            node::leave(&self.member(), &exit);
        }
    }

    /// Enters in the books what the tree has told the group.
    #[cold]
    fn heed(&self) {
        let mut wakes = Wakes::default();
        let cause = self.spot.node().cause();
        self.state.with(|state| match &cause {
            Some(cause) => state.books.cancel(cause, &mut wakes),
            None => state.books.close(&mut wakes),
        });
        wakes.wake();
    }

    /// The task that was woken first, if there is one.
    fn take_woken(&self) -> Option<Seated<'env, T>> {
        while let Some(slot) = self.spot.take_woken() {
            let task = self.state.with(|state| state.slots.get_mut(slot)?.take());
            if let Some(task) = task {
                task.bound.iter().for_each(Bound::clear);
                return Some(task);
            }
        }
        None
    }

    /// Polls a task once.
    #[inline]
    fn run(&self, task: Seated<'env, T>) -> Settled<'env, T> {
        let Seated { work, number, bound } = task;
        let bound = bound.unwrap_or_else(|| Bound::new(&self.spot));
        let outer = current::enter_task(self.address(), bound.waker());
        let polled = executor::poll_task(self, work, number, &mut Context::from_waker(bound.waker()));
        current::leave_task(outer);
        match polled {
            Err(work) => Settled::Pending(Seated { work, number, bound: Some(bound) }),
            Ok(ended) if bound.slot().is_none() => Settled::Ended(ended, bound.returned()),
            Ok(ended) => Settled::Ended(ended, Some(bound)),
        }
    }

    /// Brings back a task that was polled, asks, and if there is no answer takes a fresh task, all under one lock.
    #[inline]
    fn settle<R>(&self, settled: Settled<'env, T>, left: &mut u32, ask: &mut impl Ask<T, R>) -> Next<'env, T, R> {
        let (mut woken, mut unwanted) = (None, None);
        let next = self.with(|state, wakes| {
            match settled {
                Settled::Nothing => {}
                Settled::Ended(ended, bound) => unwanted = self.end(state, ended, bound, wakes),
                Settled::Pending(task) => {
                    woken = state.put_down(task);
                    if woken.is_some() {
                        // It stepped aside: the others have their turn, and then whatever else runs in this task.
                        *left = (*left).min(state.books.in_flight() as u32 - 1);
                    }
                }
            }
            match ask(&mut state.books, None, wakes) {
                Poll::Ready(answer) => Next::Answer(answer),
                Poll::Pending if *left == 0 => Next::Woken,
                Poll::Pending => state.take_in_turn(),
            }
        });
        executor::discard(unwanted);
        if let Some(slot) = woken {
            // Other drivers may have looked for it and gone to sleep, and this one may leave before it comes back to it.
            self.spot.ring(slot);
        }
        next
    }

    /// Enters a result. A bell that has no slot can be lent again.
    #[inline]
    fn end(&self, state: &mut State<'env, T>, ended: Ended<T>, bound: Option<Bound<Spot>>, wakes: &mut Wakes) -> Unwanted<T> {
        match bound.as_ref().and_then(Bound::slot) {
            Some(slot) => {
                state.slots.remove(slot);
                bound.iter().for_each(Bound::retire);
            }
            // Bells are ours: one that is dropped here takes nothing of a user's with it.
            None => state.spare = bound,
        }
        let unwanted = state.books.complete(ended, wakes);
        if state.books.in_flight() == 0 {
            self.spot.end_work();
        }
        unwanted
    }

    /// Any task at all, after a cancel.
    fn take_any(&self) -> Option<Seated<'env, T>> {
        self.state.with(|state| {
            let parked = |state: &mut State<'env, T>| state.slots.iter_mut().find_map(|(_, place)| place.take());
            state.take_fresh().or_else(|| parked(state))
        })
    }

    /// Drops every task that is not in somebody's hand. True if there was one.
    fn cut_all(&self) -> bool {
        let mut any = false;
        while let Some(task) = self.take_any() {
            let cause = self.spot.node().cause().unwrap_or(Cause::Cancelled);
            let ended = executor::cut(self, task.work, task.number, cause);
            executor::discard(self.with(|state, wakes| self.end(state, ended, task.bound, wakes)));
            any = true;
        }
        any
    }

    /// Drops all that is left, with the handle.
    pub(super) fn clear(&self) {
        node::cancel(&self.member(), &Cause::Dropped);
        self.cut_all();
        let (unread, payloads) = self.with_books(|books, _| books.take_leftovers());
        unread.into_iter().for_each(|ended| drop(catch::catch(|| drop(ended))));
        payloads.into_iter().for_each(|(_, payload)| payload.discard());
    }
}

impl<'env, T> State<'env, T> {
    pub(super) fn new(settings: Settings) -> Self {
        let books = Books::new(settings);
        Self { books, fresh: VecDeque::new(), slots: Slab::new(), spare: None, fresh_first: true }
    }

    /// A task that has not been polled, with the spare bell if there is one.
    #[inline]
    fn take_fresh(&mut self) -> Option<Seated<'env, T>> {
        let (work, number) = self.fresh.pop_front()?;
        Some(Seated { work, number, bound: self.spare.take() })
    }

    /// Fresh tasks and woken ones take turns.
    #[inline]
    fn take_in_turn<R>(&mut self) -> Next<'env, T, R> {
        self.fresh_first = !self.fresh_first;
        match self.fresh_first.then(|| self.take_fresh()).flatten() {
            Some(task) => Next::Poll(task),
            None => Next::Woken,
        }
    }

    /// Puts a task that waits into its slot. Gives the slot if it was woken meanwhile.
    fn put_down(&mut self, task: Seated<'env, T>) -> Option<usize> {
        let Some(bound) = &task.bound else { unreachable!("a task is bound to its waker by its first poll") };
        let slot = bound.slot().unwrap_or_else(|| self.slots.insert(None));
        let woken = bound.settle_in(slot);
        self.slots[slot] = Some(task);
        woken.then_some(slot)
    }
}

impl<'env, T> Engine for InPlace<'env, T> {
    type Value = T;
    type Work = Work<'env, T>;

    const DRIVES: bool = true;

    fn member(&self) -> Arc<dyn Member> {
        Arc::clone(&self.spot) as Arc<dyn Member>
    }

    fn settings(&self) -> Settings {
        self.settings
    }

    #[inline]
    fn address(&self) -> usize {
        Arc::as_ptr(&self.spot).addr()
    }

    #[inline]
    fn with_books<R>(&self, f: impl FnOnce(&mut Books<T>, &mut Wakes) -> R) -> R {
        self.with(|state, wakes| f(&mut state.books, wakes))
    }

    #[inline]
    fn admit(&self, entry: Entry<'_>, work: impl FnOnce() -> Work<'env, T>) -> Admission {
        let mut offered = (entry, work);
        // Fast path: tasks are in flight already, and no waiter has to be woken for one more.
        if self.spot.told() == 0 {
            let (entry, work) = offered;
            let taken = self.state.with(|state| {
                if state.books.in_flight() == 0 || !state.books.is_awaited_by_nobody() {
                    return Err(work);
                }
                match state.books.admit_at_once(&entry) {
                    Some(number) => {
                        state.fresh.push_back((work(), number));
                        Ok(number)
                    }
                    None => Err(work),
                }
            });
            match taken {
                Ok(number) => return Admission::In(number),
                Err(work) => offered = (entry, work),
            }
        }
        loop {
            let (entry, work) = offered;
            let admission = self.with(|state, wakes| {
                let is_first = state.books.in_flight() == 0;
                if is_first && self.spot.begin_work() != 0 && !state.books.is_closed() {
                    // The tree told it something since it was looked at. That is heeded first.
                    self.spot.end_work();
                    return Err((entry, work));
                }
                let admission = state.books.admit(entry, wakes);
                if let Admission::In(number) = admission {
                    state.fresh.push_back((work(), number));
                    state.books.wake_everybody(wakes);
                } else if is_first {
                    self.spot.end_work();
                }
                Ok(admission)
            });
            match admission {
                Ok(admission) => return admission,
                Err(again) => offered = again,
            }
        }
    }

    fn attempt<R>(&self, cx: &mut Context<'_>, key: &mut Key, mut ask: impl Ask<T, R>) -> Poll<R> {
        let (mut settled, mut left) = (Settled::Nothing, POLLS_IN_A_ROW_MAX);
        while left > 0 {
            let told = self.spot.told();
            if told & CANCEL != 0 {
                self.cut_all();
            }
            let task = match self.settle(core::mem::replace(&mut settled, Settled::Nothing), &mut left, &mut ask) {
                Next::Answer(answer) => return Poll::Ready(answer),
                Next::Poll(task) => Some(task),
                Next::Woken if left == 0 => break,
                Next::Woken => self.take_woken().or_else(|| self.state.with(State::take_fresh)),
            };
            match task {
                Some(task) => settled = self.run(task),
                None if self.spot.park(told, key, cx.waker()) => break,
                None => {}
            }
            left = left.saturating_sub(1);
        }
        if left == 0 {
            cx.waker().wake_by_ref();
        }
        // Nothing is left to poll, or others are to run first: whoever asks gets in line.
        let (mut answer, mut waker) = (Poll::Pending, Spare::of(cx.waker()));
        let asked = self.settle(settled, &mut left, &mut |books: &mut Books<T>, _: Option<&mut Spare>, wakes: &mut Wakes| {
            answer = ask(books, Some(&mut waker), wakes);
            Poll::Ready(())
        });
        drop(asked);
        // A task that came before this one was in line woke nobody; one that comes from now on does.
        if answer.is_pending() && left > 0 && self.state.with(|state| !state.fresh.is_empty()) {
            cx.waker().wake_by_ref();
        }
        answer
    }

    /// The usual case in one go: nobody else waits for anything, and a fresh task is ready at its first poll. Its result enters no queue.
    #[inline]
    fn read_quickly(&self) -> Option<Ended<T>> {
        if self.spot.told() != 0 || self.spot.has_woken() {
            return None;
        }
        let task = self.state.with(|state| if state.books.is_quiet() { state.take_fresh() } else { None })?;
        match self.run(task) {
            Settled::Ended(ended, bound) => {
                let mut ended = Some(ended);
                let is_done = self.state.with(|state| {
                    state.spare = bound;
                    state.books.complete_quietly()
                });
                if !is_done && let Some(ended) = ended.take() {
                    executor::discard(self.with(|state, wakes| self.end(state, ended, None, wakes)));
                }
                ended
            }
            pending => {
                drop(
                    self.settle(pending, &mut 1, &mut |_: &mut Books<T>, _: Option<&mut Spare>, _: &mut Wakes| Poll::Ready(())),
                );
                None
            }
        }
    }

    fn stop_driving(&self, key: &mut Key) {
        if key.is_some() {
            self.spot.unpark(key);
        }
    }
}
