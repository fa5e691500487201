//! The data that a graph holds about its subgraphs.

use crate::context::undo::Undo;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The data that a graph reads from a subgraph when it compiles.
pub(crate) struct SubgraphInfo {
    pub(crate) fingerprint: String,
    pub(crate) needs: Needs,
    pub(crate) nodes: Arc<NodesById>,
}

/// The nodes of a graph by id. An outer graph shares it by reference: copies would need memory
/// cubic in the nesting depth.
#[derive(Default)]
pub(crate) struct NodesById(pub(crate) HashMap<Arc<str>, KnownNode>);

/// The data of a node that is found by its id.
#[derive(Default)]
pub(crate) struct KnownNode {
    pub(crate) undo: Option<Arc<Undo>>,
    /// The nodes of the subgraph, if this node is one.
    pub(crate) inside: Option<Arc<NodesById>>,
}

impl NodesById {
    /// Returns the node with this id. The id of a node inside a subgraph is `subgraph/node`.
    pub(crate) fn find(&self, id: &str) -> Option<&KnownNode> {
        let (mut nodes, mut rest) = (self, id);
        while let Some((subgraph, node)) = rest.split_once('/') {
            (nodes, rest) = (nodes.0.get(subgraph)?.inside.as_deref()?, node);
        }
        nodes.0.get(rest)
    }

    pub(crate) fn undo(&self, id: &str) -> Option<&Arc<Undo>> {
        self.find(id)?.undo.as_ref()
    }
}

/// The facilities that a graph needs to run.
#[derive(Clone, Copy, Default)]
pub(crate) struct Needs {
    /// Some part needs a timer or spawns tasks.
    pub(crate) runtime: bool,
    /// Nodes run on several threads.
    pub(crate) threads: bool,
    /// The longest cancel grace of a node, subgraphs included.
    pub(crate) grace: Option<Duration>,
}
