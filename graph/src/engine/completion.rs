//! The end of a run: record the failure, undo completed nodes, release a stored run.
//!
//! | stage | waits for | next |
//! |---|---|---|
//! | `InGrace` | nodes in their cancel grace | `end` runs again |
//! | `AwaitingTasks` | cancelled tasks to drop their nodes | `Undoing`, `WritingEnd` |
//! | `Undoing` | the undos of a run in memory | the outcome |
//! | `WritingEnd` | the commit of the failure | `UndoingStored`, `Releasing` |
//! | `UndoingStored` | the undos of a stored run and their commits | `Releasing` |
//! | `Releasing` | the release of the lease | the outcome |

use crate::engine::Engine;
use crate::engine::commands::too_late;
use crate::engine::undo::UndoRun;
use crate::engine::undo_stored::DurableUndoRun;
use crate::error::{Outcome, RunError, RunFault, StoredFault};
use crate::log::{NewRecord, RunLog};
use crate::store::{Kind, RunStatus};
use pleach_core::{BoxFuture, Cause};
use std::sync::Arc;
use std::task::{Context, Poll};

/// The stage of a run after its last step.
pub(super) enum CompletionStage<S> {
    /// Nodes use their cancel grace.
    InGrace {
        error: Option<RunError<S>>,
    },
    /// The run failed, and cancelled tasks have not dropped their nodes yet. No undo may run beside
    /// them.
    AwaitingTasks {
        error: Option<RunError<S>>,
    },
    Undoing(UndoRun<S>),
    /// The record of the failure is not durable yet. `is_undone`: the undos run after it.
    WritingEnd {
        sequence: u64,
        error: Option<RunError<S>>,
        is_undone: bool,
    },
    UndoingStored(DurableUndoRun<S>),
    /// The lease is released, so that the next driver does not wait for its expiry.
    Releasing {
        outcome: Option<Outcome<S>>,
        release: BoxFuture<'static, ()>,
    },
}

impl<S> CompletionStage<S> {
    /// Ends the stage at once. Returns the error of the run.
    pub(super) fn cancel(&mut self, cause: &Cause) -> Option<RunError<S>> {
        match self {
            Self::Undoing(undoing) => Some(undoing.cancel(cause.clone())),
            Self::InGrace { error } | Self::AwaitingTasks { error } | Self::WritingEnd { error, .. } => error.take(),
            Self::UndoingStored(undoing) => undoing.error.take(),
            Self::Releasing { outcome, .. } => outcome.take().and_then(Result::err),
        }
    }
}

/// Returns whether the run's own deadline was exceeded, not one of a scope above.
fn is_overdue<S>(error: &RunError<S>, log: Option<&RunLog>) -> bool {
    let is_deadline = matches!(error.fault(), RunFault::Cancelled { cause: Cause::DeadlineExceeded, .. });
    is_deadline && log.is_some_and(RunLog::is_overdue)
}

impl<S: Send + 'static> Engine<S> {
    /// Ends the run and drops the remaining lanes. Returns the outcome if no further work remains.
    pub(crate) fn end(&mut self, outcome: Outcome<S>) -> Option<Outcome<S>> {
        let mut error = match outcome {
            Ok(state) => return self.release(Ok(state)),
            Err(error) => error,
        };
        let cause = Cause::Because("the run failed".into());
        let is_cut_short = error.fault().ends_run();
        match error.fault() {
            // A lane saw the cancel before the engine did.
            RunFault::Cancelled { cause, .. } => drop(self.give_grace(None, &cause.clone(), None)),
            fault if is_cut_short && !fault.leaves_run_open() => drop(self.give_grace(None, &cause, None)),
            _ => {}
        }
        if !self.is_run_in_grace() {
            // These belong to a cancelled fan-out. The run does not wait for them.
            self.drop_in_grace();
            self.graces = None;
        }
        let fault = (!is_cut_short).then(|| Arc::new(StoredFault::of(error.fault())));
        let before = self.close_all(&cause, fault.as_ref());
        self.drop_values(self.root.at, || error.set_state_if_none(|| before.filter(|_| is_cut_short)));
        if self.is_run_in_grace() {
            self.stage = Some(Box::new(CompletionStage::InGrace { error: Some(error) }));
            return None;
        }
        error.add_panics(&mut self.panics);
        if self.stepper.graph_cx.is_subgraph() {
            return Some(Err(error));
        }
        if !is_cut_short && !self.stepper.graph_cx.run().are_tasks_gone(None) {
            // The end is decided: later commands have no effect.
            self.is_ending = true;
            self.stage = Some(Box::new(CompletionStage::AwaitingTasks { error: Some(error) }));
            return None;
        }
        self.end_failed(error)
    }

    /// Continues the end of a failed run without remaining tasks: records the failure and starts
    /// the undos.
    fn end_failed(&mut self, error: RunError<S>) -> Option<Outcome<S>> {
        if self.committer.is_some() {
            return self.end_stored(error);
        }
        match UndoRun::begin(&self.stepper.graph_cx, error) {
            Ok(undoing) => self.stage = Some(Box::new(CompletionStage::Undoing(undoing))),
            Err(error) => return Some(Err(error)),
        }
        None
    }

    /// Records the failure of a stored run, unless the run stays open and can be resumed.
    fn end_stored(&mut self, error: RunError<S>) -> Option<Outcome<S>> {
        let log = self.committer.as_ref().map(|committer| Arc::clone(committer.log()));
        let is_cancelled = self.is_cancelled_permanently() || is_overdue(&error, log.as_deref());
        let ends = is_cancelled || !error.fault().leaves_run_open();
        let Some(log) = log.filter(|_| ends) else { return self.release(Err(error)) };
        self.is_ending = true;
        let is_undone = !is_cancelled && log.undo() > 0 && !error.fault().ends_run();
        let fault = StoredFault::of(error.fault());
        let mut record = NewRecord::new(Kind::End, Vec::new(), fault.node());
        record.status = Some(match is_cancelled {
            true => RunStatus::Cancelled,
            false if is_undone => RunStatus::Running,
            false => RunStatus::Failed,
        });
        record.body = fault.bytes();
        if let Some(committer) = &mut self.committer {
            record.takes = std::mem::take(&mut committer.taken_at_end);
            let late = std::mem::take(&mut committer.refused_at_end);
            late.into_iter().for_each(|number| log.refuse_with_next_commit(too_late(number)));
            if is_cancelled {
                record.takes.append(&mut committer.pauses);
            }
        }
        match log.submit(record) {
            Ok(sequence) => {
                self.stage = Some(Box::new(CompletionStage::WritingEnd { sequence, error: Some(error), is_undone }));
                None
            }
            Err(_) => self.release(Err(error)),
        }
    }

    /// Continues the undos of a run that failed before. Earlier drivers have undone the nodes in
    /// `undone`.
    pub(crate) fn continue_undo(&mut self, fault: RunFault, undone: Vec<String>) {
        self.undo_stored(RunError::new(fault, None), undone);
    }

    fn undo_stored(&mut self, error: RunError<S>, undone: Vec<String>) {
        self.is_ending = true;
        let undoing = DurableUndoRun::begin(&self.plan, &self.stepper.graph_cx, error, undone);
        self.stage = Some(Box::new(CompletionStage::UndoingStored(undoing)));
    }

    /// Releases the lease of a stored run, unless the last commit released it.
    fn release(&mut self, outcome: Outcome<S>) -> Option<Outcome<S>> {
        match self.committer.as_mut().and_then(|committer| committer.release()) {
            None => Some(outcome),
            Some(release) => {
                self.stage = Some(Box::new(CompletionStage::Releasing { outcome: Some(outcome), release }));
                None
            }
        }
    }

    pub(super) fn poll_stage(&mut self, cx: &mut Context<'_>) -> Poll<Outcome<S>> {
        self.answer_queries(cx);
        loop {
            let mut stage = self.stage.take().expect("an ended run has a completion stage");
            let next = match &mut *stage {
                CompletionStage::InGrace { error } => match self.poll_run_grace(cx) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(Err(lost)) => Poll::Ready(self.release(Err(lost))),
                    Poll::Ready(Ok(())) => Poll::Ready({
                        let error = error.take().expect("a run ends once");
                        let error = self.with_grace(error);
                        self.end(Err(error))
                    }),
                },
                CompletionStage::AwaitingTasks { error } => match self.poll_tasks_ended(cx) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(Err(lost)) => Poll::Ready(self.release(Err(lost))),
                    Poll::Ready(Ok(())) => Poll::Ready(self.end_failed(error.take().expect("a run ends once"))),
                },
                CompletionStage::Undoing(undoing) => undoing.poll(cx).map(|error| Some(Err(error))),
                CompletionStage::WritingEnd { sequence, error, is_undone } => match self.poll_written(*sequence, cx) {
                    Poll::Pending => Poll::Pending,
                    // The failure is not recorded and nothing was undone: a resume finds the run as
                    // it was.
                    Poll::Ready(Err(unwritten)) => Poll::Ready(self.release(Err(unwritten))),
                    Poll::Ready(Ok(())) => {
                        let error = error.take().expect("a run ends once");
                        if *is_undone {
                            self.undo_stored(error, Vec::new());
                            continue;
                        }
                        Poll::Ready(self.release(Err(error)))
                    }
                },
                CompletionStage::UndoingStored(undoing) => match self.poll_undoing(undoing, cx) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(error) => Poll::Ready(self.release(Err(error))),
                },
                CompletionStage::Releasing { outcome, release } => match release.as_mut().poll(cx) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(()) => Poll::Ready(outcome.take()),
                },
            };
            match next {
                Poll::Ready(Some(outcome)) => return Poll::Ready(outcome),
                Poll::Ready(None) => {}
                Poll::Pending => {
                    self.stage = Some(stage);
                    return Poll::Pending;
                }
            }
        }
    }
}
