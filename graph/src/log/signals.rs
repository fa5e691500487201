//! `RecordedSignals`: signals that a wait has taken and that its node has not received yet.
//!
//! The visit record names the number of the message, and the message stays in the inbox until the
//! node has received the signal. So a signal is neither lost nor delivered twice:
//! 1. When the node receives it, the message is taken with the next commit, at the latest with the
//!    one that ends the visit.
//! 2. If the visit ends first, the signal returns to the inbox.
//! 3. If the driver dies, the next driver finds both the message and the visit record, and leaves
//!    the message to that visit.

use crate::log::RunLog;
use crate::log::frontier::Frontier;
use crate::log::message::{Message, signal_name};
use crate::log::visit::VisitRecordBody;
use crate::store::{Fork, InboxMessage, Kind, Record};
use std::collections::{BTreeMap, HashMap};

/// The note of a taking: the line of control that it is about, and its sequence.
type SignalPosition = (Vec<Fork>, u64);

#[derive(Default)]
pub(super) struct RecordedSignals {
    noted: BTreeMap<SignalPosition, Message>,
    /// Where each message is noted, by its number.
    places: HashMap<u64, SignalPosition>,
    /// Those whose visits are over, for the engine to hand out again.
    returned: Vec<Message>,
}

impl RecordedSignals {
    /// A wait took this signal, and the record `sequence` says so.
    pub(super) fn note(&mut self, path: Vec<Fork>, sequence: u64, message: Message) {
        self.places.insert(message.number, (path.clone(), sequence));
        self.noted.insert((path, sequence), message);
    }

    /// What the records of an earlier driver say.
    pub(super) fn of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut signals = Self::default();
        for record in records.into_iter().filter(|record| record.header.kind == Kind::Wake) {
            let Ok(VisitRecordBody { key, value: Some(value), message: Some(number), .. }) =
                serde_json::from_slice(&record.body)
            else {
                continue;
            };
            let message = Message { number, name: signal_name(&key), payload: value.get().as_bytes().to_vec() };
            signals.note(record.header.path.clone(), record.sequence, message);
        }
        signals
    }

    /// Compares them with the messages in the inbox: those that are noted are left to their visits, and what is not there was given out before.
    fn leave_out(&mut self, messages: &mut Vec<InboxMessage>) {
        if self.places.is_empty() {
            return;
        }
        let mut places = std::mem::take(&mut self.places);
        messages.retain(|message| match places.remove_entry(&message.number) {
            Some((number, at)) => self.places.insert(number, at).is_some(),
            None => true,
        });
        places.values().for_each(|at| drop(self.noted.remove(at)));
    }

    /// Whether the signal with this number was noted until now.
    fn give_out(&mut self, number: u64) -> bool {
        self.places.remove(&number).is_some_and(|at| self.noted.remove(&at).is_some())
    }

    /// The line of control at this path has moved, or an attempt has failed there: signals of visits that are over go back.
    pub(super) fn moved(&mut self, path: &[Fork], frontier: &Frontier) {
        if self.noted.is_empty() {
            return;
        }
        let is_live =
            |(path, sequence): &SignalPosition| frontier.get(path).is_some_and(|token| token.notes.contains(sequence));
        let from_here = self.noted.range((path.to_vec(), 0)..).take_while(|((at, _), _)| at.starts_with(path));
        let over: Vec<SignalPosition> = from_here.map(|(at, _)| at).filter(|at| !is_live(at)).cloned().collect();
        for message in over.iter().filter_map(|at| self.noted.remove(at)) {
            self.places.remove(&message.number);
            self.returned.push(message);
        }
    }
}

impl RunLog {
    /// A node was given this signal: its message is taken with the next commit.
    pub(crate) fn give_out_signal(&self, number: u64) {
        let mut state = self.lock();
        if state.signals.give_out(number) {
            state.to_take.push(number);
        }
    }

    /// The signals whose visits ended before their nodes were given them.
    pub(crate) fn take_returned_signals(&self) -> Vec<Message> {
        std::mem::take(&mut self.lock().signals.returned)
    }

    /// Leaves messages out that a visit has noted, and will be given.
    pub(crate) fn leave_out_noted(&self, messages: &mut Vec<InboxMessage>) {
        self.lock().signals.leave_out(messages);
    }
}
