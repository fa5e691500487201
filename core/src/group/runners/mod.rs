//! `Crew`: a group whose tasks run on the runtime. It stands in the tree, and runners work through its queue.
//!
//! Owned here, behind one lock: the books, the queue of tasks that are to be polled, the tasks that wait to be woken, and how many
//! runners there are to do it. A task:
//!
//! ```text
//!   admit                begin, settle           settle                    wake                 (sweep, after a cancel)
//!  ───────► ready: Fresh ────────────► in hand ────────► slot: Parked ────────► slot: Queued, ready: Woken ──► in hand …
//!                                        │ settle, with its result
//!                                        └────────► books
//! ```
//!
//! Invariants:
//! 1. A task is in exactly one place: in `ready` (its first poll is to come), in a slot, or in the hand of one runner.
//! 2. While a task is ready there is a runner on its way to it that is not inside another task's poll (`roster`). So a task that blocks its
//!    thread holds up nobody else.
//! 3. Ending one task and taking the next is one holding of the lock. Under it nothing of a user's is called, woken or dropped.
//! 4. After a cancel what had not begun was dropped by whoever cancelled, and all slots are swept by runners once: a task that may not run on
//!    is dropped, and one that may is marked `runs_on`. From then on only these are ready or in slots, and only they are polled.

pub(crate) mod member;
pub(crate) mod sweep;

use crate::base::lock::Lock;
use crate::base::{catch, wakers};
use crate::events::cause::Cause;
use crate::group::executor;
use crate::group::executor::Engine;
use crate::group::runner::Runner;
use crate::group::runner_count::{Call, RunnerCount};
use crate::group::state::{Admission, Books, Ended, Entry, Settings, Unwanted};
use crate::group::task::Work;
use crate::group::task_waker::{Bound, Ringing};
use crate::group::wait_queue::Wakes;
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
const KEPT_CAPACITY: usize = 1_024;

pub(super) struct Crew<T> {
    node: Node,
    settings: Settings,
    /// What its tasks wait for.
    edges: KeptEdges,
    state: Lock<State<T>>,
}

struct State<T> {
    books: Books<T>,
    ready: VecDeque<Ready<T>>,
    slots: Slab<Slot<T>>,
    /// How many tasks are in slots that do not run on after a cancel, and up to which slot a sweep has come.
    in_slots: usize,
    swept: usize,
    in_hand: usize,
    roster: RunnerCount,
    /// The runtime goes away: nobody runs on.
    abandoned: bool,
}

/// A task to be polled.
enum Ready<T> {
    Fresh(Work<'static, T>, u64),
    Woken(usize),
}

/// The place of a task that has had its first poll.
enum Slot<T> {
    Parked(InHand<T>),
    Queued(InHand<T>),
    /// A runner has it.
    Away,
}

/// A task with a runner.
pub(super) struct InHand<T> {
    pub(super) work: Work<'static, T>,
    pub(super) number: u64,
    /// How it is woken; `None` before its first poll.
    pub(super) bound: Option<Bound<Crew<T>>>,
    /// It has been polled within its cancel grace.
    pub(super) runs_on: bool,
}

/// What a runner brings back.
pub(super) enum Settled<T> {
    Ended(Ended<T>, Option<Bound<Crew<T>>>),
    Pending(InHand<T>),
}

/// What a runner does next.
pub(super) enum Next<T> {
    Poll(InHand<T>),
    /// It was cancelled: it is polled while its grace lasts, if it has one. Boxed, because it is rare and every task would make way for it.
    RunOn(Box<(InHand<T>, Cause)>),
    Cut(Box<(InHand<T>, Cause)>),
    /// Lets others run, and comes back.
    Again,
    /// Sleeps until there is work.
    Park,
    End,
}

impl<T: Send + 'static> Crew<T> {
    pub(super) fn new(node: Node, settings: Settings) -> Self {
        let state = State {
            books: Books::new(settings),
            ready: VecDeque::new(),
            slots: Slab::new(),
            in_slots: 0,
            swept: 0,
            in_hand: 0,
            roster: RunnerCount::default(),
            abandoned: false,
        };
        Self { node, settings, edges: KeptEdges::new(), state: Lock::new(state) }
    }

    fn as_member(self: &Arc<Self>) -> Arc<dyn Member> {
        Arc::clone(self) as Arc<dyn Member>
    }

    /// Runs `f` under the lock, and does outside it what that led to. A runner is `busy` if it is about to poll a task.
    #[inline]
    fn with<R>(self: &Arc<Self>, busy: bool, f: impl FnOnce(&mut State<T>, &mut Wakes) -> R) -> R {
        let mut wakes = Wakes::default();
        // Beside the answer and not with it: an answer is large, and would be moved once more.
        let mut is_more = false;
        let answer = self.state.with(|state| {
            let answer = f(state, &mut wakes);
            is_more = state.has_afterwards(busy);
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
        let (call, exit, dismissed) = self.state.with(|state| {
            let call = state.roster.call(state.backlog(), busy);
            let exit = state.books.is_leaving().then(|| state.books.leave());
            let dismissed = exit.as_ref().and_then(|_| state.roster.dismiss());
            (call, exit, dismissed)
        });
        let Call { idle, new, reserve } = call;
        wakers::wake_each(idle.into_iter().chain(dismissed));
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
    pub(super) fn begin(self: &Arc<Self>, is_reserve: bool, waker: &Waker) -> Next<T> {
        self.with(true, |state, _| {
            if !is_reserve {
                state.roster.begin(waker);
            }
            state.take(false, waker)
        })
    }

    /// A runner brings a task back and takes the next, if it has polls `left` for now.
    #[inline]
    pub(super) fn settle(self: &Arc<Self>, settled: Settled<T>, left: &mut u32, waker: &Waker) -> Next<T> {
        let mut unwanted = None;
        let next = self.with(true, |state, wakes| {
            match settled {
                Settled::Ended(ended, bound) => unwanted = state.end(ended, bound, wakes),
                Settled::Pending(task) => {
                    if let Some(cause) = state.books.cause().filter(|_| !task.runs_on || state.abandoned) {
                        return state.cancelled(task, cause.clone());
                    }
                    if state.put_down(task) {
                        // It stepped aside: whoever is before it in the queue has its turn, and then the rest of the runtime.
                        *left = (*left).min(state.ready.len() as u32 - 1);
                    }
                }
            }
            state.take(*left == 0, waker)
        });
        executor::discard(unwanted);
        next
    }

    /// The runtime dropped a runner: it runs nothing any more, so what is left ends here.
    pub(super) fn abandon(self: &Arc<Self>) {
        node::cancel(&self.as_member(), &Cause::Dropped);
        self.state.with(State::sweep_all_again);
        while let Some((task, cause)) = self.state.with(State::take_swept) {
            let ended = executor::cut(self, task.work, task.number, cause);
            executor::discard(self.with(false, |state, wakes| state.end(ended, task.bound, wakes)));
        }
    }

    /// Drops what nobody will read any more.
    pub(super) fn forget_results(&self) {
        let (unread, payloads) = self.state.with(|state| state.books.take_leftovers());
        unread.into_iter().for_each(|ended| drop(catch::catch(|| drop(ended))));
        payloads.into_iter().for_each(|(_, payload)| payload.discard());
    }
}

impl<T> State<T> {
    /// How many tasks a runner could take now.
    fn backlog(&self) -> usize {
        self.ready.len() + if self.books.cause().is_some() { self.in_slots } else { 0 }
    }

    #[inline]
    fn has_afterwards(&self, busy: bool) -> bool {
        self.roster.is_short(self.backlog(), busy) || self.books.is_leaving()
    }

    /// The next task for a runner, or what it does without.
    #[inline]
    fn take(&mut self, last: bool, waker: &Waker) -> Next<T> {
        if !last {
            if let Some(ready) = self.ready.pop_front() {
                self.in_hand += 1;
                let task = self.pick_up(ready);
                return match self.books.cause().filter(|_| task.runs_on) {
                    Some(cause) => self.cancelled(task, cause.clone()),
                    None => Next::Poll(task),
                };
            }
            if let Some((task, cause)) = self.take_swept() {
                return self.cancelled(task, cause);
            }
        }
        if self.backlog() > 0 {
            self.roster.comes_back();
            return Next::Again;
        }
        if self.ready.capacity() > KEPT_CAPACITY {
            self.ready = VecDeque::new();
        }
        if self.slots.is_empty() && self.slots.capacity() > KEPT_CAPACITY {
            self.slots = Slab::new();
        }
        if self.books.has_ended() || !self.roster.park(waker) { Next::End } else { Next::Park }
    }

    #[inline]
    fn pick_up(&mut self, ready: Ready<T>) -> InHand<T> {
        let slot = match ready {
            Ready::Fresh(work, number) => return InHand { work, number, bound: None, runs_on: false },
            Ready::Woken(slot) => slot,
        };
        match core::mem::replace(&mut self.slots[slot], Slot::Away) {
            Slot::Queued(task) | Slot::Parked(task) => {
                self.in_slots -= usize::from(!task.runs_on);
                task.bound.iter().for_each(Bound::clear);
                task
            }
            Slot::Away => unreachable!("a slot is queued once, while its task is in it"),
        }
    }

    /// Puts a task that waits into its slot; back into the queue if it was woken meanwhile: true then.
    fn put_down(&mut self, task: InHand<T>) -> bool {
        self.in_hand -= 1;
        let Some(bound) = &task.bound else { unreachable!("a task is bound to its waker by its first poll") };
        let known = bound.slot();
        let slot = known.unwrap_or_else(|| self.slots.vacant_key());
        let woken = bound.settle_in(slot);
        self.in_slots += usize::from(!task.runs_on);
        let place = if woken { Slot::Queued(task) } else { Slot::Parked(task) };
        match known {
            Some(slot) => self.slots[slot] = place,
            None => drop(self.slots.insert(place)),
        }
        if woken {
            self.ready.push_back(Ready::Woken(slot));
        }
        woken
    }

    /// Puts a parked task into the queue. After a cancel the sweep comes for one that does not run on.
    fn queue(&mut self, slot: usize) {
        let is_cancelled = self.books.cause().is_some();
        let Some(place) = self.slots.get_mut(slot) else { return };
        match core::mem::replace(place, Slot::Away) {
            Slot::Parked(task) if task.runs_on || !is_cancelled => {
                *place = Slot::Queued(task);
                self.ready.push_back(Ready::Woken(slot));
            }
            other => *place = other,
        }
    }

    #[inline]
    fn end(&mut self, ended: Ended<T>, bound: Option<Bound<Crew<T>>>, wakes: &mut Wakes) -> Unwanted<T> {
        self.in_hand -= 1;
        if let Some(bound) = bound {
            if let Some(slot) = bound.slot() {
                self.slots.remove(slot);
            }
            bound.retire();
            // Others may hold the waker too; the group itself is held by whoever called this.
            drop(bound);
        }
        self.books.complete(ended, wakes)
    }
}

impl<T: Send + 'static> Ringing for Crew<T> {
    fn ring(self: &Arc<Self>, slot: usize) {
        self.with(false, |state, _| state.queue(slot));
    }
}

impl<T: Send + 'static> Engine for Arc<Crew<T>> {
    type Value = T;
    type Work = Work<'static, T>;

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
    fn with_books<R>(&self, f: impl FnOnce(&mut Books<T>, &mut Wakes) -> R) -> R {
        self.with(false, |state, wakes| f(&mut state.books, wakes))
    }

    #[inline]
    fn admit(&self, entry: Entry<'_>, work: impl FnOnce() -> Work<'static, T>) -> Admission {
        self.with(false, |state, wakes| {
            let admission = state.books.admit(entry, wakes);
            if let Admission::In(number) = admission {
                state.ready.push_back(Ready::Fresh(work(), number));
            }
            admission
        })
    }
}
