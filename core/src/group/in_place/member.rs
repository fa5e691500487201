//! `InPlaceMember`: a group in place as the tree and the wakers know it.
//!
//! The tasks and the state of such a group live in its handle, since they may borrow. What must live as long as any waker is here, and knows
//! indices by number only: which tasks were woken, who drives the group, and what the tree has requests it.
//!
//! Invariants:
//! 1. What the tree tells the group is marked first, then its pollers are woken. The handle acts on it when it is next used or dropped.
//! 2. Whether a task is in flight and what the tree requests the group lie in one word. A close finds the group busy and leaves it in the tree,
//!    or the task that comes next finds the group requests to close: never neither.
//! 3. A cancelled group leaves the tree at once: its tasks are inert, and a part of whoever holds the handle.

use crate::base::lock::Lock;
use crate::base::sync::{AtomicBool, AtomicU32, Ordering};
use crate::base::wakers::{Key, Spare, Wakers, discard, wake_all};
use crate::events::cause::{Cause, Exit};
use crate::group::task_waker::WakeTask;
use crate::tree::member::{Member, StopMode};
use crate::tree::node;
use crate::tree::node::Node;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::task::Waker;

const CLOSE: u32 = 1;
pub(in crate::group) const CANCEL: u32 = 2;
/// A task is in flight.
const BUSY: u32 = 4;

pub(in crate::group) struct InPlaceMember {
    node: Node,
    /// What the tree requests it: `CLOSE`, `CANCEL`; and `BUSY`.
    word: AtomicU32,
    /// Whether there may be a index in `woken_tasks`.
    may_have_woken: AtomicBool,
    woken_tasks: Lock<WokenTasks>,
}

#[derive(Default)]
struct WokenTasks {
    indices: VecDeque<usize>,
    pollers: Wakers,
}

impl InPlaceMember {
    pub(in crate::group) fn new(node: Node) -> Self {
        Self {
            node,
            word: AtomicU32::new(0),
            may_have_woken: AtomicBool::new(false),
            woken_tasks: Lock::new(WokenTasks::default()),
        }
    }

    /// What the tree has requests it so far.
    #[inline]
    pub(in crate::group) fn requests(&self) -> u32 {
        self.word.load(Ordering::SeqCst) & !BUSY
    }

    /// Marks what the tree tells it, and wakes the pollers. Whether a task was in flight.
    fn request(&self, what: u32) -> bool {
        let before = self.word.fetch_or(what, Ordering::SeqCst);
        wake_all(self.woken_tasks.with(|woken| woken.pollers.take()));
        before & BUSY != 0
    }

    /// Before the first task is taken: a close waits for it from now on. What the tree requests the group before.
    pub(in crate::group) fn set_busy(&self) -> u32 {
        self.word.fetch_or(BUSY, Ordering::SeqCst) & !BUSY
    }

    /// Nothing is in flight.
    pub(in crate::group) fn clear_busy(&self) {
        self.word.fetch_and(!BUSY, Ordering::SeqCst);
    }

    /// Whether a task may have been woken. A hint: whoever finds none looks under the lock before it parks.
    #[inline]
    pub(in crate::group) fn may_have_woken(&self) -> bool {
        self.may_have_woken.load(Ordering::Relaxed)
    }

    /// The index of the task that was woken first.
    pub(in crate::group) fn take_woken(&self) -> Option<usize> {
        self.woken_tasks.with(|woken| {
            let index = woken.indices.pop_front();
            if woken.indices.is_empty() {
                self.may_have_woken.store(false, Ordering::Relaxed);
            }
            index
        })
    }

    fn push_woken(&self, index: usize) {
        self.woken_tasks.with(|woken| {
            woken.indices.push_back(index);
            self.may_have_woken.store(true, Ordering::Relaxed);
        });
    }

    /// Leaves the waker of a driver that found nothing to poll. False if there is something by now, or the tree said more than `requests`.
    pub(in crate::group) fn park(&self, requests: u32, key: &mut Key, waker: &Waker) -> bool {
        let mut waker = Spare::of(waker);
        self.woken_tasks.with(|woken| {
            if !woken.indices.is_empty() || self.requests() != requests {
                return false;
            }
            woken.pollers.register(key, &mut waker);
            true
        })
    }

    /// A driver waits no more.
    pub(in crate::group) fn unpark(&self, key: &mut Key) {
        let waker = self.woken_tasks.with(|woken| woken.pollers.remove(key));
        discard(waker);
    }
}

impl WakeTask for InPlaceMember {
    fn wake_task(self: &Arc<Self>, index: usize) {
        self.push_woken(index);
        wake_all(self.woken_tasks.with(|woken| woken.pollers.take()));
    }
}

impl Member for InPlaceMember {
    fn node(&self) -> &Node {
        &self.node
    }

    /// Closing waits for the tasks, if there are any; stopping cancels them.
    fn stop_by(self: Arc<Self>, how: StopMode) {
        if how == StopMode::Stop {
            return node::cancel(&(self as Arc<dyn Member>), &Cause::Cancelled);
        }
        if !self.request(CLOSE) {
            node::leave(&(self as Arc<dyn Member>), &Exit::Closed);
        }
    }

    fn on_cancel(self: Arc<Self>) {
        self.request(CANCEL);
        let cause = self.node.cause().unwrap_or(Cause::Cancelled);
        node::leave(&(self as Arc<dyn Member>), &Exit::Cancelled(cause));
    }

    fn exit_when_childless(&self) -> Option<Exit> {
        None
    }
}
