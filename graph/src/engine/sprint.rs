//! The quick way through nodes that nothing is to be taken care of at: no policy, no undo, no hook, no thread. The same step in
//! the same order as in `step`, without anything that only those would need.

use super::lane::{Lane, Phase, Running, Work};
use super::step::{Driver, Turn};
use crate::error::{RunError, RunFault};
use crate::node::{Call, NodeFuture};
use crate::plan::{Plan, Stop, Way};
use crate::shape::Target;
use pleach_core::{BoxError, Reason, catch_panic};
use std::task::{Context, Poll};

impl<S: Send + 'static> Driver<S> {
    /// Whether a lane can take its next node the quick way.
    #[inline]
    pub(super) fn is_plain(&self, stop: &Stop<S>, lane: &Lane<S>) -> bool {
        stop.care.is_none() && self.hooks.is_none() && self.keep.is_none() && !lane.spawned && !self.shared.is_subgraph()
    }

    /// Runs a lane through plain nodes until something else is in its way. `None` if the careful way goes on from there.
    pub(super) fn sprint(&mut self, plan: &Plan<S>, lane: &mut Lane<S>, cx: &mut Context<'_>) -> Option<Turn<S>> {
        let run = self.shared.run();
        let mut share = self.share;
        let mut state = lane.state.take().expect("a lane before a node has its state");
        lane.attempt = 1;
        let (stop, ended) = loop {
            let stop = &plan.stops[lane.at as usize];
            if share == 0 || stop.care.is_some() || run.is_cancelled() {
                break (stop, Sprint::Stopped(state));
            }
            lane.iteration = match run.count_visit() {
                Some(iteration) => iteration,
                None => break (stop, Sprint::Stopped(state)),
            };
            share -= 1;
            // The future of a node that does not wait is never moved out of `first_poll`.
            let called = match &stop.call {
                Call::State(call) => catch_panic(|| first_poll(call(state), cx)),
                Call::Context(call) => {
                    let context = self.context(lane, None);
                    catch_panic(|| first_poll(call(context, state), cx))
                }
            };
            state = match called {
                Ok(Called::Done(state)) => state,
                Ok(Called::Waits(work)) => break (stop, Sprint::Waits(work)),
                Ok(Called::Failed(error)) => break (stop, Sprint::Failed(Reason::Error(error))),
                Err(reason) => break (stop, Sprint::Failed(reason)),
            };
            let to = match &stop.way {
                Way::To(to) => *to,
                Way::Choice { route, declared } => match self.route(route, declared, lane, &state) {
                    Ok(to) => to,
                    Err(fault) => {
                        run.next_sequence();
                        break (stop, Sprint::Lost(fault, state));
                    }
                },
                Way::Fork(_) => {
                    let sequence = run.next_sequence();
                    break (stop, Sprint::Forks(sequence, state));
                }
            };
            // The commit, before anything follows.
            lane.token.sequence = run.next_sequence();
            match to {
                Target::Node(node) if to != lane.join => lane.at = node,
                _ => break (stop, Sprint::Arrived(state)),
            }
        };
        self.share = share;
        self.after(stop, lane, ended)
    }

    /// What follows a sprint.
    #[inline]
    fn after(&mut self, stop: &Stop<S>, lane: &mut Lane<S>, ended: Sprint<S>) -> Option<Turn<S>> {
        match ended {
            Sprint::Arrived(state) => {
                lane.state = Some(state);
                Some(Turn::Arrived)
            }
            Sprint::Forks(sequence, state) => {
                lane.state = Some(state);
                Some(Turn::Forks(sequence))
            }
            Sprint::Waits(work) => {
                lane.phase = Phase::Running(Running { work: Work::Here(work), besides: None });
                Some(Turn::Waits)
            }
            Sprint::Stopped(state) => {
                lane.state = Some(state);
                self.stopped(stop, lane)
            }
            Sprint::Failed(reason) => self.failed(stop, lane, reason).unwrap_or_else(|error| Some(Turn::Failed(error))),
            Sprint::Lost(fault, state) => Some(Turn::Failed(RunError::new(fault, Some(state)))),
        }
    }

    /// Before a node: the share is used up, the run is over, or there is something to take care of.
    #[cold]
    fn stopped(&mut self, stop: &Stop<S>, lane: &mut Lane<S>) -> Option<Turn<S>> {
        if self.share == 0 {
            return Some(Turn::Spent);
        }
        if stop.care.is_some() { None } else { self.enter(lane).err().map(Turn::Failed) }
    }
}

/// How a sprint ended.
enum Sprint<S> {
    /// Before a node that cannot be run so, or not at all.
    Stopped(S),
    Waits(NodeFuture<S>),
    Failed(Reason),
    /// The router gave no way.
    Lost(RunFault, S),
    Forks(u64, S),
    Arrived(S),
}

enum Called<S> {
    Done(S),
    Failed(BoxError),
    Waits(NodeFuture<S>),
}

#[inline]
fn first_poll<S>(mut work: NodeFuture<S>, cx: &mut Context<'_>) -> Called<S> {
    match work.as_mut().poll(cx) {
        Poll::Ready(Ok(state)) => Called::Done(state),
        Poll::Ready(Err(error)) => Called::Failed(error),
        Poll::Pending => Called::Waits(work),
    }
}
