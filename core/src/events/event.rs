//! `Event`: what happens in a tree, in one type, and the kinds in which it is asked for. Who hears of it is in `hub`.

use crate::events::cause::Exit;
use crate::events::failure::FailureInfo;
use crate::ids::path::ActorPath;
use crate::supervise::decide::SupervisorDirective;
use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{BitOr, BitOrAssign};
use core::time::Duration;

/// Something that happened in the tree.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// An actor is up for the first time, before its first message.
    Started {
        /// Who.
        path: ActorPath,
    },
    /// An actor is up again, after a failure or because it was told to restart.
    Restarted {
        /// Who.
        path: ActorPath,
        /// Which incarnation: 1 is the one after the first restart.
        incarnation: u32,
    },
    /// An actor serves control only, until it is resumed or restarted.
    Suspended {
        /// Who.
        path: ActorPath,
    },
    /// A suspended actor serves messages again.
    Resumed {
        /// Who.
        path: ActorPath,
    },
    /// Something ended: an actor, a task, a scope.
    Ended {
        /// Who.
        path: ActorPath,
        /// How.
        exit: Exit,
    },
    /// Something failed. There is one for every failure, whatever becomes of it.
    Failed(FailureInfo),
    /// A supervisor has decided about a failure.
    Decided {
        /// Which, with the figures it was judged by.
        failure: FailureInfo,
        /// What was decided, after the child's restart policy and the intensity had their say.
        directive: SupervisorDirective,
    },
    /// A supervisor has restarted too often, and stops what it supervises.
    GaveUp(GaveUp),
    /// A failure that came up to the top of the tree, where nobody supervises.
    Unhandled(FailureInfo),
    /// A message was accepted and will not be handled.
    DeadLetter(DeadLetter),
    /// Something that is not wrong yet and probably will be.
    Lint(Lint),
    /// A subscriber was too slow: this many events, older than the one that follows, are gone for it. Only subscriptions say this.
    Missed(u64),
}

/// Which events somebody wants to hear of: one kind, or several with `|`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct EventKinds(u32);

impl EventKinds {
    /// None.
    pub const NONE: Self = Self(0);
    /// Every failure, whatever becomes of it: [`Event::Failed`].
    pub const FAILURES: Self = Self(1);
    /// Failures that nobody handled: [`Event::Unhandled`].
    pub const UNHANDLED: Self = Self(1 << 1);
    /// [`Event::DeadLetter`].
    pub const DEAD_LETTERS: Self = Self(1 << 2);
    /// [`Event::Started`], [`Event::Restarted`], [`Event::Suspended`], [`Event::Resumed`], [`Event::Ended`].
    pub const LIFECYCLE: Self = Self(1 << 3);
    /// [`Event::Lint`]. While somebody wants these, handlers are timed.
    pub const LINTS: Self = Self(1 << 4);
    /// [`Event::Decided`].
    pub const DECISIONS: Self = Self(1 << 5);
    /// [`Event::GaveUp`].
    pub const GAVE_UP: Self = Self(1 << 6);
    /// All of them.
    pub const ALL: Self = Self((1 << 7) - 1);

    /// Whether every kind in `other` is among these.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) const fn bits(self) -> u32 {
        self.0
    }
}

impl BitOr for EventKinds {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for EventKinds {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for EventKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = [
            (Self::FAILURES, "FAILURES"),
            (Self::UNHANDLED, "UNHANDLED"),
            (Self::DEAD_LETTERS, "DEAD_LETTERS"),
            (Self::LIFECYCLE, "LIFECYCLE"),
            (Self::LINTS, "LINTS"),
            (Self::DECISIONS, "DECISIONS"),
            (Self::GAVE_UP, "GAVE_UP"),
        ];
        f.debug_set().entries(named.iter().filter(|(kind, _)| self.contains(*kind)).map(|(_, name)| name)).finish()
    }
}

/// A supervisor that restarted as often as it may, and what stops because of that. Its text is one sentence with the consequence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GaveUp {
    /// The supervisor, which may be an actor, a scope or a pool.
    pub supervisor: ActorPath,
    /// The child whose failure was one too many.
    pub child: ActorPath,
    /// How many restarts were counted.
    pub restarts: u32,
    /// In which window they were counted.
    pub window: Duration,
    /// How many children stop, this one included.
    pub stopped: usize,
    /// How many of its siblings go on.
    pub left: usize,
}

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { supervisor, child, restarts, window, stopped, left } = self;
        if *left > 0 {
            let go_on = if *left == 1 { "other goes on" } else { "others go on" };
            return write!(
                f,
                "supervisor {supervisor} gave up on {child} after {restarts} restarts in {window:?}; it stopped, {left} {go_on}"
            );
        }
        let children = if *stopped == 1 { "child" } else { "children" };
        write!(f, "supervisor {supervisor} gave up after {restarts} restarts in {window:?}; {stopped} {children} stopped")
    }
}

/// A message that was accepted and not handled.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    /// Whose message it was.
    pub to: ActorPath,
    /// The message as `Props::describe` words it, else the name of its type.
    pub message: Cow<'static, str>,
    /// Why it was not handled.
    pub reason: DeadLetterReason,
}

/// Why a message was not handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeadLetterReason {
    /// The actor stopped before its turn came.
    Stopped,
    /// The actor was cancelled before its turn came.
    Cancelled,
    /// The actor failed for good before its turn came.
    Failed,
    /// The mailbox was full and drops the newest.
    Newest,
    /// The mailbox was full and drops the oldest; with priorities, the oldest of the lowest.
    Oldest,
    /// A newer message took its place in a conflated mailbox.
    Conflated,
    /// Its handler failed, and `Props` says that a message that failed is a dead letter.
    HandlerFailed,
}

/// Something that is not wrong yet and probably will be.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Lint {
    /// An ask with a timeout closes a cycle of asks: it can only time out.
    AskCycle(Vec<ActorPath>),
    /// A send that waited for room closed a cycle of waits: each of these members waits for the next, and the last for the first. The
    /// first send of the cycle was admitted beyond the capacity of its mailbox, which opened the cycle.
    SendCycle(Vec<ActorPath>),
    /// A bounded mailbox has come to hold more than 80 % of its capacity. Told once, and again only after it was seen below 50 %.
    MailboxFilling {
        /// Whose mailbox.
        path: ActorPath,
        /// How many messages wait in it.
        queued: usize,
        /// How many it takes.
        capacity: usize,
    },
    /// A handler has been at one message for long, waiting included, and its actor takes no other meanwhile. Told once a message: as
    /// soon as the threshold passes if the handler waits, else when it returns.
    LongHandler {
        /// Whose handler.
        path: ActorPath,
        /// The type of the message.
        message: Cow<'static, str>,
        /// For how long so far.
        running_for: Duration,
    },
}

/// How long a handler may be at one message before it is a [`Lint::LongHandler`], unless the system says otherwise.
pub const LONG_HANDLER_DEFAULT: Duration = Duration::from_secs(1);

impl fmt::Display for DeadLetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dead letter to {}: {} ({:?})", self.to, self.message, self.reason)
    }
}
