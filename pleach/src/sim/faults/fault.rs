//! [`Fault`] and [`Faults`]: what a test asks for.

use crate::sim::faults::FaultKind;
use std::time::Duration;

/// How often a fault with a rate happens at most, unless the test sets another bound.
pub const FAULTS_MAX_DEFAULT: u32 = 16;

/// The longest delay of a fault, unless the test sets another one: 1 s in virtual time.
pub const DELAY_MAX_DEFAULT: Duration = Duration::from_secs(1);

/// One fault that a test asks for: its kind, when it happens, and where. Made by
/// [`FaultKind::rate`] and [`FaultKind::nth`].
///
/// ```
/// use pleach::sim::{FaultKind, Sim};
///
/// let sim = Sim::new(7);
/// sim.inject([
///     FaultKind::CrashAfter.rate(0.05).on("/user/workers").at_most(3),
///     FaultKind::AnswerLost.nth(2).on("commit"),
/// ]);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a fault is passed to `Sim::inject` or `Exploration::faults`"]
pub struct Fault {
    pub(in crate::sim) kind: FaultKind,
    pub(in crate::sim) when: When,
    pub(in crate::sim) scope: Option<String>,
    pub(in crate::sim) count_max: u32,
    pub(in crate::sim) delay_max: Duration,
}

/// Which operations of its scope a fault hits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::sim) enum When {
    Rate(f64),
    Nth(u64),
}

impl Fault {
    pub(in crate::sim) fn at_rate(kind: FaultKind, rate: f64) -> Self {
        assert!((0.0..=1.0).contains(&rate), "the rate {rate} of {kind} is no probability: give a number from 0 to 1");
        let (when, count_max, delay_max) = (When::Rate(rate), FAULTS_MAX_DEFAULT, DELAY_MAX_DEFAULT);
        Self { kind, when, scope: None, count_max, delay_max }
    }

    pub(in crate::sim) fn at_nth(kind: FaultKind, n: u64) -> Self {
        assert!(n > 0, "the number of the first {kind} is 0: operations are counted from 1");
        Self { kind, when: When::Nth(n), scope: None, count_max: 1, delay_max: DELAY_MAX_DEFAULT }
    }

    /// Limits the fault to one site, or to the sites below a path. Default: all sites that the kind
    /// can hit.
    ///
    /// | kinds | `scope` |
    /// |---|---|
    /// | of handlers | the path of an actor, or of a member above it |
    /// | of I/O stand-ins and their wake-ups | the name passed to [`Sim::io`](crate::sim::Sim::io)
    /// |
    /// | of stores | the name of a method of `Store`, such as `commit` |
    ///
    /// Without a scope no actor of pleach itself fails, and none below `/system`.
    pub fn on(mut self, scope: impl Into<String>) -> Self {
        self.scope = Some(scope.into());
        self
    }

    /// Limits how often the fault happens in one simulation. Default: 16 with a rate, else 1.
    pub fn at_most(mut self, count: u32) -> Self {
        self.count_max = count;
        self
    }

    /// Sets the longest delay of `IoLate`, `WakeLate` and `StoreSlow`, in virtual time. Default: 1
    /// s.
    pub fn up_to(mut self, delay: Duration) -> Self {
        self.delay_max = delay;
        self
    }

    /// Returns whether the scope contains `site`. The scope of an actor is a path, which contains
    /// everything below it.
    pub(in crate::sim) fn contains(&self, site: &str) -> bool {
        let Some(scope) = &self.scope else { return true };
        let below = site.strip_prefix(scope.trim_end_matches('/'));
        below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
    }
}

/// The faults that a test asks for. Made of one [`Fault`], of several, or by [`all`](Self::all).
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use = "faults are passed to `Sim::inject` or `Exploration::faults`"]
pub struct Faults(pub(in crate::sim) Vec<Fault>);

impl Faults {
    /// Asks for no fault. This is the default.
    pub fn none() -> Self {
        Self::default()
    }

    /// Asks for each kind of fault, at this rate, everywhere, each at most 16 times.
    pub fn all(rate: f64) -> Self {
        FaultKind::ALL.map(|kind| kind.rate(rate)).into()
    }

    /// Asks for one more fault. Of two faults that hit the same operation, the first one happens.
    pub fn with(mut self, fault: Fault) -> Self {
        self.0.push(fault);
        self
    }
}

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Self {
        Self(vec![fault])
    }
}

/// As [`Faults::all`].
impl From<f64> for Faults {
    fn from(rate: f64) -> Self {
        Self::all(rate)
    }
}

impl<const N: usize> From<[Fault; N]> for Faults {
    fn from(faults: [Fault; N]) -> Self {
        Self(faults.into())
    }
}

impl From<Vec<Fault>> for Faults {
    fn from(faults: Vec<Fault>) -> Self {
        Self(faults)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d5_scope_of_a_fault_ends_at_a_path_segment() {
        let fault = FaultKind::HandlerFails.rate(1.0).on("/user/till");
        assert!(fault.contains("/user/till") && fault.contains("/user/till/drawer"));
        assert!(!fault.contains("/user/till-2") && !fault.contains("/user"));
        assert!(FaultKind::HandlerFails.rate(1.0).on("/").contains("/user/till"));
        assert!(FaultKind::StoreFails.nth(1).contains("commit"));
    }
}
