//! `ResumeError`: why a stored run cannot be resumed as requested.

use pleach_core::BoxError;
use std::error::Error;
use std::fmt;

/// Why a run was not gone on with as it was asked. It is as it was.
#[derive(Debug)]
#[non_exhaustive]
pub enum ResumeError {
    /// The state cannot be replaced: there is more than one.
    Branched {
        /// The run.
        run: String,
        /// The nodes whose fan-outs are open, and the subgraphs that are running.
        open: Vec<String>,
    },
    /// The state was found not to be good.
    Invalid {
        /// The run.
        run: String,
        /// The record that holds the state.
        sequence: u64,
        /// Why. It is the `source()` of this error.
        reason: BoxError,
    },
    /// No node was done yet that could be replayed.
    NothingToReplay {
        /// The run.
        run: String,
    },
    /// The run had come to its end there: nothing follows.
    AtEnd {
        /// The run.
        run: String,
        /// The record after which it was to go on.
        sequence: u64,
    },
    /// The run failed and is being undone: its state counts for nothing any more.
    Undoing {
        /// The run.
        run: String,
    },
    /// There are migrations of the state, but one is missing on the way.
    NoStep {
        /// The run.
        run: String,
        /// The schema that it has.
        from: u32,
        /// The schema that this graph has.
        to: u32,
        /// The schema from which no step leads on.
        missing: u32,
    },
    /// A migration of the state failed.
    Migration {
        /// The run.
        run: String,
        /// The record that holds the state.
        sequence: u64,
        /// The schema from which the step leads.
        from: u32,
        /// Why. It is the `source()` of this error.
        reason: BoxError,
    },
}

impl fmt::Display for ResumeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Branched { run, open } => {
                let open = open.join(", ");
                write!(
                    f,
                    "run {run:?} has more than one state, since these are open: {open}; rewind it to before them to change its state"
                )
            }
            Self::Invalid { run, sequence, reason } => {
                write!(f, "run {run:?} is not gone on with, since its state (record {sequence}) is not valid: {reason}")
            }
            Self::NothingToReplay { run } => write!(f, "run {run:?} has done no node yet that could be replayed: resume it"),
            Self::AtEnd { run, sequence } => {
                write!(f, "run {run:?} was at its end after record {sequence}: go back to an earlier one")
            }
            Self::Undoing { run } => write!(f, "run {run:?} failed and is being undone: rewind it to go on with another state"),
            Self::NoStep { run, from, to, missing } => {
                write!(f, "run {run:?} has the schema {from} and this graph {to}: register a migration from {missing} as well")
            }
            Self::Migration { run, sequence, from, reason } => {
                write!(f, "the migration from schema {from} failed for run {run:?} (record {sequence}): {reason}")
            }
        }
    }
}

impl Error for ResumeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Invalid { reason, .. } | Self::Migration { reason, .. } => Some(reason.as_ref()),
            _ => None,
        }
    }
}
