//! `VisitRecords`: what was recorded during one visit of a node: effects, waits, failed attempts.
//!
//! All attempts of a visit share them, in this process and in the next. That is why a recorded
//! effect does not run again.

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

/// The visit records of one visit.
#[derive(Default)]
pub(crate) struct VisitRecords(Mutex<VisitState>);

/// A wait that a node stands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenWait {
    pub(crate) key: String,
    pub(crate) due: Option<Timestamp>,
    /// What the node asks, as JSON.
    pub(crate) question: Option<Arc<str>>,
    /// The message that answers it.
    pub(crate) message: Option<String>,
}

/// A graph that runs as a node, and does nothing but wait.
pub(crate) struct ParkedInside {
    /// Until when, at most.
    pub(crate) due: Option<Timestamp>,
    /// For what.
    pub(crate) waits: Arc<WaitsInside>,
    /// Whether a pause holds a lane of it.
    pub(crate) is_held: bool,
}

/// While it lives, its node has an effect under way.
pub(crate) struct EffectGuard<'a> {
    records: &'a VisitRecords,
    attempt: u32,
}

impl Drop for EffectGuard<'_> {
    fn drop(&mut self) {
        if let Some(mut state) = self.records.lock_for(self.attempt) {
            state.effects_running -= 1;
            state.tell_watcher();
        }
    }
}

/// While it lives, its node waits.
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
        state.tell_watcher();
    }
}

impl VisitRecords {
    /// The visit records of a visit that begins with this attempt.
    pub(crate) fn of_attempt(attempt: u32) -> Self {
        Self(Mutex::new(VisitState { attempt, ..VisitState::default() }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, VisitState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the records of an earlier process say.
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
                    state.is_undo_kept = true;
                    let Header { node, attempt, .. } = &record.header;
                    let known = body.fault.take();
                    let by_text = || StoredFault::of_node(node, *attempt, body.error.clone().unwrap_or_default());
                    state.failed_for_good = Some(known.unwrap_or_else(by_text));
                }
            }
            state.note(record.header.kind, body, 0);
        }
        Ok(Self(Mutex::new(state)))
    }

    /// The visit records, if this attempt was not cut off.
    pub(crate) fn lock_for(&self, attempt: u32) -> Option<MutexGuard<'_, VisitState>> {
        Some(self.lock()).filter(|state| state.is_at(attempt))
    }

    /// Another attempt begins: no key is used yet.
    pub(crate) fn begin_attempt(&self, attempt: u32) {
        let mut state = self.lock();
        state.attempt = attempt;
        state.kept.values_mut().for_each(|kept| (kept.is_used, kept.is_delivered) = (false, false));
        state.open.clear();
        state.signals.clear();
        (state.effects_running, state.inside) = (0, None);
        // Dropped after the lock, as it holds a waker.
        let _polls = std::mem::take(&mut state.polls);
        state.tell_watcher();
        drop(state);
    }

    /// An attempt has an effect under way from now on. `None` if it was cut off.
    pub(crate) fn run_effect(&self, attempt: u32) -> Option<EffectGuard<'_>> {
        let mut state = self.lock_for(attempt)?;
        state.effects_running += 1;
        state.tell_watcher();
        drop(state);
        Some(EffectGuard { records: self, attempt })
    }

    /// An attempt waits from now on. `None` if it was cut off.
    pub(crate) fn wait(&self, attempt: u32, wait: OpenWait) -> Option<WaitGuard<'_>> {
        let mut state = self.lock_for(attempt)?;
        state.open.push(wait.clone());
        state.tell_watcher();
        drop(state);
        Some(WaitGuard { records: self, attempt, wait })
    }

    /// What an attempt at a node that is a graph waits for; `None` as long as something goes on inside it.
    pub(crate) fn wait_inside(&self, attempt: u32, inside: Option<ParkedInside>) {
        if let Some(mut state) = self.lock_for(attempt) {
            state.inside = inside;
            state.tell_watcher();
        }
    }

    /// Tells this watcher of the next change, in place of the one before.
    pub(crate) fn watch(&self, watcher: Watcher) {
        self.lock().watcher = Some(watcher);
    }

    /// Whether the node does nothing but wait.
    pub(crate) fn is_parked(&self) -> bool {
        let state = self.lock();
        state.effects_running == 0 && state.polls.is_idle() && (state.inside.is_some() || !state.open.is_empty())
    }

    /// The effects of this visit that were recorded, or may have happened.
    pub(crate) fn effects(&self) -> EffectSummary {
        let state = self.lock();
        let kept = state.kept.iter().filter(|((namespace, _), _)| *namespace == Namespace::Effect);
        kept.fold(EffectSummary::default(), |effects, (_, kept)| {
            let is_recorded = kept.is_started || kept.value.is_some();
            EffectSummary {
                own: effects.own || kept.is_cut_off || (is_recorded && !kept.is_copied),
                copied: effects.copied || (is_recorded && kept.is_copied),
            }
        })
    }

    /// The effects of this visit that began here and whose outcome is not known. `key_of` gives the idempotency key of an effect.
    pub(crate) fn unknown_effects(&self, key_of: impl Fn(&str) -> String) -> Vec<UnknownEffect> {
        let state = self.lock();
        let effects = state.kept.iter().filter(|((namespace, _), _)| *namespace == Namespace::Effect);
        let is_unknown = |kept: &KeyState| kept.value.is_none() && (kept.is_cut_off || (kept.is_started && !kept.is_copied));
        let unknown = effects.filter(|(_, kept)| is_unknown(kept)).map(|((_, key), kept)| UnknownEffect {
            key: key.clone(),
            idempotency_key: kept.begun_with.clone().unwrap_or_else(|| key_of(key)),
        });
        let mut unknown: Vec<UnknownEffect> = unknown.collect();
        unknown.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        unknown
    }

    /// Why the undo cannot be given what was recorded for it.
    pub(crate) fn unusable_undo(&self) -> Option<EffectError> {
        self.lock().undo.as_ref()?.payload.as_ref().err().cloned()
    }

    /// Nothing of this visit has a say any more. If that is because of a failure, what runs inside of it is to be undone.
    pub(crate) fn cut_off(&self, fault: Option<&Arc<StoredFault>>) {
        let mut state = self.lock();
        let attempt = std::mem::replace(&mut state.attempt, u32::MAX);
        state.cut_off.extend(fault.map(|fault| (attempt, Arc::clone(fault))));
    }

    /// An attempt failed although something may run inside of it, which is to be undone.
    pub(crate) fn cut_off_attempt(&self, attempt: u32, fault: StoredFault) {
        self.lock().cut_off.push((attempt, Arc::new(fault)));
    }

    /// Because of which failure an attempt was cut off, if it was.
    pub(crate) fn why_cut_off(&self, attempt: u32) -> Option<Arc<StoredFault>> {
        self.lock().cut_off.iter().find(|(cut_off, _)| *cut_off == attempt).map(|(_, fault)| Arc::clone(fault))
    }
}

/// Which effects a visit had.
#[derive(Clone, Copy, Default)]
pub(crate) struct EffectSummary {
    /// Some that this run did.
    pub(crate) own: bool,
    /// Some that the run did that this one was forked from.
    pub(crate) copied: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c4_an_attempt_that_was_cut_off_has_no_say_in_the_next() {
        let records = VisitRecords::default();
        let wait = || OpenWait { key: "k".into(), due: None, question: None, message: None };
        records.begin_attempt(1);
        let (effect, waiting) = (records.run_effect(1), records.wait(1, wait()));
        assert!(effect.is_some() && waiting.is_some() && !records.is_parked());
        // It is cut off in the middle of a poll on another thread, and the next one begins.
        records.begin_attempt(2);
        let (second, second_waiting) = (records.run_effect(2), records.wait(2, wait()));
        drop((effect, waiting));
        assert!(!records.is_parked(), "the effect of the second is under way");
        drop(second);
        assert!(records.is_parked(), "the second waits");
        assert!(records.run_effect(1).is_none() && records.wait(1, wait()).is_none());
        records.wait_inside(1, None);
        assert!(records.is_parked());
        drop(second_waiting);
        assert!(!records.is_parked());
    }
}
