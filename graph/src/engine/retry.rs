//! The reaction to a failed attempt, as the policy of its node says.

use crate::compile::plan::{NodeOptions, PlanNode};
use crate::context::events::{InnerEvent, RunEvent};
use crate::define::policy::{FailedAttempt, PolicyDecision};
use crate::engine::lane::{Lane, Phase};
use crate::engine::step::{NextStep, Stepper, Turn, Visited};
use crate::engine::subgraph::NodeFailure;
use crate::engine::{spawned, subgraph};
use crate::error::{During, RunError, RunFault};
use pleach_core::{Instant, Reason, catch_panic};
use std::sync::Arc;
use std::time::Duration;

impl<S: Send + 'static> Stepper<S> {
    /// Handles a failed attempt: another attempt, the next node, the fallback, or the end.
    pub(super) fn failed(
        &mut self,
        plan_node: &PlanNode<S>,
        lane: &mut Lane<S>,
        reason: Reason,
    ) -> Result<Option<Turn<S>>, RunError<S>> {
        let (halted, reason, escalates) = match subgraph::classify(reason) {
            NodeFailure::Halted(fault) => (Some(fault), Reason::Error("the run ended inside this subgraph".into()), false),
            NodeFailure::Failed { reason, escalates } => (self.cancel_of_run(lane, &reason), reason, escalates),
        };
        let reason = Arc::new(reason);
        self.notify_failed(lane, &reason);
        if let Some(fault) = halted {
            return Err(RunError::new(fault, self.state_before(lane)));
        }
        let name = self.graph_cx.name(lane.at);
        let decision = match &plan_node.options {
            None => PolicyDecision::Fail { escalate: false },
            Some(options) => {
                let failed = FailedAttempt { node: &name, attempt: lane.attempt, reason: &reason };
                let random = || self.graph_cx.run().runtime().map_or(0, |runtime| runtime.random());
                match catch_panic(|| options.policy.decide(&failed, random)) {
                    Ok(decision) => decision,
                    Err(reason) => {
                        let fault = RunFault::panic(name.to_string(), During::Policy, &reason);
                        return Err(RunError::new(fault, self.state_before(lane)));
                    }
                }
            }
        };
        match (decision, plan_node.options.as_deref()) {
            (PolicyDecision::TryAgain(wait), Some(options)) => self.try_again(options, lane, wait, &reason).map(|()| None),
            (PolicyDecision::Skip, _) => {
                lane.state = lane.take_cloned_state();
                self.leave(plan_node, lane, Visited::Failed)
            }
            (PolicyDecision::FallBack, Some(NodeOptions { fallback: Some(to), .. })) => {
                lane.state = lane.take_cloned_state();
                self.commit(plan_node, lane, Visited::Failed, Ok(NextStep::To(*to)))
            }
            (decision, _) => {
                let escalate = escalates || decision == PolicyDecision::Fail { escalate: true };
                // A subgraph fails with the fault inside it.
                let is_subgraph = plan_node.options.as_ref().is_some_and(|options| options.subgraph.is_some());
                let inside = is_subgraph.then(|| RunFault::of_subgraph(&reason)).flatten();
                let fault = inside.unwrap_or_else(|| RunFault::of_attempt(name.to_string(), lane.attempt, &reason));
                // An unusable undo payload becomes the reason of the failure.
                let fault = self.undo_payload(plan_node, lane, Visited::Failed).map_or_else(|unusable| unusable, |_| fault);
                Err(RunError::new(fault, self.state_before(lane)).escalated(escalate))
            }
        }
    }

    /// Reports that an attempt of a node failed.
    pub(super) fn notify_failed(&self, lane: &Lane<S>, reason: &Arc<Reason>) {
        let outcome = || Err(Arc::clone(reason));
        self.notify(
            lane,
            |visit| RunEvent::NodeFinished { visit, outcome: outcome() },
            || InnerEvent::Finished(outcome().err()),
        );
    }

    /// Returns the cancel of the run, if a spawned node saw it before the run did.
    fn cancel_of_run(&self, lane: &Lane<S>, reason: &Reason) -> Option<RunFault> {
        let cause = spawned::is_task_cancelled(reason).then(|| self.graph_cx.run().cause())??;
        Some(RunFault::Cancelled { node: self.graph_cx.name(lane.at).to_string(), cause, was_executing: true, grace: None })
    }

    fn try_again(
        &mut self,
        options: &NodeOptions<S>,
        lane: &mut Lane<S>,
        wait: Duration,
        reason: &Reason,
    ) -> Result<(), RunError<S>> {
        if options.undo.is_some()
            && let Err(fault) = self.recorded(lane)
        {
            return Err(RunError::new(fault, self.state_before(lane)));
        }
        self.notify_hooks(lane, |visit| RunEvent::NodeRetried { visit, wait });
        if let (Some(clone_state), Some(cloned)) = (options.policy.clone_state, &lane.cloned_state) {
            match catch_panic(|| clone_state(cloned)) {
                Ok(state) => lane.state = Some(state),
                Err(reason) => {
                    let fault = self.panicked(lane, During::CloneState, &reason);
                    return Err(RunError::new(fault, lane.take_cloned_state()));
                }
            }
        }
        let due = match wait.is_zero() {
            true => None,
            false => {
                let runtime = self.graph_cx.run().runtime().map_err(|fault| RunError::new(fault, lane.take_cloned_state()))?;
                Some(runtime.now() + wait)
            }
        };
        self.commit_attempt(lane, reason, wait, due)
    }

    /// Returns the phase before the next attempt.
    pub(super) fn wait_until(&self, due: Option<Instant>) -> Phase<S> {
        match due.map(|due| (due, self.graph_cx.run().runtime())) {
            Some((due, Ok(runtime))) => Phase::Waiting(runtime.sleep_until(due)),
            _ => Phase::Attempt,
        }
    }
}
