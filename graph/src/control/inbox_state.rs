//! `InboxState`: messages and waits by name, under the lock of the `Inbox`.
//!
//! The methods return wakers instead of calling or dropping them. The caller does that after it has
//! released the lock.

use crate::log::message::Message;
use crate::log::visit::VisitRecords;
use crate::store::message_kind::ANSWER;
use crate::store::{RefusalCause, RefusedMessage};
use crate::util::work_count;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::task::Waker;

/// The state of an inbox, under its lock.
#[derive(Default)]
pub(super) struct InboxState {
    pub(super) names: HashMap<String, NamedQueue>,
    /// The number of waits so far; the ids of waits.
    pub(super) waits: u64,
    /// The number of waits that have no message yet.
    pub(super) waiting: usize,
    /// The waits whose record is still being written. They cannot take a message yet.
    pub(super) pending: HashMap<u64, PendingWait>,
    /// The pending waits that already have a message.
    pub(super) reserved: BTreeSet<u64>,
    /// The number of wakers that are about to be called.
    pub(super) waking: usize,
    /// The number of messages that nodes have taken and not recorded yet.
    pub(super) taken: usize,
    /// The number of messages: signals, answers.
    pub(super) count: [usize; 2],
    pub(super) rejected: Vec<RejectedMessage>,
    /// For an in-memory run: the last refused messages.
    pub(super) refused: VecDeque<RefusedMessage>,
    /// For an in-memory run: the number of posted messages and their dedup texts.
    pub(super) posted: u64,
    pub(super) dedups: HashSet<String>,
}

/// The messages of one name and the waits for them.
#[derive(Default)]
pub(super) struct NamedQueue {
    pub(super) messages: VecDeque<Message>,
    /// Shared, so that no waker is cloned or dropped while the lock is held.
    pub(super) waiting: BTreeMap<u64, Arc<Waker>>,
    /// The woken waits. Each has a message reserved.
    pub(super) woken: BTreeSet<u64>,
}

/// A wait that can take a message once its node was polled after `record` became durable.
pub(super) struct PendingWait {
    pub(super) records: Arc<VisitRecords>,
    pub(super) record: u64,
}

/// A message that the run could not use.
#[derive(Clone, Debug)]
pub(crate) struct RejectedMessage {
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) reason: String,
    /// What was wrong, without content of the message.
    pub(crate) cause: RefusalCause,
    /// The wait that could not use it: its record, or its number in an in-memory run.
    pub(crate) wait: Option<u64>,
    /// The node has received another message since, or no longer waits.
    pub(crate) has_ended: bool,
}

impl InboxState {
    /// Collects the waker of one wait for each message of this name that is not reserved.
    pub(super) fn wake_waits(&mut self, name: &str, wakers: &mut Vec<Arc<Waker>>) {
        let Some(named) = self.names.get_mut(name) else { return };
        while named.woken.len() < named.messages.len()
            && let Some((wait, waker)) = named.waiting.pop_first()
        {
            work_count::count(1);
            named.woken.insert(wait);
            if self.pending.contains_key(&wait) {
                self.reserved.insert(wait);
            }
            (self.waiting, self.waking) = (self.waiting - 1, self.waking + 1);
            wakers.push(waker);
        }
    }

    /// Stores the waker of a wait. Returns the replaced waker; drop it after the lock.
    pub(super) fn store_wait(&mut self, name: &str, wait: u64, waker: Arc<Waker>) -> Option<Arc<Waker>> {
        if !self.names.contains_key(name) {
            self.names.insert(name.to_string(), NamedQueue::default());
        }
        let named = self.names.get_mut(name).expect("inserted above");
        let replaced = named.waiting.insert(wait, waker);
        self.waiting += usize::from(replaced.is_none());
        replaced
    }

    /// Removes a wait. Returns whether it was woken, and its waker; drop that after the lock.
    pub(super) fn remove_wait(&mut self, name: &str, wait: u64) -> (bool, Option<Arc<Waker>>) {
        let Some(named) = self.names.get_mut(name) else { return (false, None) };
        let waker = named.waiting.remove(&wait);
        self.waiting -= usize::from(waker.is_some());
        (named.woken.remove(&wait), waker)
    }

    /// Ends the pending state of a wait. Drop the returned value after the lock.
    pub(super) fn end_pending(&mut self, wait: u64) -> Option<PendingWait> {
        self.reserved.remove(&wait);
        self.pending.remove(&wait)
    }

    /// Removes a name without messages and waits.
    pub(super) fn remove_if_unused(&mut self, name: &str) {
        let is_unused = |named: &NamedQueue| named.messages.is_empty() && named.waiting.is_empty() && named.woken.is_empty();
        if self.names.get(name).is_some_and(is_unused) {
            self.names.remove(name);
        }
    }
}

/// Returns the index of a message kind: 0 for a signal, 1 for an answer.
pub(super) fn kind_of(name: &str) -> usize {
    usize::from(name.starts_with(ANSWER))
}
