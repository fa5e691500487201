//! `Engine`: a run, as one future. It owns the frontier (the lanes) and the open fan-outs, and polls what is ready.
//!
//! Invariants:
//! 1. A state is in exactly one place: with a lane, with its node, or with the fan-out that it was split for.
//! 2. While a fan-out is open, the lane that forked waits for it, and so does every lane above. So
//!    the root lane runs only when no fan-out is open.
//! 3. A step is committed before anything follows it.
//! 4. User code is called, polled and dropped inside `catch_panic`.
//! 5. When the engine waits, every lane has left a waker, and the token of the run has one too.

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
pub(crate) mod records;
mod restore;
mod retry;
mod spawned;
mod step;
mod subgraph;
mod undo;
pub(crate) mod undo_stored;

use crate::compile::plan::Plan;
use crate::context::events::{Hooks, InnerEvent, RunEvent};
use crate::context::run_context::{GraphContext, RunContext};
use crate::define::shape::Target;
use crate::engine::completion::CompletionStage;
use crate::engine::fan_out::branches::Branches;
use crate::engine::grace::GraceLanes;
use crate::engine::lane::{AfterCommit, Committing, Lane, Phase};
use crate::engine::records::StepWriter;
use crate::engine::step::{Stepper, Turn};
use crate::error::{During, Outcome, PanicError, RunError, RunFault, StoredFault};
use crate::log::committer::Committer;
use crate::token::{BranchPath, TokenId};
use pleach_core::{Cancelled, Cause, Reason, catch_panic};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// How many nodes a run visits before it lets others run, if none of them waits.
pub const STEPS_PER_POLL_MAX: u32 = 256;

/// How many panics are kept besides the fault of the run.
const PANICS_KEPT_MAX: usize = 16;

/// The number of the lane in which a run begins; those of branches follow.
const ROOT: usize = 0;

pub(crate) struct Engine<S> {
    plan: Arc<Plan<S>>,
    stepper: Stepper<S>,
    root: Lane<S>,
    /// There is something in it once the run has fanned out.
    branches: Option<Box<Branches<S>>>,
    cancelled: Option<Cancelled>,
    /// Nodes that run on after a cancel.
    graces: Option<Box<GraceLanes<S>>>,
    /// What follows the last step; in a box, since most runs are far from it.
    stage: Option<Box<CompletionStage<S>>>,
    /// Writes down what happens, at the root of a stored run.
    committer: Option<Box<Committer>>,
    steps_per_poll: u32,
    /// The end of a stored run is decided: commands that arrive from now on are noted, and change nothing.
    is_ending: bool,
    panics: Vec<PanicError>,
}

/// How many nodes a run may visit: one after the other, and in all.
#[derive(Clone, Copy)]
pub(crate) struct VisitLimits {
    pub(crate) iterations_max: u64,
    pub(crate) visits_max: u64,
}

/// What the options of a run leave to the engine.
pub(crate) struct EngineSetup<S> {
    pub(crate) start: u32,
    pub(crate) hooks: Option<Hooks<S>>,
    pub(crate) keep: Option<fn(&S) -> S>,
    pub(crate) steps_per_poll: u32,
    pub(crate) step_writer: Option<Arc<StepWriter<S>>>,
}

impl<S: Send + 'static> Engine<S> {
    /// A run that hangs nowhere and that nobody listens to.
    #[inline(always)]
    pub(crate) fn plain(
        plan: Arc<Plan<S>>,
        limits: VisitLimits,
        keep: Option<fn(&S) -> S>,
        steps_per_poll: u32,
        state: S,
    ) -> Self {
        let (sequence, many_threads) = (1, plan.needs.threads);
        let VisitLimits { iterations_max, visits_max } = limits;
        let run = RunContext { iterations_max, visits_max, many_threads, sequence: sequence.into(), ..RunContext::default() };
        // First the one thing that is allocated: then all else is written where it will lie.
        let graph_cx = Arc::new(GraphContext::of_run(Arc::clone(&plan.names), run));
        let stepper = Stepper { graph_cx, hooks: None, keep, step_writer: None, is_watched: keep.is_some(), share: 0 };
        let start = plan.shape.entry;
        Self::with(plan, stepper, (start, sequence), Some(state), steps_per_poll)
    }

    pub(crate) fn new(plan: Arc<Plan<S>>, graph_cx: GraphContext, setup: EngineSetup<S>, state: S) -> Self {
        // That of a stored run is its first record.
        let at = (setup.start, graph_cx.run().next_sequence());
        let steps_per_poll = setup.steps_per_poll;
        Self::with(plan, Stepper::new(graph_cx, setup), at, Some(state), steps_per_poll)
    }

    /// A run that is stored; a new one has its state, one that is resumed is still to be restored.
    pub(crate) fn stored(
        plan: Arc<Plan<S>>,
        graph_cx: GraphContext,
        setup: EngineSetup<S>,
        state: Option<S>,
        committer: Committer,
    ) -> Self {
        let (start, steps_per_poll) = (setup.start, setup.steps_per_poll);
        let mut engine = Self::with(plan, Stepper::new(graph_cx, setup), (start, 1), state, steps_per_poll);
        engine.committer = Some(Box::new(committer));
        engine
    }

    #[inline(always)]
    fn with(
        plan: Arc<Plan<S>>,
        stepper: Stepper<S>,
        (start, sequence): (u32, u64),
        state: Option<S>,
        steps_per_poll: u32,
    ) -> Self {
        Self {
            plan,
            stepper,
            root: Lane::new(start, state, TokenId { sequence, branch: 0 }, BranchPath::default(), Target::End),
            branches: None,
            cancelled: None,
            graces: None,
            stage: None,
            committer: None,
            steps_per_poll,
            is_ending: false,
            panics: Vec::new(),
        }
    }

    /// Takes a run that nothing is to be taken care of at as far as it goes, if it is before a node and no branch is open.
    #[inline]
    fn fast_path(&mut self, cx: &mut Context<'_>) -> Option<Turn<S>> {
        let is_free = !self.stepper.is_watched && self.branches.is_none() && self.cancelled.is_none() && self.stage.is_none();
        let is_before_node = is_free && matches!(self.root.phase, Phase::Start) && self.root.state.is_some();
        if is_before_node { self.stepper.fast_path(&self.plan, &mut self.root, cx) } else { None }
    }

    /// Takes the run on, from where the fast path ended.
    fn poll_run(&mut self, fast_path: Option<Turn<S>>, cx: &mut Context<'_>) -> Poll<Outcome<S>> {
        if let Some(cancelled) = &mut self.cancelled
            && let Poll::Ready(cause) = Pin::new(cancelled).poll(cx)
            && !self.outlasts(&cause)
        {
            return Poll::Ready(Err(self.cut_off(cause, None)));
        }
        // A run that waits would be given up before it looks at its deadline.
        if self.committer.is_some()
            && let Some(cause) = self.stepper.graph_cx.run().cause()
            && !self.outlasts(&cause)
        {
            return Poll::Ready(Err(self.cut_off(cause, None)));
        }
        if let Some(error) = self.apply_commands(cx) {
            return Poll::Ready(Err(error));
        }
        let mut turn = fast_path;
        loop {
            // Even if no fan-out is open: the next one may open in this poll, and what an earlier one left would keep it asleep.
            if let Some(branches) = &mut self.branches {
                branches.queue_what_waits(cx.waker());
            }
            // No node is polled while another driver may have the run.
            if self.holds_lease(cx)
                && let Poll::Ready(outcome) = std::task::ready!(self.poll_lanes(turn.take(), cx))
            {
                return Poll::Ready(outcome);
            }
            match self.poll_committer(cx) {
                Poll::Ready(Some(outcome)) => return Poll::Ready(outcome),
                Poll::Ready(None) => {}
                Poll::Pending => break,
            }
        }
        self.wait_for_cancel(cx)
    }

    /// Takes every lane as far as it goes. Pending if there is more to do, and the task is woken; ready with pending when all of them wait.
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
                    Turn::Spent => {
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

    /// Before the run waits: whoever cancels it must wake it. A subgraph is cut off with the node that it is.
    fn wait_for_cancel(&mut self, cx: &mut Context<'_>) -> Poll<Outcome<S>> {
        if self.stepper.graph_cx.is_subgraph() {
            return Poll::Pending;
        }
        let Some(token) = self.stepper.graph_cx.run().token.get() else { return Poll::Pending };
        let cancelled = self.cancelled.get_or_insert_with(|| token.cancelled());
        match Pin::new(cancelled).poll(cx) {
            Poll::Ready(cause) if !self.outlasts(&cause) => Poll::Ready(Err(self.cut_off(cause, None))),
            _ => Poll::Pending,
        }
    }

    /// Whether the last record of a stored run is submitted: the run has finished unless the store refuses that record.
    fn is_finishing(&self) -> bool {
        let is_last = |committing: &Committing<S>| matches!(committing.then, AfterCommit::Place(Target::End));
        self.committer.is_some() && matches!(&self.root.phase, Phase::Committing(committing) if is_last(committing))
    }

    /// Whether a cancel comes too late, since the end of the run is being written. Only dropping the run ends that.
    fn outlasts(&self, cause: &Cause) -> bool {
        *cause != Cause::Dropped && self.is_finishing()
    }

    /// Ends the run where it is: but for the nodes that have a grace, all of it is dropped. What a failure cuts off is undone.
    fn cut_off(&mut self, cause: Cause, failed: Option<&Arc<StoredFault>>) -> RunError<S> {
        self.drop_all(cause, failed, true)
    }

    fn drop_all(&mut self, cause: Cause, failed: Option<&Arc<StoredFault>>, has_grace: bool) -> RunError<S> {
        if let Some(error) = self.stage.as_mut().and_then(|stage| stage.cut_off(&cause)) {
            return error;
        }
        let lane = self.foremost();
        let (node, was_executing) = (self.stepper.graph_cx.name(lane.at).to_string(), lane.is_executing());
        let mut error = RunError::new(RunFault::Cancelled { node, cause: cause.clone(), was_executing, grace: None }, None);
        if has_grace {
            self.give_grace(None, &cause, failed);
        }
        let (state, kept) = (self.root.state.take(), self.root.take_kept());
        let before = self.close_all(&cause, failed);
        error.set_state_if_none(|| state.or(kept).or(before));
        error
    }

    /// The first lane that is executing a node, else the first that is at one.
    fn foremost(&self) -> &Lane<S> {
        let below = self.branches.iter().flat_map(|branches| branches.lanes());
        let mut at_a_node = below.filter(|lane| !matches!(lane.phase, Phase::Forked(_))).peekable();
        let first = at_a_node.peek().copied();
        at_a_node.find(|lane| lane.is_executing()).or(first).unwrap_or(&self.root)
    }

    /// Ends all that is left of the run, and gives the state before its outermost fan-out. What a failure cuts off is undone.
    fn close_all(&mut self, cause: &Cause, failed: Option<&Arc<StoredFault>>) -> Option<S> {
        let before = match self.root.phase {
            Phase::Forked(place) => self.close(place, cause, failed),
            _ => None,
        };
        if let Some(fault) = failed {
            let plan = Arc::clone(&self.plan);
            self.stepper.keep_interrupted(&plan, &self.root, fault);
        }
        if let Err(reason) = self.stepper.abandon(&mut self.root, cause) {
            self.note_panic(self.root.at, During::Node, &reason);
        }
        before
    }

    /// Drops a lane that is not at its end. If a failure cuts it off, what it did is undone.
    fn drop_lane(&mut self, mut lane: Lane<S>, cause: &Cause, failed: Option<&Arc<StoredFault>>) {
        let at = lane.at;
        match (failed, &lane.visit) {
            (Some(fault), _) => {
                let plan = Arc::clone(&self.plan);
                self.stepper.keep_interrupted(&plan, &lane, fault);
                self.stepper.expect_gone(&lane);
            }
            (None, Some(visit)) => visit.records.cut_off(None),
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

/// Nothing in it is pinned in place: the futures of nodes have boxes of their own.
impl<S> Unpin for Engine<S> {}

impl<S: Send + 'static> Future for Engine<S> {
    type Output = Outcome<S>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome<S>> {
        let this = self.get_mut();
        this.stepper.share = this.steps_per_poll;
        let fast_path = match this.fast_path(cx) {
            // Nothing was to be taken care of, and nothing is to be let go.
            Some(Turn::Arrived) => return Poll::Ready(Ok(this.root.state.take().expect("a lane that arrived has its state"))),
            fast_path => fast_path,
        };
        if this.stage.is_none() {
            let outcome = std::task::ready!(this.poll_run(fast_path, cx));
            if let Some(outcome) = this.end(outcome) {
                return Poll::Ready(outcome);
            }
        }
        this.poll_stage(cx)
    }
}

impl<S: Send + 'static> Stepper<S> {
    fn new(graph_cx: GraphContext, setup: EngineSetup<S>) -> Self {
        let EngineSetup { hooks, keep, step_writer, .. } = setup;
        // A run that can be told things can be held before any node, and asked what its nodes wait for.
        let is_told = graph_cx.run().run_control().is_some();
        let is_watched = hooks.is_some() || keep.is_some() || step_writer.is_some() || is_told || graph_cx.is_subgraph();
        Self { graph_cx: Arc::new(graph_cx), hooks, keep, step_writer, is_watched, share: 0 }
    }

    /// Takes the attempt away from a lane, and tells that it ended.
    fn abandon(&self, lane: &mut Lane<S>, cause: &Cause) -> Result<(), Reason> {
        let was_executing = lane.is_executing();
        let dropped = lane.put_down();
        if was_executing {
            let reason = || Arc::new(Reason::Error(Box::new(cause.clone())));
            self.tell(
                lane,
                |visit| RunEvent::NodeFinished { visit, outcome: Err(reason()) },
                || InnerEvent::Finished(Some(reason())),
            );
        }
        dropped
    }
}
