//! rust-langgraph: a port of LangGraph. Its nodes run in super-steps.

use std::hint::black_box;
use std::time::Duration;

use rust_langgraph::{Config, Error, State as Merged, StateGraph};
use serde::{Deserialize, Serialize};

use super::{Shape, step};
use crate::ground::{Place, timed};

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Numbers([u64; 2]);

impl Merged for Numbers {
    fn merge(&mut self, other: Self) -> Result<(), Error> {
        *self = other;
        Ok(())
    }
}

pub fn run(place: Place, shape: Shape, runs: u64) -> Option<Duration> {
    let mut graph = StateGraph::new();
    let mut add = |name: &str| {
        graph.add_node(name, |state: Numbers, _config: &Config| async move { Ok(Numbers(step(state.0))) });
    };
    let nodes = match shape {
        Shape::Line(nodes) => nodes,
        Shape::FanOut8 => 10,
        Shape::LineWithContext(_) | Shape::Loop(_) | Shape::Sleeps(_) => return None,
    };
    (0..nodes).for_each(|at| add(&format!("node-{at}")));
    let id = |at: usize| format!("node-{at}");
    if shape == Shape::FanOut8 {
        for branch in 1..9 {
            graph.add_edge(id(0), id(branch)).add_edge(id(branch), id(9));
        }
    } else {
        for at in 1..nodes {
            graph.add_edge(id(at - 1), id(at));
        }
    }
    graph.set_entry_point(id(0)).set_finish_point(id(nodes - 1));
    let mut app = graph.compile(None).expect("the graph is sound");
    Some(place.run(timed(async move {
        for _ in 0..runs {
            let config = Config::default().with_recursion_limit(1_000);
            black_box(app.invoke(Numbers([0, 0]), config).await.expect("no node fails"));
        }
    })))
}
