//! Whether the position of a stored token exists in another version of its graph.
//!
//! [`Places`] has two implementations: the compiled graph, and an exported description of one,
//! which knows nothing about the inside of subgraphs.

use crate::compile::inspect::{Inspection, LeadsTo, NodeInfo};
use crate::compile::plan::{BranchHeads, OutEdge, Plan, PlanFanOut};
use crate::define::shape::{END, Target};
use crate::store::{Fork, LiveToken, Place};

/// Lookups of nodes and fan-outs by id.
pub(crate) trait Places {
    /// Returns whether the fan-out of `node` has this branch. A node that is not in the graph has
    /// every branch.
    fn has_branch(&self, node: &str, branch: usize) -> bool;

    /// Returns whether a token in the fan-out of `fork` can be at this position.
    fn has_place(&self, node: &str, at: &Place, fork: Option<&str>) -> bool;
}

/// Returns the node or fan-out of a token that does not exist in this graph, if any. `fork` is the
/// node whose fan-out contains the token.
pub(crate) fn missing_place<'a>(places: &impl Places, token: &'a LiveToken, fork: Option<&'a str>) -> Option<&'a str> {
    let branch = token.path.last().map_or(0, |last| last.branch as usize);
    match fork.filter(|fork| !places.has_branch(fork, branch)) {
        Some(fork) => Some(fork),
        None => name_of(&token.at).filter(|name| !places.has_place(name, &token.at, fork)),
    }
}

/// Returns the node of a position; `None` at the end.
pub(crate) fn name_of(at: &Place) -> Option<&str> {
    match at {
        Place::Node(name) | Place::Router(name) | Place::Fork(name) | Place::Join(name) | Place::Failed(name) => Some(name),
        Place::End => None,
    }
}

/// Returns the node whose fan-out contains the token. `token_at` returns the token at a path.
pub(crate) fn fork_above<'a>(token_at: impl Fn(&[Fork]) -> Option<&'a LiveToken>, token: &LiveToken) -> Option<&'a str> {
    let (_, above) = token.path.split_last()?;
    match &token_at(above)?.at {
        Place::Fork(node) => Some(node.as_str()),
        _ => None,
    }
}

/// A node inside a subgraph only has to exist.
impl<S> Places for Plan<S> {
    fn has_branch(&self, node: &str, branch: usize) -> bool {
        match self.fork(node).map(|fork| &fork.heads) {
            Some(BranchHeads::Each(heads, _)) => branch < heads.len(),
            Some(BranchHeads::Map(..)) => true,
            None => self.position(node).is_none(),
        }
    }

    fn has_place(&self, node: &str, at: &Place, fork: Option<&str>) -> bool {
        if let Place::Join(_) = at {
            let join = fork.and_then(|fork| self.fork(fork)).map(|fork| fork.join);
            return join.is_none_or(|join| match join {
                Target::Node(join) => *self.names[join as usize] == *node,
                Target::End => node == END,
            });
        }
        let Some(position) = self.position(node) else { return self.nodes_by_id.find(node).is_some() };
        let fan_out = self.fan_outs[position].map(|fork| &*self.names[fork as usize]);
        fan_out == fork && (!matches!(at, Place::Fork(_)) || self.fork(node).is_some())
    }
}

impl<S> Plan<S> {
    fn position(&self, node: &str) -> Option<usize> {
        self.names.iter().position(|name| **name == *node)
    }

    fn fork(&self, node: &str) -> Option<&PlanFanOut<S>> {
        match &self.nodes[self.position(node)?].out_edge {
            OutEdge::Fork(fork) => Some(fork),
            _ => None,
        }
    }
}

/// A node inside a subgraph is accepted if the subgraph exists.
impl Places for Inspection {
    fn has_branch(&self, node: &str, branch: usize) -> bool {
        match self.node(node).map(|node| &node.leads_to) {
            Some(LeadsTo::AllOf { heads, .. }) => branch < heads.len(),
            Some(LeadsTo::Each { .. }) | None => true,
            Some(_) => false,
        }
    }

    fn has_place(&self, node: &str, at: &Place, fork: Option<&str>) -> bool {
        let join_of = |fork: &str| match &self.node(fork)?.leads_to {
            LeadsTo::AllOf { join, .. } | LeadsTo::Each { join, .. } => Some(join.as_str()),
            _ => None,
        };
        if let Place::Join(_) = at {
            return fork.and_then(join_of).is_none_or(|join| join == node);
        }
        match (self.node(node), node.split_once('/')) {
            (Some(found), _) => found.fan_out.as_deref() == fork && (!matches!(at, Place::Fork(_)) || join_of(node).is_some()),
            (None, Some((outer, _))) => self.node(outer).is_some_and(|outer| outer.subgraph.is_some()),
            (None, None) => false,
        }
    }
}

impl Inspection {
    /// Returns the description of the node with this id.
    pub(crate) fn node(&self, id: &str) -> Option<&NodeInfo> {
        self.nodes.iter().find(|node| node.id == id)
    }
}
