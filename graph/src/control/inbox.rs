//! `Inbox`: signals and answers that no node has taken yet. Nodes take them by name, oldest first.
//!
//! 1. Each message wakes one wait, the oldest of its name.
//! 2. A wait that is dropped after it was woken passes its message on.
//! 3. No waker is called, cloned or dropped under the lock.

use crate::control::remote::TellError;
use crate::log::message::Message;
use crate::log::visit::VisitRecords;
use crate::store::INBOX_MAX;
use crate::store::message_kind::ANSWER;
use crate::util::work_count;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

#[derive(Default)]
pub(crate) struct Inbox(Mutex<InboxState>);

#[derive(Default)]
struct InboxState {
    names: HashMap<String, NamedQueue>,
    /// How many waits there were so far.
    waits: u64,
    /// How many waits have asked for a message, and none is there for them.
    waiting: usize,
    /// The waits that have not asked for a message yet, since the record that they wait is being written.
    beginning: HashMap<u64, PendingWait>,
    /// Those of them that a message is there for.
    found: BTreeSet<u64>,
    /// How many wakers are about to be called.
    waking: usize,
    /// How many were taken by nodes that have not written that down yet.
    in_hand: usize,
    /// How many messages there are: signals, and answers.
    count: [usize; 2],
    refused: Vec<RejectedMessage>,
    /// Of a run that is not stored: how many messages there were, and their dedup texts.
    handed_over: u64,
    dedups: HashSet<String>,
}

/// The messages of one name, and the waits for them. Each message wakes one wait, the oldest.
#[derive(Default)]
struct NamedQueue {
    messages: VecDeque<Message>,
    /// Shared, so that none is cloned or dropped while the lock is held.
    waiting: BTreeMap<u64, Arc<Waker>>,
    /// Those that were woken: for each of them there is a message.
    woken: BTreeSet<u64>,
}

/// A wait that asks for a message once its node was polled after `record` was durable.
struct PendingWait {
    records: Arc<VisitRecords>,
    record: u64,
}

/// A wait for a message of one name. Dropped after it was woken, it lets another wait have the message.
pub(crate) struct InboxWait<'a> {
    inbox: &'a Inbox,
    name: String,
    wait: u64,
}

/// While it lives, somebody has taken a message.
pub(crate) struct TakenMessage<'a>(&'a Inbox);

impl Drop for TakenMessage<'_> {
    fn drop(&mut self) {
        self.0.lock().in_hand -= 1;
    }
}

/// A message that the node which waited for it could not read.
#[derive(Clone, Debug)]
pub(crate) struct RejectedMessage {
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) why: String,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, InboxState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, messages: impl IntoIterator<Item = Message>) {
        let mut wakers = Vec::new();
        {
            let mut state = self.lock();
            for message in messages {
                let name = message.name.clone();
                state.count[kind_of(&name)] += 1;
                state.names.entry(name.clone()).or_default().messages.push_back(message);
                state.hand_out(&name, &mut wakers);
            }
        }
        self.wake(&wakers);
    }

    /// Puts back a message that was taken by a visit which is over, among those of its name by its number.
    pub(crate) fn give_back(&self, message: Message) {
        let mut wakers = Vec::new();
        {
            let mut state = self.lock();
            let name = message.name.clone();
            state.count[kind_of(&name)] += 1;
            let messages = &mut state.names.entry(name.clone()).or_default().messages;
            messages.insert(messages.partition_point(|known| known.number < message.number), message);
            state.hand_out(&name, &mut wakers);
        }
        self.wake(&wakers);
    }

    /// Calls the wakers that [`InboxState::hand_out`] gave. From here on their nodes know that they are woken.
    fn wake(&self, wakers: &[Arc<Waker>]) {
        if !wakers.is_empty() {
            wakers.iter().for_each(|waker| waker.wake_by_ref());
            self.lock().waking -= wakers.len();
        }
    }

    /// Wakes all that wait for a message of this name.
    pub(crate) fn wake_all(&self, name: &str) {
        let wakers: Vec<Arc<Waker>> = {
            let state = self.lock();
            state.names.get(name).into_iter().flat_map(|named| named.waiting.values().cloned()).collect()
        };
        work_count::visit(wakers.len() as u64);
        wakers.iter().for_each(|waker| waker.wake_by_ref());
    }

    /// Gives a run that is not stored a message, as a store would: one with a dedup text that was there before is none, and there may be so many.
    pub(crate) fn hand_over(&self, name: String, dedup: Option<String>, payload: Vec<u8>) -> Result<(), TellError> {
        let number = {
            let mut state = self.lock();
            if dedup.as_ref().is_some_and(|dedup| state.dedups.contains(dedup)) {
                return Ok(());
            }
            let count = state.count[kind_of(&name)];
            if count >= INBOX_MAX || (dedup.is_some() && state.dedups.len() >= INBOX_MAX) {
                return Err(TellError::Full { limit: INBOX_MAX });
            }
            state.dedups.extend(dedup);
            state.handed_over += 1;
            state.handed_over
        };
        self.add([Message { number, name, payload }]);
        Ok(())
    }

    /// Waits for messages of this name from now on.
    pub(crate) fn await_letter(&self, name: &str, records: &Arc<VisitRecords>) -> InboxWait<'_> {
        let mut wakers = Vec::new();
        let wait = {
            let mut state = self.lock();
            state.waits += 1;
            let wait = state.waits;
            state.beginning.insert(wait, PendingWait { records: Arc::clone(records), record: u64::MAX });
            drop(state.wait(name, wait, Arc::new(Waker::noop().clone())));
            // If there is a message for it, that is known: the node will take it.
            state.hand_out(name, &mut wakers);
            wait
        };
        self.wake(&wakers);
        InboxWait { inbox: self, name: name.to_string(), wait }
    }

    /// Whether a wait is about to take a message, or a message is in hand. A wait that was woken is known by the visit records of its node.
    pub(crate) fn is_answering(&self) -> bool {
        let mut state = self.lock();
        let InboxState { found, beginning, .. } = &mut *state;
        // A node that was polled since and did not go on with its wait leaves the message alone.
        while let Some(wait) = found.first()
            && beginning.get(wait).is_none_or(|wait| wait.records.has_seen(wait.record))
        {
            found.pop_first();
        }
        state.in_hand > 0 || state.waking > 0 || !state.found.is_empty()
    }

    /// Whether somebody has asked for a message that has not come since.
    pub(crate) fn is_awaited(&self) -> bool {
        self.lock().waiting > 0
    }

    /// Puts aside a message that was not what the node had asked for; the node goes on waiting.
    pub(crate) fn refuse(&self, message: Message, why: String) {
        let Message { number, name, .. } = message;
        self.lock().refused.push(RejectedMessage { number, name, why });
    }

    /// The messages that were refused since, but for one that a resume brought along.
    pub(crate) fn take_refused(&self) -> Vec<RejectedMessage> {
        let mut state = self.lock();
        if state.refused.is_empty() {
            return Vec::new();
        }
        let (posted, brought) = std::mem::take(&mut state.refused).into_iter().partition(|message| message.number > 0);
        state.refused = brought;
        posted
    }

    /// The answer that a resume brought along, if it was refused.
    pub(crate) fn refused_answer(&self) -> Option<RejectedMessage> {
        self.lock().refused.iter().find(|message| message.number == 0).cloned()
    }

    /// A message that a resume brought along, and that nobody asked for.
    pub(crate) fn unasked(&self) -> Option<String> {
        let state = self.lock();
        let messages = state.names.values().flat_map(|named| &named.messages);
        messages.filter(|message| message.number == 0).map(|message| message.name.clone()).min()
    }
}

impl InboxState {
    /// Wakes a wait for each message of this name that nobody was woken for.
    fn hand_out(&mut self, name: &str, wakers: &mut Vec<Arc<Waker>>) {
        let Some(named) = self.names.get_mut(name) else { return };
        while named.woken.len() < named.messages.len()
            && let Some((wait, waker)) = named.waiting.pop_first()
        {
            work_count::visit(1);
            named.woken.insert(wait);
            if self.beginning.contains_key(&wait) {
                self.found.insert(wait);
            }
            (self.waiting, self.waking) = (self.waiting - 1, self.waking + 1);
            wakers.push(waker);
        }
    }

    /// A wait goes on under this waker. The one before it, to be dropped after the lock.
    fn wait(&mut self, name: &str, wait: u64, waker: Arc<Waker>) -> Option<Arc<Waker>> {
        if !self.names.contains_key(name) {
            self.names.insert(name.to_string(), NamedQueue::default());
        }
        let named = self.names.get_mut(name).expect("it was added");
        let replaced = named.waiting.insert(wait, waker);
        self.waiting += usize::from(replaced.is_none());
        replaced
    }

    /// Forgets a wait. Whether it had been woken, and its waker, to be dropped after the lock.
    fn forget(&mut self, name: &str, wait: u64) -> (bool, Option<Arc<Waker>>) {
        let Some(named) = self.names.get_mut(name) else { return (false, None) };
        let waker = named.waiting.remove(&wait);
        self.waiting -= usize::from(waker.is_some());
        (named.woken.remove(&wait), waker)
    }

    /// A wait asks for a message now, or is over. What was kept until then is dropped after the lock.
    fn begin(&mut self, wait: u64) -> Option<PendingWait> {
        self.found.remove(&wait);
        self.beginning.remove(&wait)
    }

    /// Nothing is kept of a name that nobody uses.
    fn tidy(&mut self, name: &str) {
        let is_unused = |named: &NamedQueue| named.messages.is_empty() && named.waiting.is_empty() && named.woken.is_empty();
        if self.names.get(name).is_some_and(is_unused) {
            self.names.remove(name);
        }
    }
}

impl<'a> InboxWait<'a> {
    /// The wait asks for a message once this record is durable.
    pub(crate) fn asks_after(&self, record: u64) {
        if let Some(beginning) = self.inbox.lock().beginning.get_mut(&self.wait) {
            beginning.record = record;
        }
    }

    /// The oldest message that no earlier wait was woken for; if there is none, `waker` is woken when one comes. It is in hand until its taking is
    /// written down.
    pub(crate) fn take(&self, waker: &Waker) -> Option<(Message, TakenMessage<'a>)> {
        let waker = Arc::new(waker.clone());
        let (_replaced, _begun);
        let mut state = self.inbox.lock();
        _begun = state.begin(self.wait);
        let is_woken = state.names.get(&self.name).is_some_and(|named| named.woken.contains(&self.wait));
        let is_free = state.names.get(&self.name).is_some_and(|named| named.messages.len() > named.woken.len());
        if !is_woken && !is_free {
            _replaced = state.wait(&self.name, self.wait, waker);
            return None;
        }
        _replaced = state.forget(&self.name, self.wait).1;
        let message = state.names.get_mut(&self.name)?.messages.pop_front()?;
        state.count[kind_of(&self.name)] -= 1;
        state.in_hand += 1;
        Some((message, TakenMessage(self.inbox)))
    }
}

impl Drop for InboxWait<'_> {
    fn drop(&mut self) {
        let mut wakers = Vec::new();
        let (_forgotten, _begun);
        {
            let mut state = self.inbox.lock();
            _begun = state.begin(self.wait);
            let was_woken;
            (was_woken, _forgotten) = state.forget(&self.name, self.wait);
            if was_woken {
                state.hand_out(&self.name, &mut wakers);
            }
            state.tidy(&self.name);
        }
        self.inbox.wake(&wakers);
    }
}

/// Which of the two kinds a message is: a signal, or an answer.
fn kind_of(name: &str) -> usize {
    usize::from(name.starts_with(ANSWER))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::message::answer_name;
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
    fn c8_an_answer_wakes_only_the_branch_that_asked() {
        let (inbox, counters, records) = (Inbox::default(), counters(100), Arc::default());
        let waits: Vec<_> = (0..100).map(|key| inbox.await_letter(&answer_name(&key.to_string()), &records)).collect();
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
        let mut waits: VecDeque<_> = (0..3).map(|_| inbox.await_letter("go", &records)).collect();
        let take = |wait: &InboxWait<'_>, number: usize| {
            wait.take(&Arc::clone(&counters[number]).into()).map(|(message, _)| message.number)
        };
        for (number, wait) in waits.iter().enumerate() {
            assert_eq!(take(wait, number), None);
        }
        inbox.add([message(1, "go")]);
        assert_eq!(woken(&counters), [0]);
        assert!(!inbox.is_answering() && inbox.is_awaited(), "the waker tells of it");
        assert_eq!(take(&waits[1], 1), None, "the message is for the first");
        drop(waits.pop_front());
        assert_eq!(woken(&counters), [1]);
        assert_eq!(take(&waits[0], 1), Some(1));
        assert!(!inbox.is_answering());
        inbox.add([message(2, "go"), message(3, "go")]);
        assert_eq!(woken(&counters), [2], "the other is not waited for");
        assert_eq!((take(&waits[1], 2), take(&waits[0], 1)), (Some(2), Some(3)));
        drop(waits);
        assert!(inbox.lock().names.is_empty() && !inbox.is_awaited());
    }

    #[test]
    fn c9_wait_that_begins_after_the_letter_is_answering_at_once() {
        let (inbox, records) = (Inbox::default(), Arc::default());
        inbox.add([message(1, "go")]);
        assert!(!inbox.is_answering());
        let wait = inbox.await_letter("go", &records);
        assert!(inbox.is_answering());
        drop(wait);
        assert!(!inbox.is_answering());
        let wait = inbox.await_letter("go", &records);
        assert_eq!(wait.take(Waker::noop()).map(|(message, _)| message.number), Some(1));
    }
}
