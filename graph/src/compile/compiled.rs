//! [`CompiledGraph`]: a checked graph. It is immutable and cheap to clone.

use crate::compile::fault::GraphFault;
use crate::compile::inspect;
use crate::compile::inspect::Inspection;
use crate::compile::plan::Plan;
use std::fmt;
use std::sync::Arc;

/// A checked graph that can run any number of times, also concurrently. A clone shares the same
/// graph.
///
/// ```
/// use pleach::{END, Graph};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = Graph::<u32>::new("doubling")
///     .add_node("double", |n: u32| async move { n * 2 })
///     .add_edge("double", END)
///     .set_entry("double")
///     .compile()?;
/// assert!(graph.warnings().is_empty());
///
/// assert_eq!(graph.run(21).await?, 42);
/// println!("{}", graph.to_mermaid());
/// # Ok(())
/// # }
/// ```
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
    /// Returns the name that was given to `Graph::new`.
    pub fn name(&self) -> &str {
        &self.plan.name
    }

    /// Returns the warnings of `compile`. Unreachable nodes are the only kind.
    pub fn warnings(&self) -> &[GraphFault] {
        &self.plan.warnings
    }

    /// Returns a hash of nodes, edges, targets, joins, fallbacks and subgraphs.
    ///
    /// It is the same in every process and does not depend on the order of the builder calls. Code,
    /// policies and graph names are not part of it. A stored run can only be resumed by a graph
    /// with the same fingerprint, or with a migration.
    pub fn fingerprint(&self) -> &str {
        &self.plan.fingerprint
    }

    /// Returns a description of the nodes, their edges and their fan-outs.
    pub fn inspect(&self) -> Inspection {
        inspect::inspect(&self.plan)
    }

    /// Returns the graph as a Mermaid flowchart.
    pub fn to_mermaid(&self) -> String {
        self.inspect().to_mermaid()
    }

    /// Returns the graph in the DOT language of Graphviz.
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
