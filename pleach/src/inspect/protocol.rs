//! The protocol of the inspection socket: one JSON object per line, in both directions.
//!
//! `docs/inspect-protocol.md` describes it with examples. The server greets with a [`Hello`]. A
//! request has an `id` and an `op`; its answer has the same `id` and either `ok` or `error`. Lines
//! with `event` or `missed` follow a `follow` request.
//!
//! Versions: fields and operations may be added within a version, so readers ignore what they do
//! not know. Everything else changes [`PROTOCOL_VERSION`].

use crate::inspect::event_info::EventInfo;
use crate::inspect::options::InspectAction;
use crate::inspect::{HealthReason, MemberInfo, MemberKind, WaitInfo};
use pleach_core::{ActorPath, Counts};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The version of the protocol that this crate speaks.
pub const PROTOCOL_VERSION: u32 = 1;

/// The first line of a connection: who answers, and what it allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Hello {
    /// The version of the protocol that the server speaks.
    pub protocol: u32,
    /// The name of the system that answers.
    pub name: String,
    /// The id of the process that answers.
    pub pid: u32,
    /// The version of pleach in that process.
    pub version: String,
    /// The actions that the process allows.
    pub actions: Vec<InspectAction>,
    /// The path of the inspection socket, for commands. `None` without a socket.
    #[serde(default)]
    pub socket: Option<String>,
    /// What the socket itself has done so far.
    pub stats: SocketStats,
}

/// What an inspection socket has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SocketStats {
    /// How many connections are open now.
    pub connections: u64,
    /// How many connections were refused because too many were open.
    pub refused: u64,
    /// How many connections were closed because their reader was too slow.
    pub too_slow: u64,
    /// How many connections were closed because their client was silent for too long.
    #[serde(default)]
    pub idle: u64,
    /// How many requests were answered, with or without an error.
    pub requests: u64,
    /// How many events were left out because their readers were too slow.
    pub missed_events: u64,
}

/// A request: an id that its answer repeats, and an operation.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) id: u64,
    #[serde(flatten)]
    pub(super) operation: Operation,
}

/// What a client can ask for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(super) enum Operation {
    Hello,
    Snapshot(SnapshotRequest),
    Rows(RowsRequest),
    Member(Target),
    Top(TopRequest),
    Why(Target),
    Supervision(Target),
    Health,
    Rates(Target),
    Follow(Follow),
    Unfollow,
    Stop(Target),
    Restart(Target),
    Suspend(Target),
    Resume(Target),
    LogLevel { level: String },
}

/// Which members a `snapshot` request lists. All fields are optional.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SnapshotRequest {
    /// Where to start. Default: the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<ActorPath>,
    /// How many levels below the start are listed. Default and maximum: 256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// How many members are listed at most. Default: 100, maximum: 1,000. A page also ends at about
    /// 1 MiB of text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Where to continue: the `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<crate::inspect::Cursor>,
    /// Which kinds of members are listed. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<MemberKind>>,
    /// Lists only members for which [`MemberInfo::is_well`] is false, or which a health reason
    /// names. A page has up to 250 of them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub not_well: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl SnapshotRequest {
    /// Lists everything from the root on, with the defaults.
    pub fn new() -> Self {
        Self::default()
    }
}

/// Which rows of the tree a `rows` request lists.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RowsRequest {
    /// Where the tree starts: the first row. Default: the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<ActorPath>,
    /// The paths of the members whose children are listed, at most 1,000. A member below a closed
    /// one is not listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<ActorPath>,
    /// The number of the first row of the answer. A larger number than there are rows returns the
    /// last rows.
    #[serde(default)]
    pub first: u64,
    /// How many rows are listed at most. Default: 60, maximum: 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
}

impl RowsRequest {
    /// Lists the rows from `first` on, with the children of the members at these paths.
    pub fn new(open: impl IntoIterator<Item = ActorPath>, first: u64) -> Self {
        Self { open: open.into_iter().collect(), first, ..Self::default() }
    }
}

/// A window of the tree: the answer to `rows`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Rows {
    /// The rows, parents before their children.
    pub rows: Vec<Row>,
    /// The number of the first one.
    pub first: u64,
    /// How many rows there are, with these members open.
    pub total: u64,
}

/// One row of the tree: a member, and where it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Row {
    /// How many levels it is below the first row of the tree.
    pub depth: u32,
    /// The member of this row, as a snapshot shows it.
    pub member: MemberInfo,
    /// Whether its children are listed after it.
    pub is_open: bool,
}

/// Which members a `top` request lists.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TopRequest {
    /// What the members are sorted by, the largest first.
    #[serde(default)]
    pub by: TopBy,
    /// Where to start. Default: the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<ActorPath>,
    /// How many members are listed at most. Default: 20, maximum: 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Which kinds of members are compared. Default: actors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<MemberKind>>,
    /// Lists only members whose path contains this text, in upper or lower case. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
}

impl TopRequest {
    /// Lists the 20 members with the most of `by`, in the whole system.
    pub fn by(by: TopBy) -> Self {
        Self { by, ..Self::default() }
    }
}

/// What the members of a `top` answer are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TopBy {
    /// How many messages are queued in the mailbox.
    #[default]
    Queued,
    /// How many messages were handled per second, between the last two requests.
    Rate,
    /// How many restarts count within the window of the limit.
    Restarts,
    /// How long the current message has been handled.
    Handling,
    /// How many messages have failed so far.
    Failed,
    /// How many children a member has.
    Children,
}

/// The members with the most of something: the answer to `top`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Top {
    /// The members with the most, the largest first.
    pub rows: Vec<TopRow>,
    /// Whether rows are missing because the answer would be longer than about 1 MiB.
    #[serde(default)]
    pub is_cut: bool,
    /// How many members were compared for this answer.
    pub compared: u64,
    /// Whether the whole subtree was compared. One request compares up to 2,000,000 members.
    pub is_complete: bool,
    /// The sums over all compared members that match `contains`. `None` from an older process,
    /// which also ignores `contains`.
    #[serde(default)]
    pub sums: Option<TopSums>,
}

/// The sums over the members of a `top` answer, also over those for which it has no row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TopSums {
    /// How many of the compared members match `contains`.
    pub members: u64,
    /// How many accepted messages are queued.
    pub queued: u64,
    /// How many accepted messages are stashed.
    #[serde(default)]
    pub stashed: u64,
    /// How many accepted messages are being handled.
    #[serde(default)]
    pub in_handler: u64,
    /// Accepted messages that are neither settled, queued, stashed nor handled now. 0 adds up.
    #[serde(default)]
    pub difference: i64,
    /// How many sends wait for room in a mailbox.
    pub waiting_senders: u64,
    /// What became of the messages of these members so far.
    pub counts: Counts,
}

/// One member of a `top` answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TopRow {
    /// The member itself, as a snapshot shows it.
    pub member: MemberInfo,
    /// Accepted messages per second, if `top` is sorted by rate and the member was seen before.
    pub accepted_per_s: Option<f64>,
    /// Handled messages per second, under the same condition.
    pub handled_per_s: Option<f64>,
}

/// The answer to `why`: what a member waits for, and what is wrong there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Why {
    /// The member, then the member that it waits for, and so on: the last one is the deepest cause.
    pub chain: Vec<MemberInfo>,
    /// Whether the chain leads back to one of its members.
    pub is_cycle: bool,
    /// The problems of the system that concern a member of the chain or one above it.
    pub reasons: Vec<HealthReason>,
    /// Members outside the chain that wait for a member of it, at most 32.
    #[serde(default)]
    pub waiters: Vec<Waiter>,
    /// How many further waits for the chain are not listed. Up to 200,000 members are looked at.
    #[serde(default)]
    pub waiters_left_out: u64,
}

/// A member that waits for a member of the chain of [`Why`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Waiter {
    /// The path of the member that waits.
    pub path: ActorPath,
    /// The number of the member that waits.
    pub id: u64,
    /// The member that it waits for, and how.
    pub wait: WaitInfo,
}

/// A member that a request is about.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Target {
    /// Default: the root.
    #[serde(default)]
    pub(super) path: ActorPath,
    /// If set, the member at the path must still have this id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) member_id: Option<u64>,
}

/// Which events to follow, by their names.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Follow {
    /// Only events about this member and members below it. Default: all events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) path: Option<ActorPath>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) kinds: Option<Vec<String>>,
}

/// How many of [`EVENT_KINDS`] are followed by default: the first ones.
pub(super) const EVENT_KINDS_DEFAULT: usize = 6;

/// The `kinds` of events that a connection follows.
pub(super) const EVENT_KINDS: [&str; 11] = [
    "failures",
    "unhandled",
    "dead_letters",
    "lifecycle",
    "decisions",
    "gave_up",
    "stuck_handlers",
    "mailboxes",
    "wait_cycles",
    "health",
    "lints",
];

/// An error that the server answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failure {
    /// The kind of error, for programs: `not_found`, `not_allowed`, `bad_request` and so on.
    pub code: String,
    /// What failed, why, and what to do.
    pub text: String,
}

impl Failure {
    pub(super) fn new(code: &str, text: impl Into<String>) -> Self {
        Self { code: code.to_string(), text: text.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.text, self.code)
    }
}

/// A line from the server. Exactly one group of fields is set.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Line {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) hello: Option<Hello>,
    /// The id of the request. Missing in an answer to a line without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ok: Option<serde_json::Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Failure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) event: Option<EventInfo>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) missed: Option<u64>,
}

impl Line {
    pub(super) fn answer(id: Option<u64>, outcome: Result<serde_json::Value, Failure>) -> Self {
        match outcome {
            Ok(ok) => Self { id, ok: Some(ok), ..Self::default() },
            Err(error) => Self { id, error: Some(error), ..Self::default() },
        }
    }

    /// Returns the line with its line feed. Values of this crate always have a JSON form.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }
}
