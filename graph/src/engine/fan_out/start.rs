//! Opens a fan-out and starts its branches, in order, up to its limit.
//!
//! A branch of plain nodes runs on the fast path as it starts. If it ends at once, it never becomes
//! a lane.

use crate::compile::plan::{BranchHeads, Plan, PlanFanOut};
use crate::context::events::RunEvent;
use crate::define::fan_out::Merge;
use crate::engine::fan_out::branches::{Branches, OpenFanOut};
use crate::engine::fan_out::join::{JoinStep, fork_of};
use crate::engine::fast_path::FastPathEnd;
use crate::engine::lane::{Lane, Phase};
use crate::engine::plain_run::PlainFork;
use crate::engine::step::Turn;
use crate::engine::{Engine, ROOT};
use crate::error::{During, RunError};
use crate::token::{BranchPath, TokenId};
use pleach_core::catch_panic;
use std::num::NonZeroU32;
use std::task::Context;

/// A fan-out that a plain run has begun, and how the fast path of its current branch ended.
pub(in crate::engine) struct BegunFork<S> {
    pub(in crate::engine) fork: PlainFork<S>,
    pub(in crate::engine) ended: FastPathEnd<S>,
}

impl<S: Send + 'static> Engine<S> {
    /// Starts a fan-out after a completed node, whose commit has this sequence number. For a `map`
    /// the states may be known.
    pub(in crate::engine) fn fork_from(
        &mut self,
        plan: &Plan<S>,
        parent: usize,
        (sequence, items): (u64, Option<Vec<S>>),
        cx: &mut Context<'_>,
    ) -> JoinStep<S> {
        let items = items.map(|items| (items.len(), items));
        let place = match self.open_fan_out(plan, parent, sequence, items) {
            Ok(place) => place,
            Err(error) => return JoinStep::To(parent, Err(error)),
        };
        if let Some(hooks) = &self.stepper.hooks
            && let Some(OpenFanOut { node, total, before, .. }) =
                self.branches.as_mut().and_then(|branches| branches.opened(place))
        {
            let node = self.stepper.graph_cx.name(*node);
            hooks.call(&RunEvent::Forked {
                run: self.stepper.graph_cx.run().known_id(),
                node,
                branches: *total,
                state: before,
            });
        }
        match self.run_on_fast_path(plan, place, cx) {
            JoinStep::Stay => self.start_branches(plan, place),
            step => step,
        }
    }

    /// Opens a fan-out without starting a branch. Returns its index. For a `map`, `items` has the
    /// number of branches and the states of those to start, if they are known.
    pub(in crate::engine) fn open_fan_out(
        &mut self,
        plan: &Plan<S>,
        parent: usize,
        sequence: u64,
        items: Option<(usize, Vec<S>)>,
    ) -> Result<usize, RunError<S>> {
        let lane = self.lane(parent);
        let (node, path, iteration) = (lane.at, lane.path.fan_out(sequence), lane.iteration);
        let before = lane.state.take().expect("a lane that forks has its state");
        let PlanFanOut { heads, options, .. } = fork_of(plan, node);
        let spawned = lane.spawned || options.spawned;
        let (total, items) = match (heads, items) {
            (BranchHeads::Each(heads, _), _) => (heads.len(), None),
            (BranchHeads::Map(..), Some((total, items))) => (total, Some(items.into_iter())),
            (BranchHeads::Map(_, items), None) => match catch_panic(|| items(&before)) {
                Ok(items) => (items.len(), Some(items.into_iter())),
                Err(reason) => return Err(self.panicked(node, During::Split, &reason, Some(before))),
            },
        };
        let timer = match options.timeout.map(|timeout| (timeout, self.stepper.graph_cx.run().runtime())) {
            None => None,
            Some((timeout, Ok(runtime))) => Some(runtime.sleep_until(runtime.now() + timeout)),
            Some((_, Err(fault))) => return Err(RunError::new(fault, Some(before))),
        };
        let ended = (0..total).map(|_| None).collect();
        let open = OpenFanOut {
            node,
            parent,
            sequence,
            path,
            spawned,
            before,
            items,
            total,
            started: 0,
            running: 0,
            lanes: Vec::new(),
            iteration,
            restored: Vec::new(),
            ended,
            first_error: None,
            timer,
            closing: None,
        };
        let place = self.branches.get_or_insert_with(Branches::new).open(open);
        self.lane(parent).phase = Phase::Forked(place);
        Ok(place)
    }

    /// Starts as many branches as the limit allows. Joins the fan-out if all have ended.
    pub(in crate::engine) fn start_branches(&mut self, plan: &Plan<S>, place: usize) -> JoinStep<S> {
        let open = self.opened(place);
        let limit = fork_of(plan, open.node).options.limit.unwrap_or(open.total);
        let at_once = limit.saturating_sub(open.running).min(open.unstarted());
        if at_once > 0 {
            self.branches.get_or_insert_with(Branches::new).reserve(place, at_once);
        }
        for _ in 0..at_once {
            if let Err(error) = self.start_branch(plan, place) {
                return self.fail_fan_out(place, error);
            }
        }
        let open = self.opened(place);
        if open.running == 0 && open.unstarted() == 0 { self.join(plan, place) } else { JoinStep::Stay }
    }

    /// Starts the next branch of a fan-out.
    pub(in crate::engine) fn start_branch(&mut self, plan: &Plan<S>, place: usize) -> Result<(), RunError<S>> {
        let lane = self.next_branch(plan, place)?;
        let branches = self.branches.get_or_insert_with(Branches::new);
        let number = branches.add(lane);
        branches.queue.push_back(number);
        Ok(())
    }

    /// Creates the lane of the next branch.
    fn next_branch(&mut self, plan: &Plan<S>, place: usize) -> Result<Lane<S>, RunError<S>> {
        let parent = self.opened(place).parent;
        let iteration = self.lane(parent).iteration;
        let open = self.opened(place);
        open.skip_restored();
        let (node, sequence, branch) = (open.node, open.sequence, open.started);
        let PlanFanOut { heads, join, .. } = fork_of(plan, node);
        let (head, state) = match heads {
            BranchHeads::Each(heads, clone) => (heads[branch], catch_panic(|| clone(&open.before))),
            BranchHeads::Map(head, _) => {
                let next = open.items.as_mut().and_then(Iterator::next);
                (*head, Ok(next.expect("a map has an item for each branch")))
            }
        };
        let state = match state {
            Ok(state) => state,
            Err(reason) => return Err(self.panicked(node, During::CloneState, &reason, None)),
        };
        open.started += 1;
        open.running += 1;
        let branch = branch as u32;
        let path = BranchPath::branch_of(&open.path, branch);
        let mut lane = Lane::new(head, Some(state), TokenId { sequence, branch }, path, *join);
        lane.fan_out = NonZeroU32::new(place as u32 + 1);
        (lane.spawned, lane.iteration) = (open.spawned, iteration);
        Ok(lane)
    }

    /// Runs new branches on the fast path, as many as the limit allows.
    fn run_on_fast_path(&mut self, plan: &Plan<S>, place: usize, cx: &mut Context<'_>) -> JoinStep<S> {
        let open = self.opened(place);
        let options = &fork_of(plan, open.node).options;
        let limit = options.limit.unwrap_or(open.total);
        if open.spawned || self.stepper.needs_full_path {
            return JoinStep::Stay;
        }
        loop {
            let open = self.opened(place);
            if open.unstarted() == 0 || open.running >= limit {
                return JoinStep::Stay;
            }
            let mut lane = match self.next_branch(plan, place) {
                Ok(lane) => lane,
                Err(error) => return self.fail_fan_out(place, error),
            };
            let turn = self.stepper.fast_path(plan, &mut lane, cx);
            if let Some(step) = self.add_branch(plan, place, lane, turn) {
                return step;
            }
        }
    }

    /// Adds a branch after its fast path. Returns the next step if no further branch may start.
    fn add_branch(&mut self, plan: &Plan<S>, place: usize, mut lane: Lane<S>, turn: Option<Turn<S>>) -> Option<JoinStep<S>> {
        if let Some(Turn::Arrived) = turn {
            // The commit of its arrival.
            self.stepper.graph_cx.run().next_sequence();
            let open = self.opened(place);
            open.running -= 1;
            open.iteration = open.iteration.max(lane.iteration);
            open.ended[lane.token.branch as usize] = lane.state.take().map(Ok);
            return None;
        }
        let branches = self.branches.get_or_insert_with(Branches::new);
        if let Some(Turn::Forks(sequence, _)) = turn {
            lane.phase = Phase::Forking(sequence);
        }
        let number = branches.add(lane);
        match turn {
            Some(Turn::Failed(error)) => {
                let options = &fork_of(plan, self.opened(place).node).options;
                let cuts_off = options.fail_fast && matches!(options.merge, Merge::States(_));
                let ends_all = cuts_off || error.fault().ends_run();
                return Some(match if ends_all { JoinStep::Stay } else { self.start_branches(plan, place) } {
                    JoinStep::Stay => JoinStep::To(number, Err(error)),
                    step => step,
                });
            }
            // It has registered the waker of the run. If each lane has its own waker, it must
            // register that one too.
            Some(Turn::Waits) if !branches.is_wide() => {}
            _ => branches.queue.push_back(number),
        }
        None
    }

    /// Opens the fan-out that a plain run has begun, and continues with the branch that has
    /// stopped.
    pub(super) fn continue_fork(&mut self, plan: &Plan<S>, begun: BegunFork<S>, cx: &mut Context<'_>) -> JoinStep<S> {
        let BegunFork { fork, ended } = begun;
        let PlainFork { sequence, before, items, total, ended: arrived, iteration, mut branch } = fork;
        self.root.state = Some(before);
        let place = match self.open_fan_out(plan, ROOT, sequence, items.map(|items| (total, items.collect()))) {
            Ok(place) => place,
            Err(error) => return JoinStep::To(ROOT, Err(error)),
        };
        let open = self.opened(place);
        (open.started, open.running, open.iteration) = (arrived.len() + 1, 1, iteration);
        open.ended.iter_mut().zip(arrived).for_each(|(ended, state)| *ended = Some(Ok(state)));
        branch.path = BranchPath::branch_of(&open.path, branch.token.branch);
        branch.fan_out = NonZeroU32::new(place as u32 + 1);
        let turn = match ended {
            FastPathEnd::Stopped if self.stepper.needs_full_path => None,
            // A node that takes a context. The branch continues before the next one starts.
            FastPathEnd::Stopped => self.stepper.fast_path(plan, &mut branch, cx),
            ended => self.stepper.finish_fast_path(plan, &mut branch, ended),
        };
        let step = self.add_branch(plan, place, branch, turn).unwrap_or_else(|| self.run_on_fast_path(plan, place, cx));
        match step {
            JoinStep::Stay => self.start_branches(plan, place),
            step => step,
        }
    }
}
