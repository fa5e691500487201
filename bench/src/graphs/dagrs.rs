//! dagrs: nodes are tasks, with channels between them. A graph is built for each run, outside of
//! the timed part.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dagrs::{Action, Content, DefaultNode, EnvVar, Graph, InChannels, Node, NodeTable, OutChannels, Output};

use super::{Shape, State, step};
use crate::ground::Place;

struct Adding;

#[dagrs::async_trait::async_trait]
impl Action for Adding {
    async fn run(&self, inputs: &mut InChannels, outputs: &mut OutChannels, _env: Arc<EnvVar>) -> Output {
        let received = inputs.map(|content| content.ok().and_then(|content| content.into_inner::<State>())).await;
        let sum = received.into_iter().flatten().map(|state| state[0]).sum();
        let state = step([sum, 0]);
        outputs.broadcast(Content::new(state)).await;
        Output::Out(Some(Content::new(state)))
    }
}

fn graph(shape: Shape) -> Option<Graph> {
    let nodes = match shape {
        Shape::Line(nodes) => nodes,
        Shape::FanOut8 => 10,
        Shape::LineWithContext(_) | Shape::Loop(_) | Shape::Sleeps(_) => return None,
    };
    let (mut graph, mut table) = (Graph::new(), NodeTable::new());
    let mut ids = Vec::with_capacity(nodes);
    for at in 0..nodes {
        let node = DefaultNode::with_action(format!("node-{at}"), Adding, &mut table);
        ids.push(node.id());
        graph.add_node(node).expect("ids differ");
    }
    if shape == Shape::FanOut8 {
        graph.add_edge(ids[0], ids[1..9].to_vec()).expect("the nodes exist");
        ids[1..9].iter().for_each(|branch| graph.add_edge(*branch, vec![ids[9]]).expect("the nodes exist"));
    } else {
        ids.windows(2).for_each(|pair| graph.add_edge(pair[0], vec![pair[1]]).expect("the nodes exist"));
    }
    graph.set_env(EnvVar::new(table));
    Some(graph)
}

pub fn run(place: Place, shape: Shape, runs: u64) -> Option<Duration> {
    graph(shape)?;
    Some(place.run(async move {
        let mut took = Duration::ZERO;
        for _ in 0..runs {
            let mut graph = graph(shape).expect("the graph was made once before");
            let start = Instant::now();
            graph.async_start().await.expect("no node fails");
            took += start.elapsed();
        }
        took
    }))
}
