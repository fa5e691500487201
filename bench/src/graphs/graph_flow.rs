//! graph-flow: tasks that share a context of JSON values.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use graph_flow::fanout::FanOutTask;
use graph_flow::{Context, Graph, GraphBuilder, NextAction, Session, Task, TaskResult};

use super::{Shape, step};
use crate::ground::{Place, timed};

/// Adds one to the number in the context. A branch uses its own key.
struct Adding {
    id: String,
    key: String,
    next: NextAction,
}

#[async_trait]
impl Task for Adding {
    fn id(&self) -> &str {
        &self.id
    }

    async fn run(&self, context: Context) -> graph_flow::Result<TaskResult> {
        let state = context.get(&self.key).unwrap_or([0, 0]);
        context.set(self.key.as_str(), step(state))?;
        Ok(TaskResult::new(None, self.next.clone()))
    }
}

fn adding(id: usize, key: &str, next: NextAction) -> Arc<Adding> {
    Arc::new(Adding { id: format!("node-{id}"), key: key.into(), next })
}

fn line(nodes: usize) -> GraphBuilder {
    let mut graph = GraphBuilder::new("line");
    for at in 0..nodes {
        let next = if at + 1 < nodes { NextAction::ContinueAndExecute } else { NextAction::End };
        graph = graph.add_task(adding(at, "state", next));
        if at > 0 {
            graph = graph.add_edge(format!("node-{}", at - 1), format!("node-{at}"));
        }
    }
    graph
}

fn graph(shape: Shape) -> Option<Graph> {
    let graph = match shape {
        Shape::Line(nodes) => line(nodes),
        Shape::LineWithContext(_) | Shape::Sleeps(_) => return None,
        Shape::Loop(turns) => {
            let loops = move |context: &Context| context.get::<[u64; 2]>("state").is_some_and(|state| state[0] < turns);
            GraphBuilder::new("loop")
                .add_task(adding(0, "state", NextAction::ContinueAndExecute))
                .add_task(adding(1, "end", NextAction::End))
                .add_conditional_edge("node-0", loops, "node-0", "node-1")
        }
        Shape::FanOut8 => {
            let branches = (1..9).map(|n| adding(n, &format!("branch-{n}"), NextAction::End) as Arc<dyn Task>).collect();
            GraphBuilder::new("fan-out")
                .add_task(adding(0, "state", NextAction::ContinueAndExecute))
                .add_task(FanOutTask::new("fan", branches).with_next_action(NextAction::ContinueAndExecute))
                .add_task(adding(9, "state", NextAction::End))
                .add_edge("node-0", "fan")
                .add_edge("fan", "node-9")
        }
    };
    Some(graph.build().expect("the graph is sound"))
}

pub fn run(place: Place, shape: Shape, runs: u64) -> Option<Duration> {
    let graph = graph(shape)?;
    Some(place.run(timed(async move {
        for _ in 0..runs {
            let mut session = Session::new_from_task("session".into(), "node-0");
            black_box(graph.execute_session(&mut session).await.expect("no task fails"));
        }
    })))
}
