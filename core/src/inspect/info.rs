//! [`MemberInfo`]: one member of the tree as a plain value.

use crate::base::sync::Arc;
use crate::base::time::Instant;
use crate::events::counts::Counts;
use crate::events::failure::FailureInfo;
use crate::ids::path::ActorPath;
use crate::supervise::decide::{RESTART_LIMIT_MAX, RestartLimitScope, RestartPolicy};
use crate::tree::facts::{ActorFacts, MemberFacts, MemberKind, Work};
use crate::tree::member::Member;
use crate::tree::node::Node;
use crate::tree::node::observe::NodeFacts;
use crate::tree::supervision::judge::rules_of;
use crate::tree::waits::edges::Awaited;
use crate::tree::waits::{Edge, Wait};
use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

/// The longest text of a failure in a snapshot, in characters. A longer one is shortened.
const FAILURE_LEN_MAX: usize = 512;

/// From when on a handler calls for a look ([`MemberInfo::is_well`]).
const SLOW_HANDLER: Duration = Duration::from_secs(1);

/// Until when a failure calls for a look ([`MemberInfo::is_well`]).
const RECENT_FAILURE: Duration = Duration::from_secs(60);

/// One member of the tree at one moment.
///
/// Every member is read on its own, so two members of one snapshot may have been read at different
/// moments. Durations count back from the moment of reading, on the clock of the runtime.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct MemberInfo {
    /// The path of the member in its tree.
    pub path: ActorPath,
    /// The number of its [`ActorId`](crate::ActorId). It is never reused within a system.
    pub id: u64,
    /// The kind of member that this is.
    pub kind: MemberKind,
    /// How many levels it is below the start of the snapshot.
    pub depth: u32,
    /// What the member is doing at the moment.
    pub activity: Activity,
    /// What it awaits, at most eight waits: an answer, an exit, room in a mailbox.
    pub waits: Vec<WaitInfo>,
    /// How many further waits are not listed.
    pub waits_left_out: u32,
    /// How long ago it was cancelled. It ends at its next await.
    #[cfg_attr(feature = "serde", serde(rename = "cancelled_for_us", with = "crate::inspect::serde_impls::optional_micros"))]
    pub cancelled_for: Option<Duration>,
    /// How long ago it was started, for members without a task: the root, guardians, supervisors,
    /// pools, scopes and runs. Restarts do not count. `None` for others.
    #[cfg_attr(feature = "serde", serde(rename = "up_for_us", default, with = "crate::inspect::serde_impls::optional_micros"))]
    pub up_for: Option<Duration>,
    /// How many children the member has now.
    pub children: u64,
    /// How many workers a pool should have.
    pub pool_size: Option<u64>,
    /// The mailbox and the counts, for actors only.
    pub actor: Option<ActorInfo>,
    /// Its restarts within the limit of its supervisor, for actors, supervisors and pools.
    pub restarts: Option<RestartInfo>,
    /// Its last failure, also if it was restarted since.
    pub last_failure: Option<LastFailure>,
}

/// What a member is doing at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(tag = "state", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Activity {
    /// It has no task and accepts children: a scope, a supervisor, a pool.
    Open,
    /// It was spawned and is not polled yet, or runs its `started` hook.
    Starting,
    /// An actor that waits for a message.
    Idle,
    /// It has work to do and waits for a thread.
    Ready,
    /// Its code runs on a thread now. For an actor: between two messages, or in a hook.
    Running,
    /// A task or a group that awaits something.
    Waiting,
    /// An actor that works on a message.
    Handling {
        /// How long it has worked on this message, at least.
        #[cfg_attr(feature = "serde", serde(rename = "for_us", with = "crate::inspect::serde_impls::micros"))]
        for_at_least: Duration,
        /// Whether the time is exact. It is while a listener wants lints
        /// ([`EventKinds::LINTS`](crate::EventKinds::LINTS)). Otherwise it counts from the first
        /// observation of this message, by an observer or by the sampler for stuck handlers.
        is_exact: bool,
    },
    /// An actor whose `signal` hook awaits something.
    InHook,
    /// An actor that handles only control until it is resumed.
    Suspended,
    /// An actor that waits between two incarnations.
    WaitingToRestart {
        /// When the backoff ends, from now. `None` if it waits for the restart of its siblings.
        #[cfg_attr(feature = "serde", serde(rename = "in_us", with = "crate::inspect::serde_impls::optional_micros"))]
        remaining: Option<Duration>,
    },
    /// An actor that ends an incarnation: its `restarting` or `stopped` hook runs, or its children
    /// end. Another incarnation follows.
    Restarting,
    /// It is ending: a hook runs, or its children end.
    Stopping,
    /// It has ended and is leaving the tree.
    Ended,
    /// A state that this version does not know, read from a newer process.
    #[cfg_attr(feature = "serde", serde(other))]
    Unknown,
}

/// The mailbox and the counts of an actor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ActorInfo {
    /// The name of the message type.
    pub message_type: Cow<'static, str>,
    /// How many accepted messages are queued. Their handlers have not started.
    pub queued: u64,
    /// The capacity of the mailbox, or `None` if it is unbounded.
    pub capacity: Option<u64>,
    /// How many sends wait for room.
    pub waiting_senders: u64,
    /// How many messages are in the stash.
    pub stashed: u64,
    /// How many timers are set. 0 while the actor changes them.
    pub timers: u64,
    /// What became of all its messages so far.
    pub counts: Counts,
    /// How often the actor was restarted so far.
    pub incarnation: u32,
}

/// The restarts of a member, as its supervisor counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct RestartInfo {
    /// How many restarts count within the window now.
    pub used: u32,
    /// How many are allowed, or `None` for no limit.
    pub allowed: Option<u32>,
    /// The window in which they are counted.
    #[cfg_attr(feature = "serde", serde(rename = "window_us", with = "crate::inspect::serde_impls::micros"))]
    pub window: Duration,
    /// Whether the restarts of all siblings count together.
    pub is_shared: bool,
}

/// The last failure of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct LastFailure {
    /// The reason as text, shortened to 512 characters.
    pub reason: String,
    /// Which member failed first: the member itself, or one below it.
    pub origin: ActorPath,
    /// The number of the incarnation that failed.
    pub incarnation: u32,
    /// The message that was being handled, if any.
    pub message: Option<String>,
    /// How long ago the failure happened.
    #[cfg_attr(feature = "serde", serde(rename = "ago_us", with = "crate::inspect::serde_impls::micros"))]
    pub ago: Duration,
}

/// One thing that a member waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct WaitInfo {
    /// The kind of event that it waits for.
    pub kind: WaitKind,
    /// The member that it waits for.
    pub on: ActorPath,
    /// The number of the member that it waits for.
    pub id: u64,
}

/// The kind of event that a member waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum WaitKind {
    /// The answer to an ask that it sent.
    Answer,
    /// Room for a message in a full mailbox.
    Room,
    /// The exit of a member of the tree.
    Exit,
    /// The end of all children of a member.
    Children,
    /// The end of all tasks of a group.
    Tasks,
    /// The next result of a group.
    Result,
    /// A free slot of a group with a limit.
    Slot,
    /// A kind that this version does not know, read from a newer process.
    #[cfg_attr(feature = "serde", serde(other))]
    Unknown,
}

impl MemberInfo {
    /// Reads one member that is `depth` levels below the start of the snapshot.
    pub(crate) fn of(member: &Arc<dyn Member>, depth: usize, now: Instant) -> Self {
        let node = member.node();
        let (facts, of_node) = (member.facts(), node.facts(now));
        let activity = activity(node, &facts, &of_node, now);
        let restarts = restarts(node, facts.kind, now);
        let mut waits: Vec<_> = facts.edges.iter().map(WaitInfo::of).collect();
        if activity == Activity::Stopping
            && let Some(child) = node.stopping_child()
        {
            waits.push(WaitInfo { kind: WaitKind::Exit, on: child.node().path(), id: child.node().number() });
        }
        Self {
            path: node.path(),
            id: node.number(),
            kind: facts.kind,
            depth: u32::try_from(depth).unwrap_or(u32::MAX),
            activity,
            waits,
            waits_left_out: u32::try_from(facts.edges_left_out).unwrap_or(u32::MAX),
            cancelled_for: of_node.cancelled_for,
            up_for: facts.started.map(|started| now.since(started)),
            children: of_node.children as u64,
            pool_size: of_node.pool_size.map(|size| size as u64),
            actor: facts.actor.map(ActorInfo::from),
            restarts,
            last_failure: of_node.last_failure.map(|failure| LastFailure::of(&failure, now)),
        }
    }

    /// Returns how long an actor has worked on its current message, at least.
    pub fn handling_for(&self) -> Option<Duration> {
        match self.activity {
            Activity::Handling { for_at_least, .. } => Some(for_at_least),
            _ => None,
        }
    }

    /// Returns whether the mailbox has no room.
    pub fn is_full(&self) -> bool {
        self.actor.as_ref().is_some_and(ActorInfo::is_full)
    }

    /// Returns whether nothing about the member calls for a look. It does not if the member
    /// - is suspended, restarting, cancelled or stopping,
    /// - has handled one message for a second,
    /// - has a full mailbox or senders that wait for room, or lacks workers of its pool,
    /// - was restarted within the window of its limit, or failed within the last minute.
    pub fn is_well(&self) -> bool {
        let is_busy = self.handling_for().is_some_and(|time| time >= SLOW_HANDLER);
        let is_interrupted = matches!(
            self.activity,
            Activity::Suspended | Activity::WaitingToRestart { .. } | Activity::Restarting | Activity::Stopping
        );
        let is_crowded = self.is_full() || self.actor.as_ref().is_some_and(|actor| actor.waiting_senders > 0);
        let lacks_workers = self.pool_size.is_some_and(|size| self.children < size);
        let has_failed = self.restarts.is_some_and(|restarts| restarts.used > 0 && !restarts.is_shared)
            || self.last_failure.as_ref().is_some_and(|failure| failure.ago < RECENT_FAILURE);
        !(is_busy || is_interrupted || is_crowded || lacks_workers || has_failed || self.cancelled_for.is_some())
    }
}

impl ActorInfo {
    /// Returns whether the mailbox has no room.
    pub fn is_full(&self) -> bool {
        self.capacity.is_some_and(|capacity| self.queued >= capacity)
    }
}

fn activity(node: &Node, facts: &MemberFacts, of_node: &NodeFacts, now: Instant) -> Activity {
    if of_node.exit.is_some() {
        return Activity::Ended;
    }
    match facts.work {
        Work::Open | Work::Waiting | Work::Ready if facts.kind != MemberKind::Actor && !of_node.is_open => Activity::Stopping,
        Work::Open => Activity::Open,
        Work::Starting => Activity::Starting,
        Work::Idle => Activity::Idle,
        Work::Ready => Activity::Ready,
        Work::Running => Activity::Running,
        Work::Waiting => Activity::Waiting,
        Work::Handling(progress) => {
            let observed = || node.tree().observed.handling_since(node.number(), progress, now);
            let at_least = || progress.stuck_since.map_or_else(observed, |stuck| stuck.min(observed()));
            let since = progress.since.unwrap_or_else(at_least);
            Activity::Handling { for_at_least: now.since(since), is_exact: progress.since.is_some() }
        }
        Work::InHook => Activity::InHook,
        Work::Suspended => Activity::Suspended,
        Work::WaitingToRestart(at) => Activity::WaitingToRestart { remaining: at.map(|at| at.since(now)) },
        Work::Restarting => Activity::Restarting,
        Work::Stopping => Activity::Stopping,
    }
}

/// Returns the restarts of a member that its parent may restart.
pub(super) fn restarts(node: &Node, kind: MemberKind, now: Instant) -> Option<RestartInfo> {
    let is_restartable = matches!(kind, MemberKind::Actor | MemberKind::Supervisor | MemberKind::Pool);
    let parent = node.parent().filter(|_| is_restartable && node.policy() != RestartPolicy::Temporary)?.node();
    let rules = rules_of(parent);
    let used = parent.existing_supervision(|supervision| supervision.restarts_of(node.id(), &rules, now)).unwrap_or(0);
    Some(RestartInfo {
        used,
        allowed: (rules.restarts_max <= RESTART_LIMIT_MAX).then_some(rules.restarts_max),
        window: rules.window,
        is_shared: rules.limit_scope == RestartLimitScope::Shared,
    })
}

impl From<ActorFacts> for ActorInfo {
    fn from(facts: ActorFacts) -> Self {
        let ActorFacts { message_type, queued, capacity, waiting_sends, stashed, timers, counts, incarnation, .. } = facts;
        Self {
            message_type: Cow::Borrowed(message_type),
            queued: queued as u64,
            capacity: capacity.map(|capacity| capacity as u64),
            waiting_senders: waiting_sends as u64,
            stashed: stashed as u64,
            timers: timers as u64,
            counts,
            incarnation,
        }
    }
}

impl LastFailure {
    fn of(failure: &FailureInfo, now: Instant) -> Self {
        Self {
            reason: reason_text(failure),
            origin: failure.origin().clone(),
            incarnation: failure.incarnation(),
            message: failure.message().map(shortened),
            ago: now.since(failure.at()),
        }
    }
}

/// Formats the reason, which is user code: a panic in it becomes a text. A long one is shortened.
pub(super) fn reason_text(failure: &FailureInfo) -> String {
    let text = crate::base::catch::catch(|| failure.reason().to_string());
    shortened(&text.unwrap_or_else(|_| String::from("(the error panicked while it was formatted)")))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(FAILURE_LEN_MAX) {
        Some((end, _)) => text[..end].chars().chain(['…']).collect(),
        None => text.to_string(),
    }
}

impl WaitInfo {
    fn of(edge: &Edge) -> Self {
        let kind = match &edge.wait {
            Wait::Answer(_) => WaitKind::Answer,
            Wait::Room(_) => WaitKind::Room,
            Wait::End(Awaited::Exit) => WaitKind::Exit,
            Wait::End(Awaited::Children) => WaitKind::Children,
            Wait::End(Awaited::Tasks) => WaitKind::Tasks,
            Wait::End(Awaited::Result) => WaitKind::Result,
            Wait::End(Awaited::Slot) => WaitKind::Slot,
        };
        let node = edge.target.node();
        Self { kind, on: node.path(), id: node.number() }
    }
}
