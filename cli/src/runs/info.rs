//! The row of a run as JSON and text.

use crate::output::times::rfc3339;
use crate::output::{Colour, Style};
use pleach::store::{Fork, Place, RunFailure, RunInfo, RunStatus, Timestamp};
use serde::Serialize;
use std::collections::BTreeMap;

/// A run's own row, as JSON. Fields are only added.
#[derive(Serialize)]
pub struct InfoJson<'a> {
    id: &'a str,
    graph: &'a str,
    fingerprint: &'a str,
    schema: u32,
    status: &'static str,
    /// The last record of its log, and the oldest that was not pruned.
    record: u64,
    oldest_record: u64,
    created: String,
    changed: String,
    due: Option<String>,
    deadline: Option<String>,
    driver: Option<&'a str>,
    lease_until: Option<String>,
    takeovers: u32,
    trouble: Option<&'a str>,
    failure: Option<FailureJson<'a>>,
    tags: BTreeMap<&'a str, &'a str>,
    forked_from: Option<OriginJson<'a>>,
}

#[derive(Serialize)]
struct OriginJson<'a> {
    run: &'a str,
    record: u64,
}

#[derive(Serialize)]
pub struct FailureJson<'a> {
    kind: pleach::store::FailureKind,
    node: &'a str,
    attempt: u32,
    branch: Vec<u32>,
    reason: &'a str,
    at: String,
    record: u64,
    is_final: bool,
    retry_at: Option<String>,
}

impl<'a> InfoJson<'a> {
    pub fn of(info: &'a RunInfo) -> Self {
        Self {
            id: &info.id,
            graph: &info.graph,
            fingerprint: &info.version.fingerprint,
            schema: info.version.schema,
            status: info.status.as_str(),
            record: info.head,
            oldest_record: info.oldest,
            created: rfc3339(info.created),
            changed: rfc3339(info.changed),
            due: info.wake_at.map(rfc3339),
            deadline: info.deadline.map(rfc3339),
            driver: info.owner.as_deref(),
            lease_until: info.lease_until.map(rfc3339),
            takeovers: info.takeovers,
            trouble: info.trouble.as_deref(),
            failure: info.failure.as_ref().map(FailureJson::of),
            tags: info.tags.iter().collect(),
            forked_from: info.from.as_ref().map(|from| OriginJson { run: &from.run, record: from.sequence }),
        }
    }
}

impl<'a> FailureJson<'a> {
    pub fn of(failure: &'a RunFailure) -> Self {
        Self {
            kind: failure.kind,
            node: &failure.node,
            attempt: failure.attempt,
            branch: branches(&failure.branch),
            reason: &failure.reason,
            at: rfc3339(failure.at),
            record: failure.sequence,
            is_final: failure.is_final,
            retry_at: failure.retry_at.map(rfc3339),
        }
    }
}

/// Returns the branch numbers of a path.
pub fn branches(path: &[Fork]) -> Vec<u32> {
    path.iter().map(|fork| fork.branch).collect()
}

/// The place of a token, as JSON: `{"kind": "node", "node": "pay"}`.
#[derive(Serialize)]
pub struct PlaceJson<'a> {
    kind: &'static str,
    node: Option<&'a str>,
}

impl<'a> PlaceJson<'a> {
    pub fn of(place: &'a Place) -> Self {
        let (kind, node) = match place {
            Place::Node(node) => ("node", Some(node)),
            Place::Router(node) => ("router", Some(node)),
            Place::Fork(node) => ("fan_out", Some(node)),
            Place::Join(node) => ("join", Some(node)),
            Place::Failed(node) => ("failed", Some(node)),
            Place::End => ("end", None),
            _ => ("other", None),
        };
        Self { kind, node: node.map(String::as_str) }
    }
}

/// Returns the place of a token in words.
pub fn place_text(place: &Place) -> String {
    match place {
        Place::Node(node) => format!("at {node}"),
        Place::Router(node) => format!("after {node}, before its router"),
        Place::Fork(node) => format!("at the fan-out of {node}"),
        Place::Join(node) => format!("at the join {node}"),
        Place::Failed(node) => format!("failed at {node}"),
        Place::End => "at the end".into(),
        _ => "at an unknown place".into(),
    }
}

/// Returns the status in its colour.
pub fn status_text(style: &Style, status: RunStatus) -> String {
    style.paint(status_colour(status), status.as_str())
}

pub fn status_colour(status: RunStatus) -> Colour {
    match status {
        RunStatus::Running => Colour::Blue,
        RunStatus::Finished => Colour::Green,
        RunStatus::Waiting | RunStatus::Cancelled | RunStatus::Compensated => Colour::Yellow,
        _ => Colour::Red,
    }
}

/// Returns a time with its distance from now: `2026-11-17 09:30:05 +01:00 (3 m ago)`.
pub fn time_text(style: &Style, at: Timestamp) -> String {
    format!("{} ({})", style.times.exact(at), style.times.relative(at))
}
