//! `NodePolls`: tells whether a node is being polled or was woken, and which of its values are
//! ready.
//!
//! A node of a stored run counts as parked if
//! 1. its last poll has ended,
//! 2. it was not woken since that poll began, and
//! 3. each value that it waits for was durable when that poll began. A value that the node ignored
//!    does not keep the run from pausing.

use crate::log::visit::VisitRecords;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

/// The polls of the current attempt.
#[derive(Default)]
pub(crate) struct NodePolls {
    /// The waker with which the current attempt is polled.
    waker: Option<Arc<NodeWaker>>,
    is_polling: bool,
    /// The last durable record when the current poll began.
    durable_before: u64,
    /// The last durable record when the last complete poll began.
    seen: u64,
    /// The records of values that the node waits for.
    values: Vec<u64>,
}

/// Marks a node as woken, notifies the watcher that took it for parked, and then wakes it.
struct NodeWaker {
    is_woken: AtomicBool,
    /// Weak, because the records hold this waker.
    records: Weak<VisitRecords>,
    waker: Waker,
}

impl Wake for NodeWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::AcqRel)
            && let Some(records) = self.records.upgrade()
        {
            records.lock().notify_watcher();
        }
        self.waker.wake_by_ref();
    }
}

/// Keeps a value on the list of values that the node waits for, until it is dropped.
pub(crate) struct DeliveryGuard<'a> {
    records: &'a VisitRecords,
    attempt: u32,
    record: u64,
}

impl Drop for DeliveryGuard<'_> {
    fn drop(&mut self) {
        let Some(mut state) = self.records.lock_for(self.attempt) else { return };
        let values = &mut state.polls.values;
        if let Some(at) = values.iter().position(|record| *record == self.record) {
            values.swap_remove(at);
        }
        state.notify_watcher();
    }
}

impl NodePolls {
    /// Returns true if the node was not woken and has seen all its values.
    pub(crate) fn is_idle(&self) -> bool {
        let is_woken = self.waker.as_ref().is_some_and(|waker| waker.is_woken.load(Ordering::Acquire));
        !self.is_polling && !is_woken && self.values.iter().all(|record| *record <= self.seen)
    }

    fn known_waker(&self, waker: &Waker) -> Option<Arc<NodeWaker>> {
        self.waker.clone().filter(|known| known.waker.will_wake(waker))
    }
}

impl VisitRecords {
    /// Polls an attempt of the node. `durable` is the last durable record.
    pub(crate) fn poll_node<T>(
        self: &Arc<Self>,
        attempt: u32,
        durable: u64,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let known = self.lock().polls.known_waker(cx.waker());
        let waker = known.unwrap_or_else(|| {
            let (records, waker) = (Arc::downgrade(self), cx.waker().clone());
            Arc::new(NodeWaker { is_woken: AtomicBool::new(false), records, waker })
        });
        // Dropped after the lock.
        let _replaced;
        {
            let Some(mut state) = self.lock_for(attempt) else { return poll(cx) };
            let polls = &mut state.polls;
            // Cleared before the poll: a wake from here on requests another poll.
            waker.is_woken.store(false, Ordering::Release);
            _replaced = polls.waker.replace(Arc::clone(&waker));
            (polls.is_polling, polls.durable_before) = (true, durable);
        }
        let polled = poll(&mut Context::from_waker(&Waker::from(waker)));
        if let Some(mut state) = self.lock_for(attempt) {
            let polls = &mut state.polls;
            (polls.is_polling, polls.seen) = (false, polls.durable_before);
        }
        polled
    }

    /// Adds a value that the node gets when this record is durable. Returns `None` if the attempt
    /// was abandoned.
    pub(crate) fn deliver_after(&self, attempt: u32, record: u64) -> Option<DeliveryGuard<'_>> {
        let mut state = self.lock_for(attempt)?;
        state.polls.values.push(record);
        state.notify_watcher();
        drop(state);
        Some(DeliveryGuard { records: self, attempt, record })
    }

    /// Returns true if the node was polled after this record was durable.
    pub(crate) fn has_seen(&self, record: u64) -> bool {
        self.lock().polls.seen >= record
    }
}
