//! [`Event`]: everything that a tree reports, and [`EventKinds`] to filter by. `hub` delivers it.

use crate::events::cause::Exit;
use crate::events::failure::FailureInfo;
use crate::events::limit::LimitReached;
use crate::ids::path::ActorPath;
use crate::supervise::decide::SupervisorDirective;
use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{BitOr, BitOrAssign};
use core::time::Duration;

/// Something that happened in a tree; delivered by the [hub](crate::EventHub).
///
/// # Examples
///
/// ```
/// use pleach::prelude::*;
/// use pleach::BoxError;
/// use pleach::events::Event;
/// use pleach::runtime::Dispatcher;
/// use pleach::system::System;
///
/// let sim = Dispatcher::seeded(1);
/// let system = System::builder("shop", sim.runtime()).build().unwrap();
/// let mut events = system.hub().subscribe();
/// let props = Props::from_fn(|| (), |_, _: u32| Ok::<(), BoxError>(()));
/// system.spawn("till", props).unwrap();
/// sim.drain_ready();
/// let event = events.try_next().unwrap();
/// assert!(matches!(event, Event::Started { path } if path == "/user/till"));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// An actor started for the first time and has not handled a message yet.
    Started {
        /// The path of the actor.
        path: ActorPath,
    },
    /// An actor restarted, after a failure or by an explicit order.
    Restarted {
        /// The path of the actor.
        path: ActorPath,
        /// The new incarnation: 1 after the first restart.
        incarnation: u32,
    },
    /// An actor was suspended: it processes only control until it is resumed or restarted.
    Suspended {
        /// The path of the actor.
        path: ActorPath,
    },
    /// A suspended actor handles messages again.
    Resumed {
        /// The path of the actor.
        path: ActorPath,
    },
    /// A member ended: an actor, a task, a scope or another kind.
    Ended {
        /// The path of the member.
        path: ActorPath,
        /// How the member ended.
        exit: Exit,
    },
    /// A member failed. Reported once for every failure, handled or not.
    Failed(FailureInfo),
    /// A supervisor decided about a failure.
    Decided {
        /// The failure, with its restart count and window.
        failure: FailureInfo,
        /// The directive after the child's restart policy and the restart limit were applied.
        directive: SupervisorDirective,
        /// By which strategy it was decided, and which siblings are affected.
        scope: DecisionScope,
    },
    /// A supervisor exceeded its restart limit and stops its children.
    GaveUp(GaveUp),
    /// A failure reached the top of the tree, where no supervisor handles it.
    Unhandled(FailureInfo),
    /// A message was accepted and will not be handled.
    DeadLetter(DeadLetter),
    /// A likely mistake, reported before it does harm.
    Lint(Lint),
    /// What a lint reported is over.
    Recovered(Recovery),
    /// A subscriber was too slow and missed this many events, which are older than the next one.
    /// Only subscriptions deliver this event.
    Missed(u64),
}

/// A set of event kinds, combined with `|`.
///
/// # Examples
///
/// ```
/// use pleach::events::EventKinds;
///
/// let kinds = EventKinds::FAILURES | EventKinds::DEAD_LETTERS;
/// assert!(kinds.contains(EventKinds::FAILURES));
/// assert!(!kinds.contains(EventKinds::LIFECYCLE));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct EventKinds(u32);

impl EventKinds {
    /// The empty set: no event at all.
    pub const NONE: Self = Self(0);
    /// Every failure, handled or not: [`Event::Failed`].
    pub const FAILURES: Self = Self(1);
    /// Failures that no supervisor handled: [`Event::Unhandled`].
    pub const UNHANDLED: Self = Self(1 << 1);
    /// Messages that were accepted and not handled: [`Event::DeadLetter`].
    pub const DEAD_LETTERS: Self = Self(Self::LOST.0 | Self::CONFLATED.0);
    /// Dead letters, except messages that a conflated mailbox replaced as it should.
    pub const LOST: Self = Self(1 << 2);
    /// Dead letters that a newer message replaced in a conflated mailbox.
    pub const CONFLATED: Self = Self(1 << 7);
    /// Starts and ends: [`Event::Started`], [`Event::Restarted`], [`Event::Suspended`],
    /// [`Event::Resumed`], [`Event::Ended`].
    pub const LIFECYCLE: Self = Self(1 << 3);
    /// All likely mistakes: [`Event::Lint`]. This includes the timing of
    /// [`LONG_HANDLERS`](Self::LONG_HANDLERS).
    pub const LINTS: Self = Self(Self::LONG_HANDLERS.0 | Self::MAILBOXES.0 | Self::WAIT_CYCLES.0 | Self::LIMITS.0);
    /// Handlers that take long: [`Lint::LongHandler`]. Handlers are timed while at least one
    /// listener wants these.
    pub const LONG_HANDLERS: Self = Self(1 << 4);
    /// Mailboxes that are more than 80 % full: [`Lint::MailboxFilling`].
    pub const MAILBOXES: Self = Self(1 << 8);
    /// Cycles of members that wait for each other: [`Lint::AskCycle`] and [`Lint::SendCycle`].
    pub const WAIT_CYCLES: Self = Self(1 << 9);
    /// What a sealed system refuses: [`Lint::LimitReached`].
    pub const LIMITS: Self = Self(1 << 12);
    /// The end of what a lint reported: [`Event::Recovered`]. Only lints that a listener wants are
    /// followed.
    pub const RECOVERIES: Self = Self(1 << 10);
    /// Decisions of supervisors about failures: [`Event::Decided`].
    pub const DECISIONS: Self = Self(1 << 5);
    /// Supervisors that exceeded their restart limit: [`Event::GaveUp`].
    pub const GAVE_UP: Self = Self(1 << 6);
    /// Handlers that do not return: [`Lint::StuckHandler`]. Not part of [`ALL`](Self::ALL) and
    /// [`LINTS`](Self::LINTS), because a sampler runs while a listener wants these and actors work.
    pub const STUCK_HANDLERS: Self = Self(1 << 11);
    /// Every kind except [`STUCK_HANDLERS`](Self::STUCK_HANDLERS), including kinds added later.
    pub const ALL: Self = Self(((1 << 11) - 1) | Self::LIMITS.0);

    /// Returns whether this set contains every kind of `other`.
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
            (Self::LOST, "LOST"),
            (Self::CONFLATED, "CONFLATED"),
            (Self::LIFECYCLE, "LIFECYCLE"),
            (Self::LONG_HANDLERS, "LONG_HANDLERS"),
            (Self::MAILBOXES, "MAILBOXES"),
            (Self::WAIT_CYCLES, "WAIT_CYCLES"),
            (Self::LIMITS, "LIMITS"),
            (Self::RECOVERIES, "RECOVERIES"),
            (Self::STUCK_HANDLERS, "STUCK_HANDLERS"),
            (Self::DECISIONS, "DECISIONS"),
            (Self::GAVE_UP, "GAVE_UP"),
        ];
        f.debug_set().entries(named.iter().filter(|(kind, _)| self.contains(*kind)).map(|(_, name)| name)).finish()
    }
}

/// A supervisor exceeded its restart limit. `Display` writes one sentence with the consequence.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GaveUp {
    /// The supervisor: a scope, an actor or a pool.
    pub supervisor: ActorPath,
    /// The child whose failure exceeded the limit.
    pub child: ActorPath,
    /// How many restarts were counted within `window`.
    pub restarts: u32,
    /// The window in which restarts are counted.
    pub window: Duration,
    /// How many children stop, including `child`.
    pub stopped: usize,
    /// How many siblings of `child` continue.
    pub left: usize,
    /// The failure that exceeded the limit.
    pub failure: FailureInfo,
}

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { supervisor, child, restarts, window, stopped, left, .. } = self;
        if *left > 0 {
            let others = if *left == 1 { "other continues" } else { "others continue" };
            return write!(
                f,
                "supervisor {supervisor} gave up on {child} after {restarts} restarts in {window:?}; it stopped, {left} {others}"
            );
        }
        let children = if *stopped == 1 { "child" } else { "children" };
        write!(f, "supervisor {supervisor} gave up after {restarts} restarts in {window:?}; {stopped} {children} stopped")
    }
}

/// By which strategy a supervisor decided, and which siblings of the failed child are affected.
/// Part of [`Event::Decided`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecisionScope {
    /// The [name](crate::StrategyInfo::name) of the strategy, or `default` without one.
    pub strategy: &'static str,
    /// The siblings that stop, or restart together with the child, in start order: at most
    /// [`SIBLINGS_LISTED_MAX`].
    pub siblings: Vec<ActorPath>,
    /// How many further siblings are not listed.
    pub siblings_left_out: usize,
}

/// How many siblings a [`DecisionScope`] lists at most.
pub const SIBLINGS_LISTED_MAX: usize = 32;

/// A message that was accepted and not handled.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    /// The actor that accepted the message.
    pub to: ActorPath,
    /// The message as formatted by `Props::describe`, or else the name of its type.
    pub message: Cow<'static, str>,
    /// The name of the message type. Unlike `message` it never shows what the message contains.
    pub message_type: &'static str,
    /// Why the message was not handled.
    pub reason: DeadLetterReason,
}

/// Why a message became a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeadLetterReason {
    /// The actor stopped before it reached the message.
    Stopped,
    /// The actor was cancelled before it reached the message.
    Cancelled,
    /// The actor failed and was not restarted before it reached the message.
    Failed,
    /// The mailbox was full and drops the newest message.
    DroppedNewest,
    /// The mailbox was full and drops the oldest message; with priorities, the oldest of the lowest
    /// priority.
    DroppedOldest,
    /// A newer message replaced it in a conflated mailbox.
    Conflated,
    /// Its handler failed, and the `Props` turn failed messages into dead letters.
    HandlerFailed,
    /// It was for a timer of an actor of a sealed system, which has no room for one more.
    NoTimer,
}

impl DeadLetterReason {
    /// Returns the kind of a dead letter with this reason.
    pub(crate) fn kind(self) -> EventKinds {
        if self == Self::Conflated { EventKinds::CONFLATED } else { EventKinds::LOST }
    }
}

/// A likely mistake that the runtime noticed; part of [`Event::Lint`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Lint {
    /// An ask with a timeout closes a wait cycle, so it can only time out. Each of these actors
    /// waits for the next, and the last waits for the first.
    AskCycle(Vec<ActorPath>),
    /// A send that waits for room closed a wait cycle: each of these members waits for the next,
    /// and the last waits for the first. The first send of the cycle was accepted above the
    /// capacity of its mailbox, which resolved the cycle.
    SendCycle(Vec<ActorPath>),
    /// A bounded mailbox is more than 80 % full. Reported once, and again only after it was below
    /// 50 %.
    MailboxFilling {
        /// The actor that owns the mailbox.
        path: ActorPath,
        /// How many messages are queued.
        queued: usize,
        /// The capacity of the mailbox.
        capacity: usize,
    },
    /// A handler has worked on one message for a long time, including its awaits. The actor handles
    /// no other message meanwhile. Reported once per message: when the threshold passes if the
    /// handler awaits, otherwise when it returns.
    LongHandler {
        /// The actor that runs the handler.
        path: ActorPath,
        /// The type name of the message.
        message: Cow<'static, str>,
        /// How long the handler has been running.
        running_for: Duration,
    },
    /// A handler has not returned for at least the same threshold, whether it awaits or blocks its
    /// thread. Found by a sampler, which costs a message nothing, so up to twice the threshold
    /// after the handler began. Reported once per message.
    StuckHandler {
        /// The actor that runs the handler.
        path: ActorPath,
        /// The type name of the message.
        message: Cow<'static, str>,
        /// How long the handler has been running, at least.
        running_for: Duration,
    },
    /// A member of a sealed system needs more than was reserved, and was refused. Reported once for
    /// each member and limit; [`System::refusals`](crate::System::refusals) counts them all.
    LimitReached(LimitReached),
}

/// The end of what a [`Lint`] reported; part of [`Event::Recovered`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Recovery {
    /// The handler that [`Lint::LongHandler`] or [`Lint::StuckHandler`] named has returned, failed
    /// or was dropped.
    HandlerReturned {
        /// The actor that ran the handler.
        path: ActorPath,
        /// The type name of the message.
        message: Cow<'static, str>,
        /// How long the handler ran.
        ran_for: Duration,
    },
    /// The mailbox that [`Lint::MailboxFilling`] named is less than half full again.
    MailboxDrained {
        /// The actor that owns the mailbox.
        path: ActorPath,
        /// How many messages are queued.
        queued: usize,
        /// The capacity of the mailbox.
        capacity: usize,
    },
}

/// The default threshold of [`Lint::LongHandler`]: 1 s. A system can set another one.
pub const LONG_HANDLER_DEFAULT: Duration = Duration::from_secs(1);

impl fmt::Display for DeadLetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dead letter to {}: {} ({:?})", self.to, self.message, self.reason)
    }
}
