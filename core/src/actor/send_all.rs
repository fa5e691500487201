//! Sends of many messages, [`ActorRef::tell_all`] and [`ActorRef::send_all`], and [`Unsent`], which
//! returns what was not accepted.
//!
//! An iterator is user code, so its messages are taken in parts outside of the lock of the mailbox.
//! A part is pushed with one use of the lock, as far as the credits reach. The next message takes
//! the path of a single send, which renews the credits, waits, or is rejected.

use crate::actor::actor_ref::ActorRef;
use crate::mailbox::send_error::SendError;
use alloc::collections::VecDeque;
use core::error::Error;
use core::fmt;
use core::iter::Fuse;

/// The most messages that are taken from the iterator at once, by number and by size.
const PART_LEN_MAX: usize = 64;
const PART_BYTES_MAX: usize = 4096;

/// The error of [`ActorRef::tell_all`] and [`ActorRef::send_all`]: one message was not accepted,
/// and the ones after it were not sent.
///
/// It contains these messages. All messages before them were accepted.
///
/// # Examples
/// ```
/// use pleach::BoxError;
/// use pleach::prelude::*;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), pleach::Error> {
/// let system = ActorSystem::new("shop")?;
/// let props = Props::from_fn(|| (), |(), _order: u32| Ok::<(), BoxError>(()));
/// let kitchen = system.spawn("kitchen", props)?;
/// kitchen.tell_all([1, 2, 3])?;
/// kitchen.close();
/// let unsent = kitchen.tell_all([4, 5]).unwrap_err();
/// assert_eq!(unsent.error(), &SendError::Closed(4));
/// assert_eq!(unsent.into_messages().collect::<Vec<_>>(), [4, 5]);
/// # Ok(())
/// # }
/// ```
pub struct Unsent<I: Iterator> {
    error: SendError<I::Item>,
    rest: Rest<I>,
}

impl<I: Iterator> Unsent<I> {
    /// Returns why the first of these messages was not accepted, and that message.
    pub fn error(&self) -> &SendError<I::Item> {
        &self.error
    }

    /// Returns that error and drops the messages after it.
    pub fn into_error(self) -> SendError<I::Item> {
        self.error
    }

    /// Returns the messages that were not accepted, in their order.
    pub fn into_messages(self) -> impl Iterator<Item = I::Item> {
        let Rest { part, messages } = self.rest;
        core::iter::once(self.error.into_message()).chain(part).chain(messages)
    }
}

impl<I: Iterator> fmt::Display for Unsent<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not all messages were sent: {}", self.error)
    }
}

/// Leaves out the messages, which need not implement `Debug`.
impl<I: Iterator> fmt::Debug for Unsent<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unsent").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<I: Iterator> Error for Unsent<I> {}

/// The messages that were not sent yet: the part taken from the iterator, and the iterator.
struct Rest<I: Iterator> {
    part: VecDeque<I::Item>,
    /// Fused, because a part that ends at the end of the iterator is followed by one more look.
    messages: Fuse<I>,
}

impl<I: Iterator> Rest<I> {
    /// How many messages a part has.
    const PART_LEN: usize = match PART_BYTES_MAX.checked_div(size_of::<I::Item>()) {
        Some(0) => 1,
        Some(fitting) if fitting < PART_LEN_MAX => fitting,
        _ => PART_LEN_MAX,
    };

    fn of(messages: I) -> Self {
        Self { part: VecDeque::new(), messages: messages.fuse() }
    }

    /// Takes the next part if the last one is used up. Returns false at the end.
    fn has_part(&mut self) -> bool {
        if self.part.is_empty() {
            self.part.extend(self.messages.by_ref().take(Self::PART_LEN));
        }
        !self.part.is_empty()
    }
}

impl<M: Send + 'static> ActorRef<M> {
    /// Sends many messages in their order, without waiting. It is faster than a
    /// [`tell`](Self::tell) for each and has the same effect: messages of other senders may come in
    /// between, and the overflow rule of a full mailbox decides for each message. It takes up to 64
    /// messages from the iterator before it sends them.
    ///
    /// # Errors
    /// Stops at the first message that is not accepted, with the errors of [`tell`](Self::tell).
    /// [`Unsent`] contains this message and the ones after it.
    pub fn tell_all<I: IntoIterator<Item = M>>(&self, messages: I) -> Result<(), Unsent<I::IntoIter>> {
        let mut rest = Rest::of(messages.into_iter());
        while rest.has_part() {
            self.cell().mailbox().push_part(&mut rest.part);
            if let Some(next) = rest.part.pop_front()
                && let Err(error) = self.tell(next)
            {
                return Err(Unsent { error, rest });
            }
        }
        Ok(())
    }

    /// Sends many messages in their order and waits for room. It is faster than a
    /// [`send`](Self::send) for each and has the same effect: messages of other senders may come in
    /// between. It takes up to 64 messages from the iterator before it sends them.
    ///
    /// Cancel safety: dropping the future before it is ready drops the messages that were not
    /// accepted. The accepted ones are handled.
    ///
    /// # Errors
    /// Stops at the first message that is not accepted, with the errors of [`send`](Self::send).
    /// [`Unsent`] contains this message and the ones after it.
    ///
    /// # Examples
    /// ```
    /// use pleach::BoxError;
    /// use pleach::prelude::*;
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), pleach::Error> {
    /// let system = ActorSystem::new("app")?;
    /// let props = Props::from_fn(|| 0, |sum: &mut u64, n: u64| {
    ///     *sum += n;
    ///     Ok::<(), BoxError>(())
    /// });
    /// let sum = system.spawn("sum", props.mailbox(Mailbox::bounded(100)))?;
    /// sum.send_all(1..=10_000).await?;
    /// sum.close();
    /// sum.exited().await;
    /// assert_eq!(sum.counts().handled, 10_000);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn send_all<I: IntoIterator<Item = M>>(&self, messages: I) -> Result<(), Unsent<I::IntoIter>> {
        let mut rest = Rest::of(messages.into_iter());
        while rest.has_part() {
            self.cell().mailbox().push_part(&mut rest.part);
            if let Some(next) = rest.part.pop_front()
                && let Err(error) = self.send(next).await
            {
                return Err(Unsent { error, rest });
            }
        }
        Ok(())
    }
}
