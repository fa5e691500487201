//! Views of a compiled graph: [`Inspection`], Mermaid, DOT and the fingerprint.

use crate::compile::plan::{Plan, PlanNode};
use crate::define::shape::{END, OutEdgeShape, Shape};
use crate::token::Fnv;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// A description of a graph: its nodes and edges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Inspection {
    /// The name that was given to `Graph::new`.
    pub name: String,
    /// The hash of the graph; see
    /// [`CompiledGraph::fingerprint`](crate::CompiledGraph::fingerprint).
    pub fingerprint: String,
    /// The id of the node where a run starts.
    pub entry: String,
    /// The nodes, in the order in which they were added.
    pub nodes: Vec<NodeInfo>,
}

/// A description of one node of a graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NodeInfo {
    /// The id of the described node.
    pub id: String,
    /// The targets of the edges that leave it.
    pub leads_to: LeadsTo,
    /// The fallback node of its policy, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// The start of the innermost fan-out around the node, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fan_out: Option<String>,
    /// The fingerprint of the subgraph, if the node is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subgraph: Option<String>,
    /// The limits of its failure policy as text, if it has one: retries, timeout, cancel grace.
    ///
    /// The fingerprint does not contain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
}

/// The targets of the edges that leave a node. The end is [`END`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LeadsTo {
    /// No edge leaves the node. Only unreachable nodes have this.
    Nowhere,
    /// A plain edge to one node, or to the end.
    Next(String),
    /// A conditional edge to one of these nodes.
    OneOf(Vec<String>),
    /// A fan-out to all of these nodes, and then the join.
    AllOf {
        /// The first node of each branch, in order.
        heads: Vec<String>,
        /// The node where the branches end.
        join: String,
    },
    /// A fan-out with one branch per item of the state, and then the join.
    Each {
        /// The first node of all branches.
        head: String,
        /// The node where the branches end.
        join: String,
    },
}

impl NodeInfo {
    /// Replaces the ids of nodes for which `new_id` returns one.
    pub(crate) fn map_ids(mut self, new_id: impl Fn(&str) -> Option<String>) -> Self {
        let change = |id: &mut String| *id = new_id(id).unwrap_or_else(|| std::mem::take(id));
        change(&mut self.id);
        self.fallback.iter_mut().for_each(change);
        self.fan_out.iter_mut().for_each(change);
        match &mut self.leads_to {
            LeadsTo::Nowhere => {}
            LeadsTo::Next(to) => change(to),
            LeadsTo::OneOf(targets) => {
                targets.iter_mut().for_each(change);
                targets.sort_unstable();
            }
            LeadsTo::AllOf { heads, join } => heads.iter_mut().chain([join]).for_each(change),
            LeadsTo::Each { head, join } => [head, join].into_iter().for_each(change),
        }
        self
    }
}

pub(crate) fn inspect<S>(plan: &Plan<S>) -> Inspection {
    let shape = &plan.shape;
    let node = |node: u32| NodeInfo {
        id: shape.id(node),
        leads_to: leads_to(shape, node),
        fallback: shape.fallbacks[node as usize].map(|to| shape.name(to)),
        fan_out: plan.fan_outs[node as usize].map(|fork| shape.id(fork)),
        subgraph: plan.nodes[node as usize].subgraph().map(str::to_string),
        policy: plan.nodes[node as usize].options.as_ref().and_then(|options| options.policy.summary()),
    };
    Inspection {
        name: plan.name.clone(),
        fingerprint: plan.fingerprint.clone(),
        entry: shape.id(shape.entry),
        nodes: (0..shape.ids.len() as u32).map(node).collect(),
    }
}

fn leads_to(shape: &Shape, node: u32) -> LeadsTo {
    let names = |targets: &[_]| targets.iter().map(|to| shape.name(*to)).collect::<Vec<_>>();
    match &shape.exits[node as usize] {
        OutEdgeShape::None | OutEdgeShape::Faulty => LeadsTo::Nowhere,
        OutEdgeShape::Plain(to) => LeadsTo::Next(shape.name(*to)),
        OutEdgeShape::Choice(targets) => LeadsTo::OneOf(names(targets)),
        OutEdgeShape::Fork { heads, join, is_map: true } => {
            LeadsTo::Each { head: names(heads).concat(), join: shape.name(*join) }
        }
        OutEdgeShape::Fork { heads, join, .. } => LeadsTo::AllOf { heads: names(heads), join: shape.name(*join) },
    }
}

impl<S> PlanNode<S> {
    fn subgraph(&self) -> Option<&str> {
        self.options.as_ref().and_then(|options| options.subgraph.as_deref())
    }
}

/// Computes the fingerprint. Nodes and the targets of a choice are sorted, because their order has
/// no meaning; branches keep their order, which is the order of the merge.
///
/// Stored runs contain fingerprints, so the hashed bytes must never change: a tag byte per kind,
/// then the length and the bytes of the text.
pub(crate) fn fingerprint<S>(shape: &Shape, plan_nodes: &[PlanNode<S>]) -> String {
    fn text(bytes: &mut Vec<u8>, kind: u8, text: &str) {
        bytes.push(kind);
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    let of_node = |(node, plan_node): (usize, &PlanNode<S>)| {
        let mut bytes = Vec::new();
        text(&mut bytes, b'n', &shape.ids[node]);
        match leads_to(shape, node as u32) {
            LeadsTo::Nowhere => {}
            LeadsTo::Next(to) => text(&mut bytes, b't', &to),
            LeadsTo::OneOf(mut targets) => {
                targets.sort_unstable();
                targets.iter().for_each(|to| text(&mut bytes, b'o', to));
            }
            LeadsTo::AllOf { heads, join } => {
                heads.iter().for_each(|to| text(&mut bytes, b'a', to));
                text(&mut bytes, b'j', &join);
            }
            LeadsTo::Each { head, join } => {
                text(&mut bytes, b'e', &head);
                text(&mut bytes, b'j', &join);
            }
        }
        shape.fallbacks[node].iter().for_each(|to| text(&mut bytes, b'f', &shape.name(*to)));
        plan_node.subgraph().iter().for_each(|inner| text(&mut bytes, b's', inner));
        bytes
    };
    let mut nodes: Vec<Vec<u8>> = plan_nodes.iter().enumerate().map(of_node).collect();
    nodes.sort_unstable();
    let mut entry = Vec::new();
    text(&mut entry, b'b', &shape.id(shape.entry));
    let mut hash = Fnv::new();
    nodes.iter().chain([&entry]).for_each(|bytes| hash.write(bytes));
    hash.text()
}

/// The line style of an edge in a drawing.
pub(crate) enum Stroke {
    Plain,
    Choice,
    Fork,
    Join,
    Fallback,
}

impl Inspection {
    /// Calls `draw` with the start, target and style of each edge.
    pub(crate) fn edges(&self, mut draw: impl FnMut(&str, &str, Stroke)) {
        for node in &self.nodes {
            match &node.leads_to {
                LeadsTo::Nowhere => {}
                LeadsTo::Next(to) => draw(&node.id, to, Stroke::Plain),
                LeadsTo::OneOf(targets) => targets.iter().for_each(|to| draw(&node.id, to, Stroke::Choice)),
                LeadsTo::AllOf { heads, join } => {
                    heads.iter().for_each(|to| draw(&node.id, to, Stroke::Fork));
                    draw(&node.id, join, Stroke::Join);
                }
                LeadsTo::Each { head, join } => {
                    draw(&node.id, head, Stroke::Fork);
                    draw(&node.id, join, Stroke::Join);
                }
            }
            if let Some(to) = &node.fallback {
                draw(&node.id, to, Stroke::Fallback);
            }
        }
    }

    /// Returns a function from a node id to its name in a drawing. Ids may contain characters that
    /// drawing languages reserve.
    fn number(&self) -> impl Fn(&str) -> String {
        let numbers: std::collections::HashMap<&str, usize> =
            self.nodes.iter().enumerate().map(|(number, node)| (node.id.as_str(), number)).collect();
        move |id| if id == END { "finish".to_string() } else { format!("n{}", numbers.get(id).copied().unwrap_or_default()) }
    }

    /// Returns the graph as a Mermaid flowchart.
    pub fn to_mermaid(&self) -> String {
        let number = self.number();
        let mut text = String::from("flowchart TD\n    start([start])\n    finish([end])\n");
        for node in &self.nodes {
            let label = node.id.replace('&', "#amp;").replace('"', "#quot;").replace('<', "#lt;").replace('>', "#gt;");
            let (open, close) = if node.subgraph.is_some() { ("[[", "]]") } else { ("[", "]") };
            let _ = writeln!(text, "    {}{open}\"{label}\"{close}", number(&node.id));
        }
        let _ = writeln!(text, "    start --> {}", number(&self.entry));
        self.edges(|from, to, stroke| {
            let arrow = match stroke {
                Stroke::Plain => "-->",
                Stroke::Choice => "-.->",
                Stroke::Fork => "==>",
                Stroke::Join => "-. join .->",
                Stroke::Fallback => "-. on error .->",
            };
            let _ = writeln!(text, "    {} {arrow} {}", number(from), number(to));
        });
        text
    }

    /// Returns the graph in the DOT language of Graphviz.
    pub fn to_dot(&self) -> String {
        let number = self.number();
        let escaped = |id: &str| id.replace('\\', "\\\\").replace('"', "\\\"");
        let mut text = format!("digraph \"{}\" {{\n    start [shape=circle, label=\"\"];\n", escaped(&self.name));
        text.push_str("    finish [shape=doublecircle, label=\"\"];\n");
        for node in &self.nodes {
            let style = if node.subgraph.is_some() { "box3d" } else { "box" };
            let _ = writeln!(text, "    {} [shape={style}, label=\"{}\"];", number(&node.id), escaped(&node.id));
        }
        let _ = writeln!(text, "    start -> {};", number(&self.entry));
        self.edges(|from, to, stroke| {
            let style = match stroke {
                Stroke::Plain => "",
                Stroke::Choice => " [style=dashed]",
                Stroke::Fork => " [style=bold]",
                Stroke::Join => " [style=dotted, label=\"join\"]",
                Stroke::Fallback => " [style=dotted, label=\"on error\"]",
            };
            let _ = writeln!(text, "    {} -> {}{style};", number(from), number(to));
        });
        text.push_str("}\n");
        text
    }
}
