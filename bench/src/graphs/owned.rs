//! The same graphs over a small state that owns heap memory: a number and a text. A node adds one
//! to the number and passes the text on.
//!
//! A state without heap memory can be copied where it should be moved, and no figure shows it. This
//! one also shows what a run costs beside its nodes, because each run starts with a new text.

use std::convert::Infallible;
use std::future::Future;
use std::hint::black_box;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use pleach::{CompiledGraph, END, Graph};

use crate::ground::{Place, timed};

/// The state that goes through every graph of this file.
#[derive(Clone)]
struct State {
    count: u64,
    text: String,
}

impl State {
    fn new() -> Self {
        Self { count: 0, text: String::from("a small text") }
    }
}

fn step(mut state: State) -> State {
    state.count = black_box(state.count + 1);
    state
}

/// Sums the counts of the branches, and keeps the text from before.
fn sum(before: State, branches: Vec<State>) -> State {
    State { count: branches.iter().map(|state| state.count).sum(), text: before.text }
}

/// The shapes of graphs that are run.
#[derive(Clone, Copy)]
pub enum Shape {
    /// This many nodes in a line.
    Line(usize),
    /// One node that a conditional edge returns to this many times.
    Loop(u64),
    /// One node, eight parallel nodes whose states are merged, one node.
    FanOut8,
}

type Stepping = Pin<Box<dyn Future<Output = io::Result<State>> + Send>>;
type Step = Box<dyn Fn(State) -> Stepping + Send + Sync>;

fn steps(count: usize) -> Vec<Step> {
    (0..count).map(|_| Box::new(|state| -> Stepping { Box::pin(async move { Ok(step(state)) }) }) as Step).collect()
}

/// Runs the floor: a `Vec` of boxed async fns awaited in turn, and `join_all`.
pub fn boxed(place: Place, shape: Shape, runs: u64) -> Duration {
    let steps = steps(match shape {
        Shape::Line(nodes) => nodes,
        Shape::Loop(_) => 1,
        Shape::FanOut8 => 10,
    });
    place.run(timed(async move {
        for _ in 0..runs {
            black_box(boxed_run(&steps, shape).await.expect("a step does not fail"));
        }
    }))
}

async fn boxed_run(steps: &[Step], shape: Shape) -> io::Result<State> {
    let mut state = State::new();
    match shape {
        Shape::Line(_) => {
            for step in steps {
                state = step(state).await?;
            }
        }
        Shape::Loop(turns) => {
            while state.count < turns {
                state = steps[0](state).await?;
            }
        }
        Shape::FanOut8 => {
            state = steps[0](state).await?;
            let branches = futures::future::join_all(steps[1..9].iter().map(|step| step(state.clone()))).await;
            state = steps[9](sum(state, branches.into_iter().collect::<io::Result<_>>()?)).await?;
        }
    }
    Ok(state)
}

async fn node(state: State) -> Result<State, Infallible> {
    Ok(step(state))
}

fn line(nodes: usize) -> Graph<State> {
    let id = |at: usize| if at < nodes { format!("node-{at}") } else { END.to_string() };
    let nodes = (0..nodes).map(|at| (id(at), id(at + 1)));
    nodes.fold(Graph::new("line").set_entry(id(0)), |graph, (at, next)| graph.add_node(at.clone(), node).add_edge(at, next))
}

fn fan_out8() -> Graph<State> {
    let heads: Vec<String> = (0..8).map(|branch| format!("branch-{branch}")).collect();
    let graph = Graph::new("fan-out").add_node("split", node).add_node("join", node).set_entry("split");
    let graph = heads.iter().fold(graph, |graph, head| graph.add_node(head, node).add_edge(head, "join"));
    graph.add_parallel_edge("split", heads, "join", sum).add_edge("join", END)
}

fn graph(shape: Shape) -> CompiledGraph<State> {
    let graph = match shape {
        Shape::Line(nodes) => line(nodes),
        Shape::Loop(turns) => Graph::new("loop")
            .add_node("turn", node)
            .add_conditional_edge("turn", ["turn", END], move |state: &State| if state.count < turns { "turn" } else { END })
            .set_entry("turn"),
        Shape::FanOut8 => fan_out8(),
    };
    graph.compile().expect("the graph is sound")
}

/// Runs pleach.
pub fn pleach(place: Place, shape: Shape, runs: u64) -> Duration {
    let graph = graph(shape);
    place.run(timed(async move {
        for _ in 0..runs {
            black_box(graph.run(State::new()).max_iterations(1_000_000).await.expect("no node fails"));
        }
    }))
}
