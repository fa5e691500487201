//! [`RunError`]: the fault of a run, with the last good state if the engine still has it.

use crate::error::{GraceEnd, PanicError, RunFault};
use crate::token::BranchPath;
use std::sync::{Mutex, PoisonError};

/// The result of a run inside the engine.
pub(crate) type Outcome<S> = Result<S, RunError<S>>;

/// The error of a run that did not reach its end.
///
/// [`fault`](Self::fault) tells why. [`into_state`](Self::into_state) returns the last good state,
/// if the engine still has it. The engine has the state:
/// - at the iteration limit, after a failed router, and if the run did not start;
/// - after a cancel between two nodes or inside a fan-out;
/// - after a failed node or merge only if the node has retries, the run is stored, or the run has
///   [`keep_state`](crate::RunOptions::keep_state). Otherwise the node has consumed the state.
///
/// [`branch`](Self::branch) tells whether it is the state of a branch.
///
/// # Examples
/// ```
/// use pleach::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = Graph::<u32>::new("strict")
///     .add_node("check", |n: u32| async move { if n < 10 { Ok(n) } else { Err("too large") } })
///     .add_edge("check", END)
///     .set_entry("check")
///     .compile()?;
///
/// let error: RunError<u32> = graph.run(12).keep_state().await.unwrap_err();
/// assert!(matches!(error.fault(), RunFault::Node(node) if node.node == "check"));
/// assert_eq!(error.to_string(), "node \"check\" failed at attempt 1: too large");
/// assert_eq!(error.into_state(), Some(12));
/// # Ok(())
/// # }
/// ```
pub struct RunError<S>(Box<RunErrorDetails<S>>);

struct RunErrorDetails<S> {
    fault: RunFault,
    // Behind a mutex, so that the error is `Sync` even if the state is not.
    state: Mutex<Option<S>>,
    compensation: Option<Compensation>,
    panics: Vec<PanicError>,
    escalate: bool,
    /// The branch that failed.
    branch: BranchPath,
}

/// The result of the undos after a run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compensation {
    /// The undos of all completed nodes succeeded.
    Compensated {
        /// The undone nodes, in the order of their undos.
        undone: Vec<String>,
    },
    /// One undo failed, and the undos of earlier nodes did not run.
    CompensationFailed {
        /// The nodes that were undone before the failure.
        undone: Vec<String>,
        /// The node whose undo failed.
        node: String,
        /// The error of the undo as text.
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

    /// Returns the reason why the run failed.
    pub fn fault(&self) -> &RunFault {
        &self.0.fault
    }

    /// Returns the reason by value, and drops the state.
    pub fn into_fault(self) -> RunFault {
        self.0.fault
    }

    /// Returns the last good state, if the engine has it.
    pub fn into_state(self) -> Option<S> {
        self.0.state.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a reference to the last good state, if the engine has it.
    pub fn state(&mut self) -> Option<&S> {
        self.0.state.get_mut().unwrap_or_else(PoisonError::into_inner).as_ref()
    }

    /// Returns the branch that failed, which is also the owner of the state. Empty outside of
    /// fan-outs.
    ///
    /// A fault of the whole run (a cancel, a limit) belongs to no branch. Its state is the one
    /// before the outermost fan-out.
    pub fn branch(&self) -> &BranchPath {
        &self.0.branch
    }

    /// Returns the result of the undos; `None` if nothing had to be undone, or the run was only
    /// interrupted.
    pub fn compensation(&self) -> Option<&Compensation> {
        self.0.compensation.as_ref()
    }

    /// Returns further panics that were caught while the run ended: in hooks, and in drops.
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

    /// Records that the error comes from this branch, unless an inner branch is recorded. A fault
    /// of the whole run returns the state of the branch, which the caller drops.
    pub(crate) fn leave_branch(&mut self, branch: &BranchPath) -> Option<S> {
        if self.0.fault.ends_run() {
            return self.0.state.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        }
        if self.0.branch == BranchPath::default() {
            self.0.branch = branch.clone();
        }
        None
    }

    /// Sets how the node of a cancelled run used its grace.
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
