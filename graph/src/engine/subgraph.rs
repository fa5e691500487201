//! A graph as a node of another graph.
//!
//! The engine of the subgraph runs inside the poll of the outer engine and has its own state. It
//! shares the log, the limits and the cancel token of the run.

use crate::compile::compiled::CompiledGraph;
use crate::compile::plan::Plan;
use crate::context::NodeContext;
use crate::context::run_context::GraphContext;
use crate::define::builder::{DraftNode, Graph};
use crate::define::node::NodeFn;
use crate::define::subgraph::SubgraphInfo;
use crate::engine::lane::Lane;
use crate::engine::parked::WaitUntil;
use crate::engine::records::StepWriter;
use crate::engine::step::Stepper;
use crate::engine::{Engine, EngineSetup, STEPS_PER_POLL_MAX};
use crate::error::{Outcome, RunError, RunFault};
use crate::log::codec::Codec;
use crate::log::visit::waits_inside::WaitsInside;
use crate::log::visit::{ParkedInside, VisitRecords};
use crate::token::BranchPath;
use pleach_core::{BoxError, Reason};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

impl<S: Send + 'static> Graph<S> {
    /// Adds a node that runs another graph with its own state type.
    ///
    /// `project` creates the inner state, `merge` combines the result with the outer state. Visits
    /// inside count for the limits of the run. The subgraph is cancelled and stored with the run.
    ///
    /// The inner state must be serializable. To run a graph without that, call its `run` inside a
    /// plain node.
    pub fn add_subgraph<T: Serialize + DeserializeOwned + Send + 'static>(
        mut self,
        id: impl Into<String>,
        graph: CompiledGraph<T>,
        project: impl Fn(&S) -> T + Send + Sync + 'static,
        merge: impl Fn(S, T) -> S + Send + Sync + 'static,
    ) -> Self {
        let plan = &graph.plan;
        let (fingerprint, nodes) = (plan.fingerprint.clone(), Arc::clone(&plan.nodes_by_id));
        let inside = SubgraphInfo { fingerprint, needs: plan.needs, nodes };
        let call = call(graph, Codec::new(), project, merge);
        self.nodes.push(DraftNode { id: id.into(), call, subgraph: Some(inside) });
        self
    }
}

/// Returns the code of a node that runs a graph.
fn call<S: Send + 'static, T: Send + 'static>(
    graph: CompiledGraph<T>,
    codec: Codec<T>,
    project: impl Fn(&S) -> T + Send + Sync + 'static,
    merge: impl Fn(S, T) -> S + Send + Sync + 'static,
) -> NodeFn<S> {
    let parts = Arc::new((graph, project, merge));
    NodeFn::Context(Box::new(move |cx, state| {
        let parts = Arc::clone(&parts);
        // Outside of the future: a task may be dropped before its first poll.
        let mut inside = SubgraphEngine::new(&parts.0.plan, codec, &cx);
        Box::pin(async move {
            let (_, project, merge) = &*parts;
            inside.has_begun = true;
            let ended = match inside.engine.begin(|| project(&state)) {
                Ok(Some(ended)) => ended,
                Ok(None) => drive(&mut inside.engine, &cx).await,
                Err(fault) => Err(RunError::new(fault, None)),
            };
            match ended {
                Ok(inner) => Ok(merge(state, inner)),
                Err(error) => {
                    let escalates = error.escalates();
                    Err(Box::new(SubgraphFailure { fault: error.into_fault(), escalates }) as BoxError)
                }
            }
        })
    }))
}

/// The engine of a subgraph. It is dropped with the attempt at its node. If a failure interrupted
/// that attempt, completed nodes inside are undone.
struct SubgraphEngine<S: Send + 'static> {
    engine: Engine<S>,
    has_begun: bool,
    attempt: u32,
    /// The visit records of the node.
    records: Option<Arc<VisitRecords>>,
}

impl<S: Send + 'static> SubgraphEngine<S> {
    fn new(plan: &Arc<Plan<S>>, codec: Codec<S>, cx: &NodeContext) -> Self {
        let records = cx.details.get().and_then(|details| details.records.get().cloned());
        Self { engine: Engine::of_subgraph(plan, codec, cx), has_begun: false, attempt: cx.attempt, records }
    }
}

impl<S: Send + 'static> Drop for SubgraphEngine<S> {
    fn drop(&mut self) {
        if let Some(records) = &self.records {
            let mut records = records.lock();
            records.iteration_inside = records.iteration_inside.max(self.engine.max_iteration());
        }
        let Some(fault) = self.records.as_ref().and_then(|records| records.why_abandoned(self.attempt)) else { return };
        self.engine.drop_in_grace();
        // Restores the work of an earlier process, so that it can be undone.
        if !self.has_begun && self.engine.restore_interrupted().is_err() {
            return;
        }
        self.engine.interrupt_inside(&fault);
    }
}

/// Drives the inner graph to its end. Stores in the visit records of the node whether all of it is
/// parked, and its waits.
async fn drive<S: Send + 'static>(engine: &mut Engine<S>, cx: &NodeContext) -> Outcome<S> {
    let Some(records) = cx.details.get().and_then(|details| details.records.get()) else { return engine.await };
    let (mut reported, waits) = (None, Arc::new(WaitsInside::default()));
    let mut cancelled = cx.details.get().and_then(|details| details.fresh.as_ref()).map(|token| token.cancelled());
    poll_fn(|polled| {
        // Not parked during the poll: the run may check on another thread.
        records.wait_inside(cx.attempt, None);
        // Only if a node inside may have a grace. Otherwise the outer node is dropped with
        // everything inside.
        if let Some(Poll::Ready(cause)) = cancelled.as_mut().map(|cancelled| Pin::new(cancelled).poll(polled)) {
            cancelled = None;
            if let Some(ended) = engine.cancel_inside(cause, records.why_abandoned(cx.attempt)) {
                return Poll::Ready(ended);
            }
        }
        let ended = Pin::new(&mut *engine).poll(polled);
        if ended.is_pending() {
            let until = engine.parked_until_inside(&waits);
            let parked = |WaitUntil { due, is_paused }| ParkedInside { due, waits: Arc::clone(&waits), is_paused };
            records.wait_inside(cx.attempt, until.map(parked));
            let changes = until.map(|until| (waits.changes(), until.is_paused));
            if let Some(log) = cx.graph_cx.run().log().filter(|_| changes.is_some() && changes != reported) {
                log.wake_driver();
            }
            reported = changes;
        }
        ended
    })
    .await
}

impl<S: Send + 'static> Engine<S> {
    /// Creates the engine for the node of this context, without a state.
    fn of_subgraph(plan: &Arc<Plan<S>>, codec: Codec<S>, cx: &NodeContext) -> Self {
        let token = cx.details.get().and_then(|details| details.fresh.clone());
        let graph_cx = GraphContext::of_subgraph(Arc::clone(&plan.names), &cx.graph_cx, cx.node, token);
        let log = graph_cx.run().log().map(Arc::clone);
        let codec = codec.comparing(plan.equal);
        let step_writer = log.map(|log| Arc::new(StepWriter { log, codec }));
        let (start, steps_per_poll) = (plan.shape.entry, STEPS_PER_POLL_MAX);
        let records = cx.details.get().and_then(|details| details.records.get().cloned());
        // Inner tokens derive from the token of the node, or from its last failed attempt.
        let failed_row = records.as_ref().map_or(0, |records| records.lock().failed_row);
        let is_stored = step_writer.is_some();
        let sequence = match (is_stored, failed_row) {
            (false, _) => graph_cx.run().next_sequence(),
            (true, 0) => cx.token.sequence,
            (true, failed) => failed,
        };
        let setup = EngineSetup { start, hooks: None, clone_state: None, steps_per_poll, step_writer };
        let stepper = Stepper::new(graph_cx, setup);
        let mut engine = Self::with(Arc::clone(plan), stepper, Lane::root(start, sequence, None));
        // Several branches may start with a subgraph under one sequence number: the branch number
        // tells their tokens apart. The iteration count continues from the outer token, after
        // failed attempts.
        let failed_at = records.as_ref().map_or(0, |records| records.lock().iteration_inside);
        engine.root.iteration = cx.iteration.max(failed_at);
        engine.root.token.branch = cx.token.branch;
        engine.root.path = BranchPath::branch_of(&cx.branch.fan_out(sequence), cx.token.branch);
        engine
    }

    /// Returns the largest iteration count of all lanes.
    fn max_iteration(&self) -> u64 {
        let below = self.branches.iter().flat_map(|branches| branches.lanes());
        below.map(|lane| lane.iteration).fold(self.root.iteration, u64::max)
    }

    /// Restores the lanes of an earlier process, only to interrupt them.
    fn restore_interrupted(&mut self) -> Result<(), RunFault> {
        if self.stepper.step_writer.is_some() { self.restore().map(drop) } else { Ok(()) }
    }

    /// Continues the work of an earlier process, or starts with a new state. Returns the outcome if
    /// that ends the graph.
    fn begin(&mut self, state: impl FnOnce() -> S) -> Result<Option<Outcome<S>>, RunFault> {
        let ended = if self.stepper.step_writer.is_some() { self.restore()? } else { None };
        if ended.is_none() && self.root.state.is_none() && !self.is_forked() {
            self.root.state = Some(state());
        }
        Ok(ended)
    }
}

/// The failure of a subgraph, as the error of its node.
#[derive(Debug)]
struct SubgraphFailure {
    fault: RunFault,
    escalates: bool,
}

impl fmt::Display for SubgraphFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.fault, f)
    }
}

impl std::error::Error for SubgraphFailure {}

/// The failure of a node, as the outer engine classifies it.
pub(super) enum NodeFailure {
    /// The whole run has ended inside the node, so its policy does not apply.
    Halted(RunFault),
    /// The node failed. In a subgraph a policy may have chosen `Escalate`.
    Failed { reason: Reason, escalates: bool },
}

pub(super) fn classify(reason: Reason) -> NodeFailure {
    let reason = match reason {
        Reason::Error(error) => match error.downcast::<SubgraphFailure>() {
            Ok(failure) if failure.fault.ends_run() => return NodeFailure::Halted(failure.fault),
            Ok(failure) => {
                return NodeFailure::Failed { reason: Reason::Error(Box::new(failure.fault)), escalates: failure.escalates };
            }
            Err(error) => Reason::Error(error),
        },
        other => other,
    };
    NodeFailure::Failed { reason, escalates: false }
}
