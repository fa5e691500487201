//! The texts and sources of the errors of runs.

use crate::error::{
    Compensation, During, FanOutTimeout, GraceEnd, MergeError, NodeError, PanicError, RouterError, RunError, RunFault,
    StartError,
};
use pleach_core::Reason;
use std::error::Error;
use std::fmt;

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, attempt, reason } = self;
        write!(f, "node {node:?} failed at attempt {attempt}: {reason}")
    }
}

impl Error for NodeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        error_of(&self.reason)
    }
}

fn error_of(reason: &Reason) -> Option<&(dyn Error + 'static)> {
    match reason {
        Reason::Error(error) => Some(error.as_ref()),
        _ => None,
    }
}

impl fmt::Display for PanicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, during, payload, location } = self;
        let what = match during {
            During::Node => "node",
            During::Router => "the router behind node",
            During::Split => "the split behind node",
            During::CloneState => "the clone of the state for node",
            During::Merge => "the merge of the fan-out of node",
            During::Policy => "the policy of node",
            During::Hook => "a hook at node",
        };
        write!(f, "{what} {node:?} panicked")?;
        location.as_ref().map_or(Ok(()), |location| write!(f, " at {location}"))?;
        write!(f, ": {payload}")
    }
}

impl Error for PanicError {}

impl fmt::Display for RouterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, answer, declared } = self;
        write!(
            f,
            "the router behind node {node:?} answered {answer:?}, which its edge does not declare; it declares {declared:?}"
        )
    }
}

impl Error for RouterError {}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the merge of the fan-out of node {:?} failed: {}", self.node, self.reason)
    }
}

impl Error for MergeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        error_of(&self.reason)
    }
}

impl fmt::Display for FanOutTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, elapsed } = self;
        write!(f, "the fan-out of node {node:?} timed out and its branches were cancelled: {elapsed}")
    }
}

impl Error for FanOutTimeout {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.elapsed)
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { node, did_you_mean } => {
                write!(f, "a run cannot start at {node:?}: the graph has no such node")?;
                did_you_mean.as_ref().map_or(Ok(()), |id| write!(f, "; did you mean {id:?}?"))
            }
            Self::Unreachable { node } => {
                write!(
                    f,
                    "a run cannot start at {node:?}: no path leads there from the entry, so the nodes after it were not checked"
                )
            }
            Self::InBranch { node, fan_out } => {
                write!(f, "a run cannot start at {node:?}, inside the fan-out of {fan_out:?}: start at {fan_out:?}")
            }
        }
    }
}

impl Error for StartError {}

impl fmt::Display for RunFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(error) => write!(f, "{error}"),
            Self::Panic(error) => write!(f, "{error}"),
            Self::Router(error) => write!(f, "{error}"),
            Self::Merge(error) => write!(f, "{error}"),
            Self::FanOutTimeout(error) => write!(f, "{error}"),
            Self::Cancelled { node, cause, grace: Some(grace), .. } => {
                let end = match grace {
                    GraceEnd::Finished => "finished within its cancel grace",
                    GraceEnd::Failed => "failed during its cancel grace",
                    GraceEnd::Dropped => "was dropped at the end of its cancel grace",
                };
                write!(f, "cancelled; node {node:?} {end}: {cause}")
            }
            Self::Cancelled { node, cause, was_executing: true, .. } => write!(f, "cancelled inside node {node:?}: {cause}"),
            Self::Cancelled { node, cause, .. } => write!(f, "cancelled before node {node:?}: {cause}"),
            Self::MaxIterations { limit, next } => {
                write!(
                    f,
                    "reached the limit of {limit} consecutive visits before node {next:?}: look for an endless loop, or raise `max_iterations`"
                )
            }
            Self::MaxVisits { limit, next } => {
                write!(f, "the run reached the limit of {limit} visits in total before node {next:?}: raise `max_visits`")
            }
            Self::Start(error) => write!(f, "{error}"),
            Self::Tag(error) => write!(f, "the run was not started: {error}"),
            Self::Checkpoint(error) => write!(f, "{error}"),
            Self::Mismatch(error) => write!(f, "{error}"),
            Self::Resume(error) => write!(f, "{error}"),
            Self::Paused { run, keys, .. } if keys.is_empty() => {
                write!(f, "run {run:?} is paused or waits for a time: send `resume`, or resume it when it is due")
            }
            Self::Paused { run, keys, .. } => {
                write!(f, "run {run:?} waits for an answer or a signal: {}; send it, then resume the run", keys.join(", "))
            }
            Self::AnswerRejected { run, key, reason } => {
                write!(f, "run {run:?} rejected the answer to {key:?}: {reason}; the run keeps waiting")
            }
            Self::Fenced { run, epoch } => {
                write!(f, "run {run:?} is no longer held with epoch {epoch}: another driver claimed it, so this driver stopped")
            }
            Self::Held { run, owner, left } => write!(
                f,
                "run {run:?} is held by {owner:?} for another {left:?}: wait until the lease expires, or take the run over"
            ),
            Self::Exists { run } => write!(f, "run {run:?} already exists: resume it, attach to it, or choose another id"),
            Self::Ended { run, status } => write!(f, "run {run:?} has ended ({status}): rewind it or fork it to continue"),
            Self::Refused(refusal) => write!(f, "the run was not started: {refusal}"),
            Self::NoRuntime => f.write_str(
                "no runtime was found, and a timeout, a wait, a token or a spawned branch needs one: run the graph inside Tokio, \
                 or pass a runtime with `runtime`, `token` or `in_scope`",
            ),
        }
    }
}

impl Error for RunFault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Node(error) => error.source(),
            Self::Merge(error) => error.source(),
            Self::FanOutTimeout(error) => error.source(),
            Self::Checkpoint(error) => error.source(),
            Self::Resume(error) => error.source(),
            Self::Cancelled { cause, .. } => Some(cause),
            _ => None,
        }
    }
}

impl<S> fmt::Display for RunError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.fault())?;
        match self.compensation() {
            None => Ok(()),
            Some(Compensation::Compensated { undone }) => write!(f, "; undone: {}", undone.join(", ")),
            Some(Compensation::CompensationFailed { node, reason, left, .. }) => {
                write!(f, "; the undo of {node:?} failed too: {reason}; not undone: {left:?}")
            }
        }
    }
}

impl<S> fmt::Debug for RunError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunError")
            .field("fault", self.fault())
            .field("compensation", &self.compensation())
            .finish_non_exhaustive()
    }
}

impl<S> Error for RunError<S> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.fault().source()
    }
}
