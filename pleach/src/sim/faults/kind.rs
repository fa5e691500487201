//! [`FaultKind`]: what can go wrong, and where.

use crate::sim::faults::Fault;
use std::fmt;
use std::str::FromStr;

/// What a fault of the simulator does. [`rate`](Self::rate) and [`nth`](Self::nth) make a
/// [`Fault`] of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// A message is not handled: it fails as if its handler had returned an error.
    HandlerFails,
    /// An actor panics when it gets a message, before the handler runs.
    CrashBefore,
    /// An actor panics after the handler of a message has returned `Ok`: the work is done, and the
    /// message counts as failed.
    CrashAfter,
    /// The result of an I/O stand-in ([`Sim::io`](crate::sim::Sim::io)) comes late.
    IoLate,
    /// The result of an I/O stand-in never comes. The seed decides whether its work was done.
    IoSilent,
    /// A wake-up of an I/O stand-in comes late.
    WakeLate,
    /// A wake-up of an I/O stand-in is dropped. It continues at the next poll of its task.
    WakeLost,
    /// An operation of a store ([`Sim::store`](crate::sim::Sim::store)) is not done and reports
    /// that the store is unavailable.
    StoreFails,
    /// An operation of a store takes long, before and after it is done.
    StoreSlow,
    /// An operation of a store is done, and reports that the store is unavailable.
    AnswerLost,
}

/// The sites at which faults of a kind happen. Each message, call or wake-up has at most one fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::sim) enum SiteKind {
    Handler,
    Io,
    Wake,
    Store,
}

impl FaultKind {
    /// All kinds of faults, in the order of their declaration.
    pub const ALL: [Self; 10] = [
        Self::HandlerFails,
        Self::CrashBefore,
        Self::CrashAfter,
        Self::IoLate,
        Self::IoSilent,
        Self::WakeLate,
        Self::WakeLost,
        Self::StoreFails,
        Self::StoreSlow,
        Self::AnswerLost,
    ];

    /// Returns the kind as one word in lower case, such as `handler-fails`, as `PLEACH_FAULTS` has
    /// it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HandlerFails => "handler-fails",
            Self::CrashBefore => "crash-before",
            Self::CrashAfter => "crash-after",
            Self::IoLate => "io-late",
            Self::IoSilent => "io-silent",
            Self::WakeLate => "wake-late",
            Self::WakeLost => "wake-lost",
            Self::StoreFails => "store-fails",
            Self::StoreSlow => "store-slow",
            Self::AnswerLost => "answer-lost",
        }
    }

    /// Makes a fault that happens with this probability, from 0 to 1, at each operation.
    pub fn rate(self, rate: f64) -> Fault {
        Fault::at_rate(self, rate)
    }

    /// Makes a fault that happens once, at the `n`th operation of its scope, counted from 1.
    pub fn nth(self, n: u64) -> Fault {
        Fault::at_nth(self, n)
    }

    pub(in crate::sim) const fn site_kind(self) -> SiteKind {
        match self {
            Self::HandlerFails | Self::CrashBefore | Self::CrashAfter => SiteKind::Handler,
            Self::IoLate | Self::IoSilent => SiteKind::Io,
            Self::WakeLate | Self::WakeLost => SiteKind::Wake,
            Self::StoreFails | Self::StoreSlow | Self::AnswerLost => SiteKind::Store,
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for FaultKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        found.ok_or_else(|| format!("{text:?} is no kind of fault; use one of {}", Self::ALL.map(Self::as_str).join(", ")))
    }
}
