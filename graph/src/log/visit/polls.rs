//! `NodePolls`: whether a node is being polled or is about to be, and which of its values are
//! ready.
//!
//! A node of a stored run counts as parked if its last poll has ended, it was not woken since that
//! poll began, and each value that it waits for was durable when that poll began. A value that the
//! node left alone does not keep the run from pausing.

use crate::log::visit::VisitRecords;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

#[derive(Default)]
pub(crate) struct NodePolls {
    /// The waker that the current attempt is polled with.
    waker: Option<Arc<NodeWaker>>,
    is_polling: bool,
    /// The last durable record when the poll under way began.
    durable_before: u64,
    /// The last durable record when the last complete poll began.
    seen: u64,
    /// The records of values that the node waits for.
    values: Vec<u64>,
}

/// Visit records that a node was woken, and wakes it. Whoever took the node for parked is told first.
struct NodeWaker {
    is_woken: AtomicBool,
    /// Weak, because they hold this waker.
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
            records.lock().tell_watcher();
        }
        self.waker.wake_by_ref();
    }
}

/// While it lives, a value is to be delivered once its record is durable.
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
        state.tell_watcher();
    }
}

impl NodePolls {
    /// Whether the node has nothing to look at.
    pub(crate) fn is_idle(&self) -> bool {
        let is_woken = self.waker.as_ref().is_some_and(|waker| waker.is_woken.load(Ordering::Acquire));
        !self.is_polling && !is_woken && self.values.iter().all(|record| *record <= self.seen)
    }

    fn known_waker(&self, waker: &Waker) -> Option<Arc<NodeWaker>> {
        self.waker.clone().filter(|known| known.waker.will_wake(waker))
    }
}

impl VisitRecords {
    /// Polls an attempt at the node. `durable` is the last durable record.
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
            // Before the node looks at anything: a wake from here on asks for another poll.
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

    /// The node is given a value once this record is durable. `None` if the attempt was cut off.
    pub(crate) fn deliver_after(&self, attempt: u32, record: u64) -> Option<DeliveryGuard<'_>> {
        let mut state = self.lock_for(attempt)?;
        state.polls.values.push(record);
        state.tell_watcher();
        drop(state);
        Some(DeliveryGuard { records: self, attempt, record })
    }

    /// Whether the node was polled after this record was durable.
    pub(crate) fn has_seen(&self, record: u64) -> bool {
        self.lock().polls.seen >= record
    }
}
