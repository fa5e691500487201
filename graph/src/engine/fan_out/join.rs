//! Polls branches, and joins a fan-out when its branches have ended.
//!
//! The lane that forked waits, and the fan-out holds its state. The merge gets the branches in the
//! order of declaration. A failure moves from the branch to the fan-out and to the lane that
//! forked, until a fan-out collects it or the run fails.

use crate::compile::plan::{OutEdge, Plan, PlanFanOut};
use crate::context::events;
use crate::context::events::RunEvent;
use crate::define::fan_out::Merge;
use crate::define::shape::Target;
use crate::engine::fan_out::branches::{ClosingFanOut, OpenFanOut};
use crate::engine::fan_out::wakeups::WAITS_PER_POLL_MAX;
use crate::engine::lane::{Lane, Phase};
use crate::engine::step::Turn;
use crate::engine::{Engine, ROOT};
use crate::error::{During, FanOutTimeout, MergeError, Outcome, RunError, RunFault, StoredFault};
use pleach_core::{Cause, Elapsed, Reason, catch_panic};
use std::sync::Arc;
use std::task::{Context, Poll};

/// The consequence of an end, one level up.
pub(in crate::engine) enum JoinStep<S> {
    /// Nothing more for now.
    Stay,
    /// This lane has ended with this result.
    To(usize, Result<(), RunError<S>>),
    /// The run has ended.
    Over(Outcome<S>),
}

pub(in crate::engine) fn fork_of<S>(plan: &Plan<S>, node: u32) -> &PlanFanOut<S> {
    match &plan.nodes[node as usize].out_edge {
        OutEdge::Fork(fork) => fork,
        _ => unreachable!("only a node with a fan-out can fork"),
    }
}

impl<S: Send + 'static> Engine<S> {
    pub(in crate::engine) fn is_forked(&self) -> bool {
        matches!(self.root.phase, Phase::Forked(_))
    }

    /// Advances every ready branch. Ready when the root lane continues or the run has ended.
    pub(in crate::engine) fn poll_branches(&mut self, cx: &mut Context<'_>) -> Poll<Option<Outcome<S>>> {
        let plan = &*Arc::clone(&self.plan);
        if let Some(outcome) = self.poll_timers(plan, cx).or_else(|| self.poll_closing(plan, cx)) {
            return Poll::Ready(Some(outcome));
        }
        let mut waits_left = WAITS_PER_POLL_MAX;
        while self.is_forked() {
            let Some(branches) = &mut self.branches else { break };
            if waits_left == 0 && !branches.queue.is_empty() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let Some((number, lane, waker)) = branches.next(cx) else {
                // Fan-outs that opened or were cancelled just now have not registered a waker with
                // their timers yet.
                let ended = self.poll_timers(plan, cx).or_else(|| self.poll_closing(plan, cx));
                if ended.is_none()
                    && self.branches.as_ref().is_some_and(|branches| branches.queue.is_empty())
                    && self.is_forked()
                {
                    return Poll::Pending;
                }
                if ended.is_some() {
                    return Poll::Ready(ended);
                }
                continue;
            };
            let ended = match self.stepper.advance(plan, lane, &mut Context::from_waker(waker)) {
                Turn::Waits => {
                    waits_left = waits_left.saturating_sub(1);
                    continue;
                }
                Turn::StepLimitReached => {
                    branches.queue.push_back(number);
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Turn::Forks(sequence, items) => {
                    let step = self.fork_from(plan, number, (sequence, items), cx);
                    self.propagate(plan, step)
                }
                Turn::Arrived => self.propagate(plan, JoinStep::To(number, Ok(()))),
                Turn::Failed(error) => self.propagate(plan, JoinStep::To(number, Err(error))),
            };
            if ended.is_some() {
                return Poll::Ready(ended);
            }
        }
        Poll::Ready(None)
    }

    /// Forks the root lane. Returns the outcome if that ended the run.
    pub(in crate::engine) fn fork(&mut self, sequence: u64, items: Option<Vec<S>>, cx: &mut Context<'_>) -> Option<Outcome<S>> {
        let plan = &*Arc::clone(&self.plan);
        let step = match self.begun.take() {
            Some(begun) => self.continue_fork(plan, *begun, cx),
            None => self.fork_from(plan, ROOT, (sequence, items), cx),
        };
        self.propagate(plan, step)
    }

    pub(in crate::engine) fn lane(&mut self, number: usize) -> &mut Lane<S> {
        if number == ROOT {
            return &mut self.root;
        }
        let lane = self.branches.as_mut().and_then(|branches| branches.lane(number));
        lane.expect("a lane lives until it has ended")
    }

    pub(in crate::engine) fn opened(&mut self, place: usize) -> &mut OpenFanOut<S> {
        let open = self.branches.as_mut().and_then(|branches| branches.opened(place));
        open.expect("a fan-out is open until all its branches have ended")
    }

    /// Applies an end, and all its consequences further up. Returns the outcome if the run has
    /// ended.
    pub(in crate::engine) fn propagate(&mut self, plan: &Plan<S>, mut step: JoinStep<S>) -> Option<Outcome<S>> {
        loop {
            step = match step {
                JoinStep::Stay => return None,
                JoinStep::Over(outcome) => return Some(outcome),
                JoinStep::To(number, ended) => self.end_lane(plan, number, ended),
            };
        }
    }

    /// Ends a lane and updates its fan-out.
    fn end_lane(&mut self, plan: &Plan<S>, number: usize, ended: Result<(), RunError<S>>) -> JoinStep<S> {
        let ended = match ended {
            Err(error) if number == ROOT => return JoinStep::Over(Err(error)),
            Err(mut error) => {
                let lane = self.lane(number);
                let (at, path) = (lane.at, lane.path.clone());
                let of_branch = error.leave_branch(&path);
                self.drop_values(at, || drop(of_branch));
                if error.fault().ends_run() {
                    return JoinStep::Over(Err(error));
                }
                Err(error)
            }
            Ok(()) if number == ROOT => {
                return JoinStep::Over(Ok(self.root.state.take().expect("a lane that arrived has its state")));
            }
            ended => ended,
        };
        if let Err(error) = &ended {
            self.save_failed(plan, number, error);
            if let Err(fault) = self.record_failure(plan, number, error) {
                return JoinStep::Over(Err(RunError::new(fault, None)));
            }
        }
        let lane = self.branches.as_mut().and_then(|branches| branches.end(number));
        let ((place, branch), state) = lane.expect("a lane that is not the root belongs to a fan-out");
        let branch = branch as usize;
        let node = self.opened(place).node;
        let options = &fork_of(plan, node).options;
        let ended = match ended {
            Ok(()) => {
                if self.stepper.step_writer.is_none() {
                    // The commit of its arrival.
                    self.stepper.graph_cx.run().next_sequence();
                }
                Ok(state.expect("a lane that arrived has its state"))
            }
            Err(mut error) => {
                if let Some(hooks) = &self.stepper.hooks {
                    let run = self.stepper.graph_cx.run().known_id();
                    events::branch_failed(hooks, run, &self.stepper.graph_cx.name(node), branch, &mut error);
                }
                if options.fail_fast && matches!(options.merge, Merge::States(_)) {
                    return self.fail_fan_out(place, error);
                }
                Err(error)
            }
        };
        let open = self.opened(place);
        open.running -= 1;
        match (ended, &options.merge) {
            (Err(error), Merge::States(_)) => {
                open.first_error.get_or_insert(error);
            }
            (ended, _) => open.ended[branch] = Some(ended),
        }
        match (open.unstarted() > 0, open.running) {
            (true, _) => {
                self.start_branch(plan, place).map_or_else(|error| self.fail_fan_out(place, error), |()| JoinStep::Stay)
            }
            (false, 0) => self.join(plan, place),
            (false, _) => JoinStep::Stay,
        }
    }

    /// Merges the states of all ended branches. The lane that forked continues with the result.
    pub(in crate::engine) fn join(&mut self, plan: &Plan<S>, place: usize) -> JoinStep<S> {
        let open = self.branches.as_mut().and_then(|branches| branches.close(place));
        let OpenFanOut { parent, node, before, ended, first_error, iteration, .. } = open.expect("a fan-out is joined once");
        if let Some(error) = first_error {
            self.drop_values(node, || drop((before, ended)));
            return JoinStep::To(parent, Err(error));
        }
        let PlanFanOut { options, join, .. } = fork_of(plan, node);
        let cloned = self.clone_before(node, &before);
        let merged = catch_panic(|| match &options.merge {
            Merge::States(merge) => {
                let mut states = Vec::with_capacity(ended.len());
                states.extend(ended.into_iter().flatten().filter_map(Result::ok));
                merge(before, states)
            }
            Merge::Results(merge) => merge(before, ended.into_iter().flatten().collect()),
        });
        let merged = match merged {
            Ok(Ok(merged)) => merged,
            Ok(Err(error)) => {
                let node = self.stepper.graph_cx.name(node).to_string();
                let fault = RunFault::Merge(MergeError { node, reason: Arc::new(Reason::Error(error)) });
                return JoinStep::To(parent, Err(RunError::new(fault, self.state_before_fork(parent, cloned))));
            }
            Err(reason) => {
                let before = self.state_before_fork(parent, cloned);
                return JoinStep::To(parent, Err(self.panicked(node, During::Merge, &reason, before)));
            }
        };
        if let Some(hooks) = &self.stepper.hooks {
            hooks.call(&RunEvent::Joined {
                run: self.stepper.graph_cx.run().known_id(),
                node: self.stepper.graph_cx.name(node),
                state: &merged,
            });
        }
        // The count continues from the longest branch.
        self.lane(parent).iteration = iteration;
        match self.commit_merged(parent, merged, *join) {
            Ok(true) => return JoinStep::To(parent, Ok(())),
            Ok(false) => {}
            Err(error) => return JoinStep::To(parent, Err(error)),
        }
        if let Some(branches) = self.branches.as_mut().filter(|_| parent != ROOT) {
            branches.queue.push_back(parent);
        }
        JoinStep::Stay
    }

    /// Clones the state before a fan-out for `keep_state`, because the merge consumes it.
    fn clone_before(&mut self, node: u32, before: &S) -> Option<S> {
        let clone_state = self.stepper.clone_state?;
        catch_panic(|| clone_state(before)).map_err(|reason| self.note_panic(node, During::CloneState, &reason)).ok()
    }

    /// Returns the state before a fan-out whose merge failed: the clone, else the stored one.
    fn state_before_fork(&mut self, parent: usize, cloned: Option<S>) -> Option<S> {
        let Self { stepper, root, branches, .. } = self;
        let lane = match branches.as_mut().filter(|_| parent != ROOT) {
            Some(branches) => branches.lane(parent)?,
            None => root,
        };
        cloned.or_else(|| stepper.state_before(lane))
    }

    /// Continues the lane that forked with the merged state. Returns whether it has arrived.
    fn commit_merged(&mut self, parent: usize, merged: S, join: Target) -> Result<bool, RunError<S>> {
        let is_stored = self.stepper.step_writer.is_some();
        let sequence = if is_stored { 0 } else { self.stepper.graph_cx.run().next_sequence() };
        let Self { stepper, root, branches, .. } = self;
        let lane = match branches.as_mut().filter(|_| parent != ROOT) {
            Some(branches) => branches.lane(parent).expect("a lane lives until it has ended"),
            None => root,
        };
        lane.state = Some(merged);
        if is_stored { stepper.commit_join(lane, join) } else { Ok(lane.place(join, sequence)) }
    }

    /// Saves the undo of the visit with which a branch failed, if it had effects.
    fn save_failed(&mut self, plan: &Plan<S>, number: usize, error: &RunError<S>) {
        let Self { stepper, branches, .. } = self;
        if let Some(lane) = branches.as_mut().and_then(|branches| branches.lane(number)).filter(|lane| lane.visit.is_some()) {
            stepper.save_interrupted(plan, lane, &Arc::new(StoredFault::of(error.fault())));
        }
    }

    /// Records a failed branch of a stored run if the others continue, so that it does not run
    /// again.
    fn record_failure(&mut self, plan: &Plan<S>, number: usize, error: &RunError<S>) -> Result<(), RunFault> {
        let Self { stepper, branches, .. } = self;
        let Some(branches) = branches.as_mut().filter(|_| stepper.step_writer.is_some()) else { return Ok(()) };
        let place = branches.lane(number).and_then(|lane| lane.fan_out).map_or(0, |fan_out| fan_out.get() as usize - 1);
        let Some(node) = branches.opened(place).map(|open| open.node) else { return Ok(()) };
        let options = &fork_of(plan, node).options;
        let others_continue = !options.fail_fast || matches!(options.merge, Merge::Results(_));
        match branches.lane(number).filter(|_| others_continue) {
            Some(lane) => stepper.submit_failed_branch(lane, error.fault()),
            None => Ok(()),
        }
    }

    pub(in crate::engine) fn fail_fan_out(&mut self, place: usize, error: RunError<S>) -> JoinStep<S> {
        self.cancel_fan_out(place, error, Cause::Because("another branch failed".into()))
    }

    /// Ends a fan-out with this error. The remaining branches are cancelled with the cause.
    fn cancel_fan_out(&mut self, place: usize, error: RunError<S>, cause: Cause) -> JoinStep<S> {
        let (parent, node) = (self.opened(place).parent, self.opened(place).node);
        let fault = Arc::new(StoredFault::of(error.fault()));
        let in_grace = self.give_grace(Some(place), &cause, Some(&fault));
        if !in_grace.is_empty() {
            self.close_lanes(place, &cause, Some(&fault));
            return self.close_later(place, ClosingFanOut { left: in_grace.len(), in_grace, error: Some(error) });
        }
        let before = self.close(place, &cause, Some(&fault));
        self.drop_values(node, || drop(before));
        JoinStep::To(parent, Err(error))
    }

    /// Ends the fan-outs whose timer has expired.
    fn poll_timers(&mut self, plan: &Plan<S>, cx: &mut Context<'_>) -> Option<Outcome<S>> {
        for place in self.branches.as_ref().map_or(0..0, |branches| branches.timed_places()) {
            let open = self.branches.as_mut().and_then(|branches| branches.opened(place));
            let Some(timer) = open.and_then(|open| open.timer.as_mut()) else { continue };
            if timer.as_mut().poll(cx).is_ready() {
                let step = self.time_out(plan, place);
                let ended = self.propagate(plan, step);
                if ended.is_some() {
                    return ended;
                }
            }
        }
        None
    }

    pub(in crate::engine) fn time_out(&mut self, plan: &Plan<S>, place: usize) -> JoinStep<S> {
        let node = self.opened(place).node;
        let options = &fork_of(plan, node).options;
        let name = self.stepper.graph_cx.name(node).to_string();
        let timeout = options.timeout.unwrap_or_default();
        let elapsed = || {
            let timeout = FanOutTimeout { node: name.clone(), elapsed: Elapsed(timeout) };
            RunError::new(RunFault::FanOutTimeout(timeout), None)
        };
        if matches!(options.merge, Merge::States(_)) {
            return self.cancel_fan_out(place, elapsed(), Cause::DeadlineExceeded);
        }
        let fault = Arc::new(StoredFault::of(elapsed().fault()));
        let in_grace = self.give_grace(Some(place), &Cause::DeadlineExceeded, Some(&fault));
        self.close_lanes(place, &Cause::DeadlineExceeded, Some(&fault));
        if !in_grace.is_empty() {
            return self.close_later(place, ClosingFanOut { left: in_grace.len(), in_grace, error: None });
        }
        let open = self.opened(place);
        open.ended.iter_mut().filter(|ended| ended.is_none()).for_each(|ended| *ended = Some(Err(elapsed())));
        let unstarted = open.items.take();
        self.drop_values(node, || drop(unstarted));
        self.join(plan, place)
    }

    /// Ends a fan-out with everything below it, and returns the state before it.
    pub(in crate::engine) fn close(&mut self, place: usize, cause: &Cause, failed: Option<&Arc<StoredFault>>) -> Option<S> {
        self.close_lanes(place, cause, failed);
        let OpenFanOut { before, items, ended, first_error, node, .. } = self.branches.as_mut()?.close(place)?;
        self.drop_values(node, || drop((items, ended, first_error)));
        Some(before)
    }

    /// Drops the lanes of a fan-out, and the fan-outs below it.
    pub(in crate::engine) fn close_lanes(&mut self, place: usize, cause: &Cause, failed: Option<&Arc<StoredFault>>) {
        let mut to_close = vec![place];
        while let Some(closing) = to_close.pop() {
            for number in self.branches.as_ref().map(|branches| branches.lanes_of(closing)).unwrap_or_default() {
                let Some(lane) = self.branches.as_mut().and_then(|branches| branches.remove(number)) else { continue };
                if let Phase::Forked(below) = lane.phase {
                    to_close.push(below);
                }
                self.drop_lane(lane, cause, failed);
            }
            if closing != place
                && let Some(open) = self.branches.as_mut().and_then(|branches| branches.close(closing))
            {
                self.drop_values(open.node, || drop(open));
            }
        }
    }

    pub(in crate::engine) fn panicked(&self, node: u32, during: During, reason: &Reason, state: Option<S>) -> RunError<S> {
        RunError::new(RunFault::panic(self.stepper.graph_cx.name(node).to_string(), during, reason), state)
    }
}
