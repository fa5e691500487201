//! `Stepper`: the steps of a lane.
//!
//! One step, in this order: is the run spent, is it cancelled, the node, the router on the new state, the commit, and only then
//! the next node. While nothing waits, all of it happens within one poll, with no box but the node's own future.
//!
//! ```text
//!             ┌───────────────────────── next node ──────────────────────┐
//!             ▼                                                          │
//!          Start ──► Attempt ──► Running ──► (policy) ──► leave ─────────┴──► arrived, or forked
//!                       ▲                        │
//!                       └────── Waiting ◄────────┘ try again
//! ```

use crate::compile::plan::{NodeOptions, OutEdge, Plan, PlanNode};
use crate::context::events::{Hooks, InnerEvent, RunEvent, Visit};
use crate::context::run_context::GraphContext;
use crate::context::{NodeContext, NodeDetails};
use crate::define::node::{DeclaredTarget, NodeFn, NodeFuture, RouterFn};
use crate::define::shape::Target;
use crate::engine::lane::{AttemptLimits, AttemptResult, AttemptWork, CancelGrace, Lane, LaneVisit, Phase, RunningAttempt};
use crate::engine::records::StepWriter;
use crate::engine::spawned::Spawned;
use crate::error::{During, RouterError, RunError, RunFault};
use pleach_core::{BoxError, Elapsed, Reason, Refusal, catch_panic};
use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Why a lane goes no further for now.
pub(super) enum Turn<S> {
    /// It waits for something, and has left its waker there.
    Waits,
    /// It has had its share of this poll.
    Spent,
    /// It fans out, and the commit of that was this one. The states that branches of a `map` begin with, if they are known already.
    Forks(u64, Option<Vec<S>>),
    /// It is where it ends.
    Arrived,
    Failed(RunError<S>),
}

/// How a visit of a node ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Visited {
    Done,
    /// It failed, and perhaps the run goes on without it.
    Failed,
    /// It was over before the run was resumed.
    Before,
}

/// What follows a node.
pub(super) enum NextStep<S> {
    To(Target),
    /// A fan-out, of a `map` with these states if they are known.
    Fork(Option<Vec<S>>),
}

/// What a lane needs of its engine while it goes on.
pub(super) struct Stepper<S> {
    pub(super) shared: Arc<GraphContext>,
    pub(super) hooks: Option<Hooks<S>>,
    /// For `keep_state`: how.
    pub(super) keep: Option<fn(&S) -> S>,
    /// Where a stored run writes its steps.
    pub(super) ledger: Option<Arc<StepWriter<S>>>,
    /// Whether somebody wants to know of every step.
    pub(super) is_watched: bool,
    /// How many more nodes may be visited, or tried again, in this poll.
    pub(super) share: u32,
}

impl<S: Send + 'static> Stepper<S> {
    /// Takes a lane as far as it goes.
    pub(super) fn advance(&mut self, plan: &Plan<S>, lane: &mut Lane<S>, cx: &mut Context<'_>) -> Turn<S> {
        loop {
            let stop = &plan.stops[lane.at as usize];
            let ended = match &mut lane.phase {
                Phase::Start => {
                    if self.share == 0 {
                        return Turn::Spent;
                    }
                    if self.is_plain(stop, lane) {
                        match self.sprint(plan, lane, cx) {
                            Some(turn) => return turn,
                            None => continue,
                        }
                    }
                    if self.is_held(cx) {
                        return Turn::Waits;
                    }
                    if let Err(error) = self.enter(lane) {
                        return Turn::Failed(error);
                    }
                    lane.phase = self.before_attempt(lane);
                    continue;
                }
                Phase::Attempt => {
                    if !self.holds_lease(cx) {
                        return Turn::Waits;
                    }
                    if lane.attempt > 1 {
                        if self.share == 0 {
                            return Turn::Spent;
                        }
                        if self.is_held(cx) {
                            return Turn::Waits;
                        }
                        self.share -= 1;
                        // Why the last attempt would have failed, had it not ended otherwise, is nothing to this one.
                        self.shared.run().forget_broken(lane.token);
                        if let Err(error) = self.check_cancel(lane) {
                            return Turn::Failed(error);
                        }
                    }
                    self.begin(stop, lane, cx)
                }
                Phase::Running(running) => match self.poll_running(running, lane.trail.as_deref(), lane.attempt, cx) {
                    Poll::Pending => self.if_broken(lane),
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
                Phase::Leaving => match self.leave(stop, lane, Visited::Before) {
                    Ok(None) => continue,
                    Ok(Some(turn)) => return turn,
                    Err(error) => return Turn::Failed(error),
                },
            };
            let turn = match ended {
                Poll::Pending => return Turn::Waits,
                Poll::Ready(Ok(ended)) => self.settle(stop, lane, ended),
                Poll::Ready(Err(fault)) => Err(RunError::new(fault, lane.take_kept().or_else(|| lane.state.take()))),
            };
            match turn {
                Ok(None) => {}
                Ok(Some(turn)) => return turn,
                Err(error) => return Turn::Failed(error),
            }
        }
    }

    /// The checks before a node.
    pub(super) fn enter(&mut self, lane: &mut Lane<S>) -> Result<(), RunError<S>> {
        let run = self.shared.run();
        let next = |lane: &Lane<S>| self.shared.name(lane.at).to_string();
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
        self.share -= 1;
        Ok(())
    }

    /// Whether no node may start for now; the lane is woken when one may.
    fn is_held(&self, cx: &Context<'_>) -> bool {
        self.shared.run().desk().is_some_and(|desk| desk.holds(cx.waker()))
    }

    /// Whether this driver holds a stored run for certain; else the lane is woken when it does.
    fn holds_lease(&self, cx: &Context<'_>) -> bool {
        self.ledger.as_ref().is_none_or(|ledger| ledger.journal.poll_lease(cx).is_ready())
    }

    pub(super) fn check_cancel(&self, lane: &mut Lane<S>) -> Result<(), RunError<S>> {
        let Some(cause) = self.shared.cause() else { return Ok(()) };
        let node = self.shared.name(lane.at).to_string();
        let fault = RunFault::Cancelled { node, cause, was_executing: false, grace: None };
        Err(RunError::new(fault, lane.state.take()))
    }

    /// A spawned node found no place in the scope of the run, which a cancel has closed since the step began.
    fn refused(&self, lane: &Lane<S>, refusal: Refusal) -> RunFault {
        let cause = self.shared.run().cause();
        let why = cause.clone().map_or_else(|| refusal.to_string().into(), |cause| Box::new(cause) as BoxError);
        let reason = Arc::new(Reason::Error(why));
        let told = Arc::clone(&reason);
        self.tell(lane, |visit| RunEvent::NodeFinished { visit, outcome: Err(told) }, || InnerEvent::Finished(Some(reason)));
        let node = self.shared.name(lane.at).to_string();
        cause.map_or(RunFault::Refused(refusal), |cause| RunFault::Cancelled { node, cause, was_executing: true, grace: None })
    }

    /// Calls the node and polls it for the first time.
    fn begin(
        &mut self,
        stop: &PlanNode<S>,
        lane: &mut Lane<S>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<AttemptResult<S>, RunFault>> {
        let state = lane.state.take().expect("a lane before a node has its state");
        let care = stop.care.as_deref();
        if let Some(keep) = care.and_then(|care| care.policy.keep).or(self.keep)
            && lane.kept.is_none()
        {
            match catch_panic(|| keep(&state)) {
                Ok(kept) => lane.kept = Some(Box::new(kept)),
                Err(reason) => {
                    lane.state = Some(state);
                    return Poll::Ready(Err(self.panicked(lane, During::Split, &reason)));
                }
            }
        }
        self.tell(lane, |visit| RunEvent::NodeStarted { visit, state: &state }, || InnerEvent::Started);

        let mut rare = NodeDetails::default();
        let terms = match care.map(|care| self.terms(care, &mut rare)) {
            Some(Err(fault)) => return Poll::Ready(Err(fault)),
            terms => terms.and_then(Result::ok).flatten(),
        };
        rare.undo_takes = care.and_then(|care| care.undo.as_ref()).map(|undo| undo.takes);
        let is_rare = self.is_watched || care.is_some();
        if is_rare {
            let notes = &lane.trail.get_or_insert_default().notes;
            notes.begin_attempt(lane.attempt);
            rare.notes = OnceLock::from(Arc::clone(notes));
            self.keep_stored(lane, &state);
        }
        if let Some(timeout) = care.and_then(|care| care.policy.timeout).filter(Duration::is_zero) {
            // It expires before the node is called, as a run's does before its first node.
            lane.kept.get_or_insert_with(|| Box::new(state));
            return Poll::Ready(Ok(Err(Reason::Error(Elapsed(timeout).into()))));
        }
        let work = match &stop.call {
            NodeFn::State(call) => catch_panic(|| call(state)),
            NodeFn::Context(call) => {
                let context = self.context(lane, is_rare.then_some(rare));
                catch_panic(|| call(context, state))
            }
        };
        let work = match work {
            Ok(work) => work,
            Err(reason) => return Poll::Ready(Ok(Err(reason))),
        };
        let work = if lane.spawned {
            let (shared, token) = (Arc::clone(&self.shared), lane.token);
            let why_broken = move || shared.run().why_broken(token);
            let grace = care.and_then(|care| care.grace);
            let work = self.noting_polls(work, lane, cx.waker());
            match self.shared.run().scope().map(|scope| Spawned::launch(scope, grace, work, why_broken)) {
                Ok(Ok(spawned)) => AttemptWork::Elsewhere(Box::new(spawned)),
                Ok(Err(refusal)) => return Poll::Ready(Err(self.refused(lane, refusal))),
                Err(fault) => return Poll::Ready(Err(fault)),
            }
        } else {
            AttemptWork::Here(work)
        };
        let mut running = RunningAttempt { work, terms };
        let polled = self.poll_running(&mut running, lane.trail.as_deref(), lane.attempt, cx);
        lane.phase = Phase::Running(running);
        if polled.is_pending() { self.if_broken(lane) } else { polled.map(Ok) }
    }

    /// Polls an attempt. In a stored run its notes say so, unless its node is polled elsewhere.
    fn poll_running(
        &self,
        running: &mut RunningAttempt<S>,
        trail: Option<&LaneVisit>,
        attempt: u32,
        cx: &mut Context<'_>,
    ) -> Poll<AttemptResult<S>> {
        match (trail, self.shared.run().journal()) {
            (Some(trail), Some(journal)) if matches!(running.work, AttemptWork::Here(_)) => {
                trail.notes.poll_node(attempt, journal.last_durable(), cx, |cx| running.poll(cx))
            }
            _ => running.poll(cx),
        }
    }

    /// A node that is polled elsewhere, in whose notes its polls are noted. A poll after which it is parked wakes its lane,
    /// through each graph that it is inside of, and the run.
    fn noting_polls(&self, mut work: NodeFuture<S>, lane: &Lane<S>, waker: &Waker) -> NodeFuture<S> {
        let (Some(trail), Some(journal)) = (&lane.trail, self.shared.run().journal()) else { return work };
        let (notes, journal, attempt, waker) = (Arc::clone(&trail.notes), Arc::clone(journal), lane.attempt, waker.clone());
        Box::pin(poll_fn(move |cx| {
            let polled = notes.poll_node(attempt, journal.last_durable(), cx, |cx| work.as_mut().poll(cx));
            if polled.is_pending() && notes.is_parked() {
                waker.wake_by_ref();
                journal.wake_driver();
            }
            polled
        }))
    }

    /// When an attempt is cut off, by its timeout or after its grace; the node is told.
    fn terms(&self, care: &NodeOptions<S>, rare: &mut NodeDetails) -> Result<Option<Box<AttemptLimits>>, RunFault> {
        let mut terms = None;
        if let Some(timeout) = care.policy.timeout {
            let runtime = self.shared.run().runtime()?;
            let deadline = runtime.now() + timeout;
            let timer = Some((runtime.sleep_until(deadline), timeout));
            terms = Some(Box::new(AttemptLimits { timer, ..AttemptLimits::default() }));
            rare.deadline = Some(deadline);
        }
        if let Some(length) = care.grace {
            let token = self.shared.token()?.child();
            rare.fresh = Some(token.clone());
            terms.get_or_insert_default().grace = Some(CancelGrace { length, token });
        }
        Ok(terms)
    }

    /// A node that is pending fails all the same if it asked for something impossible.
    pub(super) fn if_broken(&self, lane: &Lane<S>) -> Poll<Result<AttemptResult<S>, RunFault>> {
        match self.shared.run().why_broken(lane.token) {
            Some(why) => Poll::Ready(Ok(Err(Reason::Error(why)))),
            None => Poll::Pending,
        }
    }

    #[inline]
    pub(super) fn context(&self, lane: &Lane<S>, rare: Option<NodeDetails>) -> NodeContext {
        NodeContext {
            shared: Arc::clone(&self.shared),
            node: lane.at,
            attempt: lane.attempt,
            iteration: lane.iteration,
            token: lane.token,
            branch: lane.path.clone(),
            rare: rare.map_or_else(OnceLock::new, |rare| OnceLock::from(Box::new(rare))),
        }
    }

    /// After an attempt: on to the next node, or whatever the policy says about its failure.
    fn settle(
        &mut self,
        stop: &PlanNode<S>,
        lane: &mut Lane<S>,
        ended: AttemptResult<S>,
    ) -> Result<Option<Turn<S>>, RunError<S>> {
        if let Err(reason) = &ended {
            self.note_failure(stop, lane, reason);
        }
        let ended = lane.put_down().and(ended);
        lane.count_inside();
        self.shared.run().forget_broken(lane.token);
        match ended {
            Ok(state) => {
                self.tell(lane, |visit| RunEvent::NodeFinished { visit, outcome: Ok(&state) }, || InnerEvent::Finished(None));
                lane.state = Some(state);
                self.leave(stop, lane, Visited::Done)
            }
            Err(reason) => self.failed(stop, lane, reason),
        }
    }

    /// From a node that is done: router, commit, and on.
    pub(super) fn leave(
        &mut self,
        stop: &PlanNode<S>,
        lane: &mut Lane<S>,
        visited: Visited,
    ) -> Result<Option<Turn<S>>, RunError<S>> {
        let to = match (&stop.way, &lane.state) {
            (OutEdge::Choice { route, declared }, Some(state)) => self.route(route, declared, lane, state).map(NextStep::To),
            (OutEdge::To(to), _) => Ok(NextStep::To(*to)),
            (OutEdge::Fork(fork), Some(state)) if self.ledger.is_some() => self.split(fork, lane, state).map(NextStep::Fork),
            _ => Ok(NextStep::Fork(None)),
        };
        // What the node did is kept before a failing router is looked at: only the router would run again.
        self.commit(stop, lane, visited, to)
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
            Ok(Err(answer)) => {
                let declared = declared.iter().map(|one| one.name.to_string()).collect();
                Err(RunFault::Router(RouterError { node: self.shared.name(lane.at).to_string(), answer, declared }))
            }
            Err(reason) => Err(self.panicked(lane, During::Router, &reason)),
        }
    }

    /// Commits a step, before anything follows it: what can be undone is remembered, and the step gets its sequence.
    pub(super) fn commit(
        &mut self,
        stop: &PlanNode<S>,
        lane: &mut Lane<S>,
        visited: Visited,
        to: Result<NextStep<S>, RunFault>,
    ) -> Result<Option<Turn<S>>, RunError<S>> {
        lane.kept = None;
        let payload = match self.undo_payload(stop, lane, visited) {
            Ok(payload) => payload,
            Err(fault) => return Err(RunError::new(fault, lane.state.take())),
        };
        if self.ledger.is_some() {
            return self.commit_step(lane, payload, to);
        }
        self.remember_undo(stop, lane, payload);
        let sequence = self.shared.run().next_sequence();
        lane.trail = None;
        match to {
            Ok(NextStep::To(to)) => Ok(lane.place(to, sequence).then_some(Turn::Arrived)),
            Ok(NextStep::Fork(items)) => Ok(Some(Turn::Forks(sequence, items))),
            Err(fault) => Err(RunError::new(fault, lane.state.take())),
        }
    }

    pub(super) fn panicked(&self, lane: &Lane<S>, during: During, reason: &Reason) -> RunFault {
        RunFault::panic(self.shared.name(lane.at).to_string(), during, reason)
    }

    /// Tells hooks of something, or, in a subgraph, whoever listens to the whole run.
    #[inline]
    pub(super) fn tell<'a>(
        &self,
        lane: &Lane<S>,
        event: impl FnOnce(Visit) -> RunEvent<&'a S>,
        aside: impl FnOnce() -> InnerEvent,
    ) where
        S: 'a,
    {
        if self.hooks.is_some() {
            self.tell_only(lane, event);
        } else if self.shared.is_subgraph()
            && let Some(listener) = self.shared.run().listener()
        {
            listener(self.visit(lane), aside());
        }
    }

    pub(super) fn tell_only<'a>(&self, lane: &Lane<S>, event: impl FnOnce(Visit) -> RunEvent<&'a S>)
    where
        S: 'a,
    {
        if let Some(hooks) = &self.hooks {
            hooks.call(&event(self.visit(lane)));
        }
    }

    fn visit(&self, lane: &Lane<S>) -> Visit {
        let Lane { attempt, iteration, .. } = *lane;
        Visit { node: self.shared.name(lane.at), attempt, iteration, branch: lane.path.clone() }
    }
}
