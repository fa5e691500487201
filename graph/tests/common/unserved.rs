//! O8: runs of another graph version are reported by a worker, until another worker serves them.

use pleach_graph::store::{RunStatus, Store};
use pleach_graph::{CompiledGraph, END, Graph, RunFit, RunningWorker, Worker, WorkerEvent};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

fn graph(nodes: &[&str]) -> CompiledGraph<u32> {
    let mut graph = Graph::new("deployed").set_entry(nodes[0]);
    for (at, node) in nodes.iter().enumerate() {
        graph = graph.add_node(*node, |n: u32| async move { n + 1 });
        graph = graph.add_edge(*node, nodes.get(at + 1).copied().unwrap_or(END));
    }
    graph.compile().unwrap()
}

fn start(store: &(impl Store + Clone), graph: &CompiledGraph<u32>) -> (RunningWorker, UnboundedReceiver<WorkerEvent>) {
    let (send, events) = unbounded_channel();
    let worker = Worker::new(store).graph(graph).report_unserved_after(Duration::from_millis(50));
    let worker = worker.poll_every(Duration::from_millis(100)).on_event(move |event| drop(send.send(event.clone())));
    (worker.start().unwrap(), events)
}

/// Checks that a worker of a new version reports the runs of the old one.
pub async fn check_unserved(store: impl Store + Clone) {
    let (old, new) = (graph(&["one"]), graph(&["one", "two"]));
    for run in ["a", "b"] {
        old.run(1).id(run).checkpoint(&store).enqueue().await.unwrap();
    }
    new.run(1).id("new").checkpoint(&store).enqueue().await.unwrap();
    let (new_worker, mut events) = start(&store, &new);
    loop {
        match events.recv().await.expect("the worker reports the runs") {
            WorkerEvent::DeployChecked { report } => {
                assert_eq!(report.count(RunFit::UnknownFingerprint), 2, "{report}");
            }
            WorkerEvent::Unserved { runs } => {
                let ids: Vec<&str> = runs.overdue.iter().flat_map(|of| &of.runs).map(|run| run.id.as_str()).collect();
                assert_eq!(ids, ["a", "b"], "{runs}");
                assert_eq!((&new_worker.unserved(), runs.overdue[0].fit), (&runs, RunFit::UnknownFingerprint));
                break;
            }
            _ => {}
        }
    }
    let (old_worker, _) = start(&store, &old);
    while events.recv().await.expect("the episode ends") != WorkerEvent::AllServed {}
    for run in ["a", "b", "new"] {
        assert_eq!(store.head(run).await.unwrap().status, RunStatus::Finished);
    }
    new_worker.close(Duration::ZERO).await;
    old_worker.close(Duration::ZERO).await;
}
