//! `VisitRecords`: the recorded effects, waits and failed attempts of one visit of a node.
//!
//! All attempts of a visit share them, in this process and in the next. That is why a recorded
//! effect does not run again.
//!
//! An attempt is **abandoned** when it timed out, was cancelled, or was replaced by the next
//! attempt. A node is **parked** when it only waits: no effect runs, no value is ready for it, and
//! it is neither polled nor woken.
//!
//! Invariants:
//! 1. Only the current attempt changes the records ([`VisitRecords::lock_for`]).
//! 2. Each change of the parked state notifies the watcher, so that the engine checks the lane
//!    again.
//!
//! Locks: one lock per visit. The lock of the log may be taken while it is held.

mod body;
pub(crate) mod polls;
mod state;
pub(crate) mod waits_inside;
pub(crate) mod watcher;

pub(crate) use body::VisitRecordBody;
pub(crate) use state::{KeyState, Namespace, RecordedUndo, RecordedValue, VisitState};

use crate::error::{EffectError, StoredFault, UnknownEffect};
use crate::log::codec::undo_in;
use crate::log::visit::waits_inside::WaitsInside;
use crate::log::visit::watcher::Watcher;
use crate::store::{Header, Kind, Record, Timestamp};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The records of one visit, shared by its attempts.
#[derive(Default)]
pub(crate) struct VisitRecords(Mutex<VisitState>);

/// An open wait of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenWait {
    pub(crate) key: String,
    pub(crate) due: Option<Timestamp>,
    /// The question of an interrupt, as JSON.
    pub(crate) question: Option<Arc<str>>,
    /// The name of the message that ends the wait.
    pub(crate) message: Option<String>,
}

/// The state of a parked subgraph that runs as a node.
pub(crate) struct ParkedInside {
    /// The earliest time at which one of its waits ends.
    pub(crate) due: Option<Timestamp>,
    /// Its open waits.
    pub(crate) waits: Arc<WaitsInside>,
    /// True if a pause holds one of its lanes.
    pub(crate) is_paused: bool,
}

/// Counts an effect as running until it is dropped.
pub(crate) struct EffectGuard<'a> {
    records: &'a VisitRecords,
    attempt: u32,
}

impl Drop for EffectGuard<'_> {
    fn drop(&mut self) {
        if let Some(mut state) = self.records.lock_for(self.attempt) {
            state.effects_running -= 1;
            state.notify_watcher();
        }
    }
}

/// Keeps a wait open until it is dropped.
pub(crate) struct WaitGuard<'a> {
    records: &'a VisitRecords,
    attempt: u32,
    wait: OpenWait,
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        let Some(mut state) = self.records.lock_for(self.attempt) else { return };
        if let Some(at) = state.open.iter().position(|open| *open == self.wait) {
            state.open.swap_remove(at);
        }
        state.notify_watcher();
    }
}

impl VisitRecords {
    /// Creates the records of a visit that begins with this attempt.
    pub(crate) fn of_attempt(attempt: u32) -> Self {
        Self(Mutex::new(VisitState { attempt, ..VisitState::default() }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, VisitState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Restores the visit from the records of an earlier process.
    pub(crate) fn restore(records: Vec<Record>) -> Result<Self, serde_json::Error> {
        let mut state = VisitState::default();
        for record in records {
            let mut body: VisitRecordBody = serde_json::from_slice(&record.body)?;
            state.undo = body.undo.take().map(RecordedUndo::restored).or(state.undo);
            if record.header.kind == Kind::Attempt {
                state.failed = Some((record.header.attempt, body.due));
                state.failed_row = record.sequence;
                state.iteration_inside = state.iteration_inside.max(record.header.iterations());
                if undo_in(&record.body)?.is_some() {
                    state.is_on_undo_chain = true;
                    let Header { node, attempt, .. } = &record.header;
                    let known = body.fault.take();
                    let by_text = || StoredFault::of_node(node, *attempt, body.error.clone().unwrap_or_default());
                    state.failed_permanently = Some(known.unwrap_or_else(by_text));
                }
            }
            state.apply(record.header.kind, body, record.sequence, 0);
        }
        Ok(Self(Mutex::new(state)))
    }

    /// Locks the records. Returns `None` if this attempt was abandoned.
    pub(crate) fn lock_for(&self, attempt: u32) -> Option<MutexGuard<'_, VisitState>> {
        Some(self.lock()).filter(|state| state.is_at(attempt))
    }

    /// Begins another attempt: all keys are free again.
    pub(crate) fn begin_attempt(&self, attempt: u32) {
        let mut state = self.lock();
        state.attempt = attempt;
        state.keys.values_mut().for_each(|key_state| (key_state.is_used, key_state.is_delivered) = (false, false));
        state.open.clear();
        state.signals.clear();
        (state.effects_running, state.inside) = (0, None);
        // Dropped after the lock, because it holds a waker.
        let _polls = std::mem::take(&mut state.polls);
        state.notify_watcher();
        drop(state);
    }

    /// Counts an effect as running until the guard is dropped. Returns `None` if the attempt was
    /// abandoned.
    pub(crate) fn run_effect(&self, attempt: u32) -> Option<EffectGuard<'_>> {
        let mut state = self.lock_for(attempt)?;
        state.effects_running += 1;
        state.notify_watcher();
        drop(state);
        Some(EffectGuard { records: self, attempt })
    }

    /// Opens a wait until the guard is dropped. Returns `None` if the attempt was abandoned.
    pub(crate) fn wait(&self, attempt: u32, wait: OpenWait) -> Option<WaitGuard<'_>> {
        let mut state = self.lock_for(attempt)?;
        state.open.push(wait.clone());
        state.notify_watcher();
        drop(state);
        Some(WaitGuard { records: self, attempt, wait })
    }

    /// Sets the state of the subgraph that runs as this node. `None` while something runs inside
    /// it.
    pub(crate) fn wait_inside(&self, attempt: u32, inside: Option<ParkedInside>) {
        if let Some(mut state) = self.lock_for(attempt) {
            state.inside = inside;
            state.notify_watcher();
        }
    }

    /// Sets the watcher that is notified of the next change, replacing the previous one.
    pub(crate) fn set_watcher(&self, watcher: Watcher) {
        self.lock().watcher = Some(watcher);
    }

    /// Returns true if the node only waits.
    pub(crate) fn is_parked(&self) -> bool {
        let state = self.lock();
        state.effects_running == 0 && state.polls.is_idle() && (state.inside.is_some() || !state.open.is_empty())
    }

    /// Returns which effects of this visit were recorded or may have happened.
    pub(crate) fn effects(&self) -> EffectSummary {
        let state = self.lock();
        let key_state = state.keys.iter().filter(|((namespace, _), _)| *namespace == Namespace::Effect);
        key_state.fold(EffectSummary::default(), |effects, (_, key_state)| {
            let is_recorded = key_state.is_started || key_state.value.is_some();
            EffectSummary {
                own: effects.own || key_state.may_have_happened || (is_recorded && !key_state.is_copied),
                copied: effects.copied || (is_recorded && key_state.is_copied),
            }
        })
    }

    /// Returns the effects that started in this run and have an unknown outcome. `key_of` returns
    /// the idempotency key of an effect.
    pub(crate) fn unknown_effects(&self, key_of: impl Fn(&str) -> String) -> Vec<UnknownEffect> {
        let state = self.lock();
        let effects = state.keys.iter().filter(|((namespace, _), _)| *namespace == Namespace::Effect);
        let is_unknown = |key_state: &KeyState| {
            key_state.value.is_none() && (key_state.may_have_happened || (key_state.is_started && !key_state.is_copied))
        };
        let unknown = effects.filter(|(_, key_state)| is_unknown(key_state)).map(|((_, key), key_state)| UnknownEffect {
            key: key.clone(),
            idempotency_key: key_state.begun_with.clone().unwrap_or_else(|| key_of(key)),
        });
        let mut unknown: Vec<UnknownEffect> = unknown.collect();
        unknown.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        unknown
    }

    /// Returns the error of the recorded undo payload, if it is unusable.
    pub(crate) fn unusable_undo(&self) -> Option<EffectError> {
        self.lock().undo.as_ref()?.payload.as_ref().err().cloned()
    }

    /// Abandons all attempts of this visit. With a fault, work inside the node is undone.
    pub(crate) fn abandon(&self, fault: Option<&Arc<StoredFault>>) {
        let mut state = self.lock();
        let attempt = std::mem::replace(&mut state.attempt, u32::MAX);
        state.abandoned.extend(fault.map(|fault| (attempt, Arc::clone(fault))));
    }

    /// Abandons an attempt that failed while work may still run inside it. That work is undone.
    pub(crate) fn abandon_attempt(&self, attempt: u32, fault: StoredFault) {
        self.lock().abandoned.push((attempt, Arc::new(fault)));
    }

    /// Returns the fault for which an attempt was abandoned.
    pub(crate) fn why_abandoned(&self, attempt: u32) -> Option<Arc<StoredFault>> {
        self.lock().abandoned.iter().find(|(abandoned, _)| *abandoned == attempt).map(|(_, fault)| Arc::clone(fault))
    }
}

/// A summary of the effects of a visit.
#[derive(Clone, Copy, Default)]
pub(crate) struct EffectSummary {
    /// True if this run did some.
    pub(crate) own: bool,
    /// True if a fork copied some from the original run.
    pub(crate) copied: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c4_abandoned_attempt_cannot_change_the_next() {
        let records = VisitRecords::default();
        let wait = || OpenWait { key: "k".into(), due: None, question: None, message: None };
        records.begin_attempt(1);
        let (effect, waiting) = (records.run_effect(1), records.wait(1, wait()));
        assert!(effect.is_some() && waiting.is_some() && !records.is_parked());
        // It is abandoned in the middle of a poll on another thread, and the next attempt begins.
        records.begin_attempt(2);
        let (second, second_waiting) = (records.run_effect(2), records.wait(2, wait()));
        drop((effect, waiting));
        assert!(!records.is_parked(), "the effect of the second attempt runs");
        drop(second);
        assert!(records.is_parked(), "the second attempt waits");
        assert!(records.run_effect(1).is_none() && records.wait(1, wait()).is_none());
        records.wait_inside(1, None);
        assert!(records.is_parked());
        drop(second_waiting);
        assert!(!records.is_parked());
    }
}
