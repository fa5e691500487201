//! `LogLines`: which recorded work lies in the past of a record, in a log that may have been
//! rewound.
//!
//! A rewind, replay or migration writes all tokens again and continues from there. So a log is a
//! tree of **segments**: each begins with such a rewrite, and continues from an earlier record. The
//! **past** of a record is the work on its line: in its segment up to the record, and in the past
//! of the record from which the segment continues.
//!
//! **Work** is an effect with a recorded result, a question, or its answer. It is known by node,
//! branches and key. A copy that a rewrite made is the same work as its original.

use crate::log::frontier::{Frontier, undone_at};
use crate::log::last_step::LastStep;
use crate::log::open;
use crate::log::visit::VisitRecordBody;
use crate::store::{Fork, Header, Kind, LiveToken, Place, Record, RunInfo, Store, StoreError};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The kind of recorded work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WorkKind {
    /// An effect with a recorded result.
    Effect,
    /// The recorded start of an effect.
    Started,
    /// A question to the outside, or a wait for a signal.
    Asked,
    /// The answer or signal that ended a wait.
    Answered,
    /// A sleep. Its deadline is recorded when it begins.
    Sleep,
}

/// What makes two pieces of work the same, in several passes through a graph.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WorkId {
    pub(crate) kind: WorkKind,
    pub(crate) node: String,
    pub(crate) branches: Vec<u32>,
    pub(crate) key: String,
    /// For a signal: its number among the waits for this name in one visit.
    pub(crate) signal: Option<u32>,
}

/// One piece of recorded work.
pub(crate) struct Work {
    pub(crate) id: WorkId,
    pub(crate) header: Header,
    pub(crate) body: VisitRecordBody,
}

impl Work {
    /// Returns the work of a visit record; `None` for other records and for the work of undos.
    fn of(record: Record) -> Option<Self> {
        let Record { header, body, .. } = record;
        if !header.is_visit_record() || undone_at(&header.path).is_some() {
            return None;
        }
        let body: VisitRecordBody = serde_json::from_slice(&body).ok()?;
        let kind = match header.kind {
            Kind::Effect => WorkKind::Effect,
            Kind::Started => WorkKind::Started,
            Kind::Wait if body.due.is_some() => WorkKind::Sleep,
            Kind::Wait => WorkKind::Asked,
            Kind::Wake => WorkKind::Answered,
            _ => return None,
        };
        let (node, branches) = (header.node.clone(), branches(&header.path));
        let id = WorkId { kind, node, branches, key: body.key.clone(), signal: body.signal };
        Some(Self { id, header, body })
    }
}

/// The records from one rewrite to the next.
struct Segment {
    first: u64,
    last: u64,
    /// The work in the past of its first record.
    past: BTreeSet<u64>,
}

/// The recorded work of a log, and its segments.
pub(crate) struct LogLines {
    /// The work by sequence number, without copies.
    pub(crate) work: BTreeMap<u64, Work>,
    headers: BTreeMap<u64, Header>,
    /// The original of each token and visit record that a rewrite wrote again.
    originals: HashMap<u64, u64>,
    segments: Vec<Segment>,
}

impl LogLines {
    /// Reads the log of a run from its oldest record to its head.
    pub(crate) async fn read(store: &dyn Store, info: &RunInfo) -> Result<Self, StoreError> {
        let run = info.id.as_str();
        let headers: BTreeMap<u64, Header> = open::headers(store, run, info.oldest, info.head).await?.into_iter().collect();
        let visits = headers.iter().filter(|(_, header)| header.is_visit_record()).map(|(sequence, _)| *sequence).collect();
        let found = open::records(store, run, visits).await?;
        let work = found.into_iter().filter_map(|(sequence, record)| Some((sequence, Work::of(record)?))).collect();
        let (originals, segments) = (HashMap::new(), Vec::new());
        let mut lines = Self { work, headers, originals, segments };
        lines.find_segments(store, info).await?;
        Ok(lines)
    }

    async fn find_segments(&mut self, store: &dyn Store, info: &RunInfo) -> Result<(), StoreError> {
        self.segments.push(Segment { first: info.oldest, last: info.head, past: BTreeSet::new() });
        let mut next = info.oldest;
        while next <= info.head {
            let Some(header) = self.headers.get(&next) else { break };
            // Records that are valid only together name the last of them, which has the frontier.
            let last = header.base.filter(|base| *base > next).unwrap_or(next);
            if header.kind == Kind::Rewind {
                self.add_rewrite(store, &info.id, next, last).await?;
            }
            next = last + 1;
        }
        Ok(())
    }

    /// Adds the segment that begins with the rewrite `first..=last`.
    async fn add_rewrite(&mut self, store: &dyn Store, run: &str, first: u64, last: u64) -> Result<(), StoreError> {
        let after = self.headers.get(&last).and_then(|header| header.frontier.clone()).map(Frontier::of).unwrap_or_default();
        let mut written = self.headers.range(first..=last).map(|(_, header)| header);
        let at = written.find(|header| header.kind == Kind::Rewind && header.next.is_some()).map_or(0, |header| header.parent);
        let before = frontier_at(store, run, at).await?;
        let now = frontier_at(store, run, first - 1).await?;
        let replayed = match LastStep::find(store, run, first - 1).await {
            Ok(Some(step)) if step.sequence == at + 1 && shape(&step.frontier(&before, now.clone())) == shape(&after) => {
                Some(step)
            }
            Ok(_) | Err(StoreError::Pruned { .. }) => None,
            Err(error) => return Err(error),
        };
        self.find_originals(&after, &before, &now, replayed.as_ref());
        let past = self.past_after(at, first - 1, &before, &now, &after, replayed.as_ref());
        if let Some(segment) = self.segments.last_mut() {
            segment.last = first - 1;
        }
        let head = self.headers.keys().next_back().copied().unwrap_or(last);
        self.segments.push(Segment { first, last: head, past });
        Ok(())
    }

    /// Finds the originals of the tokens and visit records that a rewrite wrote again. Copies are
    /// no work.
    fn find_originals(&mut self, after: &Frontier, before: &Frontier, now: &Frontier, replayed: Option<&LastStep>) {
        let (before, now) = (by_branches(before), by_branches(now));
        let moved = replayed.map(|step| branches(&step.moved_path));
        for (branches, copy) in by_branches(after) {
            let is_elsewhere = moved.as_ref().is_some_and(|moved| !branches.starts_with(moved));
            let Some(source) = (if is_elsewhere { &now } else { &before }).get(&branches) else { continue };
            self.add_original(copy.id.sequence, source.id.sequence);
            // A rewrite copies all visit records of a token, or none.
            if copy.visit_records.len() == source.visit_records.len() {
                for (copy, source) in copy.visit_records.iter().zip(&source.visit_records) {
                    self.add_original(*copy, *source);
                }
            }
        }
    }

    fn add_original(&mut self, copy: u64, source: u64) {
        let original = self.original(source);
        if original != copy {
            self.originals.insert(copy, original);
            self.work.remove(&copy);
        }
    }

    fn original(&self, sequence: u64) -> u64 {
        self.originals.get(&sequence).copied().unwrap_or(sequence)
    }

    /// Returns the work in the past of a record: on its line, up to the record.
    pub(crate) fn past(&self, record: u64) -> BTreeSet<u64> {
        let Some(segment) = self.segments.iter().rev().find(|segment| segment.first <= record) else { return BTreeSet::new() };
        let own = self.work.range(segment.first..=record.max(segment.first)).map(|(sequence, _)| *sequence);
        segment.past.iter().copied().chain(own).collect()
    }

    /// Returns the past of the last record of each line, the newest line first.
    pub(crate) fn ends(&self) -> impl Iterator<Item = BTreeSet<u64>> + '_ {
        self.segments.iter().rev().map(|segment| self.past(segment.last))
    }

    /// Returns the work in the past of a run that continues at `after`, which was made from the
    /// frontier `before` after the record `at`. For a replay, the frontier `now` after the record
    /// `head` also counts.
    pub(crate) fn past_after(
        &self,
        at: u64,
        head: u64,
        before: &Frontier,
        now: &Frontier,
        after: &Frontier,
        replayed: Option<&LastStep>,
    ) -> BTreeSet<u64> {
        let mut past = self.past(at);
        if let Some(step) = replayed {
            // The replayed visit does its work again, and so does everything inside it.
            let (placed, replayed) = (self.original(step.placed_by(before)), branches(&step.path));
            let is_in_visit = |work: &Work| work.id.branches.starts_with(&replayed);
            past.retain(|sequence| *sequence < placed || !self.work.get(sequence).is_some_and(is_in_visit));
            // Other branches stay where they are now.
            let (moved, at_past) = (branches(&step.moved_path), self.past(at));
            let is_elsewhere = |work: &Work| !work.id.branches.starts_with(&moved);
            let since = self.past(head).into_iter().filter(|sequence| !at_past.contains(sequence));
            past.extend(since.filter(|sequence| self.work.get(sequence).is_some_and(is_elsewhere)));
        }
        // The work of a live visit is kept only if its records were written again.
        let kept: BTreeSet<u64> = visit_records(after).map(|sequence| self.original(sequence)).collect();
        let live = visit_records(before).chain(visit_records(now).filter(|_| replayed.is_some()));
        let live: BTreeSet<u64> = live.map(|sequence| self.original(sequence)).collect();
        past.retain(|sequence| !live.contains(sequence) || kept.contains(sequence));
        past.extend(kept);
        past
    }

    /// Returns the work of a visit record of a live token, which may be a copy.
    pub(crate) fn work_of(&self, sequence: u64) -> Option<(u64, &Work)> {
        let original = self.original(sequence);
        Some((original, self.work.get(&original)?))
    }

    /// Adds work that was recorded before the oldest record and was kept because a token needs it.
    pub(crate) fn add_kept(&mut self, records: impl Iterator<Item = Record>) {
        for record in records {
            let sequence = self.original(record.sequence);
            if !self.work.contains_key(&sequence)
                && let Some(work) = Work::of(record)
            {
                self.work.insert(sequence, work);
            }
        }
    }

    /// Returns the record whose idempotency keys the visits of the token placed by `sequence` use.
    pub(crate) fn keys_of(&self, sequence: u64) -> u64 {
        self.headers.get(&sequence).map(|header| header.keys_of).filter(|keys_of| *keys_of > 0).unwrap_or(sequence)
    }
}

/// Returns the branch numbers of a path.
fn branches(path: &[Fork]) -> Vec<u32> {
    path.iter().map(|fork| fork.branch).collect()
}

fn by_branches(frontier: &Frontier) -> BTreeMap<Vec<u32>, &LiveToken> {
    frontier.tokens().map(|token| (branches(&token.path), token)).collect()
}

fn visit_records(frontier: &Frontier) -> impl Iterator<Item = u64> + '_ {
    let of_run = frontier.tokens().filter(|token| undone_at(&token.path).is_none());
    of_run.flat_map(|token| token.visit_records.iter().copied())
}

/// Returns what a rewrite does not change in a frontier.
fn shape(frontier: &Frontier) -> Vec<(Vec<u32>, &Place, usize)> {
    frontier.tokens().map(|token| (branches(&token.path), &token.at, token.visit_records.len())).collect()
}

/// Returns the frontier after a record; an empty one if it was pruned.
async fn frontier_at(store: &dyn Store, run: &str, at: u64) -> Result<Frontier, StoreError> {
    if at == 0 {
        return Ok(Frontier::default());
    }
    match open::position(store, run, at).await {
        Ok(position) => Ok(position.frontier),
        Err(StoreError::Pruned { .. }) => Ok(Frontier::default()),
        Err(error) => Err(error),
    }
}
