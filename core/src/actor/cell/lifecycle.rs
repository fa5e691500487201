//! The lifecycle of an actor: its stages, and the transitions between them.
//!
//! A stage is the part of the task that is awaited now. Between two stages, plain code in this file
//! settles the stage that has ended and chooses the next ([`next_stage`](ActorTask::next_stage)).
//!
//! States, as users know them:
//!
//! | state | stage | meaning |
//! |---|---|---|
//! | starting | `Run` | the factory makes the state, then `started` runs |
//! | running | `Run` | control first, then one message at a time |
//! | suspended | `Run` | only control is processed (`ActorTask::suspended`) |
//! | restarting | `RestartingHook` | the `restarting` hook runs on the failed state |
//! | stopping | `StopChildren` | children end, youngest first; no child is accepted |
//! | stopping | `StoppedHook` | the `stopped` hook runs, then the state is dropped |
//! | waiting to restart | `WaitToRestart` | no state; waits for a backoff or the restart plan |
//! | stopping | `DeadLetters` | no state; remaining messages become dead letters |
//! | gone | `Gone` | the task ends and the actor leaves the tree |
//!
//! Transitions:
//!
//! | from | event | function | to |
//! |---|---|---|---|
//! | `Run` | failure: resume | `apply_action` | `Run` |
//! | `Run` | failure: restart | `apply_action` | `RestartingHook` |
//! | `Run` | failure: stop, escalate | `apply_action` | exit |
//! | `Run` | `CHILD_FAILED` | `after_run`, `apply_action` | as for a failure |
//! | `Run` | `RESTART`, `HALT` | `after_run` | `StopChildren` |
//! | `Run` | `STOP`, closed and empty | `begin_exit_in_run` | exit |
//! | `Run` | the same, permanent actor | `ended_unexpectedly` | as for a failure |
//! | `Run` | `CANCEL` | `on_cancel` | exit |
//! | `RestartingHook` | hook ended | `next_stage` | `StopChildren` |
//! | `StopChildren` | last child left | `after_children` | `StoppedHook` |
//! | `StoppedHook` | hook ended, exit | `drop_state` | `DeadLetters` or `Gone` |
//! | `StoppedHook` | hook ended, restart | `restart_or_wait` | `Run` or `WaitToRestart` |
//! | `WaitToRestart` | backoff over, `START` | `begin_next_incarnation` | `Run` |
//! | `WaitToRestart` | `STOP`, `CANCEL` | `after_wait` | exit |
//! | `DeadLetters` | mailbox empty | `next_stage` | `Gone` |
//!
//! "Exit" sets [`ExitKind`], closes the mailbox and continues with `StopChildren`. Stages with
//! nothing to do are skipped: `StopChildren` without children, hooks without a state. An exit by
//! stop or close without children runs `stopped` within `Run`.
//!
//! Order at every end of an incarnation:
//! 1. After a failure, the supervisor decides.
//! 2. The current message is settled.
//! 3. Unanswered replies are answered with the outcome.
//! 4. Children end, youngest first.
//! 5. `stopped` runs, and the state is dropped.
//! 6. At the exit, the remaining messages become dead letters, then the actor leaves the tree.

use crate::actor::cell::AnyCell;
use crate::actor::cell::restart_wait::RestartWait;
use crate::actor::cell::task::{AnyTask, Phase};
use crate::base::reason::{BoxError, Reason};
use crate::events::cause::{Cause, Exit};
use crate::events::failure::{FailureInfo, UnexpectedExit};
use crate::mailbox::control;
use crate::supervise::decide::RestartPolicy;
use crate::tree::member::StopMode;
use crate::tree::supervision::{ChildAction, FailedMemberKind};
use crate::tree::waits::ask_error::AskError;
use crate::tree::{supervision, waits};
use alloc::boxed::Box;
use core::time::Duration;

/// The stage of the task; see the table above.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Run,
    RestartingHook,
    StopChildren,
    StoppedHook,
    WaitToRestart,
    DeadLetters,
    Gone,
}

/// Why the actor exits, without a restart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ExitKind {
    /// Stopped after a message; queued messages become dead letters.
    Stop,
    /// Closed; all queued messages were handled.
    Close,
    /// Cancelled. The exit is in the details.
    Cancel,
    /// Failed. The exit is in the details.
    Fail,
}

/// How a stage ended. Two words in size, because it is returned by every stage.
pub(super) enum StageEnd {
    /// A hook returned, children ended, or a wait is over.
    Done,
    /// `STOP` was raised.
    Stopped,
    /// The mailbox is closed and empty.
    Closed,
    /// Cancelled between two messages.
    Cancelled,
    /// Cancelled at an await: the running code was dropped. Contains the panic of that drop, if
    /// any.
    CancelledAtAwait(Option<Box<Reason>>),
    /// Failed with an error or a panic.
    Failed(Box<Reason>),
    /// `CHILD_FAILED` was raised.
    ChildFailed,
    /// `HALT` was raised.
    Halt,
    /// `RESTART` was raised.
    Restart,
    /// The next stage is already set.
    StageSet,
}

impl StageEnd {
    #[cold]
    pub(super) fn failed(error: impl Into<BoxError>) -> Self {
        Self::Failed(Box::new(Reason::Error(error.into())))
    }
}

impl AnyTask {
    /// Ends `Run` with an error of the actor. The box of an earlier reason is used again.
    #[cold]
    pub(super) fn failed(&mut self, error: BoxError) -> StageEnd {
        let reason = Reason::Error(error);
        let boxed = self.details().unused_reason.take();
        StageEnd::Failed(match boxed {
            Some(mut unused) => {
                *unused = reason;
                unused
            }
            None => Box::new(reason),
        })
    }

    /// Takes the reason out of its box, and keeps the box.
    fn take_reason(&mut self, mut boxed: Box<Reason>) -> Reason {
        let reason = core::mem::replace(&mut *boxed, Reason::none());
        self.details().unused_reason = Some(boxed);
        reason
    }

    /// Settles the stage that has ended, and chooses the next.
    pub(super) fn next_stage(&mut self, cell: &AnyCell, end: StageEnd) {
        match self.stage {
            _ if matches!(end, StageEnd::StageSet) => {}
            Stage::Run => {
                cell.handler_returned();
                self.after_run(cell, end);
            }
            Stage::RestartingHook => {
                self.record_hook_failure(cell, end);
                self.stop_children(cell, StopMode::Stop, 0);
            }
            Stage::StopChildren => self.after_children(cell),
            Stage::WaitToRestart => self.after_wait(cell, end),
            Stage::StoppedHook => {
                self.record_hook_failure(cell, end);
                self.drop_state(cell);
            }
            Stage::DeadLetters | Stage::Gone => self.stage = Stage::Gone,
        }
    }

    /// Settles the end of an incarnation.
    #[inline]
    fn after_run(&mut self, cell: &AnyCell, end: StageEnd) {
        let failure = match end {
            StageEnd::Stopped => self.ended_unexpectedly(cell, Exit::Stopped),
            StageEnd::Closed => self.ended_unexpectedly(cell, Exit::Closed),
            // `Run` never ends with `Done`, and `StageSet` was handled by the caller.
            StageEnd::Done | StageEnd::StageSet => return,
            StageEnd::CancelledAtAwait(dropped) => return self.on_cancel(cell, dropped),
            StageEnd::Cancelled => return self.cancelled_between_messages(cell),
            StageEnd::Restart | StageEnd::Halt => {
                self.details().exit = None;
                return self.stop_children(cell, StopMode::Stop, 0);
            }
            StageEnd::ChildFailed => {
                if let Some((action, failure)) = cell.node().take_action() {
                    self.apply_action(cell, action, failure);
                }
                return;
            }
            StageEnd::Failed(reason) => {
                let reason = self.take_reason(reason);
                self.report_failure(cell, reason)
            }
        };
        self.after_failure(cell, failure);
    }

    /// Lets the supervisor decide about a failure, and applies the decision.
    #[cold]
    fn after_failure(&mut self, cell: &AnyCell, failure: FailureInfo) {
        let has_started = !matches!(self.phase, Phase::NoState | Phase::Starting);
        let failed_child = if has_started { FailedMemberKind::Actor } else { FailedMemberKind::Stateless };
        let (mut action, failure) = supervision::judge(cell.node(), failed_child, failure);
        cell.node().note_failure(&failure);
        if let (ChildAction::Escalate { exceeded }, Some(parent)) = (action, cell.node().parent()) {
            if let Some((member, failure)) = supervision::escalate(parent, &failure, exceeded) {
                supervision::propagate::propagate(member, failure);
            }
            // The decision made above may restart this actor, together with its supervisor.
            if supervision::is_to_restart(cell.node()) {
                action = ChildAction::Wait(Duration::ZERO);
            }
        }
        self.apply_action(cell, action, failure);
    }

    /// Applies the supervisor's decision about a failure of this actor.
    fn apply_action(&mut self, cell: &AnyCell, action: ChildAction, failure: FailureInfo) {
        self.settle_current(cell, true);
        cell.answer_unanswered(|| AskError::Failed(failure.clone()));
        match action {
            ChildAction::Resume => {}
            ChildAction::Restart(wait) | ChildAction::Wait(wait) => {
                let details = self.details();
                details.restart_wait = RestartWait::new(wait, matches!(action, ChildAction::Wait(_)));
                details.exit = Some(Exit::Failed(failure.clone()));
                details.failure = Some(failure);
                if self.has_state() {
                    self.stage = Stage::RestartingHook;
                } else {
                    self.stop_children(cell, StopMode::Stop, 0);
                }
            }
            ChildAction::Stop | ChildAction::Escalate { .. } => {
                self.begin_exit_with(cell, ExitKind::Fail, Exit::Failed(failure));
            }
        }
    }

    /// Begins the exit after a stop or close within `Run`, if no other incarnation follows. Returns
    /// `None` if only the `stopped` hook remains; the caller then runs it within `Run`.
    #[inline]
    pub(super) fn begin_exit_in_run(&mut self, cell: &AnyCell, end: StageEnd) -> Option<StageEnd> {
        let exit_kind = match end {
            StageEnd::Stopped => ExitKind::Stop,
            StageEnd::Closed => ExitKind::Close,
            end => return Some(end),
        };
        if !self.is_final(cell) {
            return Some(end);
        }
        cell.handler_returned();
        self.begin_exit(cell, exit_kind);
        if self.stage == Stage::StoppedHook { None } else { Some(StageEnd::StageSet) }
    }

    /// Returns true if no other incarnation follows a stop or close.
    fn is_final(&self, cell: &AnyCell) -> bool {
        cell.node().policy() != RestartPolicy::Permanent || cell.mailbox.control_word() & control::FINAL != 0
    }

    /// A permanent actor ended without an order of its supervisor. That is a failure, and the
    /// mailbox accepts messages again.
    #[cold]
    fn ended_unexpectedly(&mut self, cell: &AnyCell, exit: Exit) -> FailureInfo {
        let was_closed = exit == Exit::Closed;
        if was_closed {
            cell.mailbox.reopen();
        } else {
            cell.mailbox.clear_bits(control::STOP);
        }
        if cell.mailbox.control_word() & control::FINAL != 0 {
            // The supervisor's order has arrived meanwhile; it applies to the next incarnation.
            if was_closed { drop(cell.mailbox.close()) } else { cell.mailbox.raise_silently(control::STOP) }
        }
        self.report_failure(cell, Reason::Error(Box::new(UnexpectedExit { exit })))
    }

    /// The code was dropped at an await by a cancel. A panic in that drop is recorded, but not
    /// judged by the supervisor: the actor exits.
    #[cold]
    fn on_cancel(&mut self, cell: &AnyCell, dropped: Option<Box<Reason>>) {
        if let Some(reason) = dropped {
            self.record_failure(cell, *reason);
        }
        self.settle_current(cell, false);
        self.begin_cancelled_exit(cell);
    }

    /// A cancel arrived while no code of the actor ran, or the code finished within its cancel
    /// grace.
    #[cold]
    fn cancelled_between_messages(&mut self, cell: &AnyCell) {
        self.settle_current(cell, false);
        let has_grace = cell.options().is_some_and(|options| options.cancel_grace.is_some());
        match cell.node().cause() {
            Some(cause) if has_grace => self.begin_exit_with(cell, ExitKind::Cancel, Exit::TidiedUp(cause)),
            _ => self.begin_cancelled_exit(cell),
        }
    }

    /// Begins the exit of a cancelled actor.
    #[cold]
    pub(super) fn begin_cancelled_exit(&mut self, cell: &AnyCell) {
        let cause = cell.node().cause().unwrap_or(Cause::Cancelled);
        self.begin_exit_with(cell, ExitKind::Cancel, Exit::Cancelled(cause));
    }

    /// Begins the exit with an explicit `exit`.
    #[cold]
    pub(super) fn begin_exit_with(&mut self, cell: &AnyCell, exit_kind: ExitKind, exit: Exit) {
        self.details().exit = Some(exit);
        self.begin_exit(cell, exit_kind);
    }

    /// Begins the exit: closes the mailbox, then stops the children.
    #[inline]
    pub(super) fn begin_exit(&mut self, cell: &AnyCell, exit_kind: ExitKind) {
        self.exit_kind = Some(exit_kind);
        let empty = if cell.mailbox.close_by_receiver() { control::MAILBOX_EMPTY } else { 0 };
        self.stop_children(cell, if exit_kind == ExitKind::Close { StopMode::Close } else { StopMode::Stop }, empty);
    }

    /// Ends the children and accepts no more. `bits` are raised together with `ENDING`.
    #[inline]
    fn stop_children(&mut self, cell: &AnyCell, mode: StopMode, bits: u32) {
        cell.mailbox.raise_silently(control::ENDING | bits);
        if cell.node().refuse_children() {
            cell.node().stop_children(mode);
            self.stage = Stage::StopChildren;
            waits::break_cycles_of(cell.waits_for());
        } else {
            self.after_children(cell);
        }
    }

    #[inline]
    fn after_children(&mut self, cell: &AnyCell) {
        if self.has_state() { self.stage = Stage::StoppedHook } else { self.drop_state(cell) }
    }
}
