//! Commands to a run: pause, resume, cancel; and queries for its view.
//!
//! - A stored run reads its commands from its inbox. A pause stays in the inbox while it is in
//!   force, so that the next driver finds the run paused. The resume takes it.
//! - A run in memory reads its commands from its `RunControl`.
//! - A cancel stays in the inbox until the record of the end takes it.
//! - Once the end of a stored run is decided, commands change nothing. Compensation continues, and
//!   the messages are taken with the record of the end or with the next commit.

use crate::control::{Command, ControlUpdate, Inbox, RunView, TokenView};
use crate::engine::Engine;
use crate::engine::lane::{Lane, Phase};
use crate::error::{Outcome, RunError, fault_of};
use crate::log::NewRecord;
use crate::log::visit::waits_inside::LaneWaits;
use crate::store::{GraphVersion, Kind, Place, Refusal, RefusalCause, RunStatus};
use crate::token::WaitView;
use pleach_core::Cause;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Context;

/// Refuses a command to a run that ends.
pub(super) fn too_late(number: u64) -> Refusal {
    let cause = RefusalCause::TooLate;
    Refusal { number, reason: cause.to_string(), cause, wait: None }
}

impl<S: Send + 'static> Engine<S> {
    /// Applies the commands that arrived since the last poll. Returns the error of the run if one
    /// of them ends it.
    pub(super) fn apply_commands(&mut self, cx: &Context<'_>) -> Option<RunError<S>> {
        if self.stepper.graph_cx.is_subgraph() {
            return None;
        }
        let run_control = Arc::clone(self.stepper.graph_cx.run().run_control()?);
        let ControlUpdate { commands, queries, last_message } = run_control.take(cx.waker());
        for command in commands {
            match command {
                Command::Pause => run_control.pause(),
                Command::Resume => run_control.resume(),
                Command::Cancel(reason) => return Some(self.cancel(cause(&reason), None)),
            }
        }
        if !queries.is_empty() {
            let view = self.view();
            queries.into_iter().for_each(|query| query.send(Ok(view.clone())));
        }
        match &mut self.committer {
            Some(committer) => committer.expect_messages(last_message),
            // A run in memory has no resume call that could fail with a rejected answer: report it,
            // and the node keeps waiting.
            None => self.report_rejected(),
        }
        self.permanent_cancel()
    }

    /// Answers queries while a run in memory is undone. Commands have no effect any more.
    pub(super) fn answer_queries(&self, cx: &Context<'_>) {
        let has_queries = self.committer.is_none() && !self.stepper.graph_cx.is_subgraph();
        let Some(run_control) = self.stepper.graph_cx.run().run_control().filter(|_| has_queries) else { return };
        let ControlUpdate { queries, .. } = run_control.take(cx.waker());
        if !queries.is_empty() {
            let view = self.view();
            queries.into_iter().for_each(|query| query.send(Ok(view.clone())));
        }
    }

    /// Applies the command in the inbox message with this number.
    pub(super) fn apply_command(&mut self, number: u64, command: Command) -> Result<(), RunError<S>> {
        let (Some(committer), Some(run_control)) = (&mut self.committer, self.stepper.graph_cx.run().run_control()) else {
            return Ok(());
        };
        if self.is_ending {
            let name = command.name();
            // Also takes earlier pauses: a run that is undone must not stay paused.
            let mut numbers = std::mem::take(&mut committer.pauses);
            if committer.log().has_ended() {
                numbers.into_iter().for_each(|number| committer.log().take_with_next_commit(number));
                committer.log().refuse_with_next_commit(too_late(number));
            } else {
                // If the process dies before the end is committed, the next driver finds them.
                committer.taken_at_end.append(&mut numbers);
                committer.refused_at_end.push(number);
            }
            self.report_refusal(name, &RefusalCause::TooLate, None, false);
            return Ok(());
        }
        match command {
            Command::Pause => {
                committer.pauses.push(number);
                run_control.pause();
            }
            Command::Resume => {
                let mut record = NewRecord::new(Kind::Wake, Vec::new(), "");
                record.takes = std::mem::take(&mut committer.pauses);
                record.takes.push(number);
                let written = committer.log().submit(record);
                written.map_err(|error| RunError::new(fault_of(&*committer.log().run, "", "commit", error), None))?;
                run_control.resume();
            }
            Command::Cancel(reason) => {
                // A later resume command does not take it.
                committer.taken_at_end.push(number);
                committer.is_cancelled.get_or_insert(reason);
            }
        }
        Ok(())
    }

    pub(super) fn is_cancelled_permanently(&self) -> bool {
        self.committer.as_ref().is_some_and(|committer| committer.is_cancelled.is_some())
    }

    /// Ends a stored run that a command has cancelled.
    pub(super) fn permanent_cancel(&mut self) -> Option<RunError<S>> {
        let reason = self.committer.as_ref()?.is_cancelled.clone()?;
        // A run that is already ending continues, and records the cancel with its end.
        let is_ending = self.is_ending || self.is_finishing() || self.ends_after_graces();
        (!is_ending).then(|| self.cancel(cause(&reason), None))
    }

    /// Ends a resumed run before any node ran. Returns the outcome if no further work remains.
    pub(crate) fn end_restored(&mut self, outcome: Outcome<S>) -> Option<Outcome<S>> {
        let outcome = self.permanent_cancel().map_or(outcome, Err);
        self.end(outcome)
    }

    /// Returns the view of a run in memory.
    fn view(&self) -> RunView {
        let run = self.stepper.graph_cx.run();
        let below = self.branches.iter().flat_map(|branches| branches.lanes());
        RunView {
            run: run.id().to_string(),
            graph: self.plan.name.clone(),
            version: GraphVersion { fingerprint: self.plan.fingerprint.clone(), schema: 0 },
            due: None,
            status: RunStatus::Running,
            is_paused: run.is_paused(),
            is_undoing: false,
            undone: Vec::new(),
            visits: run.visits.load(Relaxed),
            tags: run.given_tags().unwrap_or_default(),
            failure: None,
            trouble: None,
            refused: run.inbox().map(Inbox::refused).unwrap_or_default(),
            tokens: [&self.root].into_iter().chain(below).map(|lane| self.token_view(lane)).collect(),
        }
    }

    fn token_view(&self, lane: &Lane<S>) -> TokenView {
        let node = self.stepper.graph_cx.name(lane.at).to_string();
        let mut waits = Vec::new();
        if let Some(open) = LaneWaits::of(lane).filter(|_| lane.is_executing()) {
            open.list(&mut |wait| waits.push(WaitView::of(wait.clone())));
        }
        TokenView {
            at: if matches!(lane.phase, Phase::Forked(_)) { Place::Fork(node) } else { Place::Node(node) },
            branch: lane.path.forks(),
            state: None,
            waits,
            failure: None,
        }
    }
}

fn cause(reason: &str) -> Cause {
    if reason.is_empty() { Cause::Cancelled } else { Cause::Because(reason.to_string().into()) }
}
