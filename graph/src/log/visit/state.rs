//! `VisitState`: what is known of one visit, under the lock of its `VisitRecords`.

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

#[derive(Default)]
pub(crate) struct VisitState {
    /// The attempt that is under way. One before it may not be gone yet, if it runs on another thread: it has no say any more.
    pub(super) attempt: u32,
    /// Effects and waits of this visit, by their keys.
    pub(crate) kept: HashMap<(Namespace, String), KeyState>,
    /// How many effects are on their way.
    pub(crate) effects_running: usize,
    /// Who is told when the node begins or ends an effect or a wait.
    pub(super) watcher: Option<Watcher>,
    /// Whether the node is being polled, or is about to be.
    pub(crate) polls: NodePolls,
    /// The waits that are open in this attempt.
    pub(crate) open: Vec<OpenWait>,
    /// For a node that is a graph: every line of control inside it is parked.
    pub(super) inside: Option<ParkedInside>,
    /// For a node that is a graph: how far the line of control came inside it, in visits.
    pub(crate) iteration_inside: u64,
    /// The last attempt that failed, and when the next may begin.
    pub(crate) failed: Option<(u32, Option<Timestamp>)>,
    /// The record of it.
    pub(crate) failed_row: u64,
    /// What was recorded last to undo this visit by.
    pub(crate) undo: Option<RecordedUndo>,
    /// The visit is among those that can be undone.
    pub(crate) is_undo_kept: bool,
    /// How the visit failed for good, if an earlier process wrote that down and nothing after it.
    pub(crate) failed_for_good: Option<StoredFault>,
    /// The attempts that were cut off because of a failure elsewhere or a timeout, and that failure: what runs inside of them is undone.
    pub(super) cut_off: Vec<(u32, Arc<StoredFault>)>,
    /// The effects that are in the log as begun, and said since that they did not happen.
    pub(super) not_done: Vec<String>,
    /// For each signal, the number of the first wait whose signal this attempt was not given yet.
    pub(super) signals: HashMap<String, u32>,
}

/// Effects, waits for answers or times, and waits for signals may have the same keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Namespace {
    Effect,
    Wait,
    /// The how-manieth wait for a signal of one name.
    Signal(u32),
}

/// What is known of one key.
#[derive(Default)]
pub(crate) struct KeyState {
    /// Asked for in this attempt, by somebody who still waits or was given the value.
    pub(crate) is_used: bool,
    /// The value was given out in this attempt.
    pub(crate) is_delivered: bool,
    /// The work of an effect that may happen once at most was called, or may have been by an earlier process.
    pub(crate) is_started: bool,
    /// An effect has begun, and has not said how it ended.
    pub(crate) is_cut_off: bool,
    /// That an effect which may be repeated has begun is in the log.
    pub(crate) is_begun: bool,
    /// The record that an effect begins, which is to be durable before its work is called; 0 if it was when this process began.
    pub(crate) begun_by: u64,
    /// What is known of an effect was copied from the run that this one was forked from.
    pub(super) is_copied: bool,
    /// A wait is written down; until when, if it is a sleep.
    pub(crate) wait: Option<Option<Timestamp>>,
    /// When that is, in a run that is not stored.
    pub(crate) until: Option<Instant>,
    /// The result of the effect, or the answer.
    pub(crate) value: Option<Box<RawValue>>,
    /// The record of the value, which is to be durable before the value is given out; 0 if it was when this process began.
    pub(crate) recorded_by: u64,
    /// The number of the message that brought a signal.
    pub(super) message: Option<u64>,
    /// The idempotency key that an effect was begun with, if that is written down.
    pub(crate) begun_with: Option<String>,
}

/// A value that is recorded.
pub(crate) struct RecordedValue {
    pub(crate) json: String,
    /// See [`KeyState::recorded_by`].
    pub(crate) recorded_by: u64,
}

impl KeyState {
    /// The result of the effect, or the answer, if there is one.
    pub(crate) fn known(&self) -> Option<RecordedValue> {
        self.value.as_ref().map(|value| RecordedValue { json: value.get().to_string(), recorded_by: self.recorded_by })
    }
}

/// What a node recorded to be undone by.
pub(crate) struct RecordedUndo {
    /// Or why the undo cannot be given it.
    pub(crate) payload: Result<UndoPayload, EffectError>,
    /// Whether it is in the log.
    pub(crate) is_written: bool,
}

impl RecordedUndo {
    pub(super) fn restored(json: Box<RawValue>) -> Self {
        Self { payload: Ok(UndoPayload::of(json)), is_written: true }
    }
}

impl VisitState {
    /// Whether this attempt is under way.
    pub(crate) fn is_at(&self, attempt: u32) -> bool {
        self.attempt == attempt
    }

    /// Until when the node waits, at most.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        let inside = self.inside.as_ref().and_then(|inside| inside.due);
        self.open.iter().filter_map(|wait| wait.due).chain(inside).min()
    }

    /// Whether a pause holds a lane of the graph that runs as the node, which does nothing else but wait.
    pub(crate) fn is_held_inside(&self) -> bool {
        self.inside.as_ref().is_some_and(|inside| inside.is_held)
    }

    /// What the graph that runs as the node waits for, if it does nothing but wait.
    pub(crate) fn waits_inside(&self) -> Option<&Arc<WaitsInside>> {
        self.inside.as_ref().map(|inside| &inside.waits)
    }

    /// What a record of an effect or a wait says; `sequence` is that of the record, or 0 if it is durable.
    pub(crate) fn note(&mut self, kind: Kind, body: VisitRecordBody, sequence: u64) {
        let VisitRecordBody { key, signal, value, message, due, begun_with, copied, repeats, not_done, .. } = body;
        for key in &not_done {
            let kept = self.kept(Namespace::Effect, key);
            (kept.is_begun, kept.is_cut_off) = (false, false);
        }
        let wait = signal.map_or(Namespace::Wait, Namespace::Signal);
        match kind {
            Kind::Effect => {
                let kept = self.kept(Namespace::Effect, &key);
                (kept.value, kept.is_copied, kept.recorded_by) = (value, copied, sequence);
            }
            // The run that was forked began it, and this run begins it anew.
            Kind::Started if repeats && copied => {}
            Kind::Started if repeats => {
                let kept = self.kept(Namespace::Effect, &key);
                (kept.is_begun, kept.begun_by, kept.is_cut_off) = (true, sequence, true);
            }
            Kind::Started => {
                let kept = self.kept(Namespace::Effect, &key);
                // This process knows itself whether it called the work.
                kept.is_started |= sequence == 0;
                (kept.begun_by, kept.begun_with, kept.is_copied) = (sequence, begun_with, copied);
            }
            Kind::Wait => self.kept(wait, &key).wait = Some(due),
            Kind::Wake => {
                let kept = self.kept(wait, &key);
                (kept.value, kept.message, kept.recorded_by) = (value, message, sequence);
            }
            _ => {}
        }
    }

    /// What was recorded to be undone by, to be written with the next note, unless an earlier one has it.
    pub(crate) fn undo_to_write(&mut self) -> Option<Box<RawValue>> {
        let recorded = self.undo.as_mut().filter(|recorded| !recorded.is_written)?;
        let json = recorded.payload.as_ref().ok()?.json.clone();
        recorded.is_written = true;
        Some(json)
    }

    pub(crate) fn tell_watcher(&mut self) {
        if let Some(watcher) = self.watcher.take() {
            watcher.tell();
        }
    }

    /// An effect says that it did not happen.
    pub(crate) fn say_not_done(&mut self, key: &str) {
        let kept = self.kept(Namespace::Effect, key);
        kept.is_cut_off = false;
        if kept.is_begun {
            self.not_done.push(key.to_string());
        }
    }

    /// An effect begins: it may happen from now on.
    pub(crate) fn begin_effect(&mut self, key: &str) {
        self.not_done.retain(|known| known != key);
        self.kept(Namespace::Effect, key).is_cut_off = true;
    }

    /// The effects that said that they did not happen, to be written with an attempt that failed.
    pub(crate) fn not_done_to_write(&mut self) -> Vec<String> {
        let not_done = std::mem::take(&mut self.not_done);
        for key in &not_done {
            self.kept(Namespace::Effect, key).is_begun = false;
        }
        not_done
    }

    /// Which wait for signals of this name a new one goes on with: the first that was recorded and not given out, else the first that nobody waits in.
    pub(crate) fn next_signal(&self, name: &str) -> u32 {
        let first = self.signals.get(name).copied().unwrap_or(1);
        let (mut count, mut free) = (first, None);
        while let Some(kept) = self.kept.get(&(Namespace::Signal(count), name.to_string())) {
            if !kept.is_used && kept.value.is_some() {
                return count;
            }
            if !kept.is_used && free.is_none() {
                free = Some(count);
            }
            count += 1;
        }
        free.unwrap_or(count)
    }

    /// What belongs to a key was given to the node. The number of the message that brought it, if it is a signal.
    pub(crate) fn deliver(&mut self, namespace: Namespace, key: &str) -> Option<u64> {
        let kept = self.kept(namespace, key);
        (kept.is_used, kept.is_delivered) = (true, true);
        let message = kept.message;
        let Namespace::Signal(_) = namespace else { return None };
        let mut first = self.signals.get(key).copied().unwrap_or(1);
        while self.kept.get(&(Namespace::Signal(first), key.to_string())).is_some_and(|kept| kept.is_delivered) {
            first += 1;
        }
        self.signals.insert(key.to_string(), first);
        message
    }

    pub(crate) fn kept(&mut self, namespace: Namespace, key: &str) -> &mut KeyState {
        self.kept.entry((namespace, key.to_string())).or_default()
    }
}
