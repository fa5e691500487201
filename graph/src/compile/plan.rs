//! `Plan`: a compiled graph in the form that the engine reads. Nodes are numbers.

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

/// A compiled graph.
pub(crate) struct Plan<S> {
    pub(crate) name: String,
    pub(crate) shape: Shape,
    pub(crate) names: Arc<[Arc<str>]>,
    pub(crate) nodes: Box<[PlanNode<S>]>,
    /// The node whose innermost fan-out a node is part of.
    pub(crate) fan_outs: Vec<Option<u32>>,
    /// Whether a way leads to a node from the entry.
    pub(crate) reached: Vec<bool>,
    pub(crate) needs: Needs,
    /// Its nodes by their ids, those inside its subgraphs included.
    pub(crate) nodes_by_id: Arc<NodesById>,
    pub(crate) fingerprint: String,
    pub(crate) warnings: Vec<GraphFault>,
    /// How states are compared with what comes back from a store.
    pub(crate) equal: Option<fn(&S, &S) -> bool>,
}

/// A node: its code, what leaves it, and what becomes of its failures.
pub(crate) struct PlanNode<S> {
    pub(crate) call: NodeFn<S>,
    pub(crate) out_edge: OutEdge<S>,
    /// What most nodes have nothing of.
    pub(crate) options: Option<Box<NodeOptions<S>>>,
}

pub(crate) struct NodeOptions<S> {
    pub(crate) policy: Policy<S>,
    pub(crate) fallback: Option<Target>,
    pub(crate) undo: Option<Arc<Undo>>,
    /// The fingerprint of the graph that is run as this node.
    pub(crate) subgraph: Option<String>,
    /// The cancel grace of an attempt: the policy's, else the longest inside.
    pub(crate) grace: Option<Duration>,
}

/// What leaves a node.
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

/// Where the branches begin, and with what.
pub(crate) enum BranchHeads<S> {
    /// One at each node, with a clone of the state.
    Each(Box<[u32]>, fn(&S) -> S),
    /// All at one node, with these states.
    Map(u32, MapItems<S>),
}

impl<S> Plan<S> {
    /// The number of the node that a run is to start at.
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
