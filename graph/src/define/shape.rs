//! [`Shape`]: a graph without its code. Nodes are numbers, and each has one kind of exit.
//!
//! The checks of `compile` read only the shape. One analysis therefore serves every state type, and
//! tests can use random shapes.

use std::sync::Arc;

/// The target of an edge that ends the run: `add_edge("judge", END)`.
pub const END: &str = "__end__";

/// The target of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Target {
    Node(u32),
    End,
}

/// How control leaves a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutEdgeShape {
    /// The node has no edge.
    None,
    Plain(Target),
    /// The router chooses one of these targets. Each occurs once.
    Choice(Vec<Target>),
    /// A branch starts at each head; then control continues at the join.
    Fork {
        heads: Vec<Target>,
        join: Target,
        /// The only head starts one branch for each item of the state.
        is_map: bool,
    },
    /// The edges are invalid and already reported, so later checks skip this node.
    Faulty,
}

/// The nodes, edges and fallbacks of a graph.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) ids: Vec<Arc<str>>,
    pub(crate) exits: Vec<OutEdgeShape>,
    pub(crate) fallbacks: Vec<Option<Target>>,
    pub(crate) entry: u32,
}

impl Shape {
    pub(crate) fn name(&self, target: Target) -> String {
        match target {
            Target::Node(node) => self.id(node),
            Target::End => END.to_string(),
        }
    }

    pub(crate) fn id(&self, node: u32) -> String {
        self.ids[node as usize].to_string()
    }

    /// Returns the targets of `node`, fallbacks excluded. A fork has its heads and its join.
    pub(crate) fn successors(&self, node: u32) -> impl Iterator<Item = Target> + '_ {
        let (many, one): (&[Target], Option<Target>) = match &self.exits[node as usize] {
            OutEdgeShape::None | OutEdgeShape::Faulty => (&[], None),
            OutEdgeShape::Plain(to) => (&[], Some(*to)),
            OutEdgeShape::Choice(targets) => (targets, None),
            OutEdgeShape::Fork { heads, join, .. } => (heads, Some(*join)),
        };
        many.iter().copied().chain(one)
    }

    /// Returns the target of `node` if it has exactly one. For a fork this is the join.
    pub(crate) fn sole_successor(&self, node: u32) -> Option<Target> {
        match &self.exits[node as usize] {
            OutEdgeShape::Plain(to) | OutEdgeShape::Fork { join: to, .. } => Some(*to),
            OutEdgeShape::Choice(targets) if targets.len() == 1 => Some(targets[0]),
            _ => None,
        }
    }
}
