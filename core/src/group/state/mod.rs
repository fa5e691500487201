//! The coordination state of one group.
//!
//! [`GroupState`] decides which task is admitted, which caller reads which result, and when the
//! group is drained. It runs no task and wakes no waker: it collects wakers in a [`WakeList`], and
//! the executor wakes them after it has released the lock of the group.
//!
//! ```text
//!            admit                     complete                  read
//!   (caller) ─────► in flight, counted ────────► unread result ──────► (reader)
//!                                                  │   ▲ a reader that leaves returns
//!                                                  └───┘ the result it was served
//! ```
//!
//! | file | owns |
//! |---|---|
//! | `mod` | counts, close, cancel, exit |
//! | `admission` | admitting tasks, the queue of callers that wait for a slot |
//! | `results` | unread results, the queue of readers, errors and panic payloads |
//! | `waiters` | callers of `wait` |
//!
//! Invariants, asserted in debug builds:
//! 1. `in_flight` is raised once per task, in `admit`, before the task runs, and lowered once, in
//!    `complete`. It is never negative.
//! 2. `accepted == completed + in_flight`.
//! 3. Results are read in completion order: while a reader waits, no result is queued.
//! 4. The first error, the cause of the cancel and `closed` never change once they are set.
//!    Cancelled tasks are not errors.
//! 5. The group is drained exactly when it is closed, nothing is in flight, and no result is unread
//!    or served and not yet fetched.

mod admission;
mod results;
mod waiters;

use crate::base::catch::PanicPayload;
use crate::events::cause::{Cause, Exit};
use crate::group::error::{Errors, TaskError};
use crate::group::overflow::{Overflow, SelfWaits};
use crate::group::wait_queue::{WaitQueue, WakeList};
use crate::tree::waits::edges::Awaited;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;
use slab::Slab;

pub(super) use admission::{Admission, Entry};
use waiters::Waiter;

/// The largest capacity that an empty queue keeps. A larger buffer is freed.
pub(super) const RETAINED_CAPACITY_MAX: usize = 1_024;

/// The options of a group, fixed when it is built.
#[derive(Clone, Copy)]
pub(super) struct GroupSettings {
    pub(super) limit: usize,
    pub(super) buffer: usize,
    pub(super) overflow: Overflow,
    pub(super) errors_kept: usize,
    pub(super) fail_fast: bool,
    pub(super) resume_panics: bool,
    /// How long a cancelled task may keep running. `None` drops it at its next await.
    pub(super) cancel_grace: Option<Duration>,
}

/// The result of one task.
pub(super) type TaskResult<T> = Result<T, TaskError>;

/// A result that is dropped because the buffer is full. Boxed: it is rare, and inline it would make
/// the return value of every completion larger.
pub(super) type Discarded<T> = Option<Box<TaskResult<T>>>;

/// A result with its completion number. A returned result finds its position in the queue by it.
pub(super) type NumberedResult<T> = (u64, TaskResult<T>);

/// The user values that remain when a group is dropped.
pub(super) struct Leftovers<T> {
    pub(super) unread: VecDeque<NumberedResult<T>>,
    pub(super) payloads: Vec<(TaskError, PanicPayload)>,
}

/// The coordination state of one group, see the module documentation.
pub(super) struct GroupState<T> {
    pub(super) settings: GroupSettings,
    closed: bool,
    cause: Option<Cause>,
    in_flight: usize,
    accepted: u64,
    completed: u64,
    /// Whether the exit was taken, see [`take_exit`](Self::take_exit).
    has_left: bool,
    unread: VecDeque<NumberedResult<T>>,
    readers: WaitQueue<NumberedResult<T>>,
    slot_waiters: WaitQueue<()>,
    waiters: Slab<Waiter>,
    /// The number of waiters without an answer.
    unanswered: usize,
    errors: Errors,
    first_error: Option<TaskError>,
    payloads: Vec<(TaskError, PanicPayload)>,
    /// The number of results that were dropped unread.
    dropped: u64,
    self_waits: SelfWaits,
}

impl<T> GroupState<T> {
    pub(super) fn new(settings: GroupSettings) -> Self {
        Self {
            settings,
            closed: false,
            cause: None,
            in_flight: 0,
            accepted: 0,
            completed: 0,
            has_left: false,
            unread: VecDeque::new(),
            readers: WaitQueue::new(),
            slot_waiters: WaitQueue::new(),
            waiters: Slab::new(),
            unanswered: 0,
            errors: Errors::default(),
            first_error: None,
            payloads: Vec::new(),
            dropped: 0,
            self_waits: SelfWaits::default(),
        }
    }

    pub(super) fn cause(&self) -> Option<&Cause> {
        self.cause.as_ref()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(super) fn unread(&self) -> usize {
        self.unread.len() + self.readers.served()
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns whether the group is closed and every admitted task has ended.
    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        self.closed && self.in_flight == 0
    }

    /// Returns whether the group has to leave the tree now.
    #[inline]
    pub(super) fn should_exit(&self) -> bool {
        self.closed && self.in_flight == 0 && !self.has_left
    }

    /// Returns the exit of the group. The caller removes the group from the tree.
    pub(super) fn take_exit(&mut self) -> Exit {
        debug_assert!(self.should_exit());
        self.has_left = true;
        self.cause.clone().map_or(Exit::Closed, Exit::Cancelled)
    }

    fn is_drained(&self) -> bool {
        self.has_ended() && self.unread() == 0
    }

    /// Returns whether no reader, no slot waiter and no caller of `wait` is queued.
    #[inline]
    pub(super) fn has_no_waiters(&self) -> bool {
        self.readers.is_empty() && self.slot_waiters.is_empty() && self.waiters.is_empty()
    }

    /// Returns whether no caller waits and no result is unread.
    #[inline]
    pub(super) fn is_uncontended(&self) -> bool {
        self.unread.is_empty() && self.has_no_waiters()
    }

    /// Returns whether a member that awaits this has to wait.
    pub(super) fn is_wait_pending(&self, awaited: Awaited) -> bool {
        match awaited {
            Awaited::Result => self.unread() == 0 && !self.is_drained(),
            Awaited::Slot => !self.closed && self.slot_waiters.served() == 0,
            Awaited::Tasks | Awaited::Children | Awaited::Exit => self.in_flight > 0,
        }
    }

    /// Closes the group: no further task is admitted.
    pub(super) fn close(&mut self, wakes: &mut WakeList) {
        self.closed = true;
        self.slot_waiters.wake_and_clear(wakes);
        if self.is_drained() {
            self.readers.wake_and_clear(wakes);
        }
    }

    /// Closes the group with a cause. Keeps the first cause.
    pub(super) fn cancel(&mut self, cause: &Cause, wakes: &mut WakeList) {
        self.cause.get_or_insert_with(|| cause.clone());
        self.close(wakes);
    }

    /// Wakes every waiting caller. In place, the callers poll the tasks, so a new task wakes them.
    #[inline]
    pub(super) fn wake_all_waiters(&mut self, wakes: &mut WakeList) {
        if !self.has_no_waiters() {
            self.wake_queues(wakes);
        }
    }

    fn wake_queues(&mut self, wakes: &mut WakeList) {
        self.readers.wake_waiting(wakes);
        self.slot_waiters.wake_waiting(wakes);
        self.waiters.iter_mut().for_each(|(_, waiter)| wakes.push(waiter.waker.take()));
    }
}
