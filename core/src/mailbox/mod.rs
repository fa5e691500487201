//! The mailbox of an actor: its public options and its queue.
//!
//! This file has the options that users choose: [`Mailbox`], [`Priority`], [`PriorityEnvelope`].
//! The rest of the room:
//!
//! | file | owns |
//! |---|---|
//! | `queue` | `MessageQueue`: many senders, one receiver; pushing and taking messages |
//! | `messages` | where a queue keeps its messages, with and without their type |
//! | `slot` | a place for one message, without its type |
//! | `push` | the slow path of a push |
//! | `queue_state` | the part of the queue behind its lock |
//! | `observe` | what an observer reads of a queue |
//! | `receiver` | how the receiver parks, and how the queue is closed |
//! | `high_water` | the high-water mark, and the credits of the fast push path |
//! | `message_counts` | accepted, taken, handled, failed, dead-lettered |
//! | `waiting_sends` | sends that wait for room, in order |
//! | `reserve` | pushes in two steps: reserve room, make the message, fill |
//! | `control` | the control word: commands that bypass the queue |
//! | `signals` | the queue of signals, one per kind and subject |
//! | `send_error` | `SendError` |
//!
//! The room knows nothing of actors. The owner of a queue can attach its own data to it (type
//! parameters `U` and `H`), under the queue's lock or beside it.
//!
//! Most of this code is compiled once, for queues of all message types: it sees the messages as
//! `dyn MessageStore`. Only what moves messages is generic.

pub(crate) mod contexts;
pub(crate) mod control;
pub(crate) mod high_water;
pub(crate) mod message_counts;
pub(crate) mod messages;
pub(crate) mod observe;
pub(crate) mod push;
pub(crate) mod queue;
pub(crate) mod queue_state;
pub(crate) mod receiver;
pub(crate) mod reserve;
pub(crate) mod send_error;
pub(crate) mod signals;
pub(crate) mod slot;
pub(crate) mod waiting_sends;

use core::fmt;

/// The default capacity of a mailbox: 1,024 messages.
pub const MAILBOX_CAPACITY_DEFAULT: usize = 1024;

/// Options of an actor's mailbox: capacity, overflow rule and priorities.
///
/// Pass it to [`Props::mailbox`](crate::Props::mailbox). The default is
/// [`bounded(1024)`](MAILBOX_CAPACITY_DEFAULT).
///
/// The capacity limits the messages that were accepted and whose handler has not started. A full
/// mailbox never blocks [`tell`](crate::ActorRef::tell): it returns an error, or drops a message if
/// [`drop_newest`](Self::drop_newest) or [`drop_oldest`](Self::drop_oldest) is set.
/// [`send`](crate::ActorRef::send) always waits for room.
///
/// # Examples
/// ```
/// use pleach::BoxError;
/// use pleach::prelude::*;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), pleach::Error> {
/// let system = ActorSystem::new("shop")?;
/// let props = Props::from_fn(|| 0, |sum: &mut u32, n: u32| {
///     *sum += n;
///     Ok::<(), BoxError>(())
/// });
/// // At most 64 messages wait. If one more arrives, the oldest becomes a dead letter.
/// let sum = system.spawn("sum", props.mailbox(Mailbox::bounded(64).drop_oldest()))?;
/// sum.tell(7)?;
/// # system.shutdown(Duration::from_secs(5)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mailbox {
    pub(crate) capacity: usize,
    pub(crate) overflow: Overflow,
    pub(crate) prioritised: bool,
}

/// The overflow rule: what `tell` does when the mailbox is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overflow {
    Fail,
    DropNewest,
    DropOldest,
    Conflate,
}

impl Mailbox {
    /// Creates a mailbox that holds at most `capacity` messages.
    ///
    /// A `tell` to a full mailbox fails with [`SendError::Full`](crate::SendError::Full) and
    /// returns its message, unless another overflow rule is set.
    ///
    /// # Errors
    /// A capacity of 0 is rejected when the actor is spawned, with
    /// [`Refusal::ZeroCapacity`](crate::Refusal::ZeroCapacity).
    pub const fn bounded(capacity: usize) -> Self {
        Self { capacity, overflow: Overflow::Fail, prioritised: false }
    }

    /// Creates a mailbox without a capacity limit. Only memory bounds it, so prefer
    /// [`bounded`](Self::bounded).
    pub const fn unbounded() -> Self {
        Self::bounded(usize::MAX)
    }

    /// Creates a mailbox that holds only the latest message. Each message it replaces becomes a
    /// dead letter.
    pub const fn conflated() -> Self {
        Self { capacity: 1, overflow: Overflow::Conflate, prioritised: false }
    }

    /// Drops the incoming message when the mailbox is full: `tell` succeeds, and its message
    /// becomes a dead letter at once.
    ///
    /// A [`conflated`](Self::conflated) mailbox is not changed, because it is never full for a
    /// `tell`.
    #[must_use]
    pub const fn drop_newest(self) -> Self {
        self.when_full(Overflow::DropNewest)
    }

    /// Drops the oldest queued message when the mailbox is full: `tell` succeeds, and the oldest
    /// message becomes a dead letter.
    ///
    /// With priorities, the oldest message of the lowest priority is dropped. If every queued
    /// message is more urgent than the incoming one, the incoming one is dropped. A
    /// [`conflated`](Self::conflated) mailbox is not changed.
    #[must_use]
    pub const fn drop_oldest(self) -> Self {
        self.when_full(Overflow::DropOldest)
    }

    const fn when_full(mut self, overflow: Overflow) -> Self {
        if !matches!(self.overflow, Overflow::Conflate) {
            self.overflow = overflow;
        }
        self
    }

    /// Enables priorities: higher ones are handled first, equal ones in order of arrival.
    ///
    /// Send with a priority through [`tell_envelope`](crate::ActorRef::tell_envelope) or
    /// [`Sending::priority`](crate::Sending::priority).
    #[must_use]
    pub const fn prioritised(mut self) -> Self {
        self.prioritised = true;
        self
    }
}

impl Default for Mailbox {
    fn default() -> Self {
        Self::bounded(MAILBOX_CAPACITY_DEFAULT)
    }
}

/// The priority of a message, from 0 to 7. Higher is handled first. Default:
/// [`NORMAL`](Self::NORMAL), which is 4.
///
/// # Examples
/// ```
/// use pleach::actor::{Priority, PriorityEnvelope};
///
/// let urgent = PriorityEnvelope::new("stop the press", Priority::HIGHEST);
/// assert!(urgent.priority > Priority::NORMAL);
/// assert_eq!(Priority::new(8), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u8);

impl Priority {
    /// The lowest priority, with number 0.
    pub const LOWEST: Self = Self(0);
    /// The priority of a plain `tell`, with number 4.
    pub const NORMAL: Self = Self(4);
    /// The highest priority, with number 7.
    pub const HIGHEST: Self = Self(7);

    pub(crate) const COUNT: usize = 8;

    /// Returns the priority with this number, or `None` if it is above 7.
    pub const fn new(number: u8) -> Option<Self> {
        if number < Self::COUNT as u8 { Some(Self(number)) } else { None }
    }

    /// Returns the number of this priority, from 0 to 7.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::NORMAL
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A message with its priority, for a mailbox with [priorities](Mailbox::prioritised).
///
/// # Examples
/// ```
/// use pleach::BoxError;
/// use pleach::prelude::*;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), pleach::Error> {
/// let system = ActorSystem::new("shop")?;
/// let props = Props::from_fn(|| (), |(), _order: &str| Ok::<(), BoxError>(()));
/// let kitchen = system.spawn("kitchen", props.mailbox(Mailbox::bounded(64).prioritised()))?;
/// kitchen.tell("soup")?;
/// kitchen.tell_envelope(PriorityEnvelope::new("fire drill", Priority::HIGHEST))?;
/// # system.shutdown(Duration::from_secs(5)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityEnvelope<M> {
    /// The message to put into the mailbox.
    pub message: M,
    /// The priority that decides its place in the queue.
    pub priority: Priority,
}

impl<M> PriorityEnvelope<M> {
    /// Creates an envelope from a message and its priority.
    pub fn new(message: M, priority: Priority) -> Self {
        Self { message, priority }
    }
}

impl<M> From<M> for PriorityEnvelope<M> {
    fn from(message: M) -> Self {
        Self::new(message, Priority::NORMAL)
    }
}
