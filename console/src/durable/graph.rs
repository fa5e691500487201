//! The view `graph`: the drawing of a graph, with the positions of a run as counts.
//!
//! The layout is computed once for each fingerprint. Without an export of the graph, the nodes and
//! edges that the last records show are drawn, and the answer says so.

use super::timeline::{self, Found};
use super::waits::node_of;
use super::{StoreSource, deploy};
use crate::failure::Failure;
use crate::view::GraphOf;
use pleach::durable::{Checkpoint, GraphExport, RunView, TokenView};
use pleach::graph::{END, EdgeKind, GraphLayout, Inspection, START};
use pleach::store::{Kind, Place, RunInfo};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// The newest records whose visits are counted.
const RECORDS_MAX: u64 = 1_000;

/// The most layouts that are kept.
const KEPT_MAX: usize = 64;

/// The layouts of graphs, by fingerprint. A text that somebody uploads can have any fingerprint, so
/// the graph is kept too, and must be the same.
#[derive(Default)]
pub(super) struct Layouts(Mutex<HashMap<String, (Inspection, Arc<Value>)>>);

/// What a run did at one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Marks {
    visited: u64,
    current: u64,
    waiting: u64,
    failed: u64,
}

#[derive(Serialize)]
struct GraphJson<'a> {
    graph: &'a str,
    fingerprint: &'a str,
    layout: &'a Value,
    marks: BTreeMap<String, Marks>,
    /// The record from which on visits are counted.
    visited_from: u64,
    /// Whether the drawing shows only what the records show.
    is_observed: bool,
    /// What the drawing does not show.
    note: Option<String>,
}

pub(super) async fn view(source: &StoreSource, asked: &GraphOf) -> Result<Value, Failure> {
    let info = source.store().store().head(&asked.run).await?;
    let remote = source.remote(&asked.run);
    let first = info.head.saturating_sub(RECORDS_MAX - 1).max(info.oldest).max(1);
    let records: Vec<Checkpoint> = timeline::read(&remote, first, info.head).await?.into_iter().filter_map(Found::ok).collect();
    // A run with a damaged log has a drawing without its position.
    let view = remote.view().await.ok();
    let given = asked.graphs.as_deref().map(|text| deploy::parse(text, "the graphs")).transpose()?;
    let exports = given.as_deref().unwrap_or(source.exports());
    let (layout, is_observed, note) = match chosen(exports, &info) {
        Some(export) => {
            let is_same = export.graph.fingerprint == info.version.fingerprint;
            let note = format!("this is another version of the graph ({})", export.graph.fingerprint);
            (source.layouts().of(&export.graph), false, (!is_same).then_some(note))
        }
        None => {
            let seen = observed(&info, &records, view.as_ref())?;
            let note = "drawn from the last records, because the export of this graph is not known: nodes and edges that they \
                        do not show are missing";
            (Arc::new(layout_json(&seen.layout())), true, Some(note.to_string()))
        }
    };
    let (graph, fingerprint) = (info.graph.as_str(), info.version.fingerprint.as_str());
    let marks = marks(&records, view.as_ref());
    super::value_of(&GraphJson { graph, fingerprint, layout: &layout, marks, visited_from: first, is_observed, note })
}

/// Chooses the export of the graph of a run: of the same version, or at least of the same name.
fn chosen<'a>(exports: &'a [GraphExport], info: &RunInfo) -> Option<&'a GraphExport> {
    let of_name = || exports.iter().filter(|export| export.graph.name == info.graph);
    of_name().find(|export| export.graph.fingerprint == info.version.fingerprint).or_else(|| of_name().next())
}

impl Layouts {
    fn of(&self, graph: &Inspection) -> Arc<Value> {
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = kept().get(&graph.fingerprint).filter(|(known, _)| known == graph) {
            return Arc::clone(known);
        }
        let layout = Arc::new(layout_json(&graph.layout()));
        let mut kept = kept();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(graph.fingerprint.clone(), (graph.clone(), Arc::clone(&layout)));
        layout
    }
}

fn layout_json(layout: &GraphLayout) -> Value {
    let nodes = layout.nodes.iter().map(|node| {
        let kind = match node.id.as_str() {
            START => "start",
            END => "end",
            _ if node.is_subgraph => "subgraph",
            _ => "node",
        };
        json!({ "id": node.id, "label": node.label, "kind": kind, "x": node.x, "y": node.y, "width": node.width,
                "height": node.height })
    });
    let edges = layout.edges.iter().map(|edge| {
        let kind = match edge.kind {
            EdgeKind::Choice => "choice",
            EdgeKind::Fork => "fork",
            EdgeKind::Fallback => "fallback",
            _ => "plain",
        };
        json!({ "from": edge.from, "to": edge.to, "kind": kind, "label": null, "points": edge.points })
    });
    json!({ "width": layout.width, "height": layout.height, "nodes": nodes.collect::<Vec<_>>(),
            "edges": edges.collect::<Vec<_>>() })
}

/// Counts what the run did at each node.
fn marks(records: &[Checkpoint], view: Option<&RunView>) -> BTreeMap<String, Marks> {
    let mut marks: BTreeMap<String, Marks> = BTreeMap::new();
    for record in records.iter().filter(|record| matches!(record.kind, Kind::Step | Kind::Arrive)) {
        marks.entry(record.node.clone()).or_default().visited += 1;
    }
    let Some(view) = view else { return marks };
    let is_open = |outer: &TokenView| {
        view.tokens.iter().any(|inner| inner.branch.len() > outer.branch.len() && inner.branch.starts_with(&outer.branch))
    };
    for token in &view.tokens {
        let node = node_of(&token.at);
        match &token.at {
            // Its branches say where the run is.
            Place::Fork(_) if is_open(token) => {}
            Place::Failed(_) => marks.entry(node.to_string()).or_default().failed += 1,
            Place::End => {}
            _ if !token.waits.is_empty() => marks.entry(node.to_string()).or_default().waiting += 1,
            _ if !view.status.has_ended() => marks.entry(node.to_string()).or_default().current += 1,
            _ => {}
        }
    }
    if let Some(failure) = view.failure.as_ref().filter(|failure| failure.is_final && !failure.node.is_empty()) {
        let mark = marks.entry(failure.node.clone()).or_default();
        mark.failed = mark.failed.max(1);
    }
    marks
}

/// Builds a graph of the nodes and edges that records and tokens show.
fn observed(info: &RunInfo, records: &[Checkpoint], view: Option<&RunView>) -> Result<Inspection, Failure> {
    let mut nodes: Vec<String> = Vec::new();
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut add = |node: &str| {
        if !node.is_empty() && !nodes.iter().any(|known| known == node) {
            nodes.push(node.to_string());
        }
    };
    let by_number: HashMap<u64, &Checkpoint> = records.iter().map(|record| (record.sequence, record)).collect();
    let is_visit = |record: &Checkpoint| matches!(record.kind, Kind::Step | Kind::Arrive | Kind::Join);
    let mut connect = |from: &str, to: &str| {
        if !from.is_empty() && !to.is_empty() {
            edges.entry(from.to_string()).or_default().insert(to.to_string());
        }
    };
    for record in records {
        if let Some(Place::Node(next) | Place::Join(next)) = &record.next {
            add(&record.node);
            add(next);
            connect(&record.node, next);
        }
        if !is_visit(record) {
            continue;
        }
        add(&record.node);
        if matches!(record.next, Some(Place::End)) {
            connect(&record.node, END);
        }
        // The node before it had a router or a fan-out, whose choice only the next record shows.
        let before = by_number.get(&record.parent).filter(|before| is_visit(before));
        let is_open = |place: &Option<Place>| matches!(place, Some(Place::Router(_) | Place::Fork(_)));
        if let Some(before) = before.filter(|before| is_open(&before.next)) {
            connect(&before.node, &record.node);
        }
    }
    for token in view.into_iter().flat_map(|view| &view.tokens) {
        add(node_of(&token.at));
    }
    let leads_to = |node: &String| match edges.get(node).map(|targets| targets.iter().collect::<Vec<_>>()) {
        None => json!("nowhere"),
        Some(targets) if targets.len() == 1 => json!({ "next": targets[0] }),
        Some(targets) => json!({ "one_of": targets }),
    };
    let listed: Vec<Value> = nodes.iter().map(|node| json!({ "id": node, "leads_to": leads_to(node) })).collect();
    let entry = nodes.first().cloned().unwrap_or_default();
    let graph = json!({ "name": info.graph, "fingerprint": info.version.fingerprint, "entry": entry, "nodes": listed });
    serde_json::from_value(graph).map_err(|error| Failure::new("failed", format_args!("cannot draw the records: {error}")))
}
