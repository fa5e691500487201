//! [`Engine`]: executes a run as one future. It owns the lanes and the open fan-outs, and polls
//! the ready ones.
//!
//! Read in this order: `lane`, `step`, `attempt`, `fast_path`, `plain_run`, `poll_slice`, `retry`,
//! `undo_payload`, `fan_out`, then `records` and `commits` for stored runs, and `completion` for
//! the end of a run.
//!
//! Invariants:
//! 1. A state is in exactly one place: in a lane, in its node, or in the fan-out that split it.
//! 2. While a fan-out is open, the lane that forked waits for it, and so does every lane above. So
//!    the root lane runs only when no fan-out is open.
//! 3. A step is committed before anything follows it.
//! 4. User code is called, polled and dropped inside `catch_panic`.
//! 5. When the engine waits, every lane has registered a waker, and so has the engine with the
//!    token of the run.
//!
//! The engine has no lock. Lanes, fan-outs and the committer belong to the polling task.

mod attempt;
mod commands;
mod commits;
mod completion;
mod fan_out;
mod fast_path;
mod grace;
mod grace_step;
mod interrupted;
mod lane;
mod lane_waits;
mod parked;
mod plain_run;
#[cfg(test)]
mod plain_run_model;
mod poll_slice;
pub(crate) mod records;
mod restore;
mod retry;
mod spawned;
mod step;
mod subgraph;
mod undo;
mod undo_payload;
pub(crate) mod undo_stored;

use crate::compile::plan::Plan;
use crate::context::events::Hooks;
use crate::context::run_context::{GraphContext, RunContext};
use crate::define::shape::Target;
use crate::engine::completion::CompletionStage;
use crate::engine::fan_out::branches::Branches;
use crate::engine::fan_out::start::BegunFork;
use crate::engine::fast_path::{Counts, FastPathEnd};
use crate::engine::grace::GraceLanes;
use crate::engine::lane::{AfterCommit, Committing, Lane, Phase};
use crate::engine::plain_run::{PlainFork, StopAt};
use crate::engine::poll_slice::PollSlice;
use crate::engine::records::StepWriter;
use crate::engine::step::{Stepper, Turn};
use crate::error::{During, Outcome, PanicError, RunError, RunFault, StoredFault};
use crate::log::committer::Committer;
pub(crate) use fast_path::VisitLimits;
pub(crate) use plain_run::{PlainPoll, PlainRun, PlainStop};
use pleach_core::{Cancelled, Cause, Reason, catch_panic};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The number of nodes that a run visits in one poll before it yields to other tasks: 256.
///
/// A run whose clock says that they took less than 100 µs continues for that long.
pub const STEPS_PER_POLL_MAX: u32 = 256;

/// The number of reports of its committer that a run handles in one poll before it yields. A commit
/// can block the thread.
const COMMITS_PER_POLL_MAX: u32 = 16;

/// The most panics that an error keeps besides its fault.
const PANICS_KEPT_MAX: usize = 16;

/// The number of the lane in which a run starts. Branches have higher numbers.
const ROOT: usize = 0;

pub(crate) struct Engine<S> {
    plan: Arc<Plan<S>>,
    stepper: Stepper<S>,
    root: Lane<S>,
    /// `None` until the run has fanned out for the first time.
    branches: Option<Box<Branches<S>>>,
    /// The fan-out at the root that a [`PlainRun`] has begun, until it is opened.
    begun: Option<Box<BegunFork<S>>>,
    cancelled: Option<Cancelled>,
    /// Nodes that continue after a cancel.
    graces: Option<Box<GraceLanes<S>>>,
    /// The stage after the last step. Boxed, because most polls come before it.
    stage: Option<Box<CompletionStage<S>>>,
    /// Writes the log, in the root engine of a stored run.
    committer: Option<Box<Committer>>,
    /// The end of a stored run is decided. Later commands are taken from the inbox without effect.
    is_ending: bool,
    panics: Vec<PanicError>,
}

/// The run options that the engine reads.
pub(crate) struct EngineSetup<S> {
    pub(crate) start: u32,
    pub(crate) hooks: Option<Hooks<S>>,
    pub(crate) clone_state: Option<fn(&S) -> S>,
    pub(crate) steps_per_poll: u32,
    pub(crate) step_writer: Option<Arc<StepWriter<S>>>,
}

impl<S: Send + 'static> Engine<S> {
    /// Creates the engine of a run without tree, store and hooks, at the place of its root.
    #[inline(always)]
    fn plain(plan: Arc<Plan<S>>, limits: VisitLimits, slice: PollSlice, counts: Counts, root: Lane<S>) -> Self {
        let VisitLimits { iterations_max, visits_max } = limits;
        let (visits, sequence, many_threads) = (counts.visits.into(), counts.sequence.into(), plan.needs.threads);
        let run = RunContext { iterations_max, visits_max, many_threads, visits, sequence, ..RunContext::default() };
        // The only allocation comes first, so that the engine is then built in place.
        let graph_cx = Arc::new(GraphContext::of_run(Arc::clone(&plan.names), run));
        let stepper = Stepper {
            graph_cx,
            hooks: None,
            clone_state: None,
            step_writer: None,
            needs_full_path: many_threads,
            slice,
            steps_left: counts.steps_left,
        };
        Self::with(plan, stepper, root)
    }

    pub(crate) fn new(plan: Arc<Plan<S>>, graph_cx: GraphContext, setup: EngineSetup<S>, state: S) -> Self {
        // The first sequence number of a stored run is that of its first record.
        let root = Lane::root(setup.start, graph_cx.run().next_sequence(), Some(state));
        Self::with(plan, Stepper::new(graph_cx, setup), root)
    }

    /// Creates the engine of a stored run. A resumed run has no state until `restore`.
    pub(crate) fn stored(
        plan: Arc<Plan<S>>,
        graph_cx: GraphContext,
        setup: EngineSetup<S>,
        state: Option<S>,
        committer: Committer,
    ) -> Self {
        let root = Lane::root(setup.start, 1, state);
        let mut engine = Self::with(plan, Stepper::new(graph_cx, setup), root);
        engine.committer = Some(Box::new(committer));
        engine
    }

    #[inline(always)]
    fn with(plan: Arc<Plan<S>>, stepper: Stepper<S>, root: Lane<S>) -> Self {
        Self {
            plan,
            stepper,
            root,
            branches: None,
            begun: None,
            cancelled: None,
            graces: None,
            stage: None,
            committer: None,
            is_ending: false,
            panics: Vec::new(),
        }
    }

    /// Fast path: runs plain nodes if the run is before one and no branch is open.
    #[inline]
    fn fast_path(&mut self, cx: &mut Context<'_>) -> Option<Turn<S>> {
        let is_free =
            !self.stepper.needs_full_path && self.branches.is_none() && self.cancelled.is_none() && self.stage.is_none();
        let is_before_node = is_free && matches!(self.root.phase, Phase::Start) && self.root.state.is_some();
        if is_before_node { self.stepper.fast_path(&self.plan, &mut self.root, cx) } else { None }
    }

    /// Continues a plain run from where it has stopped.
    fn take_over(&mut self, stop: StopAt<S>, fork: Option<PlainFork<S>>, cx: &mut Context<'_>) -> Poll<Outcome<S>> {
        let plan = Arc::clone(&self.plan);
        let turn = match (stop, fork) {
            (StopAt::FanOut(fault), fork) => {
                self.drop_values(self.root.at, || drop(fork));
                Some(Turn::Failed(RunError::new(fault, self.root.state.take())))
            }
            (StopAt::Lane(ended), Some(fork)) => {
                let sequence = fork.sequence;
                self.begun = Some(Box::new(BegunFork { fork, ended }));
                Some(Turn::Forks(sequence, None))
            }
            (StopAt::Lane(FastPathEnd::Stopped), None) => None,
            (StopAt::Lane(ended), None) => self.stepper.finish_fast_path(&plan, &mut self.root, ended),
        };
        self.poll_from(turn, cx)
    }

    /// Continues the run from where the fast path ended, up to the end of its last stage.
    fn poll_from(&mut self, fast_path: Option<Turn<S>>, cx: &mut Context<'_>) -> Poll<Outcome<S>> {
        if self.stage.is_none() {
            let outcome = std::task::ready!(self.poll_run(fast_path, cx));
            if let Some(outcome) = self.end(outcome) {
                return Poll::Ready(outcome);
            }
        }
        self.poll_stage(cx)
    }

    fn poll_run(&mut self, fast_path: Option<Turn<S>>, cx: &mut Context<'_>) -> Poll<Outcome<S>> {
        if let Some(cancelled) = &mut self.cancelled
            && let Poll::Ready(cause) = Pin::new(cancelled).poll(cx)
            && !self.ignores_cancel(&cause)
        {
            return Poll::Ready(Err(self.cancel(cause, None)));
        }
        // Before the run is parked: a parked run would be released without a look at its deadline.
        if self.committer.is_some()
            && let Some(cause) = self.stepper.graph_cx.run().cause()
            && !self.ignores_cancel(&cause)
        {
            return Poll::Ready(Err(self.cancel(cause, None)));
        }
        if let Some(error) = self.apply_commands(cx) {
            return Poll::Ready(Err(error));
        }
        let mut turn = fast_path;
        let mut commits_left = COMMITS_PER_POLL_MAX;
        loop {
            // Also without an open fan-out: one may open in this poll, and stale wakeups would hide
            // its lanes.
            if let Some(branches) = &mut self.branches {
                branches.queue_woken(cx.waker());
            }
            // No node is polled while another driver may have the run.
            if self.holds_lease(cx)
                && let Poll::Ready(outcome) = std::task::ready!(self.poll_lanes(turn.take(), cx))
            {
                return Poll::Ready(outcome);
            }
            match self.poll_committer(cx) {
                Poll::Ready(Some(outcome)) => return Poll::Ready(outcome),
                Poll::Ready(None) if commits_left == 0 => {
                    cx.waker().wake_by_ref();
                    break;
                }
                Poll::Ready(None) => commits_left -= 1,
                Poll::Pending => break,
            }
        }
        self.wait_for_cancel(cx)
    }

    /// Advances every ready lane. Returns `Pending` if the step limit was reached and the task is
    /// woken again, and `Ready(Pending)` if all lanes wait.
    fn poll_lanes(&mut self, mut turn: Option<Turn<S>>, cx: &mut Context<'_>) -> Poll<Poll<Outcome<S>>> {
        loop {
            let ended = if self.is_forked() {
                match self.poll_branches(cx) {
                    Poll::Ready(ended) => ended,
                    Poll::Pending => return Poll::Ready(Poll::Pending),
                }
            } else {
                match turn.take().unwrap_or_else(|| self.stepper.advance(&self.plan, &mut self.root, cx)) {
                    Turn::Arrived => {
                        let state = self.root.state.take().expect("a lane that arrived has its state");
                        return Poll::Ready(Poll::Ready(Ok(state)));
                    }
                    Turn::Failed(error) => return Poll::Ready(Poll::Ready(Err(error))),
                    Turn::Forks(sequence, items) => self.fork(sequence, items, cx),
                    Turn::Waits => return Poll::Ready(Poll::Pending),
                    Turn::StepLimitReached => {
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                }
            };
            if let Some(outcome) = ended {
                return Poll::Ready(Poll::Ready(outcome));
            }
        }
    }

    /// Registers the waker with the token before the run waits. A subgraph is cancelled with its
    /// node.
    fn wait_for_cancel(&mut self, cx: &mut Context<'_>) -> Poll<Outcome<S>> {
        if self.stepper.graph_cx.is_subgraph() {
            return Poll::Pending;
        }
        let Some(token) = self.stepper.graph_cx.run().token.get() else { return Poll::Pending };
        let cancelled = self.cancelled.get_or_insert_with(|| token.cancelled());
        match Pin::new(cancelled).poll(cx) {
            Poll::Ready(cause) if !self.ignores_cancel(&cause) => Poll::Ready(Err(self.cancel(cause, None))),
            _ => Poll::Pending,
        }
    }

    /// Returns whether the last record of a stored run is submitted. The run is finished unless the
    /// store rejects that record.
    fn is_finishing(&self) -> bool {
        let is_last = |committing: &Committing<S>| matches!(committing.then, AfterCommit::Place(Target::End));
        self.committer.is_some() && matches!(&self.root.phase, Phase::Committing(committing) if is_last(committing))
    }

    /// Returns whether a cancel comes too late, because the end of the run is being written. Only a
    /// drop ends that.
    fn ignores_cancel(&self, cause: &Cause) -> bool {
        *cause != Cause::Dropped && self.is_finishing()
    }

    /// Ends the run at its current position. Drops all nodes except those with a cancel grace.
    /// Nodes that a failure interrupts are undone.
    fn cancel(&mut self, cause: Cause, failed: Option<&Arc<StoredFault>>) -> RunError<S> {
        self.drop_all(cause, failed, true)
    }

    fn drop_all(&mut self, cause: Cause, failed: Option<&Arc<StoredFault>>, has_grace: bool) -> RunError<S> {
        if let Some(error) = self.stage.as_mut().and_then(|stage| stage.cancel(&cause)) {
            return error;
        }
        let lane = self.active_lane();
        let (node, was_executing) = (self.stepper.graph_cx.name(lane.at).to_string(), lane.is_executing());
        let mut error = RunError::new(RunFault::Cancelled { node, cause: cause.clone(), was_executing, grace: None }, None);
        if has_grace {
            self.give_grace(None, &cause, failed);
        }
        let (state, cloned) = (self.root.state.take(), self.root.take_cloned_state());
        let before = self.close_all(&cause, failed);
        error.set_state_if_none(|| state.or(cloned).or(before));
        error
    }

    /// Returns the first lane that executes a node, else the first that is at one.
    fn active_lane(&self) -> &Lane<S> {
        let below = self.branches.iter().flat_map(|branches| branches.lanes());
        let mut at_node = below.filter(|lane| !matches!(lane.phase, Phase::Forked(_))).peekable();
        let first = at_node.peek().copied();
        at_node.find(|lane| lane.is_executing()).or(first).unwrap_or(&self.root)
    }

    /// Ends all lanes, and returns the state before the outermost fan-out. Nodes that a failure
    /// interrupts are undone.
    fn close_all(&mut self, cause: &Cause, failed: Option<&Arc<StoredFault>>) -> Option<S> {
        let before = match self.root.phase {
            Phase::Forked(place) => self.close(place, cause, failed),
            _ => None,
        };
        if let Some(fault) = failed {
            let plan = Arc::clone(&self.plan);
            self.stepper.save_interrupted(&plan, &self.root, fault);
        }
        if let Err(reason) = self.stepper.abandon(&mut self.root, cause) {
            self.note_panic(self.root.at, During::Node, &reason);
        }
        before
    }

    /// Drops a lane that has not ended. If a failure interrupts it, its visit is undone.
    fn drop_lane(&mut self, mut lane: Lane<S>, cause: &Cause, failed: Option<&Arc<StoredFault>>) {
        let at = lane.at;
        match (failed, &lane.visit) {
            (Some(fault), _) => {
                let plan = Arc::clone(&self.plan);
                self.stepper.save_interrupted(&plan, &lane, fault);
                self.stepper.await_task_end(&lane);
            }
            (None, Some(visit)) => visit.records.abandon(None),
            (None, None) => {}
        }
        if let Err(reason) = self.stepper.abandon(&mut lane, cause) {
            self.note_panic(at, During::Node, &reason);
        }
        self.drop_values(at, || drop(lane));
    }

    fn drop_values(&mut self, at: u32, values: impl FnOnce()) {
        if let Err(reason) = catch_panic(values) {
            self.note_panic(at, During::Node, &reason);
        }
    }

    fn note_panic(&mut self, at: u32, during: During, reason: &Reason) {
        if self.panics.len() < PANICS_KEPT_MAX {
            self.panics.push(PanicError::new(self.stepper.graph_cx.name(at).to_string(), during, reason));
        }
    }
}

/// The engine pins nothing in place: futures of nodes are boxed.
impl<S> Unpin for Engine<S> {}

impl<S: Send + 'static> Future for Engine<S> {
    type Output = Outcome<S>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome<S>> {
        let this = self.get_mut();
        this.stepper.steps_left = this.stepper.slice.begin();
        let fast_path = match this.fast_path(cx) {
            // The fast path leaves nothing to commit or release.
            Some(Turn::Arrived) => return Poll::Ready(Ok(this.root.state.take().expect("a lane that arrived has its state"))),
            fast_path => fast_path,
        };
        this.poll_from(fast_path, cx)
    }
}
