//! [`Ring`]: the newest entries of the story of a process, bounded by count and bytes. Pure.
//!
//! Failures and decisions are kept apart from the ends of members: a program that starts and ends
//! many members must not push its failures out.

use super::time;
use pleach::actor::ActorPath;
use pleach::inspect::{DecisionDetails, EventInfo, FailureDetails};
use serde::Serialize;
use std::collections::VecDeque;

/// How many failures, decisions and restarts are kept, and how many bytes of them.
const NOTABLE: Bounds = Bounds { entries: 4_096, bytes: 4 << 20 };

/// How many ends of members are kept, and how many bytes of them.
const ENDS: Bounds = Bounds { entries: 1_024, bytes: 512 << 10 };

/// What an entry takes besides its texts, in bytes.
const ENTRY_BYTES: usize = 256;

/// How many entries are searched for the failure that an end belongs to.
const SEARCHED_MAX: usize = 256;

/// How much of two reasons is compared: what a process remembers is shortened.
const REASON_COMPARED: usize = 500;

/// How far the times of the same failure may be apart, heard and remembered, in microseconds.
const SAME_WITHIN_US: u64 = 1_000_000;

/// Something that happened at a member.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Entry {
    /// Counts everything that the console has heard of this process, also what it did not keep.
    pub(crate) seq: u64,
    /// When it happened, as RFC 3339, and in microseconds since 1970.
    pub(crate) at: String,
    #[serde(skip)]
    pub(crate) unix_us: u64,
    pub(crate) kind: String,
    pub(crate) path: Option<ActorPath>,
    pub(crate) text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<Box<FailureDetails>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) decision: Option<Box<DecisionDetails>>,
}

impl Entry {
    /// An event of the process.
    pub(super) fn of(event: EventInfo, seq: u64, unix_us: u64) -> Self {
        let EventInfo { kind, path, text, failure, decision, .. } = event;
        Self { seq, at: time(unix_us), unix_us, kind, path, text, failure, decision }
    }

    /// Something that the console itself says about the process.
    pub(super) fn of_console(seq: u64, unix_us: u64, kind: &str, text: String) -> Self {
        let (kind, path) = (kind.to_string(), Some(ActorPath::root()));
        Self { seq, at: time(unix_us), unix_us, kind, path, text, failure: None, decision: None }
    }

    /// Returns whether it happened at or below `path`, or concerns a member there: a failure that
    /// went up from there, a decision that took a member there along.
    pub(crate) fn concerns(&self, path: &ActorPath) -> bool {
        let is_within = |one: &ActorPath| one.segments().starts_with(path.segments());
        self.path.as_ref().is_some_and(is_within)
            || self.failure.as_ref().is_some_and(|failure| is_within(&failure.origin))
            || self.decision.as_ref().is_some_and(|decision| decision.also.iter().any(is_within))
            // A gap concerns every member.
            || self.kind == super::GAP
    }

    /// Returns whether this is the same failure or give-up as `event`, which happened at `unix_us` by
    /// what the process remembers.
    fn is_same(&self, event: &EventInfo, unix_us: u64) -> bool {
        let start = |failure: &FailureDetails| failure.reason.chars().take(REASON_COMPARED).collect::<String>();
        // Of a give-up only the origin and the reason are remembered.
        let incarnation = |failure: &FailureDetails| (event.kind == "failed").then_some(failure.incarnation);
        let what = |failure: &FailureDetails| (failure.origin.clone(), start(failure), incarnation(failure));
        self.kind == event.kind
            && self.path == event.path
            && self.unix_us.abs_diff(unix_us) < SAME_WITHIN_US
            && self.failure.as_deref().map(what) == event.failure.as_deref().map(what)
    }

    fn bytes(&self) -> usize {
        let failure = self.failure.as_ref().map_or(0, |failure| {
            let metadata: usize = failure.metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
            failure.reason.len() + failure.message.as_ref().map_or(0, String::len) + metadata
        });
        let also = self.decision.as_ref().map_or(0, |decision| decision.also.len() * ENTRY_BYTES);
        ENTRY_BYTES + self.text.len() + failure + also
    }
}

/// The newest entries of a process.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    notable: Lane,
    ends: Lane,
    /// How many entries were dropped.
    pub(crate) dropped: u64,
}

struct Bounds {
    entries: usize,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Lane {
    entries: VecDeque<Entry>,
    bytes: usize,
}

impl Lane {
    /// Adds an entry, and drops the oldest ones that are too many. Returns how many.
    fn push(&mut self, entry: Entry, bounds: &Bounds) -> u64 {
        self.bytes += entry.bytes();
        self.entries.push_back(entry);
        let mut dropped = 0;
        while self.entries.len() > bounds.entries || self.bytes > bounds.bytes {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.bytes -= oldest.bytes();
            dropped += 1;
        }
        dropped
    }
}

impl Ring {
    /// Adds the newest entry.
    pub(crate) fn push(&mut self, entry: Entry) {
        let is_end = entry.kind == "ended" && !self.has_failed(entry.path.as_ref());
        self.dropped += if is_end { self.ends.push(entry, &ENDS) } else { self.notable.push(entry, &NOTABLE) };
    }

    /// Returns the entries before `before`, the newest first.
    pub(crate) fn newest_first(&self, before: Option<u64>) -> impl Iterator<Item = &Entry> {
        let is_before = move |entry: &&Entry| before.is_none_or(|before| entry.seq < before);
        let mut notable = self.notable.entries.iter().rev().filter(is_before).peekable();
        let mut ends = self.ends.entries.iter().rev().filter(is_before).peekable();
        std::iter::from_fn(move || match (notable.peek(), ends.peek()) {
            (Some(one), Some(other)) if one.seq < other.seq => ends.next(),
            (Some(_), _) => notable.next(),
            (None, _) => ends.next(),
        })
    }

    /// Returns the entry with this number.
    pub(crate) fn find(&self, seq: u64) -> Option<&Entry> {
        self.newest_first(seq.checked_add(1)).next().filter(|entry| entry.seq == seq)
    }

    /// Returns whether an event of the past was heard when it happened.
    pub(super) fn knows(&self, event: &EventInfo, unix_us: u64) -> bool {
        let mut latest = self.notable.entries.iter().rev().take(NOTABLE.entries);
        latest.any(|entry| entry.is_same(event, unix_us))
    }

    /// Returns whether a member has failed lately.
    fn has_failed(&self, path: Option<&ActorPath>) -> bool {
        let mut latest = self.notable.entries.iter().rev().take(SEARCHED_MAX);
        latest.any(|entry| entry.kind == "failed" && entry.path.as_ref() == path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(seq: u64, kind: &str, path: &str, text: &str) -> Entry {
        let path = Some(path.parse().unwrap());
        let (kind, text) = (kind.to_string(), text.to_string());
        Entry { seq, at: String::new(), unix_us: 0, kind, path, text, failure: None, decision: None }
    }

    #[test]
    fn k6_ring_is_bounded_and_counts_what_it_drops() {
        let mut ring = Ring::default();
        for seq in 1..=10_000 {
            ring.push(entry(seq, "failed", "/user/a", "x"));
        }
        assert_eq!((ring.newest_first(None).count() as u64, ring.dropped), (4_096, 10_000 - 4_096));
        let text = "x".repeat(100_000);
        for seq in 10_001..=10_100 {
            ring.push(entry(seq, "failed", "/user/a", &text));
        }
        let kept = ring.newest_first(None).count() as u64;
        assert!(kept < 50, "{kept} entries of 100 kB are kept");
        assert_eq!(kept + ring.dropped, 10_100);
    }

    #[test]
    fn k6_ends_of_members_do_not_push_failures_out() {
        let mut ring = Ring::default();
        ring.push(entry(1, "failed", "/user/a", "no ink"));
        ring.push(entry(2, "ended", "/user/a", "failed"));
        for seq in 3..=20_000 {
            ring.push(entry(seq, "ended", "/user/b", "stopped"));
        }
        let numbers: Vec<u64> = ring.newest_first(None).map(|entry| entry.seq).collect();
        assert_eq!((numbers[0], numbers[1_024], numbers[1_025], numbers.len()), (20_000, 2, 1, 1_026));
        assert!(numbers.is_sorted_by(|one, other| one > other));
        assert_eq!(ring.newest_first(Some(2)).count(), 1);
        assert_eq!(ring.find(2).map(|entry| entry.kind.as_str()), Some("ended"));
        assert!(ring.find(3).is_none(), "it was dropped");
    }
}
