//! `Shape`: a graph without its code. Nodes are numbers, and each has one kind of exit.
//!
//! `compile` checks the shape and nothing else. So one analysis serves every state type, and tests
//! can use random shapes.

use std::sync::Arc;

/// The way out of a graph, as the target of an edge: `add_edge("judge", END)`.
pub const END: &str = "__end__";

/// Where an edge leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Target {
    Node(u32),
    End,
}

/// What leaves a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Nothing does.
    None,
    Plain(Target),
    /// One of these, as the router answers. No target is there twice.
    Choice(Vec<Target>),
    /// All heads at once, and then the join.
    Fork {
        heads: Vec<Target>,
        join: Target,
        /// One head, entered once for each item of the state.
        is_map: bool,
    },
    /// Something did that was reported already; nothing more is known of it.
    Faulty,
}

/// A graph of `exits`, with names to speak of it.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) ids: Vec<Arc<str>>,
    pub(crate) exits: Vec<Exit>,
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

    /// Where control may go from `node` without a failure: a fork to its heads and to its join.
    pub(crate) fn successors(&self, node: u32) -> impl Iterator<Item = Target> + '_ {
        let (many, one): (&[Target], Option<Target>) = match &self.exits[node as usize] {
            Exit::None | Exit::Faulty => (&[], None),
            Exit::Plain(to) => (&[], Some(*to)),
            Exit::Choice(targets) => (targets, None),
            Exit::Fork { heads, join, .. } => (heads, Some(*join)),
        };
        many.iter().copied().chain(one)
    }

    /// Where control must go from `node`, if there is no choice: the join, for a fork.
    pub(crate) fn sole_successor(&self, node: u32) -> Option<Target> {
        match &self.exits[node as usize] {
            Exit::Plain(to) | Exit::Fork { join: to, .. } => Some(*to),
            Exit::Choice(targets) if targets.len() == 1 => Some(targets[0]),
            _ => None,
        }
    }
}
