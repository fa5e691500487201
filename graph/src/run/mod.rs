//! How a run is started: in the awaiting task, in a scope, or left to a worker.
//!
//! [`RunOptions`] and [`Resume`] collect the options, `RunFuture` is the started run, `RunStream`
//! its events.

pub(crate) mod future;
mod in_scope;
pub(crate) mod options;
pub(crate) mod resume;
mod start;
mod stored;
pub(crate) mod stream;

use crate::compile::compiled::CompiledGraph;
use options::RunOptions;
use resume::Resume;
use std::sync::Arc;

impl<S: Send + 'static> CompiledGraph<S> {
    /// Prepares a run from `state`. Add options, then await it:
    /// `graph.run(state).max_iterations(32).await?`.
    ///
    /// The run starts when it is first polled and executes in the awaiting task. Dropping it ends
    /// it.
    pub fn run(&self, state: S) -> RunOptions<'static, S> {
        RunOptions::new(self.clone(), Some(state))
    }

    /// Prepares a stored run to continue: `graph.resume("essay-7").checkpoint(&store).await?`.
    ///
    /// It continues after the last committed step. A finished run returns its state again. If
    /// another driver holds the lease, the resume waits until that lease expires; if the driver
    /// renews it, the resume ends with [`Held`](crate::RunFault::Held).
    pub fn resume(&self, run: impl Into<Arc<str>>) -> Resume<S> {
        Resume::new(self.clone(), run.into())
    }
}
