//! [`Drawing`]: a graph as SVG, with marks on the nodes of a run.

use super::{EdgeKind, EdgeLine, GraphLayout, NodeBox, START};
use crate::compile::compiled::CompiledGraph;
use crate::compile::inspect::Inspection;
use crate::define::shape::END;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The space around a drawing.
const MARGIN: f64 = 20.0;

/// Colours for light and dark pages. Marks differ by their text and line too, not only by colour.
const STYLE: &str = "\
svg{font:13px ui-monospace,Menlo,Consolas,monospace;color-scheme:light dark}\
.paper{fill:#fff}.box{fill:#f6f8fa;stroke:#57606a}.label{fill:#1f2328}.line{fill:none;stroke:#57606a}\
.head,.dot{fill:#57606a}.visited .box{fill:#dafbe1;stroke:#1a7f37}.current .box{fill:#ddf4ff;stroke:#0969da;stroke-width:3}\
.failed .box{fill:#ffebe9;stroke:#cf222e;stroke-width:3}.note{fill:#57606a;font-size:10px}\
.choice{stroke-dasharray:5 4}.fork{stroke-width:2.5}.fallback{stroke-dasharray:2 3}\
@media (prefers-color-scheme:dark){.paper{fill:#0d1117}.box{fill:#161b22;stroke:#8b949e}.label{fill:#e6edf3}\
.line{stroke:#8b949e}.head,.dot{fill:#8b949e}.visited .box{fill:#12261e;stroke:#3fb950}\
.current .box{fill:#0c2d6b;stroke:#58a6ff}.failed .box{fill:#3c1618;stroke:#f85149}.note{fill:#8b949e}}";

/// What a drawing shows about a node of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeMark {
    /// The run completed this many visits of the node.
    Visited(u64),
    /// A token of the run is at the node.
    Current,
    /// The run failed at the node.
    Failed,
}

/// A graph as a picture. Create one with [`Inspection::drawing`].
///
/// # Examples
/// ```
/// use pleach::graph::NodeMark;
/// use pleach::prelude::*;
///
/// let graph = Graph::<u32>::new("adding")
///     .add_node("one", |n: u32| async move { n + 1 })
///     .add_edge("one", END)
///     .set_entry("one")
///     .compile()?;
/// let svg = graph.inspect().drawing().mark("one", NodeMark::Visited(1)).to_svg();
/// assert!(svg.starts_with("<svg "));
/// # Ok::<(), pleach::graph::CompileError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Drawing {
    name: String,
    layout: GraphLayout,
    marks: BTreeMap<String, NodeMark>,
}

impl Inspection {
    /// Starts a drawing of this graph.
    pub fn drawing(&self) -> Drawing {
        Drawing { name: self.name.clone(), layout: self.layout(), marks: BTreeMap::new() }
    }

    /// Returns the graph as an SVG picture, without marks.
    pub fn to_svg(&self) -> String {
        self.drawing().to_svg()
    }
}

impl<S> CompiledGraph<S> {
    /// Returns the graph as an SVG picture. [`Inspection::drawing`] adds marks to it.
    pub fn to_svg(&self) -> String {
        self.inspect().to_svg()
    }
}

impl Drawing {
    /// Marks a node. A second mark of the same node replaces the first. An unknown id is ignored.
    pub fn mark(mut self, node: impl Into<String>, mark: NodeMark) -> Self {
        self.marks.insert(node.into(), mark);
        self
    }

    /// Returns the drawing as an SVG document. It contains no script and refers to nothing outside.
    pub fn to_svg(&self) -> String {
        let GraphLayout { width, height, nodes, edges } = &self.layout;
        let (width, height) = (width + 2.0 * MARGIN, height + 2.0 * MARGIN);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
             height=\"{height:.0}\" role=\"img\"><title>{}</title><style>{STYLE}</style>\
             <defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
             markerUnits=\"userSpaceOnUse\" orient=\"auto-start-reverse\"><path class=\"head\" d=\"M0 0 8 4 0 8z\"/></marker></defs>\
             <rect class=\"paper\" width=\"100%\" height=\"100%\"/><g transform=\"translate({MARGIN} {MARGIN})\">\n",
            escaped(&self.name)
        );
        edges.iter().for_each(|edge| write_edge(&mut svg, edge));
        nodes.iter().for_each(|node| self.write_node(&mut svg, node));
        svg.push_str("</g></svg>\n");
        svg
    }

    fn write_node(&self, svg: &mut String, node: &NodeBox) {
        let NodeBox { id, label, is_subgraph, x, y, width, height } = node;
        let (middle, centre) = (y + height / 2.0, x + width / 2.0);
        if id == START || id == END {
            let radius = height / 2.0;
            if id == END {
                let _ = writeln!(svg, "<circle class=\"line\" cx=\"{centre:.1}\" cy=\"{middle:.1}\" r=\"{radius:.1}\"/>");
            }
            let _ = writeln!(svg, "<circle class=\"dot\" cx=\"{centre:.1}\" cy=\"{middle:.1}\" r=\"{:.1}\"/>", radius * 0.6);
            return;
        }
        let (class, note) = match self.marks.get(id) {
            None => ("", String::new()),
            Some(NodeMark::Visited(1)) => ("visited", "done".into()),
            Some(NodeMark::Visited(visits)) => ("visited", format!("done {visits} times")),
            Some(NodeMark::Current) => ("current", "here now".into()),
            Some(NodeMark::Failed) => ("failed", "failed".into()),
        };
        let _ = write!(svg, "<g class=\"{class}\"><title>{}</title>", escaped(id));
        let _ =
            write!(svg, "<rect class=\"box\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"6\"/>");
        if *is_subgraph {
            let (x, y, width, height) = (x + 3.0, y + 3.0, width - 6.0, height - 6.0);
            let _ = write!(
                svg,
                "<rect class=\"line\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"4\"/>"
            );
        }
        let text = |svg: &mut String, class: &str, y: f64, text: &str| {
            let _ = write!(
                svg,
                "<text class=\"{class}\" x=\"{centre:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{}</text>",
                escaped(text)
            );
        };
        let raised = if note.is_empty() { 4.0 } else { -2.0 };
        text(svg, "label", middle + raised, label);
        if !note.is_empty() {
            text(svg, "note", middle + 12.0, &note);
        }
        svg.push_str("</g>\n");
    }
}

/// Writes a line as a curve that leaves and enters each point vertically.
fn write_edge(svg: &mut String, edge: &EdgeLine) {
    let class = match edge.kind {
        EdgeKind::Plain => "line",
        EdgeKind::Choice => "line choice",
        EdgeKind::Fork => "line fork",
        EdgeKind::Fallback => "line fallback",
    };
    let Some(&(x, y)) = edge.points.first() else { return };
    let mut path = format!("M{x:.1} {y:.1}");
    if edge.from == edge.to {
        for (x, y) in &edge.points[1..] {
            let _ = write!(path, "L{x:.1} {y:.1}");
        }
    } else {
        for pair in edge.points.windows(2) {
            let ((from_x, from_y), (x, y)) = (pair[0], pair[1]);
            let bend = (from_y + y) / 2.0;
            let _ = write!(path, "C{from_x:.1} {bend:.1} {x:.1} {bend:.1} {x:.1} {y:.1}");
        }
    }
    let (from, to) = (escaped(&edge.from), escaped(&edge.to));
    let _ =
        writeln!(svg, "<path class=\"{class}\" marker-end=\"url(#arrow)\" d=\"{path}\"><title>{from} to {to}</title></path>");
}

/// Replaces the characters that XML reserves, and control characters, which XML forbids.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other if other.is_control() || matches!(other, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}
