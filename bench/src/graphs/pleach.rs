//! pleach: state graphs.

use std::convert::Infallible;
use std::hint::black_box;
use std::time::{Duration, Instant};

use pleach::graph::NodeContext;
use pleach::{CompiledGraph, END, Graph};

use super::{NAP, Shape, State, step};
use crate::counting;
use crate::ground::{Place, timed};

async fn node(state: State) -> Result<State, Infallible> {
    Ok(step(state))
}

async fn node_with_context(cx: NodeContext, state: State) -> Result<State, Infallible> {
    black_box(cx.attempt());
    Ok(step(state))
}

fn id(node: usize, of: usize) -> String {
    if node < of { format!("node-{node}") } else { END.to_string() }
}

fn line(nodes: usize, with_context: bool) -> Graph<State> {
    let mut graph = Graph::new("line").set_entry(id(0, nodes));
    for at in 0..nodes {
        graph =
            if with_context { graph.add_node(id(at, nodes), node_with_context) } else { graph.add_node(id(at, nodes), node) };
        graph = graph.add_edge(id(at, nodes), id(at + 1, nodes));
    }
    graph
}

fn sum(_before: State, branches: Vec<State>) -> State {
    [branches.into_iter().map(|state| state[0]).sum(), 0]
}

fn fan_out8() -> Graph<State> {
    let heads: Vec<String> = (0..8).map(|branch| format!("branch-{branch}")).collect();
    let mut graph = Graph::new("fan-out").add_node("split", node).add_node("join", node).set_entry("split");
    for head in &heads {
        graph = graph.add_node(head, node).add_edge(head, "join");
    }
    graph.add_parallel_edge("split", heads, "join", sum).add_edge("join", END)
}

fn sleeps(branches: usize) -> Graph<State> {
    let sleep = |state: State| async move {
        tokio::time::sleep(NAP).await;
        Ok::<_, Infallible>(step(state))
    };
    Graph::new("sleeps")
        .add_node("split", node)
        .add_node("sleep", sleep)
        .map("split", move |state: &State| vec![*state; branches], "sleep", END, sum)
        .add_edge("sleep", END)
        .set_entry("split")
}

/// Measures the heap of a compiled graph with `levels` nested graphs.
pub fn nested_heap(levels: u64) -> i64 {
    counting::start();
    let mut graph = line(1, false).compile().expect("the graph is sound");
    for _ in 1..levels {
        let outer = Graph::new("level").add_subgraph("inner", graph, |state: &State| *state, |_: State, state: State| state);
        graph = outer.add_edge("inner", END).set_entry("inner").compile().expect("the graph is sound");
    }
    let heap = counting::stop().live_bytes;
    drop(graph);
    heap
}

fn graph(shape: Shape) -> CompiledGraph<State> {
    let graph = match shape {
        Shape::Line(nodes) => line(nodes, false),
        Shape::LineWithContext(nodes) => line(nodes, true),
        Shape::Loop(turns) => Graph::new("loop")
            .add_node("turn", node)
            .add_conditional_edge("turn", ["turn", END], move |state: &State| if state[0] < turns { "turn" } else { END })
            .set_entry("turn"),
        Shape::FanOut8 => fan_out8(),
        Shape::Sleeps(branches) => sleeps(branches),
    };
    graph.compile().expect("the graph is sound")
}

pub fn run(place: Place, shape: Shape, runs: u64) -> Option<Duration> {
    let graph = graph(shape);
    Some(place.run(timed(async move {
        for _ in 0..runs {
            black_box(graph.run([0, 0]).max_iterations(1_000_000).await.expect("no node fails"));
        }
    })))
}

/// Compiles graphs of `nodes` nodes, each with a choice of three edges.
pub fn compile(nodes: usize, times: u64) -> Duration {
    let draft = || {
        let mut graph = Graph::<State>::new("large").set_entry(id(0, nodes));
        for at in 0..nodes {
            let targets = [1, 2, 7].map(|by| id(at + by, nodes));
            graph = graph.add_node(id(at, nodes), node).add_conditional_edge(id(at, nodes), targets, |_: &State| END);
        }
        graph
    };
    let mut took = Duration::ZERO;
    for _ in 0..times {
        let draft = draft();
        let start = Instant::now();
        let graph = draft.compile().expect("the graph is sound");
        took += start.elapsed();
        black_box(graph);
    }
    took
}
