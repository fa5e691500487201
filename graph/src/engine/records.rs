//! [`StepWriter`]: records each step of a stored run. The lane continues when the record is
//! durable.
//!
//! A lane that arrives at its join, or at the end of its subgraph, does not wait: only a pure merge
//! follows, and its record is part of the same commit. The end of the run is awaited.

use crate::compile::plan::{BranchHeads, PlanFanOut};
use crate::define::shape::{END, Target};
use crate::engine::lane::{AfterCommit, Committing, Lane, LaneVisit, Phase};
use crate::engine::step::{NextStep, Stepper, Turn};
use crate::error::{During, RunError, RunFault, StoredFault, cut_fault, fault_of};
use crate::log::codec::{Codec, encode};
use crate::log::undo_payload::UndoPayload;
use crate::log::visit::VisitRecordBody;
use crate::log::{NewRecord, RunLog};
use crate::store::{Kind, Place, RunStatus};
use pleach_core::{Instant, Reason, catch_panic};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The log of a run, and the codec for the states of one engine.
pub(crate) struct StepWriter<S> {
    pub(crate) log: Arc<RunLog>,
    pub(crate) codec: Codec<S>,
}

impl<S: Send + 'static> Stepper<S> {
    fn step_writer(&self) -> &StepWriter<S> {
        self.step_writer.as_deref().expect("only a stored run records its steps")
    }

    /// Creates a record about the current node of a lane.
    pub(super) fn new_record(&self, kind: Kind, lane: &Lane<S>) -> NewRecord {
        let node = self.graph_cx.name(lane.at).to_string();
        let (parent, attempt, iteration) = (lane.token.sequence, lane.attempt, lane.iteration);
        NewRecord { parent, attempt, iteration, ..NewRecord::new(kind, lane.path.forks(), node) }
    }

    /// Returns the stored form of a lane's target.
    fn place_of(&self, lane: &Lane<S>, to: Target) -> Place {
        let name = |to| match to {
            Target::Node(node) => self.graph_cx.name(node).to_string(),
            Target::End => END.to_string(),
        };
        match to {
            to if to == lane.join && lane.fan_out.is_some() => Place::Join(name(to)),
            Target::End => Place::End,
            to => Place::Node(name(to)),
        }
    }

    /// Returns the first states of the branches of a `map`.
    pub(super) fn split(&self, fork: &PlanFanOut<S>, lane: &Lane<S>, state: &S) -> Result<Option<Vec<S>>, RunFault> {
        match &fork.heads {
            BranchHeads::Each(..) => Ok(None),
            BranchHeads::Map(_, items) => {
                catch_panic(|| items(state)).map(Some).map_err(|reason| self.panicked(lane, During::Split, &reason))
            }
        }
    }

    /// Records a completed node and the next position of its lane.
    pub(super) fn commit_step(
        &self,
        lane: &mut Lane<S>,
        undo: Option<UndoPayload>,
        to: Result<NextStep<S>, RunFault>,
    ) -> Result<Option<Turn<S>>, RunError<S>> {
        let mut record = self.new_record(Kind::Step, lane);
        // A router that runs again for a completed node is not a new visit.
        record.is_visit = !matches!(lane.phase, Phase::NodeDone);
        record.undo = undo;
        let is_run = lane.fan_out.is_none() && !self.graph_cx.is_subgraph();
        let (then, arrives) = match to {
            Ok(NextStep::To(to)) => {
                let place = self.place_of(lane, to);
                match &place {
                    Place::Join(_) => record.kind = Kind::Arrive,
                    Place::End if is_run => record.status = Some(RunStatus::Finished),
                    _ => {}
                }
                let arrives = to == lane.join && !is_run;
                record.next = Some(place);
                (AfterCommit::Place(to), arrives)
            }
            Ok(NextStep::Fork(items)) => {
                record.next = Some(Place::Fork(record.node.clone()));
                (AfterCommit::Fork(items), false)
            }
            Err(fault) => {
                let forks = matches!(&fault, RunFault::Panic(panic) if panic.during == During::Split);
                let node = record.node.clone();
                record.next = Some(if forks { Place::Fork(node) } else { Place::Router(node) });
                (AfterCommit::Fail(RunError::new(fault, None)), false)
            }
        };
        let items = match &then {
            AfterCommit::Fork(items) => items.as_deref(),
            _ => None,
        };
        let sequence = self.submit_state(lane, record, items)?;
        if arrives {
            lane.place(lane.join, sequence);
            return Ok(Some(Turn::Arrived));
        }
        lane.phase = Phase::Committing(Box::new(Committing { sequence, then }));
        Ok(None)
    }

    /// Submits a record with the current state of a lane.
    fn submit_state(&self, lane: &mut Lane<S>, mut record: NewRecord, items: Option<&[S]>) -> Result<u64, RunError<S>> {
        let StepWriter { log, codec } = self.step_writer();
        let state = lane.state.as_ref().expect("a lane whose node is done has its state");
        let body = match encode(codec, state, items, self.graph_cx.run().id(), &record.node) {
            Ok(body) => body,
            Err(fault) => return Err(RunError::new(fault, lane.state.take())),
        };
        record.body.clone_from(&body);
        let node = record.node.clone();
        let sequence = log
            .submit(record)
            .map_err(|error| RunError::new(fault_of(self.graph_cx.run().id(), node, "commit", error), lane.state.take()))?;
        // After the submit: if it fails, the visit records are still needed for the undo.
        lane.visit = Some(Box::new(LaneVisit { before: Some(body), ..LaneVisit::default() }));
        Ok(sequence)
    }

    /// Records a merged state for the lane that forked. Returns whether that lane has arrived.
    pub(super) fn commit_join(&self, lane: &mut Lane<S>, to: Target) -> Result<bool, RunError<S>> {
        let mut record = self.new_record(Kind::Join, lane);
        let is_run = lane.fan_out.is_none() && !self.graph_cx.is_subgraph();
        let place = self.place_of(lane, to);
        if place == Place::End && is_run {
            record.status = Some(RunStatus::Finished);
        }
        record.next = Some(place);
        let sequence = self.submit_state(lane, record, None)?;
        if to == lane.join && !is_run {
            return Ok(lane.place(to, sequence));
        }
        lane.phase = Phase::Committing(Box::new(Committing { sequence, then: AfterCommit::Place(to) }));
        Ok(false)
    }

    /// Records a failed branch of a fan-out that continues without it.
    pub(super) fn submit_failed_branch(&self, lane: &Lane<S>, fault: &RunFault) -> Result<(), RunFault> {
        let mut record = self.new_record(Kind::Attempt, lane);
        record.next = Some(Place::Failed(record.node.clone()));
        // If the router or a fan-out failed, the visit of the node was already counted.
        record.is_visit = !matches!(lane.phase, Phase::NodeDone | Phase::Forked(_));
        record.body = StoredFault::of(fault).bytes();
        let node = record.node.clone();
        self.step_writer()
            .log
            .submit(record)
            .map(drop)
            .map_err(|error| fault_of(self.graph_cx.run().id(), node, "commit", error))
    }

    /// Records, in a stored run, a failed attempt and the time of the next one.
    pub(super) fn commit_attempt(
        &self,
        lane: &mut Lane<S>,
        reason: &Reason,
        wait: Duration,
        due: Option<Instant>,
    ) -> Result<(), RunError<S>> {
        let Some(StepWriter { log, .. }) = self.step_writer.as_deref() else {
            lane.attempt += 1;
            lane.phase = self.wait_until(due);
            return Ok(());
        };
        let mut record = self.new_record(Kind::Attempt, lane);
        let due_at = due.map(|_| log.now().after(wait));
        let records = Arc::clone(&lane.visit.get_or_insert_default().records);
        let (undo, not_done) = {
            let mut records = records.lock();
            (records.undo_to_write(), records.not_done_to_write())
        };
        let error = Some(cut_fault(reason.to_string()));
        record.body = VisitRecordBody { due: due_at, error, undo, not_done, ..VisitRecordBody::default() }.bytes();
        let node = record.node.clone();
        let submitted = log.submit(record);
        let sequence = submitted
            .map_err(|error| RunError::new(fault_of(self.graph_cx.run().id(), node, "commit", error), lane.state.take()))?;
        {
            let mut records = records.lock();
            (records.failed, records.failed_row) = (Some((lane.attempt, due_at)), sequence);
        }
        lane.phase = Phase::Committing(Box::new(Committing { sequence, then: AfterCommit::TryAgain }));
        Ok(())
    }

    /// Continues a lane after its record is durable.
    pub(super) fn poll_commit(&self, lane: &mut Lane<S>, cx: &Context<'_>) -> Poll<Option<Turn<S>>> {
        let Phase::Committing(committing) = &lane.phase else { return Poll::Ready(None) };
        std::task::ready!(self.step_writer().log.poll_durable(committing.sequence, cx));
        let Phase::Committing(committing) = std::mem::replace(&mut lane.phase, Phase::Start) else { return Poll::Ready(None) };
        let Committing { sequence, then } = *committing;
        Poll::Ready(match then {
            AfterCommit::Place(to) => lane.place(to, sequence).then_some(Turn::Arrived),
            AfterCommit::Fork(items) => Some(Turn::Forks(sequence, items)),
            AfterCommit::TryAgain => {
                lane.phase = self.before_attempt(lane);
                None
            }
            AfterCommit::Fail(mut error) => {
                lane.phase = Phase::NodeDone;
                error.set_state_if_none(|| lane.state.take());
                Some(Turn::Failed(error))
            }
        })
    }

    /// Returns the phase before the first attempt of this process. Attempts of earlier processes
    /// count, and so does the wait after the last of them.
    pub(super) fn before_attempt(&self, lane: &mut Lane<S>) -> Phase<S> {
        let failed = lane.visit.as_ref().and_then(|visit| visit.records.lock().failed);
        let (Some((attempt, due)), Some(StepWriter { log, .. })) = (failed, self.step_writer.as_deref()) else {
            return Phase::Attempt;
        };
        lane.attempt = attempt + 1;
        due.map_or(Phase::Attempt, |due| Phase::Waiting(log.sleep_until(due)))
    }

    /// Returns the state before the current node of a lane, if a clone or an encoded copy exists.
    pub(super) fn state_before(&self, lane: &mut Lane<S>) -> Option<S> {
        if let Some(cloned) = lane.take_cloned_state() {
            return Some(cloned);
        }
        let body = lane.visit.as_ref()?.before.as_ref()?;
        let codec = self.step_writer.as_ref()?.codec;
        catch_panic(|| codec.read(body)).ok()?.ok().map(|stored| stored.state)
    }

    /// Keeps the encoded state before the first node of a lane.
    pub(super) fn keep_stored(&self, lane: &mut Lane<S>, state: &S) {
        let Some(StepWriter { codec, .. }) = self.step_writer.as_deref() else { return };
        let visit = lane.visit.get_or_insert_default();
        if visit.before.is_none() {
            visit.before = catch_panic(|| codec.body(state, None)).ok().and_then(Result::ok);
        }
    }
}
