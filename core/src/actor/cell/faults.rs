//! Faults in handlers, for tests: a message fails although its handler would not.
//!
//! Only a tree whose runtime has [`HandlerFaults`](crate::HandlerFaults) sets the control bit
//! `FAULTY` of its actors. The bit makes each message a boxed step (see `boxed_steps`). Actors
//! without it come here only for a boxed step that they have anyway.

use crate::actor::Actor;
use crate::actor::cell::boxed_steps::Handling;
use crate::actor::cell::task::ActorTask;
use crate::actor::cell::{AnyCell, Cell};
use crate::base::catch;
use crate::base::handler_faults::HandlerFault;
use crate::mailbox::control;
use alloc::boxed::Box;

impl AnyCell {
    /// Lets each message of this actor ask for a fault. Called before the first message.
    #[cold]
    pub(crate) fn expect_faults(&self) {
        self.mailbox.raise_silently(control::FAULTY);
    }

    /// Returns the fault of the message whose handler begins now.
    fn next_fault(&self) -> Option<HandlerFault> {
        if self.mailbox.control_word() & control::FAULTY == 0 {
            return None;
        }
        let faults = self.node().tree().faults.as_ref()?;
        faults.next_fault(&self.node().path(), self.mailbox.message_type())
    }
}

impl<A: Actor> ActorTask<A> {
    /// Begins a message, with its fault if it has one. The task of the actor catches what is raised
    /// here.
    pub(super) fn handle_with_fault<'a>(&'a mut self, cell: &'a Cell<A::Msg>, message: A::Msg) -> Handling<'a, A> {
        match cell.any().next_fault() {
            None => self.handle_plainly(cell, message),
            Some(HandlerFault::Fail(text)) => self.drop_message(cell, message, || catch::raise_error(text)),
            Some(HandlerFault::CrashBefore(text)) => self.drop_message(cell, message, || catch::raise_panic(text)),
            Some(HandlerFault::CrashAfter(text)) => {
                let handling = self.handle_plainly(cell, message);
                Box::pin(async move {
                    handling.await?;
                    catch::raise_panic(text)
                })
            }
        }
    }

    /// Takes a message as its handler would, drops it, and fails.
    fn drop_message<'a>(
        &'a mut self,
        cell: &'a Cell<A::Msg>,
        message: A::Msg,
        fail: impl FnOnce() -> Result<(), A::Error> + Send + 'a,
    ) -> Handling<'a, A> {
        self.handle_message_with(cell, message, |_, message, _| {
            Box::pin(async move {
                drop(message);
                fail()
            })
        })
    }
}
