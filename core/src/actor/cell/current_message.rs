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
use crate::actor::cell::member::describe;
use crate::actor::cell::task::{ActorTask, AnyTask, Retry};
use crate::actor::cell::{AnyCell, Cell};
use crate::actor::context::Context;
use crate::actor::props::ActorOptions;
use crate::actor::stash::StashedIn;
use core::future::Future;

impl<A: Actor> ActorTask<A> {
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
        self.has_current = true;
        self.budget -= 1;
        if cell.mailbox.owner_bits & ActorOptions::NOTES_MESSAGES != 0 {
            self.note_message(cell, &message);
        }
        let ActorPart { actor, cx, .. } = &mut self.part;
        handle(actor.as_mut().expect("an incarnation has an actor from its start"), message, cx)
    }

    /// Counts the current message as handled.
    #[inline]
    pub(super) fn finish_current(&mut self, cell: &Cell<A::Msg>) {
        cell.mailbox.count_handled();
        self.has_current = false;
    }
}

impl AnyTask {
    /// Settles the message whose handler did not finish: it is retried if allowed, else it counts
    /// as failed or becomes a dead letter.
    pub(super) fn settle_current(&mut self, cell: &AnyCell, may_retry: bool) {
        self.settle_stash(cell, if self.has_current { StashedIn::Unfinished } else { StashedIn::Hook });
        if !core::mem::take(&mut self.has_current) {
            return;
        }
        let (retries_max, dead_letter) =
            cell.options().map_or((0, false), |options| (options.retries_max, options.dead_letter_failed_messages));
        let has_copy = self.part.has_copy();
        if has_copy && may_retry && self.details().attempts < retries_max {
            cell.mailbox.uncount_taken(1);
            let below = self.part.retry_copy();
            let details = self.details();
            details.retries.push(Retry { below, attempts: details.attempts + 1 });
        } else {
            let dead_letter = has_copy && dead_letter;
            if dead_letter {
                cell.mailbox.count_dead_lettered();
            } else {
                cell.mailbox.count_failed();
            }
            self.part.drop_copy(dead_letter);
        }
    }
}

impl<A: Actor> ActorTask<A> {
    /// Before a message is handled: keeps its description and its copy, as far as the options need
    /// them.
    #[cold]
    fn note_message(&mut self, cell: &Cell<A::Msg>, message: &A::Msg) {
        let details = self.details();
        if details.options.is_none() {
            details.options = cell.any().options();
        }
        let options = details.options.clone();
        let Some(options) = options.as_ref().and_then(|options| options.for_messages::<A::Msg>()) else { return };
        // The number of messages left in the batch tells a retried message from one that comes in
        // between, such as a mapped signal.
        let below = self.part.batch.len();
        let details = self.details();
        let again = details.retries.pop_if(|retry| retry.below == below);
        details.attempts = again.map_or(0, |retry| retry.attempts);
        details.description = options.describe.is_some().then(|| describe(Some(options), message));
        let Some(copy) = options.copy else { return };
        // The copy of the previous message is dropped first: if the clone below panics, there is
        // none to retry.
        let extra = self.part.extra.get_or_insert_default();
        extra.retry_copy.take().into_iter().for_each(|before| cell.discard(before));
        extra.retry_copy = Some(copy(message));
    }
}
