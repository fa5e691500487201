//! Boxed steps: signals and behaviours, which few actors use.
//!
//! The future of such a step is boxed, so an idle actor has no room for it. A signal goes to
//! `Actor::signal`, or becomes a message through `Props::map_signals`. A message goes to the
//! behaviour set by `Context::become_with`, and not to `Actor::handle`. Both are announced by bits
//! of the control word, so an actor without them pays nothing.

use crate::actor::Actor;
use crate::actor::cell::instrumented::Instrumented;
use crate::actor::cell::task::{ActorTask, AnyTask};
use crate::actor::cell::{AnyCell, Cell, SIGNALS_IN_A_ROW_MAX};
use crate::actor::stash::StashedIn;
use crate::base::runtime::BoxFuture;
use crate::events::instrument::SendContext;
use crate::events::signal::Signal;
use crate::mailbox::control;
use crate::mailbox::slot::Slot;
use alloc::boxed::Box;

/// A step of the loop that few actors take.
pub(super) enum BoxedStep {
    /// A signal, or the message that `Props::map_signals` makes from it.
    Signal,
    /// A message for a behaviour.
    Message,
}

const _: () = assert!(SIGNALS_IN_A_ROW_MAX < u8::MAX as u32, "a row is counted in a byte");

/// The boxed future of user code for a message or a signal.
pub(super) type Handling<'a, A> = BoxFuture<'a, Result<(), <A as Actor>::Error>>;

impl AnyTask {
    /// Returns the next boxed step, if the control word announces one and the budget of this poll
    /// allows it.
    #[cold]
    pub(super) fn next_boxed_step(&mut self, word: u32) -> Option<BoxedStep> {
        if self.turns.is_spent() {
            return None;
        }
        if word & control::SIGNALS != 0 && u32::from(self.signals_in_a_row) < SIGNALS_IN_A_ROW_MAX {
            self.signals_in_a_row += 1;
            return Some(BoxedStep::Signal);
        }
        // The row ends: one message goes first, if there is any that may be handled.
        self.signals_in_a_row = 0;
        let is_boxed = word & (control::BEHAVIOUR | control::INSTRUMENTED | control::FAULTY) != 0;
        (is_boxed && !self.part.batch_is_empty() && !self.turns.is_suspended()).then_some(BoxedStep::Message)
    }
}

impl AnyCell {
    /// Takes the next signal, if it is still queued. If `Props::map_signals` converts it, the
    /// message is in `slot`, and counts as accepted.
    fn next_signal(&self, slot: &mut dyn Slot) -> Option<Signal> {
        let signal = self.mailbox.pop_signal()?;
        self.map_signal(&signal, slot);
        if slot.message().is_none() {
            return Some(signal);
        }
        self.mailbox.count_accepted();
        None
    }
}

impl<A: Actor> ActorTask<A> {
    /// Begins a boxed step. Not inlined, because few actors have any.
    #[inline(never)]
    pub(super) fn begin_boxed_step<'a>(&'a mut self, cell: &'a Cell<A::Msg>, step: BoxedStep) -> Handling<'a, A> {
        let (mut message, mut sent) = (None, None);
        match step {
            BoxedStep::Signal => {
                if let Some(signal) = cell.any().next_signal(&mut message) {
                    self.turns.spend();
                    let actor = self.part.actor.as_mut().expect("an incarnation has an actor from its start");
                    return Box::pin(actor.signal(signal, &mut self.part.cx));
                }
            }
            BoxedStep::Message => {
                message = self.part.batch.pop();
                // A message from the mailbox is below all messages that the actor added itself.
                if self.part.batch.is_empty() {
                    sent = cell.any().mailbox.taken_context();
                }
            }
        }
        match message {
            Some(message) => self.handle_boxed(cell, message, sent),
            // The signal is no longer queued.
            None => Box::pin(core::future::ready(Ok(()))),
        }
    }

    /// Begins a message, inside of its span if the actor is instrumented.
    fn handle_boxed<'a>(&'a mut self, cell: &'a Cell<A::Msg>, message: A::Msg, sent: Option<SendContext>) -> Handling<'a, A> {
        cell.mailbox.count_taken();
        let is_instrumented = cell.mailbox.control_word() & control::INSTRUMENTED != 0;
        let incarnation = self.part.cx.incarnation();
        let handling = self.handle_with_fault(cell, message);
        if !is_instrumented {
            return handling;
        }
        Box::pin(Instrumented::new(handling, cell.any().begin_span(incarnation, sent)))
    }

    /// Begins a message with the behaviour if one is set, else with the handler.
    pub(super) fn handle_plainly<'a>(&'a mut self, cell: &'a Cell<A::Msg>, message: A::Msg) -> Handling<'a, A> {
        match self.part.cx.behaviour() {
            Some(behaviour) => {
                self.handle_message_with(cell, message, |actor, message, cx| behaviour.handle(actor, message, cx))
            }
            None => Box::pin(self.handle_message(cell, message)),
        }
    }

    /// Without `std` there are no faults.
    #[cfg(not(feature = "std"))]
    fn handle_with_fault<'a>(&'a mut self, cell: &'a Cell<A::Msg>, message: A::Msg) -> Handling<'a, A> {
        self.handle_plainly(cell, message)
    }

    /// Finishes a boxed step. If it was a message, it counts as handled.
    pub(super) fn finish_boxed_step(&mut self, cell: &Cell<A::Msg>) {
        if self.turns.has_current() {
            self.finish_current(cell);
        } else {
            self.any().settle_stash(cell, StashedIn::Hook);
        }
    }
}
