//! `Inbox`: the signals and answers of a run that no node has taken yet.
//!
//! Nodes take messages by name, oldest first. States of one wait, [`InboxWait`]:
//!
//! | state | entered by | left by |
//! |---|---|---|
//! | pending: its record is being written | [`Inbox::wait_for`] | [`InboxWait::take`], drop |
//! | waiting: no message yet | `take` without a message | a message arrives (woken), drop |
//! | woken: a message is reserved | `wake_waits` | `take` (done), drop (wakes the next wait) |
//!
//! Invariants:
//! 1. Each message wakes one wait, the oldest of its name.
//! 2. A wait that is dropped after it was woken passes its message to the next wait.
//! 3. No waker is called, cloned or dropped under the lock.

use crate::control::inbox_state::{InboxState, PendingWait, RejectedMessage, kind_of};
use crate::control::remote::RunControlError;
use crate::log::message::Message;
use crate::log::visit::VisitRecords;
use crate::store::{INBOX_MAX, REFUSED_MAX, RefusalCause, RefusedMessage};
use crate::util::work_count;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// The inbox of one run, in memory.
#[derive(Default)]
pub(crate) struct Inbox(Mutex<InboxState>);

/// A wait for a message of one name. If it is dropped after it was woken, the next wait gets the
/// message.
pub(crate) struct InboxWait<'a> {
    inbox: &'a Inbox,
    name: String,
    wait: u64,
}

/// Counts a message as taken until its `Wake` record is submitted.
pub(crate) struct TakenMessage<'a>(&'a Inbox);

impl Drop for TakenMessage<'_> {
    fn drop(&mut self) {
        self.0.lock().taken -= 1;
    }
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, InboxState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds messages in inbox order and wakes one wait for each.
    pub(crate) fn add(&self, messages: impl IntoIterator<Item = Message>) {
        let mut wakers = Vec::new();
        {
            let mut state = self.lock();
            for message in messages {
                let name = message.name.clone();
                state.count[kind_of(&name)] += 1;
                state.names.entry(name.clone()).or_default().messages.push_back(message);
                state.wake_waits(&name, &mut wakers);
            }
        }
        self.wake(&wakers);
    }

    /// Puts back a message that an abandoned attempt had taken, in the order of message numbers.
    pub(crate) fn put_back(&self, message: Message) {
        let mut wakers = Vec::new();
        {
            let mut state = self.lock();
            let name = message.name.clone();
            state.count[kind_of(&name)] += 1;
            let messages = &mut state.names.entry(name.clone()).or_default().messages;
            messages.insert(messages.partition_point(|known| known.number < message.number), message);
            state.wake_waits(&name, &mut wakers);
        }
        self.wake(&wakers);
    }

    /// Calls the wakers collected by [`InboxState::wake_waits`]. From here on, the visit records
    /// show that their nodes are woken.
    fn wake(&self, wakers: &[Arc<Waker>]) {
        if !wakers.is_empty() {
            wakers.iter().for_each(|waker| waker.wake_by_ref());
            self.lock().waking -= wakers.len();
        }
    }

    /// Wakes all waits for messages of this name.
    pub(crate) fn wake_all(&self, name: &str) {
        let wakers: Vec<Arc<Waker>> = {
            let state = self.lock();
            state.names.get(name).into_iter().flat_map(|named| named.waiting.values().cloned()).collect()
        };
        work_count::count(wakers.len() as u64);
        wakers.iter().for_each(|waker| waker.wake_by_ref());
    }

    /// Posts a message to an in-memory run, with the rules of a store: a message with a known dedup
    /// text is ignored, and the number of messages is limited.
    ///
    /// # Errors
    /// [`RunControlError::Full`] at [`INBOX_MAX`] messages of this kind, or at as many dedup texts.
    pub(crate) fn send(&self, name: String, dedup: Option<String>, payload: Vec<u8>) -> Result<(), RunControlError> {
        let number = {
            let mut state = self.lock();
            if dedup.as_ref().is_some_and(|dedup| state.dedups.contains(dedup)) {
                return Ok(());
            }
            let count = state.count[kind_of(&name)];
            if count >= INBOX_MAX || (dedup.is_some() && state.dedups.len() >= INBOX_MAX) {
                return Err(RunControlError::Full { limit: INBOX_MAX });
            }
            state.dedups.extend(dedup);
            state.posted += 1;
            state.posted
        };
        self.add([Message { number, name, payload }]);
        Ok(())
    }

    /// Registers a wait for messages of this name.
    pub(crate) fn wait_for(&self, name: &str, records: &Arc<VisitRecords>) -> InboxWait<'_> {
        let mut wakers = Vec::new();
        let wait = {
            let mut state = self.lock();
            state.waits += 1;
            let wait = state.waits;
            state.pending.insert(wait, PendingWait { records: Arc::clone(records), record: u64::MAX });
            drop(state.store_wait(name, wait, Arc::new(Waker::noop().clone())));
            // Reserve a message that already exists: the node will take it.
            state.wake_waits(name, &mut wakers);
            wait
        };
        self.wake(&wakers);
        InboxWait { inbox: self, name: name.to_string(), wait }
    }

    /// Returns true while a wait is about to take a message, or a taken message is not recorded
    /// yet. After a wait was woken, the visit records of its node show this instead.
    pub(crate) fn is_answering(&self) -> bool {
        let mut state = self.lock();
        let InboxState { reserved, pending, .. } = &mut *state;
        // A node that was polled since and did not continue this wait leaves the message in the
        // inbox.
        while let Some(wait) = reserved.first()
            && pending.get(wait).is_none_or(|wait| wait.records.has_seen(wait.record))
        {
            reserved.pop_first();
        }
        state.taken > 0 || state.waking > 0 || !state.reserved.is_empty()
    }

    /// Returns true if a wait has no message yet.
    pub(crate) fn is_awaited(&self) -> bool {
        self.lock().waiting > 0
    }

    /// Rejects a message that the node of this wait cannot use. The node keeps waiting.
    pub(crate) fn reject(&self, message: Message, reason: String, cause: RefusalCause, wait: u64) {
        let Message { number, name, .. } = message;
        self.lock().rejected.push(RejectedMessage { number, name, reason, cause, wait: Some(wait), has_ended: false });
    }

    /// Notes that a wait is over, so that what it rejected is no longer reported.
    pub(crate) fn wait_ended(&self, wait: u64) {
        let mut state = self.lock();
        state.rejected.iter_mut().filter(|message| message.wait == Some(wait)).for_each(|message| message.has_ended = true);
    }

    /// Takes the rejected messages, except a message that a resume carried.
    pub(crate) fn take_rejected(&self) -> Vec<RejectedMessage> {
        let mut state = self.lock();
        if state.rejected.is_empty() {
            return Vec::new();
        }
        let (posted, carried) = std::mem::take(&mut state.rejected).into_iter().partition(|message| message.number > 0);
        state.rejected = carried;
        posted
    }

    /// Keeps a refused message of an in-memory run for its view.
    pub(crate) fn keep_refused(&self, refused: RefusedMessage) {
        let mut state = self.lock();
        if state.refused.len() >= REFUSED_MAX {
            state.refused.pop_front();
        }
        state.refused.push_back(refused);
    }

    /// Returns the refused messages of an in-memory run, the oldest first.
    pub(crate) fn refused(&self) -> Vec<RefusedMessage> {
        self.lock().refused.iter().cloned().collect()
    }

    /// Returns the answer that a resume carried, if it was rejected.
    pub(crate) fn rejected_answer(&self) -> Option<RejectedMessage> {
        self.lock().rejected.iter().find(|message| message.number == 0).cloned()
    }

    /// Returns the name of a message that a resume carried and no node waited for.
    pub(crate) fn unclaimed(&self) -> Option<String> {
        let state = self.lock();
        let messages = state.names.values().flat_map(|named| &named.messages);
        messages.filter(|message| message.number == 0).map(|message| message.name.clone()).min()
    }
}

impl<'a> InboxWait<'a> {
    /// Returns the number of this wait, unique in its inbox.
    pub(crate) fn number(&self) -> u64 {
        self.wait
    }

    /// Sets the record after which this wait can take a message.
    pub(crate) fn take_after(&self, record: u64) {
        if let Some(pending) = self.inbox.lock().pending.get_mut(&self.wait) {
            pending.record = record;
        }
    }

    /// Takes the oldest message that is not reserved for an earlier wait. Without one, stores
    /// `waker` and wakes it when a message arrives. The guard counts the message as taken until it
    /// is recorded.
    pub(crate) fn take(&self, waker: &Waker) -> Option<(Message, TakenMessage<'a>)> {
        let waker = Arc::new(waker.clone());
        let (_replaced, _ended);
        let mut state = self.inbox.lock();
        _ended = state.end_pending(self.wait);
        let is_woken = state.names.get(&self.name).is_some_and(|named| named.woken.contains(&self.wait));
        let is_free = state.names.get(&self.name).is_some_and(|named| named.messages.len() > named.woken.len());
        if !is_woken && !is_free {
            _replaced = state.store_wait(&self.name, self.wait, waker);
            return None;
        }
        _replaced = state.remove_wait(&self.name, self.wait).1;
        let message = state.names.get_mut(&self.name)?.messages.pop_front()?;
        state.count[kind_of(&self.name)] -= 1;
        state.taken += 1;
        Some((message, TakenMessage(self.inbox)))
    }
}

impl Drop for InboxWait<'_> {
    fn drop(&mut self) {
        let mut wakers = Vec::new();
        let (_removed, _ended);
        {
            let mut state = self.inbox.lock();
            _ended = state.end_pending(self.wait);
            let was_woken;
            (was_woken, _removed) = state.remove_wait(&self.name, self.wait);
            if was_woken {
                state.wake_waits(&self.name, &mut wakers);
            }
            state.remove_if_unused(&self.name);
        }
        self.inbox.wake(&wakers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::message::answer_name;
    use std::collections::VecDeque;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::Wake;

    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    fn message(number: u64, name: &str) -> Message {
        Message { number, name: name.to_string(), payload: Vec::new() }
    }

    fn woken(counters: &[Arc<Counter>]) -> Vec<usize> {
        (0..counters.len()).filter(|number| counters[*number].0.swap(0, Relaxed) > 0).collect()
    }

    fn counters(count: usize) -> Vec<Arc<Counter>> {
        (0..count).map(|_| Arc::new(Counter(AtomicUsize::new(0)))).collect()
    }

    #[test]
    fn c8_answer_wakes_only_the_branch_that_asked() {
        let (inbox, counters, records) = (Inbox::default(), counters(100), Arc::default());
        let waits: Vec<_> = (0..100).map(|key| inbox.wait_for(&answer_name(&key.to_string()), &records)).collect();
        for (wait, counter) in waits.iter().zip(&counters) {
            assert!(wait.take(&Arc::clone(counter).into()).is_none());
        }
        inbox.add([message(1, &answer_name("7"))]);
        assert_eq!(woken(&counters), [7]);
        inbox.wake_all(&answer_name("8"));
        assert_eq!(woken(&counters), [8]);
    }

    #[test]
    fn c9_signal_wakes_the_oldest_wait_and_passes_on_if_that_is_dropped() {
        let (inbox, counters, records) = (Inbox::default(), counters(3), Arc::default());
        let mut waits: VecDeque<_> = (0..3).map(|_| inbox.wait_for("go", &records)).collect();
        let take = |wait: &InboxWait<'_>, number: usize| {
            wait.take(&Arc::clone(&counters[number]).into()).map(|(message, _)| message.number)
        };
        for (number, wait) in waits.iter().enumerate() {
            assert_eq!(take(wait, number), None);
        }
        inbox.add([message(1, "go")]);
        assert_eq!(woken(&counters), [0]);
        assert!(!inbox.is_answering() && inbox.is_awaited(), "the waker reports it");
        assert_eq!(take(&waits[1], 1), None, "reserved for the first wait");
        drop(waits.pop_front());
        assert_eq!(woken(&counters), [1]);
        assert_eq!(take(&waits[0], 1), Some(1));
        assert!(!inbox.is_answering());
        inbox.add([message(2, "go"), message(3, "go")]);
        assert_eq!(woken(&counters), [2], "no wait is left for the other");
        assert_eq!((take(&waits[1], 2), take(&waits[0], 1)), (Some(2), Some(3)));
        drop(waits);
        assert!(inbox.lock().names.is_empty() && !inbox.is_awaited());
    }

    #[test]
    fn c9_wait_after_the_message_is_answering_immediately() {
        let (inbox, records) = (Inbox::default(), Arc::default());
        inbox.add([message(1, "go")]);
        assert!(!inbox.is_answering());
        let wait = inbox.wait_for("go", &records);
        assert!(inbox.is_answering());
        drop(wait);
        assert!(!inbox.is_answering());
        let wait = inbox.wait_for("go", &records);
        assert_eq!(wait.take(Waker::noop()).map(|(message, _)| message.number), Some(1));
    }
}
