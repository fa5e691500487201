//! [`CompileError`]: all faults of a graph, found in one pass.
//!
//! The text of each fault names its ids and says what to do.

use std::fmt;

/// The error of [`Graph::compile`](crate::Graph::compile), with all faults of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// The name of the graph that does not compile.
    pub graph: String,
    /// All faults of the graph, at least one.
    pub faults: Vec<GraphFault>,
}

/// One fault of a graph. Its text says how to correct it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GraphFault {
    /// The graph has no entry: `set_entry` was not called.
    NoEntry,
    /// The entry is not a node of the graph.
    UnknownEntry {
        /// The id given to `set_entry`.
        entry: String,
        /// A node with a similar id, if any.
        did_you_mean: Option<String>,
    },
    /// An edge, join, policy or undo refers to a node that does not exist.
    UnknownNode {
        /// The id that does not exist.
        node: String,
        /// The part of the graph that refers to it.
        named_by: NamedBy,
        /// A node with a similar id, if any.
        did_you_mean: Option<String>,
    },
    /// Two nodes of the graph have the same id.
    DuplicateNode {
        /// The id that was added twice.
        node: String,
    },
    /// The id is reserved: it is [`END`](crate::END), or contains the `/` that separates a subgraph
    /// from its nodes.
    ReservedId {
        /// The reserved id of the node.
        node: String,
    },
    /// The id of a node is empty or only white space.
    BlankId,
    /// No edge leaves the node, not even one to the end.
    NoWayOut {
        /// The id of the node without an edge.
        node: String,
    },
    /// The node has edges, but no path from it leads to the end.
    NoPathToEnd {
        /// The id of the node without a path.
        node: String,
    },
    /// A cycle of nodes without a conditional edge, which would never end.
    UnconditionalCycle {
        /// The nodes of the cycle, in order.
        nodes: Vec<String>,
    },
    /// Several plain edges leave the node; it is unclear whether one or all apply.
    SeveralEdges {
        /// The id of the node with several edges.
        node: String,
        /// The targets of the plain edges.
        targets: Vec<String>,
    },
    /// Edges of several kinds leave the node, or several conditional or parallel edges.
    MixedEdges {
        /// The id of the node with mixed edges.
        node: String,
    },
    /// A conditional edge declares no target.
    NoTargets {
        /// The node where the conditional edge starts.
        node: String,
    },
    /// A fan-out is declared without any branch.
    NoBranches {
        /// The node where the fan-out starts.
        fan_out: String,
    },
    /// A fan-out has a limit of 0, so no branch could run.
    ZeroLimit {
        /// The node where the fan-out starts.
        fan_out: String,
    },
    /// A branch leads directly to the join and contains no node.
    EmptyBranch {
        /// The node where the fan-out starts.
        fan_out: String,
        /// The join of the fan-out, or `END`.
        join: String,
    },
    /// Two branches of a fan-out start at the same node.
    DuplicateBranch {
        /// The node where the fan-out starts.
        fan_out: String,
        /// The node where both branches start.
        branch: String,
    },
    /// An edge leaves a branch without going through its join.
    BranchEscapes {
        /// The node in the branch where the edge starts.
        node: String,
        /// The target of the edge, outside of the branch.
        to: String,
        /// The node where the fan-out starts.
        fan_out: String,
        /// The join that the branch must lead to.
        join: String,
    },
    /// An edge leads into a branch from outside of its fan-out.
    CrossesBranch {
        /// The node where the edge starts.
        node: String,
        /// The target of the edge, inside the branch.
        to: String,
    },
    /// The join of a fan-out is in another branch than its start.
    JoinsCross {
        /// The node where the fan-out starts.
        fan_out: String,
        /// The join, which is in another branch.
        join: String,
    },
    /// The node cannot be reached from the entry. A warning, or a fault with `deny_warnings`.
    Unreachable {
        /// The id of the node that cannot be reached.
        node: String,
    },
    /// The node has an undo but takes no context, so it cannot record an undo payload.
    UndoWithoutContext {
        /// The id of the node with the undo.
        node: String,
    },
}

/// The part of a graph that refers to an unknown node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NamedBy {
    /// The node is the start of an edge.
    EdgeFrom,
    /// The node is the target of an edge from this node.
    EdgeOf(String),
    /// The node is the join of the fan-out that starts at this node.
    JoinOf(String),
    /// The node is the fallback of this node.
    FallbackOf(String),
    /// A policy is set for the unknown node.
    Policy,
    /// An undo is set for the unknown node.
    Undo,
}

impl fmt::Display for NamedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EdgeFrom => f.write_str("an edge starts at it"),
            Self::EdgeOf(node) => write!(f, "an edge from {node:?} leads to it"),
            Self::JoinOf(node) => write!(f, "the fan-out of {node:?} joins at it"),
            Self::FallbackOf(node) => write!(f, "{node:?} falls back to it"),
            Self::Policy => f.write_str("a policy is set for it"),
            Self::Undo => f.write_str("an undo is set for it"),
        }
    }
}

struct DidYouMean<'a>(&'a Option<String>);

impl fmt::Display for DidYouMean<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |id| write!(f, "; did you mean {id:?}?"))
    }
}

impl fmt::Display for GraphFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEntry => f.write_str("the graph has no entry: call `set_entry` with the first node"),
            Self::UnknownEntry { entry, did_you_mean } => {
                write!(f, "the entry {entry:?} is not a node of the graph{}", DidYouMean(did_you_mean))
            }
            Self::UnknownNode { node, named_by, did_you_mean } => {
                write!(f, "node {node:?} does not exist, but {named_by}{}", DidYouMean(did_you_mean))
            }
            Self::DuplicateNode { node } => write!(f, "two nodes have the id {node:?}: rename one of them"),
            Self::ReservedId { node } => {
                write!(
                    f,
                    "{node:?} is not a valid node id: {END:?} and the character `/` are reserved; choose another id",
                    END = crate::define::shape::END
                )
            }
            Self::BlankId => f.write_str("a node has a blank id: give it a name"),
            Self::NoWayOut { node } => write!(f, "node {node:?} has no edge: add one, to END if it is the last node"),
            Self::NoPathToEnd { node } => {
                write!(f, "no path leads from {node:?} to END: add an edge to END on one of its paths")
            }
            Self::UnconditionalCycle { nodes } => {
                write!(f, "the cycle {} never ends: make one of its edges conditional", Listed(nodes, " → "))
            }
            Self::SeveralEdges { node, targets } => {
                let targets = Listed(targets, ", ");
                write!(
                    f,
                    "{node:?} has several plain edges, to {targets}: use `add_parallel_edge` to follow all of them, `add_conditional_edge` to choose one"
                )
            }
            Self::MixedEdges { node } => {
                write!(f, "{node:?} has edges of several kinds, or several conditional or parallel edges: keep one of them")
            }
            Self::NoTargets { node } => {
                write!(f, "the conditional edge of {node:?} declares no targets: list every node that its router may return")
            }
            Self::Unreachable { node } => {
                write!(f, "node {node:?} cannot be reached from the entry: add an edge to it, or remove it")
            }
            Self::UndoWithoutContext { node } => {
                write!(f, "node {node:?} has an undo but takes no context: take a `NodeContext` and call `record_undo`")
            }
            Self::NoBranches { .. }
            | Self::ZeroLimit { .. }
            | Self::EmptyBranch { .. }
            | Self::DuplicateBranch { .. }
            | Self::BranchEscapes { .. }
            | Self::CrossesBranch { .. }
            | Self::JoinsCross { .. } => self.fmt_fan_out(f),
        }
    }
}

impl GraphFault {
    /// Writes the text of a fault of a fan-out.
    fn fmt_fan_out(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoBranches { fan_out } => {
                write!(f, "the fan-out of {fan_out:?} has no branches: list the first node of each branch, or use a plain edge")
            }
            Self::ZeroLimit { fan_out } => {
                write!(f, "the fan-out of {fan_out:?} has a limit of 0, so no branch could run: set it to 1 or more")
            }
            Self::EmptyBranch { fan_out, join } => {
                write!(
                    f,
                    "a branch of the fan-out of {fan_out:?} leads directly to its join {join:?}: add a node to it, or remove the branch"
                )
            }
            Self::DuplicateBranch { fan_out, branch } => {
                write!(
                    f,
                    "two branches of the fan-out of {fan_out:?} start at {branch:?}: use `map` to run one node many times"
                )
            }
            Self::BranchEscapes { node, to, fan_out, join } => {
                write!(
                    f,
                    "the edge from {node:?} to {to:?} leaves a branch of the fan-out of {fan_out:?} without its join {join:?}: let the edge lead to {join:?}"
                )
            }
            Self::CrossesBranch { node, to } => {
                write!(
                    f,
                    "the edge from {node:?} to {to:?} leads into a branch of a fan-out that does not contain {node:?}: lead it to the start of that fan-out, or add a separate node"
                )
            }
            Self::JoinsCross { fan_out, join } => {
                write!(
                    f,
                    "the fan-out of {fan_out:?} joins at {join:?}, which is in another branch than {fan_out:?}: join at a node in the branch of {fan_out:?}"
                )
            }
            // `fmt` writes all other faults.
            _ => Ok(()),
        }
    }
}

struct Listed<'a>(&'a [String], &'static str);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, id) in self.0.iter().enumerate() {
            write!(f, "{}{id:?}", if at == 0 { "" } else { self.1 })?;
        }
        Ok(())
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (graph, count) = (&self.graph, self.faults.len());
        write!(f, "graph {graph:?} has {count} fault{}:", if count == 1 { "" } else { "s" })?;
        self.faults.iter().try_for_each(|fault| write!(f, "\n  - {fault}"))
    }
}

impl std::error::Error for CompileError {}

/// Returns the id in `known` with the smallest edit distance to `wrong`, if it is small enough.
pub(crate) fn nearest<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    // A third of the characters, and at most 3, may differ. An empty id has no suggestion.
    let off_max = wrong.chars().count().div_ceil(3).min(3);
    let near = known.map(|id| (distance(wrong, id, off_max), id)).filter(|(off, _)| *off <= off_max && !wrong.is_empty());
    near.min_by_key(|(off, _)| *off).map(|(_, id)| id.to_string())
}

/// Returns the edit distance of two ids: insertions, deletions, changes and swaps of neighbours.
/// Stops counting above `max`.
fn distance(a: &str, b: &str, max: usize) -> usize {
    let (a, b): (Vec<char>, Vec<char>) =
        (a.chars().flat_map(char::to_lowercase).collect(), b.chars().flat_map(char::to_lowercase).collect());
    if a.len().abs_diff(b.len()) > max {
        return max + 1;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, character) in a.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, other) in b.iter().enumerate() {
            let changed = row[j] + usize::from(character != other);
            let mut best = changed.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && *character == b[j - 1] && a[i - 1] == *other {
                best = best.min(before[j - 1] + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f1_suggestion_is_the_nearest_id_and_never_a_distant_one() {
        let known = || ["write", "judge", "search"].into_iter();
        assert_eq!(nearest("wirte", known()).as_deref(), Some("write"));
        assert_eq!(nearest("Judge", known()).as_deref(), Some("judge"));
        assert_eq!(nearest("serch", known()).as_deref(), Some("search"));
        assert_eq!(nearest("publish", known()), None);
        assert_eq!(nearest("", known()), None);
    }
}
