//! What comes after a stage of an actor's life: the message in hand, the supervisor's word, the hooks, the next incarnation or the end.
//!
//! Order at every end: the message in hand is accounted for; the guardian decides; replies that were lost are answered with the outcome;
//! children end, youngest first; `stopped` runs; the state is dropped. At the last end the mailbox is emptied into dead letters and
//! the tree lets go. All of it is plain code between two stages; what must be awaited is a stage.

use crate::actor::Actor;
use crate::actor::cell::Cell;
use crate::actor::cell::member::type_name;
use crate::actor::cell::restart_wait::Pause;
use crate::actor::cell::task::{Body, Early, End, Leaving, Rare, Stage};
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

impl<A: Actor> Body<A> {
    /// Settles the stage that has ended, and says which comes next.
    pub(super) fn next_stage(&mut self, cell: &Cell<A::Msg>, end: End) {
        match self.stage {
            _ if matches!(end, End::Left) => {}
            Stage::Run => {
                cell.handler_returned();
                self.after_run(cell, end);
            }
            Stage::Restarting => {
                self.record_hook(cell, end);
                self.end_children(cell, StopMode::Stop, 0);
            }
            Stage::EndChildren => self.after_children(cell),
            Stage::Waiting => self.after_wait(cell, end),
            Stage::Stopped => {
                self.record_hook(cell, end);
                self.drop_state(cell);
            }
            Stage::Bury | Stage::Gone => self.stage = Stage::Gone,
        }
    }

    #[inline]
    fn after_run(&mut self, cell: &Cell<A::Msg>, end: End) {
        let failure = match end {
            End::Stopped => self.ended_unasked(cell, Exit::Stopped),
            End::Closed => self.ended_unasked(cell, Exit::Closed),
            // No run ends like this: it has no end of its own, and one that has left has its next stage.
            End::Done | End::Left => return,
            End::CutOff(dropped) => return self.on_cancel(cell, dropped),
            End::Cancelled => return self.leave_between_messages(cell),
            End::Restart | End::Halt => {
                self.rare().exit = None;
                return self.end_children(cell, StopMode::Stop, 0);
            }
            End::ChildFailed => {
                if let Some((verdict, failure)) = cell.node.take_verdict() {
                    self.obey_verdict(cell, verdict, failure);
                }
                return;
            }
            End::Failed(reason) => self.record(cell, *reason),
        };
        self.after_failure(cell, failure);
    }

    #[cold]
    fn after_failure(&mut self, cell: &Cell<A::Msg>, failure: FailureInfo) {
        let fallen = if self.early == Early::NotUp { FailedChild::Stateless } else { FailedChild::Actor };
        let (mut verdict, failure) = supervision::judge(&cell.node, fallen, failure);
        if let (ChildAction::Escalate { exceeded }, Some(parent)) = (verdict, cell.node.parent()) {
            if let Some((member, failure)) = supervision::escalate(parent, &failure, exceeded) {
                supervision::propagate(member, failure);
            }
            // Whoever decided above may have this actor start again, with its supervisor.
            if supervision::is_to_restart(&cell.node) {
                verdict = ChildAction::Wait(Duration::ZERO);
            }
        }
        self.obey_verdict(cell, verdict, failure);
    }

    /// Does what was decided about a failure of this actor.
    fn obey_verdict(&mut self, cell: &Cell<A::Msg>, verdict: ChildAction, failure: FailureInfo) {
        self.settle_in_hand(cell, true);
        cell.answer_lost(|| AskError::Failed(failure.clone()));
        match verdict {
            ChildAction::Resume => {}
            ChildAction::Restart(wait) | ChildAction::Wait(wait) => {
                let rare = self.rare();
                rare.pause = Pause::of(wait, matches!(verdict, ChildAction::Wait(_)));
                rare.exit = Some(Exit::Failed(failure.clone()));
                rare.failure = Some(failure);
                if self.actor.is_some() { self.stage = Stage::Restarting } else { self.end_children(cell, StopMode::Stop, 0) }
            }
            ChildAction::Stop | ChildAction::Escalate { .. } => self.leave_with(cell, Leaving::Fail, Exit::Failed(failure)),
        }
    }

    /// A stop or the end of input that no other incarnation follows begins here, within the stage that it ends: `None` if nothing but the
    /// `stopped` hook comes next, which is then a part of that stage.
    #[inline]
    pub(super) fn leave_at_once(&mut self, cell: &Cell<A::Msg>, end: End) -> Option<End> {
        let leaving = match end {
            End::Stopped => Leaving::Stop,
            End::Closed => Leaving::Close,
            end => return Some(end),
        };
        if !self.ends_for_good(cell) {
            return Some(end);
        }
        cell.handler_returned();
        self.leave(cell, leaving);
        if self.stage == Stage::Stopped { None } else { Some(End::Left) }
    }

    /// Whether no other incarnation follows a stop or the end of input.
    fn ends_for_good(&self, cell: &Cell<A::Msg>) -> bool {
        cell.node.policy() != RestartPolicy::Permanent || cell.mailbox.word() & control::FOR_GOOD != 0
    }

    /// A permanent child ended, and its supervisor had not ordered it: that is a failure, and the mailbox takes messages again.
    #[cold]
    fn ended_unasked(&mut self, cell: &Cell<A::Msg>, exit: Exit) -> FailureInfo {
        let ended_input = exit == Exit::Closed;
        if ended_input {
            cell.mailbox.reopen();
        } else {
            cell.mailbox.lower(control::STOP);
        }
        if cell.mailbox.word() & control::FOR_GOOD != 0 {
            // The supervisor's word has come meanwhile, and holds for the next incarnation.
            if ended_input { drop(cell.mailbox.close()) } else { cell.mailbox.mark(control::STOP) }
        }
        self.record(cell, Reason::Error(Box::new(EndedUnasked { exit })))
    }

    /// The handler was cut off. A panic in what it left behind is on record, and not a matter for the supervisor: the actor ends.
    #[cold]
    fn on_cancel(&mut self, cell: &Cell<A::Msg>, dropped: Option<Box<Reason>>) {
        if let Some(reason) = dropped {
            self.record(cell, *reason);
        }
        self.settle_in_hand(cell, false);
        self.leave_cancelled(cell);
    }

    /// A cancel came while no code of the actor was at work, or such code had a grace and came to its end in it.
    #[cold]
    fn leave_between_messages(&mut self, cell: &Cell<A::Msg>) {
        self.settle_in_hand(cell, false);
        let has_grace = cell.extra.as_ref().is_some_and(|extra| extra.cancel_grace.is_some());
        match cell.node.cause() {
            Some(cause) if has_grace => self.leave_with(cell, Leaving::Cancel, Exit::TidiedUp(cause)),
            _ => self.leave_cancelled(cell),
        }
    }

    #[cold]
    pub(super) fn leave_cancelled(&mut self, cell: &Cell<A::Msg>) {
        let cause = cell.node.cause().unwrap_or(Cause::Cancelled);
        self.leave_with(cell, Leaving::Cancel, Exit::Cancelled(cause));
    }

    /// Ends for good, with an exit that says more than that it was told to.
    #[cold]
    pub(super) fn leave_with(&mut self, cell: &Cell<A::Msg>, leaving: Leaving, exit: Exit) {
        self.rare().exit = Some(exit);
        self.leave(cell, leaving);
    }

    #[inline]
    pub(super) fn leave(&mut self, cell: &Cell<A::Msg>, leaving: Leaving) {
        self.leaving = Some(leaving);
        let emptied = if cell.mailbox.close_for_good() { control::EMPTIED } else { 0 };
        self.end_children(cell, if leaving == Leaving::Close { StopMode::Close } else { StopMode::Stop }, emptied);
    }

    #[inline]
    fn end_children(&mut self, cell: &Cell<A::Msg>, how: StopMode, noted: u32) {
        cell.mailbox.mark(control::ENDING | noted);
        if cell.node.refuse_children() {
            cell.node.wind_down_children(how);
            self.stage = Stage::EndChildren;
            waits::break_cycles_of(self.cx.cell().waits_for());
        } else {
            self.after_children(cell);
        }
    }

    #[inline]
    fn after_children(&mut self, cell: &Cell<A::Msg>) {
        if self.actor.is_some() { self.stage = Stage::Stopped } else { self.drop_state(cell) }
    }

    /// The end of an incarnation: its state goes, and another one follows or the actor leaves.
    fn drop_state(&mut self, cell: &Cell<A::Msg>) {
        if cell.has_timers_or_stash() {
            self.drop_timers_and_stash(cell);
        }
        self.drop_behaviour(cell);
        self.early = Early::NotUp;
        if self.actor.is_some() {
            self.drop_actor(cell);
        }
        if self.leaving.is_some() {
            let emptied = cell.mailbox.word() & control::EMPTIED != 0;
            let nothing_left = self.batch.is_empty() && (emptied || cell.mailbox.is_empty());
            self.stage = if nothing_left { Stage::Gone } else { Stage::Bury };
        } else {
            self.begin_again_or_wait(cell);
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
            self.record(cell, reason);
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
            self.record(cell, reason);
        }
    }

    /// The next incarnation, unless the actor is to end after all.
    pub(super) fn begin_again(&mut self, cell: &Cell<A::Msg>, waited: bool) {
        match cell.node.take_verdict() {
            // A failure of a child of the last incarnation is not the next one's; what was decided about it stands.
            Some((ChildAction::Stop | ChildAction::Escalate { .. }, failure)) => {
                self.leave_with(cell, Leaving::Fail, Exit::Failed(failure));
            }
            // Its group counts on it to halt by itself.
            Some((ChildAction::Wait(wait), failure)) if !waited => {
                let rare = self.rare();
                (rare.pause, rare.exit) = (Pause::of(wait, true), Some(Exit::Failed(failure)));
                self.wait(cell);
            }
            _ if cell.node.reopen() => {
                let exit = || self.rare.as_ref().and_then(|rare| rare.exit.clone());
                cell.answer_lost(|| exit().map_or(AskError::Dropped, AskError::from));
                cell.mailbox.lower(control::ENDING | control::CHILD_FAILED | control::RESTART);
                cell.node.known_supervision(Supervision::forget_restarts);
                self.cx.next_incarnation();
                self.suspended = false;
                self.stage = Stage::Run;
            }
            _ => self.leave_cancelled(cell),
        }
    }

    /// Each incarnation begins with the first behaviour.
    fn drop_behaviour(&self, cell: &Cell<A::Msg>) {
        if cell.mailbox.word() & control::BEHAVIOUR != 0
            && let Err(reason) = catch::catch(|| drop(cell.set_behaviour(None)))
        {
            self.record(cell, reason);
        }
    }

    /// The last step: out of the tree.
    #[inline]
    pub(super) fn depart(&mut self, cell: &Cell<A::Msg>, member: &Arc<dyn Member>, factory: impl FnMut() -> A) {
        // What the recipe holds is a user's as well: it goes before the exit is told, and each part by itself.
        if let Err(reason) = catch::catch(|| drop(factory)) {
            self.record(cell, reason);
        }
        if let Some(rare) = &mut self.rare {
            let (feed, kept) = (rare.feed.take(), rare.kept.take());
            for reason in [catch::catch(|| drop(feed)), catch::catch(|| drop(kept))].into_iter().filter_map(Result::err) {
                self.record(cell, reason);
            }
        }
        let exit = match self.leaving {
            Some(Leaving::Close) => Exit::Closed,
            Some(Leaving::Stop) | None => Exit::Stopped,
            Some(Leaving::Cancel | Leaving::Fail) => self.rare().exit.take().unwrap_or(Exit::Stopped),
        };
        cell.answer_lost(|| AskError::from(exit.clone()));
        node::leave(member, &exit);
    }

    /// Makes the record of a failure and tells it. There is one for every failure, whatever becomes of it.
    #[cold]
    fn record(&self, cell: &Cell<A::Msg>, reason: Reason) -> FailureInfo {
        let mut failure = cell.node.failure(self.cx.incarnation(), reason);
        if self.in_hand {
            let described = self.rare.as_ref().and_then(|rare| rare.description.clone());
            failure = failure.with_message(described.unwrap_or_else(type_name::<A::Msg>));
        }
        cell.node.events().failure(&failure);
        failure
    }

    /// A hook that failed is a failure on record, and changes nothing else.
    #[inline]
    fn record_hook(&self, cell: &Cell<A::Msg>, end: End) {
        if let End::Failed(reason) | End::CutOff(Some(reason)) = end {
            self.record(cell, *reason);
        }
    }

    pub(super) fn rare(&mut self) -> &mut Rare<A::Msg> {
        self.rare.get_or_insert_default()
    }
}

/// The task is dropped before its end, because its runtime went away: the member leaves the tree all the same, the message in hand was cut
/// off, and what was queued counts as dead letters.
impl<A: Actor> Drop for Body<A> {
    fn drop(&mut self) {
        if self.stage == Stage::Gone {
            return;
        }
        let cell = &Arc::clone(self.cx.cell());
        // Replies in what is dropped here are held, and answered with the end of the actor: no handler has dropped them.
        let mut current = Some(Arc::clone(cell) as Arc<dyn Member>);
        let inside = current::enter(&mut current, Waker::noop());
        cell.mailbox.close();
        cell.mailbox.forsake();
        self.settle_in_hand(cell, false);
        self.drop_behaviour(cell);
        cell.unstash();
        self.settle_stash(cell, StashedIn::Hook);
        let left_over = core::iter::from_fn(|| cell.mailbox.take_left_over()).flat_map(|left| left.into_iter().rev());
        for message in core::mem::take(&mut self.batch).into_iter().rev().chain(left_over) {
            cell.mailbox.count_removed();
            cell.dead_letter(message, DeadLetterReason::Cancelled);
        }
        if self.actor.is_some() {
            self.drop_actor(cell);
        }
        drop(inside);
        cell.mailbox.settle_rest();
        cell.answer_lost(|| AskError::Cancelled(Cause::Dropped));
        let member: Arc<dyn Member> = Arc::clone(cell) as Arc<dyn Member>;
        node::cancel(&member, &Cause::Dropped);
        node::leave(&member, &Exit::Cancelled(Cause::Dropped));
    }
}
