//! [`FeedAndCopy`]: what only actors with a feed, or with copies of their messages, have.
//!
//! The task has it as a trait object, so it is compiled only for actors with options that depend on
//! their message type. A feed and a copy are user values: each is dropped by a call of its own,
//! which the caller guards.

use crate::actor::props::BoxStream;
use crate::mailbox::slot::{Batch, Slot};
use core::any::Any;
use core::task::{Context, Poll};

/// The feed of an actor, and the copy of its current message.
pub(crate) struct FeedAndCopy<M> {
    feed: Option<BoxStream<M>>,
    copy: Option<fn(&M) -> M>,
    /// The copy of the current message, for a retry or a dead letter.
    copied: Option<M>,
}

/// What a feed has.
pub(crate) enum Fed {
    /// An item, which is in the batch.
    Item,
    /// The feed has ended, and was dropped.
    End,
}

/// [`FeedAndCopy`] without its message type.
pub(crate) trait AnyFeedAndCopy: Send {
    fn has_feed(&self) -> bool;
    /// Polls the feed, which must be there. This is user code.
    fn poll_feed(&mut self, batch: &mut dyn Batch, cx: &mut Context<'_>) -> Poll<Fed>;
    /// Drops the feed.
    fn drop_feed(&mut self);
    /// Copies the message that is about to be handled, if that is asked for. This is user code.
    fn copy(&mut self, message: &dyn Any);
    /// Returns the slot of the copy.
    fn copied(&mut self) -> &mut dyn Slot;
    fn has_copied(&self) -> bool;
}

impl<M> FeedAndCopy<M> {
    pub(crate) fn new(feed: Option<BoxStream<M>>, copy: Option<fn(&M) -> M>) -> Self {
        Self { feed, copy, copied: None }
    }
}

impl<M: Send + 'static> AnyFeedAndCopy for FeedAndCopy<M> {
    fn has_feed(&self) -> bool {
        self.feed.is_some()
    }

    fn poll_feed(&mut self, batch: &mut dyn Batch, cx: &mut Context<'_>) -> Poll<Fed> {
        let Some(feed) = &mut self.feed else { return Poll::Pending };
        match feed.as_mut().poll_next(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(item)) => {
                batch.push(&mut Some(item));
                Poll::Ready(Fed::Item)
            }
            Poll::Ready(None) => {
                self.feed = None;
                Poll::Ready(Fed::End)
            }
        }
    }

    fn drop_feed(&mut self) {
        self.feed = None;
    }

    fn copy(&mut self, message: &dyn Any) {
        if let (Some(copy), Some(message)) = (self.copy, message.downcast_ref()) {
            self.copied = Some(copy(message));
        }
    }

    fn copied(&mut self) -> &mut dyn Slot {
        &mut self.copied
    }

    fn has_copied(&self) -> bool {
        self.copied.is_some()
    }
}
