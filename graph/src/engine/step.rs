//! [`Stepper`]: the steps of a lane.
//!
//! The order of one step: check the step limit, check for a cancel, run the node, run the router on
//! the new state, commit, then continue at the next node. While nothing waits, all of it happens in
//! one poll, and the node's future is the only allocation.
//!
//! ```text
//!             ┌───────────────────────── next node ──────────────────────┐
//!             ▼                                                          │
//!          Start ──► Attempt ──► Running ──► (policy) ──► leave ─────────┴──► arrived, or forked
//!                       ▲                        │
//!                       └────── Waiting ◄────────┘ try again
//! ```

use crate::compile::plan::{OutEdge, Plan, PlanNode};
use crate::context::events::{Hooks, InnerEvent, RunEvent, Visit};
use crate::context::run_context::GraphContext;
use crate::context::{NodeContext, NodeDetails};
use crate::define::node::{DeclaredTarget, RouterFn};
use crate::define::shape::Target;
use crate::engine::EngineSetup;
use crate::engine::lane::{AttemptResult, Lane, Phase};
use crate::engine::poll_slice::PollSlice;
use crate::engine::records::StepWriter;
use crate::error::{During, RouterError, RunError, RunFault};
use pleach_core::{Cause, Reason, catch_panic};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

/// Why a lane does not advance further in this poll.
pub(super) enum Turn<S> {
    /// The lane waits, and has registered its waker.
    Waits,
    /// The step limit of this poll is reached.
    StepLimitReached,
    /// A fan-out follows. Its commit has this sequence number; for a `map` the states may already
    /// be known.
    Forks(u64, Option<Vec<S>>),
    /// The lane has reached its join or the end.
    Arrived,
    Failed(RunError<S>),
}

/// How a visit of a node ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Visited {
    Done,
    /// The node failed; a policy may continue the run without it.
    Failed,
    /// The visit ended before the run was resumed.
    EndedBeforeResume,
}

/// The step after a node.
pub(super) enum NextStep<S> {
    To(Target),
    /// A fan-out; for a `map` the states may already be known.
    Fork(Option<Vec<S>>),
}

/// The parts of the engine that advance a lane.
pub(super) struct Stepper<S> {
    pub(super) graph_cx: Arc<GraphContext>,
    pub(super) hooks: Option<Hooks<S>>,
    /// Clones the state before each node, for `keep_state`.
    pub(super) clone_state: Option<fn(&S) -> S>,
    /// Records the steps of a stored run.
    pub(super) step_writer: Option<Arc<StepWriter<S>>>,
    /// Hooks, a store, a control or an outer graph need every step, and nodes on several threads
    /// share the counts, so the fast path is off.
    pub(super) needs_full_path: bool,
    pub(super) slice: PollSlice,
    /// The visits and retries until the next look at the slice of this poll.
    pub(super) steps_left: u32,
}

#[inline]
pub(super) fn context_of<S>(graph_cx: &Arc<GraphContext>, lane: &Lane<S>, details: Option<NodeDetails>) -> NodeContext {
    NodeContext {
        graph_cx: Arc::clone(graph_cx),
        node: lane.at,
        attempt: lane.attempt,
        iteration: lane.iteration,
        token: lane.token,
        branch: lane.path.clone(),
        details: details.map_or_else(OnceLock::new, |details| OnceLock::from(Box::new(details))),
    }
}

/// Returns the fault for an answer that the edge of a node does not declare.
pub(super) fn not_declared(node: String, answer: String, declared: &[DeclaredTarget]) -> RunFault {
    let declared = declared.iter().map(|one| one.name.to_string()).collect();
    RunFault::Router(RouterError { node, answer, declared })
}

impl<S: Send + 'static> Stepper<S> {
    pub(super) fn new(graph_cx: GraphContext, setup: EngineSetup<S>) -> Self {
        let EngineSetup { hooks, clone_state, step_writer, steps_per_poll, .. } = setup;
        // A run with a control can be paused before any node, and asked for the waits of its nodes.
        let has_control = graph_cx.run().run_control().is_some();
        let needs_full_path = hooks.is_some()
            || clone_state.is_some()
            || step_writer.is_some()
            || has_control
            || graph_cx.is_subgraph()
            || graph_cx.run().many_threads
            || graph_cx.run().has_span();
        let (graph_cx, slice) = (Arc::new(graph_cx), PollSlice::new(steps_per_poll));
        Self { graph_cx, hooks, clone_state, step_writer, needs_full_path, slice, steps_left: 0 }
    }

    /// Advances a lane until it waits, ends, forks or reaches the step limit.
    pub(super) fn advance(&mut self, plan: &Plan<S>, lane: &mut Lane<S>, cx: &mut Context<'_>) -> Turn<S> {
        loop {
            let plan_node = &plan.nodes[lane.at as usize];
            let ended = match &mut lane.phase {
                Phase::Start => {
                    if self.must_yield() {
                        return Turn::StepLimitReached;
                    }
                    if self.is_plain(plan_node, lane) {
                        match self.fast_path(plan, lane, cx) {
                            Some(turn) => return turn,
                            None => continue,
                        }
                    }
                    if self.is_paused(cx) {
                        return Turn::Waits;
                    }
                    if let Err(error) = self.enter(lane) {
                        return Turn::Failed(error);
                    }
                    lane.phase = self.before_attempt(lane);
                    continue;
                }
                Phase::Attempt => match self.check_before_attempt(lane, cx) {
                    Some(turn) => return turn,
                    None => self.start_attempt(plan_node, lane, cx),
                },
                Phase::Running(running) => match self.poll_running(running, lane.visit.as_deref(), lane.attempt, cx) {
                    Poll::Pending => self.check_broken(lane),
                    ended => ended.map(Ok),
                },
                Phase::Waiting(wait) => {
                    if wait.as_mut().poll(cx).is_pending() {
                        return Turn::Waits;
                    }
                    lane.phase = Phase::Attempt;
                    continue;
                }
                Phase::Forking(sequence) => return Turn::Forks(*sequence, None),
                Phase::Forked(_) => return Turn::Waits,
                Phase::Committing(_) => match self.poll_commit(lane, cx) {
                    Poll::Pending => return Turn::Waits,
                    Poll::Ready(Some(turn)) => return turn,
                    Poll::Ready(None) => continue,
                },
                Phase::Ended => return Turn::Arrived,
                Phase::Failed(_) => {
                    let Phase::Failed(mut error) = std::mem::replace(&mut lane.phase, Phase::Start) else { continue };
                    error.set_state_if_none(|| self.state_before(lane));
                    return Turn::Failed(error);
                }
                Phase::NodeDone => match self.leave(plan_node, lane, Visited::EndedBeforeResume) {
                    Ok(None) => continue,
                    Ok(Some(turn)) => return turn,
                    Err(error) => return Turn::Failed(error),
                },
            };
            let turn = match ended {
                Poll::Pending => return Turn::Waits,
                Poll::Ready(Ok(ended)) => self.finish_attempt(plan_node, lane, ended),
                Poll::Ready(Err(fault)) => Err(RunError::new(fault, lane.take_cloned_state().or_else(|| lane.state.take()))),
            };
            match turn {
                Ok(None) => {}
                Ok(Some(turn)) => return turn,
                Err(error) => return Turn::Failed(error),
            }
        }
    }

    /// Returns whether the step limit of this poll is reached.
    #[inline]
    pub(super) fn must_yield(&mut self) -> bool {
        if self.steps_left == 0 {
            self.steps_left = self.slice.extend(self.graph_cx.run().known_runtime());
        }
        self.steps_left == 0
    }

    /// Runs the checks before an attempt. Returns why the lane stops here, if it does.
    #[inline]
    fn check_before_attempt(&mut self, lane: &mut Lane<S>, cx: &Context<'_>) -> Option<Turn<S>> {
        if !self.holds_lease(cx) {
            return Some(Turn::Waits);
        }
        if lane.attempt > 1 {
            if self.must_yield() {
                return Some(Turn::StepLimitReached);
            }
            if self.is_paused(cx) {
                return Some(Turn::Waits);
            }
            self.steps_left -= 1;
            // A request of the last attempt that cannot be met does not concern this one.
            self.graph_cx.run().forget_broken(lane.token);
            if let Err(error) = self.check_cancel(lane) {
                return Some(Turn::Failed(error));
            }
        }
        None
    }

    /// Runs the checks before a node, and counts the visit.
    pub(super) fn enter(&mut self, lane: &mut Lane<S>) -> Result<(), RunError<S>> {
        let run = self.graph_cx.run();
        let next = |lane: &Lane<S>| self.graph_cx.name(lane.at).to_string();
        if lane.iteration >= run.iterations_max {
            let fault = RunFault::MaxIterations { limit: run.iterations_max, next: next(lane) };
            return Err(RunError::new(fault, lane.state.take()));
        }
        let spent = |lane: &mut Lane<S>| {
            let fault = RunFault::MaxVisits { limit: run.visits_max, next: next(lane) };
            RunError::new(fault, lane.state.take())
        };
        if run.is_spent() {
            return Err(spent(lane));
        }
        self.check_cancel(lane)?;
        if !run.count_visit() {
            return Err(spent(lane));
        }
        lane.iteration += 1;
        lane.attempt = 1;
        self.steps_left -= 1;
        Ok(())
    }

    /// Returns whether the run is paused. The lane is woken by the resume.
    fn is_paused(&self, cx: &Context<'_>) -> bool {
        self.graph_cx.run().run_control().is_some_and(|run_control| run_control.holds(cx.waker()))
    }

    /// Returns whether this driver surely holds the lease. Otherwise the lane is woken after the
    /// renewal.
    fn holds_lease(&self, cx: &Context<'_>) -> bool {
        self.step_writer.as_ref().is_none_or(|step_writer| step_writer.log.poll_lease(cx).is_ready())
    }

    pub(super) fn check_cancel(&self, lane: &mut Lane<S>) -> Result<(), RunError<S>> {
        let Some(cause) = self.graph_cx.cause() else { return Ok(()) };
        let node = self.graph_cx.name(lane.at).to_string();
        let fault = RunFault::Cancelled { node, cause, was_executing: false, grace: None };
        Err(RunError::new(fault, lane.state.take()))
    }

    #[inline]
    pub(super) fn context(&self, lane: &Lane<S>, details: Option<NodeDetails>) -> NodeContext {
        context_of(&self.graph_cx, lane, details)
    }

    /// Handles the end of an attempt: leaves the node, or applies its policy.
    fn finish_attempt(
        &mut self,
        plan_node: &PlanNode<S>,
        lane: &mut Lane<S>,
        ended: AttemptResult<S>,
    ) -> Result<Option<Turn<S>>, RunError<S>> {
        if let Err(reason) = &ended {
            self.note_failure(plan_node, lane, reason);
        }
        let ended = lane.drop_attempt().and(ended);
        lane.count_inside();
        self.graph_cx.run().forget_broken(lane.token);
        match ended {
            Ok(state) => {
                self.notify(lane, |visit| RunEvent::NodeFinished { visit, outcome: Ok(&state) }, || InnerEvent::Finished(None));
                lane.state = Some(state);
                self.leave(plan_node, lane, Visited::Done)
            }
            Err(reason) => self.failed(plan_node, lane, reason),
        }
    }

    /// Leaves a completed node: router, commit, next step.
    pub(super) fn leave(
        &mut self,
        plan_node: &PlanNode<S>,
        lane: &mut Lane<S>,
        visited: Visited,
    ) -> Result<Option<Turn<S>>, RunError<S>> {
        let to = match (&plan_node.out_edge, &lane.state) {
            (OutEdge::Choice { route, declared }, Some(state)) => self.route(route, declared, lane, state).map(NextStep::To),
            (OutEdge::To(to), _) => Ok(NextStep::To(*to)),
            (OutEdge::Fork(fork), Some(state)) if self.step_writer.is_some() => {
                self.split(fork, lane, state).map(NextStep::Fork)
            }
            _ => Ok(NextStep::Fork(None)),
        };
        // The node is committed even if the router fails: then only the router runs again.
        self.commit(plan_node, lane, visited, to)
    }

    pub(super) fn route(
        &self,
        route: &RouterFn<S>,
        declared: &[DeclaredTarget],
        lane: &Lane<S>,
        state: &S,
    ) -> Result<Target, RunFault> {
        let answer = catch_panic(|| match route {
            RouterFn::State(route) => route(state, declared),
            RouterFn::Context(route) => route(&self.context(lane, None), state, declared),
        });
        match answer {
            Ok(Ok(to)) => Ok(to),
            Ok(Err(answer)) => Err(not_declared(self.graph_cx.name(lane.at).to_string(), answer, declared)),
            Err(reason) => Err(self.panicked(lane, During::Router, &reason)),
        }
    }

    /// Commits a step before anything follows: saves its undo and assigns its sequence number.
    pub(super) fn commit(
        &mut self,
        plan_node: &PlanNode<S>,
        lane: &mut Lane<S>,
        visited: Visited,
        to: Result<NextStep<S>, RunFault>,
    ) -> Result<Option<Turn<S>>, RunError<S>> {
        lane.cloned_state = None;
        let payload = match self.undo_payload(plan_node, lane, visited) {
            Ok(payload) => payload,
            Err(fault) => return Err(RunError::new(fault, lane.state.take())),
        };
        if self.step_writer.is_some() {
            return self.commit_step(lane, payload, to);
        }
        self.remember_undo(plan_node, lane, payload);
        let sequence = self.graph_cx.run().next_sequence();
        lane.visit = None;
        match to {
            Ok(NextStep::To(to)) => Ok(lane.place(to, sequence).then_some(Turn::Arrived)),
            Ok(NextStep::Fork(items)) => Ok(Some(Turn::Forks(sequence, items))),
            Err(fault) => Err(RunError::new(fault, lane.state.take())),
        }
    }

    /// Drops the attempt of a lane and reports its end to the hooks.
    pub(super) fn abandon(&self, lane: &mut Lane<S>, cause: &Cause) -> Result<(), Reason> {
        let was_executing = lane.is_executing();
        let dropped = lane.drop_attempt();
        if was_executing {
            let reason = || Arc::new(Reason::Error(Box::new(cause.clone())));
            self.notify(
                lane,
                |visit| RunEvent::NodeFinished { visit, outcome: Err(reason()) },
                || InnerEvent::Finished(Some(reason())),
            );
        }
        dropped
    }

    pub(super) fn panicked(&self, lane: &Lane<S>, during: During, reason: &Reason) -> RunFault {
        RunFault::panic(self.graph_cx.name(lane.at).to_string(), during, reason)
    }

    /// Reports an event to the hooks, or from a subgraph to the listener of the whole run.
    #[inline]
    pub(super) fn notify<'a>(
        &self,
        lane: &Lane<S>,
        event: impl FnOnce(Visit) -> RunEvent<&'a S>,
        inner: impl FnOnce() -> InnerEvent,
    ) where
        S: 'a,
    {
        if self.hooks.is_some() {
            self.notify_hooks(lane, event);
        } else if self.graph_cx.is_subgraph()
            && let Some(listener) = self.graph_cx.run().listener()
        {
            listener(self.visit(lane), inner());
        }
    }

    pub(super) fn notify_hooks<'a>(&self, lane: &Lane<S>, event: impl FnOnce(Visit) -> RunEvent<&'a S>)
    where
        S: 'a,
    {
        if let Some(hooks) = &self.hooks {
            hooks.call(&event(self.visit(lane)));
        }
    }

    fn visit(&self, lane: &Lane<S>) -> Visit {
        let Lane { attempt, iteration, .. } = *lane;
        let (run, branch) = (self.graph_cx.run().known_id(), lane.path.clone());
        Visit { run, node: self.graph_cx.name(lane.at), attempt, iteration, branch }
    }
}
