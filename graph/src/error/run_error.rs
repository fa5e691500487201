//! `RunError`: why a run did not come to its end, with the state wherever the engine still holds it.

use crate::error::{GraceEnd, PanicError, RunFault};
use crate::token::BranchPath;
use std::sync::{Mutex, PoisonError};

/// How a run ended.
pub(crate) type Outcome<S> = Result<S, RunError<S>>;

/// A run that did not come to its end: [`fault`](Self::fault) says why, [`into_state`](Self::into_state) gives back the last
/// good state.
///
/// The state is there where the engine holds it: at the iteration limit, after a failing router, at a cancel between two
/// nodes or inside a fan-out, and when a run does not start. A node that fails has taken it along, unless the node retries or
/// the run was told to [`keep_state`](crate::RunOptions::keep_state), or is stored; the same holds for a merge that fails. [`branch`](Self::branch)
/// says whether it is the state of a branch.
pub struct RunError<S>(Box<RunErrorDetails<S>>);

struct RunErrorDetails<S> {
    fault: RunFault,
    // Behind a mutex, so that the error can be shared between threads although a state need not be.
    state: Mutex<Option<S>>,
    compensation: Option<Compensation>,
    panics: Vec<PanicError>,
    escalate: bool,
    /// Where it failed, if in a branch.
    branch: BranchPath,
}

/// What became of the undos after a run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compensation {
    /// All of them ran.
    Compensated {
        /// The nodes that were undone, in the order in which they were.
        undone: Vec<String>,
    },
    /// One failed, and those before it in the run were left alone.
    CompensationFailed {
        /// The nodes that were undone before.
        undone: Vec<String>,
        /// The node whose undo failed.
        node: String,
        /// Why, in words.
        reason: String,
        /// The nodes whose undos did not run.
        left: Vec<String>,
    },
}

impl<S> RunError<S> {
    pub(crate) fn new(fault: RunFault, state: Option<S>) -> Self {
        Self(Box::new(RunErrorDetails {
            fault,
            state: Mutex::new(state),
            compensation: None,
            panics: Vec::new(),
            escalate: false,
            branch: BranchPath::default(),
        }))
    }

    /// Why.
    pub fn fault(&self) -> &RunFault {
        &self.0.fault
    }

    /// Why, by value.
    pub fn into_fault(self) -> RunFault {
        self.0.fault
    }

    /// The last good state, if the engine holds it.
    pub fn into_state(self) -> Option<S> {
        self.0.state.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last good state, if the engine holds it, to look at.
    pub fn state(&mut self) -> Option<&S> {
        self.0.state.get_mut().unwrap_or_else(PoisonError::into_inner).as_ref()
    }

    /// In which branch the run failed, and whose state it is then that the error carries: empty outside of fan-outs. What ends the whole run (a
    /// cancel, a limit) is of no branch, wherever it was noticed: its state is the one before the outermost fan-out.
    pub fn branch(&self) -> &BranchPath {
        &self.0.branch
    }

    /// What became of the undos; `None` if there was nothing to undo, or the run was merely cut short.
    pub fn compensation(&self) -> Option<&Compensation> {
        self.0.compensation.as_ref()
    }

    /// Further panics that were caught while the run ended: in hooks, and in what was dropped.
    pub fn panics(&self) -> &[PanicError] {
        &self.0.panics
    }

    pub(crate) fn escalates(&self) -> bool {
        self.0.escalate
    }

    pub(crate) fn escalated(mut self, escalate: bool) -> Self {
        self.0.escalate = escalate;
        self
    }

    /// It comes out of this branch, or of one inside it. What ends the whole run gives up the state of the branch, for the caller to drop.
    pub(crate) fn rise_from(&mut self, branch: &BranchPath) -> Option<S> {
        if self.0.fault.ends_run() {
            return self.0.state.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        }
        if self.0.branch == BranchPath::default() {
            self.0.branch = branch.clone();
        }
        None
    }

    /// Says of a cancelled run which node used its grace how.
    pub(crate) fn set_grace(&mut self, used_by: String, used_while_executing: bool, end: Option<GraceEnd>) {
        if let RunFault::Cancelled { node, was_executing, grace, .. } = &mut self.0.fault {
            (*node, *was_executing, *grace) = (used_by, used_while_executing, end);
        }
    }

    pub(crate) fn set_compensation(&mut self, compensation: Compensation) {
        self.0.compensation = Some(compensation);
    }

    pub(crate) fn add_panics(&mut self, panics: &mut Vec<PanicError>) {
        self.0.panics.append(panics);
    }

    pub(crate) fn set_state_if_none(&mut self, state: impl FnOnce() -> Option<S>) {
        let held = self.0.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if held.is_none() {
            *held = state();
        }
    }
}
