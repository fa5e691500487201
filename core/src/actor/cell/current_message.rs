//! What becomes of messages that were not handled to their end: the one in hand when its handler failed, those that are left when the actor is
//! gone, and the asks that waited for an answer.

use crate::actor::Actor;
use crate::actor::cell::Cell;
use crate::actor::cell::task::{ActorTask, ExitKind, Retry, TaskDetails};
use crate::actor::props::ActorOptions;
use crate::actor::stash::StashedIn;
use crate::events::event::DeadLetterReason;
use crate::mailbox::control;
use crate::tree::waits::ask_error::AskError;
use alloc::boxed::Box;
use core::task::{Poll, Waker};

/// Dead letters recorded in one go before others may run.
const DEAD_LETTERS_PER_POLL_MAX: u32 = 256;

impl<A: Actor> ActorTask<A> {
    /// Accounts for the message whose handler did not finish: once more if it may be retried, else failed or a dead letter.
    pub(super) fn settle_current(&mut self, cell: &Cell<A::Msg>, may_retry: bool) {
        self.settle_stash(cell, if self.has_current { StashedIn::Unfinished } else { StashedIn::Hook });
        if !core::mem::take(&mut self.has_current) {
            return;
        }
        let (retries_max, dead_letter) =
            cell.options.as_ref().map_or((0, false), |options| (options.retries_max, options.dead_letter_failed_messages));
        let retry_copy = self.details.as_mut().and_then(|details| details.retry_copy.take());
        match retry_copy {
            Some(message) if may_retry && self.details().attempts < retries_max => {
                cell.mailbox.uncount_taken(1);
                let below = self.batch.len();
                self.batch.push(message);
                let details = self.details();
                details.retries.push(Retry { below, attempts: details.attempts + 1 });
            }
            Some(message) if dead_letter => {
                cell.mailbox.count_dead_lettered();
                cell.dead_letter(message, DeadLetterReason::HandlerFailed);
            }
            retry_copy => {
                cell.mailbox.count_failed();
                retry_copy.into_iter().for_each(|message| cell.discard(message));
            }
        }
    }

    /// Makes dead letters of what is left, some at a time. A reply in them is answered with the outcome, once all are buried.
    pub(super) fn dead_letter_some(&mut self, cell: &Cell<A::Msg>, waker: &Waker) -> Poll<()> {
        let reason = match self.exit_kind {
            Some(ExitKind::Cancel) => DeadLetterReason::Cancelled,
            Some(ExitKind::Fail) => DeadLetterReason::Failed,
            _ => DeadLetterReason::Stopped,
        };
        for _ in 0..DEAD_LETTERS_PER_POLL_MAX {
            if self.batch.is_empty() {
                match cell.mailbox.poll_remaining(waker) {
                    Poll::Ready(Some(left)) => self.batch = left,
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
}

impl<M: Send + 'static> Cell<M> {
    /// Answers the asks whose replies were dropped in what has just ended.
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

impl<M: Send + 'static> ActorOptions<M> {
    /// Keeps what records and retries need of a message about to be handled. `below` messages are left in the batch: that tells a message
    /// that is tried again from one that comes in between, such as a mapped signal.
    pub(super) fn note_message(&self, cell: &Cell<M>, details: &mut Option<Box<TaskDetails<M>>>, message: &M, below: usize) {
        if self.describe.is_none() && self.copy.is_none() {
            return;
        }
        let details = details.get_or_insert_default();
        let again = details.retries.pop_if(|retry| retry.below == below);
        details.attempts = again.map_or(0, |retry| retry.attempts);
        details.description = self.describe.is_some().then(|| cell.describe(message));
        // The copy of the message before goes first: should this one not be copied, there is none to retry.
        details.retry_copy.take().into_iter().for_each(|before| cell.discard(before));
        details.retry_copy = self.copy.map(|copy| copy(message));
    }
}
