//! What drives a group whose tasks are polled in place: the tasks, the `Spot` that stands in the tree, and the polls.
//!
//! The tasks and the books live in the handle, since they may borrow. What must live as long as any waker, the [`Spot`], knows slots by
//! number only: it stands in the tree, and remembers which tasks were woken and who drives the group.
//!
//! Invariants:
//! 1. A task is in exactly one place: `fresh`, its slot, or the hand of one driver.
//! 2. Whoever waits for anything of the group has polled all that was ready, and left a waker with the `Spot`; a task that comes later
//!    wakes those in line.
//! 3. What the tree tells the group is marked on the `Spot`, and the handle acts on it when it is next used or dropped. A cancelled group
//!    leaves the tree at once: its tasks are inert, and a part of whoever holds the handle.

use super::bell::{Bound, Ringing};
use super::books::{Admission, Books, Entry, Settings};
use super::engine::{self, Engine};
use super::error::TaskError;
use super::in_place::InPlace;
use super::job::Work;
use super::line::Wakes;
use crate::lock::Lock;
use crate::node::{self, Member, Node, WindDown};
use crate::sync::{AtomicBool, AtomicU32, Ordering};
use crate::wakers::{Key, Wakers, wake_all};
use crate::{Cause, Exit, catch};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::task::{Context, Waker};
use slab::Slab;

const CLOSE: u32 = 1;
const CANCEL: u32 = 2;

pub(super) struct State<'env, T> {
    books: Books<T>,
    fresh: VecDeque<Seated<'env, T>>,
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
    bound: Option<Bound<Spot>>,
}

/// The group as the tree and the wakers know it.
pub(super) struct Spot {
    node: Node,
    /// What the tree told it: `CLOSE`, `CANCEL`.
    told: AtomicU32,
    /// Whether a task is in flight.
    busy: AtomicBool,
    rung: Lock<Rung>,
}

#[derive(Default)]
struct Rung {
    slots: VecDeque<usize>,
    drivers: Wakers,
}

impl Spot {
    pub(super) fn new(node: Node) -> Self {
        Self { node, told: AtomicU32::new(0), busy: AtomicBool::new(false), rung: Lock::new(Rung::default()) }
    }
}

impl Spot {
    /// Marks what the tree wants, and wakes whoever drives the group to see to it.
    fn tell(&self, what: u32) {
        self.told.fetch_or(what, Ordering::SeqCst);
        wake_all(self.rung.with(|rung| rung.drivers.take()));
    }

    /// Leaves the waker of a driver that found nothing to poll. False if there is something by now, or the tree said more than `told`.
    fn park(&self, told: u32, key: &mut Key, waker: &Waker) -> bool {
        let (parked, replaced) = self.rung.with(|rung| {
            if !rung.slots.is_empty() || self.told.load(Ordering::SeqCst) != told {
                return (false, None);
            }
            (true, rung.drivers.register(key, waker))
        });
        drop(replaced);
        parked
    }
}

impl Ringing for Spot {
    fn ring(self: &Arc<Self>, slot: usize) {
        let drivers = self.rung.with(|rung| {
            rung.slots.push_back(slot);
            rung.drivers.take()
        });
        wake_all(drivers);
    }
}

impl Member for Spot {
    fn node(&self) -> &Node {
        &self.node
    }

    fn node_mut(&mut self) -> &mut Node {
        &mut self.node
    }

    /// Closing waits for the tasks, if there are any; stopping cancels them.
    fn wind_down(self: Arc<Self>, how: WindDown) {
        if how == WindDown::Stop {
            return node::cancel(&(self as Arc<dyn Member>), &Cause::Cancelled);
        }
        self.tell(CLOSE);
        if !self.busy.load(Ordering::SeqCst) {
            node::leave(self, Exit::Closed);
        }
    }

    fn cut_off(self: Arc<Self>) {
        self.tell(CANCEL);
        let cause = self.node.cause().unwrap_or(Cause::Cancelled);
        node::leave(self, Exit::Cancelled(cause));
    }

    fn childless(&self) -> Option<Exit> {
        None
    }
}

impl<'env, T> InPlace<'env, T> {
    /// Runs `f` under the lock, after what the tree has told the group, and does outside it what that led to.
    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut State<'env, T>, &mut Wakes) -> R) -> R {
        let told = self.spot.told.load(Ordering::SeqCst);
        let cause = if told & CANCEL == 0 { None } else { self.spot.node.cause() };
        let (answer, wakes, exit) = self.state.with(|state| {
            let mut wakes = Wakes::default();
            match &cause {
                Some(cause) => state.books.cancel(cause, &mut wakes),
                None if told & CLOSE != 0 => state.books.close(&mut wakes),
                None => {}
            }
            let was_busy = state.books.in_flight() > 0;
            let answer = f(state, &mut wakes);
            let is_busy = state.books.in_flight() > 0;
            if was_busy != is_busy {
                self.spot.busy.store(is_busy, Ordering::SeqCst);
            }
            (answer, wakes, state.books.take_exit())
        });
        if let Some(exit) = exit {
            node::leave(self.member(), exit);
        }
        wakes.wake();
        answer
    }

    /// A task to be polled: a fresh one or one that was woken, by turns.
    fn take(&self) -> Option<Seated<'env, T>> {
        let fresh = self.state.with(|state| {
            state.fresh_first = !state.fresh_first;
            if state.fresh_first { None } else { state.fresh.pop_front() }
        });
        fresh.or_else(|| self.take_woken()).or_else(|| self.state.with(|state| state.fresh.pop_front()))
    }

    fn take_woken(&self) -> Option<Seated<'env, T>> {
        while let Some(slot) = self.spot.rung.with(|rung| rung.slots.pop_front()) {
            let task = self.state.with(|state| state.slots.get_mut(slot)?.take());
            if let Some(task) = task {
                task.bound.iter().for_each(Bound::clear);
                return Some(task);
            }
        }
        None
    }

    /// Any task at all, after a cancel.
    fn take_any(&self) -> Option<Seated<'env, T>> {
        self.state.with(|state| {
            let parked = |state: &mut State<'env, T>| state.slots.iter_mut().find_map(|(_, place)| place.take());
            state.fresh.pop_front().or_else(|| parked(state))
        })
    }

    /// Polls a task once. True if it has ended.
    #[inline]
    fn run(&self, task: Seated<'env, T>) -> bool {
        let Seated { work, number, bound } = task;
        let is_first = bound.is_none();
        let bound = bound.or_else(|| self.state.with(|state| state.spare.take())).unwrap_or_else(|| Bound::new(&self.spot));
        match engine::poll_task(self, work, number, &mut Context::from_waker(bound.waker())) {
            Err(work) => {
                let woken = self.state.with(|state| {
                    let known = bound.slot();
                    let slot = known.unwrap_or_else(|| state.slots.insert(None));
                    let woken = bound.settle_in(slot);
                    state.slots[slot] = Some(Seated { work, number, bound: Some(bound) });
                    woken.then_some(slot)
                });
                if let Some(slot) = woken {
                    self.spot.rung.with(|rung| rung.slots.push_back(slot));
                }
                false
            }
            Ok(ended) => {
                let (spare, bound) = if is_first { (bound.returned(), None) } else { (None, Some(bound)) };
                self.with(|state, wakes| {
                    state.spare = spare.or(state.spare.take());
                    state.end(ended, bound, wakes);
                });
                true
            }
        }
    }

    /// Drops every task that is not in somebody's hand. True if there was one.
    fn cut_all(&self) -> bool {
        let mut any = false;
        while let Some(task) = self.take_any() {
            let cause = self.spot.node.cause().unwrap_or(Cause::Cancelled);
            let ended = engine::cut(self, task.work, task.number, cause);
            self.with(|state, wakes| state.end(ended, task.bound, wakes));
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
        payloads.into_iter().for_each(|payload| drop(catch::catch(|| drop(payload))));
    }
}

impl<'env, T> State<'env, T> {
    pub(super) fn new(settings: Settings) -> Self {
        let books = Books::new(settings);
        Self { books, fresh: VecDeque::new(), slots: Slab::new(), spare: None, fresh_first: true }
    }

    fn end(&mut self, ended: Result<T, TaskError>, bound: Option<Bound<Spot>>, wakes: &mut Wakes) {
        if let Some(bound) = bound {
            if let Some(slot) = bound.slot() {
                self.slots.remove(slot);
            }
            bound.retire();
        }
        self.books.complete(ended, wakes);
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
    fn with_books<R>(&self, f: impl FnOnce(&mut Books<T>, &mut Wakes) -> R) -> R {
        self.with(|state, wakes| f(&mut state.books, wakes))
    }

    #[inline]
    fn admit(&self, entry: Entry<'_>, work: impl FnOnce() -> Work<'env, T>) -> Admission {
        self.with(|state, wakes| {
            let admission = state.books.admit(entry);
            if let Admission::In(number) = admission {
                state.fresh.push_back(Seated { work: work(), number, bound: None });
                state.books.wake_everybody(wakes);
            }
            admission
        })
    }

    fn drive(&self, cx: &mut Context<'_>, left: &mut u32, key: &mut Key) -> bool {
        loop {
            let told = self.spot.told.load(Ordering::SeqCst);
            if told & CANCEL != 0 && self.cut_all() {
                return true;
            }
            if *left == 0 {
                cx.waker().wake_by_ref();
                return false;
            }
            match self.take() {
                Some(task) => {
                    *left -= 1;
                    if self.run(task) {
                        return true;
                    }
                }
                None if self.spot.park(told, key, cx.waker()) => return false,
                None => {}
            }
        }
    }

    fn stop_driving(&self, key: &mut Key) {
        if key.is_some() {
            drop(self.spot.rung.with(|rung| rung.drivers.remove(key)));
        }
    }
}
