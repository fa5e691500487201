//! [`Plan`]: a compiled graph in the form that the engine reads. Nodes are numbers.

use crate::compile::fault::{GraphFault, nearest};
use crate::context::undo::Undo;
use crate::define::fan_out::{FanOut, MapItems};
use crate::define::node::{DeclaredTarget, NodeFn, RouterFn};
use crate::define::policy::Policy;
use crate::define::shape::{Shape, Target};
use crate::define::subgraph::{Needs, NodesById};
use crate::error::StartError;
use std::sync::Arc;
use std::time::Duration;

/// A compiled graph. Vectors are indexed by node number.
pub(crate) struct Plan<S> {
    pub(crate) name: String,
    pub(crate) shape: Shape,
    pub(crate) names: Arc<[Arc<str>]>,
    pub(crate) nodes: Box<[PlanNode<S>]>,
    /// The start of the innermost fan-out around each node.
    pub(crate) fan_outs: Vec<Option<u32>>,
    /// Whether each node can be reached from the entry.
    pub(crate) reached: Vec<bool>,
    pub(crate) needs: Needs,
    /// The nodes by id, subgraphs included.
    pub(crate) nodes_by_id: Arc<NodesById>,
    pub(crate) fingerprint: String,
    pub(crate) warnings: Vec<GraphFault>,
    /// Compares a state with its copy that was read back from JSON.
    pub(crate) equal: Option<fn(&S, &S) -> bool>,
}

/// A node: its code, its edge and its options.
pub(crate) struct PlanNode<S> {
    pub(crate) call: NodeFn<S>,
    pub(crate) out_edge: OutEdge<S>,
    /// The node or its router takes a context.
    pub(crate) takes_context: bool,
    /// `None` for most nodes: these run on the fast path.
    pub(crate) options: Option<Box<NodeOptions<S>>>,
}

pub(crate) struct NodeOptions<S> {
    pub(crate) policy: Policy<S>,
    pub(crate) fallback: Option<Target>,
    pub(crate) undo: Option<Arc<Undo>>,
    /// The fingerprint of the subgraph, if the node is one.
    pub(crate) subgraph: Option<String>,
    /// The cancel grace of an attempt: that of the policy, else the longest inside the subgraph.
    pub(crate) grace: Option<Duration>,
}

/// The edge that leaves a node.
pub(crate) enum OutEdge<S> {
    To(Target),
    Choice { route: RouterFn<S>, declared: Box<[DeclaredTarget]> },
    Fork(Box<PlanFanOut<S>>),
}

pub(crate) struct PlanFanOut<S> {
    pub(crate) heads: BranchHeads<S>,
    pub(crate) join: Target,
    pub(crate) options: FanOut<S>,
}

/// The first nodes and states of the branches.
pub(crate) enum BranchHeads<S> {
    /// One branch at each node, with a clone of the state.
    Each(Box<[u32]>, fn(&S) -> S),
    /// All branches at one node, with these states.
    Map(u32, MapItems<S>),
}

impl<S> OutEdge<S> {
    /// Returns whether the router takes a context.
    pub(crate) fn takes_context(&self) -> bool {
        matches!(self, Self::Choice { route: RouterFn::Context(_), .. })
    }
}

impl<S> Plan<S> {
    /// Returns the number of the start node of a run, after checking that a run can start there.
    pub(crate) fn start_at(&self, node: String) -> Result<u32, StartError> {
        let Some(start) = self.names.iter().position(|name| **name == *node) else {
            let did_you_mean = nearest(&node, self.names.iter().map(|name| &**name));
            return Err(StartError::Unknown { node, did_you_mean });
        };
        if !self.reached[start] {
            return Err(StartError::Unreachable { node });
        }
        match self.fan_outs[start] {
            Some(fork) => Err(StartError::InBranch { node, fan_out: self.shape.id(fork) }),
            None => Ok(start as u32),
        }
    }
}
