//! The payload for the undo of a visit. Each step that completes a visit stores it.

use crate::compile::plan::PlanNode;
use crate::context::run_context::UndoableVisit;
use crate::engine::lane::Lane;
use crate::engine::step::{Stepper, Visited};
use crate::error::{RunFault, UnknownEffect};
use crate::log::undo_payload::UndoPayload;
use crate::log::visit::{EffectSummary, VisitRecords};
use crate::token::TokenId;
use pleach_core::Reason;
use std::sync::Arc;

impl<S: Send + 'static> Stepper<S> {
    /// Returns the undo payload of a visit, or `None` if the visit needs no undo.
    ///
    /// | visit | undone |
    /// |---|---|
    /// | completed | yes; without a payload only if it had an effect or the undo needs none |
    /// | failed after a known or possible effect | yes |
    /// | failed without an effect | no |
    /// | all effects copied from the run that this one was forked from | no: that run owns them |
    pub(super) fn undo_payload(
        &self,
        plan_node: &PlanNode<S>,
        lane: &Lane<S>,
        visited: Visited,
    ) -> Result<Option<UndoPayload>, RunFault> {
        let records = lane.visit.as_ref().map(|visit| &visit.records).filter(|_| visited != Visited::EndedBeforeResume);
        let Some((undo, records)) = plan_node.options.as_ref().and_then(|options| options.undo.as_ref()).zip(records) else {
            return Ok(None);
        };
        let EffectSummary { own, copied } = records.effects();
        if !own && (copied || visited == Visited::Failed) {
            return Ok(None);
        }
        let payload = self.recorded(lane)?.or_else(|| (undo.takes_nothing || own).then(UndoPayload::nothing));
        Ok(payload.map(|payload| UndoPayload { unknown: self.unknown_effects(records, lane.token), ..payload }))
    }

    /// Returns the effects of a visit whose outcome is unknown.
    pub(super) fn unknown_effects(&self, records: &VisitRecords, token: TokenId) -> Vec<UnknownEffect> {
        let run = self.graph_cx.run();
        records.unknown_effects(|key| run.keys(false).of_effect(run.key_token(token, false), key))
    }

    /// Returns the last undo payload that the attempts of a visit recorded.
    pub(super) fn recorded(&self, lane: &Lane<S>) -> Result<Option<UndoPayload>, RunFault> {
        let Some(visit) = &lane.visit else { return Ok(None) };
        match visit.records.lock().undo.as_ref().map(|recorded| &recorded.payload) {
            None => Ok(None),
            Some(Ok(payload)) => Ok(Some(payload.clone())),
            Some(Err(reason)) => {
                let node = self.graph_cx.name(lane.at).to_string();
                Err(RunFault::of_attempt(node, lane.attempt, &Arc::new(Reason::Error(reason.clone().into()))))
            }
        }
    }

    /// Adds the visit to the ones that the run undoes when it fails.
    pub(super) fn remember_undo(&self, plan_node: &PlanNode<S>, lane: &Lane<S>, payload: Option<UndoPayload>) {
        if let (Some(payload), Some(undo)) = (payload, plan_node.options.as_ref().and_then(|options| options.undo.as_ref())) {
            let name = self.graph_cx.name(lane.at);
            let undo = Arc::clone(undo);
            let Lane { token, iteration, .. } = *lane;
            self.graph_cx.run().remember_undo(UndoableVisit { name, undo, payload, token, iteration });
        }
    }
}
