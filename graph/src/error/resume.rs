//! [`ResumeError`]: why a stored run cannot be resumed as requested.

use pleach_core::BoxError;
use std::error::Error;
use std::fmt;

/// A run could not be resumed as requested. It is unchanged.
#[derive(Debug)]
#[non_exhaustive]
pub enum ResumeError {
    /// The state cannot be replaced, because the run has more than one.
    Branched {
        /// The id of the run.
        run: String,
        /// The nodes whose fan-outs are open, and the running subgraphs.
        open: Vec<String>,
    },
    /// The given validation rejected the stored state.
    Invalid {
        /// The id of the run.
        run: String,
        /// The record that contains the state.
        sequence: u64,
        /// The error of the validation. It is the `source()` of this error.
        reason: BoxError,
    },
    /// No node has completed, so nothing can be replayed.
    NothingToReplay {
        /// The id of the run.
        run: String,
    },
    /// The run had already ended at this record.
    AtEnd {
        /// The id of the run.
        run: String,
        /// The record after which the run should continue.
        sequence: u64,
    },
    /// The run failed and is being undone, so its state is no longer used.
    Undoing {
        /// The id of the run.
        run: String,
    },
    /// The registered migrations do not lead to this graph's schema.
    NoStep {
        /// The id of the run.
        run: String,
        /// The schema of the stored run.
        from: u32,
        /// The schema of this graph.
        to: u32,
        /// The schema from which no migration leads on.
        missing: u32,
    },
    /// A migration of the state failed.
    Migration {
        /// The id of the run.
        run: String,
        /// The record that contains the state.
        sequence: u64,
        /// The schema that the failed migration starts from.
        from: u32,
        /// The error of the migration. It is the `source()` of this error.
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
                    "run {run:?} has more than one state, because these are open: {open}; rewind it to a record before them to replace its state"
                )
            }
            Self::Invalid { run, sequence, reason } => {
                write!(f, "run {run:?} was not resumed: its state (record {sequence}) is not valid: {reason}")
            }
            Self::NothingToReplay { run } => write!(f, "run {run:?} has no completed node to replay: resume it instead"),
            Self::AtEnd { run, sequence } => {
                write!(f, "run {run:?} had ended at record {sequence}: choose an earlier record")
            }
            Self::Undoing { run } => write!(
                f,
                "run {run:?} failed and is being undone, so its state cannot be replaced: rewind it to continue with another state"
            ),
            Self::NoStep { run, from, to, missing } => {
                write!(
                    f,
                    "run {run:?} has schema {from}, but this graph has schema {to}: register a migration from schema {missing} too"
                )
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
