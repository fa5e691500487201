//! `pleach graph render`: draws an exported graph, and marks the nodes of a run.

use crate::args::{DrawingKind, RenderArgs};
use crate::check::read_exports;
use crate::failure::{Failure, Status};
use crate::output::write_all;
use crate::runs::find;
use crate::store::{Access, Target};
use pleach::durable::{GraphExport, RunRemote, RunView};
use pleach::graph::{Inspection, NodeMark};
use pleach::store::{Kind, Place, RunInfo};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The marks of the nodes of a run, by node id.
type Marks = BTreeMap<String, NodeMark>;

/// The records that one call reads.
const PAGE: usize = 1_000;

pub async fn render(args: RenderArgs) -> Result<(), Failure> {
    let exports = read_exports(&args.file)?;
    let (marks, of_run) = match args.run.as_deref() {
        Some([store, run, ..]) => {
            let (info, marks) = marks(&Target::parse(store).map_err(Failure::usage)?, run).await?;
            (marks, Some(info))
        }
        _ => (Marks::new(), None),
    };
    let graph = &chosen(&exports, args.graph.as_deref(), of_run.as_ref())?.graph;
    write_all(&match args.output {
        DrawingKind::Svg => {
            let drawing = graph.drawing();
            marks.into_iter().fold(drawing, |drawing, (node, mark)| drawing.mark(node, mark)).to_svg()
        }
        DrawingKind::Mermaid => mermaid(graph, &marks),
        DrawingKind::Dot => dot(graph, &marks),
    })
}

/// Chooses the graph by name, or by the run, or because there is only one.
fn chosen<'a>(exports: &'a [GraphExport], name: Option<&str>, run: Option<&RunInfo>) -> Result<&'a GraphExport, Failure> {
    let names = || exports.iter().map(|export| format!("{:?}", export.graph.name)).collect::<Vec<_>>().join(", ");
    let missing = |name: &str| {
        Failure::new(Status::NotFound, format_args!("the file has no graph {name:?}"))
            .advice(format!("its graphs are: {}", names()))
    };
    let found = |name: &str| exports.iter().find(|export| export.graph.name == name).ok_or_else(|| missing(name));
    match (name, run, exports) {
        (Some(name), ..) => found(name),
        (None, Some(run), _) => found(&run.graph),
        (None, None, [only]) => Ok(only),
        (None, None, []) => Err(Failure::new(Status::NotFound, "the file has no graph")),
        _ => Err(Failure::usage(format_args!("the file has several graphs: {}", names())).advice("name one with --graph")),
    }
}

/// Reads which nodes a run has visited, where it is, and where it failed.
async fn marks(target: &Target, run: &str) -> Result<(RunInfo, Marks), Failure> {
    let store = target.open(Access::Read).await?;
    let info = find(&store, target, run).await?;
    let remote = RunRemote::new(&store, info.id.as_str());
    let (mut visits, mut next) = (BTreeMap::<String, u64>::new(), Some(1));
    while let Some(first) = next {
        let page = remote.history(first, PAGE).await?;
        for record in page.checkpoints.into_iter().filter(|record| matches!(record.kind, Kind::Step | Kind::Arrive)) {
            *visits.entry(record.node).or_default() += 1;
        }
        next = page.next;
    }
    let mut marks: Marks = visits.into_iter().map(|(node, count)| (node, NodeMark::Visited(count))).collect();
    mark_position(&mut marks, &remote.view().await?);
    Ok((info, marks))
}

fn mark_position(marks: &mut Marks, view: &RunView) {
    for token in &view.tokens {
        match &token.at {
            Place::Node(node) | Place::Router(node) | Place::Fork(node) => drop(marks.insert(node.clone(), NodeMark::Current)),
            Place::Failed(node) => drop(marks.insert(node.clone(), NodeMark::Failed)),
            _ => {}
        }
    }
    if let Some(failure) = view.failure.as_ref().filter(|failure| failure.is_final && !failure.node.is_empty()) {
        marks.insert(failure.node.clone(), NodeMark::Failed);
    }
}

/// Returns the class of a mark, its colour, and a note beside the name of the node.
fn look(mark: NodeMark) -> (&'static str, &'static str) {
    match mark {
        NodeMark::Current => ("current", "#ddf4ff"),
        NodeMark::Failed => ("failed", "#ffebe9"),
        _ => ("visited", "#dafbe1"),
    }
}

/// Calls `write` with the number of each marked node in the drawing.
fn each_marked(graph: &Inspection, marks: &Marks, mut write: impl FnMut(usize, NodeMark)) {
    for (number, node) in graph.nodes.iter().enumerate() {
        if let Some(mark) = marks.get(&node.id) {
            write(number, *mark);
        }
    }
}

fn mermaid(graph: &Inspection, marks: &Marks) -> String {
    let mut text = graph.to_mermaid();
    if !marks.is_empty() {
        for mark in [NodeMark::Visited(1), NodeMark::Current, NodeMark::Failed] {
            let (class, colour) = look(mark);
            let width = if class == "visited" { "1px" } else { "3px" };
            let _ = writeln!(text, "    classDef {class} fill:{colour},color:#1f2328,stroke-width:{width}");
        }
    }
    each_marked(graph, marks, |number, mark| {
        let _ = writeln!(text, "    class n{number} {}", look(mark).0);
    });
    text
}

fn dot(graph: &Inspection, marks: &Marks) -> String {
    let mut text = graph.to_dot();
    if let Some(end) = text.rfind('}') {
        text.truncate(end);
    }
    each_marked(graph, marks, |number, mark| {
        let (class, colour) = look(mark);
        let width = if class == "visited" { 1 } else { 3 };
        let _ = writeln!(text, "    n{number} [class={class}, style=filled, fillcolor=\"{colour}\", penwidth={width}];");
    });
    text.push_str("}\n");
    text
}
