//! From a written graph to a plan that the engine can run, or to a list of all faults.
//!
//! Three passes, each linear in nodes and edges. A pass continues after a fault.
//! 1. `names` replaces ids by numbers.
//! 2. `frames` finds the fan-out that each node belongs to.
//! 3. `reach` checks that each node has a path to the end.

pub(crate) mod compiled;
pub(crate) mod fault;
mod frames;
pub(crate) mod inspect;
#[cfg(test)]
mod model;
mod names;
pub(crate) mod places;
pub(crate) mod plan;
mod reach;

use crate::compile::compiled::CompiledGraph;
use crate::compile::fault::{CompileError, GraphFault, NamedBy};
use crate::compile::frames::Frames;
use crate::compile::names::Names;
use crate::compile::plan::{NodeOptions, OutEdge, Plan, PlanNode};
use crate::define::builder::{DraftNode, Edge, Graph};
use crate::define::node::NodeFn;
use crate::define::policy::{Policy, Retry};
use crate::define::shape::{Shape, Target};
use crate::define::subgraph::{KnownNode, Needs, NodesById};
use std::sync::Arc;

impl<S: Send + 'static> Graph<S> {
    /// Checks the graph and returns it in a form that can run. Takes time linear in nodes and
    /// edges.
    ///
    /// # Errors
    /// [`CompileError`] lists every fault of the graph, not only the first.
    pub fn compile(self) -> Result<CompiledGraph<S>, CompileError> {
        compile(self)
    }
}

fn compile<S: Send + 'static>(mut graph: Graph<S>) -> Result<CompiledGraph<S>, CompileError> {
    let mut names = Names::of(&graph);
    let count = names.ids.len();
    let all_options = all_options(&mut graph, &mut names);
    let edges = edges_by_node(&mut graph, &mut names);
    let entry = names.entry(graph.entry.as_deref());

    let (mut exits, mut out_edges) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for (node, edges) in edges.into_iter().enumerate() {
        let id = Arc::clone(&names.ids[node]);
        let (exit, out_edge) = names.exit(&id, edges);
        exits.push(exit);
        out_edges.push(out_edge);
    }
    let Names { ids, mut faults, .. } = names;
    let fallbacks = all_options.iter().map(|options| options.as_ref().and_then(|options| options.fallback)).collect();
    let shape = Shape { ids, exits, fallbacks, entry: entry.unwrap_or(0) };

    let (mut fan_outs, mut reached) = (vec![None; count], vec![false; count]);
    let mut warnings = Vec::new();
    if entry.is_some() {
        let frames = Frames::label(&shape, &mut faults);
        reach::check(&shape, &frames, &mut faults);
        let nodes = 0..count as u32;
        fan_outs = nodes.clone().map(|node| frames.fan_out(node)).collect();
        reached = frames.of.iter().map(Option::is_some).collect();
        let unreached = nodes.filter(|node| !reached[*node as usize]);
        warnings.extend(unreached.map(|node| GraphFault::Unreachable { node: shape.id(node) }));
    }
    if graph.deny_warnings {
        faults.append(&mut warnings);
    }
    if !faults.is_empty() {
        return Err(CompileError { graph: graph.name, faults });
    }
    let mut needs = Needs::default();
    for inside in graph.nodes.iter().filter_map(|draft| draft.subgraph.as_ref()) {
        needs.runtime |= inside.needs.runtime;
        needs.threads |= inside.needs.threads;
    }
    let known = |(draft, options): (&DraftNode<S>, &Option<Box<NodeOptions<S>>>)| KnownNode {
        undo: options.as_ref().and_then(|options| options.undo.clone()),
        inside: draft.subgraph.as_ref().map(|inside| Arc::clone(&inside.nodes)),
    };
    let nodes_by_id =
        Arc::new(NodesById(shape.ids.iter().cloned().zip(graph.nodes.iter().zip(&all_options).map(known)).collect()));
    let drafts = graph.nodes.into_iter().zip(out_edges).zip(all_options);
    // In a sound graph every reachable node has an edge. Unreachable nodes are never entered.
    let plan_node = |((draft, out_edge), options): ((DraftNode<S>, Option<OutEdge<S>>), _)| {
        let (call, out_edge) = (draft.call, out_edge.unwrap_or(OutEdge::To(Target::End)));
        let takes_context = matches!(call, NodeFn::Context(_)) || out_edge.takes_context();
        PlanNode { call, out_edge, takes_context, options }
    };
    let nodes: Box<[PlanNode<S>]> = drafts.map(plan_node).collect();
    nodes.iter().for_each(|plan_node| needs.add(plan_node));
    let fingerprint = inspect::fingerprint(&shape, &nodes);
    let names = shape.ids.iter().cloned().collect();
    let name = graph.name;
    let equal = graph.equal;
    let plan = Plan { name, shape, names, nodes, fan_outs, reached, needs, nodes_by_id, fingerprint, warnings, equal };
    Ok(CompiledGraph::new(plan))
}

/// Groups the edges by their start node.
fn edges_by_node<S>(graph: &mut Graph<S>, names: &mut Names) -> Vec<Vec<Edge<S>>> {
    let mut by_node: Vec<Vec<Edge<S>>> = names.ids.iter().map(|_| Vec::new()).collect();
    for edge in std::mem::take(&mut graph.edges) {
        match names.node(&edge.from, || NamedBy::EdgeFrom) {
            Some(node) => by_node[node as usize].push(edge),
            // The targets are still checked, so that all faults are reported at once.
            None => drop(names.exit(&edge.from.clone(), vec![edge])),
        }
    }
    by_node
}

/// Collects the options of each node: policy, undo, subgraph.
fn all_options<S>(graph: &mut Graph<S>, names: &mut Names) -> Vec<Option<Box<NodeOptions<S>>>> {
    let blank = || Box::new(NodeOptions { policy: Policy::new(), fallback: None, undo: None, subgraph: None, grace: None });
    let mut all_options: Vec<Option<Box<NodeOptions<S>>>> = names.ids.iter().map(|_| None).collect();
    for (draft, options) in graph.nodes.iter().zip(&mut all_options) {
        if let Some(inside) = &draft.subgraph {
            let options = options.get_or_insert_with(blank);
            (options.subgraph, options.grace) = (Some(inside.fingerprint.clone()), inside.needs.grace);
        }
    }
    for (id, policy) in std::mem::take(&mut graph.policies) {
        let fallback = policy.fallback.as_ref().and_then(|to| names.target(to, || NamedBy::FallbackOf(id.clone())));
        if let Some(node) = names.node(&id, || NamedBy::Policy) {
            let options = all_options[node as usize].get_or_insert_with(blank);
            options.grace = policy.cancel_grace.or(options.grace);
            (options.policy, options.fallback) = (policy, fallback);
        }
    }
    for (id, undo) in std::mem::take(&mut graph.undos) {
        let Some(node) = names.node(&id, || NamedBy::Undo) else { continue };
        if matches!(graph.nodes[node as usize].call, NodeFn::State(_)) || graph.nodes[node as usize].subgraph.is_some() {
            names.faults.push(GraphFault::UndoWithoutContext { node: id });
        }
        all_options[node as usize].get_or_insert_with(blank).undo = Some(Arc::new(undo));
    }
    all_options
}

impl Needs {
    fn add<S>(&mut self, plan_node: &PlanNode<S>) {
        if let Some(options) = &plan_node.options {
            let waits = options.policy.retry.as_ref().is_some_and(Retry::waits);
            self.runtime |= waits || options.policy.timeout.is_some() || options.grace.is_some();
            self.grace = self.grace.max(options.grace);
        }
        if let OutEdge::Fork(fork) = &plan_node.out_edge {
            self.runtime |= fork.options.spawned || fork.options.timeout.is_some();
            self.threads |= fork.options.spawned;
        }
    }
}
