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

/// The position of a `Wake` record: the path of its token and its sequence number.
type SignalPosition = (Vec<Fork>, u64);

/// The recorded signals of one run.
#[derive(Default)]
pub(super) struct RecordedSignals {
    /// The signals by the record that took them.
    recorded: BTreeMap<SignalPosition, Message>,
    /// The record of each signal, by message number.
    positions: HashMap<u64, SignalPosition>,
    /// The signals of finished visits, which the engine puts back into the inbox.
    returned: Vec<Message>,
}

impl RecordedSignals {
    /// Adds a signal that the record `sequence` has taken.
    pub(super) fn add(&mut self, path: Vec<Fork>, sequence: u64, message: Message) {
        self.positions.insert(message.number, (path.clone(), sequence));
        self.recorded.insert((path, sequence), message);
    }

    /// Restores the signals from the records of an earlier driver.
    pub(super) fn of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut signals = Self::default();
        for record in records.into_iter().filter(|record| record.header.kind == Kind::Wake) {
            let Ok(VisitRecordBody { key, value: Some(value), message: Some(number), .. }) =
                serde_json::from_slice(&record.body)
            else {
                continue;
            };
            let message = Message { number, name: signal_name(&key), payload: value.get().as_bytes().to_vec() };
            signals.add(record.header.path.clone(), record.sequence, message);
        }
        signals
    }

    /// Removes recorded signals from `messages`: their visits get them. Forgets recorded signals
    /// that are not in the inbox: they were delivered before.
    fn leave_out(&mut self, messages: &mut Vec<InboxMessage>) {
        if self.positions.is_empty() {
            return;
        }
        let mut positions = std::mem::take(&mut self.positions);
        messages.retain(|message| match positions.remove_entry(&message.number) {
            Some((number, at)) => self.positions.insert(number, at).is_some(),
            None => true,
        });
        positions.values().for_each(|at| drop(self.recorded.remove(at)));
    }

    /// Forgets a signal. Returns true if it was recorded until now.
    fn remove(&mut self, number: u64) -> bool {
        self.positions.remove(&number).is_some_and(|at| self.recorded.remove(&at).is_some())
    }

    /// Moves the signals of finished visits to `returned`. Called when the token at this path has
    /// moved or an attempt has failed there.
    pub(super) fn return_finished(&mut self, path: &[Fork], frontier: &Frontier) {
        if self.recorded.is_empty() {
            return;
        }
        let is_live =
            |(path, sequence): &SignalPosition| frontier.get(path).is_some_and(|token| token.visit_records.contains(sequence));
        let from_here = self.recorded.range((path.to_vec(), 0)..).take_while(|((at, _), _)| at.starts_with(path));
        let over: Vec<SignalPosition> = from_here.map(|(at, _)| at).filter(|at| !is_live(at)).cloned().collect();
        for message in over.iter().filter_map(|at| self.recorded.remove(at)) {
            self.positions.remove(&message.number);
            self.returned.push(message);
        }
    }
}

impl RunLog {
    /// Notes that a node got this signal. Its message is removed with the next commit.
    pub(crate) fn deliver_signal(&self, number: u64) {
        let mut state = self.lock();
        if state.signals.remove(number) {
            state.to_take.push(number);
        }
    }

    /// Takes the signals whose visits ended before their nodes got them.
    pub(crate) fn take_returned_signals(&self) -> Vec<Message> {
        std::mem::take(&mut self.lock().signals.returned)
    }

    /// Removes messages that are recorded for a visit, which will get them.
    pub(crate) fn leave_out_recorded(&self, messages: &mut Vec<InboxMessage>) {
        self.lock().signals.leave_out(messages);
    }
}
