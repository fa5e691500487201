//! [`Health`]: whether a system does its work, with reasons, as a value. `health_check` finds them.

use crate::base::sync::Arc;
use crate::events::event::GaveUp;
use crate::events::failure::FailureInfo;
use crate::ids::path::ActorPath;
use crate::inspect::display::Short;
use crate::inspect::{health_check, info};
use crate::tree::member::Member;
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

/// Whether a system does its work.
///
/// `Display` writes one line for each reason, with the consequence and what to do.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "status", content = "reasons", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Health {
    /// No problem of the system is known.
    Healthy,
    /// The system works, with these problems.
    Degraded(Vec<HealthReason>),
    /// The system is shutting down or has ended, and starts nothing new.
    Down,
}

/// A problem of a system. `Display` says the consequence and what to do.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(tag = "kind", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum HealthReason {
    /// A supervisor exceeded its restart limit and stopped children. It stays until the child runs
    /// again, or until [`forget_give_ups`](crate::RootContext::forget_give_ups).
    GaveUp {
        /// The supervisor that gave up.
        supervisor: ActorPath,
        /// The child whose failure exceeded the limit.
        child: ActorPath,
        /// How many restarts were counted within the window.
        restarts: u32,
        /// The window of the restart limit.
        #[cfg_attr(feature = "serde", serde(rename = "window_us", with = "crate::inspect::serde_impls::micros"))]
        window: Duration,
        /// How many children stopped.
        stopped: u64,
        /// How many siblings continue.
        left: u64,
        /// Why the child failed the last time, shortened to 512 characters.
        #[cfg_attr(feature = "serde", serde(default))]
        reason: String,
        /// How long ago it happened.
        #[cfg_attr(feature = "serde", serde(rename = "ago_us", with = "crate::inspect::serde_impls::micros"))]
        ago: Duration,
    },
    /// A pool has fewer workers than configured.
    PoolShort {
        /// The path of the pool.
        path: ActorPath,
        /// How many workers it has.
        workers: u64,
        /// How many workers it should have.
        size: u64,
    },
    /// A mailbox was full at every look for longer than the limit.
    MailboxFull {
        /// The actor with the full mailbox.
        path: ActorPath,
        /// How many messages are queued.
        queued: u64,
        /// How many sends wait for room.
        waiting_senders: u64,
        /// How long it has been full, at least.
        #[cfg_attr(feature = "serde", serde(rename = "for_us", with = "crate::inspect::serde_impls::micros"))]
        for_at_least: Duration,
    },
    /// A handler has worked on one message for longer than the limit.
    HandlerStuck {
        /// The actor that runs the handler.
        path: ActorPath,
        /// The name of its message type.
        message_type: Cow<'static, str>,
        /// The first member that it waits for, if it waits for one.
        waits_for: Option<ActorPath>,
        /// How long it has worked on the message, at least.
        #[cfg_attr(feature = "serde", serde(rename = "for_us", with = "crate::inspect::serde_impls::micros"))]
        for_at_least: Duration,
    },
    /// Failures reached the root, and nothing took them. They stay until
    /// [`take_escalations`](crate::RootContext::take_escalations).
    UnhandledFailures {
        /// How many are kept or were dropped since the last call.
        count: u64,
        /// Where the first of them happened.
        origin: ActorPath,
        /// The reason of the first one.
        reason: String,
    },
    /// A member reported a problem ([`AnyRef::report_health`](crate::AnyRef::report_health)).
    Reported {
        /// The member that reported it.
        source: ActorPath,
        /// The kind of the problem, for programs.
        key: String,
        /// What is wrong, with the consequence.
        text: String,
        /// What to do, or an empty text.
        advice: String,
        /// Whether the system is not ready because of it.
        blocks_readiness: bool,
        /// How long it has been reported.
        #[cfg_attr(feature = "serde", serde(rename = "for_us", with = "crate::inspect::serde_impls::micros"))]
        reported_for: Duration,
    },
    /// A sealed system refused something, because it was not reserved. It stays.
    LimitReached {
        /// The member that has no more room.
        path: ActorPath,
        /// What it has no more room for, and what to do.
        text: String,
        /// How often it was refused.
        times: u64,
        /// How long ago it happened last.
        #[cfg_attr(feature = "serde", serde(rename = "ago_us", with = "crate::inspect::serde_impls::micros"))]
        ago: Duration,
    },
    /// Further reasons that are not listed.
    More {
        /// How many reasons are left out.
        count: u64,
    },
    /// A problem of a kind that this version does not know, read from a newer process.
    #[cfg_attr(feature = "serde", serde(other))]
    Unknown,
}

impl Health {
    /// Returns whether work can be routed to the system: it is not down, and no reported problem
    /// blocks it. A degraded system is ready.
    pub fn is_ready(&self) -> bool {
        match self {
            Self::Healthy => true,
            Self::Degraded(reasons) => !reasons.iter().any(HealthReason::blocks_readiness),
            Self::Down => false,
        }
    }

    /// Returns whether no problem is known.
    pub fn is_healthy(&self) -> bool {
        *self == Self::Healthy
    }

    /// Returns the reasons. Empty if the system is healthy or down.
    pub fn reasons(&self) -> &[HealthReason] {
        match self {
            Self::Degraded(reasons) => reasons,
            Self::Healthy | Self::Down => &[],
        }
    }

    /// Looks at the system below `root`.
    pub(crate) fn of(root: &Arc<dyn Member>) -> Self {
        let of_root = root.node().facts(root.node().runtime().now());
        if of_root.exit.is_some() || !of_root.is_open {
            return Self::Down;
        }
        let reasons = health_check::reasons(root);
        if reasons.is_empty() { Self::Healthy } else { Self::Degraded(reasons) }
    }
}

impl HealthReason {
    fn blocks_readiness(&self) -> bool {
        matches!(self, Self::Reported { blocks_readiness: true, .. })
    }
}

impl HealthReason {
    pub(super) fn of_give_up(gave_up: GaveUp, ago: Duration) -> Self {
        let GaveUp { supervisor, child, restarts, window, stopped, left, failure } = gave_up;
        let (stopped, left, reason) = (stopped as u64, left as u64, info::reason_text(&failure));
        Self::GaveUp { supervisor, child, restarts, window, stopped, left, reason, ago }
    }

    pub(super) fn of_unhandled(first: &FailureInfo, count: u64) -> Self {
        let reason = crate::base::catch::catch(|| first.reason().to_string()).unwrap_or_default();
        Self::UnhandledFailures { count, origin: first.origin().clone(), reason }
    }
}

impl HealthReason {
    /// Returns what follows from the problem, in words. `None` if that is not known.
    pub fn consequence(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            Self::GaveUp { left: 0, stopped: 1, .. } => "its only child stopped and stays stopped".into(),
            Self::GaveUp { left: 0, stopped, .. } => format!("{stopped} children stopped and stay stopped").into(),
            Self::GaveUp { left: 1, .. } => "that child stays stopped, 1 other continues".into(),
            Self::GaveUp { left, .. } => format!("that child stays stopped, {left} others continue").into(),
            Self::PoolShort { workers: 0, .. } => "it accepts no message".into(),
            Self::PoolShort { .. } => "it is slower".into(),
            Self::MailboxFull { .. } => "senders wait or fail".into(),
            Self::HandlerStuck { .. } => "it handles nothing else".into(),
            Self::UnhandledFailures { .. } => "what failed is not restarted".into(),
            Self::Reported { blocks_readiness: true, .. } => "the system is not ready for work".into(),
            Self::LimitReached { .. } => "what it needed was refused".into(),
            Self::Reported { .. } | Self::More { .. } | Self::Unknown => return None,
        })
    }

    /// Returns what a person can do about the problem. `None` if the member that reported it did
    /// not say.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            Self::GaveUp { .. } => "remove the cause of the failures, then start it again".into(),
            Self::PoolShort { workers: 0, .. } => "resize it or restart it".into(),
            Self::PoolShort { .. } => "resize it to start the missing ones".into(),
            Self::MailboxFull { .. } => "make its handler faster, add workers, or send less".into(),
            Self::HandlerStuck { waits_for: Some(on), .. } => format!("it waits for {on}: look there first").into(),
            Self::HandlerStuck { .. } => {
                "set a timeout in its handler; a stop or restart waits for it, and only a cancel or a new process ends it"
                    .into()
            }
            Self::UnhandledFailures { .. } => "set `on_root_failure`, or read `take_escalations`".into(),
            Self::Reported { advice, .. } if advice.is_empty() => return None,
            Self::Reported { advice, .. } => advice.clone().into(),
            Self::LimitReached { .. } => "handle the error, or reserve more".into(),
            Self::More { .. } => "list the tree to see them".into(),
            Self::Unknown => "use a newer version to read it".into(),
        })
    }

    /// Writes what is wrong, without consequence and advice.
    fn write_what(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GaveUp { supervisor, child, restarts, window, ago, .. } => {
                let (window, ago) = (Short(*window), Short(*ago));
                write!(f, "supervisor {supervisor} gave up on {child} {ago} ago after {restarts} restarts in {window}")
            }
            Self::PoolShort { path, workers: 0, size } => write!(f, "pool {path} has none of its {size} workers"),
            Self::PoolShort { path, workers, size } => write!(f, "pool {path} has {workers} of {size} workers"),
            Self::MailboxFull { path, queued, waiting_senders, for_at_least } => {
                let full_for = Short(*for_at_least);
                write!(
                    f,
                    "mailbox of {path} has been full for at least {full_for} ({queued} queued, {waiting_senders} senders wait)"
                )
            }
            Self::HandlerStuck { path, message_type, for_at_least, .. } => {
                write!(f, "{path} has worked on one {message_type} for at least {}", Short(*for_at_least))
            }
            Self::UnhandledFailures { count, origin, reason } => {
                let failures = if *count == 1 { "failure" } else { "failures" };
                write!(f, "{count} {failures} reached the root and nothing handled them, first {origin}: {reason}")
            }
            Self::Reported { source, text, .. } => write!(f, "{source}: {text}"),
            Self::LimitReached { text, times, ago, .. } => {
                write!(f, "{text} (refused {times} times, last {} ago)", Short(*ago))
            }
            Self::More { count } => write!(f, "{count} further problems are not listed"),
            Self::Unknown => f.write_str("a problem of a kind that this version does not know"),
        }
    }
}

impl fmt::Display for HealthReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_what(f)?;
        match self {
            // The text of a report says the consequence itself.
            Self::Reported { .. } => Ok(()),
            _ => self.consequence().map_or(Ok(()), |consequence| write!(f, "; {consequence}")),
        }?;
        self.advice().map_or(Ok(()), |advice| write!(f, "; {advice}"))
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Healthy => f.write_str("healthy"),
            Self::Down => f.write_str("down: the system is shutting down or has ended; route no work to it"),
            Self::Degraded(reasons) => {
                f.write_str("degraded")?;
                reasons.iter().try_for_each(|reason| write!(f, "\n- {reason}"))
            }
        }
    }
}
