//! `VisitState`: the state of one visit, under the lock of its `VisitRecords`.

use crate::error::{EffectError, StoredFault};
use crate::log::undo_payload::UndoPayload;
use crate::log::visit::polls::NodePolls;
use crate::log::visit::waits_inside::WaitsInside;
use crate::log::visit::watcher::Watcher;
use crate::log::visit::{OpenWait, ParkedInside, VisitRecordBody};
use crate::store::{Kind, Timestamp};
use pleach_core::Instant;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::sync::Arc;

/// The state of one visit.
#[derive(Default)]
pub(crate) struct VisitState {
    /// The current attempt. An abandoned attempt may still run on another thread; it can change
    /// nothing.
    pub(super) attempt: u32,
    /// The effects and waits of this visit, by key.
    pub(crate) keys: HashMap<(Namespace, String), KeyState>,
    /// The number of running effects.
    pub(crate) effects_running: usize,
    /// Notified when an effect or a wait begins or ends.
    pub(super) watcher: Option<Watcher>,
    /// Tells whether the node is being polled or was woken.
    pub(crate) polls: NodePolls,
    /// The open waits of this attempt.
    pub(crate) open: Vec<OpenWait>,
    /// For a subgraph: set while all its tokens are parked.
    pub(super) inside: Option<ParkedInside>,
    /// For a subgraph: the number of visits on the way of its token.
    pub(crate) iteration_inside: u64,
    /// The last failed attempt, and the earliest start of the next one.
    pub(crate) failed: Option<(u32, Option<Timestamp>)>,
    /// The record of the last failed attempt.
    pub(crate) failed_row: u64,
    /// The last recorded undo payload.
    pub(crate) undo: Option<RecordedUndo>,
    /// True if the visit is on the undo chain.
    pub(crate) is_on_undo_chain: bool,
    /// The fault of a visit that failed permanently, if an earlier process recorded it last.
    pub(crate) failed_permanently: Option<StoredFault>,
    /// The attempts abandoned because of a failure elsewhere or a timeout, with the fault. Work
    /// inside them is undone.
    pub(super) abandoned: Vec<(u32, Arc<StoredFault>)>,
    /// The effects whose start is in the log and that then returned an error.
    pub(super) not_done: Vec<String>,
    /// For each signal name: the first wait whose signal this attempt has not got yet.
    pub(super) signals: HashMap<String, u32>,
}

/// The namespace of a key. Effects, waits and waits for signals may use the same keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Namespace {
    /// A recorded effect.
    Effect,
    /// A wait for an answer or for a time.
    Wait,
    /// A wait for a signal, by its number among the waits for this name.
    Signal(u32),
}

/// The state of one key.
#[derive(Default)]
pub(crate) struct KeyState {
    /// True if a call in this attempt uses the key or got its value.
    pub(crate) is_used: bool,
    /// True if the value was delivered in this attempt.
    pub(crate) is_delivered: bool,
    /// True if the work of a `once` effect was called, or may have been called by an earlier
    /// process.
    pub(crate) is_started: bool,
    /// True from the start of an effect until it returns an error. Ignored once a value is
    /// recorded.
    pub(crate) may_have_happened: bool,
    /// True if the log has the start record of a repeatable effect.
    pub(crate) is_begun: bool,
    /// The start record of an effect, which must be durable before its work is called; 0 if it was
    /// durable when this process began.
    pub(crate) begun_by: u64,
    /// True if the effect was copied by a fork.
    pub(super) is_copied: bool,
    /// Set if the wait is recorded; with its deadline, if it is a sleep.
    pub(crate) wait: Option<Option<Timestamp>>,
    /// The record of the wait; 0 in an in-memory run.
    pub(crate) wait_row: u64,
    /// The deadline of a sleep in an in-memory run.
    pub(crate) until: Option<Instant>,
    /// The result of the effect, or the message that ended the wait.
    pub(crate) value: Option<Box<RawValue>>,
    /// The record of the value, which must be durable before the value is delivered; 0 if it was
    /// durable when this process began.
    pub(crate) recorded_by: u64,
    /// The message number of the signal.
    pub(super) message: Option<u64>,
    /// The recorded idempotency key of an effect.
    pub(crate) begun_with: Option<String>,
}

/// A recorded value.
pub(crate) struct RecordedValue {
    pub(crate) json: String,
    /// See [`KeyState::recorded_by`].
    pub(crate) recorded_by: u64,
}

impl KeyState {
    /// Returns the recorded value.
    pub(crate) fn known(&self) -> Option<RecordedValue> {
        self.value.as_ref().map(|value| RecordedValue { json: value.get().to_string(), recorded_by: self.recorded_by })
    }
}

/// The undo payload that a node recorded.
pub(crate) struct RecordedUndo {
    /// The payload, or the reason why it is unusable.
    pub(crate) payload: Result<UndoPayload, EffectError>,
    /// True if it is in the log.
    pub(crate) is_written: bool,
}

impl RecordedUndo {
    pub(super) fn restored(json: Box<RawValue>) -> Self {
        Self { payload: Ok(UndoPayload::of(json)), is_written: true }
    }
}

impl VisitState {
    /// Returns true if this is the current attempt.
    pub(crate) fn is_at(&self, attempt: u32) -> bool {
        self.attempt == attempt
    }

    /// Returns the earliest end of a wait of this node.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        let inside = self.inside.as_ref().and_then(|inside| inside.due);
        self.open.iter().filter_map(|wait| wait.due).chain(inside).min()
    }

    /// Returns true if a pause holds a lane of the parked subgraph that runs as this node.
    pub(crate) fn is_paused_inside(&self) -> bool {
        self.inside.as_ref().is_some_and(|inside| inside.is_paused)
    }

    /// Returns the open waits of the parked subgraph that runs as this node.
    pub(crate) fn waits_inside(&self) -> Option<&Arc<WaitsInside>> {
        self.inside.as_ref().map(|inside| &inside.waits)
    }

    /// Applies the visit record `row`. `sequence` is the same number, or 0 if the record was
    /// durable when this process began.
    pub(crate) fn apply(&mut self, kind: Kind, body: VisitRecordBody, row: u64, sequence: u64) {
        let VisitRecordBody { key, signal, value, message, due, begun_with, copied, repeats, not_done, .. } = body;
        for key in &not_done {
            let key_state = self.key_state(Namespace::Effect, key);
            (key_state.is_begun, key_state.may_have_happened) = (false, false);
        }
        let wait = signal.map_or(Namespace::Wait, Namespace::Signal);
        match kind {
            Kind::Effect => {
                let key_state = self.key_state(Namespace::Effect, &key);
                (key_state.value, key_state.is_copied, key_state.recorded_by) = (value, copied, sequence);
            }
            // The original run of a fork started it; this run starts it again.
            Kind::Started if repeats && copied => {}
            Kind::Started if repeats => {
                let key_state = self.key_state(Namespace::Effect, &key);
                (key_state.is_begun, key_state.begun_by, key_state.may_have_happened) = (true, sequence, true);
            }
            Kind::Started => {
                let key_state = self.key_state(Namespace::Effect, &key);
                // This process sets the flag when it calls the work.
                key_state.is_started |= sequence == 0;
                (key_state.begun_by, key_state.begun_with, key_state.is_copied) = (sequence, begun_with, copied);
            }
            Kind::Wait => {
                let key_state = self.key_state(wait, &key);
                (key_state.wait, key_state.wait_row) = (Some(due), row);
            }
            Kind::Wake => {
                let key_state = self.key_state(wait, &key);
                (key_state.value, key_state.message, key_state.recorded_by) = (value, message, sequence);
            }
            _ => {}
        }
    }

    /// Takes the undo payload for the next visit record, if it is not in the log yet.
    pub(crate) fn undo_to_write(&mut self) -> Option<Box<RawValue>> {
        let recorded = self.undo.as_mut().filter(|recorded| !recorded.is_written)?;
        let json = recorded.payload.as_ref().ok()?.json.clone();
        recorded.is_written = true;
        Some(json)
    }

    pub(crate) fn notify_watcher(&mut self) {
        if let Some(watcher) = self.watcher.take() {
            watcher.notify();
        }
    }

    /// Notes that an effect returned an error: it did not happen.
    pub(crate) fn mark_not_done(&mut self, key: &str) {
        let key_state = self.key_state(Namespace::Effect, key);
        key_state.may_have_happened = false;
        if key_state.is_begun {
            self.not_done.push(key.to_string());
        }
    }

    /// Notes that an effect starts: from now on it may happen.
    pub(crate) fn begin_effect(&mut self, key: &str) {
        self.not_done.retain(|known| known != key);
        self.key_state(Namespace::Effect, key).may_have_happened = true;
    }

    /// Takes the effects that returned errors, for the record of a failed attempt.
    pub(crate) fn not_done_to_write(&mut self) -> Vec<String> {
        let not_done = std::mem::take(&mut self.not_done);
        for key in &not_done {
            self.key_state(Namespace::Effect, key).is_begun = false;
        }
        not_done
    }

    /// Returns the wait that the next call for this signal continues: the first with an undelivered
    /// signal, else the first that is free.
    pub(crate) fn next_signal(&self, name: &str) -> u32 {
        let first = self.signals.get(name).copied().unwrap_or(1);
        let (mut count, mut free) = (first, None);
        while let Some(key_state) = self.keys.get(&(Namespace::Signal(count), name.to_string())) {
            if !key_state.is_used && key_state.value.is_some() {
                return count;
            }
            if !key_state.is_used && free.is_none() {
                free = Some(count);
            }
            count += 1;
        }
        free.unwrap_or(count)
    }

    /// Marks the value of a key as delivered. Returns the message number of a signal.
    pub(crate) fn deliver(&mut self, namespace: Namespace, key: &str) -> Option<u64> {
        let key_state = self.key_state(namespace, key);
        (key_state.is_used, key_state.is_delivered) = (true, true);
        let message = key_state.message;
        let Namespace::Signal(_) = namespace else { return None };
        let mut first = self.signals.get(key).copied().unwrap_or(1);
        while self.keys.get(&(Namespace::Signal(first), key.to_string())).is_some_and(|key_state| key_state.is_delivered) {
            first += 1;
        }
        self.signals.insert(key.to_string(), first);
        message
    }

    pub(crate) fn key_state(&mut self, namespace: Namespace, key: &str) -> &mut KeyState {
        self.keys.entry((namespace, key.to_string())).or_default()
    }
}
