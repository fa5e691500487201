//! The records of a run.

use super::Version;
use super::info::{FailureJson, PlaceJson, branches};
use super::times::rfc3339;
use pleach::durable::Checkpoint;
use pleach::store::Kind;
use serde::Serialize;

/// A page of records: the object *history* of `docs/cli.md`.
#[derive(Debug, Serialize)]
pub struct HistoryJson<'a> {
    version: Version,
    store: &'a str,
    id: &'a str,
    oldest_record: u64,
    records: Vec<RecordJson<'a>>,
    next: Option<u64>,
}

impl<'a> HistoryJson<'a> {
    /// Builds the object from a page of records. `next` is the first record of the next page.
    pub fn of(store: &'a str, id: &'a str, oldest_record: u64, records: &'a [Checkpoint], next: Option<u64>) -> Self {
        let records = records.iter().map(RecordJson::of).collect();
        Self { version: Version, store, id, oldest_record, records, next }
    }
}

/// One record of a run: the object *record* of `docs/cli.md`.
#[derive(Debug, Serialize)]
pub struct RecordJson<'a> {
    record: u64,
    kind: Kind,
    node: &'a str,
    next: Option<PlaceJson<'a>>,
    attempt: u32,
    visits: u64,
    at: String,
    branch: Vec<u32>,
    epoch: u64,
    parent: u64,
    part_of: Option<u64>,
    failure: Option<FailureJson<'a>>,
}

impl<'a> RecordJson<'a> {
    /// Builds the object from a record.
    pub fn of(record: &'a Checkpoint) -> Self {
        Self {
            record: record.sequence,
            kind: record.kind,
            node: &record.node,
            next: record.next.as_ref().map(PlaceJson::of),
            attempt: record.attempt,
            visits: record.visits,
            at: rfc3339(record.at),
            branch: branches(&record.path),
            epoch: record.epoch,
            parent: record.parent,
            part_of: record.part_of,
            failure: record.failure.as_ref().map(FailureJson::of),
        }
    }
}
