//! The current message: from the start of its handler to its count as handled, failed or
//! dead-lettered.
//!
//! ```text
//!  batch ──next_message─► current ──finish_current──► handled
//!                            ├──────settle_current──► batch again (retry), failed, or dead letter
//!                            └──────settle_stash────► stash
//! ```

use crate::actor::Actor;
use crate::actor::cell::actor_part::ActorPart;
use crate::actor::cell::task::{ActorTask, AnyTask, Retry};
use crate::actor::cell::{AnyCell, Cell};
use crate::actor::context::Context;
use crate::actor::props::ActorOptions;
use crate::actor::stash::StashedIn;
use crate::events::event::DeadLetterReason;
use core::any::Any;
use core::future::Future;

impl<A: Actor> ActorTask<A> {
    /// Returns true if the batch has a message that the actor may handle now.
    #[inline]
    pub(super) fn may_take_next(&self) -> bool {
        !self.part.batch.is_empty() && self.turns.may_begin()
    }

    /// Takes the next message of the batch, which must not be empty.
    #[inline]
    pub(super) fn next_message(&mut self, cell: &Cell<A::Msg>) -> A::Msg {
        let message = self.part.batch.pop().expect("the caller has seen a message");
        cell.mailbox.count_taken();
        message
    }

    /// Passes a taken message to the handler. This is a separate function so that the loop keeps
    /// only the handler's future while it waits.
    #[inline]
    pub(super) fn handle_message(
        &mut self,
        cell: &Cell<A::Msg>,
        message: A::Msg,
    ) -> impl Future<Output = Result<(), A::Error>> + Send {
        self.handle_message_with(cell, message, A::handle)
    }

    /// Passes a taken message to `handle`: the actor's handler, or a behaviour.
    #[inline]
    pub(super) fn handle_message_with<'a, F>(
        &'a mut self,
        cell: &Cell<A::Msg>,
        message: A::Msg,
        handle: impl FnOnce(&'a mut A, A::Msg, &'a mut Context<A>) -> F,
    ) -> F {
        self.turns.begin_message();
        if cell.mailbox.owner_bits & ActorOptions::NOTES_MESSAGES != 0 {
            self.any().note_message(cell.any(), &message);
        }
        let ActorPart { actor, cx, .. } = &mut self.part;
        handle(actor.as_mut().expect("an incarnation has an actor from its start"), message, cx)
    }

    /// Counts the current message as handled.
    #[inline]
    pub(super) fn finish_current(&mut self, cell: &Cell<A::Msg>) {
        cell.mailbox.count_handled();
        self.turns.end_message();
    }
}

impl AnyTask {
    /// Settles the message whose handler did not finish: it is retried if allowed, else it counts
    /// as failed or becomes a dead letter.
    pub(super) fn settle_current(&mut self, cell: &AnyCell, may_retry: bool) {
        self.settle_stash(cell, if self.turns.has_current() { StashedIn::Unfinished } else { StashedIn::Hook });
        if !self.turns.take_current() {
            return;
        }
        let (retries_max, dead_letter) =
            cell.options().map_or((0, false), |options| (options.retries_max, options.dead_letter_failed_messages));
        let has_copied = self.feed_and_copy().is_some_and(|extra| extra.has_copied());
        if has_copied && may_retry && self.details().attempts < retries_max {
            cell.mailbox.uncount_taken(1);
            let below = self.part.batch().len();
            self.put_back_copy();
            let details = self.details();
            details.retries.push(Retry { below, attempts: details.attempts + 1 });
        } else if has_copied && dead_letter {
            cell.mailbox.count_dead_lettered();
            if let Some(extra) = self.feed_and_copy() {
                cell.dead_letter(extra.copied(), DeadLetterReason::HandlerFailed);
            }
        } else {
            cell.mailbox.count_failed();
            self.drop_copy(cell);
        }
    }

    /// Puts the copy of the current message back into the batch.
    fn put_back_copy(&mut self) {
        let Self { details, part, .. } = self;
        if let Some(extra) = details.as_mut().and_then(|details| details.feed_and_copy.as_mut()) {
            part.batch().push(extra.copied());
        }
    }

    /// Drops the copy of the last message, if there is one.
    pub(super) fn drop_copy(&mut self, cell: &AnyCell) {
        if let Some(extra) = self.feed_and_copy().filter(|extra| extra.has_copied()) {
            cell.discard(extra.copied());
        }
    }

    /// Before a message is handled: keeps its description and its copy, as far as the options need
    /// them.
    #[cold]
    fn note_message(&mut self, cell: &AnyCell, message: &dyn Any) {
        // The number of messages left in the batch tells a retried message from one that comes in
        // between, such as a mapped signal.
        let below = self.part.batch().len();
        let details = self.details();
        if details.options.is_none() {
            details.options = cell.options();
        }
        let again = details.retries.pop_if(|retry| retry.below == below);
        details.attempts = again.map_or(0, |retry| retry.attempts);
        details.description = details.options.as_deref().and_then(|options| cell.describe_with(options, message));
        // The copy of the previous message is dropped first: if the clone below panics, there is
        // none to retry.
        self.drop_copy(cell);
        if let Some(extra) = self.feed_and_copy() {
            extra.copy(message);
        }
    }
}
