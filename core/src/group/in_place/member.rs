//! `InPlaceMember`: a group in place as a member of the tree, and as the target of its tasks'
//! wakers.
//!
//! The tasks and the state of such a group live in its handle, because they may borrow. The member
//! holds what must live as long as any waker: which tasks were woken (by index), the wakers of the
//! pollers, and the requests of the tree.
//!
//! | flag | raised by | cleared by |
//! |---|---|---|
//! | `CLOSE` | `stop_with`, on close | never |
//! | `CANCEL` | `on_cancel` | never |
//! | `BUSY` | the handle, before the first task | the handle, after the last task |
//!
//! Invariants:
//! 1. A request is flagged first, then the pollers are woken. The handle applies it when it is used
//!    or dropped next.
//! 2. All flags share one word. A close either sees `BUSY` and stays in the tree, or the next task
//!    sees `CLOSE`. Both cannot miss each other.
//! 3. A cancelled group leaves the tree at once. Its tasks are never polled again; the owner of the
//!    handle drops them.

use crate::base::lock::Lock;
use crate::base::sync::{Arc, AtomicBool, AtomicU32, Ordering};
use crate::base::wakers::{ClonedWaker, WakerKey, Wakers, discard, wake_all};
use crate::events::cause::{Cause, Exit};
use crate::group::task_waker::WakeTask;
use crate::tree::facts::{MemberFacts, MemberKind, Work};
use crate::tree::member::{Member, ObservedMember, StopMode, SupervisedMember, WaitingMember};
use crate::tree::node;
use crate::tree::node::Node;
use alloc::collections::VecDeque;
use core::task::Waker;

const CLOSE: u32 = 1;
pub(in crate::group) const CANCEL: u32 = 2;
/// At least one task is in flight.
const BUSY: u32 = 4;

/// The member and waker target of a group in place.
pub(in crate::group) struct InPlaceMember {
    node: Node,
    /// The flags `CLOSE`, `CANCEL` and `BUSY`.
    word: AtomicU32,
    /// A hint whether `woken_tasks` has an entry.
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

    /// Returns the requests of the tree so far: `CLOSE`, `CANCEL` or both.
    #[inline]
    pub(in crate::group) fn requests(&self) -> u32 {
        self.word.load(Ordering::SeqCst) & !BUSY
    }

    /// Flags a request and wakes the pollers. Returns whether a task was in flight.
    fn request(&self, what: u32) -> bool {
        let before = self.word.fetch_or(what, Ordering::SeqCst);
        wake_all(self.woken_tasks.with(|woken| woken.pollers.take()));
        before & BUSY != 0
    }

    /// Sets `BUSY` before the first task is admitted, so that a close waits for it. Returns the
    /// requests made before.
    pub(in crate::group) fn set_busy(&self) -> u32 {
        self.word.fetch_or(BUSY, Ordering::SeqCst) & !BUSY
    }

    /// Clears `BUSY` after the last task has ended.
    pub(in crate::group) fn clear_busy(&self) {
        self.word.fetch_and(!BUSY, Ordering::SeqCst);
    }

    /// Returns whether a task may have been woken. Only a hint: a poller checks again under the
    /// lock before it parks.
    #[inline]
    pub(in crate::group) fn may_have_woken(&self) -> bool {
        self.may_have_woken.load(Ordering::Relaxed)
    }

    /// Takes the index of the task that was woken first.
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

    /// Registers a poller that found nothing to poll. Returns false if a task was woken or the tree
    /// made a request since.
    pub(in crate::group) fn park(&self, requests: u32, key: &mut WakerKey, waker: &Waker) -> bool {
        let mut waker = ClonedWaker::of(waker);
        self.woken_tasks.with(|woken| {
            if !woken.indices.is_empty() || self.requests() != requests {
                return false;
            }
            woken.pollers.register(key, &mut waker);
            true
        })
    }

    /// Removes a poller.
    pub(in crate::group) fn unpark(&self, key: &mut WakerKey) {
        let waker = self.woken_tasks.with(|woken| woken.pollers.remove(key));
        discard(waker);
    }
}

impl WakeTask for InPlaceMember {
    fn wake_task(this: &Arc<Self>, index: usize) {
        this.push_woken(index);
        wake_all(this.woken_tasks.with(|woken| woken.pollers.take()));
    }
}

impl Member for InPlaceMember {
    fn node(&self) -> &Node {
        &self.node
    }

    /// Close waits for tasks in flight. Stop cancels them.
    fn stop_with(&self, this: &Arc<dyn Member>, how: StopMode) {
        if how == StopMode::Stop {
            return node::cancel(this, &Cause::Cancelled);
        }
        if !self.request(CLOSE) {
            node::leave(this, &Exit::Closed);
        }
    }

    fn on_cancel(&self, this: &Arc<dyn Member>) {
        self.request(CANCEL);
        let cause = self.node.cause().unwrap_or(Cause::Cancelled);
        node::leave(this, &Exit::Cancelled(cause));
    }

    fn exit_when_childless(&self) -> Option<Exit> {
        None
    }
}

impl ObservedMember for InPlaceMember {
    fn facts(&self) -> MemberFacts {
        MemberFacts::new(MemberKind::Group, Work::Waiting)
    }
}

impl SupervisedMember for InPlaceMember {
    /// Failures of its tasks are read from the group.
    fn passes_failures_up(&self) -> bool {
        false
    }
}

impl WaitingMember for InPlaceMember {}
