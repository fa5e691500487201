//! [`EventInfo`]: an event of a system as it travels, with the details of failures and decisions.

use pleach_core::ActorPath;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An event of the system, as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EventInfo {
    /// Counts the events of this connection, including missed ones.
    pub seq: u64,
    /// When it was sent, in microseconds since 1970-01-01 UTC.
    pub unix_us: u64,
    /// What happened, such as `restarted` or `gave_up`.
    pub kind: String,
    /// The member that it is about, if it is about one.
    pub path: Option<ActorPath>,
    /// The event in words, for people.
    pub text: String,
    /// The failure, for the kinds `failed`, `decided`, `gave_up` and `unhandled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Box<FailureDetails>>,
    /// The decision about the failure, for the kind `decided`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Box<DecisionDetails>>,
    /// The message that was not handled, for the kind `dead_letter`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letter: Option<DeadLetterDetails>,
}

/// A failure of a member, for programs that group or explain failures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FailureDetails {
    /// The error or panic as text, shortened to 2,048 characters.
    pub reason: String,
    /// The member that failed first; escalation does not change it.
    pub origin: ActorPath,
    /// The message that was being handled, as the program describes it, or else its type.
    #[serde(default)]
    pub message: Option<String>,
    /// The name of the type of that message.
    #[serde(default)]
    pub message_type: Option<String>,
    /// The incarnation that failed: 0 before the first restart.
    pub incarnation: u32,
    /// The annotations of the error and of the member, at most 32, each shortened to 256
    /// characters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

/// What a supervisor decided about a failure, by which rules, and who is affected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DecisionDetails {
    /// `resume`, `restart`, `stop` or `escalate`; the policy and the limit are applied.
    pub directive: String,
    /// The member that decided: the parent of the failed one.
    pub supervisor: ActorPath,
    /// The strategy of the supervisor, such as `one_for_all`, or `default` without one.
    pub strategy: String,
    /// How many restarts count within the window, with this one.
    pub restarts: u32,
    /// How many restarts are allowed within the window, or `None` for no limit.
    pub limit: Option<u32>,
    /// The window of the limit, in microseconds.
    pub window_us: u64,
    /// The wait before the restart, in microseconds; `None` without a restart.
    pub delay_us: Option<u64>,
    /// The siblings that stop or restart with the failed member, in start order, at most 32.
    #[serde(default)]
    pub also: Vec<ActorPath>,
    /// How many further siblings are not listed.
    #[serde(default)]
    pub also_left_out: u64,
}

/// A message that was accepted and not handled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeadLetterDetails {
    /// The message as the program describes it, or else its type.
    pub message: String,
    /// The type of the message; it never shows what the message contains.
    pub message_type: String,
    /// Why it was not handled, such as `stopped` or `dropped_oldest`.
    pub reason: String,
}

/// What a client that follows events receives.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Followed {
    /// An event of the system that is followed.
    Event(EventInfo),
    /// This many events were left out here, because the client read too slowly.
    Missed(u64),
}
