//! [`MemberFacts`]: what a member tells an observer about itself, at one moment.
//!
//! A member reads its own state under its own lock, once, and sends no message. The room
//! `inspect` makes public values of it.

use crate::base::time::Instant;
use crate::events::counts::Counts;
use crate::tree::waits::Edge;
use alloc::vec::Vec;

/// The number of waits that an observer lists for one member. Further ones are counted.
pub(crate) const EDGES_OBSERVED_MAX: usize = 8;

/// The kind of a member of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum MemberKind {
    /// The root of a system, with the path `/`.
    Root,
    /// A guardian of a system: `/user` or `/system`.
    Guardian,
    /// An actor, which handles messages from its mailbox.
    Actor,
    /// A supervisor, which restarts its children.
    Supervisor,
    /// The supervisor of the workers of a pool.
    Pool,
    /// A scope, which owns tasks and other members.
    Scope,
    /// The scope of one run of a graph.
    Run,
    /// A task: a future in a scope.
    Task,
    /// A blocking job on its own thread.
    BlockingJob,
    /// A group of tasks, whose results are read.
    Group,
    /// A kind that this version does not know, read from a newer process.
    #[cfg_attr(feature = "serde", serde(other))]
    Unknown,
}

impl MemberKind {
    /// Returns the kind as one word in lower case, such as `actor`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Guardian => "guardian",
            Self::Actor => "actor",
            Self::Supervisor => "supervisor",
            Self::Pool => "pool",
            Self::Scope => "scope",
            Self::Run => "run",
            Self::Task => "task",
            Self::BlockingJob => "blocking_job",
            Self::Group => "group",
            Self::Unknown => "unknown",
        }
    }
}

impl core::fmt::Display for MemberKind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a member tells about itself.
pub(crate) struct MemberFacts {
    pub(crate) kind: MemberKind,
    pub(crate) work: Work,
    /// When it was started, if it keeps that. Actors and tasks do not: it would cost each spawn a
    /// look at the clock.
    pub(crate) started: Option<Instant>,
    /// Only actors have a mailbox.
    pub(crate) actor: Option<ActorFacts>,
    /// The first waits, at most [`EDGES_OBSERVED_MAX`].
    pub(crate) edges: Vec<Edge>,
    /// How many further waits there are.
    pub(crate) edges_left_out: usize,
}

impl MemberFacts {
    pub(crate) fn new(kind: MemberKind, work: Work) -> Self {
        Self { kind, work, started: None, actor: None, edges: Vec::new(), edges_left_out: 0 }
    }

    /// Adds the waits of a member, of which the list holds at most one more than is listed.
    pub(crate) fn with_edges(mut self, edges: Vec<Edge>, count: usize) -> Self {
        self.edges_left_out = count.saturating_sub(edges.len());
        self.edges = edges;
        self
    }
}

/// What a member is doing, as it knows it itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// It has no task: it accepts children.
    Open,
    /// It has not begun, or is in its first hook.
    Starting,
    /// An actor without a message.
    Idle,
    /// It has work and waits for a thread.
    Ready,
    /// Its code runs on a thread now.
    Running,
    /// Its code awaits something.
    Waiting,
    /// An actor with a current message.
    Handling(Progress),
    /// An actor whose hook awaits something.
    InHook,
    Suspended,
    /// Between two incarnations: until this instant, or until the restart plan continues.
    WaitingToRestart(Option<Instant>),
    /// An incarnation is ending, and another one follows.
    Restarting,
    Stopping,
}

/// Identifies the current message of an actor. Two equal values mean the same message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) taken: usize,
    pub(crate) handled: u64,
    pub(crate) incarnation: u32,
    /// When the handler began, if handlers are timed.
    pub(crate) since: Option<Instant>,
    /// Since when the sampler for stuck handlers has known it, if that reported it.
    pub(crate) stuck_since: Option<Instant>,
}

/// The mailbox and the counts of an actor.
pub(crate) struct ActorFacts {
    pub(crate) message_type: &'static str,
    /// The label of the props, else the name of the message type.
    pub(crate) label: &'static str,
    pub(crate) queued: usize,
    pub(crate) capacity: Option<usize>,
    /// A newer message replaces the queued one, so the mailbox is full by design.
    pub(crate) is_conflated: bool,
    pub(crate) waiting_sends: usize,
    pub(crate) stashed: usize,
    pub(crate) timers: usize,
    pub(crate) counts: Counts,
    pub(crate) incarnation: u32,
}

impl ActorFacts {
    /// Returns whether the mailbox has no room, and that matters.
    pub(crate) fn is_full(&self) -> bool {
        !self.is_conflated && self.capacity.is_some_and(|capacity| self.queued >= capacity)
    }
}
