//! [`GraceLanes`]: nodes that use their cancel grace after the run or their branch was cancelled.
//!
//! The lane of such a node is removed from the frontier. The node is polled until it returns or its
//! grace ends.
//!
//! Invariants:
//! 1. Nothing follows a node in its grace: its result is committed, but its router does not run.
//! 2. A cancelled fan-out, or run, ends after the last of its nodes in grace.
//! 3. A node in its grace is polled only after it was woken.

use crate::compile::plan::Plan;
use crate::engine::fan_out::branches::{Branches, ClosingFanOut};
use crate::engine::fan_out::join::JoinStep;
use crate::engine::fan_out::wakeups::{LaneWaker, Wakeups};
use crate::engine::lane::{AttemptGrace, Lane, Phase};
use crate::engine::{Engine, ROOT};
use crate::error::{GraceEnd, Outcome, RunError, RunFault, StoredFault};
use crate::log::committer::RunActivity;
use crate::util::work_count;
use pleach_core::{BoxFuture, Cause};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

pub(super) struct GraceLanes<S> {
    lanes: Vec<Option<LaneInGrace<S>>>,
    /// The number of lanes that have not ended.
    left: usize,
    /// Lanes that were not polled yet.
    unpolled: Vec<usize>,
    wakeups: Arc<Wakeups>,
    /// The run ends after these lanes.
    is_run: bool,
    /// The lane with the worst end, and the last state of the root lane.
    worst: Option<(usize, GraceUse)>,
    state: Option<S>,
    /// The error if the result of a node could not be stored and the run ends with that node. In a
    /// cancelled fan-out such a node counts as failed.
    lost: Option<RunError<S>>,
}

/// One node in its grace.
pub(super) struct LaneInGrace<S> {
    pub(super) lane: Lane<S>,
    pub(super) timer: BoxFuture<'static, ()>,
    pub(super) cause: Cause,
    /// The failure that interrupted it, if any.
    pub(super) fault: Option<Arc<StoredFault>>,
    /// The fan-out that waits for it; `None` for the run.
    pub(super) fan_out: Option<usize>,
}

/// How a node used its grace. The node may be inside a subgraph.
pub(super) struct GraceUse {
    pub(super) node: String,
    pub(super) was_executing: bool,
    pub(super) end: Option<GraceEnd>,
}

impl<S> Default for GraceLanes<S> {
    fn default() -> Self {
        let (worst, state, lost) = (None, None, None);
        Self { lanes: Vec::new(), left: 0, unpolled: Vec::new(), wakeups: Arc::default(), is_run: false, worst, state, lost }
    }
}

impl<S> GraceLanes<S> {
    /// Adds a lane and returns its number.
    fn add(&mut self, one: LaneInGrace<S>) -> usize {
        let number = self.lanes.len();
        self.unpolled.push(number);
        self.lanes.push(Some(one));
        self.left += 1;
        number
    }

    /// Makes the run wait for all lanes. Returns their numbers.
    fn move_all_to_run(&mut self) -> Vec<usize> {
        work_count::count(self.lanes.len() as u64);
        let lanes = self.lanes.iter_mut().enumerate().filter_map(|(number, one)| Some((number, one.as_mut()?)));
        let moved = lanes.map(|(number, one)| {
            one.fan_out = None;
            number
        });
        moved.collect()
    }

    /// Makes the fan-out `to` wait for the lanes of the fan-out `from`. Returns the numbers of
    /// the lanes that have not ended.
    fn move_to(&mut self, from: usize, numbers: &[usize], to: usize) -> Vec<usize> {
        work_count::count(numbers.len() as u64);
        let mut moved = Vec::new();
        for number in numbers {
            // After all lanes have ended, numbers are used again: check that it is the same lane.
            let one = self.lanes.get_mut(*number).and_then(Option::as_mut).filter(|one| one.fan_out == Some(from));
            if let Some(one) = one {
                one.fan_out = Some(to);
                moved.push(*number);
            }
        }
        moved
    }

    /// Returns the lanes to poll now, and registers `task` for the next wakeup.
    fn take_woken(&mut self, task: &Waker) -> Vec<usize> {
        let mut numbers = std::mem::take(&mut self.unpolled);
        numbers.append(&mut self.wakeups.take(task));
        numbers
    }

    fn note(&mut self, number: usize, used: GraceUse) {
        let is_worse = |(known, worst): &(usize, GraceUse)| used.end > worst.end || (used.end == worst.end && number < *known);
        if self.worst.as_ref().is_none_or(is_worse) {
            self.worst = Some((number, used));
        }
    }
}

impl<S: Send + 'static> Engine<S> {
    pub(super) fn is_in_grace(&self) -> bool {
        self.graces.as_ref().is_some_and(|graces| graces.left > 0)
    }

    /// Returns whether the run is ending and nodes use their grace.
    pub(super) fn is_run_in_grace(&self) -> bool {
        self.is_in_grace() && self.ends_after_graces()
    }

    /// Returns whether the run ends after the graces, the last of which may just have ended.
    pub(super) fn ends_after_graces(&self) -> bool {
        self.graces.as_ref().is_some_and(|graces| graces.is_run)
    }

    /// Starts the grace of all executing nodes below a fan-out, or in the whole run. Returns their
    /// numbers.
    pub(super) fn give_grace(&mut self, below: Option<usize>, cause: &Cause, failed: Option<&Arc<StoredFault>>) -> Vec<usize> {
        if self.plan.needs.grace.is_none() || *cause == Cause::Dropped {
            return Vec::new();
        }
        let mut graces = self.graces.take().unwrap_or_default();
        graces.is_run |= below.is_none();
        let (lanes, places) = self.branches.as_ref().map(|branches| lanes_below(branches, below)).unwrap_or_default();
        let mut given = match below {
            None => graces.move_all_to_run(),
            // Includes lanes that an inner fan-out waited for.
            Some(below) => {
                let branches = self.branches.as_ref();
                let moved = |place| graces.move_to(place, branches.map_or(&[], |branches| branches.in_grace_of(place)), below);
                places.into_iter().flat_map(moved).collect()
            }
        };
        let root = below.is_none().then_some(ROOT);
        for number in lanes.into_iter().chain(root) {
            if let Some(lane) = self.take_lane_with_grace(number) {
                given.push(graces.add(self.begin_grace(lane, (cause, failed), below)));
            }
        }
        self.graces = (graces.left > 0).then_some(graces);
        given
    }

    /// Removes a lane from the frontier if its node is executing and has a grace.
    fn take_lane_with_grace(&mut self, number: usize) -> Option<Lane<S>> {
        if number == ROOT {
            self.root.grace()?;
            let Lane { at, token, join, .. } = self.root;
            let empty = Lane::new(at, None, token, self.root.path.clone(), join);
            return Some(std::mem::replace(&mut self.root, empty));
        }
        let branches = self.branches.as_mut()?;
        branches.get(number)?.grace()?;
        branches.remove(number)
    }

    fn begin_grace(
        &self,
        lane: Lane<S>,
        (cause, failed): (&Cause, Option<&Arc<StoredFault>>),
        fan_out: Option<usize>,
    ) -> LaneInGrace<S> {
        let is_subgraph = self.plan.nodes[lane.at as usize].options.as_ref().is_some_and(|options| options.subgraph.is_some());
        if let (Some(visit), Some(fault)) = (lane.visit.as_ref().filter(|_| is_subgraph), failed) {
            // Before the cancel: nodes that are dropped inside must be undone.
            visit.records.abandon_attempt(lane.attempt, (**fault).clone());
        }
        let AttemptGrace { length, token } = lane.grace().expect("a lane in grace has a grace");
        let timer = token.runtime().sleep_until(token.runtime().now() + *length);
        token.cancel(cause.clone());
        LaneInGrace { lane, timer, cause: cause.clone(), fault: failed.cloned(), fan_out }
    }

    /// Polls the woken lanes. Returns the fan-outs of the ended lanes.
    fn poll_graces(&mut self, plan: &Plan<S>, cx: &Context<'_>) -> Vec<usize> {
        let Some(mut graces) = self.graces.take() else { return Vec::new() };
        let mut waited = Vec::new();
        for number in graces.take_woken(cx.waker()) {
            let Some(one) = &mut graces.lanes[number] else { continue };
            let waker = LaneWaker::waker(number, &graces.wakeups);
            let polled = self.stepper.poll_in_grace(plan, one, &mut Context::from_waker(&waker));
            if let Poll::Ready((used, error)) = polled {
                waited.extend(one.fan_out);
                self.end_grace(&mut graces, number, used, error);
            }
        }
        self.graces = Some(graces);
        waited
    }

    /// Ends a lane whose node returned or whose grace is over.
    fn end_grace(&mut self, graces: &mut GraceLanes<S>, number: usize, used: GraceUse, error: Option<RunError<S>>) {
        let Some(LaneInGrace { mut lane, cause, fault, fan_out, .. }) = graces.lanes[number].take() else { return };
        graces.left -= 1;
        let is_root = lane.fan_out.is_none();
        let at = lane.at;
        let is_done = error.as_ref().is_some_and(|error| matches!(error.fault(), RunFault::Cancelled { .. }));
        if is_done {
            let state = error.and_then(RunError::into_state).or_else(|| lane.state.take());
            graces.state = graces.state.take().or(state.filter(|_| is_root));
            self.drop_values(at, || drop(lane));
        } else {
            let ends_run = |error: &RunError<S>| fan_out.is_none() && error.fault().ends_run();
            graces.lost = graces.lost.take().or(error.filter(ends_run));
            graces.state = graces.state.take().or_else(|| lane.take_cloned_state().filter(|_| is_root));
            self.drop_lane(lane, &cause, fault.as_ref());
        }
        graces.note(number, used);
    }

    /// Polls lanes in grace, and ends the fan-outs whose last one has ended.
    pub(super) fn poll_closing(&mut self, plan: &Plan<S>, cx: &Context<'_>) -> Option<Outcome<S>> {
        // The end of a fan-out may start graces in the one around it. They are polled here too, so
        // that each registers a waker.
        loop {
            let ended = self.poll_graces(plan, cx);
            if ended.is_empty() {
                break;
            }
            let outcome = self.close_ended(plan, ended);
            if outcome.is_some() {
                return outcome;
            }
        }
        if !self.is_in_grace() {
            self.graces = None;
        }
        None
    }

    /// Ends those of the given fan-outs that have no lane in grace any more.
    fn close_ended(&mut self, plan: &Plan<S>, ended: Vec<usize>) -> Option<Outcome<S>> {
        for place in ended {
            let open = self.branches.as_mut().and_then(|branches| branches.opened(place));
            let Some(closing) = open.and_then(|open| open.closing.as_mut()) else { continue };
            closing.left -= 1;
            if closing.left > 0 {
                continue;
            }
            let closing = self.opened(place).closing.take();
            let step = match closing.and_then(|closing| closing.error) {
                Some(error) => self.fail_fan_out(place, error),
                None => self.time_out(plan, place),
            };
            let outcome = self.propagate(plan, step);
            if outcome.is_some() {
                return outcome;
            }
        }
        None
    }

    /// Keeps a fan-out open for its nodes in grace. Its other branches are gone.
    pub(super) fn close_later(&mut self, place: usize, closing: ClosingFanOut<S>) -> JoinStep<S> {
        let node = self.opened(place).node;
        let unstarted = self.branches.as_mut().and_then(|branches| branches.close_later(place, closing));
        self.drop_values(node, || drop(unstarted));
        JoinStep::Stay
    }

    /// Ready when no node of an ending run is in its grace, or with the error of the committer.
    pub(super) fn poll_run_grace(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RunError<S>>> {
        let plan = Arc::clone(&self.plan);
        loop {
            if self.stepper.graph_cx.run().cause() == Some(Cause::Dropped) {
                self.drop_in_grace();
            }
            if self.holds_lease(cx) {
                self.poll_graces(&plan, cx);
            }
            // Also after the last lane: the commit of its result may fail.
            if let Some(Poll::Ready(event)) = self.committer.as_mut().map(|committer| committer.poll(cx, RunActivity::Busy)) {
                if let Some(error) = self.on_committer_event(event) {
                    self.drop_in_grace();
                    self.graces = None;
                    return Poll::Ready(Err(error));
                }
                continue;
            }
            return if self.is_in_grace() { Poll::Pending } else { Poll::Ready(Ok(())) };
        }
    }

    /// Drops all nodes in grace before their time.
    pub(super) fn drop_in_grace(&mut self) {
        let Some(mut graces) = self.graces.take() else { return };
        for number in 0..graces.lanes.len() {
            let Some(one) = &graces.lanes[number] else { continue };
            let used = self.stepper.grace_use(&one.lane, GraceEnd::Dropped);
            self.end_grace(&mut graces, number, used, None);
        }
        self.graces = Some(graces);
    }

    /// Adds the use of the graces to the error of the run.
    pub(super) fn with_grace(&mut self, mut error: RunError<S>) -> RunError<S> {
        let Some(graces) = self.graces.take() else { return error };
        let GraceLanes { worst, state, lost, .. } = *graces;
        if let Some(mut lost) = lost {
            lost.set_state_if_none(|| state);
            return lost;
        }
        if let Some((_, GraceUse { node, was_executing, end })) = worst {
            error.set_grace(node, was_executing, end);
        }
        error.set_state_if_none(|| state);
        error
    }

    /// Ends the run at once, without grace.
    pub(crate) fn cancel_now(&mut self, cause: Cause) -> RunError<S> {
        let error = self.drop_all(cause, None, false);
        self.drop_in_grace();
        self.with_grace(error)
    }

    /// Cancels a subgraph with its node, because of `fault` if that is given. Returns the outcome
    /// if no node inside has a grace.
    pub(super) fn cancel_inside(&mut self, cause: Cause, fault: Option<Arc<StoredFault>>) -> Option<Outcome<S>> {
        if self.stage.is_some() {
            return None;
        }
        let error = self.cancel(cause, fault.as_ref());
        self.end(Err(error))
    }
}

/// Returns the numbers of the lanes below a fan-out, and all fan-outs there. Without a fan-out: all
/// lanes.
fn lanes_below<S: Send + 'static>(branches: &Branches<S>, below: Option<usize>) -> (Vec<usize>, Vec<usize>) {
    let Some(place) = below else { return ((1..=branches.places()).collect(), Vec::new()) };
    let (mut numbers, mut places, mut to_look_at) = (Vec::new(), Vec::new(), vec![place]);
    while let Some(place) = to_look_at.pop() {
        places.push(place);
        for number in branches.lanes_of(place) {
            match branches.get(number).map(|lane| &lane.phase) {
                Some(Phase::Forked(inside)) => to_look_at.push(*inside),
                _ => numbers.push(number),
            }
        }
    }
    (numbers, places)
}
