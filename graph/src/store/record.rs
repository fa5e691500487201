//! [`Record`]: the decoded form of a row. `row` encodes and checks the bytes.
//!
//! The header is JSON, so that database tools can read it. It says where the tokens of the run are.
//! The **frontier** is the list of all live tokens. A header contains either the whole frontier, or
//! the sequence of a record that does.

use super::Timestamp;
use serde::{Deserialize, Serialize};

/// The format of the records that this version writes. It reads all formats up to this one.
///
/// Format 2 added `keys_of` and `undo_before`.
pub const FORMAT: u32 = 2;

/// A decoded row of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The id of the run that wrote it.
    pub run: String,
    /// The sequence in the log, from 1 without gaps.
    pub sequence: u64,
    /// The header: graph, kind, node, frontier.
    pub header: Header,
    /// The body: a state or another payload, as JSON of the engine.
    pub body: Vec<u8>,
}

/// The header of a record: everything except the body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The name of the run's graph.
    pub graph: String,
    /// The fingerprint of the graph that wrote the record.
    pub fingerprint: String,
    /// The version of the graph's state type.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub schema: u32,
    /// The epoch of the claim that wrote the record.
    pub epoch: u64,
    /// The kind of event that the record stores.
    pub kind: Kind,
    /// The previous record of the same token; 0 if the record is the first.
    #[serde(default, skip_serializing_if = "is_zero_u64")]
    pub parent: u64,
    /// The branches that contain the token, the outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<Fork>,
    /// The node that the record belongs to; empty for a start.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// The place where the token continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Place>,
    /// The attempt at the node, from 1; 0 for records without an attempt.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// The number of nodes that the run has visited.
    pub visits: u64,
    /// The number of consecutive visits of the token, up to this record. 0 means that it equals
    /// [`visits`](Self::visits).
    #[serde(default, skip_serializing_if = "is_zero_u64")]
    pub iteration: u64,
    /// When the record was written, by the driver's estimate of the store's clock.
    ///
    /// The first records of a run are written before the store has reported its time. They have the
    /// driver's time of day; [`RunInfo::created`](super::RunInfo::created) has the store's.
    pub at: Timestamp,
    /// The last record with an undo, this one included; 0 if the run has none.
    #[serde(default, skip_serializing_if = "is_zero_u64")]
    pub undo: u64,
    /// For a record with an undo: the previous record with an undo; 0 if none. Records of format 1
    /// have it in their bodies.
    #[serde(default, skip_serializing_if = "is_zero_u64")]
    pub undo_before: u64,
    /// After a migration: the record whose idempotency keys this record keeps; 0 if it has its own
    /// keys.
    #[serde(default, skip_serializing_if = "is_zero_u64")]
    pub keys_of: u64,
    /// All live tokens after this record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frontier: Option<Vec<LiveToken>>,
    /// The record that has the frontier, if this one has not. Records that belong together, such as
    /// the records of a rewind, name the last of them, which has the frontier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<u64>,
}

impl Header {
    /// Returns the number of consecutive visits of the token. Records of earlier versions only have
    /// the visits of the run.
    pub(crate) fn iterations(&self) -> u64 {
        if self.iteration == 0 { self.visits } else { self.iteration }
    }
}

/// The kind of a record: the event that it stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// The run started; the body is the first state, or the states of the frontier that the run was
    /// forked from.
    Start,
    /// A node completed; the body is the new state.
    Step,
    /// A branch reached its join; the body is its state.
    Arrive,
    /// The branches were merged; the body is the merged state.
    Join,
    /// An effect completed; the body is its result.
    Effect,
    /// An at-most-once effect is about to start.
    Started,
    /// An attempt at a node failed; the body has the error and the time of the next attempt.
    Attempt,
    /// A node started to wait for an answer, a signal or a time; the body describes the wait.
    Wait,
    /// An answer, a signal or a time arrived; the body is the payload.
    Wake,
    /// The undo of a node completed.
    Undo,
    /// The run continues from an earlier record, with new tokens.
    Rewind,
    /// The run ended; the body has the outcome.
    End,
}

/// One branch of a fan-out, or the inside of a subgraph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "(u64, u32)", from = "(u64, u32)")]
pub struct Fork {
    /// The sequence of the record that opened the fan-out or the subgraph.
    pub sequence: u64,
    /// The number of the branch. `u32::MAX` means the undo of that record.
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

/// The place of a token in its graph.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Place {
    /// Before this node, which has not started.
    Node(String),
    /// After this node, before its router.
    Router(String),
    /// After this node, before its fan-out.
    Fork(String),
    /// Arrived at this join, waiting for other branches.
    Join(String),
    /// Failed at this node, in a fan-out that continues without this branch.
    Failed(String),
    /// At the end of the graph.
    End,
}

/// The id of a token: the record that placed it, and its number among the tokens of that record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "(u64, u32)", from = "(u64, u32)")]
pub struct PlacedBy {
    /// The sequence of the record that placed the token.
    pub sequence: u64,
    /// The number of the token among the tokens of that record.
    pub branch: u32,
}

impl From<(u64, u32)> for PlacedBy {
    fn from((sequence, branch): (u64, u32)) -> Self {
        Self { sequence, branch }
    }
}

impl From<PlacedBy> for (u64, u32) {
    fn from(id: PlacedBy) -> Self {
        (id.sequence, id.branch)
    }
}

/// A live token, as the frontier lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveToken {
    /// The id of the token: the record that placed it, and its number among the tokens of that
    /// record.
    pub id: PlacedBy,
    /// The branches that contain the token, the outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<Fork>,
    /// The place of the token in its graph.
    pub at: Place,
    /// The record whose body is the state of the token.
    pub row: u64,
    /// The visit records of the current visit: effects, waits and attempts.
    #[serde(default, rename = "notes", skip_serializing_if = "Vec::is_empty")]
    pub visit_records: Vec<u64>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_zero_u64(sequence: &u64) -> bool {
    *sequence == 0
}
