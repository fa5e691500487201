//! The handler of one message of an instrumented actor, with its span around each poll.
//!
//! The control bit `INSTRUMENTED` makes each message a boxed step (see `boxed_steps`), so the code
//! here is reached by no other actor.

use crate::actor::cell::AnyCell;
use crate::base::catch;
use crate::base::runtime::BoxFuture;
use crate::events::instrument::{HandledMessage, HandlerOutcome, HandlerSpan, SendContext};
use crate::mailbox::control;
use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

impl AnyCell {
    /// Returns what travels with a message to this actor. Called by its sender.
    pub(crate) fn capture(&self) -> Option<SendContext> {
        if self.mailbox.control_word() & control::INSTRUMENTED == 0 {
            return None;
        }
        let instrument = self.node().tree().instrument.as_ref()?;
        catch::catch(|| instrument.capture()).ok().flatten()
    }

    /// Begins the span of a message whose handler begins now.
    pub(super) fn begin_span(&self, incarnation: u32, sent: Option<SendContext>) -> Option<Box<dyn HandlerSpan>> {
        let instrument = self.node().tree().instrument.as_ref()?;
        let message_type = self.mailbox.message_type();
        let message = HandledMessage { path: self.node().path(), label: self.label(), message_type, incarnation };
        catch::catch(|| instrument.begin(&message, sent)).ok()
    }
}

/// Polls a handler inside of its span. It ends the span when the handler has returned, or when this
/// future is dropped.
pub(super) struct Instrumented<'a, E> {
    handler: BoxFuture<'a, Result<(), E>>,
    span: Option<Box<dyn HandlerSpan>>,
}

impl<'a, E> Instrumented<'a, E> {
    pub(super) fn new(handler: BoxFuture<'a, Result<(), E>>, span: Option<Box<dyn HandlerSpan>>) -> Self {
        Self { handler, span }
    }
}

/// Leaves the span, also if the handler panics, which ends it.
struct Entered<'a> {
    span: &'a mut Option<Box<dyn HandlerSpan>>,
    has_returned: bool,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        call(self.span.as_deref_mut(), HandlerSpan::exit);
        if !self.has_returned {
            end(self.span, HandlerOutcome::Failed);
        }
    }
}

impl<E> Future for Instrumented<'_, E> {
    type Output = Result<(), E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { handler, span } = &mut *self;
        call(span.as_deref_mut(), HandlerSpan::enter);
        let mut entered = Entered { span, has_returned: false };
        let polled = handler.as_mut().poll(cx);
        entered.has_returned = true;
        drop(entered);
        if let Poll::Ready(result) = &polled {
            end(span, if result.is_ok() { HandlerOutcome::Handled } else { HandlerOutcome::Failed });
        }
        polled
    }
}

impl<E> Drop for Instrumented<'_, E> {
    fn drop(&mut self) {
        end(&mut self.span, HandlerOutcome::Dropped);
    }
}

fn end(span: &mut Option<Box<dyn HandlerSpan>>, outcome: HandlerOutcome) {
    let mut span = span.take();
    call(span.as_deref_mut(), |span| span.end(outcome));
    drop(catch::catch(|| drop(span)));
}

/// Calls a method of the span. Its panic is discarded.
fn call<'a>(span: Option<&'a mut (dyn HandlerSpan + 'static)>, method: impl FnOnce(&'a mut (dyn HandlerSpan + 'static))) {
    if let Some(span) = span {
        drop(catch::catch(|| method(span)));
    }
}
