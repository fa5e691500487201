//! The current message: from the start of its handler to its count as handled, failed or
//! dead-lettered.
//!
//! ```text
//!  batch ──handle_next──► current ──finish_current──► handled
//!                            ├──────settle_current──► batch again (retry), failed, or dead letter
//!                            └──────settle_stash────► stash
//! ```

use crate::actor::Actor;
use crate::actor::cell::Cell;
use crate::actor::cell::task::{ActorTask, Retry, TaskDetails};
use crate::actor::context::Context;
use crate::actor::props::ActorOptions;
use crate::actor::stash::StashedIn;
use crate::events::event::DeadLetterReason;
use crate::mailbox::control;
use alloc::boxed::Box;
use core::future::Future;

impl<A: Actor> ActorTask<A> {
    /// Begins the next message of the batch, which must not be empty.
    #[inline]
    pub(super) fn handle_next(&mut self, cell: &Cell<A::Msg>) -> impl Future<Output = Result<(), A::Error>> + Send {
        let message = self.batch.pop().expect("the caller has seen a message");
        cell.mailbox.count_taken();
        self.handle_message(cell, message)
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
        let actor = self.actor.as_mut().expect("an incarnation has an actor from its start");
        self.has_current = true;
        self.budget -= 1;
        if let Some(options) = cell.options.as_deref() {
            options.note_message(cell, &mut self.details, &message, self.batch.len());
        }
        handle(actor, message, &mut self.cx)
    }

    /// Counts the current message as handled.
    #[inline]
    pub(super) fn finish_current(&mut self, cell: &Cell<A::Msg>) {
        cell.mailbox.count_handled();
        self.has_current = false;
    }

    /// Settles the message whose handler did not finish: it is retried if allowed, else it counts
    /// as failed or becomes a dead letter.
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

    /// Settles changes of the stash, if there are any.
    pub(super) fn settle_stash(&mut self, cell: &Cell<A::Msg>, at: StashedIn) {
        if cell.mailbox.control_word() & control::STASH_CHANGED != 0 && cell.settle_stash(&mut self.batch, at) {
            self.has_current = false;
        }
    }
}

impl<M: Send + 'static> ActorOptions<M> {
    /// Before a message is handled: keeps its description and its copy, as far as the options need
    /// them.
    ///
    /// `below` is the number of messages left in the batch. It tells a retried message from one
    /// that comes in between, such as a mapped signal.
    pub(super) fn note_message(&self, cell: &Cell<M>, details: &mut Option<Box<TaskDetails<M>>>, message: &M, below: usize) {
        if self.describe.is_none() && self.copy.is_none() {
            return;
        }
        let details = details.get_or_insert_default();
        let again = details.retries.pop_if(|retry| retry.below == below);
        details.attempts = again.map_or(0, |retry| retry.attempts);
        details.description = self.describe.is_some().then(|| cell.describe(message));
        // The copy of the previous message is dropped first: if the clone below panics, there is
        // none to retry.
        details.retry_copy.take().into_iter().for_each(|before| cell.discard(before));
        details.retry_copy = self.copy.map(|copy| copy(message));
    }
}
