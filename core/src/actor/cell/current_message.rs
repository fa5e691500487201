//! What becomes of messages that were not handled to their end: the one in hand when its handler failed, those that are left when the actor is
//! gone, and the asks that waited for an answer.

use crate::actor::Actor;
use crate::actor::cell::Cell;
use crate::actor::cell::task::{Body, Leaving, Rare, Retry};
use crate::actor::props::Extra;
use crate::actor::stash::StashedIn;
use crate::events::event::DeadLetterReason;
use crate::mailbox::control;
use crate::tree::waits::ask_error::AskError;
use alloc::boxed::Box;
use core::task::{Poll, Waker};

/// Dead letters recorded in one go before others may run.
const BURIALS_PER_POLL_MAX: u32 = 256;

impl<A: Actor> Body<A> {
    /// Accounts for the message whose handler did not finish: once more if it may be retried, else failed or a dead letter.
    pub(super) fn settle_in_hand(&mut self, cell: &Cell<A::Msg>, may_retry: bool) {
        self.settle_stash(cell, if self.in_hand { StashedIn::Unfinished } else { StashedIn::Hook });
        if !core::mem::take(&mut self.in_hand) {
            return;
        }
        let (retries_max, dead_letter) = cell.extra.as_ref().map_or((0, false), |extra| (extra.retries_max, extra.bury_failed));
        let kept = self.rare.as_mut().and_then(|rare| rare.kept.take());
        match kept {
            Some(message) if may_retry && self.rare().attempts < retries_max => {
                cell.mailbox.begin_again();
                let below = self.batch.len();
                self.batch.push(message);
                let rare = self.rare();
                rare.retries.push(Retry { below, attempts: rare.attempts + 1 });
            }
            Some(message) if dead_letter => {
                cell.mailbox.count_dead_lettered();
                cell.dead_letter(message, DeadLetterReason::HandlerFailed);
            }
            kept => {
                cell.mailbox.count_failed();
                kept.into_iter().for_each(|message| cell.discard(message));
            }
        }
    }

    /// Makes dead letters of what is left, some at a time. A reply in them is answered with the outcome, once all are buried.
    pub(super) fn bury_some(&mut self, cell: &Cell<A::Msg>, waker: &Waker) -> Poll<()> {
        let reason = match self.leaving {
            Some(Leaving::Cancel) => DeadLetterReason::Cancelled,
            Some(Leaving::Fail) => DeadLetterReason::Failed,
            _ => DeadLetterReason::Stopped,
        };
        for _ in 0..BURIALS_PER_POLL_MAX {
            if self.batch.is_empty() {
                match cell.mailbox.poll_left_over(waker) {
                    Poll::Ready(Some(left)) => self.batch = left,
                    Poll::Ready(None) => return Poll::Ready(()),
                    Poll::Pending => return cell.rest(Poll::Pending),
                }
            }
            if let Some(message) = self.batch.pop() {
                cell.mailbox.count_removed();
                cell.dead_letter(message, reason);
            }
        }
        waker.wake_by_ref();
        cell.rest(Poll::Pending)
    }
}

impl<M: Send + 'static> Cell<M> {
    /// Answers the asks whose replies were dropped in what has just ended.
    #[inline]
    pub(super) fn answer_lost(&self, why: impl FnOnce() -> AskError) {
        if self.mailbox.word() & control::UNANSWERED != 0 {
            self.answer_all(&why());
        }
    }

    #[cold]
    fn answer_all(&self, why: &AskError) {
        self.take_unanswered().into_iter().for_each(|reply| reply.answer(why.clone()));
    }
}

impl<M: Send + 'static> Extra<M> {
    /// Keeps what records and retries need of a message about to be handled. `below` messages are left in the batch: that tells a message
    /// that is tried again from one that comes in between, such as a mapped signal.
    pub(super) fn note(&self, cell: &Cell<M>, rare: &mut Option<Box<Rare<M>>>, message: &M, below: usize) {
        if self.describe.is_none() && self.copy.is_none() {
            return;
        }
        let rare = rare.get_or_insert_default();
        let again = rare.retries.pop_if(|retry| retry.below == below);
        rare.attempts = again.map_or(0, |retry| retry.attempts);
        rare.description = self.describe.is_some().then(|| cell.describe(message));
        // The copy of the message before goes first: should this one not be copied, there is none to retry.
        rare.kept.take().into_iter().for_each(|before| cell.discard(before));
        rare.kept = self.copy.map(|copy| copy(message));
    }
}
