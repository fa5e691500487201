//! The shared parts of `read` and `list`: normalized queries and checked answers.

use super::limits::{LIST_EXAMINED_MAX, LIST_MAX, READ_BYTES_MAX, READ_ROWS_MAX, TEXT_BYTES_MAX, check_number, check_size};
use super::{DamagedRun, Filter, Row, Rows, RunCursor, RunInfo, RunList, RunStatus, StoreError, Tags, Timestamp};

/// The sequences to read, in order.
pub(super) enum RowQuery {
    Each(Vec<u64>),
    /// From the first sequence to the last, or to the head if that is lower.
    Range(u64, u64),
}

impl RowQuery {
    /// Normalizes a request of at most [`READ_ROWS_MAX`] sequences.
    pub(super) fn new(which: Rows) -> Result<Self, StoreError> {
        match which {
            Rows::Each(mut sequences) => {
                check_size("the number of rows to read", sequences.len(), READ_ROWS_MAX)?;
                sequences.sort_unstable();
                sequences.dedup();
                sequences.iter().try_for_each(|sequence| check_number("sequence", *sequence))?;
                Ok(Self::Each(sequences))
            }
            Rows::Range(range) => {
                check_number("sequence", *range.start())?;
                let first = (*range.start()).max(1);
                let last = (*range.end()).min(first.saturating_add(READ_ROWS_MAX as u64 - 1));
                Ok(Self::Range(first, last.min(i64::MAX as u64)))
            }
        }
    }

    /// Returns the sequences that must exist in a log from `oldest` to `head`.
    pub(super) fn of_run(self, run: &str, head: u64, oldest: u64) -> Result<Vec<u64>, StoreError> {
        match self {
            Self::Each(sequences) => match sequences.iter().find(|sequence| **sequence > head || **sequence == 0) {
                Some(&sequence) => Err(StoreError::NoSuchRow { run: run.to_string(), sequence, head }),
                None => Ok(sequences),
            },
            Self::Range(first, _) if first < oldest => Err(StoreError::Pruned { run: run.to_string(), oldest }),
            Self::Range(first, last) => Ok((first..=last.min(head)).collect()),
        }
    }
}

/// The answer to a read: collects rows in order, up to the limits, and reports missing ones.
pub(super) struct Answer<'a> {
    run: &'a str,
    oldest: u64,
    rows: Vec<Row>,
    bytes: usize,
}

impl<'a> Answer<'a> {
    pub(super) fn new(run: &'a str, oldest: u64) -> Self {
        Self { run, oldest, rows: Vec::new(), bytes: 0 }
    }

    /// Adds a row and returns whether more rows fit. A missing row is an error.
    pub(super) fn add(&mut self, sequence: u64, found: Option<Row>) -> Result<bool, StoreError> {
        let run = || self.run.to_string();
        let Some(row) = found else {
            let pruned = sequence < self.oldest;
            return Err(if pruned {
                StoreError::Pruned { run: run(), oldest: self.oldest }
            } else {
                StoreError::Damaged { run: run(), sequence, reason: "it is not there" }
            });
        };
        self.bytes += row.size();
        let fits = self.rows.is_empty() || self.bytes <= READ_BYTES_MAX;
        if fits {
            self.rows.push(row);
        }
        Ok(fits)
    }

    pub(super) fn into_rows(self) -> Vec<Row> {
        self.rows
    }
}

/// All filters of a list, combined into one condition.
#[derive(Debug, Default)]
pub(super) struct Query {
    pub(super) status: Option<RunStatus>,
    pub(super) graph: Option<String>,
    pub(super) tags: Tags,
    pub(super) prefix: Option<String>,
    pub(super) created_since: Option<Timestamp>,
    pub(super) created_before: Option<Timestamp>,
    pub(super) changed_since: Option<Timestamp>,
    pub(super) changed_before: Option<Timestamp>,
}

impl Query {
    /// Combines the filters. Returns `None` if no run can match all of them.
    pub(super) fn new(filters: Vec<Filter>) -> Option<Self> {
        let mut query = Self::default();
        let later = |one: &mut Option<Timestamp>, other| *one = Some(one.map_or(other, |one| one.max(other)));
        let earlier = |one: &mut Option<Timestamp>, other| *one = Some(one.map_or(other, |one| one.min(other)));
        for filter in filters {
            match filter {
                Filter::Status(status) => {
                    if query.status.replace(status).is_some_and(|other| other != status) {
                        return None;
                    }
                }
                // No stored name contains a NUL, and not every database accepts one in a query.
                Filter::Graph(graph) if graph.contains('\0') => return None,
                Filter::Graph(graph) => {
                    if query.graph.as_ref().is_some_and(|other| *other != graph) {
                        return None;
                    }
                    query.graph = Some(graph);
                }
                Filter::Tag { key, value } => {
                    let is_other = query.tags.get(&key).is_some_and(|other| other != value);
                    // No run has a tag that is not valid, or more tags than the limit.
                    if is_other || query.tags.set(key, value).is_err() {
                        return None;
                    }
                }
                Filter::IdPrefix(prefix) if prefix.contains('\0') || prefix.len() > TEXT_BYTES_MAX => return None,
                Filter::IdPrefix(prefix) => {
                    let known = query.prefix.take().unwrap_or_default();
                    let (short, long) = if known.len() < prefix.len() { (known, prefix) } else { (prefix, known) };
                    if !long.starts_with(&short) {
                        return None;
                    }
                    query.prefix = (!long.is_empty()).then_some(long);
                }
                Filter::CreatedSince(time) => later(&mut query.created_since, time),
                Filter::CreatedBefore(time) => earlier(&mut query.created_before, time),
                Filter::ChangedSince(time) => later(&mut query.changed_since, time),
                Filter::ChangedBefore(time) => earlier(&mut query.changed_before, time),
            }
        }
        Some(query)
    }

    pub(super) fn matches(&self, run: &RunInfo) -> bool {
        self.status.is_none_or(|status| run.status == status)
            && self.graph.as_ref().is_none_or(|graph| run.graph == *graph)
            && self.tags.iter().all(|(key, value)| run.tags.get(key) == Some(value))
            && self.prefix.as_ref().is_none_or(|prefix| run.id.starts_with(prefix))
            && self.created_since.is_none_or(|time| run.created >= time)
            && self.created_before.is_none_or(|time| run.created < time)
            && self.changed_since.is_none_or(|time| run.changed >= time)
            && self.changed_before.is_none_or(|time| run.changed < time)
    }

    /// Returns the position before which the runs of this page are, in the order of the list.
    pub(super) fn before(&self, after: Option<RunCursor>) -> Option<RunCursor> {
        let before = self.created_before.map(|created| RunCursor { created, number: i64::MIN });
        before.into_iter().chain(after).min()
    }

    /// Returns the ids with the wanted prefix, as a range: from the first text to before the
    /// second.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(super) fn ids(&self) -> Option<(&str, String)> {
        let prefix = self.prefix.as_deref()?;
        Some((prefix, after_prefix(prefix)))
    }
}

/// Returns the first text, in the order of bytes, that is above all ids with this prefix.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
fn after_prefix(prefix: &str) -> String {
    let mut text = prefix.to_string();
    while let Some(last) = text.pop() {
        // `char` has a gap between U+D7FF and U+E000.
        let next = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(u32::from(last) + 1) };
        if let Some(next) = next {
            text.push(next);
            return text;
        }
    }
    // The prefix consists of the highest characters only. No id is this long.
    char::MAX.to_string().repeat(TEXT_BYTES_MAX / char::MAX.len_utf8() + 1)
}

/// One page of a list while it is collected.
pub(super) struct Page {
    query: Query,
    count: usize,
    examined: usize,
    /// The last run that belongs to this page or to none.
    last: Option<RunCursor>,
    list: RunList,
}

impl Page {
    pub(super) fn new(query: Query, count: usize) -> Self {
        Self { query, count: count.min(LIST_MAX), examined: 0, last: None, list: RunList::default() }
    }

    /// Examines the next run in the order of the list. Returns false once the page is complete.
    pub(super) fn add(&mut self, at: RunCursor, run: Result<RunInfo, DamagedRun>) -> bool {
        if self.count == 0 {
            return false;
        }
        let is_listed = run.as_ref().map_or(true, |run| self.query.matches(run));
        let is_full = self.list.runs.len() + self.list.damaged.len() >= self.count;
        if (is_listed && is_full) || self.examined >= LIST_EXAMINED_MAX {
            self.list.next = self.last;
            return false;
        }
        self.examined += 1;
        self.last = Some(at);
        match run {
            Ok(run) if is_listed => self.list.runs.push(run),
            Ok(_) => {}
            Err(damaged) => self.list.damaged.push(damaged),
        }
        true
    }

    pub(super) fn into_list(self) -> RunList {
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    #[test]
    fn o7_id_prefix_is_a_range_of_texts() {
        for (prefix, after) in [("a", "b"), ("run-9", "run-:"), ("\u{7f}", "\u{80}"), ("x\u{d7ff}", "x\u{e000}")] {
            assert_eq!(after_prefix(prefix), after);
        }
        assert_eq!(after_prefix("a\u{10ffff}\u{10ffff}"), "b");
        assert!(after_prefix("\u{10ffff}") > "\u{10ffff}".repeat(TEXT_BYTES_MAX / 4));
    }

    #[test]
    fn o7_contradictory_filters_match_nothing() {
        let prefix = |text: &str| Filter::IdPrefix(text.into());
        assert!(Query::new(vec![Filter::tag("a", "1"), Filter::tag("a", "2")]).is_none());
        assert!(Query::new(vec![Filter::tag("", "1")]).is_none());
        assert!(Query::new(vec![prefix("ab"), prefix("ac")]).is_none());
        assert_eq!(Query::new(vec![prefix("abc"), prefix("a"), prefix("")]).unwrap().prefix.as_deref(), Some("abc"));
        assert_eq!(Query::new(vec![prefix("")]).unwrap().prefix, None);
    }
}
