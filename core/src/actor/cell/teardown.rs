//! The end of an incarnation and of the actor: what is dropped, answered and reported, in which
//! order.
//!
//! Invariants:
//! 1. Each user value (state, behaviour, timers, factory, feed, message) is dropped under a catch.
//!    A panic in a drop is recorded as a failure and has no other effect.
//! 2. Replies in dropped values are answered with the outcome of the actor.
//! 3. The actor leaves the tree last, after all its messages were counted.

use crate::actor::cell::AnyCell;
use crate::actor::cell::lifecycle::{ExitKind, Stage, StageEnd};
use crate::actor::cell::task::{AnyTask, Phase};
use crate::actor::stash::StashedIn;
use crate::base::catch;
use crate::base::reason::Reason;
use crate::base::sync::Arc;
use crate::events::cause::{Cause, Exit};
use crate::events::event::DeadLetterReason;
use crate::events::failure::FailureInfo;
use crate::mailbox::control;
use crate::tree::member::Member;
use crate::tree::waits::ask_error::AskError;
use crate::tree::{current, node, waits};
use alloc::borrow::Cow;
use core::task::{Poll, Waker};

/// The number of dead letters recorded in one poll before the task yields.
const DEAD_LETTERS_PER_POLL_MAX: u32 = 256;

impl AnyTask {
    /// Ends an incarnation: drops its state, then exits, restarts or waits to restart.
    pub(super) fn drop_state(&mut self, cell: &AnyCell) {
        if cell.has_timers_or_stash() {
            self.drop_timers_and_stash(cell);
        }
        let word = cell.mailbox.control_word();
        if word & control::BEHAVIOUR != 0 {
            self.drop_behaviour(cell);
        }
        if self.has_state() {
            self.drop_actor(cell);
        }
        if self.exit_kind.is_some() {
            // Stashed messages come back at the end of an incarnation.
            let was_empty = word & control::MAILBOX_EMPTY != 0 && !cell.has_timers_or_stash();
            let is_empty = was_empty || (self.part.batch_is_empty() && cell.mailbox.is_empty());
            self.stage = if is_empty { Stage::Gone } else { Stage::DeadLetters };
        } else {
            self.restart_or_wait(cell);
        }
    }

    /// Puts stashed messages back to the front of the mailbox: for the next incarnation, or to
    /// become dead letters. Drops the timers; their messages were never accepted.
    #[cold]
    fn drop_timers_and_stash(&mut self, cell: &AnyCell) {
        // The last message is settled already, so any unsettled stash was changed by a hook.
        cell.unstash();
        self.settle_stash(cell, StashedIn::Hook);
        self.has_timers = false;
        let dropped = if cell.is_reserved() {
            catch::catch(|| cell.clear_timers())
        } else {
            let timers = cell.take_timers();
            catch::catch(|| drop(timers))
        };
        if let Err(reason) = dropped {
            self.record_failure(cell, reason);
        }
    }

    /// Drops the behaviour: each incarnation begins with `Actor::handle`.
    #[cold]
    fn drop_behaviour(&self, cell: &AnyCell) {
        if let Err(reason) = catch::catch(|| drop(cell.set_behaviour(None))) {
            self.record_failure(cell, reason);
        }
    }

    /// Drops a state that was not dropped in its last stage. Replies in it are kept, as those of a
    /// handler are, and answered with the outcome.
    #[cold]
    fn drop_actor(&mut self, cell: &AnyCell) {
        let mut member = Some(self.part.member());
        let inside = current::enter(&mut member, Waker::noop());
        self.phase = Phase::NoState;
        let dropped = catch::catch(|| self.part.drop_actor());
        drop(inside);
        if let Err(reason) = dropped {
            self.record_failure(cell, reason);
        }
    }

    /// Makes dead letters of the remaining messages, some at a time. Replies in them are answered
    /// with the exit, after the last one.
    pub(super) fn dead_letter_some(&mut self, cell: &AnyCell, waker: &Waker) -> Poll<()> {
        let reason = match self.exit_kind {
            Some(ExitKind::Cancel) => DeadLetterReason::Cancelled,
            Some(ExitKind::Fail) => DeadLetterReason::Failed,
            _ => DeadLetterReason::Stopped,
        };
        for _ in 0..DEAD_LETTERS_PER_POLL_MAX {
            match self.poll_dead_letter(cell, reason, waker) {
                Poll::Ready(true) => {}
                Poll::Ready(false) => {
                    if cell.mailbox.end_backlog() {
                        cell.report_drained();
                    }
                    return Poll::Ready(());
                }
                Poll::Pending => return cell.mark_parked(Poll::Pending),
            }
        }
        waker.wake_by_ref();
        cell.mark_parked(Poll::Pending)
    }

    /// Drops the feed and the copy. They are user values, and each is dropped separately.
    #[cold]
    pub(super) fn drop_feed_and_copy(&mut self, cell: &AnyCell) {
        let Some(mut extra) = self.details().feed_and_copy.take() else { return };
        for dropped in [catch::catch(|| extra.drop_feed()), catch::catch(|| extra.copied().clear())] {
            if let Err(reason) = dropped {
                self.record_failure(cell, reason);
            }
        }
    }

    /// Makes a dead letter of the next remaining message. Returns true if there was one, and parks
    /// the receiver while a message is still being made.
    fn poll_dead_letter(&mut self, cell: &AnyCell, reason: DeadLetterReason, waker: &Waker) -> Poll<bool> {
        let batch = self.part.batch();
        if batch.len() == 0 {
            match cell.mailbox.poll_remaining(batch, waker) {
                Poll::Ready(true) => {}
                none_or_pending => return none_or_pending,
            }
        }
        if let Some(message) = batch.peek() {
            cell.mailbox.count_removed();
            cell.record_dead_letter(message, reason);
            cell.drop_value(|| batch.drop_next());
        }
        Poll::Ready(true)
    }

    /// The last step: leaves the tree. All user values are dropped before, so no drop runs after
    /// the exit is reported.
    pub(super) fn finish_exit(&mut self, cell: &AnyCell, member: &Arc<dyn Member>) {
        let exit = match self.exit_kind {
            Some(ExitKind::Close) => Exit::Closed,
            Some(ExitKind::Stop) | None => Exit::Stopped,
            Some(ExitKind::Cancel | ExitKind::Fail) => self.details().exit.take().unwrap_or(Exit::Stopped),
        };
        cell.answer_unanswered(|| AskError::from(exit.clone()));
        node::leave(member, &exit);
    }

    /// Records a failure without a decision of a supervisor.
    #[cold]
    pub(super) fn record_failure(&self, cell: &AnyCell, reason: Reason) {
        let failure = self.report_failure(cell, reason);
        cell.node().note_failure(&failure);
    }

    /// Creates the record of a failure and reports it. Every failure is reported, whatever the
    /// decision about it. It is noted for observers after that.
    #[cold]
    pub(super) fn report_failure(&self, cell: &AnyCell, reason: Reason) -> FailureInfo {
        let mut failure = cell.node().failure(self.part.incarnation(), reason);
        if self.turns.has_current() {
            let described = self.details.as_ref().and_then(|details| details.description.clone());
            let message_type = cell.mailbox.message_type();
            failure = failure.with_message(described.unwrap_or(Cow::Borrowed(message_type))).with_message_type(message_type);
        }
        cell.node().events().record_failure(&failure);
        failure
    }

    /// The runtime dropped the task before its end. The actor still leaves the tree: the current
    /// message is settled without a retry, and queued messages become dead letters.
    #[cold]
    pub(super) fn leave_unfinished(&mut self) {
        let member = self.part.member();
        let cell = &self.part.cell();
        // Replies in the dropped values are kept, and answered with the exit of the actor: no
        // handler has dropped them.
        let mut current = Some(Arc::clone(&member));
        let inside = current::enter(&mut current, Waker::noop());
        drop(cell.mailbox.close());
        cell.mailbox.mark_receiver_gone();
        self.settle_current(cell, false);
        self.drop_behaviour(cell);
        cell.unstash();
        self.settle_stash(cell, StashedIn::Hook);
        while self.poll_dead_letter(cell, DeadLetterReason::Cancelled, Waker::noop()) == Poll::Ready(true) {}
        if self.has_state() {
            self.drop_actor(cell);
        }
        drop(inside);
        cell.mailbox.count_rest_as_dead_letters();
        cell.answer_unanswered(|| AskError::Cancelled(Cause::Dropped));
        node::cancel(&member, &Cause::Dropped);
        node::leave(&member, &Exit::Cancelled(Cause::Dropped));
    }

    /// Records the failure of a hook. It has no other effect.
    #[inline]
    pub(super) fn record_hook_failure(&self, cell: &AnyCell, end: StageEnd) {
        if let StageEnd::Failed(reason) | StageEnd::CancelledAtAwait(Some(reason)) = end {
            self.record_failure(cell, *reason);
        }
    }
}

impl AnyCell {
    /// Answers the asks whose replies were dropped by the code that has just ended.
    #[inline]
    pub(super) fn answer_unanswered(&self, why: impl FnOnce() -> AskError) {
        if self.mailbox.control_word() & control::UNANSWERED != 0 {
            self.answer_all(&why());
        }
    }

    #[cold]
    pub(super) fn answer_all(&self, why: &AskError) {
        let mut unanswered = self.take_unanswered();
        unanswered.drain(..).for_each(|reply| waits::end_ask(reply, why.clone()));
        if self.is_reserved() {
            self.keep_unanswered_memory(unanswered);
        }
    }
}
