//! [`Instrument`]: code around the messages of chosen actors, for spans and timing.
//!
//! A system has at most one instrument, set by its builder. Actors that do not ask for it pay
//! nothing: an instrumented actor has a bit in its control word, and its mailbox gives no credits
//! for the fast push.

use crate::base::sync::Arc;
use crate::ids::path::ActorPath;
use alloc::boxed::Box;
use core::any::Any;

/// What travels with a message from its sender to its handler; made by [`Instrument::capture`].
pub type SendContext = Arc<dyn Any + Send + Sync>;

/// Code around the messages of [instrumented](crate::Props::instrumented) actors. Set it with
/// [`SystemBuilder::instrument`](crate::SystemBuilder::instrument).
///
/// A panic in one of these methods is discarded. They run on hot paths of instrumented actors and
/// must return quickly.
pub trait Instrument: Send + Sync + 'static {
    /// Called by the sender of each message to an instrumented actor, in the sender's thread.
    /// Returns what the handler's [`begin`](Self::begin) gets.
    fn capture(&self) -> Option<SendContext>;

    /// Called before the handler of each message. `sent` is what [`capture`](Self::capture)
    /// returned; it is `None` for messages that no sender sent: of timers, feeds, the stash,
    /// retries and mapped signals.
    fn begin(&self, message: &HandledMessage, sent: Option<SendContext>) -> Box<dyn HandlerSpan>;
}

/// A message whose handler begins; passed to [`Instrument::begin`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HandledMessage {
    /// The path of the actor in its tree.
    pub path: ActorPath,
    /// The label set by [`Props::label`](crate::Props::label), or the name of the message type.
    pub label: &'static str,
    /// The name of the message type.
    pub message_type: &'static str,
    /// The incarnation of the actor: 0 before the first restart.
    pub incarnation: u32,
}

/// The time in which one message is handled; made by [`Instrument::begin`]. It is dropped after
/// [`end`](Self::end).
pub trait HandlerSpan: Send {
    /// Called before each poll of the handler.
    fn enter(&mut self);
    /// Called after each poll of the handler.
    fn exit(&mut self);
    /// Called once, when the handler has returned, failed or was dropped.
    fn end(&mut self, outcome: HandlerOutcome);
}

/// How a handler ended; passed to [`HandlerSpan::end`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandlerOutcome {
    /// The handler returned `Ok` for this message.
    Handled,
    /// It returned an error, or panicked.
    Failed,
    /// It was dropped at an await, by a cancel.
    Dropped,
}
