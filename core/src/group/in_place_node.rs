//! `Spot`: a group in place as the tree and the wakers know it.
//!
//! The tasks and the books of such a group live in its handle, since they may borrow. What must live as long as any waker is here, and knows
//! slots by number only: which tasks were woken, who drives the group, and what the tree has told it.
//!
//! Invariants:
//! 1. What the tree tells the group is marked first, then its drivers are woken. The handle acts on it when it is next used or dropped.
//! 2. Whether a task is in flight and what the tree told the group lie in one word. A close finds the group busy and leaves it in the tree,
//!    or the task that comes next finds the group told to close: never neither.
//! 3. A cancelled group leaves the tree at once: its tasks are inert, and a part of whoever holds the handle.

use crate::base::lock::Lock;
use crate::base::sync::{AtomicBool, AtomicU32, Ordering};
use crate::base::wakers::{Key, Spare, Wakers, discard, wake_all};
use crate::events::cause::{Cause, Exit};
use crate::group::task_waker::Ringing;
use crate::tree::member::{Member, StopMode};
use crate::tree::node;
use crate::tree::node::Node;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::task::Waker;

const CLOSE: u32 = 1;
pub(super) const CANCEL: u32 = 2;
/// A task is in flight.
const BUSY: u32 = 4;

pub(super) struct Spot {
    node: Node,
    /// What the tree told it: `CLOSE`, `CANCEL`; and `BUSY`.
    word: AtomicU32,
    /// Whether there may be a slot in `rung`.
    woken: AtomicBool,
    rung: Lock<Rung>,
}

#[derive(Default)]
struct Rung {
    slots: VecDeque<usize>,
    drivers: Wakers,
}

impl Spot {
    pub(super) fn new(node: Node) -> Self {
        Self { node, word: AtomicU32::new(0), woken: AtomicBool::new(false), rung: Lock::new(Rung::default()) }
    }

    /// What the tree has told it so far.
    #[inline]
    pub(super) fn told(&self) -> u32 {
        self.word.load(Ordering::SeqCst) & !BUSY
    }

    /// Marks what the tree tells it, and wakes the drivers. Whether a task was in flight.
    fn tell(&self, what: u32) -> bool {
        let before = self.word.fetch_or(what, Ordering::SeqCst);
        wake_all(self.rung.with(|rung| rung.drivers.take()));
        before & BUSY != 0
    }

    /// Before the first task is taken: a close waits for it from now on. What the tree told the group before.
    pub(super) fn begin_work(&self) -> u32 {
        self.word.fetch_or(BUSY, Ordering::SeqCst) & !BUSY
    }

    /// Nothing is in flight.
    pub(super) fn end_work(&self) {
        self.word.fetch_and(!BUSY, Ordering::SeqCst);
    }

    /// Whether a task may have been woken. A hint: whoever finds none looks under the lock before it parks.
    #[inline]
    pub(super) fn has_woken(&self) -> bool {
        self.woken.load(Ordering::Relaxed)
    }

    /// The slot of the task that was woken first.
    pub(super) fn take_woken(&self) -> Option<usize> {
        self.rung.with(|rung| {
            let slot = rung.slots.pop_front();
            if rung.slots.is_empty() {
                self.woken.store(false, Ordering::Relaxed);
            }
            slot
        })
    }

    fn put_woken(&self, slot: usize) {
        self.rung.with(|rung| {
            rung.slots.push_back(slot);
            self.woken.store(true, Ordering::Relaxed);
        });
    }

    /// Leaves the waker of a driver that found nothing to poll. False if there is something by now, or the tree said more than `told`.
    pub(super) fn park(&self, told: u32, key: &mut Key, waker: &Waker) -> bool {
        let mut waker = Spare::of(waker);
        self.rung.with(|rung| {
            if !rung.slots.is_empty() || self.told() != told {
                return false;
            }
            rung.drivers.register(key, &mut waker);
            true
        })
    }

    /// A driver waits no more.
    pub(super) fn unpark(&self, key: &mut Key) {
        let waker = self.rung.with(|rung| rung.drivers.remove(key));
        discard(waker);
    }
}

impl Ringing for Spot {
    fn ring(self: &Arc<Self>, slot: usize) {
        self.put_woken(slot);
        wake_all(self.rung.with(|rung| rung.drivers.take()));
    }
}

impl Member for Spot {
    fn node(&self) -> &Node {
        &self.node
    }

    /// Closing waits for the tasks, if there are any; stopping cancels them.
    fn stop_by(self: Arc<Self>, how: StopMode) {
        if how == StopMode::Stop {
            return node::cancel(&(self as Arc<dyn Member>), &Cause::Cancelled);
        }
        if !self.tell(CLOSE) {
            node::leave(&(self as Arc<dyn Member>), &Exit::Closed);
        }
    }

    fn on_cancel(self: Arc<Self>) {
        self.tell(CANCEL);
        let cause = self.node.cause().unwrap_or(Cause::Cancelled);
        node::leave(&(self as Arc<dyn Member>), &Exit::Cancelled(cause));
    }

    fn exit_when_childless(&self) -> Option<Exit> {
        None
    }
}
