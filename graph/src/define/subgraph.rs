//! What a graph knows of the graphs that run as its nodes.

use crate::context::undo::Undo;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// What a node that is a graph brings along.
pub(crate) struct SubgraphInfo {
    pub(crate) fingerprint: String,
    pub(crate) needs: Needs,
    pub(crate) nodes: Arc<NodesById>,
}

/// The nodes of a graph by their ids. A graph around it refers to this: a list of its own would take memory cubic in the depth.
#[derive(Default)]
pub(crate) struct NodesById(pub(crate) HashMap<Arc<str>, KnownNode>);

/// What is known of a node by its id.
#[derive(Default)]
pub(crate) struct KnownNode {
    pub(crate) undo: Option<Arc<Undo>>,
    /// The nodes of the graph that runs as this one.
    pub(crate) inside: Option<Arc<NodesById>>,
}

impl NodesById {
    /// The node of this id; those of a subgraph are `subgraph/node`.
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

/// What running the graph takes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Needs {
    /// Something sleeps, or is spawned.
    pub(crate) runtime: bool,
    /// Nodes run on several threads.
    pub(crate) threads: bool,
    /// The longest cancel grace of a node, those inside subgraphs included.
    pub(crate) grace: Option<Duration>,
}
