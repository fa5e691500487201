//! The end of an incarnation and of the actor: what is dropped, answered and reported, in which
//! order.
//!
//! Invariants:
//! 1. Each user value (state, behaviour, timers, factory, feed, message) is dropped under a catch.
//!    A panic in a drop is recorded as a failure and has no other effect.
//! 2. Replies in dropped values are answered with the outcome of the actor.
//! 3. The actor leaves the tree last, after all its messages were counted.

use crate::actor::Actor;
use crate::actor::cell::Cell;
use crate::actor::cell::lifecycle::{ExitKind, Stage, StageEnd};
use crate::actor::cell::member::type_name;
use crate::actor::cell::task::{ActorTask, EarlyPark};
use crate::actor::stash::StashedIn;
use crate::base::catch;
use crate::base::reason::Reason;
use crate::events::cause::{Cause, Exit};
use crate::events::event::DeadLetterReason;
use crate::events::failure::FailureInfo;
use crate::mailbox::control;
use crate::tree::member::Member;
use crate::tree::waits::ask_error::AskError;
use crate::tree::{current, node};
use alloc::sync::Arc;
use core::task::{Poll, Waker};

/// The number of dead letters recorded in one poll before the task yields.
const DEAD_LETTERS_PER_POLL_MAX: u32 = 256;

impl<A: Actor> ActorTask<A> {
    /// Ends an incarnation: drops its state, then exits, restarts or waits to restart.
    pub(super) fn drop_state(&mut self, cell: &Cell<A::Msg>) {
        if cell.has_timers_or_stash() {
            self.drop_timers_and_stash(cell);
        }
        self.drop_behaviour(cell);
        self.early_park = EarlyPark::NotStarted;
        if self.actor.is_some() {
            self.drop_actor(cell);
        }
        if self.exit_kind.is_some() {
            let was_empty = cell.mailbox.control_word() & control::MAILBOX_EMPTY != 0;
            let is_empty = self.batch.is_empty() && (was_empty || cell.mailbox.is_empty());
            self.stage = if is_empty { Stage::Gone } else { Stage::DeadLetters };
        } else {
            self.restart_or_wait(cell);
        }
    }

    /// Puts stashed messages back to the front of the mailbox: for the next incarnation, or to
    /// become dead letters. Drops the timers; their messages were never accepted.
    #[cold]
    fn drop_timers_and_stash(&mut self, cell: &Cell<A::Msg>) {
        // The last message is settled already, so any unsettled stash was changed by a hook.
        cell.unstash();
        self.settle_stash(cell, StashedIn::Hook);
        self.has_timers = false;
        if let Some(timers) = cell.take_timers()
            && let Err(reason) = catch::catch(|| drop(timers))
        {
            self.record_failure(cell, reason);
        }
    }

    /// Drops the behaviour: each incarnation begins with `Actor::handle`.
    fn drop_behaviour(&self, cell: &Cell<A::Msg>) {
        if cell.mailbox.control_word() & control::BEHAVIOUR != 0
            && let Err(reason) = catch::catch(|| drop(cell.set_behaviour(None)))
        {
            self.record_failure(cell, reason);
        }
    }

    /// Drops a state that was not dropped in its last stage. Replies in it are kept, as those of a
    /// handler are, and answered with the outcome.
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

    /// Makes dead letters of the remaining messages, some at a time. Replies in them are answered
    /// with the exit, after the last one.
    pub(super) fn dead_letter_some(&mut self, cell: &Cell<A::Msg>, waker: &Waker) -> Poll<()> {
        let reason = match self.exit_kind {
            Some(ExitKind::Cancel) => DeadLetterReason::Cancelled,
            Some(ExitKind::Fail) => DeadLetterReason::Failed,
            _ => DeadLetterReason::Stopped,
        };
        for _ in 0..DEAD_LETTERS_PER_POLL_MAX {
            if self.batch.is_empty() {
                match cell.mailbox.poll_remaining(waker) {
                    Poll::Ready(Some(part)) => self.batch = part,
                    Poll::Ready(None) => return Poll::Ready(()),
                    Poll::Pending => return cell.mark_parked(Poll::Pending),
                }
            }
            if let Some(message) = self.batch.pop() {
                cell.mailbox.count_removed();
                cell.dead_letter(message, reason);
            }
        }
        waker.wake_by_ref();
        cell.mark_parked(Poll::Pending)
    }

    /// The last step: leaves the tree.
    #[inline]
    pub(super) fn finish_exit(&mut self, cell: &Cell<A::Msg>, member: &Arc<dyn Member>, factory: impl FnMut() -> A) {
        // The factory, the feed and the copy are user values. Each is dropped separately, before
        // the exit is reported.
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

    /// Creates the record of a failure and reports it. Every failure is reported, whatever the
    /// decision about it.
    #[cold]
    pub(super) fn record_failure(&self, cell: &Cell<A::Msg>, reason: Reason) -> FailureInfo {
        let mut failure = cell.node.failure(self.cx.incarnation(), reason);
        if self.has_current {
            let described = self.details.as_ref().and_then(|details| details.description.clone());
            failure = failure.with_message(described.unwrap_or_else(type_name::<A::Msg>));
        }
        cell.node.events().record_failure(&failure);
        failure
    }

    /// Records the failure of a hook. It has no other effect.
    #[inline]
    pub(super) fn record_hook_failure(&self, cell: &Cell<A::Msg>, end: StageEnd) {
        if let StageEnd::Failed(reason) | StageEnd::CancelledAtAwait(Some(reason)) = end {
            self.record_failure(cell, *reason);
        }
    }
}

/// The runtime dropped the task before its end. The actor still leaves the tree: the current
/// message is settled without a retry, and queued messages become dead letters.
impl<A: Actor> Drop for ActorTask<A> {
    fn drop(&mut self) {
        if self.stage == Stage::Gone {
            return;
        }
        let cell = &Arc::clone(self.cx.cell());
        // Replies in the dropped values are kept, and answered with the exit of the actor: no
        // handler has dropped them.
        let mut current = Some(Arc::clone(cell) as Arc<dyn Member>);
        let inside = current::enter(&mut current, Waker::noop());
        cell.mailbox.close();
        cell.mailbox.mark_receiver_gone();
        self.settle_current(cell, false);
        self.drop_behaviour(cell);
        cell.unstash();
        self.settle_stash(cell, StashedIn::Hook);
        let remaining = core::iter::from_fn(|| cell.mailbox.take_remaining()).flat_map(|part| part.into_iter().rev());
        for message in core::mem::take(&mut self.batch).into_iter().rev().chain(remaining) {
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

impl<M: Send + 'static> Cell<M> {
    /// Answers the asks whose replies were dropped by the code that has just ended.
    #[inline]
    pub(super) fn answer_unanswered(&self, why: impl FnOnce() -> AskError) {
        if self.mailbox.control_word() & control::UNANSWERED != 0 {
            self.answer_all(&why());
        }
    }

    #[cold]
    fn answer_all(&self, why: &AskError) {
        self.take_unanswered().into_iter().for_each(|reply| reply.answer(why.clone()));
    }
}
