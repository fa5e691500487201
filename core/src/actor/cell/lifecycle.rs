//! What comes after a stage of an actor's life: the message in hand, the supervisor's word, the hooks, the next incarnation or the end.
//!
//! Order at every end: the message in hand is accounted for; the guardian decides; replies that were lost are answered with the outcome;
//! children end, youngest first; `stopped` runs; the state is dropped. At the last end the mailbox is emptied into dead letters and
//! the tree lets go. All of it is plain code between two stages; what must be awaited is a stage.

use crate::actor::Actor;
use crate::actor::cell::Cell;
use crate::actor::cell::member::type_name;
use crate::actor::cell::restart_wait::RestartWait;
use crate::actor::cell::task::{ActorTask, EarlyPark, ExitKind, Stage, StageEnd, TaskDetails};
use crate::actor::stash::StashedIn;
use crate::base::catch;
use crate::base::reason::Reason;
use crate::events::cause::{Cause, Exit};
use crate::events::event::DeadLetterReason;
use crate::events::failure::{EndedUnasked, FailureInfo};
use crate::mailbox::control;
use crate::supervise::decide::RestartPolicy;
use crate::tree::member::{Member, StopMode};
use crate::tree::supervision::{ChildAction, FailedChild, Supervision};
use crate::tree::waits::ask_error::AskError;
use crate::tree::{current, node, supervision, waits};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::task::Waker;
use core::time::Duration;

impl<A: Actor> ActorTask<A> {
    /// Settles the stage that has ended, and says which comes next.
    pub(super) fn next_stage(&mut self, cell: &Cell<A::Msg>, end: StageEnd) {
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

    #[inline]
    fn after_run(&mut self, cell: &Cell<A::Msg>, end: StageEnd) {
        let failure = match end {
            StageEnd::Stopped => self.ended_unexpectedly(cell, Exit::Stopped),
            StageEnd::Closed => self.ended_unexpectedly(cell, Exit::Closed),
            // No run ends like this: it has no end of its own, and one that has left has its next stage.
            StageEnd::Done | StageEnd::StageSet => return,
            StageEnd::CancelledAtAwait(dropped) => return self.on_cancel(cell, dropped),
            StageEnd::Cancelled => return self.cancelled_between_messages(cell),
            StageEnd::Restart | StageEnd::Halt => {
                self.details().exit = None;
                return self.stop_children(cell, StopMode::Stop, 0);
            }
            StageEnd::ChildFailed => {
                if let Some((action, failure)) = cell.node.take_verdict() {
                    self.apply_action(cell, action, failure);
                }
                return;
            }
            StageEnd::Failed(reason) => self.record_failure(cell, *reason),
        };
        self.after_failure(cell, failure);
    }

    #[cold]
    fn after_failure(&mut self, cell: &Cell<A::Msg>, failure: FailureInfo) {
        let failed_child = if self.early_park == EarlyPark::NotStarted { FailedChild::Stateless } else { FailedChild::Actor };
        let (mut action, failure) = supervision::judge(&cell.node, failed_child, failure);
        if let (ChildAction::Escalate { exceeded }, Some(parent)) = (action, cell.node.parent()) {
            if let Some((member, failure)) = supervision::escalate(parent, &failure, exceeded) {
                supervision::propagate(member, failure);
            }
            // Whoever decided above may have this actor start again, with its supervisor.
            if supervision::is_to_restart(&cell.node) {
                action = ChildAction::Wait(Duration::ZERO);
            }
        }
        self.apply_action(cell, action, failure);
    }

    /// Does what was decided about a failure of this actor.
    fn apply_action(&mut self, cell: &Cell<A::Msg>, action: ChildAction, failure: FailureInfo) {
        self.settle_current(cell, true);
        cell.answer_unanswered(|| AskError::Failed(failure.clone()));
        match action {
            ChildAction::Resume => {}
            ChildAction::Restart(wait) | ChildAction::Wait(wait) => {
                let details = self.details();
                details.restart_wait = RestartWait::of(wait, matches!(action, ChildAction::Wait(_)));
                details.exit = Some(Exit::Failed(failure.clone()));
                details.failure = Some(failure);
                if self.actor.is_some() {
                    self.stage = Stage::RestartingHook
                } else {
                    self.stop_children(cell, StopMode::Stop, 0)
                }
            }
            ChildAction::Stop | ChildAction::Escalate { .. } => {
                self.begin_exit_with(cell, ExitKind::Fail, Exit::Failed(failure))
            }
        }
    }

    /// A stop or the end of input that no other incarnation follows begins here, within the stage that it ends: `None` if nothing but the
    /// `stopped` hook comes next, which is then a part of that stage.
    #[inline]
    pub(super) fn begin_exit_in_run(&mut self, cell: &Cell<A::Msg>, end: StageEnd) -> Option<StageEnd> {
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

    /// Whether no other incarnation follows a stop or the end of input.
    fn is_final(&self, cell: &Cell<A::Msg>) -> bool {
        cell.node.policy() != RestartPolicy::Permanent || cell.mailbox.control_word() & control::FINAL != 0
    }

    /// A permanent child ended, and its supervisor had not ordered it: that is a failure, and the mailbox takes messages again.
    #[cold]
    fn ended_unexpectedly(&mut self, cell: &Cell<A::Msg>, exit: Exit) -> FailureInfo {
        let ended_input = exit == Exit::Closed;
        if ended_input {
            cell.mailbox.reopen();
        } else {
            cell.mailbox.clear_bits(control::STOP);
        }
        if cell.mailbox.control_word() & control::FINAL != 0 {
            // The supervisor's word has come meanwhile, and holds for the next incarnation.
            if ended_input { drop(cell.mailbox.close()) } else { cell.mailbox.raise_silently(control::STOP) }
        }
        self.record_failure(cell, Reason::Error(Box::new(EndedUnasked { exit })))
    }

    /// The handler was cut off. A panic in what it left behind is on record, and not a matter for the supervisor: the actor ends.
    #[cold]
    fn on_cancel(&mut self, cell: &Cell<A::Msg>, dropped: Option<Box<Reason>>) {
        if let Some(reason) = dropped {
            self.record_failure(cell, *reason);
        }
        self.settle_current(cell, false);
        self.begin_cancelled_exit(cell);
    }

    /// A cancel came while no code of the actor was at work, or such code had a grace and came to its end in it.
    #[cold]
    fn cancelled_between_messages(&mut self, cell: &Cell<A::Msg>) {
        self.settle_current(cell, false);
        let has_grace = cell.options.as_ref().is_some_and(|options| options.cancel_grace.is_some());
        match cell.node.cause() {
            Some(cause) if has_grace => self.begin_exit_with(cell, ExitKind::Cancel, Exit::TidiedUp(cause)),
            _ => self.begin_cancelled_exit(cell),
        }
    }

    #[cold]
    pub(super) fn begin_cancelled_exit(&mut self, cell: &Cell<A::Msg>) {
        let cause = cell.node.cause().unwrap_or(Cause::Cancelled);
        self.begin_exit_with(cell, ExitKind::Cancel, Exit::Cancelled(cause));
    }

    /// Ends for good, with an exit that says more than that it was told to.
    #[cold]
    pub(super) fn begin_exit_with(&mut self, cell: &Cell<A::Msg>, exit_kind: ExitKind, exit: Exit) {
        self.details().exit = Some(exit);
        self.begin_exit(cell, exit_kind);
    }

    #[inline]
    pub(super) fn begin_exit(&mut self, cell: &Cell<A::Msg>, exit_kind: ExitKind) {
        self.exit_kind = Some(exit_kind);
        let empty = if cell.mailbox.close_by_receiver() { control::MAILBOX_EMPTY } else { 0 };
        self.stop_children(cell, if exit_kind == ExitKind::Close { StopMode::Close } else { StopMode::Stop }, empty);
    }

    #[inline]
    fn stop_children(&mut self, cell: &Cell<A::Msg>, how: StopMode, noted: u32) {
        cell.mailbox.raise_silently(control::ENDING | noted);
        if cell.node.refuse_children() {
            cell.node.wind_down_children(how);
            self.stage = Stage::StopChildren;
            waits::break_cycles_of(self.cx.cell().waits_for());
        } else {
            self.after_children(cell);
        }
    }

    #[inline]
    fn after_children(&mut self, cell: &Cell<A::Msg>) {
        if self.actor.is_some() { self.stage = Stage::StoppedHook } else { self.drop_state(cell) }
    }

    /// The end of an incarnation: its state goes, and another one follows or the actor leaves.
    fn drop_state(&mut self, cell: &Cell<A::Msg>) {
        if cell.has_timers_or_stash() {
            self.drop_timers_and_stash(cell);
        }
        self.drop_behaviour(cell);
        self.early_park = EarlyPark::NotStarted;
        if self.actor.is_some() {
            self.drop_actor(cell);
        }
        if self.exit_kind.is_some() {
            let empty = cell.mailbox.control_word() & control::MAILBOX_EMPTY != 0;
            let nothing_left = self.batch.is_empty() && (empty || cell.mailbox.is_empty());
            self.stage = if nothing_left { Stage::Gone } else { Stage::DeadLetters };
        } else {
            self.restart_or_wait(cell);
        }
    }

    /// What was put aside is back at the front of the mailbox: for the next incarnation, or to be buried. The timers of an incarnation end
    /// with it; what they would have sent was never accepted.
    #[cold]
    fn drop_timers_and_stash(&mut self, cell: &Cell<A::Msg>) {
        // The last message has been settled: what is not settled yet was put aside by a hook.
        cell.unstash();
        self.settle_stash(cell, StashedIn::Hook);
        self.has_timers = false;
        if let Some(timers) = cell.take_timers()
            && let Err(reason) = catch::catch(|| drop(timers))
        {
            self.record_failure(cell, reason);
        }
    }

    /// Drops a state that did not end with the stage in which it was stopped. Replies in it are held like those of a handler, and answered with what ended it.
    #[cold]
    fn drop_actor(&mut self, cell: &Cell<A::Msg>) {
        let mut member = Some(Arc::clone(self.cx.cell()) as Arc<dyn Member>);
        let inside = current::enter(&mut member, Waker::noop());
        let actor = self.actor.take();
        let dropped = catch::catch(|| drop(actor));
        drop(inside);
        if let Err(reason) = dropped {
            self.record_failure(cell, reason);
        }
    }

    /// The next incarnation, unless the actor is to end after all.
    pub(super) fn begin_next_incarnation(&mut self, cell: &Cell<A::Msg>, waited: bool) {
        match cell.node.take_verdict() {
            // A failure of a child of the last incarnation is not the next one's; what was decided about it stands.
            Some((ChildAction::Stop | ChildAction::Escalate { .. }, failure)) => {
                self.begin_exit_with(cell, ExitKind::Fail, Exit::Failed(failure));
            }
            // Its group counts on it to halt by itself.
            Some((ChildAction::Wait(wait), failure)) if !waited => {
                let details = self.details();
                (details.restart_wait, details.exit) = (RestartWait::of(wait, true), Some(Exit::Failed(failure)));
                self.wait(cell);
            }
            _ if cell.node.reopen() => {
                let exit = || self.details.as_ref().and_then(|details| details.exit.clone());
                cell.answer_unanswered(|| exit().map_or(AskError::Dropped, AskError::from));
                cell.mailbox.clear_bits(control::ENDING | control::CHILD_FAILED | control::RESTART);
                cell.node.known_supervision(Supervision::forget_restarts);
                self.cx.next_incarnation();
                self.suspended = false;
                self.stage = Stage::Run;
            }
            _ => self.begin_cancelled_exit(cell),
        }
    }

    /// Each incarnation begins with the first behaviour.
    fn drop_behaviour(&self, cell: &Cell<A::Msg>) {
        if cell.mailbox.control_word() & control::BEHAVIOUR != 0
            && let Err(reason) = catch::catch(|| drop(cell.set_behaviour(None)))
        {
            self.record_failure(cell, reason);
        }
    }

    /// The last step: out of the tree.
    #[inline]
    pub(super) fn finish_exit(&mut self, cell: &Cell<A::Msg>, member: &Arc<dyn Member>, factory: impl FnMut() -> A) {
        // What the recipe holds is a user's as well: it goes before the exit is told, and each part by itself.
        if let Err(reason) = catch::catch(|| drop(factory)) {
            self.record_failure(cell, reason);
        }
        if let Some(details) = &mut self.details {
            let (feed, retry_copy) = (details.feed.take(), details.retry_copy.take());
            for reason in [catch::catch(|| drop(feed)), catch::catch(|| drop(retry_copy))].into_iter().filter_map(Result::err) {
                self.record_failure(cell, reason);
            }
        }
        let exit = match self.exit_kind {
            Some(ExitKind::Close) => Exit::Closed,
            Some(ExitKind::Stop) | None => Exit::Stopped,
            Some(ExitKind::Cancel | ExitKind::Fail) => self.details().exit.take().unwrap_or(Exit::Stopped),
        };
        cell.answer_unanswered(|| AskError::from(exit.clone()));
        node::leave(member, &exit);
    }

    /// Makes the record of a failure and tells it. There is one for every failure, whatever becomes of it.
    #[cold]
    fn record_failure(&self, cell: &Cell<A::Msg>, reason: Reason) -> FailureInfo {
        let mut failure = cell.node.failure(self.cx.incarnation(), reason);
        if self.has_current {
            let described = self.details.as_ref().and_then(|details| details.description.clone());
            failure = failure.with_message(described.unwrap_or_else(type_name::<A::Msg>));
        }
        cell.node.events().failure(&failure);
        failure
    }

    /// A hook that failed is a failure on record, and changes nothing else.
    #[inline]
    fn record_hook_failure(&self, cell: &Cell<A::Msg>, end: StageEnd) {
        if let StageEnd::Failed(reason) | StageEnd::CancelledAtAwait(Some(reason)) = end {
            self.record_failure(cell, *reason);
        }
    }

    pub(super) fn details(&mut self) -> &mut TaskDetails<A::Msg> {
        self.details.get_or_insert_default()
    }
}

/// The task is dropped before its end, because its runtime went away: the member leaves the tree all the same, the message in hand was cut
/// off, and what was queued counts as dead letters.
impl<A: Actor> Drop for ActorTask<A> {
    fn drop(&mut self) {
        if self.stage == Stage::Gone {
            return;
        }
        let cell = &Arc::clone(self.cx.cell());
        // Replies in what is dropped here are held, and answered with the end of the actor: no handler has dropped them.
        let mut current = Some(Arc::clone(cell) as Arc<dyn Member>);
        let inside = current::enter(&mut current, Waker::noop());
        cell.mailbox.close();
        cell.mailbox.mark_receiver_gone();
        self.settle_current(cell, false);
        self.drop_behaviour(cell);
        cell.unstash();
        self.settle_stash(cell, StashedIn::Hook);
        let left_over = core::iter::from_fn(|| cell.mailbox.take_remaining()).flat_map(|left| left.into_iter().rev());
        for message in core::mem::take(&mut self.batch).into_iter().rev().chain(left_over) {
            cell.mailbox.count_removed();
            cell.dead_letter(message, DeadLetterReason::Cancelled);
        }
        if self.actor.is_some() {
            self.drop_actor(cell);
        }
        drop(inside);
        cell.mailbox.count_rest_as_dead_letters();
        cell.answer_unanswered(|| AskError::Cancelled(Cause::Dropped));
        let member: Arc<dyn Member> = Arc::clone(cell) as Arc<dyn Member>;
        node::cancel(&member, &Cause::Dropped);
        node::leave(&member, &Exit::Cancelled(Cause::Dropped));
    }
}
