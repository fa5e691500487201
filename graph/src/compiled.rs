//! `CompiledGraph`: a graph that was proved sound. Immutable, shared, and cheap to clone.

use crate::fault::GraphFault;
use crate::inspect::{self, Inspection};
use crate::plan::Plan;
use crate::resume::Resume;
use crate::run::RunOptions;
use std::fmt;
use std::sync::Arc;

/// A graph that can run, any number of times and at the same time. A clone is the same graph.
pub struct CompiledGraph<S> {
    pub(crate) plan: Arc<Plan<S>>,
}

impl<S: Send + 'static> CompiledGraph<S> {
    pub(crate) fn new(plan: Plan<S>) -> Self {
        pleach_core::note_panic_places();
        Self { plan: Arc::new(plan) }
    }

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

impl<S> CompiledGraph<S> {
    /// The name it was given.
    pub fn name(&self) -> &str {
        &self.plan.name
    }

    /// What was found strange and is no fault: nodes that no way leads to.
    pub fn warnings(&self) -> &[GraphFault] {
        &self.plan.warnings
    }

    /// A hash of nodes, edges, targets, joins, fallbacks and subgraphs: the same in every process, and the same whatever order
    /// they were added in. Code, policies and names of graphs are not part of it.
    pub fn fingerprint(&self) -> &str {
        &self.plan.fingerprint
    }

    /// The graph to look into: nodes, what leaves them, and the fan-out each is part of.
    pub fn inspect(&self) -> Inspection {
        inspect::inspect(&self.plan)
    }

    /// The graph as a Mermaid flowchart.
    pub fn to_mermaid(&self) -> String {
        self.inspect().to_mermaid()
    }

    /// The graph in the language of Graphviz.
    pub fn to_dot(&self) -> String {
        self.inspect().to_dot()
    }
}

impl<S> Clone for CompiledGraph<S> {
    fn clone(&self) -> Self {
        Self { plan: Arc::clone(&self.plan) }
    }
}

impl<S> fmt::Debug for CompiledGraph<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CompiledGraph({:?}, {} nodes)", self.name(), self.plan.stops.len())
    }
}
