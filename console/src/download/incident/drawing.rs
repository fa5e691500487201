//! The graph of a run as a drawing, and as a table that says the same.

use super::markup::Markup;
use super::words::{list, plural, table, text};
use serde_json::Value;

/// A graph with more nodes is only a table.
const NODES_MAX: usize = 150;

/// The space around a drawing.
const MARGIN: f64 = 16.0;

/// Half of the width of an arrow's head, and its length.
const HEAD: (f64, f64) = (3.5, 7.0);

/// What a run did at a node, the most important first, with the words for it.
const MARKS: [(&str, &str); 4] =
    [("failed", "failed here"), ("waiting", "waits here"), ("current", "is here"), ("visited", "done")];

/// Draws the answer of the view `graph`.
pub(super) fn graph(graph: &Value) -> Markup {
    let (layout, marks) = (&graph["layout"], &graph["marks"]);
    let nodes = list(&layout["nodes"]);
    let drawing = if nodes.len() <= NODES_MAX {
        Markup::element("div", "paper", [drawn(layout, marks)])
    } else {
        let text = format!("The graph has {}: only the table shows it.", plural(nodes.len() as u64, "node"));
        Markup::of("p", "quiet", text)
    };
    let note = text(&graph["note"]).map(|note| Markup::of("p", "quiet", super::words::sentence(&note) + "."));
    let marked: Vec<Vec<Markup>> = nodes.iter().filter_map(|node| row(node, marks)).collect();
    let table = table(&["Node", "What the run did there"], marked);
    Markup::all([Some(drawing), note, Some(super::words::part("Where the run was", table))].into_iter().flatten())
}

/// Returns the row of a node that has marks.
fn row(node: &Value, marks: &Value) -> Option<Vec<Markup>> {
    let id = node["id"].as_str()?;
    let said = said(&marks[id]);
    (!said.is_empty()).then(|| vec![Markup::text(id), Markup::text(said.join(", "))])
}

/// Returns what the marks of a node say.
fn said(marks: &Value) -> Vec<String> {
    let count = |(name, words): &(&str, &str)| match marks[*name].as_u64() {
        None | Some(0) => None,
        Some(1) => Some((*words).to_string()),
        Some(count) => Some(format!("{words} ({count})")),
    };
    MARKS.iter().filter_map(count).collect()
}

fn drawn(layout: &Value, marks: &Value) -> Markup {
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let (width, height) = (number(&layout["width"]) + 2.0 * MARGIN, number(&layout["height"]) + 2.0 * MARGIN);
    let edges = list(&layout["edges"]).iter().map(edge);
    let nodes = list(&layout["nodes"]).iter().map(|drawn| node(drawn, marks));
    let (wide, high) = (format!("{width:.0}"), format!("{height:.0}"));
    let shown = format!("-{MARGIN} -{MARGIN} {wide} {high}");
    let attributes = [
        ("viewBox", shown.as_str()),
        ("width", wide.as_str()),
        ("height", high.as_str()),
        ("role", "img"),
        ("aria-label", "Drawing of the graph; the table below says the same"),
    ];
    Markup::with("svg", "graph", &attributes, edges.chain(nodes))
}

fn node(node: &Value, marks: &Value) -> Markup {
    let number = |name: &str| node[name].as_f64().unwrap_or(0.0);
    let (x, y, width, height) = (number("x"), number("y"), number("width"), number("height"));
    let marks = &marks[node["id"].as_str().unwrap_or_default()];
    let state = MARKS.iter().map(|(name, _)| *name).find(|name| marks[*name].as_u64().is_some_and(|count| count > 0));
    let class = match state {
        Some("failed") => "node node-failed",
        Some("waiting") => "node node-waiting",
        Some("current") => "node node-current",
        Some(_) => "node node-visited",
        None => "node",
    };
    let is_end = matches!(node["kind"].as_str(), Some("start" | "end"));
    let round = if is_end { height / 2.0 } else { 6.0 };
    let shape = Markup::shape("rect", class, &[("x", x), ("y", y), ("width", width), ("height", height), ("rx", round)]);
    let middle = x + width / 2.0;
    let label = match (node["kind"].as_str(), text(&node["label"])) {
        (Some("start"), _) => written("mark", middle, y - 5.0, "start"),
        (Some("end"), _) => written("mark", middle, y + height + 13.0, "end"),
        (_, label) => written("name", middle, y + height / 2.0 + 4.5, &label.unwrap_or_default()),
    };
    let mark = match (state, said(marks).first()) {
        (Some("failed"), Some(said)) => written("mark mark-failed", middle, y + height + 13.0, said),
        (Some("waiting" | "current"), Some(said)) => written("mark", middle, y + height + 13.0, said),
        _ => Markup::default(),
    };
    Markup::all([shape, label, mark])
}

fn written(class: &'static str, x: f64, y: f64, text: &str) -> Markup {
    let (x, y) = (format!("{x:.1}"), format!("{y:.1}"));
    Markup::with("text", class, &[("x", &x), ("y", &y)], [Markup::text(text)])
}

/// Draws an edge as a curve that leaves and enters each point vertically, with the head of an arrow.
fn edge(edge: &Value) -> Markup {
    let point = |point: &Value| Some((point[0].as_f64()?, point[1].as_f64()?));
    let points: Vec<(f64, f64)> = list(&edge["points"]).iter().filter_map(point).collect();
    let [first, rest @ ..] = points.as_slice() else { return Markup::default() };
    let is_loop = edge["from"] == edge["to"];
    let mut line: Vec<(char, Vec<f64>)> = vec![('M', vec![first.0, first.1])];
    let mut from = *first;
    for (x, y) in rest {
        let bend = f64::midpoint(from.1, *y);
        line.push(if is_loop { ('L', vec![*x, *y]) } else { ('C', vec![from.0, bend, *x, bend, *x, *y]) });
        from = (*x, *y);
    }
    let before = if rest.len() > 1 { rest[rest.len() - 2] } else { *first };
    let (x, y) = from;
    let is_sideways = is_loop && (before.1 - y).abs() < (before.0 - x).abs();
    let back = if is_sideways { (before.0 - x).signum() } else { (before.1 - y).signum() } * HEAD.1;
    let (one, other) = if is_sideways {
        ([x + back, y - HEAD.0], [x + back, y + HEAD.0])
    } else {
        ([x - HEAD.0, y + back], [x + HEAD.0, y + back])
    };
    let head: [(char, &[f64]); 4] = [('M', &[x, y]), ('L', &one), ('L', &other), ('Z', &[])];
    let line: Vec<(char, &[f64])> = line.iter().map(|(command, numbers)| (*command, numbers.as_slice())).collect();
    Markup::all([Markup::path("edge", &line), Markup::path("head", &head)])
}
