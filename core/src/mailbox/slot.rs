//! [`Slot`] and [`Batch`]: a place for one message and a list of messages, as seen by code that
//! does not know their type.
//!
//! The slow paths of a mailbox are compiled once. They pass a message by its slot, an `Option<M>`
//! on the stack of the typed caller: taken out when the message moves on, and filled when one comes
//! back. A batch is the `Vec<M>` of messages that a receiver works through, from its end.

use crate::mailbox::send_error::SendError;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;

/// A place for one message. Implemented by `Option<M>`.
pub(crate) trait Slot: Send {
    /// Returns the slot as its type, for code that knows it.
    fn as_any_mut(&mut self) -> &mut dyn Any;
    /// Returns the message, for code that knows its type.
    fn message(&self) -> Option<&dyn Any>;
    /// Moves the message into a box.
    fn take_boxed(&mut self) -> Option<BoxedMessage>;
    /// Moves the message of a box of the same type into the slot.
    fn put_boxed(&mut self, message: BoxedMessage);
    /// Drops the message. This is user code.
    fn clear(&mut self);
}

/// A message in a box, so that a list of such needs no message type.
pub(crate) type BoxedMessage = Box<dyn Any + Send>;

impl<M: Send + 'static> Slot for Option<M> {
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn message(&self) -> Option<&dyn Any> {
        self.as_ref().map(|message| message as &dyn Any)
    }

    fn take_boxed(&mut self) -> Option<BoxedMessage> {
        self.take().map(|message| Box::new(message) as BoxedMessage)
    }

    fn put_boxed(&mut self, message: BoxedMessage) {
        *self = message.downcast().ok().map(|message| *message);
    }

    fn clear(&mut self) {
        *self = None;
    }
}

/// The messages that a receiver has taken, the oldest last. Implemented by `Vec<M>`.
pub(crate) trait Batch: Send {
    /// Returns the batch as its type, for code that knows it.
    fn as_any_mut(&mut self) -> &mut dyn Any;
    fn len(&self) -> usize;
    /// Adds the message in the slot as the next to be handled.
    fn push(&mut self, slot: &mut dyn Slot);
    /// Looks at the next message, for code that knows its type.
    fn peek(&self) -> Option<&dyn Any>;
    /// Drops the next message. This is user code.
    fn drop_next(&mut self);
    /// Reverses the order of the messages.
    fn reverse(&mut self);
    /// Frees the memory of an empty batch.
    fn free(&mut self);
}

impl<M: Send + 'static> Batch for Vec<M> {
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn push(&mut self, slot: &mut dyn Slot) {
        if let Some(message) = typed(slot).and_then(Option::take) {
            self.push(message);
        }
    }

    fn peek(&self) -> Option<&dyn Any> {
        self.last().map(|message| message as &dyn Any)
    }

    fn drop_next(&mut self) {
        drop(self.pop());
    }

    fn reverse(&mut self) {
        self.as_mut_slice().reverse();
    }

    fn free(&mut self) {
        *self = Self::new();
    }
}

/// Returns the slot as the slot of a message type.
pub(crate) fn typed<M: Send + 'static>(slot: &mut dyn Slot) -> Option<&mut Option<M>> {
    slot.as_any_mut().downcast_mut()
}

impl SendError<()> {
    /// Returns the same error with the message that came back in its slot.
    pub(crate) fn with_message_of<M>(self, slot: &mut Option<M>) -> SendError<M> {
        self.with_message(slot.take().expect("a rejected message is back in its slot"))
    }
}
