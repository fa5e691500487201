//! How the engine of a stored run uses its committer.
//!
//! 1. Durable records are reported to the hooks.
//! 2. A store failure ends the run.
//! 3. When every lane is parked, the run records a pause and ends until an inbox message or a time
//!    wakes it.

use crate::context::events::RunEvent;
use crate::control::{Command, Inbox, Refuser, RejectedMessage};
use crate::engine::fan_out::branches::Branches;
use crate::engine::lane::{Lane, Phase};
use crate::engine::parked::WaitUntil;
use crate::engine::undo_stored::DurableUndoRun;
use crate::engine::{Engine, ROOT};
use crate::error::{Outcome, RunError, RunFault, cut, fault_of};
use crate::log::RunLog;
use crate::log::committer::{CommitterEvent, RunActivity, StoreFailure};
use crate::log::message::Message;
use crate::log::visit::OpenWait;
use crate::log::visit::waits_inside::{LaneWaits, WaitsInside};
use crate::store::{InboxMessage, Refusal, RefusalCause, RefusedMessage, Timestamp, Wake};
use crate::token::WaitView;
use crate::util::work_count;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Returns the interrupt key or signal name that a message is for.
fn key_of(name: &str) -> String {
    cut(name.split_once('/').map_or(name, |(_, key)| key).to_string())
}

impl<S: Send + 'static> Engine<S> {
    /// Polls the committer. Ready when lanes can continue, or with the outcome if the run cannot.
    pub(super) fn poll_committer(&mut self, cx: &mut Context<'_>) -> Poll<Option<Outcome<S>>> {
        self.report_rejected();
        let Some(committer) = &self.committer else { return Poll::Pending };
        if let Some(inbox) = self.stepper.graph_cx.run().inbox() {
            committer.log().take_returned_signals().into_iter().for_each(|signal| inbox.put_back(signal));
        }
        // Read first: a node on another thread that writes a record after this is no longer parked.
        let log = Arc::clone(committer.log());
        let head = log.head();
        let waits = self.parked_until();
        let is_paused = self.stepper.graph_cx.run().is_paused();
        let activity = match waits {
            None if self.stepper.graph_cx.run().inbox().is_some_and(Inbox::is_awaited) => RunActivity::AwaitingMessages,
            None => RunActivity::Busy,
            Some(_) if is_paused => RunActivity::Parked { wake: log.due(Wake::OnMessage), head },
            Some(due) => RunActivity::Parked { wake: log.due(wake_at(due)), head },
        };
        let Some(committer) = &mut self.committer else { return Poll::Pending };
        match committer.poll(cx, activity) {
            Poll::Ready(event) => Poll::Ready(self.on_committer_event(event).map(Err)),
            Poll::Pending => match waits {
                // A parked run commits rejected messages alone, because no step follows that could.
                Some(due) if committer.is_idle() && committer.log().has_messages_to_take() => {
                    let wake = if is_paused { Wake::OnMessage } else { wake_at(due) };
                    match committer.log().write_parked(wake) {
                        Ok(_) => self.poll_committer(cx),
                        Err(error) => {
                            let fault = fault_of(self.stepper.graph_cx.run().id(), "", "commit", error);
                            Poll::Ready(Some(Err(RunError::new(fault, None))))
                        }
                    }
                }
                Some(due) if committer.is_idle() && (is_paused || is_long(committer.log(), due)) => {
                    let wake = if is_paused { Wake::OnMessage } else { wake_at(due) };
                    self.pause(log.due(wake), cx)
                }
                _ => Poll::Pending,
            },
        }
    }

    /// Returns whether this driver surely holds the lease. Otherwise it requests a renewal, which
    /// wakes the task of the run.
    pub(super) fn holds_lease(&self, cx: &Context<'_>) -> bool {
        self.committer.as_ref().is_none_or(|committer| committer.poll_lease(cx).is_ready())
    }

    pub(super) fn on_committer_event(&mut self, event: CommitterEvent) -> Option<RunError<S>> {
        match event {
            CommitterEvent::Durable(sequences) => {
                if let Some(hooks) = &self.stepper.hooks {
                    sequences.for_each(|sequence| {
                        hooks.call(&RunEvent::Checkpointed { run: self.stepper.graph_cx.run().known_id(), sequence });
                    });
                }
            }
            CommitterEvent::Messages(messages) => return self.deliver(messages).err().or_else(|| self.permanent_cancel()),
            CommitterEvent::Detached(error) => {
                if let Some(hooks) = &self.stepper.hooks {
                    let run = self.stepper.graph_cx.run().known_id();
                    hooks.call(&RunEvent::CheckpointsLost { run, error: error.to_string().into() });
                }
            }
            CommitterEvent::Fault(StoreFailure { op, error }) => {
                let node = self.stepper.graph_cx.name(self.active_lane().at).to_string();
                return Some(RunError::new(
                    fault_of(self.stepper.graph_cx.run().id(), node, op, error),
                    self.root.state.take(),
                ));
            }
        }
        None
    }

    /// Delivers inbox messages to nodes and commands to the run. A damaged message is rejected, and
    /// the next commit takes it.
    pub(crate) fn deliver(&mut self, messages: Vec<InboxMessage>) -> Result<(), RunError<S>> {
        for InboxMessage { number, message, .. } in messages {
            let run = self.stepper.graph_cx.run();
            let name = message.name.clone();
            let payload = match message.open(run.id()) {
                Ok(payload) => payload,
                Err(damage) => {
                    let (reason, cause) = (damage.to_string(), RefusalCause::Damaged);
                    self.reject(RejectedMessage { number, name, reason, cause, wait: None, has_ended: false });
                    continue;
                }
            };
            if let Some(command) = Command::parse(&name, &payload) {
                self.apply_command(number, command)?;
            } else if let Some(inbox) = run.inbox() {
                inbox.add([Message { number, name, payload }]);
            }
        }
        Ok(())
    }

    /// Reports the answers and signals that nodes could not decode. The next commit takes them from
    /// the inbox.
    pub(super) fn report_rejected(&mut self) {
        let Some(inbox) = self.stepper.graph_cx.run().inbox() else { return };
        inbox.take_rejected().into_iter().for_each(|rejected| self.reject(rejected));
    }

    fn reject(&self, rejected: RejectedMessage) {
        let RejectedMessage { number, name, reason, cause, wait, has_ended } = rejected;
        let run = self.stepper.graph_cx.run();
        self.report_refusal(&name, &cause, wait, has_ended);
        if let Some(hooks) = &self.stepper.hooks {
            let (name, reason) = (name.as_str().into(), reason.as_str().into());
            hooks.call(&RunEvent::MessageRejected { run: run.known_id(), name, reason });
        }
        match &self.committer {
            Some(committer) => committer.log().refuse_with_next_commit(Refusal { number, reason, cause, wait }),
            None => {
                let time = run.runtime().ok().and_then(|runtime| runtime.time_of_day()).unwrap_or_default();
                let refused = RefusedMessage::new(0, name, reason, Timestamp::default().after(time)).because(cause, None);
                run.inbox().into_iter().for_each(|inbox| inbox.keep_refused(refused.clone()));
            }
        }
    }

    /// Logs a refused message, and reports it in the health of the system, unless its wait has
    /// ended. The reason can quote the message, so only the cause is shown.
    pub(super) fn report_refusal(&self, name: &str, cause: &RefusalCause, wait: Option<u64>, has_ended: bool) {
        let run = self.stepper.graph_cx.run();
        let (id, advice) = (run.known_id(), cause.advice(name));
        tracing::warn!(run = id.as_deref(), name, %cause, advice, "the run refused a message; its view says why");
        if has_ended {
            return;
        }
        if let Some(refusals) = run.refusals() {
            refusals.add(wait.map_or_else(|| Refuser::Run(name.to_string()), Refuser::Wait), name, cause);
        }
    }

    /// Returns the fault for an answer of this resume that its node rejected.
    fn rejected_answer(&self) -> Option<RunFault> {
        let run = self.stepper.graph_cx.run();
        let RejectedMessage { name, reason, .. } = run.inbox()?.rejected_answer()?;
        Some(RunFault::AnswerRejected { run: run.id().to_string(), key: key_of(&name), reason })
    }

    /// Returns whether a node is about to take a message. A pause recorded now could leave the
    /// message unread if the process died.
    fn is_answering(&self) -> bool {
        self.stepper.graph_cx.run().inbox().is_some_and(Inbox::is_answering)
    }

    /// Returns until when the run waits, if every lane is parked. Looks only at lanes that may have
    /// changed since the last call.
    fn parked_until(&mut self) -> Option<Option<Timestamp>> {
        if self.is_answering() || self.is_in_grace() {
            return None;
        }
        let is_paused = self.stepper.graph_cx.run().is_paused();
        let of_branches = match &mut self.branches {
            Some(branches) => branches.parked_until(is_paused, None)?,
            None => WaitUntil::default(),
        };
        Some(of_branches.and(lane_parked_until(&self.root, is_paused)?).due)
    }

    /// Does the same for a subgraph, and stores the waits of the checked lanes in `waits`.
    pub(super) fn parked_until_inside(&mut self, waits: &WaitsInside) -> Option<WaitUntil> {
        if self.is_in_grace() {
            return None;
        }
        let is_paused = self.stepper.graph_cx.run().is_paused();
        let of_branches = match &mut self.branches {
            Some(branches) => branches.parked_until(is_paused, Some(waits))?,
            None => WaitUntil::default(),
        };
        let of_root = lane_parked_until(&self.root, is_paused)?;
        waits.set(ROOT, LaneWaits::of(&self.root));
        Some(of_branches.and(of_root))
    }

    /// Returns all waits of the run, if every lane is parked.
    fn open_waits(&self) -> Option<Vec<OpenWait>> {
        let is_paused = self.stepper.graph_cx.run().is_paused();
        let mut open = Vec::new();
        let below = self.branches.iter().flat_map(|branches| branches.lanes());
        for lane in below.chain([&self.root]) {
            work_count::count(1);
            lane_parked_until(lane, is_paused)?;
            if let Some(waits) = LaneWaits::of(lane) {
                waits.list(&mut |wait| open.push(wait.clone()));
            }
        }
        Some(open)
    }

    /// Ends the run until a message or a time wakes it: every lane waits for a message or for a
    /// distant time.
    fn pause(&mut self, wake: Wake, cx: &mut Context<'_>) -> Poll<Option<Outcome<S>>> {
        let Some(log) = self.committer.as_ref().map(|committer| committer.log()) else { return Poll::Pending };
        match log.write_parked(wake) {
            // The committer starts the commit of the pause now.
            Ok(true) => return self.poll_committer(cx),
            Ok(false) => {}
            Err(error) => return Poll::Ready(Some(Err(RunError::new(fault_of(&*log.run, "", "commit", error), None)))),
        }
        if let Some(refusals) = self.stepper.graph_cx.run().known_refusals() {
            refusals.keep();
        }
        let run = log.run.to_string();
        let open = self.open_waits().unwrap_or_default();
        // A retry has no key that a caller could answer.
        let mut waits: Vec<WaitView> = open.into_iter().filter(|wait| !wait.key.is_empty()).map(WaitView::of).collect();
        waits.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        let keys: Vec<String> = waits.iter().map(|wait| wait.key.clone()).collect();
        let inbox = self.stepper.graph_cx.run().inbox();
        let unasked = inbox.and_then(|inbox| inbox.unclaimed()).map(|name| RunFault::AnswerRejected {
            run: run.clone(),
            key: key_of(&name),
            reason: format!("no node waits for it; the run waits for: {}", keys.join(", ")),
        });
        let fault = self.rejected_answer().or(unasked).unwrap_or(RunFault::Paused { run, keys, waits });
        Poll::Ready(Some(Err(RunError::new(fault, None))))
    }

    /// Ready when all cancelled tasks have dropped their nodes, or with the error of the committer.
    pub(super) fn poll_tasks_ended(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RunError<S>>> {
        loop {
            if self.stepper.graph_cx.run().are_tasks_gone(Some(cx.waker())) {
                return Poll::Ready(Ok(()));
            }
            let Some(committer) = &mut self.committer else { return Poll::Pending };
            let event = std::task::ready!(committer.poll(cx, RunActivity::Busy));
            if let Some(error) = self.on_committer_event(event) {
                return Poll::Ready(Err(error));
            }
        }
    }

    /// Ready when a record is durable, or with the error of the committer.
    pub(super) fn poll_written(&mut self, sequence: u64, cx: &mut Context<'_>) -> Poll<Result<(), RunError<S>>> {
        loop {
            let Some(committer) = &mut self.committer else { return Poll::Ready(Ok(())) };
            if committer.log().poll_durable(sequence, cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let event = std::task::ready!(committer.poll(cx, RunActivity::Busy));
            if let Some(error) = self.on_committer_event(event) {
                return Poll::Ready(Err(error));
            }
        }
    }

    /// Undoes a stored run, while the committer records the progress.
    pub(super) fn poll_undoing(&mut self, undoing: &mut DurableUndoRun<S>, cx: &mut Context<'_>) -> Poll<RunError<S>> {
        loop {
            if self.holds_lease(cx)
                && let Poll::Ready(error) = undoing.poll(cx)
            {
                return Poll::Ready(error);
            }
            let Some(committer) = &mut self.committer else { return Poll::Pending };
            let event = std::task::ready!(committer.poll(cx, RunActivity::Busy));
            if let Some(error) = self.on_committer_event(event) {
                return Poll::Ready(error);
            }
        }
    }
}

/// Returns until when a lane waits, if it is parked.
fn lane_parked_until<S: Send + 'static>(lane: &Lane<S>, is_paused: bool) -> Option<WaitUntil> {
    if matches!(lane.phase, Phase::Forked(_)) {
        return Some(WaitUntil::default());
    }
    if is_paused && lane.is_before_attempt() {
        return Some(WaitUntil { due: None, is_paused });
    }
    let visit = lane.visit.as_ref().filter(|_| lane.is_parked())?;
    let records = visit.records.lock();
    if matches!(lane.phase, Phase::Waiting(_)) {
        return Some(WaitUntil { due: records.failed.and_then(|(_, due)| due), is_paused: false });
    }
    // The resume woke the subgraph, but it was not polled yet.
    if !is_paused && records.is_paused_inside() {
        return None;
    }
    Some(WaitUntil { due: records.due(), is_paused: records.is_paused_inside() })
}

impl<S: Send + 'static> Branches<S> {
    /// Returns until when the lanes wait, if all are parked. Stores the waits of the checked lanes
    /// in `inside`.
    fn parked_until(&mut self, is_paused: bool, inside: Option<&WaitsInside>) -> Option<WaitUntil> {
        self.parked.refresh(is_paused, self.places());
        while let Some(number) = self.parked.next_unchecked() {
            let mut until = WaitUntil::default();
            if let Some(lane) = self.get(number) {
                // Registered before the check: a later change lists the lane again.
                if let Some(visit) = &lane.visit {
                    visit.records.set_watcher(self.parked.watcher(number));
                }
                until = lane_parked_until(lane, is_paused)?;
            }
            if let Some(inside) = inside {
                inside.set(number, self.get(number).and_then(LaneWaits::of));
            }
            self.parked.set_checked(until);
        }
        Some(self.parked.until())
    }
}

/// Returns when a run that waits until `due` must be woken.
fn wake_at(due: Option<Timestamp>) -> Wake {
    due.map_or(Wake::OnMessage, Wake::At)
}

/// Returns whether a parked run should be released: it waits for messages only, or longer than its
/// driver holds a waiting run.
fn is_long(log: &RunLog, due: Option<Timestamp>) -> bool {
    match (due, log.options.hold_waiting_for) {
        (None, _) => true,
        (Some(due), Some(hold_for)) => due > log.now().after(hold_for),
        (Some(_), None) => false,
    }
}
