//! [`ResumeError`]: why a stored run cannot be resumed as requested.

use crate::store::{GraphVersion, RunStatus};
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
    /// The run has not failed, so it cannot be retried.
    NotFailed {
        /// The id of the run.
        run: String,
        /// The status of the run.
        status: RunStatus,
    },
    /// The run is not stuck, so workers can claim it.
    NotStuck {
        /// The id of the run.
        run: String,
        /// The status of the run.
        status: RunStatus,
    },
    /// The new state is not a JSON text.
    NotJson {
        /// The id of the run.
        run: String,
        /// The error of the parser. It is the `source()` of this error.
        reason: serde_json::Error,
    },
    /// Another version of the graph wrote the record, and only a program can migrate it.
    OtherVersion {
        /// The id of the run.
        run: String,
        /// The record after which the run should continue.
        sequence: u64,
        /// The version that wrote the record.
        stored: GraphVersion,
        /// The version that the run has now.
        current: GraphVersion,
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
            Self::NotFailed { run, status } => {
                write!(f, "run {run:?} was not retried: it is {status}, not failed; rewind it to a record to run nodes again")
            }
            Self::NotStuck { run, status } => write!(f, "run {run:?} is {status}, not stuck: workers can claim it"),
            Self::NotJson { run, reason } => write!(f, "the new state for run {run:?} is not JSON: {reason}"),
            Self::OtherVersion { run, sequence, stored, current } => write!(
                f,
                "record {sequence} of run {run:?} was written by another version of its graph ({} with schema {}, now {} with schema {}): \
                 continue it in a program that has the migrations, or choose a later record",
                stored.fingerprint, stored.schema, current.fingerprint, current.schema
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
            Self::NotJson { reason, .. } => Some(reason),
            _ => None,
        }
    }
}
