//! From ids to numbers: looks up every id and reduces the edges of a node to one exit.

use crate::compile::fault::{GraphFault, NamedBy, nearest};
use crate::compile::plan::{BranchHeads, OutEdge, PlanFanOut};
use crate::define::builder::{Edge, EdgeKind, Graph};
use crate::define::node::DeclaredTarget;
use crate::define::shape::{END, OutEdgeShape, Target};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The most faults that get a suggestion, because each one compares all ids.
const SUGGESTIONS_MAX: usize = 16;

/// The nodes by id, and the faults found during lookups.
pub(crate) struct Names {
    pub(crate) ids: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
    pub(crate) faults: Vec<GraphFault>,
    suggestions: usize,
}

impl Names {
    pub(crate) fn of<S>(graph: &Graph<S>) -> Self {
        let mut names = Self { ids: Vec::new(), numbers: HashMap::new(), faults: Vec::new(), suggestions: 0 };
        for draft in &graph.nodes {
            let id: Arc<str> = draft.id.as_str().into();
            let number = names.ids.len() as u32;
            names.ids.push(Arc::clone(&id));
            if id.trim().is_empty() {
                names.faults.push(GraphFault::BlankId);
            } else if *id == *END || id.contains('/') {
                names.faults.push(GraphFault::ReservedId { node: id.to_string() });
            } else if names.numbers.contains_key(&id) {
                names.faults.push(GraphFault::DuplicateNode { node: id.to_string() });
                continue;
            }
            names.numbers.insert(id, number);
        }
        names
    }

    /// Returns the node with this id, or adds a fault.
    pub(crate) fn node(&mut self, id: &str, named_by: impl FnOnce() -> NamedBy) -> Option<u32> {
        let found = self.numbers.get(id).copied();
        if found.is_none() {
            let (node, named_by, did_you_mean) = (id.to_string(), named_by(), self.suggest(id));
            self.faults.push(GraphFault::UnknownNode { node, named_by, did_you_mean });
        }
        found
    }

    pub(crate) fn target(&mut self, id: &str, named_by: impl FnOnce() -> NamedBy) -> Option<Target> {
        if id == END {
            return Some(Target::End);
        }
        self.node(id, named_by).map(Target::Node)
    }

    pub(crate) fn entry(&mut self, entry: Option<&str>) -> Option<u32> {
        let Some(entry) = entry else {
            self.faults.push(GraphFault::NoEntry);
            return None;
        };
        let found = self.numbers.get(entry).copied();
        if found.is_none() {
            let did_you_mean = self.suggest(entry);
            self.faults.push(GraphFault::UnknownEntry { entry: entry.to_string(), did_you_mean });
        }
        found
    }

    fn suggest(&mut self, id: &str) -> Option<String> {
        self.suggestions += 1;
        if self.suggestions > SUGGESTIONS_MAX {
            return None;
        }
        nearest(id, self.ids.iter().map(|id| &**id).filter(|id| !id.trim().is_empty()))
    }

    /// Reduces all edges that leave the node `from` to one exit.
    pub(crate) fn exit<S>(&mut self, from: &str, mut edges: Vec<Edge<S>>) -> (OutEdgeShape, Option<OutEdge<S>>) {
        let Some(edge) = edges.pop() else { return (OutEdgeShape::None, None) };
        if edges.is_empty() {
            return self.exit_of(from, edge.kind).unwrap_or((OutEdgeShape::Faulty, None));
        }
        edges.push(edge);
        let plain = |edge: &Edge<S>| match &edge.kind {
            EdgeKind::Plain(to) => Some(to.clone()),
            _ => None,
        };
        let node = from.to_string();
        self.faults.push(match edges.iter().map(plain).collect() {
            Some(targets) => GraphFault::SeveralEdges { node, targets },
            None => GraphFault::MixedEdges { node },
        });
        // The targets are still checked, so that all faults are reported at once.
        edges.into_iter().for_each(|edge| drop(self.exit_of(from, edge.kind)));
        (OutEdgeShape::Faulty, None)
    }

    fn exit_of<S>(&mut self, from: &str, kind: EdgeKind<S>) -> Option<(OutEdgeShape, Option<OutEdge<S>>)> {
        let of = || NamedBy::EdgeOf(from.to_string());
        let join_of = || NamedBy::JoinOf(from.to_string());
        match kind {
            EdgeKind::Plain(to) => {
                let to = self.target(&to, of)?;
                Some((OutEdgeShape::Plain(to), Some(OutEdge::To(to))))
            }
            EdgeKind::Choice { targets, route } => {
                let found: Vec<_> = targets.into_iter().map(|id| (self.target(&id, of), id)).collect();
                if found.is_empty() {
                    self.faults.push(GraphFault::NoTargets { node: from.to_string() });
                }
                let declare = |(to, name): (Option<Target>, String)| Some(DeclaredTarget { name: name.into(), to: to? });
                let declared: Box<[DeclaredTarget]> = found.into_iter().map(declare).collect::<Option<_>>()?;
                let mut seen = HashSet::new();
                let targets: Vec<Target> = declared.iter().map(|one| one.to).filter(|to| seen.insert(*to)).collect();
                (!targets.is_empty()).then(|| (OutEdgeShape::Choice(targets), Some(OutEdge::Choice { route, declared })))
            }
            EdgeKind::Parallel { heads, join, clone, options } => {
                let found: Vec<_> = heads.iter().map(|id| self.target(id, of)).collect();
                let join = self.target(&join, join_of);
                self.check_fan_out(from, &heads, options.limit);
                let (heads, join): (Vec<Target>, _) = (found.into_iter().collect::<Option<_>>()?, join?);
                let nodes = heads.iter().filter_map(|head| match head {
                    Target::Node(node) => Some(*node),
                    Target::End => None,
                });
                let fork = PlanFanOut { heads: BranchHeads::Each(nodes.collect(), clone), join, options };
                let exit = OutEdgeShape::Fork { heads, join, is_map: false };
                Some((exit, Some(OutEdge::Fork(Box::new(fork)))))
            }
            EdgeKind::Map { head, join, items, options } => {
                let found = self.target(&head, of);
                let join = self.target(&join, join_of);
                self.check_fan_out(from, &[head], options.limit);
                let (head, join) = (found?, join?);
                let out_edge = match head {
                    Target::Node(node) => {
                        Some(OutEdge::Fork(Box::new(PlanFanOut { heads: BranchHeads::Map(node, items), join, options })))
                    }
                    Target::End => None,
                };
                Some((OutEdgeShape::Fork { heads: vec![head], join, is_map: true }, out_edge))
            }
        }
    }

    fn check_fan_out(&mut self, from: &str, heads: &[String], limit: Option<usize>) {
        let fan_out = from.to_string();
        if heads.is_empty() {
            self.faults.push(GraphFault::NoBranches { fan_out: fan_out.clone() });
        }
        if limit == Some(0) {
            self.faults.push(GraphFault::ZeroLimit { fan_out: fan_out.clone() });
        }
        let mut seen = HashSet::new();
        let mut reported = HashSet::new();
        for head in heads {
            if !seen.insert(head) && reported.insert(head) {
                self.faults.push(GraphFault::DuplicateBranch { fan_out: fan_out.clone(), branch: head.clone() });
            }
        }
    }
}
