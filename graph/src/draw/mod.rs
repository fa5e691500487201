//! Drawings of a graph: where its boxes and lines are ([`GraphLayout`]), and SVG ([`Drawing`]).
//!
//! The layout is layered, from the start at the top to the end at the bottom:
//!
//! | file | decides |
//! |---|---|
//! | `layers` | which layer a node is in; which edges go back up |
//! | `order` | the order within each layer, for few crossings |
//! | `place` | the horizontal place, close to the neighbours |
//! | `svg` | the picture |
//!
//! Invariants:
//! 1. The layout depends only on the graph: the same graph gives the same drawing.
//! 2. Boxes never overlap. A line passes between the boxes of the layers that it crosses, except in
//!    graphs with more than [`BENDS_MAX`] such passes, where long lines are straight.
//! 3. Cost: `E log E` in the number of edges and passes, with fixed factors.

mod layers;
mod order;
mod place;
mod svg;

pub use svg::{Drawing, NodeMark};

use crate::compile::inspect::{Inspection, Stroke};
use crate::define::shape::END;
use std::collections::HashMap;

/// The id of the start in a [`GraphLayout`]. The end has the id [`END`].
pub const START: &str = "__start__";

/// The most passes of long lines through layers. Above that, long lines are straight.
const BENDS_MAX: usize = 50_000;

/// The longest label of a node in characters. A longer one is cut.
const LABEL_MAX: usize = 32;

const BOX_HEIGHT: f64 = 36.0;
const LAYER_HEIGHT: f64 = 76.0;
const GAP: f64 = 24.0;
/// The width of a line where it passes a layer.
const BEND_WIDTH: f64 = 8.0;
const ROUND_SIZE: f64 = 22.0;
const CHARACTER_WIDTH: f64 = 7.5;

/// Where the nodes and edges of a graph are in a drawing. The unit is a pixel.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct GraphLayout {
    /// The width of the whole drawing, in pixels.
    pub width: f64,
    /// The height of the whole drawing, in pixels.
    pub height: f64,
    /// The boxes: all nodes that can be reached, the start and the end.
    pub nodes: Vec<NodeBox>,
    /// The lines between these boxes, with their arrows.
    pub edges: Vec<EdgeLine>,
}

/// The place of one node in a drawing.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct NodeBox {
    /// The id of the node, [`START`] or [`END`].
    pub id: String,
    /// The id, cut to a length that fits.
    pub label: String,
    /// Whether the node is a subgraph.
    pub is_subgraph: bool,
    /// The left edge of the box.
    pub x: f64,
    /// The upper edge of the box.
    pub y: f64,
    /// The width of the box, in pixels.
    pub width: f64,
    /// The height of the box, in pixels.
    pub height: f64,
}

/// One line of a drawing, from its start to its arrow.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EdgeLine {
    /// The id of the node where it starts.
    pub from: String,
    /// The id of the node where it ends.
    pub to: String,
    /// The kind of edge that the line draws.
    pub kind: EdgeKind,
    /// The points that the line passes, from its start to its end.
    pub points: Vec<(f64, f64)>,
}

/// The kinds of edges in a drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EdgeKind {
    /// A plain edge to the next node.
    Plain,
    /// One of the targets of a router.
    Choice,
    /// The first node of a branch of a fan-out.
    Fork,
    /// The fallback of a failed node.
    Fallback,
}

impl Inspection {
    /// Computes where the nodes and edges of this graph are in a drawing. The end is drawn only if
    /// an edge leads to it.
    ///
    /// # Examples
    /// ```
    /// use pleach::prelude::*;
    ///
    /// let graph = Graph::<u32>::new("adding")
    ///     .add_node("one", |n: u32| async move { n + 1 })
    ///     .add_edge("one", END)
    ///     .set_entry("one")
    ///     .compile()?;
    /// let layout = graph.inspect().layout();
    /// assert_eq!(layout.nodes.len(), 3, "the start, the node and the end");
    /// # Ok::<(), pleach::graph::CompileError>(())
    /// ```
    pub fn layout(&self) -> GraphLayout {
        let mut boxes = self.boxes();
        let numbers: HashMap<&str, u32> = boxes.iter().zip(0..).map(|(node, number)| (node.id.as_str(), number)).collect();
        let mut edges = vec![(0, numbers.get(self.entry.as_str()).copied().unwrap_or(0))];
        let mut kinds = vec![EdgeKind::Plain];
        self.edges(|from, to, stroke| {
            let kind = match stroke {
                Stroke::Plain => EdgeKind::Plain,
                Stroke::Choice => EdgeKind::Choice,
                Stroke::Fork => EdgeKind::Fork,
                Stroke::Fallback => EdgeKind::Fallback,
                // The branches lead there themselves.
                Stroke::Join => return,
            };
            if let (Some(from), Some(to)) = (numbers.get(from), numbers.get(to)) {
                edges.push((*from, *to));
                kinds.push(kind);
            }
        });
        let end = boxes.len() - 1;
        if !edges.iter().any(|(_, to)| *to as usize == end) {
            boxes.truncate(end);
        }
        lay_out(boxes, &edges, &kinds)
    }

    /// Returns the boxes without their places: the start, the nodes, and at last the end.
    fn boxes(&self) -> Vec<NodeBox> {
        let round = |id: &str| new_box(id.to_string(), String::new(), false, ROUND_SIZE, ROUND_SIZE);
        let node = |id: &str, is_subgraph: bool| {
            let label = shortened(id);
            let width = label.chars().count() as f64 * CHARACTER_WIDTH + 28.0;
            new_box(id.to_string(), label, is_subgraph, width, BOX_HEIGHT)
        };
        let nodes = self.nodes.iter().map(|info| node(&info.id, info.subgraph.is_some()));
        std::iter::once(round(START)).chain(nodes).chain([round(END)]).collect()
    }
}

fn new_box(id: String, label: String, is_subgraph: bool, width: f64, height: f64) -> NodeBox {
    NodeBox { id, label, is_subgraph, x: 0.0, y: 0.0, width, height }
}

fn shortened(id: &str) -> String {
    match id.char_indices().nth(LABEL_MAX) {
        Some((end, _)) => format!("{}…", &id[..end]),
        None => id.to_string(),
    }
}

/// The points of a drawing: first the boxes, then the places where long lines pass a layer.
struct Points {
    layers: Vec<Vec<u32>>,
    widths: Vec<f64>,
    above: Vec<Vec<u32>>,
    below: Vec<Vec<u32>>,
    /// For each edge: the points between its upper and its lower end.
    bends: Vec<Vec<u32>>,
}

impl Points {
    fn new(boxes: &[NodeBox], layered: &layers::Layered, edges: usize) -> Self {
        let count = layered.layer.iter().max().map_or(0, |last| *last as usize + 1);
        let mut points = Self {
            layers: vec![Vec::new(); count],
            widths: boxes.iter().map(|node| node.width).collect(),
            above: vec![Vec::new(); boxes.len()],
            below: vec![Vec::new(); boxes.len()],
            bends: vec![Vec::new(); edges],
        };
        for (number, layer) in layered.layer.iter().enumerate() {
            points.layers[*layer as usize].push(number as u32);
        }
        let layer = |point: u32| layered.layer[point as usize];
        let passes: usize = layered.downward.iter().map(|(upper, lower, _)| (layer(*lower) - layer(*upper) - 1) as usize).sum();
        for &(upper, lower, edge) in &layered.downward {
            let mut last = upper;
            for passed in layer(upper) + 1..layer(lower) {
                if passes > BENDS_MAX {
                    break;
                }
                let bend = points.add_bend(passed);
                points.connect(last, bend);
                points.bends[edge as usize].push(bend);
                last = bend;
            }
            if passes <= BENDS_MAX || layer(lower) == layer(upper) + 1 {
                points.connect(last, lower);
            }
        }
        points
    }

    fn add_bend(&mut self, layer: u32) -> u32 {
        let point = self.widths.len() as u32;
        self.widths.push(BEND_WIDTH);
        self.above.push(Vec::new());
        self.below.push(Vec::new());
        self.layers[layer as usize].push(point);
        point
    }

    fn connect(&mut self, upper: u32, lower: u32) {
        self.below[upper as usize].push(lower);
        self.above[lower as usize].push(upper);
    }
}

fn lay_out(mut boxes: Vec<NodeBox>, edges: &[(u32, u32)], kinds: &[EdgeKind]) -> GraphLayout {
    let layered = layers::assign(boxes.len(), edges, 0);
    let points = Points::new(&boxes, &layered, edges.len());
    let Points { layers, widths, above, below, bends } = points;
    let ordered = order::reduce_crossings(layers, &above, &below);
    let centre = place::centres(&ordered.layers, &widths, GAP, &above, &below);
    let middle = |layer: u32| (f64::from(layer) + 0.5) * LAYER_HEIGHT;
    for (number, node) in boxes.iter_mut().enumerate() {
        node.x = centre[number] - node.width / 2.0;
        node.y = middle(layered.layer[number]) - node.height / 2.0;
    }
    let edges = edges.iter().enumerate().map(|(index, &(from, to))| {
        let (from, to) = (&boxes[from as usize], &boxes[to as usize]);
        let mut passed: Vec<(f64, f64)> = Vec::new();
        for (bend, layer) in bends[index].iter().zip(from_layer(&layered, edges[index]) + 1..) {
            passed.push((centre[*bend as usize], middle(layer)));
        }
        EdgeLine {
            points: line(from, to, passed, layered.turned[index]),
            from: from.id.clone(),
            to: to.id.clone(),
            kind: kinds[index],
        }
    });
    let edges: Vec<EdgeLine> = edges.collect();
    let right = |points: &[(f64, f64)]| points.iter().map(|point| point.0).fold(0.0, f64::max);
    let width =
        boxes.iter().map(|node| node.x + node.width).chain(edges.iter().map(|edge| right(&edge.points))).fold(0.0, f64::max);
    GraphLayout { width, height: ordered.layers.len() as f64 * LAYER_HEIGHT, nodes: boxes, edges }
}

/// The layer of the upper end of an edge.
fn from_layer(layered: &layers::Layered, (from, to): (u32, u32)) -> u32 {
    layered.layer[from as usize].min(layered.layer[to as usize])
}

/// Returns the points of a line between two boxes, through the given bends from top to bottom.
fn line(from: &NodeBox, to: &NodeBox, mut bends: Vec<(f64, f64)>, goes_up: bool) -> Vec<(f64, f64)> {
    let centre = |node: &NodeBox| node.x + node.width / 2.0;
    if from.id == to.id {
        let (right, middle) = (from.x + from.width, from.y + from.height / 2.0);
        return vec![(right, middle - 8.0), (right + 18.0, middle - 8.0), (right + 18.0, middle + 8.0), (right, middle + 8.0)];
    }
    let (start, end) = if goes_up {
        bends.reverse();
        // Beside the lines that go down.
        ((centre(from) + from.width / 4.0, from.y), (centre(to) + to.width / 4.0, to.y + to.height))
    } else {
        ((centre(from), from.y + from.height), (centre(to), to.y))
    };
    std::iter::once(start).chain(bends).chain([end]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The layout of a random graph has every box once, and no two boxes overlap.
    #[test]
    fn f3_boxes_of_random_graphs_never_overlap() {
        let mut random = 7u64;
        let mut next = |limit: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % limit
        };
        for _ in 0..100 {
            let count = 2 + next(30) as usize;
            let boxes: Vec<NodeBox> =
                (0..count).map(|n| new_box(n.to_string(), String::new(), false, 20.0 + next(120) as f64, BOX_HEIGHT)).collect();
            let edges: Vec<_> = (0..next(60)).map(|_| (next(count as u64) as u32, next(count as u64) as u32)).collect();
            let layout = lay_out(boxes, &edges, &vec![EdgeKind::Plain; edges.len()]);
            assert_eq!((layout.nodes.len(), layout.edges.len()), (count, edges.len()));
            for (at, one) in layout.nodes.iter().enumerate() {
                assert!(one.x >= -0.01 && one.x + one.width <= layout.width + 0.01);
                for other in &layout.nodes[at + 1..] {
                    let beside = one.x + one.width <= other.x + 0.01 || other.x + other.width <= one.x + 0.01;
                    assert!(beside || one.y != other.y, "{one:?} overlaps {other:?} with {edges:?}");
                }
            }
            assert!(layout.edges.iter().all(|edge| edge.points.len() >= 2));
        }
    }

    /// The work for very long lines stays bounded: they become straight.
    #[test]
    fn f3_graph_with_very_long_lines_is_drawn() {
        let count = 2_000u32;
        let boxes = (0..count).map(|n| new_box(n.to_string(), String::new(), false, 20.0, BOX_HEIGHT)).collect();
        let chain = (1..count).map(|n| (n - 1, n));
        let edges: Vec<_> = chain.chain((2..count).map(|n| (0, n))).collect();
        let layout = lay_out(boxes, &edges, &vec![EdgeKind::Plain; edges.len()]);
        assert_eq!(layout.edges.iter().map(|edge| edge.points.len()).max(), Some(2));
    }
}
