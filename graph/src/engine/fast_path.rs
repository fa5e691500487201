//! Fast path: runs plain nodes, without policy, undo, hooks or threads, until one needs the full
//! path.
//!
//! The order of a step is that of `step`.

use crate::compile::plan::{OutEdge, Plan, PlanNode};
use crate::define::node::{NodeFn, NodeFuture};
use crate::define::shape::Target;
use crate::engine::lane::{AttemptWork, Lane, Phase, RunningAttempt};
use crate::engine::step::{Stepper, Turn};
use crate::error::RunError;
use pleach_core::{Reason, catch_panic};
use std::task::{Context, Poll};

impl<S: Send + 'static> Stepper<S> {
    /// Returns whether the next node of a lane can run on the fast path.
    #[inline]
    pub(super) fn is_plain(&self, plan_node: &PlanNode<S>, lane: &Lane<S>) -> bool {
        plan_node.options.is_none() && !self.needs_full_path && !lane.spawned
    }

    /// Runs plain nodes until one needs the full path. Returns `None` if the full path continues at
    /// once.
    pub(super) fn fast_path(&mut self, plan: &Plan<S>, lane: &mut Lane<S>, cx: &mut Context<'_>) -> Option<Turn<S>> {
        let mut steps_left = self.steps_left;
        lane.attempt = 1;
        // One catch for all nodes: a panic ends the path, and the lane is at the node that
        // panicked.
        let ended = catch_panic(|| self.run_plain(plan, lane, cx, &mut steps_left)).unwrap_or_else(FastPathEnd::Failed);
        self.steps_left = steps_left;
        self.finish_fast_path(&plan.nodes[lane.at as usize], lane, ended)
    }

    fn run_plain(&self, plan: &Plan<S>, lane: &mut Lane<S>, cx: &mut Context<'_>, steps_left: &mut u32) -> FastPathEnd<S> {
        let run = self.graph_cx.run();
        let mut state = lane.state.take().expect("a lane before a node has its state");
        loop {
            let plan_node = &plan.nodes[lane.at as usize];
            if *steps_left == 0 || plan_node.options.is_some() || run.is_cancelled() {
                return FastPathEnd::Stopped(state);
            }
            if lane.iteration >= run.iterations_max || !run.count_visit() {
                return FastPathEnd::Stopped(state);
            }
            lane.iteration += 1;
            *steps_left -= 1;
            let mut work = match &plan_node.call {
                NodeFn::State(call) => call(state),
                NodeFn::Context(call) => call(self.context(lane, None), state),
            };
            state = match work.as_mut().poll(cx) {
                Poll::Ready(Ok(state)) => state,
                Poll::Ready(Err(error)) => return FastPathEnd::Failed(Reason::Error(error)),
                Poll::Pending => match run.why_broken(lane.token) {
                    Some(reason) => return FastPathEnd::Failed(Reason::Error(reason)),
                    None => return FastPathEnd::Waits(work),
                },
            };
            drop(work);
            let to = match &plan_node.out_edge {
                OutEdge::To(to) => *to,
                OutEdge::Choice { route, declared } => match self.route(route, declared, lane, &state) {
                    Ok(to) => to,
                    Err(fault) => {
                        run.next_sequence();
                        return FastPathEnd::RouterFailed(RunError::new(fault, Some(state)));
                    }
                },
                OutEdge::Fork(_) => return FastPathEnd::Forks(run.next_sequence(), state),
            };
            // The commit, before the next node.
            lane.token.sequence = run.next_sequence();
            match to {
                Target::Node(node) if to != lane.join => lane.at = node,
                _ => return FastPathEnd::Arrived(state),
            }
        }
    }

    /// Applies the end of the fast path to the lane.
    #[inline]
    fn finish_fast_path(&mut self, plan_node: &PlanNode<S>, lane: &mut Lane<S>, ended: FastPathEnd<S>) -> Option<Turn<S>> {
        match ended {
            FastPathEnd::Arrived(state) => {
                lane.state = Some(state);
                Some(Turn::Arrived)
            }
            FastPathEnd::Forks(sequence, state) => {
                lane.state = Some(state);
                Some(Turn::Forks(sequence, None))
            }
            FastPathEnd::Waits(work) => {
                lane.phase = Phase::Running(RunningAttempt { work: AttemptWork::InPlace(work), limits: None });
                Some(Turn::Waits)
            }
            FastPathEnd::Stopped(state) => {
                lane.state = Some(state);
                self.stopped(plan_node, lane)
            }
            FastPathEnd::Failed(reason) => {
                self.failed(plan_node, lane, reason).unwrap_or_else(|error| Some(Turn::Failed(error)))
            }
            FastPathEnd::RouterFailed(error) => Some(Turn::Failed(error)),
        }
    }

    /// Before a node: the step limit is reached, the run must end, or the node needs the full path.
    #[cold]
    fn stopped(&mut self, plan_node: &PlanNode<S>, lane: &mut Lane<S>) -> Option<Turn<S>> {
        if self.steps_left == 0 {
            return Some(Turn::StepLimitReached);
        }
        if plan_node.options.is_some() { None } else { self.enter(lane).err().map(Turn::Failed) }
    }
}

/// How the fast path ended.
enum FastPathEnd<S> {
    /// Before a node that needs the full path, or must not run.
    Stopped(S),
    Waits(NodeFuture<S>),
    Failed(Reason),
    /// The router failed.
    RouterFailed(RunError<S>),
    Forks(u64, S),
    Arrived(S),
}
