//! One attempt at a node: its time limits, the call of the node, and its polls.

use crate::compile::plan::{NodeOptions, PlanNode};
use crate::context::NodeDetails;
use crate::context::events::{InnerEvent, RunEvent};
#[cfg(feature = "spans")]
use crate::context::spans;
use crate::define::node::{NodeFn, NodeFuture};
use crate::engine::lane::{AttemptGrace, AttemptLimits, AttemptResult, AttemptWork, Lane, LaneVisit, Phase, RunningAttempt};
use crate::engine::spawned::Spawned;
use crate::engine::step::Stepper;
use crate::error::{During, RunFault};
use pleach_core::{BoxError, Elapsed, Reason, Refusal, catch_panic};
use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

impl<S: Send + 'static> Stepper<S> {
    /// Calls the node and polls it for the first time.
    pub(super) fn start_attempt(
        &mut self,
        plan_node: &PlanNode<S>,
        lane: &mut Lane<S>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<AttemptResult<S>, RunFault>> {
        let state = lane.state.take().expect("a lane before a node has its state");
        let options = plan_node.options.as_deref();
        if let Some(clone_state) = options.and_then(|options| options.policy.clone_state).or(self.clone_state)
            && lane.cloned_state.is_none()
        {
            match catch_panic(|| clone_state(&state)) {
                Ok(cloned) => lane.cloned_state = Some(Box::new(cloned)),
                Err(reason) => {
                    lane.state = Some(state);
                    return Poll::Ready(Err(self.panicked(lane, During::CloneState, &reason)));
                }
            }
        }
        self.notify(lane, |visit| RunEvent::NodeStarted { visit, state: &state }, || InnerEvent::Started);

        let mut details = NodeDetails::default();
        let limits = match options.map(|options| self.limits(options, &mut details)) {
            Some(Err(fault)) => return Poll::Ready(Err(fault)),
            limits => limits.and_then(Result::ok).flatten(),
        };
        details.undo_takes = options.and_then(|options| options.undo.as_ref()).map(|undo| undo.takes);
        let has_details = self.needs_full_path || options.is_some();
        if has_details {
            let records = &lane.visit.get_or_insert_default().records;
            records.begin_attempt(lane.attempt);
            details.records = OnceLock::from(Arc::clone(records));
            self.keep_stored(lane, &state);
        }
        if let Some(timeout) = options.and_then(|options| options.policy.timeout).filter(Duration::is_zero) {
            // A zero timeout expires before the node is called.
            lane.cloned_state.get_or_insert_with(|| Box::new(state));
            return Poll::Ready(Ok(Err(Reason::Error(Elapsed(timeout).into()))));
        }
        let work = match &plan_node.call {
            NodeFn::State(call) => catch_panic(|| call(state)),
            NodeFn::Context(call) => {
                let context = self.context(lane, has_details.then_some(details));
                catch_panic(|| call(context, state))
            }
        };
        let work = match work {
            Ok(work) => work,
            Err(reason) => return Poll::Ready(Ok(Err(reason))),
        };
        #[cfg(feature = "spans")]
        let work = self.in_span(work, lane);
        let work = if lane.spawned {
            let (graph_cx, token) = (Arc::clone(&self.graph_cx), lane.token);
            let why_broken = move || graph_cx.run().why_broken(token);
            let grace = options.and_then(|options| options.grace);
            let work = self.with_poll_records(work, lane, cx.waker());
            match self.graph_cx.run().scope().map(|scope| Spawned::launch(scope, grace, work, why_broken)) {
                Ok(Ok(spawned)) => AttemptWork::Spawned(Box::new(spawned)),
                Ok(Err(refusal)) => return Poll::Ready(Err(self.refused(lane, refusal))),
                Err(fault) => return Poll::Ready(Err(fault)),
            }
        } else {
            AttemptWork::InPlace(work)
        };
        let mut running = RunningAttempt { work, limits };
        let polled = self.poll_running(&mut running, lane.visit.as_deref(), lane.attempt, cx);
        lane.phase = Phase::Running(running);
        if polled.is_pending() { self.check_broken(lane) } else { polled.map(Ok) }
    }

    /// Runs an attempt inside of its span, if the run has one.
    #[cfg(feature = "spans")]
    fn in_span(&self, work: NodeFuture<S>, lane: &Lane<S>) -> NodeFuture<S> {
        let run = self.graph_cx.run();
        if !run.has_span() {
            return work;
        }
        let (node, branch) = (self.graph_cx.name(lane.at), format!("{:?}", lane.path));
        spans::attempt(run, work, &spans::AttemptFields { node: &node, attempt: lane.attempt, branch })
    }

    /// Polls an attempt. In a stored run its visit records track the poll; a spawned node does that
    /// itself.
    pub(super) fn poll_running(
        &self,
        running: &mut RunningAttempt<S>,
        visit: Option<&LaneVisit>,
        attempt: u32,
        cx: &mut Context<'_>,
    ) -> Poll<AttemptResult<S>> {
        match (visit, self.graph_cx.run().log()) {
            (Some(visit), Some(log)) if matches!(running.work, AttemptWork::InPlace(_)) => {
                visit.records.poll_node(attempt, log.last_durable(), cx, |cx| running.poll(cx))
            }
            _ => running.poll(cx),
        }
    }

    /// Wraps a spawned node so that its visit records track each poll. If the node is parked after
    /// a poll, this wakes its lane, through all graphs around it, and the run.
    fn with_poll_records(&self, mut work: NodeFuture<S>, lane: &Lane<S>, waker: &Waker) -> NodeFuture<S> {
        let (Some(visit), Some(log)) = (&lane.visit, self.graph_cx.run().log()) else { return work };
        let (records, log, attempt, waker) = (Arc::clone(&visit.records), Arc::clone(log), lane.attempt, waker.clone());
        Box::pin(poll_fn(move |cx| {
            let polled = records.poll_node(attempt, log.last_durable(), cx, |cx| work.as_mut().poll(cx));
            if polled.is_pending() && records.is_parked() {
                waker.wake_by_ref();
                log.wake_driver();
            }
            polled
        }))
    }

    /// Creates the timer and the grace of an attempt, and makes them visible to the node.
    fn limits(&self, options: &NodeOptions<S>, details: &mut NodeDetails) -> Result<Option<Box<AttemptLimits>>, RunFault> {
        let mut limits = None;
        if let Some(timeout) = options.policy.timeout {
            let runtime = self.graph_cx.run().runtime()?;
            let deadline = runtime.now() + timeout;
            let timer = Some((runtime.sleep_until(deadline), timeout));
            limits = Some(Box::new(AttemptLimits { timer, ..AttemptLimits::default() }));
            details.deadline = Some(deadline);
        }
        if let Some(length) = options.grace {
            let token = self.graph_cx.token()?.child();
            details.fresh = Some(token.clone());
            limits.get_or_insert_default().grace = Some(AttemptGrace { length, token });
        }
        Ok(limits)
    }

    /// Fails a pending node that requested something impossible.
    pub(super) fn check_broken(&self, lane: &Lane<S>) -> Poll<Result<AttemptResult<S>, RunFault>> {
        match self.graph_cx.run().why_broken(lane.token) {
            Some(reason) => Poll::Ready(Ok(Err(Reason::Error(reason)))),
            None => Poll::Pending,
        }
    }

    /// Handles a scope that rejects a spawned node, because a cancel has closed it since the step
    /// started.
    fn refused(&self, lane: &Lane<S>, refusal: Refusal) -> RunFault {
        let cause = self.graph_cx.run().cause();
        let error = cause.clone().map_or_else(|| refusal.to_string().into(), |cause| Box::new(cause) as BoxError);
        let reason = Arc::new(Reason::Error(error));
        let reported = Arc::clone(&reason);
        self.notify(
            lane,
            |visit| RunEvent::NodeFinished { visit, outcome: Err(reported) },
            || InnerEvent::Finished(Some(reason)),
        );
        let node = self.graph_cx.name(lane.at).to_string();
        cause.map_or(RunFault::Refused(refusal), |cause| RunFault::Cancelled { node, cause, was_executing: true, grace: None })
    }
}
