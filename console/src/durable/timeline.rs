//! The view `timeline`: a page of records, from their headers.
//!
//! The cost depends on the records of the page, not on the length of the log. The bodies of failed
//! attempts and ends are read too, because they have the reason. A damaged or missing record stands
//! at its place, with what is wrong with it.

use super::StoreSource;
use crate::failure::Failure;
use crate::report::Version;
use crate::report::history::RecordJson;
use crate::view::Timeline;
use pleach::durable::{Checkpoint, RunRemote};
use pleach::store::{RunFailure, StoreError};
use serde::Serialize;
use serde_json::Value;

/// The records of a page: default and limit.
const PAGE: (u64, u64) = (100, 500);

/// A record that cannot be read.
#[derive(Debug, Serialize)]
pub(super) struct DamagedRecord {
    pub(super) record: u64,
    kind: &'static str,
    damage: &'static str,
}

/// A record, or what is wrong with it.
pub(super) type Found = Result<Checkpoint, DamagedRecord>;

#[derive(Serialize)]
struct TimelineJson<'a> {
    version: Version,
    store: &'a str,
    id: &'a str,
    /// The oldest record that was not pruned, and the last one.
    oldest_record: u64,
    record: u64,
    records: Vec<EntryJson<'a>>,
    /// The parameter `before` or `from` of the next page.
    next: Option<u64>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum EntryJson<'a> {
    Record(Box<RecordJson<'a>>),
    Damaged(&'a DamagedRecord),
}

pub(super) async fn page(source: &StoreSource, asked: &Timeline) -> Result<Value, Failure> {
    let info = source.store().store().head(&asked.run).await?;
    let limit = asked.limit.unwrap_or(PAGE.0).clamp(1, PAGE.1);
    let oldest = info.oldest.max(1);
    let (first, last) = match asked.from {
        Some(from) => (from.max(oldest), from.max(oldest).saturating_add(limit - 1).min(info.head)),
        None => {
            let last = asked.before.map_or(info.head, |before| before.saturating_sub(1).min(info.head));
            (last.saturating_sub(limit - 1).max(oldest), last)
        }
    };
    let mut found = read(&source.remote(&asked.run), first, last).await?;
    let mut next = match asked.from {
        Some(_) => (last < info.head).then_some(last + 1),
        None => {
            found.reverse();
            (first > oldest && first <= last).then_some(first)
        }
    };
    // Records with long reasons make a shorter page.
    loop {
        let answer = super::value_of(&TimelineJson {
            version: Version,
            store: source.store().name(),
            id: &asked.run,
            oldest_record: info.oldest,
            record: info.head,
            records: found.iter().map(EntryJson::of).collect(),
            next,
        })?;
        if found.len() <= 1 || super::size_of(&answer) <= super::ANSWER_BYTES_MAX {
            return Ok(answer);
        }
        found.truncate(found.len() / 2);
        let last = found.last().map(number);
        next = if asked.from.is_some() { last.map(|last| last + 1) } else { last };
    }
}

fn number(found: &Found) -> u64 {
    match found {
        Ok(record) => record.sequence,
        Err(damaged) => damaged.record,
    }
}

/// Reads the records from `first` to `last`. Around damage, ever smaller ranges are read.
pub(super) async fn read(remote: &RunRemote, first: u64, last: u64) -> Result<Vec<Found>, Failure> {
    let (mut found, mut ranges) = (Vec::new(), vec![(first, last)]);
    while let Some((first, last)) = ranges.pop() {
        if first > last {
            continue;
        }
        match remote.history(first, (last - first + 1) as usize).await {
            Ok(page) => {
                let end = page.checkpoints.last().map(|record| record.sequence);
                let checkpoints = page.checkpoints.into_iter().filter(|record| record.sequence <= last);
                found.extend(checkpoints.map(|mut record| {
                    record.failure = record.failure.map(RunFailure::shortened);
                    Ok(record)
                }));
                // One call returns a limited number of bytes.
                if let Some(end) = end.filter(|end| *end < last) {
                    ranges.push((end + 1, last));
                }
            }
            Err(StoreError::Damaged { reason, sequence, .. }) if sequence > 0 && first == last => {
                found.push(Err(DamagedRecord { record: first, kind: "damaged", damage: reason }));
            }
            Err(StoreError::Damaged { sequence, .. }) if sequence > 0 => {
                let middle = first + (last - first) / 2;
                ranges.extend([(middle + 1, last), (first, middle)]);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

impl<'a> EntryJson<'a> {
    fn of(found: &'a Found) -> Self {
        match found {
            Ok(record) => Self::Record(Box::new(RecordJson::of(record))),
            Err(damaged) => Self::Damaged(damaged),
        }
    }
}
