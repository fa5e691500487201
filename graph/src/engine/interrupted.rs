//! Visits that end without completion. If they had effects, their undo is saved.
//!
//! Such a visit ends in one of three ways:
//! - its node failed permanently;
//! - another failure interrupted it: of another branch, or of the attempt at the subgraph around
//!   it;
//! - an earlier process left it, and it was interrupted before this process entered its node again.
//!
//! Invariants:
//! 1. A visit is saved at most once (`is_on_undo_chain` of its visit records), also across
//!    processes.
//! 2. A saved visit does nothing more: its visit records accept no further effect.
//! 3. A run that is cancelled or stays open saves nothing, because it can be resumed as it is.

use crate::compile::plan::{Plan, PlanNode};
use crate::engine::Engine;
use crate::engine::lane::{AttemptWork, Lane, Phase, RunningAttempt};
use crate::engine::records::StepWriter;
use crate::engine::step::{Stepper, Visited};
use crate::error::StoredFault;
use crate::log::NewRecord;
use crate::log::undo_payload::UndoPayload;
use crate::log::visit::{VisitRecordBody, VisitRecords};
use crate::store::{Kind, LiveToken, Place};
use crate::token::TokenId;
use pleach_core::{Cause, Reason, catch_panic};
use std::sync::Arc;

impl<S: Send + 'static> Stepper<S> {
    /// Saves the undo of a lane's visit, if the visit had effects.
    pub(super) fn save_interrupted(&self, plan: &Plan<S>, lane: &Lane<S>, fault: &Arc<StoredFault>) {
        if !matches!(lane.phase, Phase::Running(_) | Phase::Forked(_)) {
            self.save_interrupted_inside(plan, lane, fault);
        }
        let Some(visit) = &lane.visit else { return };
        visit.records.abandon(Some(fault));
        if std::mem::replace(&mut visit.records.lock().is_on_undo_chain, true) {
            return;
        }
        let plan_node = &plan.nodes[lane.at as usize];
        // An unusable payload is replaced by an empty one: the failed compensation then names the
        // node.
        let payload = self.undo_payload(plan_node, lane, Visited::Failed).unwrap_or_else(|_| Some(UndoPayload::nothing()));
        match payload {
            Some(payload) if self.step_writer.is_some() => {
                self.submit_interrupted(self.new_record(Kind::Attempt, lane), payload, fault);
            }
            payload => self.remember_undo(plan_node, lane, payload),
        }
    }

    /// Does the same for visits inside a subgraph that an earlier process left and this one has not
    /// entered.
    fn save_interrupted_inside(&self, plan: &Plan<S>, lane: &Lane<S>, fault: &Arc<StoredFault>) {
        let Some(StepWriter { log, .. }) = self.step_writer.as_deref() else { return };
        let prefix = self.graph_cx.prefix();
        for (LiveToken { id, path, at, .. }, records) in log.take_restored_below(&lane.path.forks()) {
            let Place::Node(node) = at else { continue };
            // The plan knows nodes by their ids inside this graph.
            let local = node.strip_prefix(&*prefix).unwrap_or(&node);
            let Some(records) = plan.nodes_by_id.undo(local).and_then(|_| VisitRecords::restore(records).ok()) else {
                continue;
            };
            if !records.effects().own || records.lock().is_on_undo_chain {
                continue;
            }
            let inner = records.lock();
            let recorded = inner.undo.as_ref().and_then(|recorded| recorded.payload.as_ref().ok().cloned());
            let attempt = inner.failed.map_or(1, |(attempt, _)| attempt + 1);
            let iteration = inner.iteration_inside;
            drop(inner);
            let unknown = self.unknown_effects(&records, TokenId { sequence: id.sequence, branch: id.branch });
            let record = NewRecord { parent: id.sequence, attempt, iteration, ..NewRecord::new(Kind::Attempt, path, node) };
            self.submit_interrupted(record, UndoPayload { unknown, ..recorded.unwrap_or_else(UndoPayload::nothing) }, fault);
        }
    }

    /// Records the undo of an interrupted visit, with the failure that ended it.
    fn submit_interrupted(&self, record: NewRecord, payload: UndoPayload, fault: &Arc<StoredFault>) {
        let Some(StepWriter { log, .. }) = self.step_writer.as_deref() else { return };
        let submit = |payload: UndoPayload| {
            let (error, fault) = (Some(fault.text().to_string()), Some((**fault).clone()));
            let body = VisitRecordBody { error, fault, ..VisitRecordBody::default() }.bytes();
            let (kind, path, node) = (record.kind, record.path.clone(), record.node.clone());
            let (parent, attempt, iteration) = (record.parent, record.attempt, record.iteration);
            let undo = Some(payload);
            log.submit(NewRecord { parent, attempt, iteration, body, undo, ..NewRecord::new(kind, path, node) })
        };
        if submit(payload).is_err() {
            // The payload is too large. The failed compensation names the node.
            drop(submit(UndoPayload::nothing()));
        }
    }

    /// Handles a failed attempt that still runs: undos wait for its task, and nodes inside a
    /// subgraph that timed out are undone.
    pub(super) fn note_failure(&self, plan_node: &PlanNode<S>, lane: &Lane<S>, reason: &Reason) {
        self.await_task_end(lane);
        let is_subgraph = plan_node.options.as_ref().is_some_and(|options| options.subgraph.is_some());
        if let Some(visit) = lane.visit.as_ref().filter(|_| is_subgraph && lane.is_timed_out()) {
            let fault = StoredFault::of_node(&self.graph_cx.name(lane.at), lane.attempt, reason.to_string());
            visit.records.abandon_attempt(lane.attempt, fault);
        }
    }

    /// Makes undos wait for the task of this lane: no undo runs while the task may still work.
    pub(super) fn await_task_end(&self, lane: &Lane<S>) {
        if let Phase::Running(RunningAttempt { work: AttemptWork::Spawned(spawned), .. }) = &lane.phase {
            spawned.await_task_end(self.graph_cx.run());
        }
    }
}

impl<S: Send + 'static> Engine<S> {
    /// Interrupts a subgraph whose node was interrupted by a failure.
    pub(super) fn interrupt_inside(&mut self, fault: &Arc<StoredFault>) {
        let plan = Arc::clone(&self.plan);
        match self.root.phase {
            Phase::Forked(place) => {
                let cause = Cause::Because("the outer node was interrupted".into());
                let before = self.close(place, &cause, Some(fault));
                drop(catch_panic(|| drop(before)));
            }
            _ => {
                self.stepper.save_interrupted(&plan, &self.root, fault);
                self.stepper.await_task_end(&self.root);
            }
        }
        drop(self.root.drop_attempt());
    }
}
