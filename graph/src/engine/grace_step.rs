//! The steps of a node in its cancel grace: poll it, commit its result, report how it used the
//! grace.

use crate::compile::plan::{Plan, PlanNode};
use crate::context::events::{InnerEvent, RunEvent};
use crate::engine::grace::{GraceUse, LaneInGrace};
use crate::engine::lane::{AttemptResult, Lane, Phase};
use crate::engine::step::{Stepper, Turn, Visited};
use crate::engine::subgraph::NodeFailure;
use crate::engine::{spawned, subgraph};
use crate::error::{GraceEnd, RunError, RunFault};
use pleach_core::{Cause, Reason};
use std::sync::Arc;
use std::task::{Context, Poll};

impl<S: Send + 'static> Stepper<S> {
    /// Polls a node in its grace. Ready with its grace use, and for a completed node of a run in
    /// memory with an error that contains its state.
    pub(super) fn poll_in_grace(
        &mut self,
        plan: &Plan<S>,
        one: &mut LaneInGrace<S>,
        cx: &mut Context<'_>,
    ) -> Poll<(GraceUse, Option<RunError<S>>)> {
        let LaneInGrace { lane, timer, cause, .. } = one;
        let ended = match &mut lane.phase {
            Phase::Running(running) => running.poll(cx),
            _ => return self.poll_grace_commit(lane, cx),
        };
        let ended = match (ended, self.graph_cx.run().why_broken(lane.token)) {
            (Poll::Ready(ended), _) => ended,
            (Poll::Pending, Some(reason)) => Err(Reason::Error(reason)),
            (Poll::Pending, None) if timer.as_mut().poll(cx).is_ready() => {
                return Poll::Ready((self.grace_use(lane, GraceEnd::Dropped), None));
            }
            (Poll::Pending, None) => return Poll::Pending,
        };
        match self.finish_in_grace(&plan.nodes[lane.at as usize], lane, ended, cause) {
            Some(ended) => Poll::Ready(ended),
            None => self.poll_grace_commit(lane, cx),
        }
    }

    /// Commits a completed node. Returns `None` while that is not durable.
    fn finish_in_grace(
        &mut self,
        plan_node: &PlanNode<S>,
        lane: &mut Lane<S>,
        ended: AttemptResult<S>,
        cause: &Cause,
    ) -> Option<(GraceUse, Option<RunError<S>>)> {
        if let Err(reason) = &ended {
            self.note_failure(plan_node, lane, reason);
        }
        let ended = lane.drop_attempt().and(ended);
        lane.count_inside();
        self.graph_cx.run().forget_broken(lane.token);
        let state = match ended {
            Ok(state) => state,
            Err(reason) => return Some(self.failed_in_grace(lane, reason)),
        };
        let is_stored = self.step_writer.is_some();
        if !is_stored {
            self.notify_done(lane, &state);
        }
        lane.state = Some(state);
        let GraceUse { node, was_executing, end } = self.grace_use(lane, GraceEnd::Finished);
        let fault = RunFault::Cancelled { node, cause: cause.clone(), was_executing, grace: end };
        // As after a failed router: a resume continues after this node.
        let committed = self.commit(plan_node, lane, Visited::Done, Err(fault));
        // No later step could report that the result was not stored, so this event does.
        match (&committed, &lane.state) {
            (Ok(_), Some(state)) => self.notify_done(lane, state),
            (Err(error), _) if is_stored => self.notify_failed(lane, &Arc::new(Reason::Error(error.to_string().into()))),
            _ => {}
        }
        let error = committed.err()?;
        let is_done = matches!(error.fault(), RunFault::Cancelled { .. });
        let end = if is_done { GraceEnd::Finished } else { GraceEnd::Failed };
        Some((self.grace_use(lane, end), Some(error)))
    }

    /// Returns the grace use of a failed node, and the error if the result of a node inside could
    /// not be stored.
    fn failed_in_grace(&self, lane: &Lane<S>, reason: Reason) -> (GraceUse, Option<RunError<S>>) {
        let mut lost = None;
        let (used, reason) = match subgraph::classify(reason) {
            // A subgraph whose nodes had their grace.
            NodeFailure::Halted(RunFault::Cancelled { node, was_executing, grace, cause }) => {
                (GraceUse { node, was_executing, end: grace }, Reason::Error(Box::new(cause)))
            }
            NodeFailure::Halted(fault) => {
                let reason = Reason::Error(fault.to_string().into());
                lost = fault.leaves_run_open().then(|| RunError::new(fault, None));
                (self.grace_use(lane, GraceEnd::Failed), reason)
            }
            NodeFailure::Failed { reason, .. } => {
                let end = if spawned::is_task_cancelled(&reason) { GraceEnd::Dropped } else { GraceEnd::Failed };
                (self.grace_use(lane, end), reason)
            }
        };
        self.notify_failed(lane, &Arc::new(reason));
        (used, lost)
    }

    fn notify_done(&self, lane: &Lane<S>, state: &S) {
        self.notify(lane, |visit| RunEvent::NodeFinished { visit, outcome: Ok(state) }, || InnerEvent::Finished(None));
    }

    /// Ready when the result of a node is durable.
    fn poll_grace_commit(&self, lane: &mut Lane<S>, cx: &Context<'_>) -> Poll<(GraceUse, Option<RunError<S>>)> {
        let turn = std::task::ready!(self.poll_commit(lane, cx));
        let error = if let Some(Turn::Failed(error)) = turn { Some(error) } else { None };
        Poll::Ready((self.grace_use(lane, GraceEnd::Finished), error))
    }

    pub(super) fn grace_use(&self, lane: &Lane<S>, end: GraceEnd) -> GraceUse {
        GraceUse { node: self.graph_cx.name(lane.at).to_string(), was_executing: true, end: Some(end) }
    }
}
