//! `CompileError`: all faults of a graph, found in one pass. Each fault names its ids and says what
//! to do.

use std::fmt;

/// A graph that does not compile, with all its faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// Which graph.
    pub graph: String,
    /// All that is wrong with it. There is at least one.
    pub faults: Vec<GraphFault>,
}

/// One thing that is wrong with a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GraphFault {
    /// `set_entry` was not called.
    NoEntry,
    /// The entry is no node.
    UnknownEntry {
        /// What was given.
        entry: String,
        /// A node whose id looks like it.
        did_you_mean: Option<String>,
    },
    /// Something names a node that does not exist.
    UnknownNode {
        /// What was given.
        node: String,
        /// Who names it.
        named_by: NamedBy,
        /// A node whose id looks like it.
        did_you_mean: Option<String>,
    },
    /// Two nodes have one id.
    DuplicateNode {
        /// The id.
        node: String,
    },
    /// The id means something else: it is [`END`](crate::END), or it contains the `/` that stands between a subgraph and its
    /// nodes.
    ReservedId {
        /// The id.
        node: String,
    },
    /// An id is empty or only white space.
    BlankId,
    /// Nothing leaves the node, not even an edge to the end.
    NoWayOut {
        /// Which node.
        node: String,
    },
    /// Edges leave the node, and none of them ever leads to the end.
    NoPathToEnd {
        /// Which node.
        node: String,
    },
    /// These nodes follow each other for ever: no edge among them has a choice.
    UnconditionalCycle {
        /// The nodes of the cycle, in order.
        nodes: Vec<String>,
    },
    /// Several plain edges leave the node, and nothing says whether one or all of them are meant.
    SeveralEdges {
        /// Which node.
        node: String,
        /// Where the edges lead.
        targets: Vec<String>,
    },
    /// Edges of several kinds leave the node, or several conditional or parallel ones.
    MixedEdges {
        /// Which node.
        node: String,
    },
    /// A conditional edge declares no target.
    NoTargets {
        /// Which node.
        node: String,
    },
    /// A fan-out has no branch.
    NoBranches {
        /// The node it starts from.
        fan_out: String,
    },
    /// A fan-out may run no branch at a time.
    ZeroLimit {
        /// The node it starts from.
        fan_out: String,
    },
    /// A branch leads straight to the join: there is nothing in it.
    EmptyBranch {
        /// The node the fan-out starts from.
        fan_out: String,
        /// The join.
        join: String,
    },
    /// Two branches begin with one node.
    DuplicateBranch {
        /// The node the fan-out starts from.
        fan_out: String,
        /// The node both begin with.
        branch: String,
    },
    /// A branch is left by another way than its join.
    BranchEscapes {
        /// The node in the branch.
        node: String,
        /// Where its edge leads.
        to: String,
        /// The node the fan-out starts from.
        fan_out: String,
        /// The join it should be left through.
        join: String,
    },
    /// An edge leads into a branch of a fan-out that it is not part of.
    CrossesBranch {
        /// Where the edge starts.
        node: String,
        /// The node in the branch.
        to: String,
    },
    /// A fan-out joins in another branch than it starts from.
    JoinsCross {
        /// The node the fan-out starts from.
        fan_out: String,
        /// The join.
        join: String,
    },
    /// No edge leads to the node. A warning, unless `deny_warnings` makes it a fault.
    Unreachable {
        /// Which node.
        node: String,
    },
    /// The node has an undo and takes no context, so it could never record what to undo.
    UndoWithoutContext {
        /// Which node.
        node: String,
    },
}

/// Who names a node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NamedBy {
    /// An edge starts there.
    EdgeFrom,
    /// An edge from this node leads there.
    EdgeOf(String),
    /// The join of the fan-out that starts at this node.
    JoinOf(String),
    /// The fallback of this node.
    FallbackOf(String),
    /// A policy is given for it.
    Policy,
    /// An undo is given for it.
    Undo,
}

impl fmt::Display for NamedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EdgeFrom => f.write_str("an edge starts there"),
            Self::EdgeOf(node) => write!(f, "an edge from {node:?} leads there"),
            Self::JoinOf(node) => write!(f, "the fan-out of {node:?} joins there"),
            Self::FallbackOf(node) => write!(f, "{node:?} falls back to it"),
            Self::Policy => f.write_str("a policy is given for it"),
            Self::Undo => f.write_str("an undo is given for it"),
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
            Self::NoEntry => f.write_str("no entry: call `set_entry` with the first node"),
            Self::UnknownEntry { entry, did_you_mean } => {
                write!(f, "the entry {entry:?} is no node{}", DidYouMean(did_you_mean))
            }
            Self::UnknownNode { node, named_by, did_you_mean } => {
                write!(f, "there is no node {node:?}, and {named_by}{}", DidYouMean(did_you_mean))
            }
            Self::DuplicateNode { node } => write!(f, "two nodes are called {node:?}: give one of them another id"),
            Self::ReservedId { node } => {
                write!(
                    f,
                    "{node:?} cannot be the id of a node: {END:?} and a `/` are reserved",
                    END = crate::define::shape::END
                )
            }
            Self::BlankId => f.write_str("a node has a blank id: give it a name"),
            Self::NoWayOut { node } => write!(f, "nothing leaves {node:?}: add an edge, to END if it is the last"),
            Self::NoPathToEnd { node } => {
                write!(f, "no way leads from {node:?} to END: add an edge out of where it goes, to END in the end")
            }
            Self::UnconditionalCycle { nodes } => {
                write!(f, "{} go round for ever: make one of their edges conditional", Listed(nodes, " → "))
            }
            Self::SeveralEdges { node, targets } => {
                let targets = Listed(targets, ", ");
                write!(
                    f,
                    "{node:?} has plain edges to {targets}: use `add_parallel_edge` for all of them, `add_conditional_edge` for one"
                )
            }
            Self::MixedEdges { node } => {
                write!(f, "{node:?} has edges of several kinds, or several that choose or fan out: one decides what follows")
            }
            Self::NoTargets { node } => {
                write!(f, "the conditional edge of {node:?} declares no targets: name every node that its router may answer")
            }
            Self::NoBranches { fan_out } => write!(
                f,
                "the fan-out of {fan_out:?} has no branches: name the nodes that they begin with, or use a plain edge"
            ),
            Self::ZeroLimit { fan_out } => {
                write!(f, "the fan-out of {fan_out:?} has a limit of 0, so no branch could run: let it be 1 at least")
            }
            Self::EmptyBranch { fan_out, join } => {
                write!(
                    f,
                    "a branch of the fan-out of {fan_out:?} leads straight to its join {join:?}: put a node in it, or leave it out"
                )
            }
            Self::DuplicateBranch { fan_out, branch } => {
                write!(
                    f,
                    "two branches of the fan-out of {fan_out:?} begin with {branch:?}: use `map` to run one node many times"
                )
            }
            Self::BranchEscapes { node, to, fan_out, join } => {
                write!(
                    f,
                    "the edge from {node:?} to {to:?} leaves a branch of the fan-out of {fan_out:?} otherwise than by its join {join:?}: let it lead there"
                )
            }
            Self::CrossesBranch { node, to } => {
                write!(f, "the edge from {node:?} to {to:?} leads into a branch of a fan-out that {node:?} is not part of")
            }
            Self::JoinsCross { fan_out, join } => {
                write!(f, "the fan-out of {fan_out:?} joins at {join:?}, which belongs to another branch than {fan_out:?}")
            }
            Self::Unreachable { node } => write!(f, "no way leads to {node:?}: add an edge to it, or leave it out"),
            Self::UndoWithoutContext { node } => {
                write!(f, "{node:?} has an undo and takes no context: take one, and record in it what to undo")
            }
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

/// The id among `known` that is nearest to `wrong`, if one is near enough to be meant.
pub(crate) fn nearest<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    // A third of the letters may be wrong. Where there are no letters, nothing can be meant.
    let off_max = wrong.chars().count().div_ceil(3).min(3);
    let near = known.map(|id| (distance(wrong, id, off_max), id)).filter(|(off, _)| *off <= off_max && !wrong.is_empty());
    near.min_by_key(|(off, _)| *off).map(|(_, id)| id.to_string())
}

/// How many letters must be added, left out, changed or swapped with their neighbour to make `b` of `a`; more than `max` is not
/// counted.
fn distance(a: &str, b: &str, max: usize) -> usize {
    let (a, b): (Vec<char>, Vec<char>) =
        (a.chars().flat_map(char::to_lowercase).collect(), b.chars().flat_map(char::to_lowercase).collect());
    if a.len().abs_diff(b.len()) > max {
        return max + 1;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, other) in b.iter().enumerate() {
            let changed = row[j] + usize::from(letter != other);
            let mut best = changed.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && *letter == b[j - 1] && a[i - 1] == *other {
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
    fn f1_the_nearest_id_is_meant_and_a_strange_one_is_not() {
        let known = || ["write", "judge", "search"].into_iter();
        assert_eq!(nearest("wirte", known()).as_deref(), Some("write"));
        assert_eq!(nearest("Judge", known()).as_deref(), Some("judge"));
        assert_eq!(nearest("serch", known()).as_deref(), Some("search"));
        assert_eq!(nearest("publish", known()), None);
        assert_eq!(nearest("", known()), None);
    }
}
