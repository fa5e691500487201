//! The row of a run, its failure and the places of its tokens.

use super::times::rfc3339;
use pleach::store::{Fork, Place, RunFailure, RunInfo};
use serde::Serialize;
use std::collections::BTreeMap;

/// The row of a run: the object *run* of `docs/cli.md`.
#[derive(Debug, Serialize)]
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

#[derive(Debug, Serialize)]
struct OriginJson<'a> {
    run: &'a str,
    record: u64,
}

/// A failure of a run, an attempt or a branch: the object *failure* of `docs/cli.md`.
#[derive(Debug, Serialize)]
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
    /// Builds the object from the row of a run.
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
    /// Builds the object from a failure.
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

/// The place of a token: `{"kind": "node", "node": "pay"}`.
#[derive(Debug, Serialize)]
pub struct PlaceJson<'a> {
    kind: &'static str,
    node: Option<&'a str>,
}

impl<'a> PlaceJson<'a> {
    /// Builds the object from the place of a token.
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
