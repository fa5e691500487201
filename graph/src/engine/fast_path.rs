//! Fast path: runs plain nodes, without policy, undo, hooks or threads, until one needs the full
//! path.
//!
//! The order of a step is that of `step`. [`FastPath`] borrows what it needs, so a run without an
//! engine uses it too (`plain_run`). It catches nothing: [`FastPath::during`] tells the catch
//! around it which code of the graph has panicked.

use crate::compile::plan::{OutEdge, Plan, PlanNode};
use crate::context::NodeContext;
use crate::context::run_context::GraphContext;
use crate::define::node::{DeclaredTarget, NodeFn, NodeFuture, Routed, RouterFn};
use crate::define::shape::Target;
use crate::engine::lane::{AttemptWork, Lane, Phase, RunningAttempt};
use crate::engine::step::{Stepper, Turn, context_of, not_declared};
use crate::error::{During, RunError, RunFault};
use pleach_core::{Reason, catch_panic};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

/// The limits of visits: one after the other, and in total.
#[derive(Clone, Copy)]
pub(crate) struct VisitLimits {
    pub(crate) iterations_max: u64,
    pub(crate) visits_max: u64,
}

/// The counts of a run that a fast path advances.
#[derive(Clone, Copy)]
pub(super) struct Counts {
    pub(super) visits: u64,
    /// The number of the last commit.
    pub(super) sequence: u64,
    /// The remaining visits of this poll.
    pub(super) steps_left: u32,
}

impl Counts {
    #[inline]
    pub(super) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }
}

pub(super) struct FastPath<'a, S> {
    pub(super) plan: &'a Plan<S>,
    /// `None` without an engine: then the path ends before a node that takes a context.
    pub(super) graph_cx: Option<&'a Arc<GraphContext>>,
    pub(super) limits: VisitLimits,
    pub(super) counts: &'a mut Counts,
    /// The kind of code that is running.
    pub(super) during: During,
}

/// How the fast path ended. A state that is not in its node is in the lane.
pub(super) enum FastPathEnd<S> {
    /// Before a node that needs the full path, or must not run.
    Stopped,
    Waits(NodeFuture<S>),
    Failed(Reason),
    /// Other code of the graph failed.
    Broke(RunFault),
    /// After the commit of a node with a fan-out.
    Forks(u64),
    Arrived,
}

impl<S: Send + 'static> FastPath<'_, S> {
    /// Runs nodes until the lane arrives, waits, fails or forks, or the next node must not run
    /// here.
    pub(super) fn run(&mut self, lane: &mut Lane<S>, cx: &mut Context<'_>) -> FastPathEnd<S> {
        let nodes: &[PlanNode<S>] = &self.plan.nodes;
        let mut visits_left = self.visits_left(lane);
        loop {
            let plan_node = &nodes[lane.at as usize];
            if visits_left == 0 || !self.may_run(plan_node) {
                return FastPathEnd::Stopped;
            }
            visits_left -= 1;
            self.count_visit(lane);
            let state = lane.state.take().expect("a lane before a node has its state");
            let mut work = match &plan_node.call {
                NodeFn::State(call) => call(state),
                NodeFn::Context(call) => call(self.context(lane), state),
            };
            let state = match work.as_mut().poll(cx) {
                Poll::Ready(Ok(state)) => state,
                Poll::Ready(Err(error)) => return FastPathEnd::Failed(Reason::Error(error)),
                Poll::Pending => return FastPathEnd::Waits(work),
            };
            drop(work);
            // Kept in the lane, so that a router that panics does not lose it.
            lane.state = Some(state);
            let to = match &plan_node.out_edge {
                OutEdge::To(to) => *to,
                OutEdge::Choice { route, declared } => match self.route(route, declared, lane) {
                    Ok(to) => to,
                    Err(answer) => {
                        self.counts.next_sequence();
                        return FastPathEnd::Broke(not_declared(self.name(lane.at), answer, declared));
                    }
                },
                OutEdge::Fork(_) => return FastPathEnd::Forks(self.counts.next_sequence()),
            };
            // The commit, before the next node.
            lane.token.sequence = self.counts.next_sequence();
            match to {
                Target::Node(node) if to != lane.join => lane.at = node,
                _ => return FastPathEnd::Arrived,
            }
        }
    }

    /// Returns how many visits of this lane the limits still allow in this poll.
    #[inline]
    fn visits_left(&self, lane: &Lane<S>) -> u64 {
        let VisitLimits { iterations_max, visits_max } = self.limits;
        let iterations = iterations_max.saturating_sub(lane.iteration);
        let visits = visits_max.saturating_sub(self.counts.visits);
        iterations.min(visits).min(self.counts.steps_left.into())
    }

    /// Returns whether the node can run here, and the run was not cancelled.
    #[inline]
    fn may_run(&self, plan_node: &PlanNode<S>) -> bool {
        let is_allowed = match self.graph_cx {
            Some(graph_cx) => !graph_cx.run().is_cancelled(),
            None => !plan_node.takes_context,
        };
        is_allowed && plan_node.options.is_none()
    }

    #[inline]
    fn count_visit(&mut self, lane: &mut Lane<S>) {
        lane.iteration += 1;
        self.counts.visits += 1;
        self.counts.steps_left -= 1;
    }

    #[inline]
    fn route(&mut self, route: &RouterFn<S>, declared: &[DeclaredTarget], lane: &Lane<S>) -> Routed {
        let state = lane.state.as_ref().expect("a lane after its node has its state");
        match route {
            RouterFn::State(route) => self.calling(During::Router, || route(state, declared)),
            RouterFn::Context(route) => {
                let context = self.context(lane);
                self.calling(During::Router, || route(&context, state, declared))
            }
        }
    }

    /// Calls other code of the graph than a node.
    #[inline]
    pub(super) fn calling<T>(&mut self, during: During, call: impl FnOnce() -> T) -> T {
        self.during = during;
        let answer = call();
        self.during = During::Node;
        answer
    }

    #[inline]
    fn context(&self, lane: &Lane<S>) -> NodeContext {
        context_of(self.graph_cx.expect("`may_run` rejects a node that takes a context"), lane, None)
    }

    pub(super) fn name(&self, node: u32) -> String {
        self.plan.names[node as usize].to_string()
    }

    /// Returns how the path has ended after its code panicked at this node.
    #[cold]
    pub(super) fn panicked(&mut self, node: u32, reason: Reason) -> FastPathEnd<S> {
        if self.during == During::Node {
            return FastPathEnd::Failed(reason);
        }
        // The commit of the node whose router panicked.
        self.counts.next_sequence();
        FastPathEnd::Broke(RunFault::panic(self.name(node), self.during, &reason))
    }
}

impl<S: Send + 'static> Stepper<S> {
    /// Returns whether the next node of a lane can run on the fast path.
    #[inline]
    pub(super) fn is_plain(&self, plan_node: &PlanNode<S>, lane: &Lane<S>) -> bool {
        plan_node.options.is_none() && !self.needs_full_path && !lane.spawned
    }

    /// Runs plain nodes until one needs the full path. Returns `None` if the full path continues at
    /// once.
    pub(super) fn fast_path(&mut self, plan: &Plan<S>, lane: &mut Lane<S>, cx: &mut Context<'_>) -> Option<Turn<S>> {
        let run = self.graph_cx.run();
        let limits = VisitLimits { iterations_max: run.iterations_max, visits_max: run.visits_max };
        // No other thread counts meanwhile: a run with nodes on several threads has no fast path.
        let (visits, sequence) = (run.visits.load(Relaxed), run.sequence.load(Relaxed));
        let mut counts = Counts { visits, sequence, steps_left: self.steps_left };
        lane.attempt = 1;
        let mut path = FastPath { plan, graph_cx: Some(&self.graph_cx), limits, counts: &mut counts, during: During::Node };
        // One catch for all nodes: a panic ends the path, and the lane is at the node that
        // panicked.
        let ended = catch_panic(|| path.run(lane, cx)).unwrap_or_else(|reason| path.panicked(lane.at, reason));
        self.steps_left = counts.steps_left;
        run.visits.store(counts.visits, Relaxed);
        run.sequence.store(counts.sequence, Relaxed);
        self.finish_fast_path(plan, lane, ended)
    }

    /// Applies the end of the fast path to the lane.
    #[inline]
    pub(super) fn finish_fast_path(&mut self, plan: &Plan<S>, lane: &mut Lane<S>, ended: FastPathEnd<S>) -> Option<Turn<S>> {
        let plan_node = &plan.nodes[lane.at as usize];
        let reason = match ended {
            FastPathEnd::Arrived => return Some(Turn::Arrived),
            FastPathEnd::Forks(sequence) => return Some(Turn::Forks(sequence, None)),
            FastPathEnd::Stopped => return self.stopped(plan_node, lane),
            FastPathEnd::Broke(fault) => return Some(Turn::Failed(RunError::new(fault, lane.state.take()))),
            FastPathEnd::Waits(work) => {
                lane.phase = Phase::Running(RunningAttempt { work: AttemptWork::InPlace(work), limits: None });
                match self.graph_cx.run().why_broken(lane.token) {
                    None => return Some(Turn::Waits),
                    Some(reason) => lane.drop_attempt().err().unwrap_or(Reason::Error(reason)),
                }
            }
            FastPathEnd::Failed(reason) => reason,
        };
        self.failed(plan_node, lane, reason).unwrap_or_else(|error| Some(Turn::Failed(error)))
    }

    /// Before a node: the step limit is reached, the run must end, or the node needs the full path.
    #[cold]
    fn stopped(&mut self, plan_node: &PlanNode<S>, lane: &mut Lane<S>) -> Option<Turn<S>> {
        if self.steps_left == 0 {
            return self.must_yield().then_some(Turn::StepLimitReached);
        }
        if plan_node.options.is_some() { None } else { self.enter(lane).err().map(Turn::Failed) }
    }
}
