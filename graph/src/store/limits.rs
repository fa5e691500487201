//! What stores bound, and the checks they share: they are made before a store is touched.

use super::message_kind::ANSWER;
use super::{Commit, Lease, NewMessage, NewRun, Row, StoreError, Wanted};
use std::time::Duration;

/// The most bytes of one body, unless a run asks for more: 16 MiB.
pub const BODY_BYTES_MAX: usize = 16 << 20;

/// What a body is called in errors.
pub(crate) const BODY: &str = "the body of a record";

/// The most bytes of one row in any store, header and body together: 64 MiB.
pub const ROW_BYTES_MAX: usize = 64 << 20;

/// The most rows of one commit.
pub const ROWS_PER_COMMIT_MAX: usize = 10_000;

/// The most rows that one `read` gives, and the most sequences it may be asked for.
pub const READ_ROWS_MAX: usize = 1_000;

/// How many bytes one `read` gives, except for a single row that is larger: 64 MiB.
pub const READ_BYTES_MAX: usize = 64 << 20;

/// The most runs on a page.
pub const LIST_MAX: usize = 1_000;

/// The most signals in one inbox that nobody took, and the most answers.
pub const INBOX_MAX: usize = 1_000;

/// The most bytes of a run's id, an owner, a graph's name, a fingerprint, a message's name or dedup text.
pub const TEXT_BYTES_MAX: usize = 512;

/// The most bytes that are kept of the reason why a run could not be driven.
pub const REASON_BYTES_MAX: usize = 4 << 10;

/// How often a run is taken over without a commit before it is stuck.
pub const TAKEOVERS_MAX: u32 = 5;

impl NewRun {
    /// Checks what is asked for, so that a store need not.
    pub fn check(&self, rows: &[Row]) -> Result<(), StoreError> {
        check_text("run id", &self.id)?;
        check_text("graph name", &self.graph)?;
        check_text("fingerprint", &self.version.fingerprint)?;
        check_number("instance", self.instance)?;
        if let Some(from) = &self.from {
            check_text("run id", &from.run)?;
            check_number("sequence", from.sequence)?;
        }
        self.lease.as_ref().map_or(Ok(()), Lease::check)?;
        check_rows(&self.id, rows)?;
        match rows.first() {
            Some(first) if first.sequence == 1 => Ok(()),
            _ => Err(StoreError::invalid("rows", &self.id, "the first row of a run has the sequence 1")),
        }
    }
}

impl Lease {
    fn check(&self) -> Result<(), StoreError> {
        check_text("owner", &self.owner)?;
        check_lease(self.length)
    }
}

impl Wanted {
    /// Checks what is asked for, so that a store need not.
    pub fn check(&self, lease: &Lease) -> Result<(), StoreError> {
        lease.check()?;
        match self {
            Self::One { run, .. } => check_text("run id", run),
            Self::Ready { graphs, .. } => graphs.iter().try_for_each(|(graph, version)| {
                check_text("graph name", graph)?;
                check_text("fingerprint", &version.fingerprint)
            }),
        }
    }
}

impl Commit {
    /// Checks what is asked for, so that a store need not, and gives the head that the run must have.
    pub fn check(&self) -> Result<u64, StoreError> {
        check_text("run id", &self.run)?;
        check_number("epoch", self.epoch)?;
        check_number("instance", self.instance)?;
        check_rows(&self.run, &self.rows)?;
        if let Some(version) = &self.version {
            check_text("fingerprint", &version.fingerprint)?;
        }
        Ok(self.rows[0].sequence - 1)
    }
}

impl NewMessage {
    /// Checks what is asked for, so that a store need not.
    pub fn check(&self) -> Result<(), StoreError> {
        // A prefix says what it is, and the key or name that follows may be as long as any text.
        let key = self.name.split_once('/').map_or(self.name.as_str(), |(_, key)| key);
        check_chars("message name", &self.name)?;
        check_size("a message name", key.len().max(self.name.len().saturating_sub(ANSWER.len())), TEXT_BYTES_MAX)?;
        self.dedup.as_deref().map_or(Ok(()), |dedup| check_text("dedup text", dedup))?;
        check_size("the payload of a message", self.payload.len(), BODY_BYTES_MAX)
    }
}

/// A lease of zero would end before it begins.
pub(super) fn check_lease(length: Duration) -> Result<(), StoreError> {
    if length.is_zero() {
        return Err(StoreError::invalid("a lease of", "0 s", "it would end before it begins; give it some seconds"));
    }
    Ok(())
}

/// A reason as it is kept: cut between two characters.
pub(super) fn cut_reason(mut reason: String) -> String {
    if reason.len() > REASON_BYTES_MAX {
        let end = (0..=REASON_BYTES_MAX).rev().find(|at| reason.is_char_boundary(*at)).unwrap_or(0);
        reason.truncate(end);
    }
    // No database has text with a NUL.
    reason.replace('\0', "\u{fffd}")
}

pub(crate) fn check_size(what: &'static str, size: usize, limit: usize) -> Result<(), StoreError> {
    if size > limit { Err(StoreError::TooLarge { what, size, limit }) } else { Ok(()) }
}

/// Databases have signed numbers.
pub(super) fn check_number(what: &'static str, number: u64) -> Result<(), StoreError> {
    if number > i64::MAX as u64 { Err(StoreError::invalid(what, &number.to_string(), "it is too high")) } else { Ok(()) }
}

/// Text in a database has no NUL, and an index on it no end of bytes.
pub(super) fn check_text(what: &'static str, text: &str) -> Result<(), StoreError> {
    check_chars(what, text)?;
    check_size(what, text.len(), TEXT_BYTES_MAX)
}

fn check_chars(what: &'static str, text: &str) -> Result<(), StoreError> {
    if text.is_empty() {
        return Err(StoreError::invalid(what, text, "it is empty"));
    }
    if text.contains('\0') {
        return Err(StoreError::invalid(what, text, "it contains a NUL"));
    }
    Ok(())
}

fn check_rows(run: &str, rows: &[Row]) -> Result<(), StoreError> {
    check_size("the number of rows of a commit", rows.len(), ROWS_PER_COMMIT_MAX)?;
    let first = rows.first().map_or(0, |row| row.sequence);
    if first == 0 {
        return Err(StoreError::invalid("rows", run, "there is at least one, and sequences begin with 1"));
    }
    for (row, sequence) in rows.iter().zip(first..) {
        check_number("sequence", row.sequence)?;
        if row.sequence != sequence {
            return Err(StoreError::invalid("rows", run, "their sequences have a gap"));
        }
        check_size("a row", row.size(), ROW_BYTES_MAX)?;
    }
    Ok(())
}
