//! [`Health`]: whether a system does its work, with reasons.
//!
//! Nothing is measured for it in advance. Rare events are kept when they happen: supervisors that
//! gave up, failures that reached the root, problems that members report. The rest is found by
//! looking at members when the health is asked for: a full mailbox, a long handler, a pool that
//! lacks workers.
//!
//! One call looks at up to [`MEMBERS_PER_CALL`] members, and continues there at the next call. It
//! looks again at members that were not well before, up to [`SUSPECTS_MAX`].

use crate::base::time::Instant;
use crate::events::event::GaveUp;
use crate::events::failure::FailureInfo;
use crate::events::give_ups::GiveUp;
use crate::ids::path::ActorPath;
use crate::inspect::display::Short;
use crate::inspect::info::{Activity, ActorInfo, MemberInfo};
use crate::tree::Tree;
use crate::tree::child;
use crate::tree::facts::{ActorFacts, MemberKind, Work};
use crate::tree::member::Member;
use crate::tree::observed::HealthLimits;
use crate::tree::walk::{Step, Walk};
use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

/// How many members one call looks at. A system with more is covered by several calls.
const MEMBERS_PER_CALL: usize = 20_000;

/// How many members that were not well are looked at again by every call.
const SUSPECTS_MAX: usize = 256;

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
    /// Further reasons that are not listed.
    More {
        /// How many reasons are left out.
        count: u64,
    },
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
        let (tree, now) = (root.node().tree(), root.node().runtime().now());
        let of_root = root.node().facts(now);
        if of_root.exit.is_some() || !of_root.is_open {
            return Self::Down;
        }
        let mut reasons = kept_reasons(root, tree, now);
        let (found, left_out) = look_at_members(root, tree, now);
        reasons.extend(found);
        if left_out > 0 {
            reasons.push(HealthReason::More { count: left_out });
        }
        if reasons.is_empty() { Self::Healthy } else { Self::Degraded(reasons) }
    }
}

impl HealthReason {
    fn blocks_readiness(&self) -> bool {
        matches!(self, Self::Reported { blocks_readiness: true, .. })
    }
}

/// Returns the reasons that were kept when they happened.
fn kept_reasons(root: &Arc<dyn Member>, tree: &Tree, now: Instant) -> Vec<HealthReason> {
    tree.give_ups.forget(|give_up| is_over(root, give_up));
    let (gave_up, dropped) = tree.give_ups.list();
    let mut reasons: Vec<_> = gave_up.into_iter().map(|one| HealthReason::of_give_up(one.gave_up, now.since(one.at))).collect();
    if let Some((first, count)) = tree.unhandled.kept() {
        reasons.push(HealthReason::of_unhandled(&first, count));
    }
    let (reports, left_out) = tree.health_reports.list();
    reasons.extend(reports.into_iter().map(|open| HealthReason::Reported {
        source: open.source,
        key: open.problem.key().to_string(),
        text: open.problem.text().to_string(),
        advice: open.problem.advice_text().to_string(),
        blocks_readiness: open.problem.is_blocking(),
        reported_for: now.since(open.since),
    }));
    if dropped + left_out > 0 {
        reasons.push(HealthReason::More { count: dropped + left_out });
    }
    reasons
}

/// Returns whether what a supervisor gave up runs again: another life of the child, or all workers
/// of the pool.
fn is_over(root: &Arc<dyn Member>, give_up: &GiveUp) -> bool {
    let live = |path| child::descend(root, path).filter(|member| member.node().exit().is_none());
    if live(&give_up.gave_up.child).is_some_and(|child| runs_again(&child, give_up)) {
        return true;
    }
    live(&give_up.gave_up.supervisor).is_some_and(|pool| {
        let facts = pool.node().facts(pool.node().runtime().now());
        facts.is_open && facts.pool_size.is_some_and(|size| facts.children >= size)
    })
}

/// Returns whether the member is another one than the child that was given up, or a later
/// incarnation of it. A child that is about to stop is neither.
fn runs_again(member: &Arc<dyn Member>, give_up: &GiveUp) -> bool {
    let node = member.node();
    let facts = member.facts();
    let is_given_up = node.parent().is_some_and(|parent| parent.node().has_given_up_on(node.id()));
    let is_other = node.number() != give_up.child;
    match facts.actor {
        Some(actor) => is_other || (!is_given_up && actor.incarnation > give_up.incarnation),
        // A supervisor has no incarnations: it runs again if it is not stopping.
        None => is_other || (!is_given_up && node.takes_children() && !node.is_failing()),
    }
}

/// Looks at the members that were not well, and at the next ones of the tree. Returns the reasons,
/// and how many do not fit.
fn look_at_members(root: &Arc<dyn Member>, tree: &Tree, now: Instant) -> (Vec<HealthReason>, u64) {
    let (position, before) = tree.observed.sweep.with(|sweep| (sweep.position.take(), core::mem::take(&mut sweep.suspects)));
    let mut look = Look { tree, now, suspects: BTreeMap::new(), reasons: Vec::new(), left_out: 0 };
    for member in before.values().filter_map(Weak::upgrade) {
        if member.node().exit().is_none() {
            look.examine(&member, true);
        }
    }
    let mut walk = match &position {
        None => Walk::new(Arc::clone(root), usize::MAX),
        Some(position) => Walk::resume(Arc::clone(root), usize::MAX, position),
    };
    let mut next = None;
    for steps in 0.. {
        match walk.step() {
            Step::Visit(member, _) if look.suspects.contains_key(&member.node().number()) => {}
            Step::Visit(member, _) => look.examine(&member, before.contains_key(&member.node().number())),
            Step::Nothing => {}
            Step::End => break,
        }
        if steps >= MEMBERS_PER_CALL {
            next = walk.position();
            break;
        }
    }
    let Look { suspects, reasons, left_out, .. } = look;
    // Members are dropped outside of the lock.
    let replaced = tree.observed.sweep.with(|sweep| {
        sweep.position = next;
        core::mem::replace(&mut sweep.suspects, suspects)
    });
    drop(replaced);
    (reasons, left_out)
}

/// One look at members.
struct Look<'a> {
    tree: &'a Tree,
    now: Instant,
    suspects: BTreeMap<u64, Weak<dyn Member>>,
    reasons: Vec<HealthReason>,
    left_out: u64,
}

impl Look<'_> {
    /// Looks at one member. `was_suspect`: it was not well when it was looked at before.
    fn examine(&mut self, member: &Arc<dyn Member>, was_suspect: bool) {
        let facts = member.facts();
        let number = member.node().number();
        let is_full = facts.actor.as_ref().is_some_and(ActorFacts::is_full);
        let is_handling = matches!(facts.work, Work::Handling(_));
        if was_suspect && !is_full {
            self.tree.observed.not_full(number);
        }
        if !is_full && !is_handling && facts.kind != MemberKind::Pool {
            return;
        }
        let info = MemberInfo::of(member, 0, self.now);
        let limits = self.tree.health_limits;
        let mut found = Vec::from_iter(pool_short(&info).into_iter().chain(stuck(&info, &limits)));
        let has_room = self.suspects.len() < SUSPECTS_MAX;
        if is_full && has_room {
            let full_for = self.now.since(self.tree.observed.full_since(number, self.now));
            self.suspects.insert(number, Arc::downgrade(member));
            found.extend(
                info.actor.as_ref().filter(|_| full_for >= limits.mailbox_full).map(|actor| full(&info, actor, full_for)),
            );
        }
        if found.is_empty() {
            return;
        }
        if has_room {
            self.suspects.insert(number, Arc::downgrade(member));
            self.reasons.extend(found);
        } else {
            self.left_out += found.len() as u64;
        }
    }
}

fn pool_short(info: &MemberInfo) -> Option<HealthReason> {
    let size = info.pool_size.filter(|size| info.children < *size)?;
    let is_open = info.activity == Activity::Open;
    is_open.then(|| HealthReason::PoolShort { path: info.path.clone(), workers: info.children, size })
}

fn stuck(info: &MemberInfo, limits: &HealthLimits) -> Option<HealthReason> {
    let for_at_least = info.handling_for().filter(|running| *running >= limits.handler_stuck)?;
    let message_type = info.actor.as_ref()?.message_type.clone();
    let waits_for = info.waits.first().map(|wait| wait.on.clone());
    Some(HealthReason::HandlerStuck { path: info.path.clone(), message_type, waits_for, for_at_least })
}

fn full(info: &MemberInfo, actor: &ActorInfo, for_at_least: Duration) -> HealthReason {
    let (queued, waiting_senders) = (actor.queued, actor.waiting_senders);
    HealthReason::MailboxFull { path: info.path.clone(), queued, waiting_senders, for_at_least }
}

impl HealthReason {
    fn of_give_up(gave_up: GaveUp, ago: Duration) -> Self {
        let GaveUp { supervisor, child, restarts, window, stopped, left, .. } = gave_up;
        Self::GaveUp { supervisor, child, restarts, window, stopped: stopped as u64, left: left as u64, ago }
    }

    fn of_unhandled(first: &FailureInfo, count: u64) -> Self {
        let reason = crate::base::catch::catch(|| first.reason().to_string()).unwrap_or_default();
        Self::UnhandledFailures { count, origin: first.origin().clone(), reason }
    }
}

impl fmt::Display for HealthReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GaveUp { supervisor, child, restarts, window, stopped, left, ago } => {
                let (window, ago) = (Short(*window), Short(*ago));
                write!(f, "supervisor {supervisor} gave up on {child} {ago} ago after {restarts} restarts in {window}; ")?;
                match (left, stopped) {
                    (0, 1) => f.write_str("its only child stopped and stays stopped; "),
                    (0, stopped) => write!(f, "{stopped} children stopped and stay stopped; "),
                    (left, _) => write!(f, "that child stays stopped, {left} others continue; "),
                }?;
                f.write_str("remove the cause of the failures, then start it again")
            }
            Self::PoolShort { path, workers: 0, size } => {
                write!(f, "pool {path} has none of its {size} workers and accepts no message; resize it or restart it")
            }
            Self::PoolShort { path, workers, size } => {
                write!(f, "pool {path} has {workers} of {size} workers, so it is slower; resize it to start the missing ones")
            }
            Self::MailboxFull { path, queued, waiting_senders, for_at_least } => {
                let full_for = Short(*for_at_least);
                write!(
                    f,
                    "mailbox of {path} has been full for at least {full_for} ({queued} queued, {waiting_senders} senders wait); "
                )?;
                f.write_str("senders wait or fail; make its handler faster, add workers, or send less")
            }
            Self::HandlerStuck { path, message_type, waits_for, for_at_least } => {
                let stuck_for = Short(*for_at_least);
                write!(f, "{path} has worked on one {message_type} for at least {stuck_for} and handles nothing else; ")?;
                match waits_for {
                    Some(on) => write!(f, "it waits for {on}: look there first"),
                    None => f.write_str("set a timeout in its handler, or restart it"),
                }
            }
            Self::UnhandledFailures { count, origin, reason } => {
                let failures = if *count == 1 { "failure" } else { "failures" };
                write!(f, "{count} {failures} reached the root and nothing handled them, first {origin}: {reason}; ")?;
                f.write_str("what failed is not restarted; set `on_root_failure`, or read `take_escalations`")
            }
            Self::Reported { source, text, advice, .. } if advice.is_empty() => write!(f, "{source}: {text}"),
            Self::Reported { source, text, advice, .. } => write!(f, "{source}: {text}; {advice}"),
            Self::More { count } => write!(f, "{count} further problems are not listed; list the tree to see them"),
        }
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
