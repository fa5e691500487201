//! Finds the runtime of a run without one: the runtime of the polling actor or task, else the
//! current Tokio runtime.

use pleach_core::{Runtime, current_runtime};
use std::sync::Arc;

/// Returns the runtime of the current task, or the current Tokio runtime.
pub(crate) fn find() -> Option<Arc<dyn Runtime>> {
    current_runtime().or_else(current_tokio)
}

#[cfg(feature = "tokio")]
fn current_tokio() -> Option<Arc<dyn Runtime>> {
    // A run that only spawns tasks needs no timers.
    pleach_core::TokioRuntime::current_unchecked().map(|runtime| runtime as Arc<dyn Runtime>)
}

#[cfg(not(feature = "tokio"))]
fn current_tokio() -> Option<Arc<dyn Runtime>> {
    None
}
