//! `Mailbox`: which kind of queue an actor has in front of it.

pub(crate) mod control;
pub(crate) mod queue;
pub(crate) mod queue_state;
pub(crate) mod reserve;
pub(crate) mod send_error;
pub(crate) mod signals;
pub(crate) mod waiting_sends;

use core::fmt;

/// The capacity of a mailbox that nobody configured.
pub const MAILBOX_CAPACITY_DEFAULT: usize = 1024;

/// The kind of mailbox an actor gets; part of its `Props`. Bounded by 1,024 messages unless it says otherwise.
///
/// The capacity counts messages that were accepted and whose handling has not begun. `tell` never waits: when the mailbox is full it
/// fails, or drops the newest or the oldest, as configured here. `send` always waits for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mailbox {
    pub(crate) capacity: usize,
    pub(crate) overflow: Overflow,
    pub(crate) prioritised: bool,
}

/// What `tell` does when the mailbox is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overflow {
    Fail,
    DropNewest,
    DropOldest,
    Conflate,
}

impl Mailbox {
    /// At most `capacity` messages wait; a `tell` to a full mailbox fails and gives its message back. A capacity of 0 is refused
    /// when the actor is spawned.
    pub const fn bounded(capacity: usize) -> Self {
        Self { capacity, overflow: Overflow::Fail, prioritised: false }
    }

    /// Any number of messages may wait. Memory is the only bound: prefer [`bounded`](Self::bounded).
    pub const fn unbounded() -> Self {
        Self::bounded(usize::MAX)
    }

    /// Only the latest message waits; each one it replaces becomes a dead letter.
    pub const fn conflated() -> Self {
        Self { capacity: 1, overflow: Overflow::Conflate, prioritised: false }
    }

    /// A `tell` to the full mailbox is accepted, and its message becomes a dead letter at once. A [`conflated`](Self::conflated)
    /// mailbox stays as it is: there each message takes the place of the one before, and none is too many.
    #[must_use]
    pub const fn drop_newest(self) -> Self {
        self.when_full(Overflow::DropNewest)
    }

    /// A `tell` to the full mailbox is accepted, and the oldest message not yet taken becomes a dead letter. With priorities it is the
    /// oldest of the lowest there is, which is the one that comes if all that wait are more urgent. A
    /// [`conflated`](Self::conflated) mailbox stays as it is.
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

    /// Messages may carry a priority: higher first, in order within one.
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

/// How urgent a message is: 0 to 7, higher first. A plain `tell` is [`Priority::NORMAL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u8);

impl Priority {
    /// The lowest.
    pub const LOWEST: Self = Self(0);
    /// The one a plain `tell` has.
    pub const NORMAL: Self = Self(4);
    /// The highest.
    pub const HIGHEST: Self = Self(7);

    pub(crate) const COUNT: usize = 8;

    /// The priority with this number, `None` above 7.
    pub const fn new(number: u8) -> Option<Self> {
        if number < Self::COUNT as u8 { Some(Self(number)) } else { None }
    }

    /// The number.
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

/// A message with its priority, for mailboxes that are [`prioritised`](Mailbox::prioritised).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityEnvelope<M> {
    /// The message.
    pub message: M,
    /// How urgent it is.
    pub priority: Priority,
}

impl<M> PriorityEnvelope<M> {
    /// A message with a priority.
    pub fn new(message: M, priority: Priority) -> Self {
        Self { message, priority }
    }
}

impl<M> From<M> for PriorityEnvelope<M> {
    fn from(message: M) -> Self {
        Self::new(message, Priority::NORMAL)
    }
}
