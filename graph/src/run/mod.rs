//! How a run is started: in the awaiting task, in a scope, or left to a worker.

pub(crate) mod future;
mod in_scope;
pub(crate) mod options;
pub(crate) mod resume;
mod stored;
pub(crate) mod stream;

use crate::compile::compiled::CompiledGraph;
use options::RunOptions;
use resume::Resume;
use std::sync::Arc;

impl<S: Send + 'static> CompiledGraph<S> {
    /// A run from `state`, to be set up further and awaited: `graph.run(state).max_iterations(32).await?`.
    ///
    /// Nothing happens before it is awaited, and dropping it ends it. It runs in the task that awaits it.
    pub fn run(&self, state: S) -> RunOptions<'static, S> {
        RunOptions::new(self.clone(), Some(state))
    }

    /// A run that is in a store, to be gone on with: `graph.resume("essay-7").checkpoint(&store).await?`.
    ///
    /// It goes on after the last committed step; one that has finished gives its state again. A run that another driver holds is waited for as
    /// long as its lease lasts now, and is then [`Held`](crate::RunFault::Held).
    pub fn resume(&self, run: impl Into<Arc<str>>) -> Resume<S> {
        Resume::new(self.clone(), run.into())
    }
}
