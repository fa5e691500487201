//! The shared parts of `read` and `list`: normalized queries and checked answers.

use super::limits::{READ_BYTES_MAX, READ_ROWS_MAX, check_number, check_size};
use super::{Filter, Row, Rows, RunInfo, RunStatus, StoreError, Timestamp};

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

/// Returns the highest key on the page of a list that follows `after`. `after` has the bits of a
/// key with either sign, so that a damaged key also leads to the next page and not back to the
/// first.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(super) fn last_key(after: Option<u64>) -> i64 {
    after.map_or(i64::MAX, |after| (after as i64).saturating_sub(1))
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
            && self.created_since.is_none_or(|time| run.created >= time)
            && self.created_before.is_none_or(|time| run.created < time)
            && self.changed_since.is_none_or(|time| run.changed >= time)
            && self.changed_before.is_none_or(|time| run.changed < time)
    }
}
