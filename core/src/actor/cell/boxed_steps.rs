//! Boxed steps: signals and behaviours, which few actors use.
//!
//! The future of such a step is boxed, so an idle actor has no room for it. A signal goes to
//! `Actor::signal`, or becomes a message through `Props::map_signals`. A message goes to the
//! behaviour set by `Context::become_with`, and not to `Actor::handle`. Both are announced by bits
//! of the control word, so an actor without them pays nothing.

use crate::actor::Actor;
use crate::actor::cell::instrumented::Instrumented;
use crate::actor::cell::task::ActorTask;
use crate::actor::cell::{Cell, SIGNALS_IN_A_ROW_MAX};
use crate::actor::stash::StashedIn;
use crate::base::runtime::BoxFuture;
use crate::events::instrument::SendContext;
use crate::mailbox::control;
use alloc::boxed::Box;

/// A step of the loop that few actors take.
pub(super) enum BoxedStep {
    /// A signal, or the message that `Props::map_signals` makes from it.
    Signal,
    /// A message for a behaviour.
    Message,
}

/// The boxed future of user code for a message or a signal.
type Handling<'a, A> = BoxFuture<'a, Result<(), <A as Actor>::Error>>;

impl<A: Actor> ActorTask<A> {
    /// Returns the next boxed step, if the control word announces one and the budget of this poll
    /// allows it.
    #[cold]
    pub(super) fn next_boxed_step(&mut self, word: u32, signals: &mut u32) -> Option<BoxedStep> {
        if self.budget == 0 {
            None
        } else if word & control::SIGNALS != 0 && *signals < SIGNALS_IN_A_ROW_MAX {
            *signals += 1;
            Some(BoxedStep::Signal)
        } else if word & (control::BEHAVIOUR | control::INSTRUMENTED) != 0 && !self.part.batch.is_empty() && !self.suspended {
            *signals = 0;
            Some(BoxedStep::Message)
        } else {
            None
        }
    }

    /// Begins a boxed step.
    pub(super) fn begin_boxed_step<'a>(&'a mut self, cell: &'a Cell<A::Msg>, step: BoxedStep) -> Handling<'a, A> {
        match step {
            BoxedStep::Signal => self.next_signal(cell),
            BoxedStep::Message => {
                let message = self.part.batch.pop().expect("checked before");
                // A message from the mailbox is below all messages that the actor added itself.
                let sent = if self.part.batch.is_empty() { cell.any().mailbox.taken_context() } else { None };
                self.handle_boxed(cell, message, sent)
            }
        }
    }

    /// Begins the next signal if it is still queued, as a message if `Props::map_signals` converts
    /// it.
    fn next_signal<'a>(&'a mut self, cell: &'a Cell<A::Msg>) -> Handling<'a, A> {
        let Some(signal) = cell.any().mailbox.pop_signal() else { return Box::pin(core::future::ready(Ok(()))) };
        let mut mapped = None;
        cell.any().map_signal(&signal, &mut mapped);
        match mapped {
            Some(message) => {
                cell.any().mailbox.count_accepted();
                self.handle_boxed(cell, message, None)
            }
            None => {
                self.budget -= 1;
                let actor = self.part.actor.as_mut().expect("an incarnation has an actor from its start");
                Box::pin(actor.signal(signal, &mut self.part.cx))
            }
        }
    }

    /// Begins a message, with the behaviour if one is set, and inside of its span if the actor is
    /// instrumented.
    fn handle_boxed<'a>(&'a mut self, cell: &'a Cell<A::Msg>, message: A::Msg, sent: Option<SendContext>) -> Handling<'a, A> {
        cell.mailbox.count_taken();
        let is_instrumented = cell.mailbox.control_word() & control::INSTRUMENTED != 0;
        let incarnation = self.part.cx.incarnation();
        let handling: Handling<'a, A> = match self.part.cx.behaviour() {
            Some(behaviour) => {
                self.handle_message_with(cell, message, |actor, message, cx| behaviour.handle(actor, message, cx))
            }
            None => Box::pin(self.handle_message(cell, message)),
        };
        if !is_instrumented {
            return handling;
        }
        Box::pin(Instrumented::new(handling, cell.any().begin_span(incarnation, sent)))
    }

    /// Finishes a boxed step. If it was a message, it counts as handled.
    pub(super) fn finish_boxed_step(&mut self, cell: &Cell<A::Msg>) {
        if self.has_current {
            self.finish_current(cell);
        } else {
            self.any().settle_stash(cell, StashedIn::Hook);
        }
    }
}
