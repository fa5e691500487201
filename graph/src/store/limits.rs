//! The limits of stores, and the checks of arguments that all stores share.
//!
//! Every check runs before the store does anything, so a rejected call changes nothing.

use super::message_kind::ANSWER;
use super::{Commit, Lease, NewMessage, NewRun, Row, StoreError, Wanted};
use std::time::Duration;

/// The default limit of one body in bytes: 16 MiB. A run can raise it with `max_state_bytes`.
pub const BODY_BYTES_MAX: usize = 16 << 20;

/// The name of a body in errors.
pub(crate) const BODY: &str = "the body of a record";

/// The largest row in bytes, header and body together: 64 MiB.
pub const ROW_BYTES_MAX: usize = 64 << 20;

/// The largest number of rows in one commit.
pub const ROWS_PER_COMMIT_MAX: usize = 10_000;

/// The largest number of rows that one `read` returns, and of sequences in one request.
pub const READ_ROWS_MAX: usize = 1_000;

/// The largest number of bytes that one `read` returns: 64 MiB. A single larger row is still
/// returned.
pub const READ_BYTES_MAX: usize = 64 << 20;

/// The largest number of runs on one page of a list.
pub const LIST_MAX: usize = 1_000;

/// The largest number of runs that one call of `list` examines.
pub const LIST_EXAMINED_MAX: usize = 10_000;

/// The number of runs with a common id prefix up to which a list reads and sorts all of them.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(super) const PREFIX_SORTED_MAX: usize = 1_000;

/// The largest number of refused messages that are kept for one run.
pub const REFUSED_MAX: usize = 64;

/// The largest number of signals in one inbox that wait to be taken. Answers have the same limit.
pub const INBOX_MAX: usize = 1_000;

/// The largest size in bytes of a run id, owner, graph name, fingerprint, message name or dedup
/// text.
pub const TEXT_BYTES_MAX: usize = 512;

/// The largest size in bytes of a stored reason why a run could not be executed. Longer reasons are
/// shortened.
pub const REASON_BYTES_MAX: usize = 4 << 10;

/// The number of takeovers without a commit after which a run becomes stuck.
pub const TAKEOVERS_MAX: u32 = 5;

impl NewRun {
    /// Checks the arguments of [`Store::create`](super::Store::create), so that a store need not.
    ///
    /// # Errors
    /// [`Invalid`](StoreError::Invalid) or [`TooLarge`](StoreError::TooLarge).
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
            _ => Err(StoreError::invalid("rows of run", &self.id, "the first row of a run must have the sequence 1")),
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
    /// Checks the arguments of [`Store::claim`](super::Store::claim), so that a store need not.
    ///
    /// # Errors
    /// [`Invalid`](StoreError::Invalid) or [`TooLarge`](StoreError::TooLarge).
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
    /// Checks a commit, so that a store need not, and returns the head that the run must have.
    ///
    /// # Errors
    /// [`Invalid`](StoreError::Invalid) or [`TooLarge`](StoreError::TooLarge).
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
    /// Checks a message, so that a store need not.
    ///
    /// # Errors
    /// [`Invalid`](StoreError::Invalid) or [`TooLarge`](StoreError::TooLarge).
    pub fn check(&self) -> Result<(), StoreError> {
        // The prefix names the kind. The key or name after it may have the full length of a text.
        let key = self.name.split_once('/').map_or(self.name.as_str(), |(_, key)| key);
        check_chars("message name", &self.name)?;
        check_size("a message name", key.len().max(self.name.len().saturating_sub(ANSWER.len())), TEXT_BYTES_MAX)?;
        self.dedup.as_deref().map_or(Ok(()), |dedup| check_text("dedup text", dedup))?;
        check_size("the payload of a message", self.payload.len(), BODY_BYTES_MAX)
    }
}

/// Rejects a zero lease, which would expire before it begins.
pub(super) fn check_lease(length: Duration) -> Result<(), StoreError> {
    if length.is_zero() {
        return Err(StoreError::invalid("lease of", "0 s", "it would expire before it begins; use at least one second"));
    }
    Ok(())
}

/// Shortens a reason to [`REASON_BYTES_MAX`] bytes, at a character boundary.
pub(super) fn cut_reason(reason: String) -> String {
    // Databases do not accept a NUL in a text.
    cut_to(reason.replace('\0', "\u{fffd}"), REASON_BYTES_MAX)
}

/// Shortens a text to [`TEXT_BYTES_MAX`].
pub(super) fn cut_text(text: String) -> String {
    cut_to(text, TEXT_BYTES_MAX)
}

fn cut_to(mut text: String, len_max: usize) -> String {
    if text.len() > len_max {
        let end = (0..=len_max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

pub(crate) fn check_size(what: &'static str, size: usize, limit: usize) -> Result<(), StoreError> {
    if size > limit { Err(StoreError::TooLarge { what, size, limit }) } else { Ok(()) }
}

/// Rejects numbers above `i64::MAX`, because databases have signed numbers.
pub(super) fn check_number(what: &'static str, number: u64) -> Result<(), StoreError> {
    if number > i64::MAX as u64 { Err(StoreError::invalid(what, &number.to_string(), "it must be below 2^63")) } else { Ok(()) }
}

/// Rejects texts that are empty, too long for an index, or contain a NUL.
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
        return Err(StoreError::invalid("rows of run", run, "at least one row is needed, and sequences begin with 1"));
    }
    for (row, sequence) in rows.iter().zip(first..) {
        check_number("sequence", row.sequence)?;
        if row.sequence != sequence {
            return Err(StoreError::invalid("rows of run", run, "their sequences have a gap"));
        }
        check_size("a row", row.size(), ROW_BYTES_MAX)?;
    }
    Ok(())
}
