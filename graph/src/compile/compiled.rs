//! `CompiledGraph`: a checked graph. It is immutable and cheap to clone.

use crate::compile::fault::GraphFault;
use crate::compile::inspect;
use crate::compile::inspect::Inspection;
use crate::compile::plan::Plan;
use std::fmt;
use std::sync::Arc;

/// A graph that can run, any number of times and at the same time. A clone is the same graph.
pub struct CompiledGraph<S> {
    pub(crate) plan: Arc<Plan<S>>,
}

impl<S: Send + 'static> CompiledGraph<S> {
    pub(crate) fn new(plan: Plan<S>) -> Self {
        pleach_core::install_panic_hook();
        Self { plan: Arc::new(plan) }
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
        write!(f, "CompiledGraph({:?}, {} nodes)", self.name(), self.plan.nodes.len())
    }
}
