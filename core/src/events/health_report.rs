//! [`Problem`]: what a part of the program reports about its own health, and the bounded list of
//! open reports of one system.
//!
//! A part that cannot do its work (a worker without a store, runs that no worker serves) reports a
//! problem and keeps the returned [`HealthReport`]. The problem is part of the system's health
//! until the report is dropped.
//!
//! Invariants:
//! 1. The list holds at most [`HEALTH_REPORTS_MAX`] reports. Further ones are only counted.
//! 2. Texts are shortened when the problem is made, so a report has a bounded size.
//! 3. Texts are made and dropped outside of the lock.

use crate::base::lock::Lock;
use crate::base::sync::{Arc, Weak};
use crate::base::time::Instant;
use crate::ids::path::ActorPath;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use slab::Slab;

/// How many health reports of one system are kept at the same time. Further ones are only counted.
pub const HEALTH_REPORTS_MAX: usize = 256;

/// The longest key of a problem, in bytes. A longer one is shortened.
const KEY_LEN_MAX: usize = 64;

/// The longest text or advice of a problem, in bytes. A longer one is shortened.
const TEXT_LEN_MAX: usize = 1_024;

/// A problem that a part of the program reports: what is wrong, the consequence, and what to do.
///
/// ```
/// use pleach::inspect::Problem;
///
/// let problem = Problem::new("store-unreachable", "PostgreSQL does not answer; no run makes progress")
///     .advice("check the database and the network; the worker tries again every second")
///     .blocks_readiness();
/// assert_eq!(problem.key(), "store-unreachable");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    key: String,
    text: String,
    advice: String,
    blocks_readiness: bool,
}

impl Problem {
    /// Creates a problem. `key` names its kind for programs, such as `runs-unserved`; `text` says
    /// what is wrong and the consequence.
    ///
    /// A key is shortened to 64 bytes, a text to 1,024 bytes.
    pub fn new(key: impl Into<String>, text: impl Into<String>) -> Self {
        let (key, text) = (shortened(key.into(), KEY_LEN_MAX), shortened(text.into(), TEXT_LEN_MAX));
        Self { key, text, advice: String::new(), blocks_readiness: false }
    }

    /// Says what an operator can do about it. Shortened to 1,024 bytes. Default: nothing.
    #[must_use]
    pub fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = shortened(advice.into(), TEXT_LEN_MAX);
        self
    }

    /// Makes the system not ready while the problem is open, so that a probe routes no work to it.
    /// Default: the system stays ready.
    #[must_use]
    pub fn blocks_readiness(mut self) -> Self {
        self.blocks_readiness = true;
        self
    }

    /// Returns the kind of the problem, for programs.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns what is wrong, with the consequence.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns what an operator can do, or an empty text.
    pub fn advice_text(&self) -> &str {
        &self.advice
    }

    /// Returns whether the system is not ready while the problem is open.
    pub fn is_blocking(&self) -> bool {
        self.blocks_readiness
    }
}

fn shortened(mut text: String, len_max: usize) -> String {
    if text.len() > len_max {
        let mark = '…';
        let end = (0..=len_max - mark.len_utf8()).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push(mark);
    }
    text
}

/// An open health report; dropping it withdraws the problem.
///
/// It does not keep the system running.
#[must_use = "dropping the report withdraws the problem"]
pub struct HealthReport {
    reports: Weak<HealthReports>,
    /// The place in the list, or `None` if the list was full.
    index: Option<usize>,
}

impl HealthReport {
    /// Replaces the problem. The time since the first report stays.
    pub fn update(&self, problem: Problem) {
        let (Some(reports), Some(index)) = (self.reports.upgrade(), self.index) else { return };
        let replaced = reports.state.with(|state| match state.open.get_mut(index) {
            Some(open) => core::mem::replace(&mut open.problem, problem),
            None => problem,
        });
        drop(replaced);
    }
}

impl fmt::Debug for HealthReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthReport").field("is_listed", &self.index.is_some()).finish()
    }
}

impl Drop for HealthReport {
    fn drop(&mut self) {
        let Some(reports) = self.reports.upgrade() else { return };
        let withdrawn = reports.state.with(|state| match self.index {
            Some(index) => state.open.try_remove(index),
            None => {
                state.left_out = state.left_out.saturating_sub(1);
                None
            }
        });
        drop(withdrawn);
    }
}

/// One open report, as the list keeps it.
#[derive(Clone)]
pub(crate) struct OpenReport {
    pub(crate) source: ActorPath,
    pub(crate) problem: Problem,
    pub(crate) since: Instant,
}

/// The open health reports of one system.
pub(crate) struct HealthReports {
    state: Lock<ReportList>,
}

#[derive(Default)]
struct ReportList {
    open: Slab<OpenReport>,
    /// How many open reports did not fit.
    left_out: u64,
}

impl HealthReports {
    pub(crate) fn new() -> Self {
        Self { state: Lock::new(ReportList::default()) }
    }

    /// Adds a report of the member at `source`.
    pub(crate) fn open(this: &Arc<Self>, source: ActorPath, problem: Problem, now: Instant) -> HealthReport {
        let mut report = Some(OpenReport { source, problem, since: now });
        let index = this.state.with(|state| {
            if state.open.len() >= HEALTH_REPORTS_MAX {
                state.left_out += 1;
                return None;
            }
            report.take().map(|report| state.open.insert(report))
        });
        HealthReport { reports: Arc::downgrade(this), index }
    }

    /// Returns the open reports, oldest place first, and how many were left out.
    pub(crate) fn list(&self) -> (Vec<OpenReport>, u64) {
        // One report at a time, because a text is copied under the lock.
        let (end, left_out) = self.state.with(|state| (state.open.capacity(), state.left_out));
        let open = (0..end).filter_map(|index| self.state.with(|state| state.open.get(index).cloned()));
        (open.collect(), left_out)
    }
}

#[cfg(all(test, feature = "std", not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn o2_reports_are_bounded_and_withdrawn_by_drop() {
        let reports = Arc::new(HealthReports::new());
        let open = |key: &str| HealthReports::open(&reports, ActorPath::root(), Problem::new(key, "text"), Instant::ZERO);
        let first = open("first");
        first.update(Problem::new("first", "changed"));
        assert_eq!(reports.list().0[0].problem.text(), "changed");
        let others: Vec<_> = (0..HEALTH_REPORTS_MAX).map(|_| open("other")).collect();
        assert_eq!((reports.list().0.len(), reports.list().1), (HEALTH_REPORTS_MAX, 1));
        drop((first, others));
        assert!(reports.list().0.is_empty());
        assert_eq!(reports.list().1, 0, "the report that did not fit is withdrawn too");
    }

    #[test]
    fn o2_long_texts_are_shortened() {
        let problem = Problem::new("k".repeat(200), "ä".repeat(2_000)).advice("x".repeat(5_000));
        assert!(problem.key().len() <= KEY_LEN_MAX && problem.text().len() <= TEXT_LEN_MAX);
        assert_eq!(problem.advice_text().len(), TEXT_LEN_MAX);
        assert!(problem.text().ends_with('…'));
        assert_eq!(Problem::new("k", "short").text(), "short");
    }
}
