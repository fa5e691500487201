//! `Record`: what a row of a log says. Stores see it as bytes; `row` makes them and checks them.
//!
//! The header is JSON, so that a database can be looked into with its own tools. It says where the run's lines of control stand: a token is one
//! line of control, the **frontier** is the list of the live ones. A header has the whole frontier, or the sequence of an earlier one that has.

use super::Timestamp;
use serde::{Deserialize, Serialize};

/// The format of records that this version writes, and the latest that it reads.
///
/// 1: as it began. 2: `keys_of`, `undo_before`.
pub const FORMAT: u32 = 2;

/// A row of a log, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The run's id.
    pub run: String,
    /// The sequence: from 1, without gaps.
    pub sequence: u64,
    /// What it is about.
    pub header: Header,
    /// The state or other payload, JSON as the engine wrote it.
    pub body: Vec<u8>,
}

/// What a record is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The name of the graph.
    pub graph: String,
    /// The fingerprint of the graph that wrote it.
    pub fingerprint: String,
    /// The version of the state's type.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub schema: u32,
    /// The epoch of the claim under which it was written.
    pub epoch: u64,
    /// What happened.
    pub kind: Kind,
    /// The record that this one follows on its line of control; 0 if there is none.
    #[serde(default, skip_serializing_if = "is_none")]
    pub parent: u64,
    /// In which branches of which fan-outs, the outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<Fork>,
    /// The node that it is about; empty for a start.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// Where its line of control goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Place>,
    /// The attempt at the node, from 1; 0 where there is none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// How many nodes the run has visited.
    pub visits: u64,
    /// How many visits follow one another on the line of control that it is about, up to this record; 0 if as many as the run has
    /// [`visits`](Self::visits).
    #[serde(default, skip_serializing_if = "is_none")]
    pub iteration: u64,
    /// When, by the store's clock as the driver carried it on. The records that a run is made with are sealed before the store has said what time
    /// it is: there it is the driver's time of day, and [`RunInfo::created`](super::RunInfo::created) is the store's.
    pub at: Timestamp,
    /// The last record that can be undone, this one included; 0 if there is none.
    #[serde(default, skip_serializing_if = "is_none")]
    pub undo: u64,
    /// The record that can be undone before this one, if this one can be undone; 0 if there is none. Records of the first format have it in their
    /// bodies.
    #[serde(default, skip_serializing_if = "is_none")]
    pub undo_before: u64,
    /// The record whose idempotency keys go on with this one, after a migration wrote it anew; 0 if it has its own.
    #[serde(default, skip_serializing_if = "is_none")]
    pub keys_of: u64,
    /// All live tokens after this record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frontier: Option<Vec<LiveToken>>,
    /// The last record that has the frontier, if this one has not. Records that make sense only together, as those of a rewind, name the last of
    /// them: it has the frontier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<u64>,
}

impl Header {
    /// How many visits follow one another on the line of control that it is about. Records of earlier versions only say how many the run had.
    pub(crate) fn iterations(&self) -> u64 {
        if self.iteration == 0 { self.visits } else { self.iteration }
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// The run began; the body is the first state, or the states of the frontier it was forked from.
    Start,
    /// A node is done; the body is the new state.
    Step,
    /// A branch has reached its join; the body is its state.
    Arrive,
    /// The branches are merged; the body is the merged state.
    Join,
    /// An effect is done; the body is its result.
    Effect,
    /// An effect that may happen once at most is about to begin.
    Started,
    /// An attempt at a node failed; the body is the error and when to try again.
    Attempt,
    /// A node waits for an answer, a signal or a time; the body says for what.
    Wait,
    /// An answer, a signal or a time has come; the body is its payload.
    Wake,
    /// A node was undone.
    Undo,
    /// The run goes on from an earlier record, with new tokens.
    Rewind,
    /// The run has ended; the body says how.
    End,
}

/// A branch of a fan-out, or the inside of a subgraph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "(u64, u32)", from = "(u64, u32)")]
pub struct Fork {
    /// The sequence of the record that opened it.
    pub sequence: u64,
    /// Which branch. The highest number there is stands for the undo of that record.
    pub branch: u32,
}

impl From<(u64, u32)> for Fork {
    fn from((sequence, branch): (u64, u32)) -> Self {
        Self { sequence, branch }
    }
}

impl From<Fork> for (u64, u32) {
    fn from(fork: Fork) -> Self {
        (fork.sequence, fork.branch)
    }
}

/// Where a line of control stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Place {
    /// Before this node.
    Node(String),
    /// Before the router behind this node: the node is done.
    Router(String),
    /// Before the fan-out behind this node.
    Fork(String),
    /// Arrived at this join.
    Join(String),
    /// Failed at this node, in a fan-out that goes on without it.
    Failed(String),
    /// At the end.
    End,
}

/// What placed a token: it is the token's id.
pub type PlacedBy = Fork;

/// A live line of control.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveToken {
    /// The record that placed it, and which of those that this record placed.
    pub id: PlacedBy,
    /// In which branches of which fan-outs, the outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<Fork>,
    /// Where it stands.
    pub at: Place,
    /// The record whose body is its state.
    pub row: u64,
    /// The records of its effects, waits and attempts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<u64>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_none(sequence: &u64) -> bool {
    *sequence == 0
}
